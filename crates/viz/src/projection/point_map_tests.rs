//! Points that are placed in a map: rows get their own coordinates.
#![allow(clippy::unwrap_used)]

use conifer_geometry::random::SplitMix;
use conifer_geometry::{ManifoldSpec, Root, space};

use super::*;
use crate::PoincareDisc;

const LEN: usize = 30;

/// Points of a space, from tangent vectors of length up to 2.
fn points(spec: &ManifoldSpec) -> Vec<f32> {
    let geometry = space::<f32>(spec).unwrap();
    let mut random = SplitMix::new(7);
    let mut points = vec![0.0; LEN * spec.dim];
    for point in points.chunks_exact_mut(spec.dim) {
        let tangent: Vec<f32> = (0..spec.dim).map(|_| 4.0 * random.uniform() as f32 - 2.0).collect();
        geometry.lift(&tangent, point);
    }
    points
}

#[test]
fn rows_get_their_coordinates_bit_for_bit() {
    let pairs = PairSample::new(LEN, 1000, 0);
    for entry in &conifer_geometry::SPACES {
        for spec in (entry.sample)(6) {
            let points = points(&spec);
            let row = |i: usize| points[i * spec.dim..(i + 1) * spec.dim].into();
            for root in [Root::Origin, Root::Point(crate::disc::wide(&points[..spec.dim]))] {
                let mut maps = Vec::new();
                if root.check(&spec).is_err() {
                    continue;
                }
                if let Ok(found) = tangent_pca(&spec, &root, 3, &pairs, row) {
                    maps.push((found.coordinates, PointMap::Tangent { axes: found.axes }));
                }
                let disc = PoincareDisc::new(&spec, &root, LEN, row).unwrap();
                let map = disc.map(LEN, row, LEN);
                let both = map.x.iter().zip(&map.y).flat_map(|(x, y)| [*x, *y]).collect();
                maps.push((both, disc.point_map()));
                for center in [ProjectionCenter::Mean, ProjectionCenter::Root] {
                    let Ok(rows) = HyperbolicRows::of_factor(&spec, &root, None, LEN, row) else { continue };
                    let rows = rows.centred(center);
                    let dim = rows.dim().min(2);
                    let (center, axes) =
                        (rows.center().to_vec(), TangentPca::of_hyperboloid(&rows, dim, &pairs).unwrap());
                    let map = PointMap::TangentHyperboloid { center: center.clone(), axes: axes.axes };
                    maps.push((axes.coordinates, map));
                    let settings = HoroSettings { dim, steps: 5, start: None };
                    let horo = HoroPca::fit(&rows, &settings, &pairs, &mut |_, _| true).unwrap();
                    maps.push((horo.ball(), PointMap::Horospherical { center, directions: horo.directions }));
                }
                for (coordinates, map) in &maps {
                    let dim = coordinates.len() / LEN;
                    for (i, expected) in coordinates.chunks_exact(dim).enumerate() {
                        assert_eq!(map.place(&spec, &root, &row(i)).unwrap(), expected, "{spec} {map:?}");
                    }
                    assert!(map.place(&spec, &root, &vec![f32::NAN; spec.dim]).is_err());
                    let other = ManifoldSpec::euclidean(spec.dim + 1);
                    let error = map.place(&other, &Root::Origin, &vec![0.1; spec.dim + 1]).unwrap_err().to_string();
                    assert!(error.contains(&format!("map: {} dimensions", spec.dim)), "{error}");
                }
                assert!(maps.len() >= 2 || spec.dim < 3, "{spec}");
            }
        }
    }
}

#[test]
fn a_point_is_placed_between_its_neighbours() {
    for target in [UmapTarget::Plane, UmapTarget::Disc] {
        let place = |list: &[([f64; 2], f64)]| place_by_neighbours(target, list);
        let near = [([0.2, 0.1], 0.5), ([0.4, 0.1], 0.5), ([-0.5, 0.3], 90.0)];
        let found = place(&near).unwrap();
        assert!((found[0] - 0.3).abs() < 0.02 && (found[1] - 0.1).abs() < 0.02, "{target:?}: {found:?}");
        // A point that coincides with rows is placed at these rows.
        let found = place(&[([0.2, 0.1], 0.0), ([0.4, 0.5], 0.1)]).unwrap();
        assert!((found[0] - 0.2).hypot(found[1] - 0.1) < 1e-9, "{target:?}: {found:?}");
        assert!(place(&[]).is_err());
        assert!(place(&[([0.1, 0.1], f64::NAN)]).is_err() && place(&[([0.1, 0.1], -1.0)]).is_err());
        assert!(place(&[([0.1, 0.1], 2.0), ([0.1, 0.1], 1.0)]).is_err());
        assert!(place(&[([f64::NAN, 0.1], 2.0)]).is_err());
    }
    assert!(place_by_neighbours(UmapTarget::Disc, &[([0.8, 0.8], 1.0)]).is_err());
}
