//! [`RootT`]: the root of a space as a tensor. Depths and angles are measured from it.

use burn::tensor::Tensor;

/// The point from which depth is measured.
///
/// A learnable root is a [`RootT::Point`] whose tensor requires a gradient.
#[derive(Clone, Debug)]
pub enum RootT {
    /// The origin of the space.
    Origin,
    /// A point of the space, given by its space components, `[D]`.
    Point(Tensor<1>),
    /// One point of the space per row (per parent for angles and cones), `[B, D]`. The pairwise angles of hyperboloids
    /// and their products do not support it.
    Rows(Tensor<2>),
}
