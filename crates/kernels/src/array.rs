//! The numbers of arrays of the CPU backend, without copies.

use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Flex, TensorMetadata};
use burn::tensor::TensorData;

pub(crate) type Array = FloatTensor<Flex>;

/// The same array (of numbers or truths) in row-major order.
pub(crate) fn contiguous(x: Array) -> Array {
    if x.is_contiguous() { x } else { x.to_contiguous() }
}

/// The numbers of a contiguous array.
pub(crate) fn numbers(x: &Array) -> &[f32] {
    x.as_slice().unwrap_or_else(|| unreachable!("only contiguous f32 arrays come here"))
}

/// Row-major `values` as an array.
pub(crate) fn array(values: Vec<f32>, shape: &[usize], like: &Array) -> Array {
    Flex::float_from_data(TensorData::new(values, shape.to_vec()), &like.device())
}
