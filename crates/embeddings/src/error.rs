//! The error type of this crate.

use std::path::{Path, PathBuf};

/// An error about an embedding set. Every message names the item, the value found and the value expected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A field of a set has an invalid value.
    #[error("{name} is {found}; expected {expected}")]
    Invalid {
        /// Name of the field, with its location in the set.
        name: String,
        /// The value found.
        found: String,
        /// Description of a valid value.
        expected: String,
    },
    /// A file of a set violates the format.
    #[error("embedding set: `{}`: {what} is {found}; expected {expected}", .path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The invalid part of the file.
        what: String,
        /// The value found.
        found: String,
        /// Description of a valid value.
        expected: String,
        /// The error of the parser, if there is one.
        source: Option<serde_json::Error>,
    },
    /// A file operation failed.
    #[error(transparent)]
    Files(#[from] conifer_files::Error),
    /// The space or the root is invalid.
    #[error(transparent)]
    Space(#[from] conifer_geometry::Error),
}

/// Result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn invalid(name: impl Into<String>, found: impl ToString, expected: impl Into<String>) -> Self {
        Error::Invalid { name: name.into(), found: found.to_string(), expected: expected.into() }
    }

    pub(crate) fn format(
        path: &Path,
        what: impl Into<String>,
        found: impl ToString,
        expected: impl Into<String>,
    ) -> Self {
        Error::Format {
            path: path.to_owned(),
            what: what.into(),
            found: found.to_string(),
            expected: expected.into(),
            source: None,
        }
    }

    /// For `map_err`: a file or line that is not JSON of the expected form.
    pub(crate) fn json(
        path: &Path,
        what: impl Into<String>,
        expected: impl Into<String>,
    ) -> impl FnOnce(serde_json::Error) -> Self {
        let (path, what, expected) = (path.to_owned(), what.into(), expected.into());
        move |source| Error::Format { path, what, found: source.to_string(), expected, source: Some(source) }
    }

    /// For `map_err`: adds the operation and the path to an I/O error.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let error = conifer_files::Error::io(action, path);
        move |source| error(source).into()
    }
}
