//! Common code of the compositional benchmarks, in which each photo has a correct and a wrong caption.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;
use std::path::Path;
use std::sync::Arc;

use conifer_data::transform::{EvalCrop, crop_box};
use conifer_data::{ImageRef, Sample};
use conifer_geometry::space;
use rayon::prelude::*;

use super::{Context, images, lacking, open};
use crate::record::{Baseline, Record, RecordKey};
use crate::{Error, Outcomes, Result, Score};

/// Outcomes of the model and of a baseline that uses only the captions. Item i is sample i.
pub(super) struct CaptionPairOutcomes {
    pub(super) samples: Vec<Sample>,
    /// 1 if the correct caption has the higher score, else 0. A tie is wrong, as in the released evaluators.
    pub(super) right: Vec<f64>,
    /// 1 if the correct caption has more characters, 1/2 if both have the same number, else 0.
    longer: Vec<f64>,
    /// Photo index of each item. Items of one photo are correlated and form a cluster in the bootstrap.
    photo_of: Vec<u32>,
    /// Score and crop, for the protocol.
    pub(super) protocol: String,
}

/// Part of the photo that is embedded.
#[derive(Clone, Copy)]
pub(super) enum EmbeddedRegion {
    Whole,
    /// The first box of the phrases of the sample.
    FirstBox,
}

/// Number of crops held in memory at a time.
const CROPS: usize = 256;

impl CaptionPairOutcomes {
    /// Compares `score(photo, right caption)` with `score(photo, wrong caption)` for every sample.
    ///
    /// # Errors
    /// A sample lacks a photo, a caption, a wrong caption or the box that `region` needs, or has several captions; the
    /// model fails; a score is not a number.
    pub(super) fn measure(context: &Context<'_>, benchmark: &'static str, region: EmbeddedRegion) -> Result<Self> {
        let samples = context.samples(benchmark)?;
        let (mut captions, mut longer) = (Vec::new(), Vec::new());
        for sample in &samples {
            let (right, wrong) = pair(benchmark, sample)?;
            longer.push(match right.chars().count().cmp(&wrong.chars().count()) {
                std::cmp::Ordering::Less => 0.0,
                std::cmp::Ordering::Equal => 0.5,
                std::cmp::Ordering::Greater => 1.0,
            });
            captions.extend([right, wrong]);
        }
        let embedder = context.embedder;
        // Thousands of items share photos and texts, so each distinct photo or text is embedded once.
        let (texts, text_of) = distinct(&captions);
        let texts = embedder.texts(&texts.into_iter().map(str::to_owned).collect::<Vec<_>>())?;
        let (photos, photo_of) = match region {
            EmbeddedRegion::Whole => whole(context, benchmark, &samples)?,
            EmbeddedRegion::FirstBox => (boxes(context, benchmark, &samples)?, (0..samples.len()).collect()),
        };

        let (space, score) = (space::<f32>(embedder.spec())?, context.options.score);
        let dim = embedder.spec().dim;
        let scored = |photo: usize, text: usize| {
            let (photo, text) = (&photos[photo * dim..][..dim], &texts[text * dim..][..dim]);
            match score {
                Score::Similarity => space.similarity(photo, text),
                Score::Inner => space.inner(photo, text),
            }
        };
        let outcomes = photo_of.iter().zip(text_of.chunks_exact(2)).map(|(&photo, texts)| {
            let (right, wrong) = (scored(photo, texts[0]), scored(photo, texts[1]));
            if right.is_nan() || wrong.is_nan() {
                return Err(Error::Embedder("a score is not a number".into()));
            }
            Ok(f64::from(u8::from(right > wrong)))
        });
        let right = outcomes.collect::<Result<Vec<_>>>()?;
        let crop = match context.options.crop {
            EvalCrop::Center => "crop center",
            EvalCrop::Squeeze => "crop squeeze",
        };
        let photo_of = match region {
            EmbeddedRegion::Whole => photo_of.iter().map(|&photo| photo as u32).collect(),
            EmbeddedRegion::FirstBox => photo_numbers(&images(benchmark, &samples)?),
        };
        Ok(Self { samples, right, longer, photo_of, protocol: format!("{}, {crop}", score.name()) })
    }

