//! The one error type of this crate.

use std::path::{Path, PathBuf};

/// Everything that can go wrong while building, training, saving or loading a model. Each message names the thing, the value
/// found and what was expected.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or folder could not be read or written.
    #[error("learn: {}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A setting has a value outside its range, or two settings contradict each other.
    #[error("learn: `{name}` is {found}; expected {expected}")]
    Setting {
        /// Dotted name of the setting (`encoders.visual.patch`).
        name: String,
        /// The value found.
        found: String,
        /// What would have been accepted.
        expected: String,
    },
    /// A name that no registry knows.
    #[error("learn: unknown {kind} `{name}`; known: {known}")]
    Unknown {
        /// What was looked up (`encoder`, `method`, `manifold`).
        kind: &'static str,
        /// The name asked for.
        name: String,
        /// The names that exist, separated by commas.
        known: String,
    },
    /// A file that was read does not hold what its format promises.
    #[error("learn: {}: {detail}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What was found and what was expected.
        detail: String,
    },
    /// A tensor with another shape than the caller promised.
    #[error("learn: `{name}` has shape {found:?}; expected {expected}")]
    Shape {
        /// Name of the tensor.
        name: String,
        /// The shape found.
        found: Vec<usize>,
        /// The shape expected, in words or numbers.
        expected: String,
    },
    /// Stored tensors that do not fit the model.
    #[error("learn: {}: {}", path.display(), summary(problems))]
    Weights {
        /// The file they come from.
        path: PathBuf,
        /// One line per tensor: its name, the shape found, the shape expected.
        problems: Vec<String>,
    },
    /// Photographs that cannot be read, where none may be left out.
    #[error("learn: {count} of {total} photographs cannot be read; first: {first}")]
    Broken {
        /// How many.
        count: usize,
        /// Of how many that were looked at.
        total: usize,
        /// The first, with its cause.
        first: String,
    },
    /// What watches a run could not measure its model.
    #[error("learn: the evaluation after step {step} failed: {source}")]
    Evaluation {
        /// Updates made.
        step: u64,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Something from the engine-free frontier (spaces, sets of embeddings).
    #[error(transparent)]
    Space(#[from] conifer_space::Error),
    /// Something from the manifolds over tensors.
    #[error(transparent)]
    Geometry(#[from] conifer_geometry::Error),
    /// Something from the data.
    #[error(transparent)]
    Data(#[from] conifer_data::Error),
}

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An [`Error::Io`] for `path`; made for `map_err(Error::io(path))`.
    pub fn io(path: impl AsRef<Path>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.as_ref().to_path_buf();
        move |source| Self::Io { path, source }
    }

    /// An [`Error::Setting`].
    pub fn setting(name: impl Into<String>, found: impl ToString, expected: impl Into<String>) -> Self {
        Self::Setting { name: name.into(), found: found.to_string(), expected: expected.into() }
    }

    /// An [`Error::Format`] for `path`.
    pub fn format(path: impl AsRef<Path>, detail: impl Into<String>) -> Self {
        Self::Format { path: path.as_ref().to_path_buf(), detail: detail.into() }
    }
}

/// The first problems, and how many there are.
fn summary(problems: &[String]) -> String {
    const SHOWN: usize = 12;
    let shown: Vec<&str> = problems.iter().take(SHOWN).map(String::as_str).collect();
    let rest = match problems.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    format!("{} tensors do not fit: {}{rest}", problems.len(), shown.join("; "))
}
