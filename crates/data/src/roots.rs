//! Which files a record may name: those in the folder of the data file, and those in folders that the user names.
//!
//! A data file may come from anybody. Without this rule a record such as `{"image": "/home/me/private.jpg"}` would put a private photo
//! into a shard, or on a server. The rule for a path of a record, taken relative to the folder of its data file:
//!
//! * It must lead into an allowed folder (a *root*) once all links and `..` are resolved. A root may itself be a link.
//! * A link that lies directly in a root may lead out of it (`photos -> /mnt/photos` beside the data file), unless it leads to a folder
//!   that contains the root. Links further down may not lead out: an archive can bring any number of those.
//! * A file that is not there passes if its path lies in a root as it is written; its reader reports it as missing.
//!
//! Paths that a source finds by listing a folder are no paths of records: there, links are followed as the user placed them.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use crate::error::{Error, Result};
use crate::files::not_a_file;
use crate::hierarchy::Tree;
use crate::sample::{Broken, Cause, ImageRef, Sample, View};
use crate::sources::{Class, Source, SourceSpec};

/// Names of the settings with which the user says where the photos of a source are.
const FOLDER_OPTIONS: [&str; 2] = ["folder", "images"];

/// Allowed folders.
#[derive(Clone, Debug, Default)]
pub(crate) struct AllowedRoots(Vec<Root>);

#[derive(Clone, Debug, PartialEq)]
struct Root {
    /// Absolute, as it was given, without `.` and `..`.
    written: PathBuf,
    /// With all links resolved.
    real: PathBuf,
}

impl AllowedRoots {
    /// Those of `folders` that exist, each once.
    pub(crate) fn new(folders: impl IntoIterator<Item = impl AsRef<Path>>) -> Self {
        let mut roots = Vec::new();
        for folder in folders {
            let folder = match folder.as_ref() {
                empty if empty.as_os_str().is_empty() => Path::new("."),
                folder => folder,
            };
            let (Ok(real), Ok(written)) = (fs::canonicalize(folder), std::path::absolute(folder)) else { continue };
            let root = Root { written: without_dots(&written), real };
            if !roots.contains(&root) {
                roots.push(root);
            }
        }
        Self(roots)
    }

    /// The folders that the user named, which must be there.
    ///
    /// # Errors
    /// One is not, or is no folder.
    pub(crate) fn check_named(folders: &[PathBuf]) -> Result<()> {
        match folders.iter().find(|folder| !folder.is_dir()) {
            None => Ok(()),
            Some(folder) => {
                let found = format!("`{}`, which is no folder", folder.display());
                Err(Error::config("roots", found, "folders in which the photos of the data are (--root DIR)"))
            }
        }
    }

    /// The folders, links resolved.
    pub(crate) fn folders(&self) -> Vec<PathBuf> {
        self.0.iter().map(|root| root.real.clone()).collect()
    }

    /// The sample, if all its files may be named.
    ///
    /// # Errors
    /// [`Cause::OutsideRoots`], or [`Cause::MissingFile`] for what is there and is no file.
    pub(crate) fn admit(&self, sample: Sample) -> Result<Sample, Broken> {
        let crops = sample.phrases.iter().filter_map(|phrase| phrase.crop.as_ref());
        for image in sample.image.iter().chain(crops) {
            if let ImageRef::File(path) = image {
                self.check(path).map_err(|(cause, detail)| Broken::new(&sample.id, cause, detail))?;
            }
        }
        Ok(sample)
    }

    fn check(&self, path: &Path) -> Result<(), (Cause, String)> {
        let unreadable = |error: io::Error| {
            let detail = format!("photo `{}` cannot be read: {error}; expected an image file", path.display());
            (Cause::MissingFile, detail)
        };
        let written = without_dots(&std::path::absolute(path).map_err(unreadable)?);
        let below = |root: &Root| written.starts_with(&root.written) || written.starts_with(&root.real);
        match fs::canonicalize(path) {
            Ok(real) => {
                let inside = |root: &Root| real.starts_with(&root.real) || root.links_to(&written, &real);
                if !self.0.iter().any(inside) {
                    return Err(self.outside(path, &real));
                }
                let there = fs::metadata(&real).map_err(unreadable)?;
                not_a_file(&there).map_or(Ok(()), |what| {
                    let detail = format!("photo `{}` is {what}; expected an image file", path.display());
                    Err((Cause::MissingFile, detail))
                })
            }
            Err(_) if !self.0.iter().any(below) => Err(self.outside(path, &written)),
            // The reader of the file says so, under the name of the sample.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(unreadable(error)),
        }
    }

