//! Reads and writes tar shards in the WebDataset layout. The members of a sample are adjacent and have the same name up
//! to the first dot (`000123.jpg`, `000123.txt`, `000123.json`). Reading supports random access; writing starts a new
//! shard at a size limit.

mod pattern;
mod walk;
mod writer;

use std::path::{Path, PathBuf};

use rayon::prelude::*;
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};
use crate::files::{self, open_regular};
use crate::sample::{Broken, Cause, ImageRef};

pub use pattern::expand;
pub use writer::{ShardSize, ShardWriter};

use walk::{TarMember, walk};

/// Extensions of photographs, in order of preference.
pub(crate) const IMAGE_EXTENSIONS: &[&str] = &["jpg", "jpeg", "png", "webp", "gif", "bmp"];

/// Maximum length of a text or JSON member, in bytes.
const MAX_TEXT_BYTES: u64 = 16 << 20;

/// An index of the samples of many shards. It takes 24 bytes of memory per sample, so that the 20 million samples of
/// GRIT fit.
pub struct Shards {
    files: Vec<PathBuf>,
    slots: Vec<TarSlot>,
    torn: Vec<TornShard>,
    fingerprint: String,
}

/// A shard that is truncated or has corrupt bytes. Samples before the damage are used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornShard {
    /// Path of the shard.
    pub shard: PathBuf,
    /// Number of complete samples before the damage.
    pub samples: usize,
    /// Description of the damage: its position, the bytes found and the bytes expected.
    pub detail: String,
}

/// The members of one sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardRecord {
    /// The common part of the names of all members.
    pub key: String,
    shard: PathBuf,
    members: Vec<TarMember>,
}

#[derive(Clone, Copy)]
enum TarSlot {
    /// Bytes `offset..offset + len` of a shard: headers and contents of one sample.
    Sample { shard: u32, offset: u64, len: u64 },
    /// The damaged end of a shard, which counts as one broken sample; an index in `torn`.
    Torn(u32),
}

impl Shards {
    /// Reads the headers of all shards that match a pattern (see [`expand`]), in parallel. No photograph is read.
    ///
    /// # Errors
    /// No file matches, a file cannot be opened, or no sample is complete. A damaged shard is not an error; see
    /// [`Shards::torn`].
    pub fn open(pattern: &Path) -> Result<Self> {
        let files = expand(pattern)?;
        let indexed = files.par_iter().map(|path| index(path)).collect::<Result<Vec<_>>>()?;
        let (mut slots, mut torn) = (Vec::new(), Vec::new());
        let mut hash = Sha256::new();
        for (number, (one, path)) in indexed.into_iter().zip(&files).enumerate() {
            hash.update(path.file_name().unwrap_or_default().as_encoded_bytes());
            hash.update(one.hash);
            let shard = number as u32;
            slots.extend(one.samples.into_iter().map(|(offset, len)| TarSlot::Sample { shard, offset, len }));
            if let Some(torn_shard) = one.torn_shard {
                slots.push(TarSlot::Torn(torn.len() as u32));
                torn.push(torn_shard);
            }
        }
        if slots.len() == torn.len() {
            let place = format!("shards `{}`", pattern.display());
            return Err(match torn.first() {
                Some(torn_shard) => Error::format(place, torn_shard.to_string(), "a tar file"),
                None => Error::Empty { place, expected: "members with a name and an extension".to_owned() },
            });
        }
        Ok(Self { files, slots, torn, fingerprint: hex::encode(hash.finalize()) })
    }

    /// Number of samples, plus one per damaged shard.
    #[expect(clippy::len_without_is_empty, reason = "`open` rejects empty shards")]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Paths of the shards, in order.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// Damaged shards. Their samples before the damage are included.
    pub fn torn(&self) -> &[TornShard] {
        &self.torn
    }

    /// SHA-256 (hex) of the shards' names, the members' names and lengths, and the contents of members that are not
    /// photographs and have at most 16 MiB.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// The members of sample `index`. The bytes of photographs are not read.
    ///
    /// # Errors
    /// [`Cause::TornShard`] for the damaged end of a shard, or if the shard was changed after it was indexed;
    /// [`Cause::MissingFile`] if the shard cannot be opened.
    pub fn record(&self, index: usize) -> Result<ShardRecord, Broken> {
        let (shard, offset, len) = match self.slots[index] {
            TarSlot::Sample { shard, offset, len } => (&self.files[shard as usize], offset, len),
            TarSlot::Torn(number) => return Err(self.torn[number as usize].clone().into()),
        };
        let place = || format!("{} at byte {offset}", shard.display());
        let file = open_regular(shard).map_err(|error| {
            let detail = format!("shard cannot be read: {error}; expected a tar file");
            Broken::new(place(), Cause::MissingFile, detail)
        })?;
        let mut members: Vec<TarMember> = Vec::new();
        walk(file, offset, offset + len, |member, _| {
            members.push(member);
            Ok(())
        })
        .map_err(|found| {
            let detail = format!("{found}; expected the members that were indexed when the shard was opened");
            Broken::new(place(), Cause::TornShard, detail)
        })?;
        let Some(key) = members.first().map(|m| m.key.clone()) else {
            return Err(Broken::new(
                place(),
                Cause::TornShard,
                "no member; expected the members that were indexed when the shard was opened",
            ));
        };
        Ok(ShardRecord { key, shard: shard.clone(), members })
    }
}

