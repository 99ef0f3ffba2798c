//! Restricts the files that records may name to the folder of the data file and to folders that the user allows.
//!
//! A data file may come from an untrusted source. Without this check a record such as
//! `{"image": "/home/me/private.jpg"}` would copy a private photo into a shard or expose it on a server. Rules for a
//! path in a record, resolved relative to the folder of its data file:
//!
//! * After resolution of all links and `..` it must be inside an allowed folder (a *root*). A root may itself be a
//!   link.
//! * A link directly in a root may point outside of it (`photos -> /mnt/photos` in the folder of the data file), unless
//!   it points to an ancestor folder of the root. Links further down may not point outside, because an extracted
//!   archive can contain any links.
//! * The path of a missing file is accepted if it is lexically inside a root; reading the file then reports it
//!   as missing.
//!
//! The rules do not apply to paths that a source gets by listing a folder. Links in a listed folder are followed.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::files::not_a_file;
use crate::hierarchy::Tree;
use crate::sample::{Broken, Cause, ImageRef, Sample, View};
use crate::source::{ClassEntry, Source, SourceSpec};
use crate::vectors::TextVectors;

/// Options of sources that contain a folder of photos.
const FOLDER_OPTIONS: [&str; 2] = ["folder", "images"];

/// The folders in which records may name files.
#[derive(Clone, Debug, Default)]
pub struct AllowedRoots(Vec<AllowedRoot>);

#[derive(Clone, Debug, PartialEq)]
struct AllowedRoot {
    /// The absolute path as given, without `.` and `..`.
    written: PathBuf,
    /// The path with all links resolved.
    real: PathBuf,
}

impl AllowedRoots {
    /// Creates the roots from `folders`. Folders that do not exist and duplicates are skipped.
    pub fn new(folders: impl IntoIterator<Item = impl AsRef<Path>>) -> Self {
        let mut roots = Vec::new();
        for folder in folders {
            let folder = match folder.as_ref() {
                empty if empty.as_os_str().is_empty() => Path::new("."),
                folder => folder,
            };
            let (Ok(real), Ok(written)) = (fs::canonicalize(folder), std::path::absolute(folder)) else { continue };
            let root = AllowedRoot { written: without_dots(&written), real };
            if !roots.contains(&root) {
                roots.push(root);
            }
        }
        Self(roots)
    }

    /// Checks that all folders named by the user exist.
    ///
    /// # Errors
    /// A path does not exist or is not a folder.
    pub fn check_named(folders: &[PathBuf]) -> Result<()> {
        match folders.iter().find(|folder| !folder.is_dir()) {
            None => Ok(()),
            Some(folder) => {
                let found = format!("`{}`, which is not a folder", folder.display());
                Err(Error::invalid("roots", found, "folders that contain the photos (--root DIR)"))
            }
        }
    }

    /// Paths of the allowed folders, with links resolved.
    pub fn folders(&self) -> Vec<PathBuf> {
        self.0.iter().map(|root| root.real.clone()).collect()
    }

    /// Returns the sample if all files that it names are allowed.
    ///
    /// # Errors
    /// [`Cause::OutsideRoots`], or [`Cause::MissingFile`] for a path that is not a regular file or cannot be resolved.
    /// A file that does not exist is not an error here.
    pub fn admit(&self, sample: Sample) -> Result<Sample, Broken> {
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
        let below = |root: &AllowedRoot| written.starts_with(&root.written) || written.starts_with(&root.real);
        match fs::canonicalize(path) {
            Ok(real) => {
                let inside = |root: &AllowedRoot| real.starts_with(&root.real) || root.links_to(&written, &real);
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
            // The reader of the file reports this error with the id of the sample.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(unreadable(error)),
        }
    }

    fn outside(&self, path: &Path, real: &Path) -> (Cause, String) {
        let allowed: Vec<_> = self.0.iter().map(|root| format!("`{}`", root.written.display())).collect();
        // Suggest the folder as the user would type it. If a link leads outside of that folder, suggest the link's
        // target folder.
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

impl AllowedRoot {
    /// Returns whether `written` passes through a link directly in this root, the link does not point to an ancestor of
    /// the root, and `real` is inside the target of the link.
    fn links_to(&self, written: &Path, real: &Path) -> bool {
        let rest = written.strip_prefix(&self.written).or_else(|_| written.strip_prefix(&self.real));
        let Some(first) = rest.ok().and_then(|rest| rest.components().next()) else { return false };
        let link = self.real.join(first);
        let is_link = fs::symlink_metadata(&link).is_ok_and(|it| it.is_symlink());
        is_link && fs::canonicalize(&link).is_ok_and(|to| real.starts_with(&to) && !self.real.starts_with(&to))
    }
}

/// Lexical normalisation: removes `.` and `..` without disk access.
fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir if matches!(plain.components().next_back(), Some(Component::Normal(_))) => {
                plain.pop();
            }
            // The parent of `/` is `/`.
            Component::ParentDir if plain.has_root() => {}
            other => plain.push(other),
        }
    }
    plain
}

