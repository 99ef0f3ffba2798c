#![allow(clippy::unwrap_used)]

use conifer_embeddings::{EmbeddingSet, Modality, Provenance};
use conifer_geometry::ManifoldSpec;

use super::*;
use crate::testing::{cloud, random_points};

fn index(spec: &ManifoldSpec, root: Root, points: Vec<f32>) -> FlatIndex {
    let count = points.len() / spec.dim;
    let ids = (0..count).map(|i| i.to_string()).collect();
    let modality = vec![Modality::Text; count];
    let set = EmbeddingSet::new(spec.clone(), root, ids, modality, points, Provenance::default());
    FlatIndex::new(&set.unwrap()).unwrap()
}

/// Points of the hyperbolic plane (c = 1) from polar coordinates: distance `r` from the origin and direction `angle`.
fn polar(places: &[(f32, f32)]) -> Vec<f32> {
    places.iter().flat_map(|(r, angle)| [r.sinh() * angle.cos(), r.sinh() * angle.sin()]).collect()
}

fn places(stops: &[Stop]) -> Vec<(StopPlace, f32)> {
    stops.iter().map(|stop| (stop.place, stop.at)).collect()
}

fn plane() -> ManifoldSpec {
    ManifoldSpec::lorentz(2, 1.0)
}

/// Four rows on the ray of the query at r = 2.95, 1.95, 0.95 and 0.45, and one next to the ray whose cone does not
/// contain it. With 17 steps the samples are at r = 3.2, 3.0, .. 0.2, 0.
const LADDER: [(f32, f32); 5] = [(0.95, 0.0), (2.95, 0.0), (0.45, 0.0), (1.95, 0.0), (2.5, 0.5)];

/// The cone of a row contains exactly the points beyond it on the ray, so a row is the nearest until the sample is
/// nearer to the origin than the row: row 1 (2.95) until 3.0, row 3 (1.95) from 2.8 = step 2, row 0 (0.95) from 1.8 =
/// step 7, row 2 (0.45) from 0.8 = step 12. Below 0.45 only the root is left, from 0.4 = step 14.
#[test]
fn to_the_root_through_cones() {
    let index = index(&plane(), Root::Origin, polar(&LADDER));
    let from = polar(&[(3.2, 0.0)]);
    let traversal = Traversal { steps: 17, ..Traversal::default() };
    let stops = index.traverse_to_root(&Query::new(&plane(), &from), &traversal, &Filter::All).unwrap();
    let expected = [
        (StopPlace::Row(1), 0.0),
        (StopPlace::Row(3), 2.0 / 16.0),
        (StopPlace::Row(0), 7.0 / 16.0),
        (StopPlace::Row(2), 12.0 / 16.0),
        (StopPlace::Root, 14.0 / 16.0),
    ];
    assert_eq!(places(&stops), expected);
    assert!((stops[0].similarity + 0.25).abs() < 1e-5, "3.2 to 2.95: {:?}", stops[0]);
    assert!((stops[4].similarity + 0.4).abs() < 1e-5, "0.4 to the root: {:?}", stops[4]);
}

/// Without cones the nearest row changes at the midpoint between two rows: 2.45 (first sample below: 2.4 = step 4),
/// 1.45 (1.4 = step 9), 0.7 (0.6 = step 13), and 0.225 to the root (0.2 = step 15). The row next to the ray, at r = 2.5
/// and 0.5 radians, is at a distance of 2 asinh(sinh(2.5) sin(0.25)) = 2.4 from the point of the ray with the same r,
/// so it is never the nearest.
#[test]
fn to_the_root_without_cones() {
    let index = index(&plane(), Root::Origin, polar(&LADDER));
    let from = polar(&[(3.2, 0.0)]);
    let traversal = Traversal { steps: 17, cone: None, ..Traversal::default() };
    let stops = index.traverse_to_root(&Query::new(&plane(), &from), &traversal, &Filter::All).unwrap();
    let expected = [
        (StopPlace::Row(1), 0.0),
        (StopPlace::Row(3), 4.0 / 16.0),
        (StopPlace::Row(0), 9.0 / 16.0),
        (StopPlace::Row(2), 13.0 / 16.0),
        (StopPlace::Root, 15.0 / 16.0),
    ];
    assert_eq!(places(&stops), expected);
    let only_row_three = Filter::Rows(&|row| row == 3);
    let stops = index.traverse_to_root(&Query::new(&plane(), &from), &traversal, &only_row_three).unwrap();
    // The midpoint between 1.95 and the root is 0.975; the first sample below it is 0.8 = step 12.
    assert_eq!(places(&stops), [(StopPlace::Row(3), 0.0), (StopPlace::Root, 12.0 / 16.0)]);
}