impl ShardRecord {
    /// Extensions of the members, in order.
    pub fn extensions(&self) -> impl Iterator<Item = &str> {
        self.members.iter().map(|m| m.extension.as_str())
    }

    /// The first photograph whose extension is `prefix` followed by jpg, jpeg, png, webp, gif or bmp.
    pub fn image(&self, prefix: &str) -> Option<ImageRef> {
        let member = IMAGE_EXTENSIONS.iter().find_map(|ext| self.member(&format!("{prefix}{ext}")))?;
        Some(ImageRef::Member {
            shard: self.shard.clone(),
            offset: member.offset,
            len: member.len,
            name: member.name.clone(),
        })
    }

    /// The content of a text member; `None` if no member has that extension.
    ///
    /// # Errors
    /// The member is not UTF-8, is longer than 16 MiB, or cannot be read.
    pub fn text(&self, extension: &str) -> Result<Option<String>, Broken> {
        let Some(TarMember { offset, len, name, .. }) = self.member(extension) else {
            return Ok(None);
        };
        let fault = |cause, found: String, expected: &str| {
            Broken::new(
                &self.key,
                cause,
                format!("member `{name}` of `{}` {found}; expected {expected}", self.shard.display()),
            )
        };
        if *len > MAX_TEXT_BYTES {
            let found = format!("has {len} bytes");
            return Err(fault(Cause::BadRecord, found, "at most 16 MiB of text"));
        }
        let bytes = files::read_range(&self.shard, *offset, *len).map_err(|error| {
            let found = format!("cannot be read: {error}");
            fault(Cause::MissingFile, found, "a text")
        })?;
        String::from_utf8(bytes).map(Some).map_err(|error| {
            let found = format!("is not UTF-8: {}", error.utf8_error());
            fault(Cause::BadRecord, found, "a text")
        })
    }

    /// Like [`ShardRecord::text`], but the member is required.
    ///
    /// # Errors
    /// The errors of [`ShardRecord::text`], and an error if the member does not exist.
    pub fn need_text(&self, extension: &str) -> Result<String, Broken> {
        self.text(extension)?.ok_or_else(|| self.lacks(&format!("`.{extension}`")))
    }

    /// Like [`ShardRecord::image`], but the photograph is required.
    ///
    /// # Errors
    /// The photograph does not exist.
    pub fn need_image(&self, prefix: &str) -> Result<ImageRef, Broken> {
        self.image(prefix).ok_or_else(|| self.lacks(&format!("`.{prefix}jpg` or another photograph")))
    }

    /// A [`Broken`] for this record, with the shard's path in its detail.
    pub fn broken(&self, cause: Cause, detail: String) -> Broken {
        Broken::new(&self.key, cause, format!("{detail} (in `{}`)", self.shard.display()))
    }

    fn lacks(&self, expected: &str) -> Broken {
        let there: Vec<_> = self.extensions().map(|e| format!("`.{e}`")).collect();
        let detail = format!("members are {}; expected {expected}", there.join(", "));
        self.broken(Cause::BadRecord, detail)
    }

    fn member(&self, extension: &str) -> Option<&TarMember> {
        self.members.iter().find(|m| m.extension == extension)
    }
}

impl std::fmt::Display for TornShard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { shard, samples, detail } = self;
        write!(f, "`{}` is damaged after {samples} complete samples: {detail}", shard.display())
    }
}

impl From<TornShard> for Broken {
    fn from(torn_shard: TornShard) -> Self {
        Self::new(torn_shard.shard.display().to_string(), Cause::TornShard, torn_shard.to_string())
    }
}

struct TarIndex {
    /// (offset, length) of each sample.
    samples: Vec<(u64, u64)>,
    torn_shard: Option<TornShard>,
    hash: [u8; 32],
}

/// Indexes a shard in one pass over its headers.
fn index(path: &Path) -> Result<TarIndex> {
    let file = open_regular(path).map_err(Error::io("open shard", path))?;
    let len = file.metadata().map_err(Error::io("open shard", path))?.len();
    let mut samples: Vec<(u64, u64)> = Vec::new();
    let mut current = String::new();
    let mut hash = Sha256::new();
    let walked = walk(file, 0, len, |member, content| {
        hash.update(&member.name);
        hash.update(member.len.to_le_bytes());
        let (_, last) = member.extension.rsplit_once('.').unwrap_or(("", &member.extension));
        if !IMAGE_EXTENSIONS.contains(&last) && member.len <= MAX_TEXT_BYTES {
            std::io::copy(content, &mut HashWriter(&mut hash))?;
        }
        match samples.last_mut() {
            Some((offset, len)) if member.key == current => *len = member.end - *offset,
            _ => {
                samples.push((member.begin, member.end - member.begin));
                current = member.key;
            }
        }
        Ok(())
    });
    let torn_shard = walked.err().map(|torn| {
        // The damaged member's sample is incomplete, so drop it.
        if torn.key.is_some_and(|key| key == current) {
            samples.pop();
        }
        TornShard { shard: path.to_owned(), samples: samples.len(), detail: torn.detail }
    });
    Ok(TarIndex { samples, torn_shard, hash: hash.finalize().into() })
}

struct HashWriter<'a>(&'a mut Sha256);

impl std::io::Write for HashWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
