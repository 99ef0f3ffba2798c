//! What the compositional benchmarks share: a photo, a right caption, a wrong one.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;
use std::path::Path;
use std::sync::Arc;

use conifer_data::transform::{EvalCrop, crop_box};
use conifer_data::{ImageRef, Sample};
use conifer_space::space;
use rayon::prelude::*;

use super::{Context, images, lacking, open};
use crate::record::{Baseline, Place, Record};
use crate::{Error, Outcomes, Result, Score};

/// What a model, and someone who only reads, say of each item. The items are the samples, in order.
pub(super) struct Contrasts {
    pub(super) samples: Vec<Sample>,
    /// 1 where the right caption has the higher score. A tie is wrong, as in the released evaluators.
    pub(super) right: Vec<f64>,
    /// 1 where the right caption is the longer one, in characters; 1/2 where both are equally long, which is a guess.
    longer: Vec<f64>,
    /// The photo of each item: items of one photo hang together.
    photo_of: Vec<u32>,
    /// Score and crop, for the protocol.
    pub(super) protocol: String,
}

/// What stands for the photo.
#[derive(Clone, Copy)]
pub(super) enum Shown {
    /// All of it.
    Whole,
    /// The first box of its phrases.
    FirstBox,
}

/// Cut-out boxes held in memory at a time.
const CROPS: usize = 256;

impl Contrasts {
    /// Compares `score(photo, right caption)` with `score(photo, wrong caption)` for every sample.
    ///
    /// # Errors
    /// A sample without a photo, a caption or a wrong caption, or with several; a score that is not a number.
    pub(super) fn measure(context: &Context<'_>, benchmark: &'static str, shown: Shown) -> Result<Self> {
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
        // Thousands of items share photos and texts: each is embedded once.
        let (texts, text_of) = distinct(&captions);
        let texts = embedder.texts(&texts.into_iter().map(str::to_owned).collect::<Vec<_>>())?;
        let (photos, photo_of) = match shown {
            Shown::Whole => whole(context, benchmark, &samples)?,
            Shown::FirstBox => (boxes(context, benchmark, &samples)?, (0..samples.len()).collect()),
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
        let answers = photo_of.iter().zip(text_of.chunks_exact(2)).map(|(&photo, texts)| {
            let (right, wrong) = (scored(photo, texts[0]), scored(photo, texts[1]));
            if right.is_nan() || wrong.is_nan() {
                return Err(Error::Embedder("a score is not a number".into()));
            }
            Ok(f64::from(u8::from(right > wrong)))
        });
        let right = answers.collect::<Result<Vec<_>>>()?;
        let crop = match context.options.crop {
            EvalCrop::Center => "crop center",
            EvalCrop::Squeeze => "crop squeeze",
        };
        let photo_of = match shown {
            Shown::Whole => photo_of.iter().map(|&photo| photo as u32).collect(),
            Shown::FirstBox => photo_numbers(&images(benchmark, &samples)?),
        };
        Ok(Self { samples, right, longer, photo_of, protocol: format!("{}, {crop}", score.name()) })
    }

    /// The record of a mean over some of the items, given by number.
    pub(super) fn mean(&self, place: Place<'_>, items: &[usize], seed: u64) -> Record {
        self.record(place, items, seed, |values| Outcomes::Mean { values })
    }

    /// The record of a mean over groups of some of the items; an item has a group, a number per group from 0.
    pub(super) fn mean_of_groups(&self, place: Place<'_>, items: &[usize], groups: &[u32], seed: u64) -> Record {
        let groups: Vec<u32> = items.iter().map(|&item| groups[item]).collect();
        self.record(place, items, seed, |values| Outcomes::MeanOfGroups { values, groups: groups.clone() })
    }

    fn record(&self, place: Place<'_>, items: &[usize], seed: u64, of: impl Fn(Vec<f64>) -> Outcomes) -> Record {
        let pick = |values: &[f64]| of(items.iter().map(|&item| values[item]).collect());
        let baseline = reader(pick(&self.longer).value());
        let photos = items.iter().map(|&item| self.photo_of[item]).collect();
        Record::clustered(place, pick(&self.right), photos, baseline, seed)
    }

    /// The name of something of each sample and, for each sample, its number among these names. The `order` comes first,
    /// the rest follows by name.
    ///
    /// # Errors
    /// A sample has none.
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
        let place = |name: &str| order.iter().position(|it| *it == name).unwrap_or(order.len());
        let names: BTreeSet<(usize, &str)> = found.iter().map(|name| (place(name), *name)).collect();
        let numbers: BTreeMap<&str, u32> = names.iter().zip(0..).map(|(it, number)| (it.1, number)).collect();
        let of_sample = found.iter().filter_map(|name| numbers.get(name).copied()).collect();
        Ok((names.iter().map(|it| it.1.to_owned()).collect(), of_sample))
    }

