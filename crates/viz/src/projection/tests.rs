#![allow(clippy::unwrap_used)]

use std::borrow::Cow;

use conifer_geometry::random::SplitMix;
use conifer_geometry::{ManifoldSpec, Root};

use super::horopca::{HoroObjective, horospherical};
use super::hyperbolic_rows::{to_ball, unit_dist};
use super::*;
use crate::disc::boosted;

/// Points with random space components between `-reach` and `reach`.
pub(super) fn cloud(len: usize, dim: usize, reach: f64, seed: u64) -> Vec<f64> {
    let mut random = SplitMix::new(seed);
    (0..len * dim).map(|_| reach * (2.0 * random.uniform() - 1.0)).collect()
}

pub(super) fn rows(dim: usize, points: Vec<f64>) -> HyperbolicRows {
    HyperbolicRows::from_unit(dim, points).unwrap()
}

fn go(_: usize, _: usize) -> bool {
    true
}

fn horo(rows: &HyperbolicRows, dim: usize) -> HoroPca {
    let settings = HoroSettings { dim, steps: 300, start: None };
    HoroPca::fit(rows, &settings, &PairSample::new(rows.len(), 1_000_000, 0), &mut go).unwrap()
}

pub(super) fn cosne_settings() -> CosneSettings {
    CosneSettings {
        perplexity: Some(5.0),
        kernel: CosneKernel::Paper,
        gamma: 0.5,
        norm_weight: 1.0,
        iterations: 100,
        exaggerated: 25,
        exaggeration: 4.0,
        seed: 3,
    }
}

/// A balanced tree with the levels 0 to `levels`. A child lies at distance 1.2 from its parent, in the direction of the
/// sum of two unit vectors: one away from the origin and a random one.
pub(super) fn balanced_tree(dim: usize, branches: usize, levels: usize) -> HyperbolicRows {
    let mut random = SplitMix::new(11);
    let mut level = vec![vec![0.0; dim]];
    let mut all = level.clone();
    for _ in 0..levels {
        let mut children = Vec::new();
        for parent in &level {
            let length = parent.iter().map(|v| v * v).sum::<f64>().sqrt();
            for _ in 0..branches {
                let mut step: Vec<f64> = (0..dim).map(|_| 2.0 * random.uniform() - 1.0).collect();
                let size = step.iter().map(|v| v * v).sum::<f64>().sqrt();
                let outward = if length > 0.0 { 1.0 / length } else { 0.0 };
                step.iter_mut().zip(parent).for_each(|(s, p)| *s = *s / size + outward * p);
                let size = step.iter().map(|v| v * v).sum::<f64>().sqrt();
                step.iter_mut().for_each(|s| *s *= 1.2_f64.sinh() / size);
                let back: Vec<f64> = parent.iter().map(|v| -v).collect();
                children.push(boosted(&back, &step, 1.0));
            }
        }
        all.extend(children.iter().cloned());
        level = children;
    }
    rows(dim, all.concat())
}

/// Reads a file of `fixtures`. The returned function gives the list of numbers of a key, with nested lists flattened.
pub(super) fn fixture(name: &str) -> impl Fn(&str) -> Vec<f64> {
    let path = format!("{}/../../fixtures/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    move |key: &str| -> Vec<f64> {
        let rest = text.split(&format!("\"{key}\": ")).nth(1).unwrap();
        let end = rest.find(", \"").unwrap_or(rest.len());
        let list = rest[..end].replace(['[', ']', '}'], "");
        list.split(',').map(|number| number.trim().parse().unwrap()).collect()
    }
}

/// Compares with `fixtures/horopca.json`, which `fixtures/make_horopca.py` computes with NumPy and SciPy by other
/// formulas (fixtures/RECIPE.md).
#[test]
fn horopca_equals_the_numpy_implementation() {
    let numbers = fixture("horopca.json");
    let dim = numbers("dim")[0] as usize;
    let rows = rows(dim, numbers("points")).centred(ProjectionCenter::Mean);
    let start = numbers("start").chunks_exact(dim).map(<[f64]>::to_vec).collect();
    let settings = HoroSettings { dim: 2, steps: 500, start: Some(start) };
    let found = HoroPca::fit(&rows, &settings, &PairSample::new(rows.len(), 1_000_000, 0), &mut go).unwrap();
    let close = |what: &str, a: f64, b: f64| assert!((a - b).abs() < 1e-6, "{what}: {a} and {b}");
    close("total variance", found.quality.total_variance, numbers("total_variance")[0]);
    close("variance", found.quality.variance, numbers("variance")[0]);
    close("distortion", found.quality.distortion.unwrap(), numbers("distortion")[0]);
    let at = |i: usize| &found.coordinates[2 * i..2 * i + 2];
    for (j, expected) in numbers("distances").into_iter().enumerate() {
        close(&format!("distance of row {j} from row 0"), unit_dist(at(0), at(j)), expected);
    }
}

