//! Arrays of the CPU backend as slices, for the fused operations.

use std::any::TypeId;

use burn::backend::autodiff::checkpoint::strategy::{CheckpointStrategy, NoCheckpointing};
use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::FloatTensor;
use burn::backend::{DispatchDevice, Flex, TensorMetadata};
use burn::tensor::{DType, Tensor, TensorData};

use crate::raw::View;

pub(crate) type Array = FloatTensor<Flex>;

/// Whether a tensor is what the fused operations work on: `f32` on the CPU.
pub(crate) fn is_fused<const D: usize>(x: &Tensor<D>) -> bool {
    x.dtype() == DType::F32 && matches!(x.device().inner().as_dispatch(), DispatchDevice::Flex(_))
}

/// Whether the graph is one of gradient checkpointing: what is cheap to compute again is not kept.
pub(crate) fn computes_again<C: CheckpointStrategy>() -> bool {
    TypeId::of::<C>() != TypeId::of::<NoCheckpointing>()
}

/// The same numbers row after row; without a copy where they lie so.
pub(crate) fn dense(x: &Array) -> Array {
    x.to_contiguous()
}

/// The numbers of a [`dense`] array.
pub(crate) fn numbers(x: &Array) -> &[f32] {
    x.as_slice().unwrap_or_else(|| unreachable!("a dense array of f32"))
}

/// The numbers of an array that is used up, row after row; without a copy where nobody else holds them.
pub(crate) fn into_numbers(x: Array) -> Vec<f32> {
    x.into_data().try_into_vec::<f32>().unwrap_or_else(|e| unreachable!("fused for f32 only: {e}"))
}

/// A matrix as it lies in memory, transposed or cut out of another.
pub(crate) fn matrix(x: &Array) -> View<'_> {
    let (layout, shape) = (x.layout(), x.shape());
    let stride =
        |axis: usize| usize::try_from(layout.strides()[axis]).unwrap_or_else(|_| unreachable!("no flipped axes"));
    View::new(&x.storage::<f32>()[layout.start_offset()..], [shape[0], shape[1]], [stride(0), stride(1)])
}

/// An array as [`matrix`] takes it: no axis runs backwards.
pub(crate) fn forwards(x: Array) -> Array {
    if x.layout().strides().iter().all(|&stride| stride >= 0) { x } else { dense(&x) }
}

pub(crate) fn array(values: Vec<f32>, shape: &[usize]) -> Array {
    Flex::float_from_data(TensorData::new(values, shape.to_vec()), &Default::default())
}

/// The sums of blocks of rows, added up in order.
pub(crate) fn total(blocks: impl IntoIterator<Item = Vec<f32>>, width: usize) -> Vec<f32> {
    let mut total = vec![0.0; width];
    for block in blocks {
        total.iter_mut().zip(block).for_each(|(total, sum)| *total += sum);
    }
    total
}
