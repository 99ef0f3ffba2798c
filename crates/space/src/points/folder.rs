//! A folder that is written whole or not at all.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};

/// Fills a new folder with `fill` and puts it in the place of `dir`.
///
/// The folder is filled under a temporary name beside `dir` and flushed to the disk before anything happens to `dir`
/// itself. An existing `dir` is moved aside to [`previous`], the new one takes its name, and only then is the old one
/// removed. When anything fails, `dir` is what it was; when the machine stops between the two moves, the old folder is
/// whole under its other name, where [`resolve`] finds it.
///
/// # Errors
/// `dir` exists and is no folder, is a link to one, or holds something that is not in `owned`, the names that such a folder may hold (we
/// never remove what we did not write); `fill` or the system fails.
pub(super) fn replace(dir: &Path, owned: &[&str], fill: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let parent = parent(dir)?;
    fs::create_dir_all(&parent).map_err(Error::io("create", &parent))?;
    check_replaceable(dir, owned)?;

    let fresh = Temporary::beside(dir)?;
    fill(&fresh.path)?;
    publish(&fresh.path, dir, owned)
}

/// Puts the finished folder `fresh`, on the same disk, in the place of `dir`, as [`replace`] does.
///
/// # Errors
/// Those of [`replace`]; `fresh` stays where it is then.
pub(super) fn publish(fresh: &Path, dir: &Path, owned: &[&str]) -> Result<()> {
    let parent = parent(dir)?;
    check_replaceable(dir, owned)?;
    sync_dir(fresh)?;

    let old = previous(dir)?;
    if dir.exists() {
        if old.exists() {
            fs::remove_dir_all(&old).map_err(Error::io("remove", &old))?;
        }
        fs::rename(dir, &old).map_err(Error::io("move aside", dir))?;
    }
    if let Err(error) = fs::rename(fresh, dir) {
        if old.exists() {
            fs::rename(&old, dir).map_err(Error::io("put back", dir))?;
        }
        return Err(Error::io("rename to", dir)(error));
    }
    sync_dir(&parent)?;
    if old.exists() {
        fs::remove_dir_all(&old).map_err(Error::io("remove", &old))?;
    }
    Ok(())
}

/// Writes one file and flushes it to the disk.
pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = File::create(path).map_err(Error::io("create", path))?;
    file.write_all(bytes).map_err(Error::io("write", path))?;
    file.sync_all().map_err(Error::io("flush", path))
}

/// The folder to read for `dir`: itself, or the one that an interrupted [`replace`] left aside.
pub(super) fn resolve(dir: &Path) -> Result<PathBuf> {
    let old = previous(dir)?;
    Ok(if !dir.exists() && old.exists() { old } else { dir.to_owned() })
}

/// Where the folder `dir` is made when that takes several runs.
pub(super) fn unfinished(dir: &Path) -> Result<PathBuf> {
    Ok(parent(dir)?.join(format!(".{}.unfinished", name(dir)?)))
}

/// Where the old folder waits while the new one takes its name.
fn previous(dir: &Path) -> Result<PathBuf> {
    Ok(parent(dir)?.join(format!(".{}.previous", name(dir)?)))
}

/// A folder that is removed again unless it was renamed away.
struct Temporary {
    path: PathBuf,
}

impl Temporary {
    fn beside(dir: &Path) -> Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0); // two threads may save to the same place
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!(".{}.{}-{count}.tmp", name(dir)?, std::process::id());
        let path = parent(dir)?.join(name);
        fs::create_dir(&path).map_err(Error::io("create", &path))?;
        Ok(Temporary { path })
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // Gone when the save succeeded. When it failed, that failure is what the caller must hear about.
        let _ = fs::remove_dir_all(&self.path);
    }
}

pub(super) fn check_replaceable(dir: &Path, owned: &[&str]) -> Result<()> {
    // A new folder would take the place of the link, perhaps on another disk than the one it was made for.
    // (Without a slash at the end, which would follow it.)
    if dir.components().as_path().is_symlink() {
        let found = format!("`{}`, a symbolic link", dir.display());
        return Err(Error::invalid(
            "folder of an embedding set",
            found,
            "a folder, or nothing yet: name what it points to",
        ));
    }
    if !dir.exists() {
        return Ok(());
    }
    let listing = fs::read_dir(dir).map_err(Error::io("replace", dir))?;
    for entry in listing {
        let name = entry.map_err(Error::io("list", dir))?.file_name();
        if !owned.iter().any(|o| name == **o) {
            let expected = format!("only {} (it would be replaced)", owned.join(", "));
            return Err(Error::format(dir, "an entry", format!("`{}`", name.display()), expected));
        }
    }
    Ok(())
}

pub(super) fn parent(dir: &Path) -> Result<PathBuf> {
    name(dir)?;
    match dir.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => Ok(parent.to_owned()),
        _ => Ok(PathBuf::from(".")),
    }
}

fn name(dir: &Path) -> Result<String> {
    match dir.file_name() {
        Some(name) => Ok(name.to_string_lossy().into_owned()),
        None => Err(Error::invalid(
            "folder of an embedding set",
            format!("`{}`", dir.display()),
            "a path that ends in a name",
        )),
    }
}

/// Makes the names in a folder survive a power cut, where the system has that notion.
fn sync_dir(dir: &Path) -> Result<()> {
    if cfg!(unix) {
        let handle = File::open(dir).map_err(Error::io("open", dir))?;
        handle.sync_all().map_err(Error::io("flush", dir))?;
    }
    Ok(())
}
