//! Access to the arrays of the CPU backend as slices, for the fused operations.

use std::any::TypeId;

use burn::backend::autodiff::checkpoint::strategy::{CheckpointStrategy, NoCheckpointing};
use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::FloatTensor;
use burn::backend::{DispatchDevice, Flex, TensorMetadata};
use burn::tensor::{DType, Tensor, TensorData};

use crate::raw::MatrixView;

pub(crate) type FlexArray = FloatTensor<Flex>;

/// True if the fused operations support a tensor: `f32` on the CPU.
pub(crate) fn is_fused<const D: usize>(x: &Tensor<D>) -> bool {
    x.dtype() == DType::F32 && matches!(x.device().inner().as_dispatch(), DispatchDevice::Flex(_))
}

/// True if the autodiff graph uses gradient checkpointing: the backward pass then recomputes cheap intermediate values.
pub(crate) fn recomputes<C: CheckpointStrategy>() -> bool {
    TypeId::of::<C>() != TypeId::of::<NoCheckpointing>()
}

/// A contiguous row-major array; copies only if `x` is not contiguous.
pub(crate) fn dense(x: &FlexArray) -> FlexArray {
    x.to_contiguous()
}

pub(crate) fn numbers(x: &FlexArray) -> &[f32] {
    x.as_slice().unwrap_or_else(|| unreachable!("a dense array of f32"))
}

/// The numbers of an array in row-major order, without a copy if no other array shares the memory.
pub(crate) fn into_numbers(x: FlexArray) -> Vec<f32> {
    x.into_data().try_into_vec::<f32>().unwrap_or_else(|e| unreachable!("fused for f32 only: {e}"))
}

/// A strided view of a matrix, which may be transposed or a slice of another.
pub(crate) fn matrix(x: &FlexArray) -> MatrixView<'_> {
    let (layout, shape) = (x.layout(), x.shape());
    let stride =
        |axis: usize| usize::try_from(layout.strides()[axis]).unwrap_or_else(|_| unreachable!("no flipped axes"));
    MatrixView::new(&x.storage::<f32>()[layout.start_offset()..], [shape[0], shape[1]], [stride(0), stride(1)])
}

/// Returns the array with non-negative strides, as [`matrix`] requires; copies only if a stride is negative.
pub(crate) fn with_forward_strides(x: FlexArray) -> FlexArray {
    if x.layout().strides().iter().all(|&stride| stride >= 0) { x } else { dense(&x) }
}

pub(crate) fn array(values: Vec<f32>, shape: &[usize]) -> FlexArray {
    Flex::float_from_data(TensorData::new(values, shape.to_vec()), &Default::default())
}

/// The elementwise sum of blocks of `width` numbers, added in order.
pub(crate) fn total(blocks: impl IntoIterator<Item = Vec<f32>>, width: usize) -> Vec<f32> {
    let mut total = vec![0.0; width];
    for block in blocks {
        total.iter_mut().zip(block).for_each(|(total, sum)| *total += sum);
    }
    total
}
