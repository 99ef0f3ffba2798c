//! Layer normalisation of rows, fused forward and backward: [`layer_norm`].

use burn::backend::{Backend, Dispatch, backend_extension, tensor::FloatTensor};
use burn::tensor::{Tensor, module};

use crate::arrays::is_fused;

mod autodiff;
mod rows;
#[cfg(test)]
mod tests;

/// Computes `(x - mean) / sqrt(var + epsilon) * gain + bias` over each row, with the biased variance (Ba et al.,
/// arXiv:1607.06450). Shapes: `[N, W]`, `[W]` and `[W]` to `[N, W]`.
///
/// Fused for `f32` on the CPU, otherwise [`layer_norm_plain`]. The backward pass reads the input and two numbers per
/// row. The result is bit-identical for any number of threads.
///
/// # Panics
/// Panics if the lengths of gain and bias are not the width of the rows.
pub fn layer_norm(x: Tensor<2>, gain: Tensor<1>, bias: Tensor<1>, epsilon: f64) -> Tensor<2> {
    let width = x.dims()[1];
    assert!(
        [gain.dims()[0], bias.dims()[0]] == [width; 2],
        "expected a gain and a bias of length {width}, the width of the rows"
    );
    if !(is_fused(&x) && is_fused(&gain) && is_fused(&bias)) {
        return layer_norm_plain(x, gain, bias, epsilon);
    }
    Tensor::from_dispatch(<Dispatch as LayerNormOps>::fused_layer_norm(
        x.into_dispatch(),
        gain.into_dispatch(),
        bias.into_dispatch(),
        epsilon,
    ))
}

/// Reference implementation of [`layer_norm`]: Burn's own function.
pub fn layer_norm_plain(x: Tensor<2>, gain: Tensor<1>, bias: Tensor<1>, epsilon: f64) -> Tensor<2> {
    module::layer_norm(x, gain, Some(bias), epsilon)
}

/// Burn backend extension that declares the fused operation.
#[backend_extension(Flex, Autodiff)]
trait LayerNormOps: Backend {
    /// See [`layer_norm`].
    fn fused_layer_norm(
        x: FloatTensor<Self>,
        gain: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        epsilon: f64,
    ) -> FloatTensor<Self>;
}
