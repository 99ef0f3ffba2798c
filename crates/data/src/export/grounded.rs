//! Writes samples as grounded JSONL.

use std::fs;
use std::io::Write;
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;

use conifer_files::NewFile;
use sha2::{Digest, Sha256};

use super::{ExportFormat, photo_bytes};
use crate::error::{Error, Result};
use crate::files;
use crate::grounded::GroundedRecord;
use crate::picture;
use crate::sample::{Broken, Cause, ImageRef, PixelLimits, Sample};

/// A grounded JSONL file under construction.
pub(super) struct GroundedFile {
    file: NewFile,
    path: PathBuf,
    /// Absolute path of the folder of the file; photo paths are relative to it.
    folder: PathBuf,
    /// Name of the folder for photos that are not files yet.
    photos: String,
    /// Photo folders outside of `folder`, with the links to them.
    roots: Vec<LinkedRoot>,
    limits: PixelLimits,
}

/// A folder of photos outside of the JSONL file's folder, and the path of the link to it. The link is created when a
/// photo of the folder is written for the first time.
struct LinkedRoot {
    /// The path with links resolved.
    target: PathBuf,
    link: PathBuf,
    made: OnceLock<bool>,
}

/// A line, and the photos that it refers to and that are not files yet (relative path, content).
pub(super) struct GroundedLine {
    json: Vec<u8>,
    photos: Vec<(PathBuf, Vec<u8>)>,
}

impl GroundedFile {
    pub(super) fn create(path: &Path, roots: &[PathBuf], limits: &PixelLimits) -> Result<Self> {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let folder = path.parent().unwrap_or(Path::new(""));
        let file = files::create(path)?;
        let folder = absolute(folder).map_err(Error::io("find", folder))?;
        let roots = linked_roots(&folder, &stem, roots);
        Ok(Self { file, path: path.to_owned(), folder, photos: format!("{stem}_photos"), roots, limits: *limits })
    }

    /// Returns the path of a photo for the record. A photo that is not a file yet is added to `photos`.
    fn place(&self, image: &ImageRef, photos: &mut Vec<(PathBuf, Vec<u8>)>) -> Result<PathBuf, Broken> {
        let content = match image {
            ImageRef::File(path) => {
                return self.place_of_file(path).map_err(|error| {
                    Broken::new(image.place(), Cause::MissingFile, format!("{error}; expected a photo"))
                });
            }
            stored => photo_bytes(stored, &self.limits)?,
        };
        let hash = hex::encode(Sha256::digest(&content));
        let path = Path::new(&self.photos).join(format!("{}.{}", &hash[..32], picture::extension(&content)));
        photos.push((path.clone(), content));
        Ok(path)
    }

    /// The path of a photo file as written to the record: inside the folder of the JSONL file, otherwise through a link
    /// in that folder, otherwise relative with `..`.
    fn place_of_file(&self, path: &Path) -> std::io::Result<PathBuf> {
        // A photo that is reached through an existing link in the folder needs no new link.
        let written = std::path::absolute(path)?;
        if let Ok(inside) = written.strip_prefix(&self.folder)
            && !inside.components().any(|it| it == Component::ParentDir)
        {
            return Ok(inside.to_owned());
        }
        let path = absolute(path)?;
        if !path.starts_with(&self.folder) {
            for root in &self.roots {
                if let (Ok(inside), Some(name)) = (path.strip_prefix(&root.target), root.link.file_name())
                    && root.is_made(&self.folder)
                {
                    return Ok(Path::new(name).join(inside));
                }
            }
        }
        Ok(relative(&self.folder, &path))
    }
}

