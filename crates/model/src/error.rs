//! The error type of this crate.

use std::path::{Path, PathBuf};

/// An error while building, saving, loading or running a model. Each message names the setting, file or
/// tensor, the value found and the value expected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder could not be read or written.
    #[error("model: {}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A setting has a value outside its range, or two settings contradict each other.
    #[error("model: `{name}` is {found}; expected {expected}")]
    Invalid {
        /// Dotted name of the setting (`head.temperature`).
        name: String,
        /// The value found.
        found: String,
        /// The accepted values.
        expected: String,
    },
    /// A name that is not in its registry.
    #[error("model: unknown {kind} `{name}`; known: {known}")]
    Unknown {
        /// Kind of the name (`encoder`, `layout`).
        kind: &'static str,
        /// The requested name.
        name: String,
        /// The names that exist, separated by commas.
        known: String,
    },
    /// A file whose content does not follow its format.
    #[error("model: {}: {detail}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The content found and the content expected.
        detail: String,
    },
    /// A tensor whose shape differs from the expected one.
    #[error("model: `{name}` has shape {found:?}; expected {expected}")]
    Shape {
        /// Name of the tensor.
        name: String,
        /// The shape found.
        found: Vec<usize>,
        /// The shape expected, in words or numbers.
        expected: String,
    },
    /// Stored tensors that do not fit the model.
    #[error("model: {}: {}", path.display(), summary(problems))]
    Weights {
        /// The file they come from.
        path: PathBuf,
        /// One line per tensor that is missing, unexpected, of another shape or type, or not finite.
        problems: Vec<String>,
    },
    /// Some photographs cannot be read, but the operation requires all.
    #[error("model: {count} of {total} photographs cannot be read; first: {first}")]
    Broken {
        /// Number of unreadable photographs.
        count: usize,
        /// Number of photographs that were checked.
        total: usize,
        /// The first failure, with its cause.
        first: String,
    },
    /// An error of `conifer-geometry` (spaces, roots).
    #[error(transparent)]
    Space(#[from] conifer_geometry::Error),
    /// An error of `conifer-files` (files and folders that are replaced atomically).
    #[error(transparent)]
    Files(#[from] conifer_files::Error),
    /// An error of `conifer-embeddings` (embedding sets).
    #[error(transparent)]
    Embeddings(#[from] conifer_embeddings::Error),
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

    /// An [`Error::Invalid`].
    pub fn invalid(name: impl Into<String>, found: impl ToString, expected: impl Into<String>) -> Self {
        Self::Invalid { name: name.into(), found: found.to_string(), expected: expected.into() }
    }

    /// An [`Error::Format`] for `path`.
    pub fn format(path: impl AsRef<Path>, detail: impl Into<String>) -> Self {
        Self::Format { path: path.as_ref().to_path_buf(), detail: detail.into() }
    }
}

fn summary(problems: &[String]) -> String {
    const SHOWN: usize = 12;
    let shown: Vec<&str> = problems.iter().take(SHOWN).map(String::as_str).collect();
    let rest = match problems.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    format!("{} tensors do not fit: {}{rest}", problems.len(), shown.join("; "))
}
