//! The one error type of this crate.

use std::path::{Path, PathBuf};

/// What can go wrong with a spec, a root or a set of embeddings. Every message names the thing, the value found and
/// what was expected.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The `kind` of a spec is in no registry line.
    #[error("manifold: `kind` is `{kind}`; expected one of {known}")]
    UnknownKind {
        /// The name that was asked for.
        kind: String,
        /// The names that exist, joined for reading.
        known: String,
    },
    /// A field of a spec, a root or a set does not hold what it must.
    #[error("{what} is {found}; expected {expected}")]
    Invalid {
        /// The field, with enough context to find it.
        what: String,
        /// The value found.
        found: String,
        /// What a valid value looks like.
        expected: String,
    },
    /// A file of an embedding set exists, but its content is not what the format says.
    #[error("embedding set: `{}`: {what} is {found}; expected {expected}", .path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The part of the file.
        what: String,
        /// The value found.
        found: String,
        /// What a valid value looks like.
        expected: String,
    },
    /// The operating system refused a file operation.
    #[error("cannot {action} `{}`: {source}", .path.display())]
    Io {
        /// The operation, as a verb.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
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

    /// For `map_err`: attaches the operation and the path to an error of the system.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Error::Io { action, path, source }
    }
}