/// The same rows in a product of two planes with equal factors, where a distance is the mean of two equal distances.
#[test]
fn to_the_root_of_a_product() {
    let spec = ManifoldSpec::product_l1(2, 2, vec![1.0, 1.0]);
    let double = |points: Vec<f32>| points.chunks_exact(2).flat_map(|p| [p, p].concat()).collect::<Vec<f32>>();
    let index = index(&spec, Root::Origin, double(polar(&LADDER)));
    let from = double(polar(&[(3.2, 0.0)]));
    let traversal = Traversal { steps: 17, ..Traversal::default() };
    let stops = index.traverse_to_root(&Query::new(&spec, &from), &traversal, &Filter::All).unwrap();
    let rows: Vec<StopPlace> = stops.iter().map(|stop| stop.place).collect();
    assert_eq!(rows, [StopPlace::Row(1), StopPlace::Row(3), StopPlace::Row(0), StopPlace::Row(2), StopPlace::Root]);
}

/// The nearest 200 rows are beyond the sample and cannot contain it. The 201st, at r = 1.2, contains it (the distance
/// from 2.0 to 1.2 is less than that to the root). Without that row, the root is the first stop.
#[test]
fn finds_an_admitted_row_behind_many_others() {
    let mut ladder: Vec<(f32, f32)> = (0..200).map(|i| (2.1 + 0.001 * i as f32, 0.0)).collect();
    let from = polar(&[(2.0, 0.0)]);
    let traversal = Traversal { steps: 2, ..Traversal::default() };
    let walk = |ladder: &[(f32, f32)]| {
        let index = index(&plane(), Root::Origin, polar(ladder));
        let stops = index.traverse_to_root(&Query::new(&plane(), &from), &traversal, &Filter::All).unwrap();
        places(&stops)
    };
    assert_eq!(walk(&ladder), [(StopPlace::Root, 0.0)]);
    ladder.push((1.2, 0.0));
    assert_eq!(walk(&ladder), [(StopPlace::Row(200), 0.0), (StopPlace::Root, 1.0)]);
}

/// Compares with a test of every row at every sample. The cones are narrow, so they admit few rows, which are seldom
/// near. The cases include a filter and duplicate rows.
#[test]
fn equals_a_test_of_every_row() {
    let (spec, odd) = (ManifoldSpec::lorentz(2, 1.0), |row: usize| row % 2 == 1);
    let rows = cloud(&spec, 1500, 4);
    let index = index(&spec, Root::Origin, rows.clone());
    let space = conifer_geometry::space::<f32>(&spec).unwrap();
    let (mut named, mut beyond) = (0, 0);
    for (seed, aperture_scale) in [(1, 0.003), (2, 0.01), (3, 0.02), (4, 0.02), (5, 0.05), (6, 1.0)] {
        let ends = random_points(&spec, 2, seed);
        let (from, to) = ends.split_at(2);
        let cone = Cone { min_radius: 0.1, aperture_scale };
        let traversal = Traversal { steps: 20, cone: Some(cone), ..Traversal::default() };
        let (from_query, to_query) = (Query::new(&spec, from), Query::new(&spec, to));
        let steps = index.steps_between(&from_query, &to_query, &traversal, &Filter::Rows(&odd)).unwrap();
        for (i, step) in steps.iter().enumerate() {
            let mut point = [0.0; 2];
            space.geodesic(from, to, i as f32 / 19.0, &mut point);
            let mut sorted: Vec<(usize, f32)> = rows
                .chunks_exact(2)
                .map(|row| space.similarity(&point, row))
                .enumerate()
                .filter(|(row, _)| odd(*row))
                .collect();
            sorted.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
            let row = |row: usize| &rows[row * 2..row * 2 + 2];
            let admitted =
                |(at, _): &(usize, f32)| space.cone_excess(row(*at), &point, 0.1, aperture_scale, &Root::Origin) <= 0.0;
            let expected = sorted.iter().position(admitted);
            named += usize::from(expected.is_some());
            beyond += usize::from(expected.is_some_and(|place| place >= 64));
            assert_eq!(
                step.nearest.map(|hit| (hit.row, hit.score)),
                expected.map(|place| sorted[place]),
                "{i}, {aperture_scale}"
            );
        }
    }
    assert!(named > 20 && beyond > 5, "{named} named, {beyond} of them not among the 64 nearest rows");
}

