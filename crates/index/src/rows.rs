//! Storage of the coordinates of all rows.

use std::borrow::Cow;
use std::sync::Arc;

use half::f16;

use crate::error::{Error, Result};
use crate::kernel::Stored as _;
use crate::mapped::{Mapped, Plain};

/// Row-major coordinates, in memory or in memory-mapped files. A clone shares them.
#[derive(Clone)]
pub(crate) enum Rows {
    /// Full precision, as computed by the model.
    F32(Parts<f32>),
    /// Rounded to half precision. The index then treats the rounded points as exact.
    F16(Parts<f16>),
}

/// Rows gathered from several parts in any order.
#[derive(Clone)]
pub(crate) struct Parts<E> {
    parts: Vec<Part<E>>,
    /// `None` if the rows are those of a single part in its order.
    places: Option<Arc<[Place]>>,
}

/// A contiguous array of coordinates.
#[derive(Clone)]
pub(crate) enum Part<E> {
    Owned(Arc<Vec<E>>),
    Mapped(Arc<Mapped<E>>),
}

/// Location of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) part: u32,
    pub(crate) row: u32,
}

/// A borrowed form of [`Parts`], for loops over many rows.
#[derive(Clone, Copy)]
pub(crate) struct Lines<'a, E> {
    whole: &'a [E],
    parts: &'a [Part<E>],
    places: Option<&'a [Place]>,
}

impl Rows {
    /// Takes the coordinates without rounding.
    pub(crate) fn owned(points: Vec<f32>) -> Self {
        Rows::F32(Parts::whole(Part::Owned(Arc::new(points))))
    }

    /// Rounds every coordinate to half precision.
    ///
    /// # Errors
    /// Fails if the absolute value of a coordinate is above 65,504.
    pub(crate) fn half(points: &[f32]) -> Result<Self> {
        let halves: Vec<f16> = points.iter().map(|v| f16::from_f32(*v)).collect();
        match halves.iter().position(|v| !v.is_finite()) {
            Some(i) => Err(Error::invalid("a coordinate to be stored in half precision", points[i], "at most 65504")),
            None => Ok(Rows::F16(Parts::whole(Part::Owned(Arc::new(halves))))),
        }
    }

    /// Number of rows of `dim` coordinates.
    pub(crate) fn len(&self, dim: usize) -> usize {
        match self {
            Rows::F32(parts) => parts.len(dim),
            Rows::F16(parts) => parts.len(dim),
        }
    }

    /// Row `i`. `scratch` is overwritten if the coordinates are not stored as `f32`.
    #[inline(always)]
    pub(crate) fn row<'a>(&'a self, i: usize, dim: usize, scratch: &'a mut Vec<f32>) -> &'a [f32] {
        match self {
            Rows::F32(parts) => parts.view().row(i, dim),
            Rows::F16(parts) => {
                scratch.clear();
                scratch.extend(parts.view().row(i, dim).iter().map(|v| v.wide()));
                scratch
            }
        }
    }

    /// Row `i`, copied if the coordinates are not stored as `f32`.
    pub(crate) fn get(&self, i: usize, dim: usize) -> Cow<'_, [f32]> {
        match self {
            Rows::F32(parts) => Cow::Borrowed(parts.view().row(i, dim)),
            Rows::F16(parts) => Cow::Owned(parts.view().row(i, dim).iter().map(|v| v.wide()).collect()),
        }
    }

    /// Moves the row at `order[i]` to position `i`. Works in place if the rows are in memory and not shared, else on a
    /// copy.
    pub(crate) fn arrange(&mut self, dim: usize, order: &[u32]) {
        match self {
            Rows::F32(parts) => parts.arrange(dim, order),
            Rows::F16(parts) => parts.arrange(dim, order),
        }
    }

    /// These rows, without a copy of their coordinates. Every row number must be valid.
    pub(crate) fn select(&self, rows: &[usize]) -> Self {
        match self {
            Rows::F32(parts) => Rows::F32(parts.select(rows)),
            Rows::F16(parts) => Rows::F16(parts.select(rows)),
        }
    }
}

impl<E: Plain> Parts<E> {
    pub(crate) fn whole(part: Part<E>) -> Self {
        Parts { parts: vec![part], places: None }
    }

    /// The rows at these locations, which must be valid.
    pub(crate) fn gathered(parts: Vec<Part<E>>, places: Vec<Place>) -> Self {
        Parts { parts, places: Some(places.into()) }
    }

    pub(crate) fn len(&self, dim: usize) -> usize {
        match &self.places {
            Some(places) => places.len(),
            None => self.view().whole.len() / dim,
        }
    }

    #[inline(always)]
    pub(crate) fn view(&self) -> Lines<'_, E> {
        let whole = if self.places.is_none() { self.parts[0].numbers() } else { &[] };
        Lines { whole, parts: &self.parts, places: self.places.as_deref() }
    }

    fn select(&self, rows: &[usize]) -> Self {
        let place = |row: &usize| match &self.places {
            // An index holds less than 2^32 rows.
            None => Place { part: 0, row: *row as u32 },
            Some(places) => places[*row],
        };
        Parts::gathered(self.parts.clone(), rows.iter().map(place).collect())
    }

    fn arrange(&mut self, dim: usize, order: &[u32]) {
        if self.places.is_none()
            && let Part::Owned(values) = &mut self.parts[0]
            && let Some(values) = Arc::get_mut(values)
        {
            return cycle(values, dim, order);
        }
        let lines = self.view();
        let mut values = Vec::with_capacity(order.len() * dim);
        order.iter().for_each(|row| values.extend_from_slice(lines.row(*row as usize, dim)));
        *self = Parts::whole(Part::Owned(Arc::new(values)));
    }
}

impl<E: Plain> Part<E> {
    #[inline(always)]
    pub(crate) fn numbers(&self) -> &[E] {
        match self {
            Part::Owned(values) => values,
            Part::Mapped(mapped) => mapped.numbers(),
        }
    }
}

impl<'a, E: Plain> Lines<'a, E> {
    #[inline(always)]
    pub(crate) fn row(&self, i: usize, dim: usize) -> &'a [E] {
        match self.places {
            None => &self.whole[i * dim..][..dim],
            Some(places) => {
                let Place { part, row } = places[i];
                &self.parts[part as usize].numbers()[row as usize * dim..][..dim]
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
        let mut place = start;
        loop {
            done[place] = true;
            let from = order[place] as usize;
            if from == start {
                values[place * dim..(place + 1) * dim].copy_from_slice(&first);
                break;
            }
            values.copy_within(from * dim..(from + 1) * dim, place * dim);
            place = from;
        }
    }
}
