//! Writes folders atomically.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Error, Lock, Result, operation};

/// Fills a new folder with `fill` and moves it to `dir`, replacing an existing folder. Missing parent folders are
/// created.
///
/// The steps are: `fill` writes into `.NAME.PID-N.tmp` beside `dir`; the files are flushed to the disk; an existing
/// folder at `dir` is renamed to `.NAME.previous`; the new folder is renamed to `dir`; the previous one is removed. If
/// a rename fails, the previous folder is restored. If the process is killed between the two renames, [`resolve`]
/// returns the previous folder. Temporary folders of killed processes for the same `dir` are removed first.
///
/// `may_replace` decides whether an existing `dir` may be replaced. It is called before `fill` and again before the
/// renames.
///
/// # Errors
/// The errors of `may_replace` and `fill`; `dir` is a symbolic link or does not end in a name; the operating system
/// reports an error. `dir` then holds its previous content (or the new content, if only the last flush failed).
pub fn replace_folder<E: From<Error>>(
    dir: &Path,
    may_replace: impl Fn(&Path) -> Result<(), E>,
    fill: impl FnOnce(&Path) -> Result<(), E>,
) -> Result<(), E> {
    let fresh = begin(dir, &may_replace)?;
    fill(&fresh.path)?;
    publish(&fresh.path, dir, may_replace)
}

/// Fills a new folder with `fill` and renames it to `dir`, which must not exist or must be an empty folder. If `dir`
/// exists, `may_replace` is called before and after `fill`.
///
/// # Errors
/// The errors of `may_replace` and `fill`; `dir` exists and is not empty, or another process fills it in the meantime;
/// the operating system reports an error. `dir` is then unchanged (or holds the new content, if only the last flush
/// failed).
pub fn create_folder<T, E: From<Error>>(
    dir: &Path,
    may_replace: impl Fn(&Path) -> Result<(), E>,
    fill: impl FnOnce(&Path) -> Result<T, E>,
) -> Result<T, E> {
    let fresh = begin(dir, &may_replace)?;
    let filled = fill(&fresh.path)?;
    check_target(dir, &may_replace)?;
    sync_tree(&fresh.path)?;
    // Unlike in `replace_folder`, the old folder is not moved aside: the operating system rejects this rename if `dir`
    // has content.
    operation::rename(&fresh.path, dir)?;
    operation::sync(&parent(dir)?)?;
    Ok(filled)
}

/// Moves the finished folder `fresh` to `dir` as [`replace_folder`] does.
///
/// # Errors
/// The errors of [`replace_folder`]. `fresh` is then not moved, unless only the last flush failed.
pub fn publish<E: From<Error>>(
    fresh: &Path,
    dir: &Path,
    may_replace: impl Fn(&Path) -> Result<(), E>,
) -> Result<(), E> {
    check_target(dir, &may_replace)?;
    Ok(exchange(fresh, dir)?)
}

fn exchange(fresh: &Path, dir: &Path) -> Result<()> {
    sync_tree(fresh)?;
    let previous = sibling(dir, ".previous")?;
    if dir.exists() {
        // A `.previous` folder beside an existing `dir` is a leftover of an earlier replacement.
        discard(&previous, dir)?;
        operation::rename(dir, &previous)?;
    }
    if let Err(error) = operation::rename(fresh, dir) {
        // If this rename also fails, `resolve` returns the `.previous` folder. Report the first error.
        if previous.exists() && !dir.exists() {
            let _ = operation::rename(&previous, dir);
        }
        return Err(error);
    }
    operation::sync(&parent(dir)?)?;
    // The new content is in place. If removing the old folder fails, the next replacement removes it.
    let _ = discard(&previous, dir);
    Ok(())
}

/// Returns the folder to read for `dir`: `dir` itself if it exists, else the previous folder that an interrupted
/// [`replace_folder`] left beside it. This function does not change the disk, so it cannot disturb a process that is
/// between its two renames.
pub fn resolve(dir: &Path) -> PathBuf {
    interrupted(dir).unwrap_or_else(|| dir.to_owned())
}

/// Returns the previous folder beside `dir` if `dir` does not exist, that is, if its replacement was interrupted.
pub fn interrupted(dir: &Path) -> Option<PathBuf> {
    if dir.exists() {
        return None;
    }
    // conifer 0.1 used the suffix `.old` for checkpoints.
    [".previous", ".old"].into_iter().filter_map(|suffix| sibling(dir, suffix).ok()).find(|it| it.is_dir())
}

/// Creates a temporary folder for `dir` after checking that `dir` may be written.
fn begin<E: From<Error>>(dir: &Path, may_replace: &impl Fn(&Path) -> Result<(), E>) -> Result<TemporaryFolder, E> {
    operation::create_dir_all(&parent(dir)?)?;
    check_target(dir, may_replace)?;
    remove_abandoned(dir)?;
    Ok(TemporaryFolder::beside(dir)?)
}

