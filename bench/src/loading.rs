//! Photos from files to crops: large ones, in full and at a scale, and whole batches through the loader.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use conifer_data::loader::{Loader, LoaderConfig};
use conifer_data::rng::{Stream, rng_for};
use conifer_data::sources::Source;
use conifer_data::tokenizer::Tokenizer;
use conifer_data::transform::Augment;
use conifer_data::{Broken, ImageRef, PixelLimits, Sample, View};

use crate::Case;

/// `loader_large`, `loader_large_scaled` (at least `BENCH_LEAST` pixels, 1 unless said, for each of the result), `loader_threads_1`, `loader_threads_2`.
pub(crate) fn case(name: &str) -> anyhow::Result<Case> {
    match name.strip_prefix("threads_") {
        Some(threads) => batches(threads.parse()?),
        None => crops((name == "large_scaled").then(least).transpose()?),
    }
}

fn least() -> anyhow::Result<f32> {
    std::env::var("BENCH_LEAST").map_or(Ok(1.0), |text| text.parse().context("BENCH_LEAST: expected a number"))
}

fn photos(variable: &str, most: usize) -> anyhow::Result<Vec<ImageRef>> {
    let folder = std::env::var(variable).with_context(|| format!("{variable}: expected a folder of JPEG files"))?;
    let entries = std::fs::read_dir(&folder).with_context(|| folder.clone())?;
    let mut paths: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    paths.retain(|path| path.extension().is_some_and(|it| it == "jpg"));
    paths.sort();
    paths.truncate(most);
    anyhow::ensure!(!paths.is_empty(), "{folder}: no .jpg in it");
    Ok(paths.into_iter().map(ImageRef::File).collect())
}

/// One crop of each large photo, one after the other on this thread.
fn crops(decode_at_scale: Option<f32>) -> anyhow::Result<Case> {
    let photos = photos("BENCH_LARGE_PHOTOS", 20)?;
    let augment = Augment { hflip: 0.5, decode_at_scale, ..Augment::default() };
    let mut epoch = 0;
    Ok(Box::new(move || {
        epoch += 1;
        let mut total = 0.0;
        for (sample, photo) in photos.iter().enumerate() {
            let mut rng = rng_for(0, epoch, sample as u64, Stream::Photo);
            total += f32::from(augment.open(photo, &PixelLimits::default(), 224, &mut rng)?[0]);
        }
        Ok(total)
    }))
}

/// 512 samples in batches of 32 through the loader, which runs on from step to step.
fn batches(workers: usize) -> anyhow::Result<Case> {
    const BATCHES: usize = 16;
    let source = Arc::new(Photos(photos("BENCH_PHOTOS", 100)?));
    let augment = Augment { hflip: 0.5, ..Augment::default() };
    let config = LoaderConfig { augment, workers, ..LoaderConfig::default() };
    let mut loader = Loader::new(source, Tokenizer::train(["a photo"], 520)?, config)?;
    Ok(Box::new(move || {
        let start = Instant::now();
        let (mut total, mut rows) = (0.0, 0);
        for batch in loader.by_ref().take(BATCHES) {
            let images = batch?.images.context("no photos in a batch")?;
            rows += images.n;
            total += f32::from(images.data[0]);
        }
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or("peak unknown");
        eprintln!("{workers} threads: {:.0} photos a second; {peak}", rows as f64 / start.elapsed().as_secs_f64());
        Ok(total)
    }))
}

/// A photo and a caption each.
struct Photos(Vec<ImageRef>);

impl Source for Photos {
    fn name(&self) -> &str {
        "photos"
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn get(&self, index: usize) -> Result<Sample, Broken> {
        let image = Some(self.0[index].clone());
        Ok(Sample { id: index.to_string(), image, captions: vec!["a photo".to_owned()], ..Sample::default() })
    }

    fn views(&self) -> &[View] {
        &[View::Pair]
    }

    fn fingerprint(&self) -> String {
        String::new()
    }
}