/// The allowed folders of a source: the folder of its data file, the folders in its options, and the folders in
/// `spec.roots`.
pub fn of_spec(spec: &SourceSpec) -> AllowedRoots {
    let Some(path) = &spec.path else { return AllowedRoots::new(&spec.roots) };
    let base = if path.is_dir() { path } else { path.parent().unwrap_or(Path::new("")) };
    let options = FOLDER_OPTIONS.iter().filter_map(|name| spec.options.get(*name)?.as_str());
    let options = options.map(|folder| base.join(folder));
    AllowedRoots::new([base.to_owned()].into_iter().chain(options).chain(spec.roots.iter().cloned()))
}

/// A source whose samples may only use files in the allowed folders. Samples of a source that lists a folder are not
/// checked.
pub struct RootedSource {
    source: Box<dyn Source>,
    roots: AllowedRoots,
    published: Option<PublishedSet>,
}

/// Name and size of a published data set.
pub struct PublishedSet {
    /// Replaces the name of the source.
    pub name: &'static str,
    /// Replaces the number of samples that the source expects; `None` if unknown.
    pub samples: Option<usize>,
}

impl RootedSource {
    /// Restricts a source to the files in `roots`.
    pub fn new(source: Box<dyn Source>, roots: AllowedRoots) -> Self {
        Self { source, roots, published: None }
    }

    /// Replaces the name and the number of samples with those of a published data set.
    pub fn named(self, published: PublishedSet) -> Self {
        Self { published: Some(published), ..self }
    }
}

impl Source for RootedSource {
    fn name(&self) -> &str {
        self.published.as_ref().map_or(self.source.name(), |set| set.name)
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

    fn classes(&self) -> Vec<ClassEntry> {
        self.source.classes()
    }

    fn class_tree(&self) -> Option<Tree> {
        self.source.class_tree()
    }

    fn complete(&self) -> Option<usize> {
        self.published.as_ref().map_or_else(|| self.source.complete(), |set| set.samples)
    }

    fn left_out(&self) -> Option<String> {
        self.source.left_out()
    }

    fn text_vectors(&self) -> Option<Arc<TextVectors>> {
        self.source.text_vectors()
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
    use crate::fixtures::{FixtureFolder, jpeg};

    /// Creates a root `data/` with photos and links. The folders `photos/` and `private/` are next to the root.
    fn folders() -> FixtureFolder {
        let folder = FixtureFolder::new();
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
    fn records_may_only_name_files_in_roots() {
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
            // This path leaves the root and enters it again.
            "../data/own/1.jpg",
        ] {
            assert_eq!(found(good), None, "{good}");
        }
        for bad in [
            "/etc/passwd",
            "../photos/sub/2.jpg",
            "../private/3.jpg",
            "../private/absent.jpg",
            // A link further down, a link to an ancestor folder, and `..` after a link.
            "own/deep/3.jpg",
            "up/private/3.jpg",
            "linked/../private/3.jpg",
            "absent/../../private/3.jpg",
        ] {
            assert_eq!(found(bad), Some(Cause::OutsideRoots), "{bad}");
        }
        // A root that is a link is resolved; its files may be named by either path.
        let alias = folder.path().join("alias");
        let linked = AllowedRoots::new([&alias]);
        assert_eq!(cause(&linked, &alias.join("own/1.jpg")), None);
        assert_eq!(cause(&linked, &data.join("own/1.jpg")), None);
        assert_eq!(cause(&linked, &alias.join("../private/3.jpg")), Some(Cause::OutsideRoots));
        // A folder whose name starts with the name of a root is not inside that root.
        folder.write("data2/4.jpg", jpeg(4, 4));
        assert_eq!(found("../data2/4.jpg"), Some(Cause::OutsideRoots));
    }

    #[test]
    fn user_roots_are_allowed() {
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
        // Behind a link, the hint names the link's target.
        let (_, detail) = AllowedRoots::new([&data]).check(&data.join("own/deep/3.jpg")).unwrap_err();
        let private = folder.path().canonicalize().unwrap().join("private");
        assert!(detail.contains(&format!("add `--root {}`", private.display())), "{detail}");
        let absent = [folder.path().join("absent")];
        let message = AllowedRoots::check_named(&absent).unwrap_err().to_string();
        assert!(message.contains("absent`, which is not a folder; expected folders"), "{message}");
    }

    #[test]
    fn pipes_are_not_photos() {
        let folder = folders();
        let pipe = folder.path().join("data/pipe.jpg");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let (cause, detail) = AllowedRoots::new([folder.path()]).check(&pipe).unwrap_err();
        assert_eq!(cause, Cause::MissingFile);
        assert!(detail.ends_with("pipe.jpg` is a named pipe; expected an image file"), "{detail}");
    }

    #[test]
    fn dots_are_removed_from_paths() {
        for (path, plain) in [("a/./b/../c", "a/c"), ("../a/../../b", "../../b"), ("/../a", "/a"), ("a/..", "")] {
            assert_eq!(without_dots(Path::new(path)), Path::new(plain), "{path}");
        }
    }
}
