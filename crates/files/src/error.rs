//! The error type of this crate.

use std::path::{Path, PathBuf};

/// A failed file operation, or a path that cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
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
    /// A path that cannot be written.
    #[error("{what} is `{}`{detail}; expected {expected}", .path.display())]
    Path {
        /// What the path is for, such as "folder to write".
        what: &'static str,
        /// The path.
        path: PathBuf,
        /// Begins with a comma and states what was found at the path. Empty if the path itself is wrong.
        detail: &'static str,
        /// Description of a valid path.
        expected: &'static str,
    },
}

/// Result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Returns a function for `map_err` that adds the operation (a verb) and the path to an I/O error.
    pub fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Error::Io { action, path, source }
    }
}