/// Samples a quarter of the circle at four points. There is a row at each of them, every 30 degrees, and one row that
/// is not on the path.
#[test]
fn between_two_points_of_the_sphere() {
    let spec = ManifoldSpec::sphere(2);
    let at = |degrees: f32| [degrees.to_radians().cos(), degrees.to_radians().sin()];
    let index = index(&spec, Root::Origin, [60.0, 0.0, 90.0, 30.0, 200.0].iter().flat_map(|d| at(*d)).collect());
    let traversal = Traversal { steps: 4, cone: None, ..Traversal::default() };
    let (from, to) = (at(1.0), at(91.0));
    let (from, to) = (Query::new(&spec, &from), Query::new(&spec, &to));
    let stops = index.traverse_between(&from, &to, &traversal, &Filter::All).unwrap();
    let expected = [(1, 0.0), (3, 1.0 / 3.0), (0, 2.0 / 3.0), (2, 1.0)].map(|(row, t)| (StopPlace::Row(row), t));
    assert_eq!(places(&stops), expected);
    assert!(stops.iter().all(|s| (s.similarity - 1.0_f32.to_radians().cos()).abs() < 1e-6));
}

/// On the sphere the root is a point: from 90 degrees down to the root at 0, with rows at 80 and 20.
#[test]
fn to_a_root_point_on_the_sphere() {
    let spec = ManifoldSpec::sphere(2);
    let at = |degrees: f32| [degrees.to_radians().cos(), degrees.to_radians().sin()];
    let rows: Vec<f32> = [80.0, 20.0].iter().flat_map(|d| at(*d)).collect();
    let start = at(90.0);
    let from = Query::new(&spec, &start);
    let traversal = Traversal { steps: 10, cone: None, ..Traversal::default() };
    let rooted = index(&spec, Root::Point(vec![1.0, 0.0]), rows.clone());
    let stops = rooted.traverse_to_root(&from, &traversal, &Filter::All).unwrap();
    // The samples are at 90, 80, .. 0. The first row is nearer above 50, the second below, and the root at the end.
    assert_eq!(
        stops.iter().map(|s| s.place).collect::<Vec<_>>(),
        [StopPlace::Row(0), StopPlace::Row(1), StopPlace::Root]
    );
    let unrooted = index(&spec, Root::Origin, rows);
    let message = unrooted.traverse_to_root(&from, &traversal, &Filter::All).unwrap_err().to_string();
    assert_eq!(
        message,
        "search: the root of the index is not a point of the space; expected a root on the sphere(dim 2) to walk to"
    );
}