    /// Record of the mean over the items with these indices.
    pub(super) fn mean(&self, key: RecordKey<'_>, items: &[usize], seed: u64) -> Record {
        self.record(key, items, seed, |values| Outcomes::Mean { values })
    }

    /// Record of the mean over groups of `items`. `groups` holds the group index of every item, from 0.
    pub(super) fn mean_of_groups(&self, key: RecordKey<'_>, items: &[usize], groups: &[u32], seed: u64) -> Record {
        let groups: Vec<u32> = items.iter().map(|&item| groups[item]).collect();
        self.record(key, items, seed, |values| Outcomes::MeanOfGroups { values, groups: groups.clone() })
    }

    fn record(&self, key: RecordKey<'_>, items: &[usize], seed: u64, of: impl Fn(Vec<f64>) -> Outcomes) -> Record {
        let pick = |values: &[f64]| of(items.iter().map(|&item| values[item]).collect());
        let baseline = text_baseline(pick(&self.longer).value());
        let photos = items.iter().map(|&item| self.photo_of[item]).collect();
        Record::clustered(key, pick(&self.right), photos, baseline, seed)
    }

    /// Groups the samples by the name returned by `of`. Returns the distinct names and, for each sample, the index of
    /// its name. Names in `order` come first, in that order; the others follow alphabetically.
    ///
    /// # Errors
    /// `of` returns no name for a sample.
    pub(super) fn groups(
        &self,
        benchmark: &'static str,
        what: &str,
        order: &[&str],
        of: impl Fn(&Sample) -> Option<&str>,
    ) -> Result<(Vec<String>, Vec<u32>)> {
        let found = self
            .samples
            .iter()
            .map(|sample| of(sample).ok_or_else(|| lacking(benchmark, sample, what, "each sample needs one")));
        let found = found.collect::<Result<Vec<&str>>>()?;
        let position = |name: &str| order.iter().position(|it| *it == name).unwrap_or(order.len());
        let names: BTreeSet<(usize, &str)> = found.iter().map(|name| (position(name), *name)).collect();
        let numbers: BTreeMap<&str, u32> = names.iter().zip(0..).map(|(it, number)| (it.1, number)).collect();
        let of_sample = found.iter().filter_map(|name| numbers.get(name).copied()).collect();
        Ok((names.iter().map(|it| it.1.to_owned()).collect(), of_sample))
    }

    /// Groups the samples by subset, which is their split, as [`CaptionPairOutcomes::groups`] does.
    ///
    /// Data with none of the `published` subsets are accepted as the user's own data. Otherwise the data must have all
    /// published subsets and no others; with [`Options::partial`](super::Options::partial) some may be absent.
    ///
    /// # Errors
    /// A published subset is missing, or published and unknown subsets are mixed.
    pub(super) fn subsets(
        &self,
        context: &Context<'_>,
        benchmark: &'static str,
        published: &[&str],
    ) -> Result<(Vec<String>, Vec<u32>)> {
        let (names, of_sample) =
            self.groups(benchmark, "the split (its subset)", published, |it| it.split.as_deref())?;
        let (known, unknown): (Vec<&str>, Vec<&str>) =
            names.iter().map(String::as_str).partition(|name| published.contains(name));
        if known.is_empty() {
            return Ok((names, of_sample));
        }
        if let Some(first) = unknown.first() {
            return Err(Error::Invalid {
                name: format!("{benchmark}: a subset"),
                found: format!("`{first}`"),
                expected: published.join(", "),
            });
        }
        let absent: Vec<&str> = published.iter().copied().filter(|name| !known.contains(name)).collect();
        if !absent.is_empty() && !context.options.partial {
            return Err(Error::Missing {
                benchmark,
                missing: format!(
                    "every sample of {} of {} subsets ({})",
                    absent.len(),
                    published.len(),
                    absent.join(", ")
                ),
                expected: "use --partial to take the mean over the other subsets; the records then say so".into(),
            });
        }
        if !absent.is_empty() {
            context.leaves_out(format!("{} of {} subsets", known.len(), published.len()));
        }
        Ok((names, of_sample))
    }
}

/// The best answer that ignores the photo: a guess, always the longer caption, or always the shorter caption.
fn text_baseline(longer: f64) -> Option<Baseline> {
    if longer > 0.5 {
        Baseline::named("the longer caption (characters)", longer)
    } else if longer < 0.5 {
        Baseline::named("the shorter caption (characters)", 1.0 - longer)
    } else {
        Baseline::chance(0.5)
    }
}

