//! Compares the kernels on a graphics card, if there is one, with the reference implementation in f64 on the CPU.
#![allow(clippy::unwrap_used)]
use burn::backend::{CubeDevice, DispatchDevice, WgpuDeviceKind};
use burn::tensor::{DType, Device, DeviceType, Tensor, TensorData};

use super::super::{DistanceNorm, DistanceRule, pairwise_distance, pairwise_distance_plain};

/// The square of `conifer_geometry::safe::EPS_F32`, the value that `conifer_geometry_tensor` passes.
const FLOOR: f64 = 1e-12;

/// Rows, columns, factors and their width: one pair; sizes that are no multiple of a tile; PHyCLIP's factors; one wide
/// factor, several groups wide; a factor with one coordinate; more factors than coordinates in shared memory.
const SIZES: [[usize; 4]; 7] =
    [[1, 1, 1, 2], [5, 7, 3, 5], [33, 31, 64, 8], [17, 50, 1, 130], [16, 16, 2, 33], [3, 40, 70, 1], [40, 3, 2, 64]];

/// The first Vulkan device. Without one, a test prints a message and passes. A software renderer counts only if the
/// variable [`SOFTWARE`] is set, because some of them crash on the kernels of CubeCL.
fn device() -> Option<Device> {
    let software = std::env::var_os(SOFTWARE).is_some();
    let found = Device::enumerate(DeviceType::Vulkan).into_iter().find(|device| match device.as_dispatch() {
        DispatchDevice::Cube(CubeDevice::Wgpu(card)) => software || card.kind != WgpuDeviceKind::Cpu,
        _ => false,
    });
    if found.is_none() {
        eprintln!("skipped: no Vulkan device (with {SOFTWARE}=1 software counts as one)");
    }
    found
}
const SOFTWARE: &str = "CONIFER_SOFTWARE_VULKAN";

#[test]
fn equals_the_exact_value_and_gradient() {
    let Some(device) = device() else { return };
    for size in SIZES {
        for rule in rules() {
            agrees(&CubeTestCase::of(size, 1.0), &device, rule);
        }
    }
}

/// Distances of 1e-4, where `ln(1 + t)` of a rounded `1 + t` keeps three digits, points at a thousand curvature radii,
/// and points at the root, where no gradient flows.
#[test]
fn near_points_far_points_and_the_root() {
    let Some(device) = device() else { return };
    for scale in [1e-4, 1e3, 0.0] {
        for rule in rules() {
            agrees(&CubeTestCase::of([19, 23, 4, 6], scale), &device, rule);
        }
    }
}

/// The relative error to f64 must be at most 2e-6 plus twice the error of the reference implementation in f32 on the
/// CPU. For far points and for gradients with cancellation, both implementations lose precision. Their errors differ
/// because they order the operations differently.
fn agrees(operands: &CubeTestCase, device: &Device, rule: DistanceRule) {
    let exact = operands.outcome(&Device::flex(), rule, pairwise_distance_plain, DType::F64);
    let plain = operands.outcome(&Device::flex(), rule, pairwise_distance_plain, DType::F32);
    let found = operands.outcome(device, rule, pairwise_distance, DType::F32);
    for (i, name) in ["value", "x", "y", "curv"].iter().enumerate() {
        let (found, plain) = (error(&found[i], &exact[i]), error(&plain[i], &exact[i]));
        let sizes = (operands.x.1, operands.y.1);
        assert!(found <= 2e-6 + 2.0 * plain, "{name}, {sizes:?}, {rule:?}: off by {found:e}, plain by {plain:e}");
    }
}

#[test]
fn results_are_reproducible() {
    let Some(device) = device() else { return };
    let operands = CubeTestCase::of([70, 50, 5, 7], 1.0);
    for rule in rules() {
        let first = operands.outcome(&device, rule, pairwise_distance, DType::F32);
        assert_eq!(operands.outcome(&device, rule, pairwise_distance, DType::F32), first);
    }
}

/// Here `u` has an error of a few 1e-7 (the error of `c |x|^2`), and `acosh(1 + u)` is about `sqrt(2 u)`. So a distance
/// `d` has an error of 1e-6 / d, and the zero distance of a point to itself an error of 1e-3.
#[test]
fn equal_points() {
    let Some(device) = device() else { return };
    for rule in rules() {
        let mut operands = CubeTestCase::of([21, 21, 2, 9], 1.0);
        operands.y = operands.x.clone();
        let exact = operands.outcome(&Device::flex(), rule, pairwise_distance_plain, DType::F64);
        let found = operands.outcome(&device, rule, pairwise_distance, DType::F32);
        for (i, (found, exact)) in found[0].iter().zip(&exact[0]).enumerate() {
            let bound = (1e-6 / exact.abs()).min(1e-3) + 3e-6 * exact.abs();
            assert!((found - exact).abs() <= bound, "pair {i}: {found}, {exact}");
        }
        assert!(found.iter().flatten().all(|v| v.is_finite()));
    }
}

