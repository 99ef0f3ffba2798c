//! The one error type of this crate.

use conifer_space::ManifoldSpec;

/// What can go wrong in a search. Every message names the thing, the value found and what was expected.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The query lives in another space than the rows.
    #[error("search: the query is a point of {query}; expected {index}, the space of the index")]
    OtherSpace {
        /// The space of the query.
        query: String,
        /// The space of the index.
        index: String,
    },
    /// A value of the query or of a traversal is not what it must be.
    #[error("search: {what} is {found}; expected {expected}")]
    Invalid {
        /// The value, with enough context to find it.
        what: String,
        /// What was found.
        found: String,
        /// What a valid value looks like.
        expected: String,
    },
    /// The set is not a valid set of embeddings.
    #[error(transparent)]
    Space(#[from] conifer_space::Error),
}

/// Result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn invalid(what: impl Into<String>, found: impl ToString, expected: impl Into<String>) -> Self {
        Error::Invalid { what: what.into(), found: found.to_string(), expected: expected.into() }
    }

    /// Names both spaces in short, or in full where they differ only in what the short form leaves out.
    pub(crate) fn other_space(query: &ManifoldSpec, index: &ManifoldSpec) -> Self {
        let (short_query, short_index) = (query.to_string(), index.to_string());
        if short_query == short_index {
            Error::OtherSpace { query: format!("{query:?}"), index: format!("{index:?}") }
        } else {
            Error::OtherSpace { query: short_query, index: short_index }
        }
    }
}
