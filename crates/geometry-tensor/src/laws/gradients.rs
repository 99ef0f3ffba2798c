//! Laws of gradients: backpropagation equals central differences for every argument, the root and the curvature.

use super::*;
use crate::gradcheck;

/// Tolerance of [`gradcheck`], relative to the largest component of the gradient.
const TOLERANCE: f64 = 1e-6;
/// Tolerance of the `f32` gradient against the `f64` gradient for ordinary points, relative to the gradient's norm. Where
/// terms of about 1 cancel and the norm is below 0.1, the tolerance is relative to 0.1.
const F32_TOLERANCE: f64 = 1e-4;
/// [`F32_TOLERANCE`] for pairwise functions. Rounding changes `u = cosh(sqrt(c) d) - 1` by 1e-7 `c |x| |y|`, up to 1e-5
/// here. This changes the derivative `1 / sqrt(u (u + 2))` by a fraction of 5e-4 where `u` is 1/100 (two points a
/// seventh of the curvature radius apart).
const F32_PAIRWISE_TOLERANCE: f64 = 1e-3;

#[test]
fn every_gradient_equals_central_differences() {
    for case in cases() {
        for op in OPS {
            for root in case.roots(op.rooted) {
                let inputs = inputs(&case, case.arguments(op, 1), &root);
                let checked = gradcheck(&inputs, TOLERANCE, |x| {
                    let (m, arguments, root) = unpacked(&case, x, &root);
                    flat((op.tensors)(m.as_ref(), arguments, &root))
                });
                checked.unwrap_or_else(|e| panic!("{} of {}, root {root:?}: {e}", op.name, case.spec));
            }
        }
    }
}

#[test]
fn every_pairwise_gradient_equals_central_differences() {
    for case in cases() {
        let (x, y) = case.points.split_at(4);
        // In one dimension every angle is 0 or pi, where the pairwise formula takes the square root of a rounding
        // error.
        let has_angles = case.spec.factor_dim() > 1;
        for op in PAIR_OPS.iter().filter(|op| has_angles || !op.rooted) {
            for root in case.roots(op.rooted) {
                let inputs = inputs(&case, vec![x.to_vec(), y.to_vec()], &root);
                let checked = gradcheck(&inputs, TOLERANCE, |x| {
                    let (m, arguments, root) = unpacked(&case, x, &root);
                    flat((op.pairwise)(m.as_ref(), arguments[0].clone(), arguments[1].clone(), &root))
                });
                checked.unwrap_or_else(|e| panic!("{} of {}, root {root:?}: {e}", op.name, case.spec));
            }
        }
    }
}

#[test]
fn the_gradient_of_the_mean_equals_central_differences() {
    for case in cases() {
        let inputs = inputs(&case, vec![case.points.clone()], &Root::Origin);
        let checked = gradcheck(&inputs, TOLERANCE, |x| {
            let (m, mut arguments, _) = unpacked(&case, x, &Root::Origin);
            flat(m.mean(arguments.remove(0)))
        });
        checked.unwrap_or_else(|e| panic!("mean of {}: {e}", case.spec));
    }
}

#[test]
fn f32_gradients_follow_f64() {
    for mut case in cases() {
        case.tangents = rounded(&case.tangents);
        case.points = rounded(&case.points);
        for op in OPS {
            for root in case.roots(op.rooted) {
                let inputs = inputs(&case, case.arguments(op, 6), &root);
                f32_follows_f64(op.name, &case, &inputs, &root, F32_TOLERANCE, |m, x, root| (op.tensors)(m, x, root));
            }
        }
        // Pairwise angles are skipped: near 0 and pi their formula is the square root of a difference of squares.
        for op in PAIR_OPS.iter().filter(|op| !op.rooted) {
            let (x, y) = case.points.split_at(4);
            let inputs = inputs(&case, vec![x.to_vec(), y.to_vec()], &Root::Origin);
            f32_follows_f64(op.name, &case, &inputs, &Root::Origin, F32_PAIRWISE_TOLERANCE, |m, mut x, root| {
                let y = x.remove(1);
                (op.pairwise)(m, x.remove(0), y, root)
            });
        }
    }
}

fn f32_follows_f64(
    name: &str,
    case: &ManifoldCase,
    inputs: &[TensorData],
    root: &Root,
    tolerance: f64,
    run: impl Fn(&dyn Manifold, Vec<Tensor<2>>, &RootT) -> Tensor<2>,
) {
    let run = |x| {
        let (m, arguments, root) = unpacked(case, x, root);
        flat(run(m.as_ref(), arguments, &root))
    };
    let (found, expected) = (gradients(inputs, DType::F32, run), gradients(inputs, DType::F64, run));
    for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
        let size = expected.iter().map(|v| v * v).sum::<f64>().sqrt().max(0.1);
        let error = found.iter().zip(expected).map(|(f, e)| (f - e).powi(2)).sum::<f64>().sqrt();
        let spec = &case.spec;
        assert!(error <= tolerance * size, "{name} of {spec}, root {root:?}, input {i}: off by {error} of {size}");
    }
}

/// The arguments, then the curvature if the space has one, then the root if it is a point.
pub(super) fn inputs(case: &ManifoldCase, arguments: Vec<Vec<Vec<f64>>>, root: &Root) -> Vec<TensorData> {
    let mut inputs: Vec<_> = arguments.iter().map(|rows| data(rows)).collect();
    if !case.spec.curv.is_empty() {
        inputs.push(data(std::slice::from_ref(&case.spec.curv)));
    }
    if let Root::Point(point) = root {
        inputs.push(data(std::slice::from_ref(point)));
    }
    inputs
}

/// Unpacks the tensors that [`inputs`] packed.
pub(super) fn unpacked(
    case: &ManifoldCase,
    mut inputs: Vec<Tensor<2>>,
    root: &Root,
) -> (Box<dyn Manifold>, Vec<Tensor<2>>, RootT) {
    let root = match root {
        Root::Origin => RootT::Origin,
        Root::Point(_) => RootT::Point(inputs.pop().unwrap().squeeze_dim(0)),
    };
    let curv = (!case.spec.curv.is_empty()).then(|| inputs.pop().unwrap().squeeze_dim(0));
    (case.manifold(curv), inputs, root)
}

/// Gradient of the plain sum of the outputs with respect to each input.
pub(super) fn gradients(inputs: &[TensorData], dtype: DType, f: impl Fn(Vec<Tensor<2>>) -> Tensor<1>) -> Vec<Vec<f64>> {
    let device = Device::flex().autodiff();
    let leaves: Vec<Tensor<2>> =
        inputs.iter().map(|d| Tensor::from_data(d.clone(), (&device, dtype)).require_grad()).collect();
    let sum = f(leaves.clone()).sum();
    let gradients = sum.is_tracked().then(|| sum.backward());
    let of = |leaf: &Tensor<2>| gradients.as_ref().and_then(|g| leaf.grad(g));
    leaves.iter().map(|leaf| of(leaf).map_or(vec![0.0; leaf.shape().num_elements()], numbers)).collect()
}

fn flat(values: Tensor<2>) -> Tensor<1> {
    values.flatten(0, 1)
}
