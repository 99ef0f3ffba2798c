//! [`Error`]: what can be wrong with the description of a space.

/// An error of this crate. Each message names the thing, the value found and what was expected.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The description itself is not valid, or its kind is unknown.
    #[error(transparent)]
    Spec(#[from] conifer_space::Error),
    /// The curvature tensor does not fit the description.
    #[error("geometry: curvature of `{kind}` has {found} value(s); expected {expected}")]
    CurvatureCount {
        /// Kind of the space.
        kind: String,
        /// Number of values in the tensor.
        found: usize,
        /// One value per Lorentz factor.
        expected: usize,
    },
    /// A kind that `conifer_space` knows, but this crate does not.
    #[error("geometry: no manifold over tensors is named `{kind}`; expected one of {expected}")]
    UnknownKind {
        /// Kind asked for.
        kind: String,
        /// Kinds of [`crate::MANIFOLDS`].
        expected: String,
    },
}

/// Result of this crate.
pub type Result<T> = core::result::Result<T, Error>;
