//! Laws of edge cases: values and gradients are finite on the adversarial list, in `f32`.

use conifer_geometry::laws::edge_tangents;

use super::gradients::{gradients, inputs, unpacked};
use super::*;

#[test]
fn everything_is_finite_on_the_adversarial_list() {
    for case in cases() {
        let tangents = edge_tangents(case.spec.dim);
        let lifted: Vec<_> = tangents.iter().map(|v| filled(v, |out| case.exact.lift(v, out))).collect();
        // Where every vector is a point, the tangent vectors are used as points too. On the sphere they stand for
        // features that are not normalised.
        let points: Vec<_> = lifted.iter().chain(&tangents).cloned().collect();
        let n = points.len();
        let first: Vec<_> = (0..n * n).map(|i| points[i / n].clone()).collect();
        let second: Vec<_> = (0..n * n).map(|i| points[i % n].clone()).collect();
        for op in OPS {
            let arguments = match op.takes {
                OpArguments::Tangent => vec![tangents.clone()],
                OpArguments::Point => vec![points.clone()],
                OpArguments::Pair => vec![first.clone(), second.clone()],
            };
            for root in roots(&points, op.rooted) {
                finite(op.name, &case, arguments.clone(), &root, |m, mut x, root| {
                    (op.tensors)(m, std::mem::take(&mut x), root)
                });
            }
        }
        for op in PAIR_OPS {
            for root in roots(&points, op.rooted) {
                finite(op.name, &case, vec![points.clone(), points.clone()], &root, |m, x, root| {
                    (op.pairwise)(m, x[0].clone(), x[1].clone(), root)
                });
            }
        }
        finite("mean", &case, vec![points.clone()], &Root::Origin, |m, x, _| m.mean(x[0].clone()));
    }
}

/// The origin, the origin as a point, the lift of a tangent vector of length 1, and a tangent vector of length 1e4.
fn roots(points: &[Vec<f64>], rooted: bool) -> Vec<Root> {
    let point = |i: usize| Root::Point(points[i].clone());
    if rooted { vec![Root::Origin, point(0), point(9), point(points.len() - 1)] } else { vec![Root::Origin] }
}

fn finite(
    name: &str,
    case: &ManifoldCase,
    arguments: Vec<Vec<Vec<f64>>>,
    root: &Root,
    run: impl Fn(&dyn Manifold, Vec<Tensor<2>>, &RootT) -> Tensor<2>,
) {
    let shape: Vec<usize> = arguments.iter().map(Vec::len).collect();
    let inputs = inputs(case, arguments, root);
    let value = |x| {
        let (m, arguments, root) = unpacked(case, x, root);
        run(m.as_ref(), arguments, &root)
    };
    let plain = inputs.iter().map(|d| Tensor::from_data(d.clone(), (&Device::flex(), DType::F32))).collect();
    let values = numbers(value(plain));
    if let Some(i) = values.iter().position(|v| !v.is_finite()) {
        panic!("{name} of {}, root {root:?}: output {i} of {} is {}", case.spec, values.len(), values[i]);
    }
    for (input, gradient) in gradients(&inputs, DType::F32, |x| value(x).flatten(0, 1)).iter().enumerate() {
        if let Some(i) = gradient.iter().position(|v| !v.is_finite()) {
            let (row, column) = (i / case.spec.dim, i % case.spec.dim);
            let found = gradient[i];
            panic!(
                "{name} of {}, root {root:?}: gradient of input {input} of {shape:?} at [{row}, {column}] is {found}",
                case.spec
            );
        }
    }
}
