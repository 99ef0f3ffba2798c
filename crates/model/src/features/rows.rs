//! The rows of a [`FeatureBank`](super::FeatureBank): in mapped files, in memory, or given by the data.

use burn::tensor::{Device, Tensor, TensorData};
use conifer_data::vectors::SharedVector;

use super::mapped::MappedVectors;
use super::store::ShardPosition;

/// A matrix `[n, width]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FeatureRows {
    /// Number of values in a row.
    pub width: usize,
    /// The rows, concatenated.
    pub values: Vec<f32>,
}

/// Mean and standard deviation of each feature over the training data.
#[derive(Clone, Debug, PartialEq)]
pub struct FeatureStatistics {
    pub(crate) mean: Vec<f32>,
    pub(crate) std: Vec<f32>,
}

/// A matrix whose rows are in mapped files, in memory, or in matrices of the data.
#[derive(Debug, Default)]
pub(super) struct RowTable {
    width: usize,
    rows: Vec<FeatureLocation>,
    /// `None`: a shard without rows.
    shards: Vec<Option<MappedVectors>>,
    memory: Vec<f32>,
}

/// Location of a row.
#[derive(Clone, Debug)]
pub(super) enum FeatureLocation {
    Shard(ShardPosition),
    /// The number of the row among those in memory.
    Memory(usize),
    Given(SharedVector),
}

impl FeatureRows {
    /// Row `index`.
    pub fn row(&self, index: usize) -> &[f32] {
        &self.values[index * self.width..][..self.width]
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.values.len().checked_div(self.width).unwrap_or(0)
    }

    /// True if there is no row.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

impl RowTable {
    /// A table of rows in `shards` and in `memory`.
    pub(super) fn new(
        rows: Vec<FeatureLocation>,
        shards: Vec<Option<MappedVectors>>,
        FeatureRows { width, values }: FeatureRows,
    ) -> Self {
        Self { width, rows, shards, memory: values }
    }

    /// A table of vectors that the data contains.
    pub(super) fn given(width: usize, vectors: impl IntoIterator<Item = SharedVector>) -> Self {
        let rows = vectors.into_iter().map(FeatureLocation::Given).collect();
        Self { width, rows, ..Self::default() }
    }

    /// Number of rows.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Adds a row in memory and returns its number.
    pub(super) fn push(&mut self, row: &[f32]) -> u32 {
        self.rows.push(FeatureLocation::Memory(self.memory.len() / self.width.max(1)));
        self.memory.extend_from_slice(row);
        (self.rows.len() - 1) as u32
    }

    /// Appends row `index` to `out`.
    pub(super) fn read(&self, index: usize, out: &mut Vec<f32>) {
        match &self.rows[index] {
            FeatureLocation::Memory(row) => out.extend_from_slice(&self.memory[row * self.width..][..self.width]),
            FeatureLocation::Given(vector) => out.extend_from_slice(vector),
            FeatureLocation::Shard((shard, row)) => {
                if let Some(shard) = &self.shards[*shard as usize] {
                    shard.read(*row, out);
                }
            }
        }
    }

    /// The rows at `positions` as a tensor `[n, width]` on `device` without autodiff.
    pub(super) fn tensor(&self, positions: impl ExactSizeIterator<Item = usize>, device: &Device) -> Tensor<2> {
        let shape = [positions.len(), self.width];
        let mut values = Vec::with_capacity(shape[0] * shape[1]);
        positions.for_each(|position| self.read(position, &mut values));
        Tensor::from_data(TensorData::new(values, shape), &device.clone().without_autodiff())
    }

    /// Mean and standard deviation of each column, in f64 with two passes.
    pub(super) fn statistics(&self) -> FeatureStatistics {
        let n = self.len().max(1) as f64;
        let mut row = Vec::with_capacity(self.width);
        let mut each = |add: &mut dyn FnMut(&[f32])| {
            for index in 0..self.len() {
                row.clear();
                self.read(index, &mut row);
                add(&row);
            }
        };
        let mut mean = vec![0.0; self.width];
        each(&mut |row| mean.iter_mut().zip(row).for_each(|(sum, &x)| *sum += f64::from(x) / n));
        let mut variance = vec![0.0; self.width];
        each(&mut |row| {
            variance
                .iter_mut()
                .zip(&mean)
                .zip(row)
                .for_each(|((sum, mean), &x)| *sum += (f64::from(x) - mean).powi(2) / n);
        });
        let narrow = |values: Vec<f64>| -> Vec<f32> { values.into_iter().map(|x| x as f32).collect() };
        FeatureStatistics { mean: narrow(mean), std: narrow(variance.into_iter().map(f64::sqrt).collect()) }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use conifer_data::vectors::VectorMatrix;

    use super::*;

    #[test]
    fn statistics_are_mean_and_population_deviation() {
        let mut table = RowTable::given(2, [SharedVector::from(vec![1.0, 5.0])]);
        assert_eq!(table.push(&[3.0, 5.0]), 1);
        let found = table.statistics();
        assert_eq!((found.mean, found.std), (vec![2.0, 5.0], vec![1.0, 0.0]));
    }

    #[test]
    fn given_vectors_are_not_copied() {
        let matrix = std::sync::Arc::new(VectorMatrix::new(2, vec![1.0, 2.0, 3.0, 4.0]).unwrap());
        let vectors = (0..2).map(|row| SharedVector::new(matrix.clone(), row).unwrap());
        let table = RowTable::given(2, vectors);
        let FeatureLocation::Given(second) = &table.rows[1] else { panic!("{:?}", table.rows) };
        assert!(std::ptr::eq(second.as_ptr(), &matrix.row(1).unwrap()[0]));
        assert!(table.memory.is_empty());
    }
}