/// Checks that the folder `dir` may be written: it does not exist, or `may_replace` accepts it.
///
/// # Errors
/// The errors of `may_replace`; `dir` is a symbolic link.
pub fn check_target<E: From<Error>>(dir: &Path, may_replace: &impl Fn(&Path) -> Result<(), E>) -> Result<(), E> {
    // A rename would replace the link, not the folder it points to. `components` drops a trailing slash, with which the
    // check would follow the link.
    if dir.components().as_path().is_symlink() {
        return Err(Error::Path {
            what: "folder to write",
            path: dir.to_owned(),
            detail: ", a symbolic link",
            expected: "a folder or an unused path: pass the path that the link points to",
        }
        .into());
    }
    if dir.exists() { may_replace(dir) } else { Ok(()) }
}

/// Removes a folder that is no longer needed. It is renamed first, so readers never see it half deleted.
fn discard(folder: &Path, dir: &Path) -> Result<()> {
    if !folder.exists() {
        return Ok(());
    }
    let temporary = temporary_name(dir)?;
    operation::rename(folder, &temporary)?;
    operation::remove_dir_all(&temporary)
}

/// A temporary folder that is removed on drop unless it was renamed. Its lock shows other processes that it is in use.
struct TemporaryFolder {
    path: PathBuf,
    _lock: Option<Lock>,
}

impl TemporaryFolder {
    fn beside(dir: &Path) -> Result<Self> {
        loop {
            let path = temporary_name(dir)?;
            operation::create_dir(&path)?;
            let lock = lock_folder(&path);
            // Between creation and lock, another process may have removed the folder as abandoned.
            if path.exists() {
                return Ok(Self { path, _lock: lock });
            }
        }
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        // If the folder was renamed, the path no longer exists. Errors are ignored, because the error of the failed
        // work is reported instead.
        let _ = operation::remove_dir_all(&self.path);
    }
}

/// Removes the temporary folders of killed processes for `dir`. Folders in use are locked and not removed.
fn remove_abandoned(dir: &Path) -> Result<()> {
    let parent = parent(dir)?;
    let prefix = sibling(dir, ".")?;
    let Some(prefix) = prefix.file_name().and_then(|it| it.to_str()) else { return Ok(()) };
    for entry in fs::read_dir(&parent).map_err(Error::io("list", &parent))?.flatten() {
        let ours = entry.file_name().to_str().is_some_and(|name| is_temporary_name(name, prefix));
        if ours
            && entry.file_type().is_ok_and(|it| it.is_dir())
            && let Some(_lock) = lock_folder(&entry.path())
        {
            // Leftover folders only waste space, so a failure here does not prevent writing.
            let _ = operation::remove_dir_all(&entry.path());
        }
    }
    Ok(())
}

/// Locks a folder; `None` if the lock is already held, the folder cannot be opened, or the file system does not support
/// locks.
fn lock_folder(path: &Path) -> Option<Lock> {
    Lock::take(File::open(path).ok()?).ok().flatten()
}

/// Flushes every file below `dir`, then `dir` itself.
fn sync_tree(dir: &Path) -> Result<()> {
    for entry in fs::read_dir(dir).map_err(Error::io("list", dir))? {
        let path = entry.map_err(Error::io("list", dir))?.path();
        if path.is_dir() {
            sync_tree(&path)?;
        } else {
            operation::sync(&path)?;
        }
    }
    operation::sync(dir)
}

/// Returns `.NAME.PID-N.tmp` beside `path`, which is unique among processes and threads.
pub(super) fn temporary_name(path: &Path) -> Result<PathBuf> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    sibling(path, &format!(".{}-{count}.tmp", std::process::id()))
}

/// True if `name` has the form of [`temporary_name`] and begins with `prefix`, which is `.NAME.`.
pub(super) fn is_temporary_name(name: &str, prefix: &str) -> bool {
    let middle = name.strip_prefix(prefix).and_then(|it| it.strip_suffix(".tmp"));
    middle.is_some_and(|it| it.contains('-') && it.bytes().all(|b| b.is_ascii_digit() || b == b'-'))
}

/// The path `.NAME` plus a suffix, beside `path`.
///
/// # Errors
/// `path` does not end in a name.
pub fn sibling(path: &Path, suffix: &str) -> Result<PathBuf> {
    let mut hidden = OsString::from(".");
    hidden.push(name(path)?);
    hidden.push(suffix);
    Ok(parent(path)?.join(hidden))
}

pub(super) fn parent(path: &Path) -> Result<PathBuf> {
    name(path)?;
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => Ok(parent.to_owned()),
        _ => Ok(PathBuf::from(".")),
    }
}

