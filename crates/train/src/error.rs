//! The error type of this crate.

use std::path::{Path, PathBuf};

/// An error while configuring or running a training. Each message names the setting, file or tensor, the value found
/// and the value expected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder could not be read or written.
    #[error("train: {}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A setting has a value outside its range, or two settings contradict each other.
    #[error("train: `{name}` is {found}; expected {expected}")]
    Invalid {
        /// Dotted name of the setting (`optim.lr`).
        name: String,
        /// The value found.
        found: String,
        /// The accepted values.
        expected: String,
    },
    /// A loss or a gradient of a training step is not finite.
    #[error(
        "train: `step {step}: {what}` is {value}; expected a finite number (the last checkpoint is kept; a lower optim.lr or optim.clip_norm = 1 may help)"
    )]
    Diverged {
        /// Number of the step.
        step: u64,
        /// The loss, with the first term that is not finite, or the gradient of a parameter.
        what: String,
        /// The value found.
        value: f64,
    },
    /// A name that is not in its registry.
    #[error("train: unknown {kind} `{name}`; known: {known}")]
    Unknown {
        /// Kind of the name (`method`, `schedule`).
        kind: &'static str,
        /// The requested name.
        name: String,
        /// The names that exist, separated by commas.
        known: String,
    },
    /// A file whose content does not follow its format.
    #[error("train: {}: {detail}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The content found and the content expected.
        detail: String,
    },
    /// A tensor whose shape differs from the expected one.
    #[error("train: `{name}` has shape {found:?}; expected {expected}")]
    Shape {
        /// Name of the tensor.
        name: String,
        /// The shape found.
        found: Vec<usize>,
        /// The shape expected, in words or numbers.
        expected: String,
    },
    /// An evaluation during training failed.
    #[error("train: the evaluation after step {step} failed: {source}")]
    Evaluation {
        /// Number of updates before the evaluation.
        step: u64,
        /// The error of the observer.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// An error of at least one of several ranks, which every rank returns.
    #[error("{message}")]
    Ranks {
        /// Number of the rank that returns the error. Rank 0 reports it to the user.
        rank: usize,
        /// The errors of all ranks as one message.
        message: String,
    },
    /// An error of `conifer-model` (models and checkpoints).
    #[error(transparent)]
    Model(#[from] conifer_model::Error),
    /// An error of `conifer-geometry` (spaces, roots).
    #[error(transparent)]
    Space(#[from] conifer_geometry::Error),
    /// An error of `conifer-files` (files and folders that are replaced atomically).
    #[error(transparent)]
    Files(#[from] conifer_files::Error),
    /// An error of `conifer-geometry-tensor` (manifolds over tensors).
    #[error(transparent)]
    Geometry(#[from] conifer_geometry_tensor::Error),
    /// An error of `conifer-data`.
    #[error(transparent)]
    Data(#[from] conifer_data::Error),
}

/// Result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Returns a function that builds an [`Error::Io`] for `path`, for use in `map_err(Error::io(path))`.
    pub fn io(path: impl AsRef<Path>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.as_ref().to_path_buf();
        move |source| Self::Io { path, source }
    }

    /// Builds an [`Error::Invalid`].
    pub fn invalid(name: impl Into<String>, found: impl ToString, expected: impl Into<String>) -> Self {
        Self::Invalid { name: name.into(), found: found.to_string(), expected: expected.into() }
    }

    /// Builds an [`Error::Format`] for `path`.
    pub fn format(path: impl AsRef<Path>, detail: impl Into<String>) -> Self {
        Self::Format { path: path.as_ref().to_path_buf(), detail: detail.into() }
    }
}
