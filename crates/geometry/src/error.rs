//! The error type of this crate.

/// An error about a spec, a root or a registry entry. The message names the item, the value found and the value
/// expected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The `kind` of a spec is not in [`SPACES`](crate::SPACES).
    #[error("manifold: `kind` is `{kind}`; expected one of {known}")]
    UnknownKind {
        /// The unknown kind.
        kind: String,
        /// The known kinds, joined with commas.
        known: String,
    },
    /// A field of a spec or a root has an invalid value, or the name of a new registry entry is taken.
    #[error("{name} is {found}; expected {expected}")]
    Invalid {
        /// The field, for example `root[2]`, or the `dim` of a manifold.
        name: String,
        /// The value found.
        found: String,
        /// Description of a valid value.
        expected: String,
    },
}

/// Result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn invalid(name: impl Into<String>, found: impl ToString, expected: impl Into<String>) -> Self {
        Error::Invalid { name: name.into(), found: found.to_string(), expected: expected.into() }
    }
}