/// The photo folders outside of `folder`, each with the path of a link to be created in `folder`.
fn linked_roots(folder: &Path, stem: &str, roots: &[PathBuf]) -> Vec<LinkedRoot> {
    let mut targets: Vec<_> = roots.iter().filter_map(|root| fs::canonicalize(root).ok()).collect();
    targets.sort();
    targets.dedup();
    // Readers do not follow a link to an ancestor folder. For a root above `folder`, link the siblings of each folder
    // on the path from that root down to `folder` instead.
    let (above, mut targets): (Vec<_>, Vec<_>) = targets.into_iter().partition(|target| folder.starts_with(target));
    if let Some(top) = above.first() {
        for on_the_way in folder.ancestors().skip(1).take_while(|it| it.starts_with(top)) {
            let inside = fs::read_dir(on_the_way).into_iter().flatten().flatten().map(|entry| entry.path());
            let mut inside: Vec<_> = inside.filter(|it| it.is_dir() && !folder.starts_with(it)).collect();
            inside.sort();
            targets.extend(inside.iter().filter_map(|it| fs::canonicalize(it).ok()));
        }
    }
    // Sort the innermost folders first, which gives each photo the shortest path.
    targets.sort_by(|a, b| b.components().count().cmp(&a.components().count()).then_with(|| a.cmp(b)));
    targets.dedup();
    let mut numbers = 1_u32..;
    let mut linked = |target: PathBuf| {
        let names = numbers.by_ref().map(|number| folder.join(format!("{stem}_root{number}")));
        // Reuse a link of an earlier export to the same folder. Never replace anything else with that name.
        let mut free = names.filter(|link| match fs::symlink_metadata(link) {
            Err(_) => true,
            Ok(there) => there.is_symlink() && fs::canonicalize(link).is_ok_and(|it| it == target),
        });
        free.next().map(|link| LinkedRoot { target: target.clone(), link, made: OnceLock::new() })
    };
    targets.into_iter().filter_map(&mut linked).collect()
}

impl LinkedRoot {
    /// Creates the link on the first call; returns whether it exists. Some file systems do not support links, or
    /// require privileges to create them. Reading the JSONL file then needs `--root`.
    fn is_made(&self, folder: &Path) -> bool {
        *self.made.get_or_init(|| self.link.is_dir() || symlink(&relative(folder, &self.target), &self.link).is_ok())
    }
}

#[cfg(unix)]
fn symlink(target: &Path, link: &Path) -> std::io::Result<()> {
    std::os::unix::fs::symlink(target, link)
}

#[cfg(windows)]
fn symlink(target: &Path, link: &Path) -> std::io::Result<()> {
    std::os::windows::fs::symlink_dir(target, link)
}

impl ExportFormat for GroundedFile {
    type Ready = GroundedLine;

    fn prepare(&self, sample: &Sample) -> Result<GroundedLine, Broken> {
        let mut photos = Vec::new();
        let record = GroundedRecord::from_sample(sample, |image| self.place(image, &mut photos))
            .map_err(|broken: Broken| broken.within(&sample.id))?;
        let mut json = serde_json::to_vec(&record)
            .map_err(|error| Broken::new(&sample.id, Cause::BadRecord, format!("{error}; expected paths in UTF-8")))?;
        json.push(b'\n');
        Ok(GroundedLine { json, photos })
    }

    fn put(&mut self, line: GroundedLine) -> Result<()> {
        for (path, content) in line.photos {
            let path = self.folder.join(path);
            // The name is a hash of the content, so a file with this name and length is the same photo.
            if fs::metadata(&path).is_ok_and(|meta| meta.len() == content.len() as u64) {
                continue;
            }
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder).map_err(Error::io("create", folder))?;
            }
            // No fsync: nothing refers to the photos before the JSONL file is complete.
            fs::write(&path, content).map_err(Error::io("write", &path))?;
        }
        self.file.write_all(&line.json).map_err(Error::io("write", &self.path))
    }

    fn finish(self) -> Result<Vec<PathBuf>> {
        self.file.finish()?;
        Ok(vec![self.path])
    }
}

/// Resolves links, `.` and `..` if the path exists; otherwise only makes it absolute.
fn absolute(path: &Path) -> std::io::Result<PathBuf> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    fs::canonicalize(path).or_else(|_| std::path::absolute(path))
}

/// The relative path from a folder to a file; both must be absolute.
fn relative(folder: &Path, file: &Path) -> PathBuf {
    let (from, to): (Vec<_>, Vec<_>) = (folder.components().collect(), file.components().collect());
    let shared = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
    if shared == 0 {
        return file.to_owned();
    }
    let up = from[shared..].iter().map(|_| Component::ParentDir);
    up.chain(to[shared..].iter().copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_paths_to_files() {
        for (folder, file, way) in [
            ("/a/b", "/a/b/c.jpg", "c.jpg"),
            ("/a/b", "/a/x/c.jpg", "../x/c.jpg"),
            ("/a/b/c", "/d.jpg", "../../../d.jpg"),
        ] {
            assert_eq!(relative(Path::new(folder), Path::new(file)), Path::new(way));
        }
    }
}
