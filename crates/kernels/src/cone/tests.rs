#![allow(clippy::unwrap_used)]
use conifer_geometry::safe::{EPS_F64, TINY_F32};
use conifer_geometry::{ManifoldSpec, Root, space};

use super::*;
use crate::testkit::{TestInput, curvatures, error, oracle, outcome, random, same_bits_on_any_number_of_threads};

/// Rows, factors, width: odd sizes, more factors than [`WIDE`], and a factor longer than a register.
const SIZES: [[usize; 3]; 5] = [[1, 1, 2], [9, 1, 5], [5, 3, 7], [4, 13, 8], [7, 1, 40]];

/// HyCoCLIP's cones between modalities and within a modality, and a cone with a limited aperture.
const CONES: [ConeHinge; 3] = [cone(0.7, None), cone(1.2, None), cone(0.5, Some(0.15))];

const fn cone(aperture_scale: f64, max_aperture: Option<f64>) -> ConeHinge {
    ConeHinge { min_radius: 0.1, aperture_scale, max_aperture, tiny: TINY_F32 as f64, straight: EPS_F64 }
}

fn run(cone: ConeHinge) -> impl Fn(Vec<Tensor<2>>) -> Tensor<1> {
    move |x| {
        let [parent, child, curv] = <[_; 3]>::try_from(x).unwrap();
        cone_hinge(parent, child, curv.flatten(0, 1), cone).unwrap()
    }
}

/// Parents of length about `length`, with children at about `gap` times that length from them.
fn inputs([rows, factors, width]: [usize; 3], length: f32, gap: f32) -> Vec<TestInput> {
    let size = 1.4 * length / (width as f32).sqrt();
    let parent: Vec<f32> = random(rows * factors * width, 1).into_iter().map(|v| size * v).collect();
    let child = parent.iter().zip(random(parent.len(), 2)).map(|(p, v)| p + gap * size * v).collect();
    let dims = [rows, factors * width];
    vec![TestInput(parent, dims), TestInput(child, dims), TestInput(curvatures(factors), [1, factors])]
}

/// The oracle: `conifer_geometry` in `f64`, factor by factor, with gradients by central differences.
fn exact(
    [_, factors, width]: [usize; 3],
    cone: ConeHinge,
    inputs: &[TestInput],
    upstream: &[f32],
) -> Vec<(Vec<f64>, f64)> {
    oracle(inputs, upstream, |x| {
        let row = factors * width;
        let pairs = x[0].chunks(row).zip(x[1].chunks(row));
        let hinge = |(parent, child): (&[f64], &[f64])| -> f64 {
            let each = parent.chunks(width).zip(child.chunks(width)).zip(&x[2]).map(|((p, c), &curv)| {
                let space = space::<f64>(&ManifoldSpec::lorentz(width, curv)).unwrap();
                let half = space.half_aperture(p, cone.min_radius, &Root::Origin);
                let half = half.min(cone.max_aperture.unwrap_or(half));
                (space.exterior_angle(p, c, &Root::Origin) - cone.aperture_scale * half).max(0.0)
            });
            each.sum::<f64>() / factors as f64
        };
        pairs.map(hinge).collect()
    })
}

/// Points range from near the origin, where the cone is a half-space, to norm 100; children are near and far.
#[test]
fn value_and_gradients_equal_the_oracle() {
    for size in SIZES {
        for cone in CONES {
            for [length, gap] in [[0.05, 1.0], [0.7, 0.1], [0.7, 1.0], [3.0, 2.0], [100.0, 0.5]] {
                let inputs = inputs(size, length, gap);
                let upstream: Vec<f32> = random(size[0], 3).into_iter().map(|v| 1.0 + 0.9 * v).collect();
                let found = outcome(&inputs, &upstream, run(cone));
                let expected = exact(size, cone, &inputs, &upstream);
                for (name, (found, expected)) in
                    ["value", "parent", "child", "curv"].iter().zip(found.iter().zip(&expected))
                {
                    let error = error(found, expected);
                    assert!(error <= 1e-6, "{name}, {size:?}, {cone:?}, {length}, {gap}: off by {error:e}");
                }
            }
        }
    }
}

/// With a zero aperture the hinge is the angle, whose relative error must be at most 1e-7, also near 0 and pi, close to
/// the parent and far from the origin. The expected value uses the points after rounding to `f32`, because a gap of
/// 1e-3 of the parent or an angle of 1e-4 is a difference of `f32` numbers.
#[test]
fn angles_are_accurate_near_zero_and_pi() {
    let open = ConeHinge { min_radius: 0.0, ..cone(0.0, None) };
    for length in [1e-6, 1e-2, 1.0, 1e2, 1e4] {
        for (along, across) in [(1e-3, 1e-3), (1.0, 1e-4), (-0.5, 1e-4), (-3.0, 1e-4), (1e-3, 1e-7), (-1.0, 1.0)] {
            let point = |x: f64, y: f64| vec![(0.6 * x - 0.8 * y) as f32, (0.8 * x + 0.6 * y) as f32];
            let (parent, child) = (point(length, 0.0), point(length * (1.0 + along), length * across));
            let inputs = [TestInput(parent, [1, 2]), TestInput(child, [1, 2]), TestInput(vec![1.0], [1, 1])];
            let found = outcome(&inputs, &[1.0], run(open))[0][0];
            let wide = |i: usize| -> Vec<f64> { inputs[i].0.iter().map(|&v| f64::from(v)).collect() };
            let space = space::<f64>(&ManifoldSpec::lorentz(2, 1.0)).unwrap();
            let expected = space.exterior_angle(&wide(0), &wide(1), &Root::Origin);
            let allowed = 1e-7 * expected + 1e-12;
            assert!((found - expected).abs() <= allowed, "{length} {along} {across}: {found}; expected {expected}");
        }
    }
}

