//! Gradients of CO-SNE, and its tree against the sums over all pairs.
#![allow(clippy::unwrap_used)]

use super::cosne::CosneObjective;
use super::cosne_terms::{DiscPoints, KernelShape, PairTerms};
use super::cosne_tree::TreeTerms;
use super::tests::{balanced_tree, cloud, cosne_settings, rows};
use super::*;

/// The nearest rows of each row.
fn nearest(rows: &HyperbolicRows, count: usize) -> NeighbourTable {
    let (mut found, mut distances) = (Vec::new(), Vec::new());
    for i in 0..rows.len() {
        let mut near: Vec<(f64, u32)> =
            (0..rows.len()).filter(|j| *j != i).map(|j| (rows.dist(i, j), j as u32)).collect();
        near.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        found.extend(near[..count].iter().map(|it| it.1));
        distances.extend(near[..count].iter().map(|it| it.0));
    }
    NeighbourTable::new(count, found, distances).unwrap()
}

#[test]
fn cosne_gradient_equals_finite_differences() {
    let rows = rows(4, cloud(12, 4, 1.0, 9));
    let neighbours = nearest(&rows, 7);
    for method in [CosneMethod::Exact, CosneMethod::Tree { neighbours: &neighbours, theta: 0.0 }] {
        for kernel in [CosneKernel::Paper, CosneKernel::TorchDr] {
            let settings = CosneSettings { kernel, ..cosne_settings() };
            let objective = CosneObjective::new(&rows, method, 4.0, &settings).unwrap();
            let positions = cloud(12, 2, 0.6, 4);
            let gradient = objective.evaluate(&positions, false).gradient;
            for k in 0..24 {
                let at = |shift: f64| {
                    let mut moved = positions.clone();
                    moved[k] += shift;
                    objective.evaluate(&moved, true).loss
                };
                let numeric = (at(1e-6) - at(-1e-6)) / 2e-6;
                // The similarities of all pairs are stored as f32, so they add up to 1 with an error of 1e-7.
                assert!((numeric - gradient[k]).abs() < 1e-5, "{kernel:?} {k}: {numeric} {}", gradient[k]);
            }
        }
    }
}

/// With all other rows as neighbours and `theta` 0, the tree computes the sums over all pairs.
#[test]
fn tree_without_groups_is_exact() {
    let rows = rows(3, cloud(60, 3, 1.0, 2));
    let neighbours = nearest(&rows, 59);
    let settings = cosne_settings();
    let positions = cloud(60, 2, 0.69, 3);
    let exact = CosneObjective::new(&rows, CosneMethod::Exact, 5.0, &settings).unwrap().evaluate(&positions, true);
    let method = CosneMethod::Tree { neighbours: &neighbours, theta: 0.0 };
    let tree = CosneObjective::new(&rows, method, 5.0, &settings).unwrap().evaluate(&positions, true);
    assert!((exact.loss - tree.loss).abs() < 1e-6, "{} {}", exact.loss, tree.loss);
    for (a, b) in exact.gradient.iter().zip(&tree.gradient) {
        assert!((a - b).abs() < 1e-7, "{a} {b}");
    }
}

/// The sum of the kernel lies between the sums over distances that are off by `theta`, for points near the centre, near the
/// rim, in groups and at the same place. The mean error falls with `theta`.
#[test]
fn error_of_the_tree_is_bounded_by_theta() {
    let mut groups = cloud(400, 2, 0.65, 1);
    for (i, point) in groups.as_chunks_mut::<2>().0.iter_mut().enumerate() {
        let turn = (i % 5) as f64;
        *point = [0.7 * turn.cos() + 0.1 * point[0], 0.7 * turn.sin() + 0.1 * point[1]];
    }
    let mut rim = cloud(400, 2, 1.0, 6);
    for point in rim.as_chunks_mut::<2>().0 {
        let radius = point[0].hypot(point[1]);
        *point = point.map(|v| v / radius * (1.0 - 10_f64.powf(-1.0 - 4.9 * radius.min(1.0))));
    }
    let mut same = cloud(400, 2, 0.6, 8);
    same[..200].fill(0.25);
    let len = 400;
    let neighbours = nearest(&rows(2, cloud(len, 2, 1.0, 5)), 9);
    for (name, positions) in [("groups", groups), ("rim", rim), ("same place", same)] {
        let points = DiscPoints::new(&positions);
        let dist = |i: usize, j: usize| {
            let square = (points.x[i] - points.x[j]).powi(2) + (points.y[i] - points.y[j]).powi(2);
            2.0 * (square * points.inverse[i] * points.inverse[j]).sqrt().asinh()
        };
        for kernel in [CosneKernel::Paper, CosneKernel::TorchDr] {
            let shape = KernelShape { kernel, square: 0.04 };
            let weight = |d: f64| match kernel {
                CosneKernel::Paper => 1.0 / (d * d + 0.04),
                CosneKernel::TorchDr => 1.0 / (d + 0.04),
            };
            let sums = |theta: f64| TreeTerms::new(&neighbours, 3.0, theta).unwrap().forces(&points, shape, false);
            let exact = sums(0.0);
            let size = |list: &[[f64; 2]]| list.iter().flatten().map(|v| v * v).sum::<f64>().sqrt();
            let mut last = f64::INFINITY;
            for theta in [0.8, 0.5, 0.25, 0.05] {
                let found = sums(theta);
                let total = |factor: f64| -> f64 {
                    let of = |i: usize| (0..len).filter(|j| *j != i).map(|j| weight(factor * dist(i, j))).sum::<f64>();
                    (0..len).map(of).sum()
                };
                let (low, high) = (total(1.0 + theta), total(1.0 - theta));
                assert!(
                    low <= found.kernel_sum && found.kernel_sum <= high,
                    "{name} {kernel:?} {theta}: {} is not from {low} to {high}",
                    found.kernel_sum
                );
                let error: Vec<[f64; 2]> =
                    found.repulsion.iter().zip(&exact.repulsion).map(|(a, b)| [a[0] - b[0], a[1] - b[1]]).collect();
                let error = size(&error) / size(&exact.repulsion);
                eprintln!("{name} {kernel:?} theta {theta}: relative error of the repulsion {error:.2e}");
                assert!(error <= last.max(1e-12) && error < theta * theta, "{name} {kernel:?} {theta}: {error} {last}");
                last = error;
            }
        }
    }
}

