//! [`BatchSpace`]: manifold, root and scalars that a loss needs in addition to the points.

use std::ops::Range;

use burn::tensor::Tensor;
use conifer_geometry_tensor::{Manifold, RootT};

/// The space of a batch and the scalars of this step.
pub struct BatchSpace {
    /// The manifold; its curvature is differentiable.
    pub manifold: Box<dyn Manifold>,
    /// Root of the cones.
    pub root: RootT,
    /// Curvatures c of the Lorentz factors, `[K]`, as the manifold uses them; `None` for a space without curvature.
    pub curv: Option<Tensor<1>>,
    /// 1/temperature, `[1]`; `[3]` in the order of [`SOFTMAXES`](crate::head::SOFTMAXES) if the head has three.
    pub logit_scale: Tensor<1>,
    /// The rows of each term that this process computes.
    pub rows: RowShare,
}

/// The contiguous part of the rows of a batch for which one of several processes computes the loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowShare {
    part: usize,
    parts: usize,
}

impl Default for RowShare {
    /// All rows.
    fn default() -> Self {
        Self { part: 0, parts: 1 }
    }
}

impl RowShare {
    /// Part `part`, from 0, of `parts` parts whose sizes differ by at most one row.
    ///
    /// # Panics
    /// Panics unless `part < parts`.
    pub fn new(part: usize, parts: usize) -> Self {
        assert!(part < parts, "expected a part below {parts}; found {part}");
        Self { part, parts }
    }

    /// True if this part holds all rows.
    pub fn is_whole(self) -> bool {
        self.parts == 1
    }

    /// Range of this part in a batch of `rows` rows.
    pub fn of(self, rows: usize) -> Range<usize> {
        rows * self.part / self.parts..rows * (self.part + 1) / self.parts
    }
}
