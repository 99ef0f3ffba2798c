//! The fused distances on the CPU: [`narrow`] factors in registers, [`wide`] ones by matrix products.
//!
//! Every sum has a fixed order, so the result does not depend on the number of threads.

use burn::backend::{Flex, TensorMetadata};
use rayon::prelude::*;

use super::autodiff::DistancePasses;
use super::points::{DistanceSizes, curvature_gradient, excesses};
use super::{DistanceNorm, DistanceOps, DistanceRule, narrow, wide};
use crate::arrays::{FlexArray, array, dense, numbers};

/// Largest number of coordinates per factor for which [`narrow`] is used.
const NARROW: usize = 32;

impl DistanceOps for Flex {
    fn pairwise_distance(x: FlexArray, y: FlexArray, curv: FlexArray, rule: DistanceRule) -> FlexArray {
        forward(x, y, curv, rule, false).0
    }
}

impl DistancePasses for Flex {
    type SavedState = CpuDistanceState;

    fn forward(x: FlexArray, y: FlexArray, curv: FlexArray, rule: DistanceRule) -> (FlexArray, CpuDistanceState) {
        forward(x, y, curv, rule, true)
    }

    fn backward(state: CpuDistanceState, grad: FlexArray) -> [FlexArray; 3] {
        backward(state, &grad)
    }
}

/// State saved for the backward pass. No saved tensor has the size `[K, M, N]`.
#[derive(Clone, Debug)]
pub(super) struct CpuDistanceState {
    x: FlexArray,
    y: FlexArray,
    curv: FlexArray,
    rule: DistanceRule,
    /// The distances; saved only for a single factor or the root mean square.
    out: Option<FlexArray>,
    /// `u` of a single wide factor, as large as the result. With it the backward pass needs one matrix product less.
    u: Option<FlexArray>,
}

/// The operands, and the values that both passes precompute from them.
pub(super) struct DistanceOperands<'a> {
    pub(super) sizes: DistanceSizes,
    pub(super) x: &'a [f32],
    pub(super) y: &'a [f32],
    pub(super) curv: Vec<f32>,
    /// `sqrt(c) t - 1` of the points `x`, `[M, K]`.
    pub(super) a: Vec<f32>,
    /// `sqrt(c) t - 1` of the points `y`, `[N, K]`.
    pub(super) b: Vec<f32>,
    /// Weight of each factor: `sign / (K sqrt(c))` of the rapidity for l1, and `1 / (K c)` of the squared rapidity for
    /// l2.
    pub(super) weights: Vec<f32>,
    pub(super) norm: DistanceNorm,
    pub(super) sign: f32,
    pub(super) floor: f32,
}

impl<'a> DistanceOperands<'a> {
    fn new(x: &'a FlexArray, y: &'a FlexArray, curv: &FlexArray, rule: DistanceRule) -> Self {
        let ([m, dim], [n, _]) = (x.shape().dims::<2>(), y.shape().dims::<2>());
        let (x, y, curv) = (numbers(x), numbers(y), numbers(curv).to_vec());
        let k = curv.len();
        let sizes = DistanceSizes { m, n, k, d: dim / k };
        // The root mean square of a single distance is the distance.
        let norm = if k == 1 { DistanceNorm::L1 } else { rule.norm };
        let sign = if rule.negative { -1.0 } else { 1.0 };
        let weight = |&c: &f32| match norm {
            DistanceNorm::L1 => sign / (c.sqrt() * k as f32),
            DistanceNorm::L2 => 1.0 / (c * k as f32),
        };
        let weights = curv.iter().map(weight).collect();
        let (a, b) = (excesses(x, &curv, &sizes), excesses(y, &curv, &sizes));
        DistanceOperands { sizes, x, y, curv, a, b, weights, norm, sign, floor: rule.floor as f32 }
    }

    fn is_narrow(&self) -> bool {
        self.sizes.d <= NARROW
    }
}

/// The gradients of the points, and sums for the gradients of the curvatures.
pub(super) struct PointGradients {
    /// With respect to the points, `[M, D]` and `[N, D]`.
    pub(super) x: Vec<f32>,
    pub(super) y: Vec<f32>,
    /// For each factor, the sum of its weighted distances times their gradients.
    pub(super) values: Vec<f64>,
}

/// The distances and the saved state. `keep` also saves the computed values that the backward pass reads.
pub(super) fn forward(
    x: FlexArray,
    y: FlexArray,
    curv: FlexArray,
    rule: DistanceRule,
    keep: bool,
) -> (FlexArray, CpuDistanceState) {
    let [x, y, curv] = [x, y, curv].each_ref().map(dense);
    let operands = DistanceOperands::new(&x, &y, &curv, rule);
    let DistanceSizes { m, n, .. } = operands.sizes;
    let (out, u) = if m * n == 0 {
        (array(Vec::new(), &[m, n]), None)
    } else if operands.is_narrow() {
        (array(narrow::forward(&operands), &[m, n]), None)
    } else {
        wide::forward(&operands, &x, &y, keep)
    };
    let one_or_l2 = operands.sizes.k == 1 || operands.norm == DistanceNorm::L2;
    let result = (keep && one_or_l2).then(|| out.clone());
    drop(operands);
    (out, CpuDistanceState { x, y, curv, rule, out: result, u })
}

pub(super) fn backward(state: CpuDistanceState, grad: &FlexArray) -> [FlexArray; 3] {
    let CpuDistanceState { x, y, curv, rule, out, u } = state;
    let operands = DistanceOperands::new(&x, &y, &curv, rule);
    let sizes = &operands.sizes;
    let shapes = [[sizes.m, sizes.k * sizes.d], [sizes.n, sizes.k * sizes.d]];
    if sizes.m * sizes.n == 0 {
        let zeros = |shape: &[usize]| array(vec![0.0; shape.iter().product()], shape);
        return [zeros(&shapes[0]), zeros(&shapes[1]), zeros(&[sizes.k])];
    }
    let grad = dense(grad);
    let grad = numbers(&grad);
    let roots = out.as_ref().map(numbers);
    // d sqrt(s) = ds / (2 sqrt(s)). The factor 2 cancels with the derivative of the squares.
    let over_root: Vec<f32>;
    let grad = match (operands.norm, roots) {
        (DistanceNorm::L2, Some(roots)) => {
            over_root = grad.par_iter().zip(roots).with_min_len(4096).map(|(grad, root)| grad / root).collect();
            &over_root
        }
        _ => grad,
    };
    let found = if operands.is_narrow() {
        narrow::backward(&operands, grad)
    } else {
        wide::backward(&operands, [&x, &y], grad, roots, u)
    };
    let sides = [(operands.x, &found.x[..]), (operands.y, &found.y[..])];
    let curvatures = curvature_gradient(sides, &found.values, &operands.curv, sizes);
    [array(found.x, &shapes[0]), array(found.y, &shapes[1]), array(curvatures, &[operands.sizes.k])]
}
