//! Errors of starting and running a server. Errors of single requests are responses, see `error`.

/// Why a server cannot start, or has stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting, the served content or another server is not as expected.
    #[error("{name}: {found}; expected {expected}")]
    Invalid {
        /// The option of `conifer serve` or `conifer front` that has the value, or a description of the value.
        name: String,
        /// The value found.
        found: String,
        /// The valid values.
        expected: String,
    },
    /// The value of an option cannot be used, or a shard of a front does not answer.
    #[error("{name}")]
    Option {
        /// The option with its value, or the failed request.
        name: String,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A part of the server cannot be built from the served content.
    #[error(transparent)]
    Content(Box<dyn std::error::Error + Send + Sync>),
    /// The operating system refused a socket, a thread or a file, or the program could not report the address.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// Result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn invalid(name: impl Into<String>, found: impl Into<String>, expected: impl Into<String>) -> Self {
        Error::Invalid { name: name.into(), found: found.into(), expected: expected.into() }
    }

    /// A function for `map_err` that names the option.
    pub(crate) fn option<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
        name: impl Into<String>,
    ) -> impl FnOnce(E) -> Self {
        |source| Error::Option { name: name.into(), source: source.into() }
    }
}

/// Conversions of the errors of the crates that the content comes from.
macro_rules! content_errors {
    ($($error:ty),*) => {
        $(impl From<$error> for Error {
            fn from(error: $error) -> Self {
                Error::Content(Box::new(error))
            }
        })*
    };
}

content_errors!(
    conifer_data::Error,
    conifer_embeddings::Error,
    conifer_geometry::Error,
    conifer_index::Error,
    conifer_search::Error,
    prometheus::Error,
    tracing::subscriber::SetGlobalDefaultError
);
