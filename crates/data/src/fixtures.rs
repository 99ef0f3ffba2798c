//! Small inputs for the tests of this crate and, with the feature `fixtures`, of crates that depend on it.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

use crate::picture;
use crate::sample::Picture;
use crate::shard::{ShardSize, ShardWriter};

/// (extension, content) of each member of a sample.
pub type FixtureMembers<'a> = &'a [(&'a str, &'a [u8])];

/// A temporary folder, removed on drop.
pub struct FixtureFolder(tempfile::TempDir);

impl Default for FixtureFolder {
    fn default() -> Self {
        Self::new()
    }
}

impl FixtureFolder {
    /// Creates the folder.
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Path of the folder.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes a file and creates its folders.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    /// Writes one shard of (key, members) pairs.
    pub fn shard(&self, samples: &[(&str, FixtureMembers<'_>)]) -> PathBuf {
        let mut writer = ShardWriter::new(self.path(), ShardSize::default()).unwrap();
        for (key, members) in samples {
            writer.write(key, members).unwrap();
        }
        writer.finish().unwrap().remove(0)
    }
}

/// A picture with a black left half and a white right half.
pub fn halves(width: u32, height: u32) -> Picture {
    let row = |_| (0..width).flat_map(|x| [if x < width / 2 { 0 } else { 255 }; 3]);
    Picture::new(width, height, (0..height).flat_map(row).collect()).unwrap()
}

/// [`halves`] as a JPEG file.
pub fn jpeg(width: u32, height: u32) -> Vec<u8> {
    picture::encode_jpeg(&halves(width, height), 95).unwrap()
}

/// Path of `../shared/data/<name>`; prints a note and returns `None` if it does not exist.
pub fn shared_data(name: &str) -> Option<PathBuf> {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data")).join(name);
    if path.exists() {
        return Some(path);
    }
    eprintln!("skipped: {} not found", path.display());
    None
}

/// Bytes of a `.npy` file of f32 rows of `width` values, as `numpy.save` writes them.
pub fn npy(width: usize, values: &[f32]) -> Vec<u8> {
    let rows = values.len() / width;
    let mut header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {width}), }}");
    // The array starts at a byte offset that is a multiple of 64.
    let length = (10 + header.len() + 1).next_multiple_of(64) - 10;
    header += &" ".repeat(length - header.len() - 1);
    header.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((length as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    bytes
}
