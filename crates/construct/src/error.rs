use std::path::{Path, PathBuf};

/// Result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a run cannot start or continue. A caption that cannot be used is counted by its [`crate::pipeline::DropCause`]
/// instead.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be written atomically.
    #[error("build: {0}")]
    Files(#[from] conifer_files::Error),
    /// A file or folder could not be opened, read, written, created or removed.
    #[error("build: cannot {action} `{}`: {source}", path.display())]
    Io {
        /// The failed action: "read", "create", ...
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The content of a file or a setting is invalid.
    #[error("build: {name}: {found}; expected {expected}")]
    Invalid {
        /// The file with its line, or the setting.
        name: String,
        /// The value found.
        found: String,
        /// The requirement and the next step.
        expected: String,
    },
    /// The endpoint of the language model or of the judge cannot be used.
    #[error("build: {0}")]
    Endpoint(String),
    /// The model that compares phrases with boxes failed.
    #[error("build: the model failed: {0}")]
    Scorer(String),
    /// The detector that proposes boxes failed.
    #[error("build: the detector failed: {0}")]
    Detector(String),
    /// The model that continues hierarchies, or that judges texts, failed.
    #[error("build: {0}")]
    Model(String),
    /// The user stopped the run.
    #[error("build: stopped; repeat the command to continue")]
    Stopped,
}

impl Error {
    /// For `map_err`: makes an I/O error that names the action and the file.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }

    /// Makes an [`Error::Invalid`].
    pub(crate) fn invalid(name: impl Into<String>, found: impl Into<String>, expected: impl Into<String>) -> Self {
        Self::Invalid { name: name.into(), found: found.into(), expected: expected.into() }
    }
}
