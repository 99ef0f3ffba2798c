//! Distances of photos and of their parts from the root of a model.

use std::sync::Arc;

use anyhow::{Context as _, ensure};
use burn::tensor::Device;
use conifer_data::sample::guarded;
use conifer_data::transform::{blurred, crop_box, shrink};
use conifer_data::{BBox, Broken, ImageRef, Picture, PixelLimits, Source};
use conifer_geometry::space;
use conifer_viz::figures::{FigureEntry, FigureTable, push_histogram};

use crate::arguments::FigureArgs;
use crate::commands::project::chosen_rows;
use crate::embedder::ModelEmbedder;
use crate::output::note;
use crate::progress;

/// The kinds of pictures, in the order of [`variants`].
const KINDS: [&str; 4] = ["photo", "box", "blurred box", "tiny crop"];
/// Number of photos that are embedded together.
const CHUNK: usize = 32;
/// Shorter side to which a picture is reduced, pixels. Most models read fewer pixels.
const SIDE: u32 = 384;
/// Standard deviation of the blur, as a part of the longer side of a box.
const BLUR: f32 = 1.0 / 32.0;
/// Sides of a tiny crop, as a part of the sides of its box. The crop is at the centre of the box.
const TINY: f32 = 1.0 / 8.0;

pub(super) fn crop_depths(entry: &FigureEntry, args: &FigureArgs, device: &Device) -> anyhow::Result<FigureTable> {
    let model = args.model.as_deref().context("--model is missing; expected a checkpoint that embeds photos")?;
    let embedder = ModelEmbedder::open(model, device)?;
    let mut table = FigureTable::new(entry.columns);
    for input in &args.inputs {
        let source = super::data::opened(args, "INPUT", input)?;
        let depths = depths(&embedder, source.as_ref(), args).with_context(|| input.clone())?;
        ensure!(
            !depths[1].is_empty(),
            "{input}: no readable photo has boxes; expected a data set with photos and boxes"
        );
        let groups: Vec<(String, Vec<f64>)> = KINDS.iter().map(|it| (*it).to_owned()).zip(depths).collect();
        push_histogram(&mut table, &super::title_of(args, input), &groups).with_context(|| input.clone())?;
    }
    Ok(table)
}

/// The distances from the root of the pictures of each kind.
fn depths(embedder: &ModelEmbedder, source: &dyn Source, args: &FigureArgs) -> anyhow::Result<[Vec<f64>; KINDS.len()]> {
    let model = embedder.inner();
    let (geometry, root) = (space::<f64>(model.spec())?, model.root()?);
    let sample = (args.sample < source.len()).then_some(args.sample);
    let samples = chosen_rows(source.len(), sample, args.seed)?;
    let bar = progress::bar("photos", samples.len());
    let mut found = [const { Vec::new() }; KINDS.len()];
    let mut broken = 0;
    for part in samples.chunks(CHUNK) {
        let (mut kinds, mut images) = (Vec::new(), Vec::new());
        for index in part {
            let read = guarded(|| format!("{}[{index}]", source.name()), || variants(source, *index));
            match read {
                Ok(pictures) => {
                    for (kind, picture) in pictures {
                        kinds.push(kind);
                        images.push(ImageRef::Pixels(Arc::new(picture)));
                    }
                }
                Err(_) => broken += 1,
            }
        }
        let points = model.images(&images, embedder.crop(None), &mut |_, _| {})?;
        for (kind, point) in kinds.into_iter().zip(points.chunks_exact(model.spec().dim)) {
            let point: Vec<f64> = point.iter().map(|v| f64::from(*v)).collect();
            found[kind].push(geometry.depth(&point, &root));
        }
        bar.inc(part.len() as u64);
    }
    bar.finish_and_clear();
    if broken > 0 {
        note(&format!("left out: {broken} of {} photos cannot be read", samples.len()));
    }
    Ok(found)
}

/// The photo of a sample, and each of its boxes as it is, blurred and reduced to a tiny crop, with the index of the
/// kind in [`KINDS`]. Empty without a photo.
fn variants(source: &dyn Source, index: usize) -> Result<Vec<(usize, Picture)>, Broken> {
    let sample = source.get(index)?;
    let Some(photo) = sample.photo(&PixelLimits::default())? else { return Ok(Vec::new()) };
    let reduced = |picture: Picture| shrink(&picture, SIDE).unwrap_or(picture);
    let mut pictures = Vec::new();
    for bounds in sample.phrases.iter().flat_map(|it| &it.boxes) {
        let part = reduced(crop_box(&photo, bounds));
        let blurred = blurred(&part, BLUR * part.width.max(part.height) as f32);
        pictures.extend([(1, part), (2, blurred), (3, reduced(crop_box(&photo, &tiny(bounds))))]);
    }
    pictures.insert(0, (0, reduced(photo)));
    Ok(pictures)
}

/// The part of a box that [`TINY`] describes.
fn tiny(bounds: &BBox) -> BBox {
    let around = |from: f32, to: f32| {
        let (middle, half) = ((from + to) / 2.0, TINY * (to - from) / 2.0);
        (middle - half, middle + half)
    };
    let ((x1, x2), (y1, y2)) = (around(bounds.x1, bounds.x2), around(bounds.y1, bounds.y2));
    BBox { x1, y1, x2, y2 }
}