/// NaN and infinity in a row of `x` must propagate to the distances and the gradient of this row and to the gradients
/// of `y` and the curvatures, but to no other row of `x`.
#[test]
fn nan_and_infinity_propagate() {
    let Some(device) = device() else { return };
    for bad in [f32::NAN, f32::INFINITY] {
        for rule in rules() {
            let mut operands = CubeTestCase::of([3, 18, 2, 4], 1.0);
            operands.x.0[8 + 5] = bad;
            let [table, x, y, curv] = operands.outcome(&device, rule, pairwise_distance, DType::F32);
            for (i, v) in table.iter().enumerate() {
                assert_eq!(v.is_finite(), i / 18 != 1, "{bad}, pair {i}: {v}");
            }
            assert!(x[8..16].iter().any(|v| !v.is_finite()) && x[..8].iter().chain(&x[16..]).all(|v| v.is_finite()));
            assert!(y.iter().any(|v| !v.is_finite()) && curv.iter().any(|v| !v.is_finite()));
        }
    }
}

#[test]
fn no_rows_and_no_columns() {
    let Some(device) = device() else { return };
    for rule in rules() {
        for size in [[0, 3, 2, 4], [3, 0, 2, 4]] {
            let found = CubeTestCase::of(size, 1.0).outcome(&device, rule, pairwise_distance, DType::F32);
            assert_eq!(found.map(|v| v.len()), [0, size[0] * 8, size[1] * 8, 2]);
        }
    }
}

/// A constant operand gets no gradient, and the other gradients do not change.
#[test]
fn only_tracked_operands_get_a_gradient() {
    let Some(device) = device() else { return };
    let device = device.autodiff();
    let [x, y] = [3, 5].map(|rows| Tensor::<2>::ones([rows, 8], &device) * 0.1 * rows as f64);
    let (y, curv) = (y.require_grad(), Tensor::<1>::ones([2], &device));
    for rule in rules() {
        let sum = pairwise_distance(x.clone(), y.clone(), curv.clone(), rule).sum();
        let gradients = sum.backward();
        assert!(x.grad(&gradients).is_none() && curv.grad(&gradients).is_none());
        assert!(y.grad(&gradients).unwrap().abs().sum().into_scalar::<f32>() > 0.0);
    }
}

type CubeDistance = fn(Tensor<2>, Tensor<2>, Tensor<1>, DistanceRule) -> Tensor<2>;

fn rules() -> impl Iterator<Item = DistanceRule> {
    let norms = [DistanceNorm::L1, DistanceNorm::L2].into_iter();
    norms.flat_map(|norm| [false, true].map(|negative| DistanceRule { norm, floor: FLOOR, negative }))
}

/// Row-major points with their shapes, and curvatures.
struct CubeTestCase {
    x: (Vec<f32>, [usize; 2]),
    y: (Vec<f32>, [usize; 2]),
    curv: Vec<f32>,
}

impl CubeTestCase {
    /// Points around the origin, at about `scale` curvature radii.
    fn of([m, n, factors, width]: [usize; 4], scale: f64) -> Self {
        let dim = factors * width;
        let scale = scale / (width as f64).sqrt();
        let points =
            |rows: usize, phase| scattered(rows * dim, phase).into_iter().map(|v| (v * scale) as f32).collect();
        CubeTestCase {
            x: (points(m, 1), [m, dim]),
            y: (points(n, 2), [n, dim]),
            curv: (0..factors).map(|k| 0.3 + 0.1 * (k % 11) as f32).collect(),
        }
    }

    /// The value, and the gradients of a weighted sum of it.
    fn outcome(&self, device: &Device, rule: DistanceRule, function: CubeDistance, dtype: DType) -> [Vec<f64>; 4] {
        let device = device.clone().autodiff();
        let at = (&device, dtype);
        let x = Tensor::<2>::from_data(TensorData::new(self.x.0.clone(), self.x.1), at).require_grad();
        let y = Tensor::<2>::from_data(TensorData::new(self.y.0.clone(), self.y.1), at).require_grad();
        let curv = Tensor::<1>::from_data(TensorData::new(self.curv.clone(), [self.curv.len()]), at).require_grad();
        let out = function(x.clone(), y.clone(), curv.clone(), rule);
        let shape = out.dims();
        let upstream: Vec<f64> = scattered(shape[0] * shape[1], 3).into_iter().map(|v| 1.0 + 0.9 * v).collect();
        let upstream = Tensor::<2>::from_data(TensorData::new(upstream, shape), at);
        let gradients = (out.clone() * upstream).sum().backward();
        let numbers = |t: TensorData| t.iter::<f64>().collect::<Vec<_>>();
        [
            numbers(out.into_data()),
            numbers(x.grad(&gradients).unwrap().into_data()),
            numbers(y.grad(&gradients).unwrap().into_data()),
            numbers(curv.grad(&gradients).unwrap().into_data()),
        ]
    }
}

/// Pseudo-random numbers in [-1, 1).
fn scattered(count: usize, seed: u64) -> Vec<f64> {
    let mixed = |i: usize| {
        let z = (i as u64 + (seed << 32) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 11
    };
    (0..count).map(|i| mixed(i) as f64 / 2_f64.powi(52) - 1.0).collect()
}

/// Length of the difference divided by the length of the expected vector.
fn error(found: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let length = |v: &mut dyn Iterator<Item = f64>| v.map(|a| a * a).sum::<f64>().sqrt();
    let difference = length(&mut found.iter().zip(expected).map(|(f, e)| f - e));
    difference / length(&mut expected.iter().copied()).max(f64::MIN_POSITIVE)
}
