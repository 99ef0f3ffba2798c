//! Reads and embeds the photos of a source.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};

use anyhow::ensure;
use conifer_data::transform::EvalCrop;
use conifer_data::{ImageRef, PixelLimits, Sample, Source};
use conifer_eval::EmbeddingModel;
use rayon::prelude::*;

use super::note_left_out;

/// Samples with photos, and the points of the photos.
#[derive(Default)]
pub(super) struct PhotoSet {
    pub(super) samples: Vec<Sample>,
    /// `[samples, dim]`; empty before [`embedded`].
    pub(super) points: Vec<f32>,
    /// Number of samples without a readable photo.
    pub(super) left_out: usize,
    pub(super) first_left_out: Option<String>,
}

impl PhotoSet {
    fn leave_out(&mut self, why: String) {
        self.left_out += 1;
        self.first_left_out.get_or_insert(why);
    }
}

/// Reads all samples of a source. Samples that cannot be read or have no photo are left out.
///
/// # Errors
/// No sample is left.
pub(super) fn samples(option: &str, source: &dyn Source) -> anyhow::Result<PhotoSet> {
    let mut set = PhotoSet::default();
    for index in 0..source.len() {
        match source.get(index) {
            Ok(sample) if sample.image.is_some() => set.samples.push(sample),
            Ok(sample) => set.leave_out(format!("sample `{}` has no photo", sample.id)),
            Err(broken) => set.leave_out(broken.to_string()),
        }
    }
    ensure!(
        !set.samples.is_empty(),
        "{option}: no photo in {} samples{}; expected at least one",
        source.len(),
        set.first_left_out.as_ref().map_or_else(String::new, |first| format!(", first: {first}"))
    );
    Ok(set)
}

/// Embeds the photos of the samples. Photos that cannot be read are left out.
///
/// # Errors
/// The model fails, or no photo is left.
pub(super) fn embedded(
    option: &str,
    mut set: PhotoSet,
    embedder: &dyn EmbeddingModel,
    crop: EvalCrop,
) -> anyhow::Result<PhotoSet> {
    let images = |set: &PhotoSet| set.samples.iter().filter_map(|it| it.image.clone()).collect::<Vec<ImageRef>>();
    set.points = match embedder.images(&images(&set), crop) {
        Ok(points) => points,
        Err(error) => {
            // Decode all photos only after a failure: usually every photo is readable.
            let readable = |sample: &Sample| sample.image.as_ref().map(|it| it.open(&PixelLimits::default()));
            let faults: Vec<Option<String>> = set
                .samples
                .par_iter()
                .map(|it| readable(it).and_then(|it| it.err()).map(|broken| format!("`{}`: {broken}", it.id)))
                .collect();
            if faults.iter().all(Option::is_none) || faults.iter().all(Option::is_some) {
                return Err(error.into());
            }
            let samples = std::mem::take(&mut set.samples);
            for (sample, fault) in samples.into_iter().zip(faults) {
                match fault {
                    Some(fault) => set.leave_out(fault),
                    None => set.samples.push(sample),
                }
            }
            embedder.images(&images(&set), crop)?
        }
    };
    note_left_out(option, &set);
    Ok(set)
}

/// Hashes that identify the photos: the hash of the file path, of the place in a shard, or of the content in memory.
pub(super) fn photo_keys(samples: &[Sample]) -> Vec<u64> {
    let hasher = BuildHasherDefault::<DefaultHasher>::default();
    let key = |sample: &Sample| match &sample.image {
        Some(ImageRef::File(path)) => hasher.hash_one(path.canonicalize().unwrap_or_else(|_| path.clone())),
        Some(ImageRef::Member { shard, offset, .. }) => hasher.hash_one((shard, offset)),
        Some(ImageRef::Encoded(bytes)) => hasher.hash_one(bytes),
        Some(ImageRef::Pixels(picture)) => hasher.hash_one((picture.width, picture.height, &picture.rgb)),
        Some(ImageRef::Vector(vector)) => hasher.hash_one(vector.iter().map(|x| x.to_bits()).collect::<Vec<_>>()),
        None => hasher.hash_one(&sample.id),
    };
    samples.par_iter().map(key).collect()
}

/// Number of `samples` whose photo is in `known`.
pub(super) fn count_known(samples: &[Sample], known: &HashSet<u64>) -> usize {
    if known.is_empty() {
        return 0;
    }
    photo_keys(samples).into_iter().filter(|key| known.contains(key)).count()
}
