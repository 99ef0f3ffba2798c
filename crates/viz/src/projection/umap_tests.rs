#![allow(clippy::unwrap_used)]

use conifer_geometry::random::SplitMix;

use super::tests::fixture;
use super::umap::{attraction, disc_scale, fitted_curve, repulsion, surface_laws};
use super::*;

fn go(_: usize, _: usize) -> bool {
    true
}

fn settings(target: UmapTarget) -> UmapSettings {
    UmapSettings { target, min_dist: 0.1, epochs: Some(200), seed: 3 }
}

/// The `count` nearest rows by Euclidean distance; equal distances are ordered by row.
fn nearest(points: &[Vec<f64>], count: usize) -> NeighbourTable {
    let (mut rows, mut distances) = (Vec::new(), Vec::new());
    for (i, x) in points.iter().enumerate() {
        let mut near: Vec<(f64, u32)> = points
            .iter()
            .enumerate()
            .filter(|(j, _)| *j != i)
            .map(|(j, y)| (x.iter().zip(y).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt(), j as u32))
            .collect();
        near.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        rows.extend(near[..count].iter().map(|it| it.1));
        distances.extend(near[..count].iter().map(|it| it.0));
    }
    NeighbourTable::new(count, rows, distances).unwrap()
}

/// Three groups of 40 rows in five dimensions, 12 apart; group of row `i` is `i % 3`.
fn groups() -> Vec<Vec<f64>> {
    let mut random = SplitMix::new(5);
    let row = |i: usize| (0..5).map(|k| if k == i % 3 { 8.5 } else { 0.0 } + random.uniform()).collect();
    (0..120).map(row).collect()
}

fn start(points: &[Vec<f64>]) -> Vec<f64> {
    points.iter().flat_map(|it| [it[0], it[1]]).collect()
}

/// Compares with `fixtures/umap.json` (fixtures/RECIPE.md): weights by SciPy in f64, and by umap-learn in f32, whose
/// search for sigma stops when the sum of memberships is within 1e-5.
#[test]
fn weights_and_curves_equal_umap_learn() {
    let numbers = fixture("umap.json");
    let count = numbers("count")[0] as usize;
    let rows: Vec<u32> = numbers("rows").into_iter().map(|it| it as u32).collect();
    let table = NeighbourTable::new(count, rows, numbers("distances")).unwrap();
    let graph = FuzzyGraph::new(&table);
    let len = table.len();
    let mut weights = vec![0.0; len * len];
    for i in 0..len {
        graph.edges(i).for_each(|(j, weight)| weights[i * len + j] = weight);
    }
    for (key, tolerance) in [("scipy_weights", 1e-9), ("umap_learn_weights", 1e-4)] {
        let expected = numbers(key);
        assert_eq!(expected.len(), weights.len());
        for (at, (found, expected)) in weights.iter().zip(&expected).enumerate() {
            assert!((found - expected).abs() < tolerance, "{key}, {at}: {found} and {expected}");
        }
    }
    for (min_dist, expected) in numbers("min_dists").into_iter().zip(numbers("curves").chunks_exact(2)) {
        let found = fitted_curve(min_dist).unwrap();
        assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-5), "{min_dist}: {found:?} {expected:?}");
    }
}

/// Attraction is the derivative of `-ln q`, repulsion that of `ln(1 - q)` up to the 0.001 in its denominator.
#[test]
fn moves_are_gradients_of_the_cross_entropy() {
    let curve = fitted_curve(0.1).unwrap();
    let q = |d: f64| 1.0 / (1.0 + curve[0] * d.powf(2.0 * curve[1]));
    let slope = |f: &dyn Fn(f64) -> f64, d: f64| (f(d + 1e-6) - f(d - 1e-6)) / 2e-6;
    for d in [0.4, 0.9, 2.0, 5.0, 20.0] {
        let found = d * attraction(d * d, curve);
        assert!((found - slope(&|d| -q(d).ln(), d)).abs() < 1e-7, "{d}: {found}");
        let found = d * repulsion(d * d, curve) * (1.0 + 1e-3 / (d * d));
        assert!((found - slope(&|d| (1.0 - q(d)).ln(), d)).abs() < 1e-7, "{d}: {found}");
    }
    assert_eq!((attraction(0.0, curve), repulsion(0.0, curve)), (0.0, 0.0));
    // A move is at most 4 long.
    assert!((0.01 * repulsion(1e-4, curve)) <= 4.0 && attraction(1e-300, curve) * 1e-150 <= 4.0);
}

