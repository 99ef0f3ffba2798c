//! Samples as grounded JSONL.

use std::fs;
use std::io::Write;
use std::path::{Component, Path, PathBuf};

use sha2::{Digest, Sha256};

use super::Form;
use crate::error::{Error, Result};
use crate::files::NewFile;
use crate::grounded::Record;
use crate::picture;
use crate::sample::{Broken, Cause, ImageRef, PixelLimits, Sample};
use crate::shard::hex;

/// A grounded JSONL file that is being written.
pub(super) struct GroundedFile {
    file: NewFile,
    path: PathBuf,
    /// Absolute; photo paths are relative to it.
    folder: PathBuf,
    /// Name of the folder for photos that are no files yet.
    photos: String,
    limits: PixelLimits,
}

/// A line, and the photos it names that have to be written (relative path, content).
pub(super) struct Line {
    json: Vec<u8>,
    photos: Vec<(PathBuf, Vec<u8>)>,
}

impl GroundedFile {
    pub(super) fn create(path: &Path, limits: &PixelLimits) -> Result<Self> {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let folder = path.parent().unwrap_or(Path::new(""));
        Ok(Self {
            file: NewFile::create(path)?,
            path: path.to_owned(),
            folder: absolute(folder).map_err(Error::io("find", folder))?,
            photos: format!("{stem}_photos"),
            limits: *limits,
        })
    }

    /// The path of a photo in the file, after `photos` has been told of those that must be written.
    fn place(&self, image: &ImageRef, photos: &mut Vec<(PathBuf, Vec<u8>)>) -> Result<PathBuf, Broken> {
        let content = match image {
            ImageRef::File(path) => {
                return absolute(path).map(|path| relative(&self.folder, &path)).map_err(|error| {
                    Broken::new(image.place(), Cause::MissingFile, format!("{error}; expected a photo"))
                });
            }
            ImageRef::Pixels(picture) => picture::encode_png(picture)?,
            encoded => encoded.bytes(self.limits.max_bytes)?.unwrap_or_default().into_owned(),
        };
        let hash = hex(Sha256::new_with_prefix(&content));
        let path = Path::new(&self.photos).join(format!("{}.{}", &hash[..32], picture::extension(&content)));
        photos.push((path.clone(), content));
        Ok(path)
    }
}

impl Form for GroundedFile {
    type Ready = Line;

    fn prepare(&self, sample: &Sample) -> Result<Line, Broken> {
        let mut photos = Vec::new();
        let record = Record::from_sample(sample, |image| self.place(image, &mut photos))
            .map_err(|broken: Broken| broken.within(&sample.id))?;
        let mut json = serde_json::to_vec(&record)
            .map_err(|error| Broken::new(&sample.id, Cause::BadRecord, format!("{error}; expected paths in UTF-8")))?;
        json.push(b'\n');
        Ok(Line { json, photos })
    }

    fn put(&mut self, line: Line) -> Result<()> {
        for (path, content) in line.photos {
            let path = self.folder.join(path);
            // Named by its content: a file of that name and length is that photo.
            if fs::metadata(&path).is_ok_and(|meta| meta.len() == content.len() as u64) {
                continue;
            }
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder).map_err(Error::io("create", folder))?;
            }
            // Not synced one by one: nothing names them before the JSONL file is finished.
            fs::write(&path, content).map_err(Error::io("write", &path))?;
        }
        self.file.write_all(&line.json).map_err(Error::io("write", &self.path))
    }

    fn finish(self) -> Result<Vec<PathBuf>> {
        self.file.finish()?;
        Ok(vec![self.path])
    }
}

/// Without links, `.` and `..` where the path exists; otherwise only made absolute.
fn absolute(path: &Path) -> std::io::Result<PathBuf> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    fs::canonicalize(path).or_else(|_| std::path::absolute(path))
}

/// The way from a folder to a file, both absolute; `/` between folders whatever the system, since the file may travel.
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
    fn ways_from_folder_to_file() {
        for (folder, file, way) in [
            ("/a/b", "/a/b/c.jpg", "c.jpg"),
            ("/a/b", "/a/x/c.jpg", "../x/c.jpg"),
            ("/a/b/c", "/d.jpg", "../../../d.jpg"),
        ] {
            assert_eq!(relative(Path::new(folder), Path::new(file)), Path::new(way));
        }
    }
}
