//! One vector of a matrix that several owners share.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::VectorMatrix;

/// A row of a shared matrix. A clone copies no values.
#[derive(Clone)]
pub struct SharedVector {
    matrix: Arc<VectorMatrix>,
    row: u32,
}

impl SharedVector {
    /// Row `row` of `matrix`; `None` if the matrix has no such row.
    pub fn new(matrix: Arc<VectorMatrix>, row: u32) -> Option<Self> {
        matrix.row(row as usize)?;
        Some(Self { matrix, row })
    }
}

impl Deref for SharedVector {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        // `row` returns `None` only for a vector without values.
        self.matrix.row(self.row as usize).unwrap_or_default()
    }
}

impl From<Vec<f32>> for SharedVector {
    fn from(values: Vec<f32>) -> Self {
        Self { matrix: Arc::new(VectorMatrix { width: values.len(), values }), row: 0 }
    }
}

impl PartialEq for SharedVector {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl fmt::Debug for SharedVector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
