//! The affine maps on the CPU.

use burn::backend::{Flex, TensorMetadata};
use rayon::prelude::*;

use super::LinearOps;
use crate::arrays::{FlexArray, array, dense, matrix, numbers, total, with_forward_strides};
use crate::raw::{BLOCK, MatrixView, add_product, in_pool, new_rows, product};

impl LinearOps for Flex {
    fn fused_linear(x: FlexArray, weight: FlexArray, bias: FlexArray) -> FlexArray {
        forward(&dense(&x), &with_forward_strides(weight), &dense(&bias), None)
    }

    fn fused_linear_add(base: FlexArray, x: FlexArray, weight: FlexArray, bias: FlexArray) -> FlexArray {
        forward(&dense(&x), &with_forward_strides(weight), &dense(&bias), Some(&dense(&base)))
    }
}

/// `base + x W + b`. All arrays except the weight must be contiguous.
pub(super) fn forward(x: &FlexArray, weight: &FlexArray, bias: &FlexArray, base: Option<&FlexArray>) -> FlexArray {
    let (count, width) = (x.shape()[0], weight.shape()[1]);
    let out = in_pool(|| affine(matrix(x), matrix(weight), numbers(bias), base.map(numbers)));
    array(out, &[count, width])
}

/// `base + x W + b`, row major.
pub(crate) fn affine(x: MatrixView<'_>, weight: MatrixView<'_>, bias: &[f32], base: Option<&[f32]>) -> Vec<f32> {
    let ([count, _], width) = (x.shape(), bias.len());
    let (mut out, _) = new_rows(count, width, |rows, out| match base {
        None => out.chunks_exact_mut(width.max(1)).for_each(|row| row.copy_from_slice(bias)),
        Some(base) => {
            let base = base[rows.start * width..rows.end * width].chunks_exact(width.max(1));
            for (row, base) in out.chunks_exact_mut(width.max(1)).zip(base) {
                row.iter_mut().zip(base.iter().zip(bias)).for_each(|(out, (base, bias))| *out = base + bias);
            }
        }
    });
    add_product(&mut out, x, weight);
    out
}

/// The sum of the rows, which is the gradient of a bias.
pub(crate) fn sum_of_rows(gradient: &[f32], width: usize) -> Vec<f32> {
    let blocks = gradient.par_chunks((BLOCK * width).max(1));
    let sums: Vec<_> = blocks
        .map(|block| {
            let mut sum = vec![0.0; width];
            for row in block.chunks_exact(width.max(1)) {
                sum.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
            }
            sum
        })
        .collect();
    total(sums, width)
}

/// The gradients selected by `needed`, with respect to `x`, weight and bias. `x` must be contiguous.
pub(super) fn backward(
    x: &FlexArray,
    weight: &FlexArray,
    gradient: &FlexArray,
    needed: [bool; 3],
) -> [Option<FlexArray>; 3] {
    let [inputs, outputs] = [weight.shape()[0], weight.shape()[1]];
    let upstream = MatrixView::new(numbers(gradient), [x.shape()[0], outputs], [outputs, 1]);
    in_pool(|| {
        [
            needed[0].then(|| array(product(upstream, matrix(weight).transposed()), x.shape().as_slice())),
            needed[1].then(|| array(product(matrix(x).transposed(), upstream), &[inputs, outputs])),
            needed[2].then(|| array(sum_of_rows(numbers(gradient), outputs), &[outputs])),
        ]
    })
}
