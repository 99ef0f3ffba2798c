/// Errors of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The rows have no column with this name.
    #[error("no column is called `{name}`; expected one of: {}", known.join(", "))]
    UnknownColumn {
        /// Column name in the condition.
        name: String,
        /// Columns of the rows.
        known: Vec<String>,
    },
    /// The URL of a server, the key of an endpoint or the kind of its model is invalid.
    #[error("{name} is {found}; expected {expected}")]
    Invalid {
        /// Name of the setting.
        name: String,
        /// Value found, or a description of it.
        found: String,
        /// Accepted values.
        expected: String,
    },
    /// An embedding endpoint cannot be used.
    #[error("--embedding-endpoint {url}")]
    Endpoint {
        /// The URL of the endpoint.
        url: String,
        /// Reason why the endpoint cannot be used.
        source: Box<Error>,
    },
    /// The index rejected a filter.
    #[error(transparent)]
    Index(#[from] conifer_index::Error),
}

/// Result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn invalid(name: impl Into<String>, found: impl Into<String>, expected: impl Into<String>) -> Self {
        Error::Invalid { name: name.into(), found: found.into(), expected: expected.into() }
    }
}
