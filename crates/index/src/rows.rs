//! Storage of the coordinates of all rows.

use std::borrow::Cow;
use std::sync::Arc;

use half::f16;

use crate::error::{Error, Result};
use crate::kernel::StoredCoordinate as _;
use crate::mapped::{MappedArray, MappedCoordinate};

/// Row-major coordinates, in memory or in memory-mapped files. A clone shares them.
#[derive(Clone)]
pub(crate) enum PointRows {
    /// Full precision, as computed by the model.
    F32(GatheredRows<f32>),
    /// Rounded to half precision. The index then treats the rounded points as exact.
    F16(GatheredRows<f16>),
}

/// Rows gathered from several arrays in any order.
#[derive(Clone)]
pub(crate) struct GatheredRows<E> {
    arrays: Vec<CoordinateArray<E>>,
    /// `None` if there is a single array, whose rows are used in order.
    locations: Option<Arc<[RowLocation]>>,
}

/// A contiguous array of coordinates.
#[derive(Clone)]
pub(crate) enum CoordinateArray<E> {
    Owned(Arc<Vec<E>>),
    Mapped(Arc<MappedArray<E>>),
}

/// Location of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowLocation {
    pub(crate) array: u32,
    pub(crate) row: u32,
}

/// A borrowed form of [`GatheredRows`], for loops over many rows.
#[derive(Clone, Copy)]
pub(crate) struct RowsView<'a, E> {
    single: &'a [E],
    arrays: &'a [CoordinateArray<E>],
    locations: Option<&'a [RowLocation]>,
}

impl PointRows {
    /// Stores the coordinates in full precision.
    pub(crate) fn owned(points: Vec<f32>) -> Self {
        PointRows::F32(GatheredRows::single(CoordinateArray::Owned(Arc::new(points))))
    }

    /// Rounds every coordinate to half precision.
    ///
    /// # Errors
    /// Fails if the absolute value of a coordinate is above 65,504.
    pub(crate) fn half(points: &[f32]) -> Result<Self> {
        let halves: Vec<f16> = points.iter().map(|v| f16::from_f32(*v)).collect();
        match halves.iter().position(|v| !v.is_finite()) {
            Some(i) => Err(Error::invalid("a coordinate to be stored in half precision", points[i], "at most 65504")),
            None => Ok(PointRows::F16(GatheredRows::single(CoordinateArray::Owned(Arc::new(halves))))),
        }
    }

    /// Number of rows of `dim` coordinates.
    pub(crate) fn len(&self, dim: usize) -> usize {
        match self {
            PointRows::F32(gathered) => gathered.len(dim),
            PointRows::F16(gathered) => gathered.len(dim),
        }
    }

    /// Row `i`. `scratch` is overwritten if the coordinates are not stored as `f32`.
    #[inline(always)]
    pub(crate) fn row<'a>(&'a self, i: usize, dim: usize, scratch: &'a mut Vec<f32>) -> &'a [f32] {
        match self {
            PointRows::F32(gathered) => gathered.view().row(i, dim),
            PointRows::F16(gathered) => {
                scratch.clear();
                scratch.extend(gathered.view().row(i, dim).iter().map(|v| v.wide()));
                scratch
            }
        }
    }

    /// Row `i`, copied if the coordinates are not stored as `f32`.
    pub(crate) fn get(&self, i: usize, dim: usize) -> Cow<'_, [f32]> {
        match self {
            PointRows::F32(gathered) => Cow::Borrowed(gathered.view().row(i, dim)),
            PointRows::F16(gathered) => Cow::Owned(gathered.view().row(i, dim).iter().map(|v| v.wide()).collect()),
        }
    }

    /// Moves the row at `order[i]` to position `i`. Works in place if the rows are in memory and not shared, else on a
    /// copy.
    pub(crate) fn arrange(&mut self, dim: usize, order: &[u32]) {
        match self {
            PointRows::F32(gathered) => gathered.arrange(dim, order),
            PointRows::F16(gathered) => gathered.arrange(dim, order),
        }
    }

    /// These rows, without a copy of their coordinates. Every row number must be valid.
    pub(crate) fn select(&self, rows: &[usize]) -> Self {
        match self {
            PointRows::F32(gathered) => PointRows::F32(gathered.select(rows)),
            PointRows::F16(gathered) => PointRows::F16(gathered.select(rows)),
        }
    }
}

impl<E: MappedCoordinate> GatheredRows<E> {
    pub(crate) fn single(array: CoordinateArray<E>) -> Self {
        GatheredRows { arrays: vec![array], locations: None }
    }

    /// The rows at these locations, which must be valid.
    pub(crate) fn gathered(arrays: Vec<CoordinateArray<E>>, locations: Vec<RowLocation>) -> Self {
        GatheredRows { arrays, locations: Some(locations.into()) }
    }

    pub(crate) fn len(&self, dim: usize) -> usize {
        match &self.locations {
            Some(locations) => locations.len(),
            None => self.view().single.len() / dim,
        }
    }

    #[inline(always)]
    pub(crate) fn view(&self) -> RowsView<'_, E> {
        let single = if self.locations.is_none() { self.arrays[0].numbers() } else { &[] };
        RowsView { single, arrays: &self.arrays, locations: self.locations.as_deref() }
    }

    fn select(&self, rows: &[usize]) -> Self {
        let location = |row: &usize| match &self.locations {
            // An index holds fewer than 2^32 rows.
            None => RowLocation { array: 0, row: *row as u32 },
            Some(locations) => locations[*row],
        };
        GatheredRows::gathered(self.arrays.clone(), rows.iter().map(location).collect())
    }

    fn arrange(&mut self, dim: usize, order: &[u32]) {
        if self.locations.is_none()
            && let CoordinateArray::Owned(values) = &mut self.arrays[0]
            && let Some(values) = Arc::get_mut(values)
        {
            return cycle(values, dim, order);
        }
        let view = self.view();
        let mut values = Vec::with_capacity(order.len() * dim);
        order.iter().for_each(|row| values.extend_from_slice(view.row(*row as usize, dim)));
        *self = GatheredRows::single(CoordinateArray::Owned(Arc::new(values)));
    }
}

impl<E: MappedCoordinate> CoordinateArray<E> {
    #[inline(always)]
    pub(crate) fn numbers(&self) -> &[E] {
        match self {
            CoordinateArray::Owned(values) => values,
            CoordinateArray::Mapped(mapped) => mapped.numbers(),
        }
    }
}

impl<'a, E: MappedCoordinate> RowsView<'a, E> {
    #[inline(always)]
    pub(crate) fn row(&self, i: usize, dim: usize) -> &'a [E] {
        match self.locations {
            None => &self.single[i * dim..][..dim],
            Some(locations) => {
                let RowLocation { array, row } = locations[i];
                &self.arrays[array as usize].numbers()[row as usize * dim..][..dim]
            }
        }
    }
}

/// Moves the row at `order[i]` to position `i` in place, one permutation cycle after the other.
fn cycle<T: Copy>(values: &mut [T], dim: usize, order: &[u32]) {
    let mut done = vec![false; order.len()];
    for start in 0..order.len() {
        if done[start] {
            continue;
        }
        let first: Vec<T> = values[start * dim..(start + 1) * dim].to_vec();
        let mut position = start;
        loop {
            done[position] = true;
            let from = order[position] as usize;
            if from == start {
                values[position * dim..(position + 1) * dim].copy_from_slice(&first);
                break;
            }
            values.copy_within(from * dim..(from + 1) * dim, position * dim);
            position = from;
        }
    }
}