#[test]
fn an_empty_index_leads_straight_to_the_root() {
    let index = index(&plane(), Root::Origin, vec![]);
    let (spec, point) = (plane(), polar(&[(1.0, 0.0)]));
    let query = Query::new(&spec, &point);
    for cone in [None, Some(Cone::default())] {
        let traversal = Traversal { steps: 5, cone, ..Traversal::default() };
        let stops = index.traverse_to_root(&query, &traversal, &Filter::All).unwrap();
        assert_eq!(places(&stops), [(StopPlace::Root, 0.0)]);
        assert!(index.traverse_between(&query, &query, &traversal, &Filter::All).unwrap().is_empty());
    }
}

#[test]
fn invalid_traversals_have_a_message() {
    let spec = plane();
    let index = index(&spec, Root::Origin, polar(&LADDER));
    let two = polar(&[(1.0, 0.0), (2.0, 0.0)]);
    let message = |points: &[f32], steps| {
        let traversal = Traversal { steps, ..Traversal::default() };
        let stops = index.traverse_to_root(&Query::new(&spec, points), &traversal, &Filter::All);
        stops.unwrap_err().to_string()
    };
    assert_eq!(message(&two, 50), "search: the start of a traversal is 2 points; expected one point");
    assert_eq!(message(&[], 50), "search: the start of a traversal is 0 points; expected one point");
    assert_eq!(message(&two[..2], 1), "search: `steps` of a traversal is 1; expected at least 2");
    let other = Query::new(&spec, &two[..2]);
    let end = index.traverse_between(&other, &Query::new(&spec, &two), &Traversal::default(), &Filter::All);
    assert!(end.unwrap_err().to_string().contains("the end of a traversal is 2 points"));
}

/// Rows at the midpoints of the two paths: the geodesic between orthogonal points of rapidity 2 comes to a depth of
/// 0.83 (cosh 2 / cosh (d / 2)), the tangent line to 1.41 (the square root of 2). Both rows are in the direction of
/// the diagonal.
#[test]
fn the_tangent_line_stays_farther_from_the_origin_than_the_geodesic() {
    let diagonal = std::f32::consts::FRAC_PI_4;
    let index =
        index(&plane(), Root::Origin, polar(&[(2.0, 0.0), (0.83, diagonal), (1.414, diagonal), (2.0, 2.0 * diagonal)]));
    let ends = polar(&[(2.0, 0.0), (2.0, 2.0 * diagonal)]);
    let spec = plane();
    let (from, to) = (Query::new(&spec, &ends[..2]), Query::new(&spec, &ends[2..]));
    let walk = |path| {
        let traversal = Traversal { steps: 3, path, ..Traversal::interpolation() };
        places(&index.traverse_between(&from, &to, &traversal, &Filter::All).unwrap())
    };
    let by_way_of = |row| [(StopPlace::Row(0), 0.0), (StopPlace::Row(row), 0.5), (StopPlace::Row(3), 1.0)];
    assert_eq!(walk(PathKind::Geodesic), by_way_of(1));
    assert_eq!(walk(PathKind::Tangent), by_way_of(2));
    // To the origin, both paths are the same.
    let to_root = |path| {
        let traversal = Traversal { path, ..Traversal::default() };
        places(&index.traverse_to_root(&from, &traversal, &Filter::All).unwrap())
    };
    assert_eq!(to_root(PathKind::Tangent), to_root(PathKind::Geodesic));
}

#[test]
fn a_tangent_path_between_opposite_points_of_the_sphere_is_refused() {
    let spec = ManifoldSpec::sphere(2);
    let index = index(&spec, Root::Origin, vec![0.0, 1.0]);
    let (from, to) = (Query::new(&spec, &[1.0, 0.0]), Query::new(&spec, &[-1.0, 0.0]));
    let traversal = Traversal { steps: 3, ..Traversal::interpolation() };
    let message = index.traverse_between(&from, &to, &traversal, &Filter::All).unwrap_err().to_string();
    assert_eq!(
        message,
        "search: the tangent path at 0.5 is not a point of the space; expected two points that are not opposite, or the geodesic path"
    );
    let geodesic = Traversal { path: PathKind::Geodesic, ..traversal };
    assert_eq!(index.traverse_between(&from, &to, &geodesic, &Filter::All).unwrap().len(), 1);
}
