use std::path::PathBuf;

/// What can go wrong while drawing.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The report could not be written.
    #[error("cannot write the report {path}: {source}")]
    Write {
        /// Where to.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
}

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;