/// The derivative of the variance along each axis, against central differences, for the first, second and third
/// direction.
#[test]
fn horopca_gradient_equals_finite_differences() {
    let (dim, len) = (5, 12);
    let rows = rows(dim, cloud(len, dim, 1.5, 1));
    let pairs = PairSample::new(len, 1000, 0);
    for earlier in 0..3 {
        let mut objective = HoroObjective::new(&rows, &pairs);
        for k in 0..earlier {
            let mut axis = vec![0.0; dim];
            axis[k] = 1.0;
            objective.fix(&axis);
        }
        let direction = [0.0, 0.0, 0.0, 0.6, 0.8];
        let (_, gradient) = objective.evaluate(&direction);
        for k in 0..dim {
            let at = |shift: f64| {
                let mut moved = direction;
                moved[k] += shift;
                objective.evaluate(&moved).0
            };
            let numeric = (at(1e-5) - at(-1e-5)) / 2e-5;
            assert!(
                (numeric - gradient[k]).abs() < 1e-6 * (1.0 + numeric.abs()),
                "{earlier} {k}: {numeric} {gradient:?}"
            );
        }
    }
}

/// On the origin's side of the hull of the ideal points, a point of the submanifold is its own projection: rows within
/// 0.5 of the origin, in the plane of two directions. The hull is at distance ln(1 + sqrt(2)) = 0.88.
#[test]
fn points_of_the_submanifold_are_kept() {
    let directions = vec![vec![0.6, 0.8, 0.0, 0.0], vec![-0.8, 0.6, 0.0, 0.0]];
    let mut points = cloud(20, 4, 0.3, 2);
    points.chunks_exact_mut(4).for_each(|row| row[2..].fill(0.0));
    let rows = rows(4, points);
    let found = horospherical(&rows, &directions);
    for i in 0..20 {
        for (k, direction) in directions.iter().enumerate() {
            let expected: f64 = rows.row(i).iter().zip(direction).map(|(x, p)| x * p).sum();
            assert!((found[2 * i + k] - expected).abs() < 1e-12, "row {i}: {found:?}");
        }
    }
    // The same rows through the fit: no distance changes.
    let quality = horo(&rows, 2).quality;
    assert!(quality.distortion.unwrap() < 1e-6 && (quality.explained.unwrap() - 1.0).abs() < 1e-6, "{quality:?}");
}

/// Horospherical projection keeps the Busemann coordinates and does not expand distances.
#[test]
fn projection_keeps_busemann_coordinates() {
    let directions = [vec![1.0, 0.0, 0.0, 0.0], vec![0.0, 1.0, 0.0, 0.0], vec![0.0, 0.0, 1.0, 0.0]];
    let rows = rows(4, cloud(30, 4, 4.0, 5));
    for count in 1..=3 {
        let found = horospherical(&rows, &directions[..count]);
        for i in 0..30 {
            let time = |x: &[f64]| (1.0 + x.iter().map(|v| v * v).sum::<f64>()).sqrt();
            let projected = &found[i * count..(i + 1) * count];
            for k in 0..count {
                let (before, after) = (time(rows.row(i)) - rows.row(i)[k], time(projected) - projected[k]);
                assert!((before / after - 1.0).abs() < 1e-9, "{count}, row {i}: {before} {after}");
            }
            for j in 0..i {
                let after = unit_dist(projected, &found[j * count..(j + 1) * count]);
                assert!(after <= rows.dist(i, j) + 1e-9, "{count}: rows {i} and {j}");
            }
        }
    }
}

/// A boost moves all rows and their Frechet mean, so variance and distances do not change.
#[test]
fn horopca_is_invariant_under_isometries() {
    let tree = balanced_tree(4, 3, 3);
    let target = [0.4, -0.3, 0.2, 0.1];
    let moved: Vec<f64> = (0..tree.len())
        .flat_map(|i| {
            let mut row = boosted(&target, tree.row(i), 1.0);
            row.rotate_left(1); // a rotation of the axes
            row
        })
        .collect();
    let [first, second] = [tree.clone(), rows(4, moved)].map(|it| horo(&it.centred(ProjectionCenter::Mean), 2));
    let difference = first.quality.variance / second.quality.variance - 1.0;
    assert!(difference.abs() < 1e-6, "{:?} {:?}", first.quality, second.quality);
    let dist = |it: &HoroPca, j: usize| unit_dist(&it.coordinates[..2], &it.coordinates[2 * j..2 * j + 2]);
    for j in 0..tree.len() {
        assert!((dist(&first, j) - dist(&second, j)).abs() < 1e-4, "{j}: {} {}", dist(&first, j), dist(&second, j));
    }
}