    /// The subsets (splits) of the samples, as [`Contrasts::groups`]. Either all those `published`, or others altogether: data
    /// of one's own. Published ones may be absent where the context allows a partial measurement.
    ///
    /// # Errors
    /// A published subset is missing, or stands beside an unknown one.
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
            return Err(Error::Argument {
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
                expected: "with --partial the mean is over the others, and the records say so".into(),
            });
        }
        if !absent.is_empty() {
            context.leaves_out(format!("{} of {} subsets", known.len(), published.len()));
        }
        Ok((names, of_sample))
    }
}

/// The best of the answers for which no photo is needed: guessing, always the longer caption, always the shorter one.
fn reader(longer: f64) -> Option<Baseline> {
    if longer > 0.5 {
        Baseline::named("the longer caption (characters)", longer)
    } else if longer < 0.5 {
        Baseline::named("the shorter caption (characters)", 1.0 - longer)
    } else {
        Baseline::chance(0.5)
    }
}

/// The two captions of a sample.
fn pair<'a>(benchmark: &'static str, sample: &'a Sample) -> Result<(&'a str, &'a str)> {
    match (&sample.captions[..], &sample.wrong[..]) {
        // By the rule for ties no model can be right about it.
        ([right], [wrong]) if right == wrong => Err(Error::Argument {
            name: format!("{benchmark}: wrong caption of sample `{}`", sample.id),
            found: format!("{wrong:?}, the right one"),
            expected: "another text".into(),
        }),
        ([right], [wrong]) => Ok((right, wrong)),
        ([], _) => Err(lacking(benchmark, sample, "the caption", "each sample needs one, and a wrong one")),
        (_, []) => Err(lacking(benchmark, sample, "the wrong caption", "each sample needs one")),
        (right, wrong) => Err(Error::Argument {
            name: format!("{benchmark}: captions of sample `{}`", sample.id),
            found: format!("{} right and {} wrong", right.len(), wrong.len()),
            expected: "one of each".into(),
        }),
    }
}

/// What tells photos apart.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Key<'a> {
    File(&'a Path),
    /// A photo in memory is taken as it is.
    Sample(usize),
}

fn keys(photos: &[ImageRef]) -> Vec<Key<'_>> {
    fn key((number, photo): (usize, &ImageRef)) -> Key<'_> {
        match photo {
            ImageRef::File(path) => Key::File(path),
            _ => Key::Sample(number),
        }
    }
    photos.iter().enumerate().map(key).collect()
}

/// A number for each photo, the same for the same photo.
fn photo_numbers(photos: &[ImageRef]) -> Vec<u32> {
    distinct(&keys(photos)).1.into_iter().map(|number| number as u32).collect()
}

/// Points of the whole photos, and the number of the point of each sample.
fn whole(context: &Context<'_>, benchmark: &'static str, samples: &[Sample]) -> Result<(Vec<f32>, Vec<usize>)> {
    let photos = images(benchmark, samples)?;
    let keys = keys(&photos);
    let (distinct_keys, photo_of) = distinct(&keys);
    let first: HashMap<Key<'_>, &ImageRef> = keys.iter().copied().zip(&photos).rev().collect();
    let once: Vec<ImageRef> = distinct_keys.iter().filter_map(|key| first.get(key).map(|&it| it.clone())).collect();
    Ok((context.embedder.images(&once, context.options.crop)?, photo_of))
}

/// Points of the first box of each photo.
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

/// Each item once, in the order of first sight, and the number of each item among them.
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
