//! Errors of requests that cannot be served, for example a missing file or an invalid setting. Bad samples are
//! reported as [`crate::Broken`] instead.

use std::path::{Path, PathBuf};

/// Result type of this crate. Functions that read one sample return `Result<T, Broken>`.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A request that cannot be served. Most messages name the subject, the value found and the value expected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be written atomically.
    #[error("data: {0}")]
    Files(#[from] conifer_files::Error),
    /// The operating system refused to access a file.
    #[error("data: cannot {action} `{}`: {source}", path.display())]
    Io {
        /// The failed action: "read", "create", "rename", ...
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The content of a file does not match its format.
    #[error("data: {place}: {found}; expected {expected}")]
    Format {
        /// The file, and the line or field if known.
        place: String,
        /// The content found in the file.
        found: String,
        /// The content that the format requires.
        expected: String,
    },
    /// A setting has an invalid value.
    #[error("data: `{name}` is {found}; expected {expected}")]
    Invalid {
        /// Name of the setting.
        name: String,
        /// The invalid value.
        found: String,
        /// The valid values.
        expected: String,
    },
    /// A name is not in its registry.
    #[error("data: {what} `{found}` is unknown; expected one of: {known}")]
    Unknown {
        /// Kind of name: "source kind", "importer", ...
        what: &'static str,
        /// The unknown name.
        found: String,
        /// The known names, separated by commas.
        known: String,
    },
    /// A source contains no samples, or an export wrote none.
    #[error("data: {place} holds no sample; expected {expected}")]
    Empty {
        /// The source, or the words "the export".
        place: String,
        /// The content that the source needs to yield a sample.
        expected: String,
    },
    /// Edges do not form a tree or an acyclic graph, or a hierarchy has no node with the requested name.
    #[error("data: hierarchy: {found}; expected {expected}")]
    Hierarchy {
        /// The fault, with the names of the nodes.
        found: String,
        /// The violated requirement.
        expected: String,
    },
    /// More samples were broken than the run allows.
    #[error("data: {broken} of {seen} samples are broken ({causes}); expected at most {:.1} %. First: {first}", 100.0 * allowed)]
    TooManyBroken {
        /// Number of broken samples.
        broken: u64,
        /// Number of samples requested.
        seen: u64,
        /// The allowed fraction of broken samples, in [0, 1].
        allowed: f64,
        /// Number of broken samples by cause, for example "missing_file 10, no_box 2".
        causes: String,
        /// The full messages of the first few broken samples.
        first: String,
    },
}

impl Error {
    /// For `map_err`: makes an I/O error that names the action and the file.
    pub fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }

    /// Makes an [`Error::Format`].
    pub fn format(place: impl Into<String>, found: impl Into<String>, expected: impl Into<String>) -> Self {
        Self::Format { place: place.into(), found: found.into(), expected: expected.into() }
    }

    /// Makes an [`Error::Invalid`].
    pub fn invalid(name: impl Into<String>, found: impl Into<String>, expected: impl Into<String>) -> Self {
        Self::Invalid { name: name.into(), found: found.into(), expected: expected.into() }
    }
}

/// Message of a JSON parse error without the line number, which is always 1 for a single line.
pub fn in_one_line(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(" at line ") {
        Some((what, _)) => format!("{what} at column {}", error.column()),
        None => text,
    }
}
