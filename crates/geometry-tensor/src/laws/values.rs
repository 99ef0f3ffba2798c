//! Laws of values: every tensor function equals its `f64` counterpart on slices.

use super::*;

/// In `f64` the tensors and the slices differ only by rounding. The tolerance, about 45,000 `f64::EPSILON`, leaves room
/// for cancellation, which is strongest for points of rapidity 3.
const F64_TOLERANCE: f64 = 1e-11;
/// Tolerance in `f32`, on ordinary points (rapidity 0.1 to 3). The laws of `conifer_geometry` allow its own `f32`
/// functions 2e-5 radians for exterior angles.
const F32_TOLERANCE: f64 = 2e-5;

#[test]
fn every_function_equals_its_oracle_in_f64() {
    for case in cases() {
        for op in OPS {
            // With one of the points as the root, some arguments lie at the root.
            let at_root = op.rooted.then(|| Root::Point(case.points[2].clone()));
            for root in case.roots(op.rooted).into_iter().chain(at_root) {
                holds(&case, op, &root, DType::F64, F64_TOLERANCE);
            }
        }
    }
}

#[test]
fn every_function_equals_its_oracle_in_f32() {
    for mut case in cases() {
        case.tangents = rounded(&case.tangents);
        case.points = rounded(&case.points);
        for op in OPS {
            for root in case.roots(op.rooted) {
                holds(&case, op, &root, DType::F32, F32_TOLERANCE);
            }
        }
    }
}

#[test]
fn the_mean_equals_its_oracle() {
    for case in cases() {
        let rows: Vec<&[f64]> = case.points.iter().map(Vec::as_slice).collect();
        let expected = filled(rows[0], |out| case.exact.mean(&rows, out));
        let mean = case.manifold(None).mean(tensor(&case.points, &Device::flex(), DType::F64));
        assert_eq!(mean.dims(), [1, case.spec.dim]);
        let found = numbers(mean);
        assert!(worst(&found, &expected) <= F64_TOLERANCE, "{}: {found:?}; expected {expected:?}", case.spec);
    }
}

/// The projection of vectors off the space.
#[test]
fn the_projection_equals_its_oracle() {
    for case in cases() {
        let vectors: Vec<Vec<f64>> = case.points.iter().map(|x| x.iter().map(|v| 1.5 * v).collect()).collect();
        let expected: Vec<f64> =
            vectors.iter().flat_map(|vector| filled(vector, |out| case.exact.project(vector, out))).collect();
        let found = numbers(case.manifold(None).project(tensor(&vectors, &Device::flex(), DType::F64)));
        assert!(worst(&found, &expected) <= F64_TOLERANCE, "{}: {found:?}; expected {expected:?}", case.spec);
    }
}

/// Tests one scale for all factors, and one scale per factor.
#[test]
fn lift_scaled_equals_the_lift_of_scaled_features() {
    let device = Device::flex();
    for case in cases() {
        let m = case.manifold(None);
        let [factors, width] = [case.spec.factors, case.spec.factor_dim()];
        let each: Vec<f64> = (0..factors).map(|k| 0.5 + 0.1 * k as f64).collect();
        for scales in [vec![0.7], each] {
            let scale_at = |i: usize| scales[(i / width) % scales.len()];
            let scaled = |row: &Vec<f64>| row.iter().enumerate().map(|(i, v)| v * scale_at(i)).collect::<Vec<_>>();
            let rows: Vec<_> = case.tangents.iter().map(scaled).collect();
            let expected = numbers(m.lift(tensor(&rows, &device, DType::F64)));
            for (dtype, tolerance) in [(DType::F64, F64_TOLERANCE), (DType::F32, 2e-6)] {
                let scale = vector(&scales, &device, dtype);
                let found = numbers(m.lift_scaled(tensor(&case.tangents, &device, dtype), scale));
                assert!(
                    worst(&found, &expected) <= tolerance,
                    "{}, {dtype:?}: {found:?}; expected {expected:?}",
                    case.spec
                );
            }
        }
    }
}

/// A learnable curvature with the same value gives the same results.
#[test]
fn a_curvature_tensor_equals_the_constant() {
    let device = Device::flex();
    for case in cases().into_iter().filter(|c| !c.spec.curv.is_empty()) {
        let learnt = case.manifold(Some(vector(&case.spec.curv, &device, DType::F64)));
        let constant = case.manifold(None);
        let points = tensor(&case.points, &device, DType::F64);
        let dist = |m: &dyn Manifold| numbers(m.pairwise_dist(points.clone(), points.clone()));
        assert_eq!(dist(learnt.as_ref()), dist(constant.as_ref()), "{}", case.spec);
    }
}

/// Asserts that the error of `op` is at most `tolerance`, relative to the largest value of the row, or to 1 if that is
/// smaller.
fn holds(case: &ManifoldCase, op: &RowOp, root: &Root, dtype: DType, tolerance: f64) {
    let device = Device::flex();
    let arguments = case.arguments(op, 6);
    let tensors = arguments.iter().map(|rows| tensor(rows, &device, dtype)).collect();
    let found = (op.tensors)(case.manifold(None).as_ref(), tensors, &root_tensor(root, &device, dtype));
    assert_eq!(found.dtype(), dtype, "{} keeps the dtype", op.name);
    let [rows, width] = found.dims();
    assert_eq!(rows, arguments[0].len());
    let found = numbers(found);
    for row in 0..rows {
        let points: Vec<&[f64]> = arguments.iter().map(|column| column[row].as_slice()).collect();
        let expected = (op.slices)(case.exact.as_ref(), &points, root);
        let found = &found[row * width..(row + 1) * width];
        assert!(
            worst(found, &expected) <= tolerance,
            "{} of {} at {points:?}, root {root:?}: {found:?}; expected {expected:?}",
            op.name,
            case.spec
        );
    }
}

fn worst(found: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let size = expected.iter().fold(1.0_f64, |m, v| m.max(v.abs()));
    found.iter().zip(expected).map(|(f, e)| (f - e).abs() / size).fold(0.0, f64::max)
}
