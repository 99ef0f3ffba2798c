//! Named arrays in main memory: the weights of a model or of an optimiser between files and tensors.

use std::collections::BTreeMap;

/// Tensors by published name, in PyTorch's layout.
pub type Weights = BTreeMap<String, WeightArray>;

/// One stored tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct WeightArray {
    /// Shape; empty for a scalar.
    pub shape: Vec<usize>,
    /// Elements in row-major order.
    pub values: WeightValues,
}

/// Elements of a [`WeightArray`].
#[derive(Clone, Debug, PartialEq)]
pub enum WeightValues {
    /// Floating-point values.
    F32(Vec<f32>),
    /// Boolean values, for masks.
    Bool(Vec<bool>),
}

impl WeightArray {
    /// An f32 tensor.
    pub fn f32(shape: impl Into<Vec<usize>>, values: Vec<f32>) -> Self {
        Self { shape: shape.into(), values: WeightValues::F32(values) }
    }

    /// A boolean tensor.
    pub fn bool(shape: impl Into<Vec<usize>>, values: Vec<bool>) -> Self {
        Self { shape: shape.into(), values: WeightValues::Bool(values) }
    }

    /// The elements in their stored form: little endian, one byte for a boolean.
    pub fn to_le_bytes(&self) -> Vec<u8> {
        match &self.values {
            WeightValues::F32(values) => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
            WeightValues::Bool(values) => values.iter().map(|&value| u8::from(value)).collect(),
        }
    }

    /// The elements, if they are f32.
    pub fn floats(&self) -> Option<&[f32]> {
        match &self.values {
            WeightValues::F32(values) => Some(values),
            WeightValues::Bool(_) => None,
        }
    }
}
