//! Writes files and folders atomically.
//!
//! [`NewFile`] writes one file and [`replace_folder`] one folder. Both write under a temporary name beside the target,
//! flush to the disk, then rename. File modes follow the umask. [`resolve`] finds the previous content of a folder
//! whose replacement was interrupted. A [`Lock`] excludes other writers. [`operation`] contains the single file
//! operations.
//!
//! ```
//! # let home = tempfile::tempdir().unwrap();
//! let path = home.path().join("settings.json");
//! conifer_files::write_whole(&path, b"{}")?;
//! assert_eq!(std::fs::read(&path).unwrap(), b"{}");
//! # Ok::<(), conifer_files::Error>(())
//! ```

mod error;
mod folder;
mod lock;
mod new_file;
pub mod operation;

pub use error::{Error, Result};
pub use folder::{check_target, create_folder, interrupted, publish, replace_folder, resolve, sibling};
pub use lock::Lock;
pub use new_file::{NewFile, create_parent, remove_abandoned, write_whole};
