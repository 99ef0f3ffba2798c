//! [`linear`] and [`linear_add`]: affine maps of rows, on top of what the rows are added to.

use burn::backend::{Backend, Dispatch, backend_extension, tensor::FloatTensor};
use burn::tensor::{Tensor, module};

use crate::arrays::is_fused;

mod autodiff;
pub(crate) mod rows;
#[cfg(test)]
mod tests;

/// `x W + b`, `[N, in]`, `[in, out]`, `[out]` to `[N, out]`.
///
/// Fused for `f32` on the CPU, where the matrix product adds to rows that begin as the bias; [`linear_plain`] for everything else.
/// The weight may be a slice or a transpose. The same bits for any number of threads.
///
/// # Panics
/// Where the shapes do not fit together.
pub fn linear(x: Tensor<2>, weight: Tensor<2>, bias: Tensor<1>) -> Tensor<2> {
    check(x.dims(), weight.dims(), bias.dims());
    if !(is_fused(&x) && is_fused(&weight) && is_fused(&bias)) {
        return linear_plain(x, weight, bias);
    }
    let [x, weight] = [x, weight].map(Tensor::into_dispatch);
    Tensor::from_dispatch(<Dispatch as LinearOps>::fused_linear(x, weight, bias.into_dispatch()))
}

/// `base + x W + b`: [`linear`] on top of `base` `[N, out]`.
///
/// # Panics
/// Where the shapes do not fit together.
pub fn linear_add(base: Tensor<2>, x: Tensor<2>, weight: Tensor<2>, bias: Tensor<1>) -> Tensor<2> {
    check(x.dims(), weight.dims(), bias.dims());
    assert_eq!(base.dims(), [x.dims()[0], bias.dims()[0]], "shape of what is added to");
    if !(is_fused(&base) && is_fused(&x) && is_fused(&weight) && is_fused(&bias)) {
        return linear_add_plain(base, x, weight, bias);
    }
    let [base, x, weight] = [base, x, weight].map(Tensor::into_dispatch);
    Tensor::from_dispatch(<Dispatch as LinearOps>::fused_linear_add(base, x, weight, bias.into_dispatch()))
}

/// The slow twin of [`linear`]: the engine's own.
pub fn linear_plain(x: Tensor<2>, weight: Tensor<2>, bias: Tensor<1>) -> Tensor<2> {
    module::linear(x, weight, Some(bias))
}

/// The slow twin of [`linear_add`].
pub fn linear_add_plain(base: Tensor<2>, x: Tensor<2>, weight: Tensor<2>, bias: Tensor<1>) -> Tensor<2> {
    base + linear_plain(x, weight, bias)
}

fn check([_, width]: [usize; 2], [inputs, outputs]: [usize; 2], [biases]: [usize; 1]) {
    assert!(width == inputs && outputs == biases, "rows of {width}, weight {inputs} x {outputs}, {biases} biases");
}

/// The operation as an extension of the engine's backends.
#[backend_extension(Flex, Autodiff)]
trait LinearOps: Backend {
    /// See [`linear`].
    fn fused_linear(x: FloatTensor<Self>, weight: FloatTensor<Self>, bias: FloatTensor<Self>) -> FloatTensor<Self>;

    /// See [`linear_add`].
    fn fused_linear_add(
        base: FloatTensor<Self>,
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
    ) -> FloatTensor<Self>;
}