/// The HoroPCA paper compares both methods on a balanced tree that was generated differently (published: distortion
/// .19, variance 7.15).
#[test]
fn horopca_keeps_more_of_a_tree_than_tangent_pca() {
    let tree = balanced_tree(10, 3, 4).centred(ProjectionCenter::Mean);
    let pairs = PairSample::new(tree.len(), 1_000_000, 0);
    let tangent = TangentPca::of_hyperboloid(&tree, 2, &pairs).unwrap().quality.unwrap();
    let horo = horo(&tree, 2).quality;
    eprintln!("tangent PCA {tangent:?}\nHoroPCA     {horo:?}");
    assert!(horo.variance > tangent.variance && horo.distortion < tangent.distortion, "{horo:?} {tangent:?}");
}

/// The gradient of a balanced point set is zero at its Frechet mean: the tangent vectors add up to zero.
#[test]
fn frechet_mean_is_a_critical_point() {
    let tree = balanced_tree(5, 2, 6).centred(ProjectionCenter::Mean);
    let mut sum = [0.0; 5];
    for i in 0..tree.len() {
        let row = tree.row(i);
        let length = row.iter().map(|v| v * v).sum::<f64>().sqrt();
        sum.iter_mut().zip(row).for_each(|(s, v)| *s += v * conifer_geometry::safe::asinhc(length));
    }
    assert!(sum.iter().all(|v| v.abs() < 1e-7), "{sum:?}");
}

#[test]
fn cosne_lowers_its_loss_and_is_deterministic() {
    let tree = balanced_tree(6, 3, 3);
    for (kernel, gamma) in [(CosneKernel::Paper, 0.1), (CosneKernel::Paper, 1.0), (CosneKernel::TorchDr, 2.0)] {
        let settings = CosneSettings { kernel, gamma, iterations: 300, ..cosne_settings() };
        let fit = |settings: &CosneSettings| Cosne::fit(&tree, settings, &mut go).unwrap();
        let found = fit(&settings);
        assert!(found.loss < 0.9 * found.start_loss, "{kernel:?} {gamma}: {} {}", found.start_loss, found.loss);
        assert!(found.positions.as_chunks::<2>().0.iter().all(|[x, y]| x.hypot(*y) < 1.0));
        assert_eq!(found.positions, fit(&settings).positions);
        assert_ne!(found.positions, fit(&CosneSettings { seed: 4, ..settings.clone() }).positions);
    }
    // With a large weight of the norm term, the rows of deeper levels end farther out.
    let heavy = CosneSettings { norm_weight: 10.0, iterations: 300, ..cosne_settings() };
    let found = Cosne::fit(&tree, &heavy, &mut go).unwrap();
    let radius = |i: usize| found.positions[2 * i].hypot(found.positions[2 * i + 1]);
    let mean = |range: std::ops::Range<usize>| range.clone().map(radius).sum::<f64>() / range.len() as f64;
    assert!(mean(1..4) < mean(4..13) && mean(4..13) < mean(13..40), "{} {} {}", mean(1..4), mean(4..13), mean(13..40));
}

#[test]
fn edge_cases_are_finite() {
    let cases = [
        ("one row", cloud(1, 3, 1.0, 1)),
        ("identical rows", [0.5, -0.2, 0.1].repeat(9)),
        ("rows at the root", {
            let mut points = cloud(9, 3, 1.0, 2);
            points[..3].fill(0.0);
            points
        }),
    ];
    for (name, points) in cases {
        let rows = rows(3, points);
        let pairs = PairSample::new(rows.len(), 1000, 0);
        for center in [ProjectionCenter::Mean, ProjectionCenter::Root] {
            let rows = rows.clone().centred(center);
            for dim in 1..=3 {
                let horo = horo(&rows, dim);
                let tangent = TangentPca::of_hyperboloid(&rows, dim, &pairs).unwrap();
                let all = horo.ball().into_iter().chain(tangent.coordinates);
                assert!(all.into_iter().all(|v| v.is_finite() && v.abs() < 1.0), "{name} {dim}");
            }
            match Cosne::fit(&rows, &CosneSettings { perplexity: None, ..cosne_settings() }, &mut go) {
                Ok(found) => assert!(found.positions.iter().all(|v| v.is_finite()) && found.loss.is_finite(), "{name}"),
                Err(error) => assert!(name == "one row" && error.to_string().contains("4 to"), "{name}: {error}"),
            }
        }
    }
}

