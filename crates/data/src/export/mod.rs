//! Writes samples as grounded JSONL or as shards.

mod grounded;
mod shards;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use rayon::prelude::*;
use serde::Serialize;

use crate::error::{Error, Result};
use crate::picture;
use crate::sample::guarded;
use crate::sample::{Broken, Cause, ImageRef, PixelLimits, Sample};
use crate::shard::ShardSize;
use crate::source::Source;

/// Output format and location.
#[derive(Clone, Debug, PartialEq)]
pub enum ExportTarget {
    /// A file in the format of [`crate::grounded`]. Photos that are files are not copied; records refer to them by
    /// relative paths. Other photos (members of shards, pictures in memory) are written to the folder
    /// `<name of the file>_photos`, named by their content hash.
    ///
    /// A record may only name files in the folder of its JSONL file. If photos are elsewhere, a link
    /// `<name of the file>_root<n>` to their folder is created next to the file, and their paths go through it. The
    /// file can then be read without further options.
    Grounded {
        /// Path of the `.jsonl` file.
        path: PathBuf,
    },
    /// Plain shards: `<number>.jpg` (or the original encoding), `.txt` with the first caption, `.json` with the record
    /// without the path of its photo. The source `image_text_shards` reads them.
    Pairs {
        /// Folder to write the shards to.
        folder: PathBuf,
        /// Maximum size of a shard.
        size: ShardSize,
    },
    /// Shards as prepared by HyCoCLIP; the source `grit_processed` reads them. The photo and the boxes are each fitted
    /// into a white `side` x `side` square ([`crate::transform::white_pad`]) and stored as JPEG. Only the first caption
    /// is stored. Each phrase contributes its separate crop if it has one, otherwise its first box of more than
    /// `min_area` pixels. A sample without any such crop or box is skipped.
    Boxes {
        /// Folder to write the shards to.
        folder: PathBuf,
        /// Maximum size of a shard.
        size: ShardSize,
        /// Settings of the cropped boxes.
        cut: CropSettings,
    },
}

/// Size, quality and box filter of [`ExportTarget::Boxes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CropSettings {
    /// Side length of the white square, in pixels.
    pub side: u32,
    /// Boxes of at most this many pixels of the photo are skipped.
    pub min_area: u64,
    /// JPEG quality, 1 to 100.
    pub quality: u8,
}

impl Default for CropSettings {
    /// The values of HyCoCLIP: 224 pixels, 32 x 32, quality 95.
    fn default() -> Self {
        Self { side: 224, min_area: 32 * 32, quality: 95 }
    }
}

/// Counts and faults of an export.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ExportReport {
    /// Number of samples written.
    pub written: u64,
    /// Number of faults by cause: skipped samples, and single boxes omitted from samples that were written.
    pub skipped: BTreeMap<Cause, u64>,
    /// The first few faults of each cause.
    pub examples: Vec<Broken>,
    /// Paths of the written files.
    pub files: Vec<PathBuf>,
    /// For an import from a folder of photos: number of photos, and number of photos without a record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folder: Option<FolderShare>,
}

/// Coverage of a folder of photos by records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FolderShare {
    /// Number of photos in the folder and its subfolders.
    pub photos: u64,
    /// Number of photos without a record.
    pub without_record: u64,
}

/// Maximum number of example faults per cause.
const EXAMPLES: u64 = 3;

/// Number of samples processed at a time: enough to keep all threads busy, few enough to fit in memory.
const CHUNK: usize = 256;

