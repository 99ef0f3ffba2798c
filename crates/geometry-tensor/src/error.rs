//! [`Error`]: errors of specs and curvatures.

/// An error of this crate. Each message names the item, the value found and the value expected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The spec is invalid, or its kind is unknown.
    #[error(transparent)]
    Spec(#[from] conifer_geometry::Error),
    /// The curvature tensor does not match the spec.
    #[error("geometry: curvature of `{kind}` has {found} value(s); expected {expected}")]
    CurvatureCount {
        /// Kind of the space.
        kind: String,
        /// Number of values in the tensor.
        found: usize,
        /// Number of values expected: one per Lorentz factor.
        expected: usize,
    },
    /// A kind that `conifer_geometry` supports, but this crate does not.
    #[error("geometry: the tensor implementation of the manifold kind `{kind}` is missing; expected one of {expected}")]
    UnknownKind {
        /// The requested kind.
        kind: String,
        /// The kinds in [`crate::MANIFOLDS`].
        expected: String,
    },
}

/// Result with this crate's [`Error`].
pub type Result<T> = core::result::Result<T, Error>;
