//! Folders that are there completely or not at all.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// Lets `fill` write into a new folder and puts it at `dir` when everything is on the disk.
///
/// `fill` works in `.<name>.writing` beside `dir`. After it every file is fsynced and the folder renamed; a checkpoint that was at
/// `dir` is moved to `.<name>.old` first and removed last, so at every moment one complete version exists under one of the two
/// names. When anything fails, the half-written folder is removed and what was at `dir` stays.
///
/// # Errors
/// What `fill` returns; [`Error::Io`] with the file; [`Error::Setting`] if `dir` holds something that is no checkpoint.
pub fn replace_folder(dir: &Path, fill: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let name = dir
        .file_name()
        .ok_or_else(|| Error::setting("checkpoint folder", dir.display(), "a path that ends in a name"))?;
    let parent = match dir.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        _ => PathBuf::from("."),
    };
    if dir.exists() && !is_checkpoint(dir) && !is_empty(dir) {
        return Err(Error::setting(
            "checkpoint folder",
            dir.display(),
            "a free name, an empty folder or a checkpoint to replace",
        ));
    }
    let beside = |suffix: &str| parent.join(format!(".{}.{suffix}", name.to_string_lossy()));
    let (writing, old) = (beside("writing"), beside("old"));

    fs::create_dir_all(&parent).map_err(Error::io(&parent))?;
    remove(&writing)?;
    fs::create_dir(&writing).map_err(Error::io(&writing))?;
    if let Err(error) = fill(&writing).and_then(|()| sync_tree(&writing)) {
        // The first error is the one to tell; that the remains could not be removed either follows from it.
        let _ = fs::remove_dir_all(&writing);
        return Err(error);
    }
    if dir.exists() {
        remove(&old)?;
        fs::rename(dir, &old).map_err(Error::io(dir))?;
    }
    fs::rename(&writing, dir).map_err(Error::io(dir))?;
    sync(&parent)?;
    remove(&old)
}

fn is_checkpoint(dir: &Path) -> bool {
    dir.join(super::MANIFEST).is_file()
}

fn is_empty(dir: &Path) -> bool {
    fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_none())
}

fn remove(dir: &Path) -> Result<()> {
    if dir.exists() {
        fs::remove_dir_all(dir).map_err(Error::io(dir))?;
    }
    Ok(())
}

/// Fsyncs every file below `dir`, then `dir` itself.
fn sync_tree(dir: &Path) -> Result<()> {
    for entry in fs::read_dir(dir).map_err(Error::io(dir))? {
        let path = entry.map_err(Error::io(dir))?.path();
        if path.is_dir() {
            sync_tree(&path)?;
        } else {
            sync(&path)?;
        }
    }
    sync(dir)
}

fn sync(path: &Path) -> Result<()> {
    File::open(path).and_then(|file| file.sync_all()).map_err(Error::io(path))
}
