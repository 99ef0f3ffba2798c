//! Error type of this crate.

use std::path::{Path, PathBuf};

use conifer_geometry::ManifoldSpec;

/// Errors of searches and stores. A message about an invalid value contains the value found and the values expected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The query is from another space than the rows.
    #[error("search: the query is a point of {query}; expected {index}, the space of the index")]
    OtherSpace {
        /// The space of the query.
        query: String,
        /// The space of the index.
        index: String,
    },
    /// An argument of a search, a traversal or an export is invalid.
    #[error("search: {name} is {found}; expected {expected}")]
    Invalid {
        /// Name of the argument, with the row or query if there are several.
        name: String,
        /// The value found.
        found: String,
        /// A description of the valid values.
        expected: String,
    },
    /// A file of a store is damaged, or an argument does not fit the store.
    #[error("store: `{}`: {what} is {found}; expected {expected}", .path.display())]
    Store {
        /// The store, or the file in it.
        path: PathBuf,
        /// Name of the damaged or invalid value.
        what: String,
        /// The value found.
        found: String,
        /// A description of the valid values.
        expected: String,
        /// The error of the parser or of the file operation, if there is one.
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
    /// Rows to append have the id and modality of rows that the store already has.
    #[error(
        "store: `{}`: the set to append has {rows} of {of} rows whose id and modality are in the store, the first is `{id}` ({modality}); \
         expected new rows",
        .path.display()
    )]
    Repeated {
        /// The store.
        path: PathBuf,
        /// Number of such rows.
        rows: usize,
        /// Number of rows of the set.
        of: usize,
        /// The id of the first such row.
        id: String,
        /// The modality of that row.
        modality: &'static str,
    },
    /// A file operation failed.
    #[error(transparent)]
    Files(#[from] conifer_files::Error),
    /// An invalid embedding set.
    #[error(transparent)]
    Embeddings(#[from] conifer_embeddings::Error),
    /// An invalid space or root.
    #[error(transparent)]
    Space(#[from] conifer_geometry::Error),
}

/// Result with the [`Error`] type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn invalid(name: impl Into<String>, found: impl ToString, expected: impl Into<String>) -> Self {
        Error::Invalid { name: name.into(), found: found.to_string(), expected: expected.into() }
    }

    pub(crate) fn store(
        path: &Path,
        what: impl Into<String>,
        found: impl ToString,
        expected: impl Into<String>,
    ) -> Self {
        Error::Store {
            path: path.to_owned(),
            what: what.into(),
            found: found.to_string(),
            expected: expected.into(),
            source: None,
        }
    }

    /// Adds the cause to an [`Error::Store`].
    pub(crate) fn caused_by(mut self, cause: impl std::error::Error + Send + Sync + 'static) -> Self {
        if let Error::Store { source, .. } = &mut self {
            *source = Some(Box::new(cause));
        }
        self
    }

    /// For `map_err`: adds the operation and the path to an I/O error.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let error = conifer_files::Error::io(action, path);
        move |source| error(source).into()
    }

    /// Names both spaces in their short form, or in full if the short forms are equal.
    pub(crate) fn other_space(query: &ManifoldSpec, index: &ManifoldSpec) -> Self {
        let (short_query, short_index) = (query.to_string(), index.to_string());
        if short_query == short_index {
            Error::OtherSpace { query: format!("{query:?}"), index: format!("{index:?}") }
        } else {
            Error::OtherSpace { query: short_query, index: short_index }
        }
    }
}