/// The share of the ten nearest rows of each row that are among its ten nearest points of the map.
fn kept(rows: &HyperbolicRows, positions: &[f64]) -> f64 {
    let map = HyperbolicRows::from_unit(
        2,
        positions
            .as_chunks::<2>()
            .0
            .iter()
            .flat_map(|[x, y]| [x, y].map(|v| 2.0 * v / (1.0 - x * x - y * y)))
            .collect(),
    );
    let (before, after) = (nearest(rows, 10), nearest(&map.unwrap(), 10));
    let of = |i: usize| before.of(i).iter().filter(|j| after.of(i).contains(j)).count();
    (0..rows.len()).map(of).sum::<usize>() as f64 / (10 * rows.len()) as f64
}

#[test]
fn accelerated_maps_keep_as_many_neighbours_as_exact_ones() {
    let tree = balanced_tree(6, 3, 5);
    let neighbours = nearest(&tree, 30);
    let settings =
        CosneSettings { perplexity: Some(10.0), gamma: 0.1, iterations: 250, exaggerated: 60, ..cosne_settings() };
    let fit = |method| Cosne::fit_resumable(&tree, method, &settings, &mut Observed).unwrap();
    let exact = fit(CosneMethod::Exact);
    let found = fit(CosneMethod::Tree { neighbours: &neighbours, theta: 0.5 });
    let shares = [&exact, &found].map(|it| kept(&tree, &it.positions));
    eprintln!(
        "10 nearest rows kept: exact {:.3}, tree {:.3}; losses {} {}",
        shares[0], shares[1], exact.loss, found.loss
    );
    assert!(shares[1] > shares[0] - 0.03 && shares[0] > 0.3, "{shares:?}");
    let alone = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let again = alone.install(|| fit(CosneMethod::Tree { neighbours: &neighbours, theta: 0.5 }));
    assert_eq!(found.positions, again.positions);
    let again = alone.install(|| fit(CosneMethod::Exact));
    assert_eq!(exact.positions, again.positions);
}

#[test]
fn wrong_trees_are_refused() {
    let rows = rows(2, cloud(30, 2, 1.0, 5));
    let neighbours = nearest(&rows, 9);
    let fit = |rows: &HyperbolicRows, perplexity: f64, theta: f64| {
        let settings = CosneSettings { perplexity: Some(perplexity), iterations: 3, ..cosne_settings() };
        let method = CosneMethod::Tree { neighbours: &neighbours, theta };
        Cosne::fit_resumable(rows, method, &settings, &mut Observed).map(|it| it.loss).map_err(|it| it.to_string())
    };
    assert!(fit(&rows, 3.0, 0.5).is_ok());
    for theta in [-0.1, 1.0, f64::NAN] {
        assert!(fit(&rows, 3.0, theta).unwrap_err().contains("theta"));
    }
    assert!(fit(&rows, 9.0, 0.5).unwrap_err().contains("number of neighbours: 9"));
    let fewer = HyperbolicRows::from_unit(2, cloud(20, 2, 1.0, 5)).unwrap();
    assert!(fit(&fewer, 3.0, 0.5).unwrap_err().contains("those of 20 rows"));
}

/// Neither saves nor stops.
struct Observed;

impl FitProgress for Observed {
    fn restored(&mut self) -> Option<FitState> {
        None
    }

    fn step(&mut self, _: usize, _: usize, _: &dyn Fn() -> FitState) -> bool {
        true
    }
}
