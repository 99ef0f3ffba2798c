//! The one error type of this crate.

use std::path::{Path, PathBuf};

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
    /// A file of a store is not what was written, or an argument does not fit the store.
    #[error("store: `{}`: {what} is {found}; expected {expected}", .path.display())]
    Store {
        /// The store, or the file in it.
        path: PathBuf,
        /// The value, with enough context to find it.
        what: String,
        /// What was found.
        found: String,
        /// What a valid value looks like.
        expected: String,
    },
    /// Rows to append have an id and a modality that rows of the store have.
    #[error(
        "store: `{}`: the set to append has {rows} of {of} rows whose id and modality are in the store, the first is `{id}` ({modality}); \
         expected new rows",
        .path.display()
    )]
    Repeated {
        /// The store.
        path: PathBuf,
        /// How many of the rows.
        rows: usize,
        /// Rows of the set.
        of: usize,
        /// The id of the first.
        id: String,
        /// Its modality.
        modality: &'static str,
    },
    /// The operating system refused a file operation.
    #[error("cannot {action} `{}`: {source}", .path.display())]
    Io {
        /// The operation, as a verb.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
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

    pub(crate) fn store(
        path: &Path,
        what: impl Into<String>,
        found: impl ToString,
        expected: impl Into<String>,
    ) -> Self {
        Error::Store { path: path.to_owned(), what: what.into(), found: found.to_string(), expected: expected.into() }
    }

    /// For `map_err`: attaches the operation and the path to an error of the system.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Error::Io { action, path, source }
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
