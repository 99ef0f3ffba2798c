//! [`layer_norm`]: normalisation of rows, forward and backward in one operation each.

use burn::backend::{Backend, Dispatch, backend_extension, tensor::FloatTensor};
use burn::tensor::{Tensor, module};

use crate::arrays::is_fused;

mod autodiff;
mod rows;
#[cfg(test)]
mod tests;

/// `(x - mean) / sqrt(var + epsilon) * gain + bias` over each row, with the biased variance (Ba et al., arXiv:1607.06450):
/// `[N, W]`, `[W]`, `[W]` to `[N, W]`.
///
/// Fused for `f32` on the CPU, where the backward pass reads the argument and two numbers a row; [`layer_norm_plain`] for everything
/// else. The same bits for any number of threads.
///
/// # Panics
/// Where gain or bias are not of the width of the rows.
pub fn layer_norm(x: Tensor<2>, gain: Tensor<1>, bias: Tensor<1>, epsilon: f64) -> Tensor<2> {
    let width = x.dims()[1];
    assert!([gain.dims()[0], bias.dims()[0]] == [width; 2], "gain and bias of rows of {width}");
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

/// The slow twin of [`layer_norm`]: the engine's own.
pub fn layer_norm_plain(x: Tensor<2>, gain: Tensor<1>, bias: Tensor<1>, epsilon: f64) -> Tensor<2> {
    module::layer_norm(x, gain, Some(bias), epsilon)
}

/// The operation as an extension of the engine's backends.
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
