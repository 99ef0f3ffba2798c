//! Writes files and folders atomically.
//!
//! [`NewFile`] writes one file and [`replace_folder`] one folder. Both write under a temporary name beside the target,
//! flush to the disk, then rename. File modes follow the umask. [`resolve`] returns the previous content of a folder
//! whose replacement was interrupted.

mod folder;
mod new_file;
pub(crate) mod operation;

pub(crate) use folder::{check_target, publish, sibling};
pub use folder::{create_folder, interrupted, replace_folder, resolve};
pub use new_file::{NewFile, write_whole};
