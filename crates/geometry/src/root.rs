//! [`RootT`]: the apex of the cone system, as a value.

use burn::tensor::Tensor;

/// The point from which generality is measured.
///
/// A learnable root is a [`RootT::Point`] whose tensor carries gradient.
#[derive(Clone, Debug)]
pub enum RootT {
    /// The origin of the space.
    Origin,
    /// A point of the space, `[D]`, by its space components.
    Point(Tensor<1>),
    /// One point of the space for each row (of pairs: for each parent), `[B, D]`.
    Rows(Tensor<2>),
}
