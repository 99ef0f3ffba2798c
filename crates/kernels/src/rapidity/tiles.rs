//! The fused operation on the CPU: the matrix products of a few rows at a time, and one pass over their result.
//!
//! Every sum has a fixed order: over factors within a row of the output, over rows within a factor, over tiles one
//! after the other. Threads only decide who computes a row.

use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Flex, TensorMetadata};
use burn::tensor::{Slice, TensorData};
use macerator::AutoArch;
use rayon::prelude::*;

use super::acosh::acosh_1p;
use super::{Power, RapidityOps};

type Array = FloatTensor<Flex>;

/// Bytes of `u` per tile: small enough to stay in the outer caches between the product and the pass over it.
const TILE_BYTES: usize = 4 << 20;

impl RapidityOps for Flex {
    fn weighted_rapidity(left: Array, right: Array, weights: Array, power: Power, floor: f64) -> Array {
        let shape = Shape::of(&left, &right);
        let (columns, weights) = (transposed(right.clone()), numbers(weights));
        let mut out = vec![0.0_f32; shape.m * shape.n];
        for (rows, out) in shape.tiles().zip(out.chunks_mut(shape.tile_rows() * shape.row())) {
            let u = numbers(Flex::float_matmul(row_slice(&left, rows.clone()), columns.clone()));
            out.par_chunks_mut(shape.row()).enumerate().for_each(|(row, out)| {
                for (k, &weight) in weights.iter().enumerate() {
                    let start = (k * rows.len() + row) * shape.n;
                    add_powers(&u[start..start + shape.n], weight, power, floor as f32, out);
                }
            });
        }
        array(out, &[shape.m, shape.n], &left)
    }
}

/// Gradients with respect to `left`, `right` and `weights`.
pub(super) struct Gradients {
    pub(super) left: Array,
    pub(super) right: Array,
    pub(super) weights: Array,
}

/// The backward pass: `u` is computed again, tile by tile, and turned into its gradient in place.
pub(super) fn backward(
    left: &Array,
    right: &Array,
    weights: &Array,
    power: Power,
    floor: f64,
    grad: Array,
) -> Gradients {
    let shape = Shape::of(left, right);
    let (columns, grad, weight) = (transposed(right.clone()), numbers(grad), numbers(weights.clone()));
    let mut left_tiles = Vec::new();
    let mut right_grad: Option<Array> = None;
    let mut weight_grad = vec![0.0_f64; shape.k];
    for rows in shape.tiles() {
        let left_rows = row_slice(left, rows.clone());
        let mut u = numbers(Flex::float_matmul(left_rows.clone(), columns.clone()));
        let height = rows.len();
        let sums: Vec<f32> = u
            .par_chunks_mut(shape.row())
            .enumerate()
            .map(|(i, u)| {
                let (k, row) = (i / height, rows.start + i % height);
                let grad = &grad[row * shape.n..(row + 1) * shape.n];
                to_gradient(u, grad, weight[k], power, floor as f32)
            })
            .collect();
        for (i, sum) in sums.into_iter().enumerate() {
            weight_grad[i / height] += f64::from(sum);
        }
        let u_grad = array(u, &[shape.k, height, shape.n], left);
        left_tiles.push(Flex::float_matmul(u_grad.clone(), right.clone()));
        let tile = Flex::float_matmul(transposed(u_grad), left_rows);
        right_grad = Some(match right_grad {
            Some(sum) => Flex::float_add(sum, tile),
            None => tile,
        });
    }
    let zeros = |like: &Array| Flex::float_zeros(like.shape(), &like.device(), like.dtype().into());
    Gradients {
        left: if left_tiles.is_empty() { zeros(left) } else { Flex::float_cat(left_tiles, 1) },
        right: right_grad.unwrap_or_else(|| zeros(right)),
        weights: array(weight_grad.into_iter().map(|g| g as f32).collect(), &[shape.k], left),
    }
}

/// `out += weight acosh(1 + u)^p`, element by element.
fn add_powers(u: &[f32], weight: f32, power: Power, floor: f32, out: &mut [f32]) {
    AutoArch::new().dispatch(
        #[inline(always)]
        || {
            for (out, &u) in out.iter_mut().zip(u) {
                let (rapidity, _) = acosh_1p(u, floor);
                *out += weight
                    * match power {
                        Power::One => rapidity,
                        Power::Two => rapidity * rapidity,
                    };
            }
        },
    );
}

/// Turns `u` into the gradient with respect to it; returns the sum of `grad acosh(1 + u)^p`.
fn to_gradient(u: &mut [f32], grad: &[f32], weight: f32, power: Power, floor: f32) -> f32 {
    /// Sums kept side by side: vector instructions need them, and long sums are more accurate.
    const LANES: usize = 16;
    AutoArch::new().dispatch(
        #[inline(always)]
        || {
            let step = |u: &mut f32, grad: f32| {
                let (rapidity, slope) = acosh_1p(*u, floor);
                let (value, slope) = match power {
                    Power::One => (rapidity, slope),
                    Power::Two => (rapidity * rapidity, 2.0 * rapidity * slope),
                };
                *u = grad * weight * slope;
                grad * value
            };
            let mut lanes = [0.0_f32; LANES];
            let (blocks, rest) = u.as_chunks_mut::<LANES>();
            let (grad_blocks, grad_rest) = grad.as_chunks::<LANES>();
            for (u, grad) in blocks.iter_mut().zip(grad_blocks) {
                for lane in 0..LANES {
                    lanes[lane] += step(&mut u[lane], grad[lane]);
                }
            }
            for ((lane, u), &grad) in lanes.iter_mut().zip(rest).zip(grad_rest) {
                *lane += step(u, grad);
            }
            lanes.iter().sum()
        },
    )
}

/// Sizes of the operands.
#[derive(Clone, Copy)]
struct Shape {
    k: usize,
    m: usize,
    n: usize,
}

impl Shape {
    fn of(left: &Array, right: &Array) -> Self {
        let (left, right) = (left.shape(), right.shape());
        Shape { k: left[0], m: left[1], n: right[1] }
    }

    /// Numbers per row of the output, for functions that refuse empty chunks: there are no chunks where `n` is 0.
    fn row(self) -> usize {
        self.n.max(1)
    }

    fn tile_rows(self) -> usize {
        (TILE_BYTES / (size_of::<f32>() * self.k * self.n).max(1)).clamp(1, self.m.max(1))
    }

    /// Ranges of rows that cover the output.
    fn tiles(self) -> impl Iterator<Item = std::ops::Range<usize>> {
        (0..self.m).step_by(self.tile_rows()).map(move |start| start..(start + self.tile_rows()).min(self.m))
    }
}

fn row_slice(x: &Array, rows: std::ops::Range<usize>) -> Array {
    Flex::float_slice(x.clone(), &[Slice::full(), Slice::from(rows), Slice::full()])
}

fn transposed(x: Array) -> Array {
    Flex::float_swap_dims(x, 1, 2)
}

/// The numbers of an array in row-major order; without a copy where nobody else holds them.
fn numbers(x: Array) -> Vec<f32> {
    let data = x.into_data();
    data.try_into_vec::<f32>().unwrap_or_else(|e| unreachable!("`weighted_rapidity` is fused for f32 only: {e}"))
}

fn array(values: Vec<f32>, shape: &[usize], like: &Array) -> Array {
    Flex::float_from_data(TensorData::new(values, shape.to_vec()), &like.device())
}