    fn outside(&self, path: &Path, real: &Path) -> (Cause, String) {
        let allowed: Vec<_> = self.0.iter().map(|root| format!("`{}`", root.written.display())).collect();
        // The folder as the user would type it; where a link leads out, the folder behind the link.
        let near = without_dots(path);
        let named = self.0.iter().any(|root| std::path::absolute(&near).is_ok_and(|it| it.starts_with(&root.written)));
        let folder = if named { real } else { &near }.parent().unwrap_or(Path::new("/"));
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let detail = format!(
            "photo `{}` lies outside the allowed folders ({}); expected a file in one of them. If you trust this data file, add \
             `--root {}` (in a config: `data.roots`)",
            path.display(),
            allowed.join(", "),
            folder.display()
        );
        (Cause::OutsideRoots, detail)
    }
}

impl Root {
    /// Whether `written` goes through a link that lies directly in this folder and does not lead above it, and ends, as `real`, behind it.
    fn links_to(&self, written: &Path, real: &Path) -> bool {
        let rest = written.strip_prefix(&self.written).or_else(|_| written.strip_prefix(&self.real));
        let Some(first) = rest.ok().and_then(|rest| rest.components().next()) else { return false };
        let link = self.real.join(first);
        let is_link = fs::symlink_metadata(&link).is_ok_and(|it| it.is_symlink());
        is_link && fs::canonicalize(&link).is_ok_and(|to| real.starts_with(&to) && !self.real.starts_with(&to))
    }
}

/// The path without `.` and `..`, as far as that can be told without looking at the disk.
fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir if matches!(plain.components().next_back(), Some(Component::Normal(_))) => {
                plain.pop();
            }
            // Above `/` is `/`.
            Component::ParentDir if plain.has_root() => {}
            other => plain.push(other),
        }
    }
    plain
}

/// The folders that the files of a source may be in: that of its data file, those of its settings, and those the user names.
pub(crate) fn of_spec(spec: &SourceSpec) -> AllowedRoots {
    let Some(path) = &spec.path else { return AllowedRoots::new(&spec.roots) };
    let base = if path.is_dir() { path } else { path.parent().unwrap_or(Path::new("")) };
    let options = FOLDER_OPTIONS.iter().filter_map(|name| spec.options.get(*name)?.as_str());
    let options = options.map(|folder| base.join(folder));
    AllowedRoots::new([base.to_owned()].into_iter().chain(options).chain(spec.roots.iter().cloned()))
}

/// A source together with the folders that its files may be in.
pub(crate) struct RootedSource {
    source: Box<dyn Source>,
    roots: AllowedRoots,
}

impl RootedSource {
    pub(crate) fn new(source: Box<dyn Source>, roots: AllowedRoots) -> Self {
        Self { source, roots }
    }
}

impl Source for RootedSource {
    fn name(&self) -> &str {
        self.source.name()
    }

    fn len(&self) -> usize {
        self.source.len()
    }

    fn get(&self, index: usize) -> Result<Sample, Broken> {
        let sample = self.source.get(index)?;
        if self.source.lists_files() { Ok(sample) } else { self.roots.admit(sample) }
    }

    fn views(&self) -> &[View] {
        self.source.views()
    }

    fn fingerprint(&self) -> String {
        self.source.fingerprint()
    }

    fn classes(&self) -> Vec<Class> {
        self.source.classes()
    }

    fn class_tree(&self) -> Option<Tree> {
        self.source.class_tree()
    }

    fn complete(&self) -> Option<usize> {
        self.source.complete()
    }

    fn left_out(&self) -> Option<String> {
        self.source.left_out()
    }

    fn lists_files(&self) -> bool {
        self.source.lists_files()
    }

    fn roots(&self) -> Vec<PathBuf> {
        self.roots.folders()
    }
}

