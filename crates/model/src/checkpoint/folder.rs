//! Writes checkpoint folders completely or not at all.

use std::path::Path;

use crate::{Error, Result};

/// Fills a new folder with `fill` and moves it to `dir`, like [`conifer_files::replace_folder`]. A checkpoint at
/// `dir` is replaced once the new one is complete and flushed to disk, and is restored if the last rename fails.
/// [`load`](super::load) finds the previous checkpoint if the process was killed between the renames.
///
/// # Errors
/// The error of `fill`; [`Error::Files`] for an I/O error; [`Error::Invalid`] if `dir` holds something other than a
/// checkpoint.
pub fn replace_folder<E: From<Error> + From<conifer_files::Error>>(
    dir: &Path,
    fill: impl FnOnce(&Path) -> Result<(), E>,
) -> Result<(), E> {
    conifer_files::replace_folder(dir, |dir| may_replace(dir).map_err(E::from), fill)
}

fn may_replace(dir: &Path) -> Result<()> {
    let is_checkpoint = dir.join(super::MANIFEST).is_file();
    let is_empty = std::fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_none());
    if is_checkpoint || is_empty {
        return Ok(());
    }
    let expected = "an unused name, an empty folder or a checkpoint to replace";
    Err(Error::invalid("checkpoint folder", dir.display(), expected))
}