#[test]
fn wrong_settings_are_refused() {
    let row = |_: usize| Cow::Owned(vec![0.1_f32; 6]);
    let open = |spec: ManifoldSpec, factor| HyperbolicRows::of_factor(&spec, &Root::Origin, factor, 5, row);
    let refused = |found: Result<HyperbolicRows>, word: &str| {
        let error = found.err().map(|it| it.to_string()).unwrap_or_default();
        assert!(error.contains(word), "`{word}` is not in: {error}");
    };
    let product = || ManifoldSpec::product_l1(3, 2, vec![1.0, 0.5, 2.0]);
    refused(open(product(), None), "--factor 0 to 2");
    refused(open(product(), Some(3)), "3; expected a number below 3");
    refused(open(ManifoldSpec::lorentz(6, 1.0), Some(1)), "below 1");
    refused(open(ManifoldSpec::sphere(6), None), "tangent-pca, depth and umap accept every space");
    refused(open(ManifoldSpec::euclidean(6), None), "hyperbolic");
    let nan = |_: usize| Cow::Owned(vec![0.1_f32, f32::NAN]);
    refused(
        HyperbolicRows::of_factor(&ManifoldSpec::lorentz(2, 1.0), &Root::Origin, None, 2, nan),
        "row 0, coordinate 1",
    );
    refused(HyperbolicRows::of_factor(&ManifoldSpec::lorentz(6, 1.0), &Root::Origin, None, 0, row), "at least 1");
    let second = open(product(), Some(1)).unwrap();
    assert!(
        (second.dim(), second.len()) == (2, 5)
            && (second.row(0)[0] - f64::from(0.1_f32) * 0.5_f64.sqrt()).abs() < 1e-15
    );

    let pairs = PairSample::new(5, 100, 0);
    for dim in [0, 3] {
        let settings = HoroSettings { dim, steps: 5, start: None };
        assert!(HoroPca::fit(&second, &settings, &pairs, &mut go).unwrap_err().to_string().contains("1 to 2"));
        assert!(TangentPca::of_hyperboloid(&second, dim, &pairs).is_err());
    }
    let stopped = HoroPca::fit(&second, &HoroSettings { dim: 1, steps: 5, start: None }, &pairs, &mut |_, _| false);
    assert!(matches!(stopped, Err(Error::Stopped)));
    for settings in [
        CosneSettings { perplexity: Some(4.0), ..cosne_settings() },
        CosneSettings { gamma: 0.0, ..cosne_settings() },
        CosneSettings { norm_weight: f64::NAN, ..cosne_settings() },
    ] {
        let settings = CosneSettings { perplexity: settings.perplexity.filter(|it| *it == 4.0), ..settings };
        assert!(Cosne::fit(&second, &settings, &mut go).is_err(), "{settings:?}");
    }
}

/// Flat rows along two axes: the PCA keeps all distances, and the shares are those of the variances 9 and 1.
#[test]
fn tangent_pca_of_flat_rows_is_the_usual_pca() {
    let points = [[3.0_f32, 0.0, 0.0], [-3.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, -1.0]];
    let row = |i: usize| Cow::Borrowed(&points[i][..]);
    let spec = ManifoldSpec::euclidean(3);
    let pairs = PairSample::new(4, 100, 0);
    let both = tangent_pca(&spec, &Root::Origin, 2, &pairs, row).unwrap();
    assert!((both.tangent_share.unwrap() - 1.0).abs() < 1e-12 && both.quality.unwrap().distortion.unwrap() < 1e-12);
    let one = tangent_pca(&spec, &Root::Origin, 1, &pairs, row).unwrap();
    assert!((one.tangent_share.unwrap() - 0.9).abs() < 1e-12, "{one:?}");
    // Spheres and products have coordinates, but no distances that can be compared.
    for spec in [ManifoldSpec::sphere(3), ManifoldSpec::product_l1(3, 1, vec![1.0; 3])] {
        let found = tangent_pca(&spec, &Root::Origin, 2, &pairs, row).unwrap();
        assert!(found.quality.is_none() && found.coordinates.iter().all(|v| v.is_finite()));
    }
    assert!(tangent_pca(&spec, &Root::Origin, 0, &pairs, row).is_err());
    assert!(tangent_pca(&spec, &Root::Origin, 4, &pairs, row).is_err());
}

/// `x / (1 + t)` keeps the direction, with radius `tanh(d / 2)`.
#[test]
fn ball_radius_is_the_hyperbolic_tangent_of_half_the_distance() {
    let mut out = [0.0; 2];
    to_ball(&[1.3_f64.sinh(), 0.0], &mut out);
    assert!((out[0] - 0.65_f64.tanh()).abs() < 1e-15 && out[1] == 0.0);
}
