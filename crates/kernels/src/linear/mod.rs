//! Affine maps of rows, optionally added to other rows: [`linear`] and [`linear_add`].

use burn::backend::{Backend, Dispatch, backend_extension, tensor::FloatTensor};
use burn::tensor::{Tensor, module};

use crate::arrays::is_fused;

mod autodiff;
pub(crate) mod rows;
#[cfg(test)]
mod tests;

/// Computes `x W + b`. Shapes: `[N, in]`, `[in, out]` and `[out]` to `[N, out]`.
///
/// Fused for `f32` on the CPU, where the matrix product is added to rows that are initialised with the bias; otherwise
/// [`linear_plain`]. The weight may be a slice or a transpose. The result is bit-identical for any number of threads.
///
/// # Panics
/// Panics if the shapes do not match.
pub fn linear(x: Tensor<2>, weight: Tensor<2>, bias: Tensor<1>) -> Tensor<2> {
    check(x.dims(), weight.dims(), bias.dims());
    if !(is_fused(&x) && is_fused(&weight) && is_fused(&bias)) {
        return linear_plain(x, weight, bias);
    }
    let [x, weight] = [x, weight].map(Tensor::into_dispatch);
    Tensor::from_dispatch(<Dispatch as LinearOps>::fused_linear(x, weight, bias.into_dispatch()))
}

/// Computes `base + x W + b`: [`linear`] added to `base` `[N, out]`.
///
/// # Panics
/// Panics if the shapes do not match.
pub fn linear_add(base: Tensor<2>, x: Tensor<2>, weight: Tensor<2>, bias: Tensor<1>) -> Tensor<2> {
    check(x.dims(), weight.dims(), bias.dims());
    assert_eq!(base.dims(), [x.dims()[0], bias.dims()[0]], "shape of `base`");
    if !(is_fused(&base) && is_fused(&x) && is_fused(&weight) && is_fused(&bias)) {
        return linear_add_plain(base, x, weight, bias);
    }
    let [base, x, weight] = [base, x, weight].map(Tensor::into_dispatch);
    Tensor::from_dispatch(<Dispatch as LinearOps>::fused_linear_add(base, x, weight, bias.into_dispatch()))
}

/// Reference implementation of [`linear`]: Burn's own function.
pub fn linear_plain(x: Tensor<2>, weight: Tensor<2>, bias: Tensor<1>) -> Tensor<2> {
    module::linear(x, weight, Some(bias))
}

/// Reference implementation of [`linear_add`].
pub fn linear_add_plain(base: Tensor<2>, x: Tensor<2>, weight: Tensor<2>, bias: Tensor<1>) -> Tensor<2> {
    base + linear_plain(x, weight, bias)
}

fn check([_, width]: [usize; 2], [inputs, outputs]: [usize; 2], [biases]: [usize; 1]) {
    assert!(
        width == inputs && outputs == biases,
        "expected a weight of shape [width, outputs] and one bias per output; found rows of width {width}, weight {inputs} x {outputs}, {biases} biases"
    );
}

/// Burn backend extension that declares the fused operation.
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
