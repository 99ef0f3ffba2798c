use std::path::PathBuf;

/// Errors of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The report could not be written.
    #[error("cannot write the report {path}: {source}")]
    Write {
        /// Path of the report.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// A setting, a point or a value in the data of a figure is invalid.
    #[error("{name}: {found}; expected {expected}")]
    Invalid {
        /// The setting, or the place in the data.
        name: String,
        /// Value found.
        found: String,
        /// Values expected.
        expected: String,
    },
    /// The space is not valid.
    #[error(transparent)]
    Space(#[from] conifer_geometry::Error),
    /// The caller stopped a projection.
    #[error("the projection was stopped")]
    Stopped,
}

impl Error {
    pub(crate) fn invalid(name: impl ToString, found: impl ToString, expected: impl ToString) -> Self {
        Error::Invalid { name: name.to_string(), found: found.to_string(), expected: expected.to_string() }
    }
}

/// Result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;