#[test]
fn children_in_the_cone_have_no_loss_and_no_gradient() {
    let inputs = [TestInput(vec![1.0, 0.0], [1, 2]), TestInput(vec![3.0, 0.1], [1, 2]), TestInput(vec![1.0], [1, 1])];
    let found = outcome(&inputs, &[1.0], run(CONES[0]));
    assert_eq!(found, [vec![0.0], vec![0.0; 2], vec![0.0; 2], vec![0.0]]);
}

/// The parent has length 1 and c = 1, so the aperture is `asin(0.2)`. A child at the origin or mirrored through it is
/// straight behind, at pi. There no gradient flows through the angle, only through the aperture. For equal points and
/// for a parent at the origin, hinge and gradient are 0. NaN and infinity give NaN.
#[test]
fn edges_of_the_angle() {
    let at = |parent: [f32; 2], child: [f32; 2]| {
        let inputs = [TestInput(parent.into(), [1, 2]), TestInput(child.into(), [1, 2]), TestInput(vec![1.0], [1, 1])];
        outcome(&inputs, &[1.0], run(CONES[0]))
    };
    let aperture = 0.2_f64.asin();
    for child in [[0.0, 0.0], [-1.0, 0.0], [-1e4, 0.0]] {
        let found = at([1.0, 0.0], child);
        assert!((found[0][0] - (std::f64::consts::PI - 0.7 * aperture)).abs() < 3e-7, "{found:?}");
        // The expected value is -0.7 d asin(0.2 / r) / dr at r = 1.
        assert!((found[1][0] - 0.7 * 0.2 / 0.96_f64.sqrt()).abs() < 1e-6 && found[1][1] == 0.0, "{found:?}");
        assert_eq!(found[2], [0.0, 0.0]);
    }
    for (parent, child) in [([1.0, 0.0], [1.0, 0.0]), ([0.0, 0.0], [1.0, 2.0]), ([0.0, 0.0], [0.0, 0.0])] {
        assert_eq!(at(parent, child), [vec![0.0], vec![0.0; 2], vec![0.0; 2], vec![0.0]]);
    }
    for bad in [f32::NAN, f32::INFINITY] {
        assert!(at([1.0, 0.0], [bad, 1.0])[0][0].is_nan() && at([bad, 0.0], [1.0, 1.0])[0][0].is_nan());
    }
}

/// The derivative of the aperture is unbounded where the parent's length equals 2K. At 0.2 = 2K and one and two `f32`
/// steps above, the gradient must be below 1e5.
#[test]
fn the_derivative_of_the_aperture_is_bounded() {
    for reach in [0.2_f32, 0.2_f32.next_up(), 0.2_f32.next_up().next_up()] {
        let inputs =
            [TestInput(vec![reach, 0.0], [1, 2]), TestInput(vec![-1.0, 1.0], [1, 2]), TestInput(vec![1.0], [1, 1])];
        let found = outcome(&inputs, &[1.0], run(CONES[0]));
        assert!(found[1].iter().all(|g| g.abs() < 1e5), "{found:?}");
    }
}

/// In one dimension a child is straight ahead or behind, and the rounding error of the perpendicular component must not
/// get a gradient: only the aperture depends on the parent.
#[test]
fn rounding_across_the_parent_has_no_gradient() {
    for parent in [0.3_f32, 0.7, 1.1, 3.3, 47.1] {
        let inputs =
            [TestInput(vec![parent], [1, 1]), TestInput(vec![-0.9 * parent], [1, 1]), TestInput(vec![1.0], [1, 1])];
        let found = outcome(&inputs, &[1.0], run(CONES[0]));
        let reach = f64::from(parent);
        let derivative = 0.7 * 0.2 / (reach * (reach * reach - 0.04).sqrt());
        assert!(
            (found[1][0] / derivative - 1.0).abs() < 1e-5 && found[2] == [0.0],
            "{parent}: {found:?}; expected {derivative}"
        );
    }
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    let inputs = inputs([300, 5, 40], 1.0, 1.0);
    let upstream = random(300, 3);
    same_bits_on_any_number_of_threads(|| outcome(&inputs, &upstream, run(CONES[0])));
}

#[test]
fn no_rows() {
    let inputs = [TestInput(vec![], [0, 4]), TestInput(vec![], [0, 4]), TestInput(vec![1.0, 2.0], [1, 2])];
    assert_eq!(outcome(&inputs, &[], run(CONES[0])), [vec![], vec![], vec![], vec![0.0; 2]]);
    // Rows without coordinates: the parent is at the root, where the angle is 0.
    let inputs = [TestInput(vec![], [3, 0]), TestInput(vec![], [3, 0]), TestInput(vec![1.0, 2.0], [1, 2])];
    assert_eq!(outcome(&inputs, &[1.0; 3], run(CONES[0])), [vec![0.0; 3], vec![], vec![], vec![0.0; 2]]);
}
