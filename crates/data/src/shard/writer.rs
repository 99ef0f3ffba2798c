//! Writes samples to shards.

use std::path::{Path, PathBuf};

use conifer_files::NewFile;

use crate::error::{Error, Result};
use crate::files;

/// Limits at which a new shard is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardSize {
    /// Maximum number of samples in a shard.
    pub samples: usize,
    /// A shard is closed once its contents have at least this many bytes.
    pub bytes: u64,
}

impl Default for ShardSize {
    /// Limits of 10,000 samples (as in img2dataset) and 1 GiB.
    fn default() -> Self {
        Self { samples: 10_000, bytes: 1 << 30 }
    }
}

/// Writes `00000.tar`, `00001.tar`, ... to a folder. A shard appears under its final name once it is complete. The
/// bytes depend on the samples alone, without timestamps or owners.
pub struct ShardWriter {
    folder: PathBuf,
    size: ShardSize,
    open: Option<OpenShard>,
    done: Vec<PathBuf>,
}

struct OpenShard {
    path: PathBuf,
    tar: tar::Builder<NewFile>,
    samples: usize,
    bytes: u64,
}

impl ShardWriter {
    /// Creates a writer. The first file is created with the first sample.
    ///
    /// # Errors
    /// A size is zero, or the folder already contains shards. The writer would overwrite some of those shards, and
    /// readers would mix the others with the new shards.
    pub fn new(folder: &Path, size: ShardSize) -> Result<Self> {
        if size.samples == 0 || size.bytes == 0 {
            let found = format!("{} samples, {} bytes", size.samples, size.bytes);
            return Err(Error::invalid("shard size", found, "at least 1 of each"));
        }
        let shards = super::pattern::glob(&folder.join("*.tar"))?.len();
        if shards > 0 {
            let found = format!("`{}` with {shards} shards", folder.display());
            return Err(Error::invalid("folder", found, "a folder without `*.tar` files"));
        }
        Ok(Self { folder: folder.to_owned(), size, open: None, done: Vec::new() })
    }

    /// Appends a sample: its key, and the extension and content of each member.
    ///
    /// # Errors
    /// The key or an extension cannot be read back (see [`crate::shard`]), or the file cannot be written.
    pub fn write(&mut self, key: &str, members: &[(&str, &[u8])]) -> Result<()> {
        let bad =
            |found: &str, expected: &str| Err(Error::invalid("member of a shard", format!("`{found}`"), expected));
        let base = key.rsplit('/').next().unwrap_or_default();
        if base.is_empty() || base.contains('.') || base.starts_with("__") || key.starts_with('/') {
            return bad(key, "a relative key without a dot, not beginning with `__`");
        }
        for (extension, _) in members {
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "._".contains(c);
            if extension.is_empty() || !extension.chars().all(plain) {
                return bad(extension, "an extension of a-z, 0-9, `.` and `_`");
            }
        }
        let mut shard = match self.open.take() {
            Some(shard) => shard,
            None => self.begin()?,
        };
        for (extension, content) in members {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            header.set_mtime(0);
            shard
                .tar
                .append_data(&mut header, format!("{key}.{extension}"), *content)
                .map_err(Error::io("write", &shard.path))?;
            shard.bytes += content.len() as u64;
        }
        shard.samples += 1;
        if shard.samples >= self.size.samples || shard.bytes >= self.size.bytes {
            self.close(shard)
        } else {
            self.open = Some(shard);
            Ok(())
        }
    }

    /// Closes the last shard and returns the paths of all shards.
    ///
    /// # Errors
    /// The shard cannot be written.
    pub fn finish(mut self) -> Result<Vec<PathBuf>> {
        if let Some(shard) = self.open.take() {
            self.close(shard)?;
        }
        Ok(self.done)
    }

    fn begin(&self) -> Result<OpenShard> {
        let path = self.folder.join(format!("{:05}.tar", self.done.len()));
        Ok(OpenShard { tar: tar::Builder::new(files::create(&path)?), path, samples: 0, bytes: 0 })
    }

    fn close(&mut self, shard: OpenShard) -> Result<()> {
        shard.tar.into_inner().map_err(Error::io("write", &shard.path))?.finish()?;
        self.done.push(shard.path);
        Ok(())
    }
}