/// The correct and the wrong caption of a sample.
fn pair<'a>(benchmark: &'static str, sample: &'a Sample) -> Result<(&'a str, &'a str)> {
    match (&sample.captions[..], &sample.wrong[..]) {
        // A tie counts as wrong, so no model could be right on this item.
        ([right], [wrong]) if right == wrong => Err(Error::Invalid {
            name: format!("{benchmark}: wrong caption of sample `{}`", sample.id),
            found: format!("{wrong:?}, the same text as the right caption"),
            expected: "a different text".into(),
        }),
        ([right], [wrong]) => Ok((right, wrong)),
        ([], _) => Err(lacking(benchmark, sample, "the caption", "each sample needs one, and a wrong one")),
        (_, []) => Err(lacking(benchmark, sample, "the wrong caption", "each sample needs one")),
        (right, wrong) => Err(Error::Invalid {
            name: format!("{benchmark}: captions of sample `{}`", sample.id),
            found: format!("{} right and {} wrong", right.len(), wrong.len()),
            expected: "one of each".into(),
        }),
    }
}

/// Identity of a photo.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum PhotoKey<'a> {
    File(&'a Path),
    /// Photos in memory are not compared, so each sample has a separate key.
    Sample(usize),
}

fn keys(photos: &[ImageRef]) -> Vec<PhotoKey<'_>> {
    fn key((number, photo): (usize, &ImageRef)) -> PhotoKey<'_> {
        match photo {
            ImageRef::File(path) => PhotoKey::File(path),
            _ => PhotoKey::Sample(number),
        }
    }
    photos.iter().enumerate().map(key).collect()
}

/// Index of the photo of each sample. Samples with the same photo file get the same index.
fn photo_numbers(photos: &[ImageRef]) -> Vec<u32> {
    distinct(&keys(photos)).1.into_iter().map(|number| number as u32).collect()
}

/// Embeds whole photos: each distinct file once, and each photo in memory. Returns the points and the index of the
/// point of each sample.
fn whole(context: &Context<'_>, benchmark: &'static str, samples: &[Sample]) -> Result<(Vec<f32>, Vec<usize>)> {
    let photos = images(benchmark, samples)?;
    let keys = keys(&photos);
    let (distinct_keys, photo_of) = distinct(&keys);
    let first: HashMap<PhotoKey<'_>, &ImageRef> = keys.iter().copied().zip(&photos).rev().collect();
    let once: Vec<ImageRef> = distinct_keys.iter().filter_map(|key| first.get(key).map(|&it| it.clone())).collect();
    Ok((context.embedder.images(&once, context.options.crop)?, photo_of))
}

/// Embeds the first box of each sample.
fn boxes(context: &Context<'_>, benchmark: &'static str, samples: &[Sample]) -> Result<Vec<f32>> {
    let photos = images(benchmark, samples)?;
    let cut = |(sample, photo): (&Sample, &ImageRef)| {
        let bbox = sample.phrases.iter().flat_map(|phrase| &phrase.boxes).next();
        let bbox = bbox.ok_or_else(|| lacking(benchmark, sample, "the phrase with a box", "each sample needs one"))?;
        let picture = open(benchmark, photo, photos.len())?;
        Ok(ImageRef::Pixels(Arc::new(crop_box(&picture, bbox))))
    };
    let mut points = Vec::new();
    for (samples, photos) in samples.chunks(CROPS).zip(photos.chunks(CROPS)) {
        let crops = samples.par_iter().zip(photos).map(cut).collect::<Result<Vec<_>>>()?;
        points.extend(context.embedder.images(&crops, context.options.crop)?);
    }
    Ok(points)
}

/// Distinct items in order of first occurrence, and for each item the index of its distinct item.
fn distinct<T: Copy + Eq + Hash>(items: &[T]) -> (Vec<T>, Vec<usize>) {
    let mut numbers = HashMap::new();
    let mut once = Vec::new();
    let of = items.iter().map(|&item| {
        *numbers.entry(item).or_insert_with(|| {
            once.push(item);
            once.len() - 1
        })
    });
    let of = of.collect();
    (once, of)
}
