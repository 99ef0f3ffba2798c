//! Crops of large photos from files, decoded in full or at a reduced scale.

use anyhow::Context as _;
use conifer_data::rng::{Stream, rng_for};
use conifer_data::transform::Augment;
use conifer_data::{ImageRef, PixelLimits};

use crate::{BenchCase, photos};

/// Builds the case `large` or `large_scaled`. The latter decodes at a scale with at least `BENCH_LEAST` (default 1)
/// source pixels per pixel of the crop.
pub(crate) fn case(name: &str) -> anyhow::Result<BenchCase> {
    crops((name == "large_scaled").then(least).transpose()?)
}

fn least() -> anyhow::Result<f32> {
    std::env::var("BENCH_LEAST").map_or(Ok(1.0), |text| text.parse().context("BENCH_LEAST: expected a number"))
}

/// One crop of each large photo, sequentially on this thread.
fn crops(decode_at_scale: Option<f32>) -> anyhow::Result<BenchCase> {
    let photos = photos("BENCH_LARGE_PHOTOS", 20)?;
    let augment = Augment { hflip: 0.5, decode_at_scale, ..Augment::default() };
    let mut epoch = 0;
    Ok(Box::new(move || {
        epoch += 1;
        let mut total = 0.0;
        for (sample, photo) in photos.iter().enumerate() {
            let mut rng = rng_for(0, epoch, sample as u64, Stream::Photo);
            total +=
                f32::from(augment.open(&ImageRef::File(photo.clone()), &PixelLimits::default(), 224, &mut rng)?[0]);
        }
        Ok(total)
    }))
}
