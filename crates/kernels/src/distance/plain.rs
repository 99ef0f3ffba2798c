//! Reference implementation of [`pairwise_distance`](super::pairwise_distance).

use burn::tensor::Tensor;

use super::{DistanceNorm, DistanceRule};

/// [`pairwise_distance`](super::pairwise_distance), composed of tensor operations, for every device and dtype. It
/// allocates tensors `[K, M, N]`.
///
/// `u` of all pairs is the product of the rows `[-c x, a, 1 + a]` and `[y, 1, b]` of each factor.
pub fn pairwise_distance_plain(x: Tensor<2>, y: Tensor<2>, curv: Tensor<1>, rule: DistanceRule) -> Tensor<2> {
    let [factors] = curv.dims();
    let curv = curv.reshape([factors, 1, 1]);
    let by_factor = |points: Tensor<2>| {
        let [rows, dim] = points.dims();
        points.reshape([rows, factors, dim / factors]).swap_dims(0, 1)
    };
    let (x, y) = (by_factor(x), by_factor(y));
    let (a, b) = (time_excess(x.clone(), curv.clone()), time_excess(y.clone(), curv.clone()));
    let left = Tensor::cat(vec![-x * curv.clone(), a.clone(), a + 1.0], 2);
    let right = Tensor::cat(vec![y, b.ones_like(), b], 2);
    let u = left.matmul(right.transpose()).clamp_min(rule.floor);
    let sinh = (u.clone() * (u.clone() + 2.0)).sqrt();
    let rapidity = (u + sinh).log1p();
    let distance: Tensor<2> = match rule.norm {
        DistanceNorm::L1 => (rapidity / curv.sqrt()).mean_dim(0).squeeze_dim(0),
        DistanceNorm::L2 => (rapidity.square() / curv).mean_dim(0).sqrt().squeeze_dim(0),
    };
    if rule.negative { -distance } else { distance }
}

/// `sqrt(c) t(x) - 1 = s / (sqrt(1 + s) + 1)` with `s = c |x|^2`: `[K, B, d]`, `[K, 1, 1]` to `[K, B, 1]`.
fn time_excess(x: Tensor<3>, curv: Tensor<3>) -> Tensor<3> {
    let s = x.square().sum_dim(2) * curv;
    s.clone() / ((s + 1.0).sqrt() + 1.0)
}
