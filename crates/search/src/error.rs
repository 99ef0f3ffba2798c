/// Errors of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The rows have no column with this name.
    #[error("no column is called `{name}`; expected one of: {}", known.join(", "))]
    UnknownColumn {
        /// Name in the condition.
        name: String,
        /// Columns of the rows.
        known: Vec<String>,
    },
    /// The index rejected a filter.
    #[error(transparent)]
    Index(#[from] conifer_index::Error),
}

/// Result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;
