use std::path::PathBuf;

/// Errors of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The report could not be written.
    #[error("cannot write the report {path}: {source}")]
    Write {
        /// Path of the report.
        path: PathBuf,
        /// Cause.
        source: std::io::Error,
    },
    /// A setting or the points do not fit a projection.
    #[error("{what}: {found}; expected {expected}")]
    Projection {
        /// The setting or the property of the points.
        what: String,
        /// Value found.
        found: String,
        /// Values expected.
        expected: String,
    },
    /// The data of a figure do not fit.
    #[error("{what}: {found}; expected {expected}")]
    Figure {
        /// The place in the data.
        what: String,
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
    pub(crate) fn projection(what: &str, found: impl ToString, expected: impl ToString) -> Self {
        Error::Projection { what: what.to_owned(), found: found.to_string(), expected: expected.to_string() }
    }

    pub(crate) fn figure(what: impl ToString, found: impl ToString, expected: impl ToString) -> Self {
        Error::Figure { what: what.to_string(), found: found.to_string(), expected: expected.to_string() }
    }
}

/// Result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;
