//! The coordinates of all rows, as they are stored.

use half::f16;

use crate::error::{Error, Result};
use crate::kernel::Stored;

/// Row-major coordinates.
pub(crate) enum Rows {
    /// As they were computed.
    F32(Vec<f32>),
    /// Rounded to half precision; these are then the points that the index knows.
    F16(Vec<f16>),
}

impl Rows {
    /// Rounds every coordinate to half precision.
    ///
    /// # Errors
    /// A coordinate beyond 65,504.
    pub(crate) fn half(points: &[f32]) -> Result<Self> {
        let halves: Vec<f16> = points.iter().map(|v| f16::from_f32(*v)).collect();
        match halves.iter().position(|v| !v.is_finite()) {
            Some(i) => Err(Error::invalid("a coordinate to be stored in half precision", points[i], "at most 65504")),
            None => Ok(Rows::F16(halves)),
        }
    }

    /// How many rows of `dim` coordinates there are.
    pub(crate) fn len(&self, dim: usize) -> usize {
        match self {
            Rows::F32(values) => values.len() / dim,
            Rows::F16(values) => values.len() / dim,
        }
    }

    /// Row `i`; `scratch` is written where the coordinates are not stored as `f32`.
    #[inline(always)]
    pub(crate) fn row<'a>(&'a self, i: usize, dim: usize, scratch: &'a mut Vec<f32>) -> &'a [f32] {
        match self {
            Rows::F32(values) => &values[i * dim..(i + 1) * dim],
            Rows::F16(values) => {
                scratch.clear();
                scratch.extend(values[i * dim..(i + 1) * dim].iter().map(|v| v.wide()));
                scratch
            }
        }
    }
}