/// Writes all samples in order. Pictures are encoded in parallel. Files appear under their final names only when they
/// are complete.
///
/// `roots` are the folders of the photos ([`Source::roots`]). Each photo is decoded before it is copied, because a
/// record may name a file that is not a photo, and such a file must not be copied into a shard.
///
/// # Errors
/// The target cannot be written, or no sample could be written. Broken samples are not errors; the report lists them.
pub fn write(
    samples: impl Iterator<Item = Result<Sample, Broken>>,
    roots: &[PathBuf],
    target: &ExportTarget,
    limits: &PixelLimits,
) -> Result<ExportReport> {
    match target {
        ExportTarget::Grounded { path } => drive(samples, grounded::GroundedFile::create(path, roots, limits)?),
        ExportTarget::Pairs { folder, size } => drive(samples, shards::PairShards::create(folder, *size, limits)?),
        ExportTarget::Boxes { folder, size, cut } => {
            drive(samples, shards::BoxShards::create(folder, *size, *cut, limits)?)
        }
    }
}

/// All samples of a source, in order.
pub fn samples(source: &dyn Source) -> impl Iterator<Item = Result<Sample, Broken>> {
    (0..source.len()).map(|index| source.get(index))
}

trait ExportFormat: Sync {
    /// The encoded data of one sample.
    type Ready: Send;

    /// Reads and encodes a sample; called from many threads.
    fn prepare(&self, sample: &Sample) -> Result<Self::Ready, Broken>;

    /// Appends a sample; called in the order of the samples.
    fn put(&mut self, ready: Self::Ready) -> Result<()>;

    /// Moves the files to their final names.
    fn finish(self) -> Result<Vec<PathBuf>>;
}

fn drive<F: ExportFormat>(
    mut samples: impl Iterator<Item = Result<Sample, Broken>>,
    mut format: F,
) -> Result<ExportReport> {
    let mut report = ExportReport::default();
    loop {
        let chunk: Vec<_> = samples.by_ref().take(CHUNK).collect();
        if chunk.is_empty() {
            break;
        }
        let ready: Vec<_> =
            chunk.into_par_iter().map(|sample| sample.and_then(|sample| prepare(&format, &sample))).collect();
        for one in ready {
            match one {
                Ok(ready) => {
                    format.put(ready)?;
                    report.written += 1;
                }
                Err(broken) => report.skip(broken),
            }
        }
    }
    if report.written == 0 {
        // Keep the existing target file instead of replacing it with an empty one.
        return Err(Error::Empty {
            place: "the export".to_owned(),
            expected: format!("a sample that can be written ({report})"),
        });
    }
    report.files = format.finish()?;
    Ok(report)
}

/// A panic in a decoder makes the sample broken.
fn prepare<F: ExportFormat>(format: &F, sample: &Sample) -> Result<F::Ready, Broken> {
    guarded(|| sample.id.clone(), || format.prepare(sample))
}

/// The encoded bytes of a photo, after a check that they can be decoded.
fn photo_bytes(image: &ImageRef, limits: &PixelLimits) -> Result<Vec<u8>, Broken> {
    let bytes: Arc<[u8]> = match image {
        ImageRef::Pixels(picture) => return picture::encode_png(picture),
        ImageRef::Encoded(bytes) => Arc::clone(bytes),
        stored => stored.bytes(limits.max_bytes)?.unwrap_or_default().into(),
    };
    let opened = ImageRef::Encoded(Arc::clone(&bytes)).open(limits);
    opened.map_err(|broken| Broken::new(image.place(), broken.cause, broken.detail))?;
    Ok(bytes.to_vec())
}

impl ExportReport {
    fn skip(&mut self, broken: Broken) {
        let count = self.skipped.entry(broken.cause).or_default();
        *count += 1;
        if *count <= EXAMPLES {
            self.examples.push(broken);
        }
    }
}

/// Formats as "2302 samples written; bad_box 3, missing_file 1", then one example per line.
impl fmt::Display for ExportReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} samples written", self.written)?;
        for (i, (cause, count)) in self.skipped.iter().enumerate() {
            write!(f, "{} {cause} {count}", if i == 0 { ";" } else { "," })?;
        }
        self.examples.iter().try_for_each(|example| write!(f, "\n  {example}"))
    }
}

#[cfg(test)]
mod tests;
