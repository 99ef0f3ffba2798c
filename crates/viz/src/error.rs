use std::path::PathBuf;

/// Errors of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The report could not be written.
    #[error("cannot write the report {path}: {source}")]
    Write {
        /// Path of the report.
        path: PathBuf,
        /// Cause.
        source: std::io::Error,
    },
}

/// Result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;