#[cfg(all(test, unix))]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::fixtures::{Folder, jpeg};

    /// `data/` (a root) with photos and links, `photos/` and `private/` beside it.
    fn folders() -> Folder {
        let folder = Folder::new();
        for name in ["data/own/1.jpg", "photos/sub/2.jpg", "private/3.jpg"] {
            folder.write(name, jpeg(4, 4));
        }
        let data = folder.path().join("data");
        symlink("../photos", data.join("linked")).unwrap();
        symlink("../photos/sub/2.jpg", data.join("photo.jpg")).unwrap();
        symlink("..", data.join("up")).unwrap();
        symlink("../../private", data.join("own/deep")).unwrap();
        symlink("1.jpg", data.join("own/same.jpg")).unwrap();
        symlink("data", folder.path().join("alias")).unwrap();
        folder
    }

    fn cause(roots: &AllowedRoots, path: &Path) -> Option<Cause> {
        roots.check(path).err().map(|(cause, _)| cause)
    }

    #[test]
    fn a_record_names_only_files_in_its_roots() {
        let folder = folders();
        let data = folder.path().join("data");
        let roots = AllowedRoots::new([&data]);
        let found = |name: &str| cause(&roots, &data.join(name));
        for good in [
            "own/1.jpg",
            "./own/../own/1.jpg",
            "own/same.jpg",
            "absent.jpg",
            "linked/sub/2.jpg",
            "photo.jpg",
            // Out and in again.
            "../data/own/1.jpg",
        ] {
            assert_eq!(found(good), None, "{good}");
        }
        for bad in [
            "/etc/passwd",
            "../photos/sub/2.jpg",
            "../private/3.jpg",
            "../private/absent.jpg",
            // A link further down, one to a folder above, and `..` behind a link.
            "own/deep/3.jpg",
            "up/private/3.jpg",
            "linked/../private/3.jpg",
            "absent/../../private/3.jpg",
        ] {
            assert_eq!(found(bad), Some(Cause::OutsideRoots), "{bad}");
        }
        // A root that is a link is followed, and its files may be named by either path.
        let alias = folder.path().join("alias");
        let linked = AllowedRoots::new([&alias]);
        assert_eq!(cause(&linked, &alias.join("own/1.jpg")), None);
        assert_eq!(cause(&linked, &data.join("own/1.jpg")), None);
        assert_eq!(cause(&linked, &alias.join("../private/3.jpg")), Some(Cause::OutsideRoots));
        // A name that begins like that of a root is another folder.
        folder.write("data2/4.jpg", jpeg(4, 4));
        assert_eq!(found("../data2/4.jpg"), Some(Cause::OutsideRoots));
    }

    #[test]
    fn a_folder_that_the_user_names_is_allowed() {
        let folder = folders();
        let (data, photos) = (folder.path().join("data"), folder.path().join("photos"));
        let (_, detail) = AllowedRoots::new([&data]).check(&data.join("../photos/sub/2.jpg")).unwrap_err();
        let expected = format!(
            "photo `{0}/data/../photos/sub/2.jpg` lies outside the allowed folders (`{0}/data`); expected a file in one of them. If you \
             trust this data file, add `--root {0}/photos/sub` (in a config: `data.roots`)",
            folder.path().display()
        );
        assert_eq!(detail, expected);
        assert_eq!(cause(&AllowedRoots::new([&data, &photos]), &data.join("../photos/sub/2.jpg")), None);
        // Behind a link, the hint names where it leads.
        let (_, detail) = AllowedRoots::new([&data]).check(&data.join("own/deep/3.jpg")).unwrap_err();
        let private = folder.path().canonicalize().unwrap().join("private");
        assert!(detail.contains(&format!("add `--root {}`", private.display())), "{detail}");
        let absent = [folder.path().join("absent")];
        let message = AllowedRoots::check_named(&absent).unwrap_err().to_string();
        assert!(message.contains("absent`, which is no folder; expected folders"), "{message}");
    }

    #[test]
    fn a_pipe_is_no_photo() {
        let folder = folders();
        let pipe = folder.path().join("data/pipe.jpg");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let (cause, detail) = AllowedRoots::new([folder.path()]).check(&pipe).unwrap_err();
        assert_eq!(cause, Cause::MissingFile);
        assert!(detail.ends_with("pipe.jpg` is a named pipe; expected an image file"), "{detail}");
    }

    #[test]
    fn dots_are_taken_out_of_paths() {
        for (path, plain) in [("a/./b/../c", "a/c"), ("../a/../../b", "../../b"), ("/../a", "/a"), ("a/..", "")] {
            assert_eq!(without_dots(Path::new(path)), Path::new(plain), "{path}");
        }
    }
}
