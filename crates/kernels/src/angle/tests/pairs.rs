use burn::tensor::Tensor;
use conifer_geometry::safe::TINY_F32;

use super::super::{AngleGeometry, pairwise_exterior_angle};
use super::{exact_angles, inputs};
use crate::testkit::{TestInput, error, oracle, outcome, random, same_bits_on_any_number_of_threads};

/// Parents, children, factors, width: single values, sizes that are no multiple of the vector width, and more rows than
/// a group.
const SIZES: [[usize; 4]; 6] =
    [[1, 1, 1, 6], [5, 7, 1, 6], [3, 16, 4, 8], [8, 33, 2, 9], [40, 3, 3, 12], [2, 50, 1, 40]];

fn run(geometry: AngleGeometry) -> impl Fn(Vec<Tensor<2>>) -> Tensor<2> {
    move |x| {
        let [parent, child, curv] = <[_; 3]>::try_from(x).unwrap();
        pairwise_exterior_angle(parent, child, curv.flatten(0, 1), geometry, f64::from(TINY_F32)).unwrap()
    }
}

/// The oracle: `conifer_geometry` in `f64`, pair by pair and factor by factor, with gradients by central differences.
fn exact(
    [_, _, _, width]: [usize; 4],
    geometry: AngleGeometry,
    inputs: &[TestInput],
    upstream: &[f32],
) -> Vec<(Vec<f64>, f64)> {
    oracle(inputs, upstream, |x| exact_angles(&x[0], &x[1], &x[2], width, geometry))
}

/// The directions of parents and children are far apart here; the error budgets of `conifer_geometry_tensor` cover
/// close directions. In `f32` the products have an error of a few units in the last place of `|parent| |child|`, and
/// angles have that error divided by the sine of the angle.
#[test]
fn value_and_gradients_equal_the_oracle() {
    for size in SIZES {
        for (geometry, length) in [
            (AngleGeometry::Hyperbolic, 0.05),
            (AngleGeometry::Hyperbolic, 1.0),
            (AngleGeometry::Hyperbolic, 5.0),
            (AngleGeometry::Flat, 1.0),
        ] {
            let inputs = inputs(size, length);
            let upstream: Vec<f32> = random(size[0] * size[1], 3).into_iter().map(|v| 1.0 + 0.9 * v).collect();
            let (found, expected) =
                (outcome(&inputs, &upstream, run(geometry)), exact(size, geometry, &inputs, &upstream));
            for (name, (found, expected)) in
                ["value", "parent", "child", "curv"].iter().zip(found.iter().zip(&expected))
            {
                if (*name, geometry) == ("curv", AngleGeometry::Flat) {
                    assert!(found.iter().all(|&g| g == 0.0));
                    continue;
                }
                let allowed = if *name == "value" { 5e-6 } else { 1e-4 };
                let error = error(found, expected);
                assert!(error <= allowed, "{name}, {size:?}, {geometry:?}, {length}: off by {error:e}");
            }
        }
    }
}

/// More rows than fit into one tile of 4 MiB: each row must equal the row computed separately.
#[test]
fn tiles_equal_separately_computed_rows() {
    let size = [1100, 1000, 1, 24];
    let inputs = inputs(size, 1.0);
    let upstream: Vec<f32> = random(size[0] * size[1], 3);
    let all = outcome(&inputs, &upstream, run(AngleGeometry::Hyperbolic));
    for first in [0, 523, 1040] {
        let mut part = inputs.clone();
        part[0] = TestInput(inputs[0].0[first * 24..(first + 60) * 24].to_vec(), [60, 24]);
        let some = outcome(&part, &upstream[first * 1000..(first + 60) * 1000], run(AngleGeometry::Hyperbolic));
        let of = |i: usize, width: usize| (all[i][first * width..(first + 60) * width].to_vec(), 0.0);
        for (i, width) in [(0, 1000), (1, 24)] {
            let error = error(&some[i], &of(i, width));
            assert!(error < 1e-5, "rows {first}.., {i}: {error:e}");
        }
    }
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    let inputs = inputs([150, 200, 3, 8], 1.0);
    let upstream = random(150 * 200, 3);
    same_bits_on_any_number_of_threads(|| outcome(&inputs, &upstream, run(AngleGeometry::Hyperbolic)));
}

#[test]
fn no_parents_and_no_children() {
    for [p, c] in [[0, 3], [3, 0]] {
        let points = |n: usize| TestInput(random(n * 4, 1), [n, 4]);
        let inputs = [points(p), points(c), TestInput(vec![1.0, 2.0], [1, 2])];
        let found = outcome(&inputs, &[], run(AngleGeometry::Hyperbolic));
        assert_eq!(found, [vec![], vec![0.0; p * 4], vec![0.0; c * 4], vec![0.0; 2]]);
    }
}

/// Children straight ahead, straight back, at the parent and at the root, and a parent at the root. Values and
/// gradients are finite, and NaN propagates.
#[test]
fn edges_of_the_angle() {
    let pi = std::f64::consts::PI;
    let children = vec![2.0, 0.0, -1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 3.0, f32::NAN, 1.0];
    let inputs =
        [TestInput(vec![1.0, 0.0, 0.0, 0.0], [2, 2]), TestInput(children, [7, 2]), TestInput(vec![1.0], [1, 1])];
    for geometry in [AngleGeometry::Hyperbolic, AngleGeometry::Flat] {
        let mut upstream = [1.0; 14];
        (upstream[6], upstream[13]) = (0.0, 0.0);
        let found = outcome(&inputs, &upstream, run(geometry));
        for (i, expected) in [(0, 0.0), (1, pi), (2, pi), (3, 0.0), (4, pi)] {
            assert!((found[0][i] - expected).abs() < 3e-7, "{geometry:?}, child {i}: {}", found[0][i]);
        }
        assert!(found[0][5] > pi / 2.0 && found[0][5] < pi && found[0][6].is_nan());
        assert!(found[0][7..13].iter().all(|&angle| angle == 0.0), "{:?}", &found[0]);
    }
    let finite =
        [TestInput(vec![1.0, 0.0, 0.0, 0.0], [2, 2]), TestInput(inputs[1].0[..12].to_vec(), [6, 2]), inputs[2].clone()];
    for geometry in [AngleGeometry::Hyperbolic, AngleGeometry::Flat] {
        let found = outcome(&finite, &[1.0; 12], run(geometry));
        assert!(found.iter().flatten().all(|v| v.is_finite()), "{found:?}");
    }
}
