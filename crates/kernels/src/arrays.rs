//! Arrays of the CPU backend as slices, for the fused operations.

use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::FloatTensor;
use burn::backend::{DispatchDevice, Flex};
use burn::tensor::{DType, Device, TensorData};

/// An array of the CPU backend.
pub(crate) type Array = FloatTensor<Flex>;

/// Whether tensors of these dtypes on this device are computed by the fused operations: `f32` on the CPU.
pub(crate) fn fused(device: &Device, dtypes: &[DType]) -> bool {
    dtypes.iter().all(|&dtype| dtype == DType::F32)
        && matches!(device.clone().inner().as_dispatch(), DispatchDevice::Flex(_))
}

/// The same numbers in row-major order and nothing else in the buffer, as [`numbers`] reads them. A copy only where they lie
/// otherwise.
pub(crate) fn packed(x: &Array) -> Array {
    x.to_contiguous()
}

/// The numbers of a [`packed`] array, without a copy.
pub(crate) fn numbers(x: &Array) -> &[f32] {
    x.storage::<f32>()
}

/// An array of these numbers in row-major order, without a copy.
pub(crate) fn array(values: Vec<f32>, shape: &[usize], like: &Array) -> Array {
    Flex::float_from_data(TensorData::new(values, shape.to_vec()), &burn::backend::TensorMetadata::device(like))
}

/// The numbers of an array in row-major order; without a copy where nobody else holds them.
pub(crate) fn into_numbers(x: Array) -> Vec<f32> {
    x.into_data().try_into_vec::<f32>().unwrap_or_else(|e| unreachable!("fused for f32 only: {e}"))
}