fn name(path: &Path) -> Result<&std::ffi::OsStr> {
    path.file_name().ok_or_else(|| Error::Path {
        what: "path to write",
        path: path.to_owned(),
        detail: "",
        expected: "a path that ends in a name",
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::operation::faults::{InjectedFault, with};

    fn fill(content: &'static str) -> impl Fn(&Path) -> Result<()> {
        move |folder| {
            for name in ["a", "b"] {
                fs::write(folder.join(name), content).unwrap();
            }
            Ok(())
        }
    }

    fn anything(_: &Path) -> Result<()> {
        Ok(())
    }

    /// Returns the content of the files "a" and "b", if both exist and are equal.
    fn content(dir: &Path) -> Option<String> {
        let read = |name: &str| fs::read_to_string(dir.join(name)).ok();
        read("a").filter(|it| read("b").as_ref() == Some(it))
    }

    fn entries(dir: &Path) -> Vec<String> {
        fs::read_dir(dir).unwrap().map(|it| it.unwrap().file_name().into_string().unwrap()).collect()
    }

    /// Injects a fault before and after every operation of a replacement. Readers find the complete old or new content.
    /// The next replacement succeeds and leaves no temporary folder.
    #[test]
    fn a_fault_at_any_operation_loses_nothing() {
        let count = |home: &Path| {
            replace_folder(&home.join("x"), anything, fill("old")).unwrap();
            with(usize::MAX, InjectedFault::Once, || replace_folder(&home.join("x"), anything, fill("new"))).1
        };
        let steps = count(tempfile::tempdir().unwrap().path());
        assert!(steps > 20, "{steps}");
        let (mut restored, mut recovered) = (0, 0);
        for (at, fault) in (0..steps).flat_map(|at| [(at, InjectedFault::Once), (at, InjectedFault::Killed)]) {
            let home = tempfile::tempdir().unwrap();
            let dir = home.path().join("model");
            replace_folder(&dir, anything, fill("old")).unwrap();
            let (done, _) = with(at, fault, || replace_folder(&dir, anything, fill("new")));
            let what = format!("{fault:?} at step {at} of {steps}");
            let found = content(&resolve(&dir)).unwrap_or_else(|| panic!("{what}: {:?}", entries(home.path())));
            assert!(if done.is_ok() { found == "new" } else { found == "old" || found == "new" }, "{what}: {found}");
            restored += usize::from(done.is_err() && found == "old" && dir.exists());
            recovered += usize::from(!dir.exists());
            replace_folder(&dir, anything, fill("next")).unwrap();
            assert_eq!(content(&dir).as_deref(), Some("next"), "{what}");
            assert_eq!(entries(home.path()), ["model"], "{what}");
        }
        assert!(restored > 0 && recovered > 0, "{restored} {recovered}");
    }

    #[test]
    fn a_failed_last_rename_restores_the_previous_folder() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("model");
        replace_folder(&dir, anything, fill("old")).unwrap();
        let fresh = home.path().join("fresh");
        fs::create_dir(&fresh).unwrap();
        fill("new")(&fresh).unwrap();
        // Steps 0 to 7 flush two files and the folder, and rename the previous folder. Step 8 is the rename that fails.
        let (done, _) = with(8, InjectedFault::Once, || exchange(&fresh, &dir));
        assert!(done.unwrap_err().to_string().contains("rename to"));
        assert_eq!(content(&dir).as_deref(), Some("old"));
        assert_eq!(interrupted(&dir), None);
    }

    #[test]
    fn a_new_folder_appears_whole_or_not_at_all() {
        let steps = {
            let home = tempfile::tempdir().unwrap();
            with(usize::MAX, InjectedFault::Once, || {
                create_folder(&home.path().join("x"), anything, fill("new")).unwrap()
            })
            .1
        };
        for (at, fault) in (0..steps).flat_map(|at| [(at, InjectedFault::Once), (at, InjectedFault::Killed)]) {
            let home = tempfile::tempdir().unwrap();
            let dir = home.path().join("x");
            let (done, _) = with(at, fault, || create_folder(&dir, anything, fill("new")));
            assert!(!dir.exists() || content(&dir).as_deref() == Some("new"), "{fault:?} at {at}");
            assert!(done.is_err() || dir.exists(), "{fault:?} at {at}");
        }
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("x");
        fs::create_dir(&dir).unwrap();
        create_folder(&dir, anything, fill("first")).unwrap();
        let taken = create_folder(&dir, anything, fill("second")).unwrap_err().to_string();
        assert!(taken.contains("rename to"), "{taken}");
        assert_eq!((content(&dir).as_deref(), entries(home.path())), (Some("first"), vec!["x".to_owned()]));
    }

    #[test]
    fn folders_of_killed_processes_are_removed_and_those_in_use_stay() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("model");
        fs::create_dir(home.path().join(".model.7-1.tmp")).unwrap();
        fs::create_dir(home.path().join(".model.notes.tmp")).unwrap();
        let in_use = TemporaryFolder::beside(&dir).unwrap();
        replace_folder(&dir, anything, fill("new")).unwrap();
        let mut expected = vec![".model.notes.tmp".to_owned(), "model".to_owned()];
        if cfg!(unix) {
            expected.insert(0, in_use.path.file_name().unwrap().to_str().unwrap().to_owned());
        } else {
            expected.insert(0, ".model.7-1.tmp".to_owned());
        }
        let mut found = entries(home.path());
        found.sort();
        expected.sort();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_checkpoint_of_an_older_version_is_found() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("model");
        assert_eq!(resolve(&dir), dir);
        fs::create_dir(home.path().join(".model.old")).unwrap();
        assert_eq!(interrupted(&dir), Some(home.path().join(".model.old")));
        fs::create_dir(&dir).unwrap();
        assert_eq!(interrupted(&dir), None);
    }
}
