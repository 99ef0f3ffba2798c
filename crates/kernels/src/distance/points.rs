//! Precomputed values of the points, and the conversion of gradients of `u` to gradients of points and curvatures.

use conifer_geometry::spaces::lorentz::time_excess;
use rayon::prelude::*;

/// Sizes of the operands: `m` points `x` and `n` points `y`.
#[derive(Clone, Copy, Debug)]
pub(super) struct DistanceSizes {
    pub(super) m: usize,
    pub(super) n: usize,
    /// Number of factors.
    pub(super) k: usize,
    /// Coordinates per factor.
    pub(super) d: usize,
}

/// `sqrt(c) t - 1` of every row and factor: `[B, K d]` to `[B, K]`.
pub(super) fn excesses(points: &[f32], curv: &[f32], sizes: &DistanceSizes) -> Vec<f32> {
    let parts = points.par_chunks(sizes.d).enumerate();
    let excess = |(i, part): (usize, &[f32])| time_excess(conifer_geometry::slices::dot(part, part), curv[i % sizes.k]);
    parts.with_min_len(64).map(excess).collect()
}

/// Computes one row of the gradient of one factor, `scale pull + push c x / (1 + a)`, from `pull = sum e y` and `push =
/// sum e (1 + b)` over the other side, with `e` the gradient of `u`. `scale` is `-c`, or 1 if `pull` already includes
/// it.
#[inline]
pub(super) fn finish(pull: &mut [f32], point: &[f32], scale: f32, push: f32, curv: f32, excess: f32) {
    let outward = push * curv / (1.0 + excess);
    for (pull, x) in pull.iter_mut().zip(point) {
        *pull = scale * *pull + outward * x;
    }
}

/// Gradient of the curvatures. A distance is `f(sqrt(c) x, sqrt(c) y) / sqrt(c)`, so `2 c dL/dc = <x, dL/dx> + <y,
/// dL/dy> - value`, with `value` the sum of the distances times their gradients.
pub(super) fn curvature_gradient(
    sides: [(&[f32], &[f32]); 2],
    values: &[f64],
    curv: &[f32],
    sizes: &DistanceSizes,
) -> Vec<f32> {
    let mut totals: Vec<f64> = values.iter().map(|value| -value).collect();
    for (points, gradients) in sides {
        let parts = points.par_chunks(sizes.d).zip(gradients.par_chunks(sizes.d));
        let products: Vec<f64> = parts.with_min_len(64).map(|(point, gradient)| dot(point, gradient)).collect();
        for row in products.chunks(sizes.k) {
            totals.iter_mut().zip(row).for_each(|(total, product)| *total += product);
        }
    }
    totals.iter().zip(curv).map(|(total, &c)| (total / (2.0 * f64::from(c))) as f32).collect()
}

/// The dot product in `f64`, because the terms of [`curvature_gradient`] nearly cancel.
fn dot(x: &[f32], y: &[f32]) -> f64 {
    const SUMS: usize = 8;
    let mut sums = [0.0_f64; SUMS];
    let (x_blocks, x_rest) = x.as_chunks::<SUMS>();
    let (y_blocks, y_rest) = y.as_chunks::<SUMS>();
    for (x, y) in x_blocks.iter().zip(y_blocks) {
        for i in 0..SUMS {
            sums[i] += f64::from(x[i]) * f64::from(y[i]);
        }
    }
    let rest: f64 = x_rest.iter().zip(y_rest).map(|(&x, &y)| f64::from(x) * f64::from(y)).sum();
    sums.iter().sum::<f64>() + rest
}