#[test]
fn moves_follow_geodesics() {
    let mut random = SplitMix::new(1);
    let mut point = || [random.uniform() - 0.5, random.uniform() - 0.5];
    for scale in [1.0, 7.0] {
        for _ in 0..50 {
            let [x, y] = [point(), point()];
            let [distance, end, order] = surface_laws(scale, x, y);
            assert!(end < 1e-12, "{x:?} {y:?}: the geodesic ends {end} away");
            // cosh d = 1 + 2 |x - y|^2 / ((1 - |x|^2) (1 - |y|^2))
            let cosh = 1.0 + 2.0 * order;
            assert!((distance / scale - cosh.acosh()).abs() < 1e-9, "{x:?} {y:?}: {distance}");
        }
    }
    assert!(disc_scale(40) == 1.0 && disc_scale(100_000) > 10.0);
}

#[test]
fn groups_stay_together() {
    let points = groups();
    let table = nearest(&points, 14);
    for target in [UmapTarget::Plane, UmapTarget::Disc] {
        let fit = |settings: &UmapSettings| Umap::fit(&table, &start(&points), settings, &mut go).unwrap();
        let found = fit(&settings(target));
        let (map, _) = found.positions.as_chunks::<2>();
        assert!(target == UmapTarget::Plane || map.iter().all(|[x, y]| x.hypot(*y) < 1.0));
        let near = nearest(&map.iter().map(|it| it.to_vec()).collect::<Vec<_>>(), 10);
        for i in 0..points.len() {
            assert!(
                near.of(i).iter().all(|j| *j as usize % 3 == i % 3),
                "{target:?}: row {i} is near {:?}",
                near.of(i)
            );
        }
        assert!(found.neighbours_kept > 0.4, "{target:?}: {}", found.neighbours_kept);
        let alone = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        assert_eq!(found.positions, alone.install(|| fit(&settings(target))).positions);
        assert_ne!(found.positions, fit(&UmapSettings { seed: 4, ..settings(target) }).positions);
    }
}

#[test]
fn edge_cases_of_umap_are_finite() {
    let cases = [
        ("identical rows", vec![vec![1.0, 2.0]; 9]),
        ("pairs of identical rows", (0..10).map(|i| vec![f64::from(i / 2), 0.0]).collect()),
        ("four rows", (0..4).map(|i| vec![f64::from(i), 0.0]).collect()),
        ("rows far apart", (0..9).map(|i| vec![10_f64.powi(i * 15), 0.0]).collect()),
    ];
    for (name, points) in cases {
        let table = nearest(&points, 3);
        for target in [UmapTarget::Plane, UmapTarget::Disc] {
            let found = Umap::fit(&table, &start(&points), &settings(target), &mut go).unwrap();
            assert!(found.positions.iter().all(|v| v.is_finite()), "{name} {target:?}: {:?}", found.positions);
        }
    }
}

#[test]
fn wrong_neighbours_and_settings_are_refused() {
    let refused = |found: std::result::Result<String, Error>, word: &str| {
        let error = found.err().map(|it| it.to_string()).unwrap_or_default();
        assert!(error.contains(word), "`{word}` is not in: {error}");
    };
    let table = |count: usize, rows: Vec<u32>, distances: Vec<f64>| {
        NeighbourTable::new(count, rows, distances).map(|it| format!("{it:?}"))
    };
    refused(table(1, vec![1, 0], vec![1.0]), "2 rows and 1 distances");
    refused(table(0, vec![], vec![]), "two lists");
    refused(table(2, vec![1, 1, 0, 0], vec![1.0; 4]), "at most 1");
    refused(table(1, vec![1, 2], vec![1.0; 2]), "below 2");
    refused(table(1, vec![0, 0], vec![1.0; 2]), "neighbours of row 0");
    refused(table(1, vec![1, 0], vec![1.0, -1.0]), "neighbours of row 1: -1");
    refused(table(2, vec![1, 2, 0, 2, 0, 1], vec![1.0, 0.5, 1.0, 1.0, 1.0, 1.0]), "ascending");
    refused(table(1, vec![1, 0], vec![f64::NAN, 1.0]), "NaN");
    let points = groups();
    let table = nearest(&points, 5);
    let fit = |settings: UmapSettings, start: &[f64]| {
        Umap::fit(&table, start, &settings, &mut go).map(|it| format!("{it:?}"))
    };
    for min_dist in [-0.1, 3.0, f64::NAN] {
        refused(fit(UmapSettings { min_dist, ..settings(UmapTarget::Plane) }, &start(&points)), "min_dist");
    }
    refused(fit(settings(UmapTarget::Plane), &[0.0; 4]), "240 finite numbers");
    let few = nearest(&points[..3], 2);
    let error = Umap::fit(&few, &[0.0; 6], &settings(UmapTarget::Plane), &mut go).unwrap_err().to_string();
    assert!(error.contains("rows: 3") && error.contains("at least 4"), "{error}");
    let stopped = Umap::fit(&table, &start(&points), &settings(UmapTarget::Plane), &mut |done, _| done < 3);
    assert!(matches!(stopped, Err(Error::Stopped)));
}
