//! What can go wrong before a sample is reached: a request that cannot be served. Bad samples are [`crate::Broken`],
//! not errors.

use std::path::{Path, PathBuf};

/// The result of this crate; of a sample, `Result<T, Broken>`.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A request that cannot be served. Every message names the thing, what was found and what was expected.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused a file.
    #[error("data: cannot {action} `{}`: {source}", path.display())]
    Io {
        /// What was tried: "read", "create", "rename", ...
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The reason of the operating system.
        source: std::io::Error,
    },
    /// A file is there, but its content is not what its format says.
    #[error("data: {place}: {found}; expected {expected}")]
    Format {
        /// The file and, where there is one, the line or the field.
        place: String,
        /// What is there.
        found: String,
        /// What should be there.
        expected: String,
    },
    /// A setting has a value that cannot be used.
    #[error("data: `{key}` is {found}; expected {expected}")]
    Config {
        /// The name of the setting.
        key: String,
        /// Its value.
        found: String,
        /// What it may be.
        expected: String,
    },
    /// A name is in no registry.
    #[error("data: {what} `{found}` is unknown; expected one of: {known}")]
    Unknown {
        /// What the name stands for: "source kind", "importer", ...
        what: &'static str,
        /// The name given.
        found: String,
        /// The names there are, separated by commas.
        known: String,
    },
    /// A source holds no sample at all.
    #[error("data: {place} holds no sample; expected {expected}")]
    Empty {
        /// The source.
        place: String,
        /// What makes a sample there.
        expected: String,
    },
    /// Edges that make no single tree.
    #[error("data: hierarchy: {found}; expected {expected}")]
    Hierarchy {
        /// The node or nodes that break it.
        found: String,
        /// What a tree needs.
        expected: String,
    },
    /// More samples were broken than the run allows.
    #[error("data: {broken} of {seen} samples are broken ({causes}); expected at most {:.1} %. First: {first}", 100.0 * allowed)]
    TooManyBroken {
        /// Number of broken samples.
        broken: u64,
        /// Number of samples asked for.
        seen: u64,
        /// The allowed share, in [0, 1].
        allowed: f64,
        /// Counts by cause.
        causes: String,
        /// The first broken sample, in full.
        first: String,
    },
}

impl Error {
    /// For `map_err`: names the action and the file.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }

    /// A file whose content is not what its format says.
    pub(crate) fn format(place: impl Into<String>, found: impl Into<String>, expected: impl Into<String>) -> Self {
        Self::Format { place: place.into(), found: found.into(), expected: expected.into() }
    }

    /// A setting with a value that cannot be used.
    pub(crate) fn config(key: impl Into<String>, found: impl Into<String>, expected: impl Into<String>) -> Self {
        Self::Config { key: key.into(), found: found.into(), expected: expected.into() }
    }
}

/// A fault in one line of JSON: the column counts, the line number of the parser is always 1.
pub(crate) fn in_one_line(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(" at line ") {
        Some((what, _)) => format!("{what} at column {}", error.column()),
        None => text,
    }
}
