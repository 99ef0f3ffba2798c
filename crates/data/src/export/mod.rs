//! Writing samples down again: as grounded JSONL or as shards.

mod grounded;
mod shards;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use rayon::prelude::*;
use serde::Serialize;

use crate::error::{Error, Result};
use crate::loader::guarded;
use crate::picture;
use crate::sample::{Broken, Cause, ImageRef, PixelLimits, Sample};
use crate::shard::ShardSize;
use crate::sources::Source;

/// Where samples go, and in which form.
#[derive(Clone, Debug, PartialEq)]
pub enum Target {
    /// A file in the format of [`crate::grounded`]. Photos that are files stay where they are and are named by relative
    /// paths; others (members of shards, pictures in memory) are written into `<name of the file>_photos`, named by
    /// their content.
    ///
    /// A record may only name files in the folder of its file. So where photos are elsewhere, a link `<name of the file>_root<n>` to their
    /// folder is put beside the file, and they are named by paths through it: the file can be read again as it is.
    Grounded {
        /// The `.jsonl` file.
        path: PathBuf,
    },
    /// Plain shards: `<number>.jpg` (or as it was encoded), `.txt` with the first caption, `.json` with the whole
    /// record. Read by the source `image_text_shards`.
    Pairs {
        /// The folder of the shards.
        folder: PathBuf,
        /// When to begin the next shard.
        size: ShardSize,
    },
    /// Shards as HyCoCLIP prepares them, read by the source `grit_processed`: photo and boxes each brought to a white
    /// `side` x `side` square ([`crate::transform::white_pad`]), JPEG. The caption is the first one, and of every
    /// phrase the first box of more than `min_area` pixels is taken. A sample without such a box is skipped.
    Boxes {
        /// The folder of the shards.
        folder: PathBuf,
        /// When to begin the next shard.
        size: ShardSize,
        /// How boxes are cut.
        cut: Cut,
    },
}

/// How photos and boxes are stored in [`Target::Boxes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Side of the white square, in pixels.
    pub side: u32,
    /// Boxes of this many pixels of the photo, or fewer, are left out.
    pub min_area: u64,
    /// Quality of the JPEG, 1 to 100.
    pub quality: u8,
}

impl Default for Cut {
    /// HyCoCLIP's: 224 pixels, 32 x 32, quality 95.
    fn default() -> Self {
        Self { side: 224, min_area: 32 * 32, quality: 95 }
    }
}

/// What was written, and what was not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Samples written.
    pub written: u64,
    /// Faults by cause: a sample that was skipped, or a single box of one that was written without it.
    pub skipped: BTreeMap<Cause, u64>,
    /// The first few faults of each cause.
    pub examples: Vec<Broken>,
    /// The files that hold the result.
    pub files: Vec<PathBuf>,
    /// Of an import that reads a folder of photos: how many of them have a record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folder: Option<FolderShare>,
}

/// Photos of a folder, and those of them that no record names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FolderShare {
    /// All photos in the folder and the folders below it.
    pub photos: u64,
    /// Photos without a record.
    pub without_record: u64,
}

/// Faults of one cause that are kept in full.
const EXAMPLES: u64 = 3;

/// Samples in flight: enough to keep all threads busy, few enough for the memory.
const CHUNK: usize = 256;

/// Writes all samples in order; pictures are encoded in parallel. Nothing appears under its final name before it is
/// whole. `roots` are the folders in which the photos of the samples are ([`Source::roots`]); each photo that is copied is decoded first,
/// so that no other file gets into a shard under the name of a photo.
///
/// # Errors
/// The target cannot be written. Broken samples are no error: they are in the report.
pub fn write(
    samples: impl Iterator<Item = Result<Sample, Broken>>,
    roots: &[PathBuf],
    target: &Target,
    limits: &PixelLimits,
) -> Result<Report> {
    match target {
        Target::Grounded { path } => drive(samples, grounded::GroundedFile::create(path, roots, limits)?),
        Target::Pairs { folder, size } => drive(samples, shards::PairShards::create(folder, *size, limits)?),
        Target::Boxes { folder, size, cut } => drive(samples, shards::BoxShards::create(folder, *size, *cut, limits)?),
    }
}

/// All samples of a source, in order.
pub fn samples(source: &dyn Source) -> impl Iterator<Item = Result<Sample, Broken>> {
    (0..source.len()).map(|index| source.get(index))
}

/// A form of output.
trait Form: Sync {
    /// What goes to the disk for one sample.
    type Ready: Send;

    /// Reads and encodes; called from many threads.
    fn prepare(&self, sample: &Sample) -> Result<Self::Ready, Broken>;

    /// Appends; called in the order of the samples.
    fn put(&mut self, ready: Self::Ready) -> Result<()>;

    /// Gives the files their names.
    fn finish(self) -> Result<Vec<PathBuf>>;
}

fn drive<F: Form>(mut samples: impl Iterator<Item = Result<Sample, Broken>>, mut form: F) -> Result<Report> {
    let mut report = Report::default();
    loop {
        let chunk: Vec<_> = samples.by_ref().take(CHUNK).collect();
        if chunk.is_empty() {
            break;
        }
        let ready: Vec<_> =
            chunk.into_par_iter().map(|sample| sample.and_then(|sample| prepare(&form, &sample))).collect();
        for one in ready {
            match one {
                Ok(ready) => {
                    form.put(ready)?;
                    report.written += 1;
                }
                Err(broken) => report.skip(broken),
            }
        }
    }
    if report.written == 0 {
        // What stands under the name of the target is better than an empty file.
        return Err(Error::Empty {
            place: "the export".to_owned(),
            expected: format!("a sample that can be written ({report})"),
        });
    }
    report.files = form.finish()?;
    Ok(report)
}

/// A decoder that panics costs its sample.
fn prepare<F: Form>(form: &F, sample: &Sample) -> Result<F::Ready, Broken> {
    guarded(|| sample.id.clone(), || form.prepare(sample))
}

/// The encoded bytes of a photo, once they were decoded without a fault.
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

impl Report {
    fn skip(&mut self, broken: Broken) {
        let count = self.skipped.entry(broken.cause).or_default();
        *count += 1;
        if *count <= EXAMPLES {
            self.examples.push(broken);
        }
    }
}

/// "2302 samples written; bad_box 3, missing_file 1", then the examples, one a line.
impl fmt::Display for Report {
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
