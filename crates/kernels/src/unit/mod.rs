//! Normalisation of rows to unit length, fused forward and backward: [`unit_rows`].

use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Backend, Dispatch, Flex, TensorMetadata, backend_extension};
use burn::tensor::Tensor;
use macerator::{AutoArch, Simd, WithSimd};
use rayon::prelude::*;

use crate::arrays::{FlexArray, array, dense, is_fused, numbers};
use crate::lanes::{lanes, load, splat, store};

#[cfg(test)]
mod tests;

/// Rows per task.
const TASK_ROWS: usize = 16;

/// Computes `x / |x|` for every row of `[B, D]`. A row whose length is at most `tiny` becomes 0 and gets no gradient.
///
/// Fused for `f32` on the CPU, otherwise [`unit_rows_plain`]. The result does not depend on the number of threads.
pub fn unit_rows(x: Tensor<2>, tiny: f64) -> Tensor<2> {
    if !is_fused(&x) {
        return unit_rows_plain(x, tiny);
    }
    Tensor::from_dispatch(<Dispatch as UnitOps>::unit_rows(x.into_dispatch(), tiny))
}

/// Reference implementation of [`unit_rows`], composed of tensor operations.
pub fn unit_rows_plain(x: Tensor<2>, tiny: f64) -> Tensor<2> {
    let square = x.clone().square().sum_dim(1);
    let short = square.clone().lower_equal_elem(tiny * tiny);
    let length = square.mask_fill(short.clone(), 1.0).sqrt();
    let inverse = length.recip().mask_fill(short, 0.0);
    x * inverse
}

/// Burn backend extension that declares the fused operation.
#[backend_extension(Flex, Autodiff)]
trait UnitOps: Backend {
    /// See [`unit_rows`].
    fn unit_rows(x: FloatTensor<Self>, tiny: f64) -> FloatTensor<Self>;
}

impl UnitOps for Flex {
    fn unit_rows(x: FlexArray, tiny: f64) -> FlexArray {
        forward(x, tiny as f32).0
    }
}

impl<C: CheckpointStrategy> UnitOps for Autodiff<Flex, C> {
    fn unit_rows(x: FloatTensor<Self>, tiny: f64) -> FloatTensor<Self> {
        let (x, node) = x.into_parts();
        let (out, inverse) = forward(x, tiny as f32);
        match UnitRowsNode.prepare::<C>([node]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish((out.clone(), inverse), out),
            OpsKind::UnTracked(prep) => prep.finish(out),
        }
    }
}

#[derive(Debug)]
struct UnitRowsNode;

impl Backward<Flex, 1> for UnitRowsNode {
    /// The result, and the reciprocals of the lengths (0 for rows of length at most `tiny`).
    type State = (FlexArray, Vec<f32>);

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let grad = grads.consume::<Flex>(&ops.node);
        let (out, inverse) = ops.state;
        let [parent] = ops.parents;
        if let Some(node) = parent {
            grads.register::<Flex>(node.id, backward(&out, &inverse, grad));
        }
    }
}

fn forward(x: FlexArray, tiny: f32) -> (FlexArray, Vec<f32>) {
    let x = dense(&x);
    let [rows, dim] = x.shape().dims::<2>();
    let (mut out, mut inverse) = (numbers(&x).to_vec(), vec![0.0_f32; rows]);
    let tasks = out.par_chunks_mut(TASK_ROWS * dim.max(1)).zip(inverse.par_chunks_mut(TASK_ROWS));
    tasks.for_each(|(out, inverse)| AutoArch::new().dispatch(UnitRowsForward { out, inverse, dim, tiny }));
    (array(out, &[rows, dim]), inverse)
}

/// The gradient of each row `x`: `(g - y <y, g>) / |x|` with `y` the unit row and `g` its gradient.
fn backward(out: &FlexArray, inverse: &[f32], grad: FlexArray) -> FlexArray {
    let grad = dense(&grad);
    let [rows, dim] = out.shape().dims::<2>();
    let mut derivatives = vec![0.0_f32; rows * dim];
    let task = TASK_ROWS * dim.max(1);
    let rows_of = numbers(out).par_chunks(task).zip(numbers(&grad).par_chunks(task)).zip(inverse.par_chunks(TASK_ROWS));
    derivatives.par_chunks_mut(task).zip(rows_of).for_each(|(derivatives, ((unit, grad), inverse))| {
        AutoArch::new().dispatch(UnitRowsBackward { derivatives, unit, grad, inverse, dim });
    });
    array(derivatives, &[rows, dim])
}

struct UnitRowsForward<'a> {
    out: &'a mut [f32],
    inverse: &'a mut [f32],
    dim: usize,
    tiny: f32,
}

impl WithSimd for UnitRowsForward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        for (row, inverse) in self.out.chunks_mut(self.dim).zip(self.inverse) {
            let square = dot::<S>(row, row);
            // The comparison is false for a NaN, so that NaN propagates.
            *inverse = if square <= self.tiny * self.tiny { 0.0 } else { 1.0 / square.sqrt() };
            let whole = row.len() / lanes::<S>() * lanes::<S>();
            let (lines, rest) = row.split_at_mut(whole);
            for line in lines.chunks_exact_mut(lanes::<S>()) {
                store::<S>(load::<S>(line) * splat::<S>(*inverse), line);
            }
            for value in rest {
                *value *= *inverse;
            }
        }
    }
}

struct UnitRowsBackward<'a> {
    derivatives: &'a mut [f32],
    unit: &'a [f32],
    grad: &'a [f32],
    inverse: &'a [f32],
    dim: usize,
}

impl WithSimd for UnitRowsBackward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        let operands = self.unit.chunks(self.dim).zip(self.grad.chunks(self.dim)).zip(self.inverse);
        for (derivatives, ((unit, grad), &inverse)) in self.derivatives.chunks_mut(self.dim).zip(operands) {
            let along = -dot::<S>(unit, grad);
            let whole = derivatives.len() / lanes::<S>() * lanes::<S>();
            for start in (0..whole).step_by(lanes::<S>()) {
                let derivative = load::<S>(&unit[start..]).mul_add(splat::<S>(along), load::<S>(&grad[start..]));
                store::<S>(derivative * splat::<S>(inverse), &mut derivatives[start..]);
            }
            for i in whole..derivatives.len() {
                derivatives[i] = (grad[i] + unit[i] * along) * inverse;
            }
        }
    }
}

#[inline(always)]
fn dot<S: Simd>(x: &[f32], y: &[f32]) -> f32 {
    let whole = x.len() / lanes::<S>() * lanes::<S>();
    let mut sum = splat::<S>(0.0);
    for start in (0..whole).step_by(lanes::<S>()) {
        sum = load::<S>(&x[start..]).mul_add(load::<S>(&y[start..]), sum);
    }
    let mut total = sum.reduce_add();
    for i in whole..x.len() {
        total += x[i] * y[i];
    }
    total
}
