//! The error type of this crate.

use std::path::{Path, PathBuf};

/// An error about a spec, a root or an embedding set. Every message names the item, the value found and the value
/// expected.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The `kind` of a spec is not in [`SPACES`](crate::SPACES).
    #[error("manifold: `kind` is `{kind}`; expected one of {known}")]
    UnknownKind {
        /// The unknown kind.
        kind: String,
        /// The known kinds, joined with commas.
        known: String,
    },
    /// A field of a spec, a root or a set has an invalid value.
    #[error("{what} is {found}; expected {expected}")]
    Invalid {
        /// The field and where it is.
        what: String,
        /// The value found.
        found: String,
        /// Description of a valid value.
        expected: String,
    },
    /// A file of an embedding set violates the format.
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
    },
    /// The operating system reported an error for a file operation.
    #[error("cannot {action} `{}`: {source}", .path.display())]
    Io {
        /// The operation, as a verb.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
}

/// Result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn invalid(what: impl Into<String>, found: impl ToString, expected: impl Into<String>) -> Self {
        Error::Invalid { what: what.into(), found: found.to_string(), expected: expected.into() }
    }

    pub(crate) fn format(
        path: &Path,
        what: impl Into<String>,
        found: impl ToString,
        expected: impl Into<String>,
    ) -> Self {
        Error::Format { path: path.to_owned(), what: what.into(), found: found.to_string(), expected: expected.into() }
    }

    /// For `map_err`: adds the operation and the path to an I/O error.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Error::Io { action, path, source }
    }
}
