//! Average precision of boxes classified against class prompts (HyCoCLIP, Table 3).
//!
//! The paper reports "AP on the 17 novel categories" with ground-truth boxes as proposals. It does not state which
//! score ranks the boxes, which classes are candidates, or which form of AP is used. All interpretations are recorded,
//! and the protocol names them:
//!
//! * candidates: the 17 novel classes alone; 17 + 48, the generalised setting of the split; or every class of the data.
//!   RegionCLIP's released evaluation with ground-truth boxes uses the generalised setting, and the paper prints
//!   RegionCLIP's number next to its own;
//! * score: the similarity itself, or its softmax over the candidates at logit scale 100, the maximum in the published
//!   models;
//! * detections: each box is ranked for every class, or only for its most similar class;
//! * AP: 101 points (pycocotools) or all points (scikit-learn), where a detection can only match its own box. A third
//!   form has 101 points with pycocotools' matching at IoU 0.5 (AP50), where a detection can match an overlapping box
//!   of another detection. pycocotools' limit of 100 detections per class and photo is not applied.
//!
//! The number is the mean over classes. The interval comes from resampling photos; see [`normal_interval`].

use std::collections::BTreeMap;

use rayon::prelude::*;

use super::novel::{BASE, NOVEL};
use super::{NAME, Proposals};
use crate::benchmarks::zero_shot_classification::{class_points, first_maximum};
use crate::benchmarks::{Context, prompts};
use crate::metrics::{DetectionRanking, bootstrap_counts, iou_matches, normal_interval};
use crate::record::{Baseline, Record};
use crate::score::similarity_rows;
use crate::{Error, Result};

/// Number of bootstrap resamples. 200 are enough to estimate a standard deviation.
const RESAMPLES: usize = 200;
/// Maximum logit scale of CLIP, MERU, HyCoCLIP and PHyCLIP.
const LOGIT_SCALE: f64 = 100.0;
/// Number of classes that are scored in one pass over the boxes. It bounds the memory to boxes x `TILE` scores.
const TILE: usize = 128;
const SCORES: [&str; 2] = ["similarity", "softmax"];
const METRICS: [&str; 3] = ["AP (101 points)", "AP (all points)", "AP50 (101 points, IoU matching)"];

/// Candidate classes and the splits to report. All boxes of the candidate classes are proposals.
struct CandidateClasses {
    candidates: Vec<usize>,
    splits: Vec<(&'static str, Vec<usize>)>,
}

pub(super) fn records(context: &Context<'_>, proposals: &Proposals, note: &str) -> Result<Vec<Record>> {
    let (names, settings) = settings(context, proposals)?;
    let words: Vec<String> = names.iter().map(|name| prompts::words(name)).collect();
    let centres = class_points(context, &words.iter().map(String::as_str).collect::<Vec<_>>())?;
    let mut records = Vec::new();
    for setting in &settings {
        records.extend(setting.measure(context, proposals, &centres, note)?);
    }
    Ok(records)
}

/// Names of all candidates, with the classes of the proposals first, and the settings to measure.
fn settings(context: &Context<'_>, proposals: &Proposals) -> Result<(Vec<String>, Vec<CandidateClasses>)> {
    let mut names = proposals.classes.clone();
    let every: Vec<usize> = (0..names.len()).collect();
    let mut settings = vec![CandidateClasses { candidates: every.clone(), splits: vec![("all classes", every)] }];
    let split = || BASE.into_iter().chain(NOVEL);
    let absent: Vec<&str> = split().filter(|class| !names.iter().any(|name| name == class)).collect();
    let total = BASE.len() + NOVEL.len();
    // Other data may share a few classes with COCO (cat, dog), so more than half of the 65 classes must be present.
    if 2 * absent.len() >= total {
        return Ok((names, settings));
    }
    if let Some(first) = absent.first() {
        let present = total - absent.len();
        if !context.options.partial {
            return Err(Error::Missing {
                benchmark: NAME,
                missing: format!("every box of {} of {total} classes of COCO (first: `{first}`)", absent.len()),
                expected: "expected boxes of all classes of the split (Bansal et al.); with --partial the classes without boxes remain candidates, and the records say so"
                    .into(),
            });
        }
        context.leaves_out(format!("{present} of {total} classes of the split have boxes"));
        names.extend(absent.iter().map(|&it| it.to_owned()));
    }
    let number: BTreeMap<&str, usize> = names.iter().enumerate().map(|(i, name)| (name.as_str(), i)).collect();
    let numbers = |classes: &[&str]| classes.iter().filter_map(|class| number.get(class).copied()).collect::<Vec<_>>();
    let (base, novel) = (numbers(&BASE), numbers(&NOVEL));
    let both = [base.clone(), novel.clone()].concat();
    settings.push(CandidateClasses {
        candidates: both.clone(),
        splits: vec![("novel 17, of 65", novel.clone()), ("base 48, of 65", base), ("all 65", both)],
    });
    settings.push(CandidateClasses { candidates: novel.clone(), splits: vec![("novel 17, of 17", novel)] });
    Ok((names, settings))
}

/// Average precision of a class over all photos, and over each bootstrap resample of the photos.
struct ResampledPrecision {
    value: f64,
    resampled: Vec<f64>,
}

#[derive(Clone, Copy)]
struct DetectionVariant {
    /// Index in [`SCORES`].
    score: usize,
    first_class: bool,
}

/// Average precisions of one class, for each of [`VARIANTS`] and [`METRICS`].
type ClassPrecisions = Vec<[Option<ResampledPrecision>; METRICS.len()]>;

const VARIANTS: [DetectionVariant; 4] = [
    DetectionVariant { score: 0, first_class: false },
    DetectionVariant { score: 1, first_class: false },
    DetectionVariant { score: 0, first_class: true },
    DetectionVariant { score: 1, first_class: true },
];

struct CandidateBoxes<'a> {
    proposals: &'a Proposals,
    /// Indices of the boxes of `proposals` in this setting.
    rows: Vec<usize>,
    /// The most similar candidate of each row.
    first: Vec<usize>,
    counts: &'a [Vec<u8>],
}

impl CandidateClasses {
    fn measure(
        &self,
        context: &Context<'_>,
        proposals: &Proposals,
        centres: &[f32],
        note: &str,
    ) -> Result<Vec<Record>> {
        let is_candidate: Vec<bool> = {
            let mut is_candidate = vec![false; centres.len() / context.embedder.spec().dim];
            self.candidates.iter().for_each(|&class| is_candidate[class] = true);
            is_candidate
        };
        let rows: Vec<usize> = (0..proposals.labels.len()).filter(|&i| is_candidate[proposals.labels[i]]).collect();
        let photos = proposals.boxes.photo_of.last().map_or(0, |&last| last + 1);
        let counts = bootstrap_counts(photos, RESAMPLES, context.options.seed);
        let precisions = self.precisions(context, proposals, centres, rows, &counts)?;
        Ok(self.report(context, proposals, &precisions, note))
    }

    fn precisions(
        &self,
        context: &Context<'_>,
        proposals: &Proposals,
        centres: &[f32],
        rows: Vec<usize>,
        counts: &[Vec<u8>],
    ) -> Result<Vec<ClassPrecisions>> {
        let spec = context.embedder.spec();
        let centre = |&class: &usize| &centres[class * spec.dim..(class + 1) * spec.dim];
        let candidates: Vec<f32> = self.candidates.iter().flat_map(centre).copied().collect();
        let points = proposals.points(&rows, spec.dim);
        let mut boxes = CandidateBoxes { proposals, rows, first: Vec::new(), counts };
        let mut precisions = Vec::with_capacity(self.candidates.len());
        for tile in (0..self.candidates.len()).collect::<Vec<_>>().chunks(TILE) {
            let scored = similarity_rows(spec, context.options.score, &points, &candidates, |_, scores| {
                let logits = || scores.iter().map(|&it| LOGIT_SCALE * f64::from(it));
                let largest = logits().fold(f64::NEG_INFINITY, f64::max);
                let rest = logits().map(|it| (it - largest).exp()).sum::<f64>().ln();
                let one = |&class: &usize| {
                    let logit = LOGIT_SCALE * f64::from(scores[class]);
                    [scores[class], (logit - largest - rest) as f32]
                };
                let first = first_maximum(scores);
                (first, tile.iter().map(one).collect::<Vec<_>>())
            })?;
            if scored.iter().any(|(_, scores)| scores.as_flattened().iter().any(|it| it.is_nan())) {
                return Err(Error::Embedder("a score is not a number".into()));
            }
            boxes.first = scored.iter().map(|it| it.0).collect();
            let class = |(column, &candidate): (usize, &usize)| {
                let score = |variant: DetectionVariant, row: usize| scored[row].1[column][variant.score];
                boxes.precisions(candidate, self.candidates[candidate], score)
            };
            precisions.extend(tile.par_iter().enumerate().map(class).collect::<Vec<_>>());
        }
        Ok(precisions)
    }

    fn report(
        &self,
        context: &Context<'_>,
        proposals: &Proposals,
        precisions: &[ClassPrecisions],
        note: &str,
    ) -> Vec<Record> {
        let position: BTreeMap<usize, usize> =
            self.candidates.iter().enumerate().map(|(i, &class)| (class, i)).collect();
        let mut sizes: BTreeMap<usize, usize> = BTreeMap::new();
        let labels = proposals.labels.iter().filter(|label| position.contains_key(label));
        labels.for_each(|&label| *sizes.entry(label).or_default() += 1);
        let total: usize = sizes.values().sum();
        let mut records = Vec::new();
        for (split, classes) in &self.splits {
            let present: Vec<usize> = classes.iter().copied().filter(|class| sizes.contains_key(class)).collect();
            let mean = |sum: f64| sum / present.len() as f64;
            let share = |class: &usize| sizes[class] as f64 / total as f64;
            // The trivial baseline gives every box the most frequent class; of equally frequent classes the first.
            let usual = sizes.iter().rev().max_by_key(|it| it.1).map(|it| *it.0);
            for (number, variant) in VARIANTS.iter().enumerate() {
                for (column, metric) in METRICS.iter().enumerate() {
                    let of_class = |class: &usize| precisions[position[class]][number][column].as_ref();
                    let found: Vec<&ResampledPrecision> = present.iter().filter_map(of_class).collect();
                    if found.is_empty() {
                        continue;
                    }
                    let value = mean(found.iter().map(|it| it.value).sum());
                    let resampled = (0..RESAMPLES).map(|draw| {
                        // A class without a box in this resample has no average precision and is left out of the mean.
                        let values = found.iter().filter_map(|it| it.resampled.get(draw)).filter(|it| it.is_finite());
                        let values: Vec<f64> = values.copied().collect();
                        values.iter().sum::<f64>() / values.len() as f64
                    });
                    let baseline = if variant.first_class {
                        let usual = present.iter().filter(|class| Some(**class) == usual).map(share).sum();
                        Baseline::named("the most frequent class", mean(usual))
                    } else {
                        Baseline::named("share of boxes", mean(present.iter().map(share).sum()))
                    };
                    records.push(Record {
                        benchmark: NAME.into(),
                        split: (*split).into(),
                        protocol: variant.protocol(context, note),
                        metric: (*metric).into(),
                        value,
                        interval: normal_interval(value, resampled),
                        n: total,
                        baseline,
                        outcomes: None,
                        clusters: None,
                    });
                }
            }
        }
        records
    }
}

impl DetectionVariant {
    fn protocol(&self, context: &Context<'_>, note: &str) -> String {
        let prompts = context.options.templates.len();
        let detections = if self.first_class { "top-1 class" } else { "every class" };
        let score = context.options.score.name();
        let score = match SCORES[self.score] {
            "softmax" => format!("softmax of {LOGIT_SCALE} x {score}"),
            _ => score.to_owned(),
        };
        format!("{prompts} prompts, {detections} per box, {score}{note}")
    }
}

impl CandidateBoxes<'_> {
    /// Average precisions of one class for each variant and metric. Variants that keep only the best class of a box
    /// have no IoU matching.
    fn precisions(
        &self,
        candidate: usize,
        class: usize,
        score: impl Fn(DetectionVariant, usize) -> f32,
    ) -> ClassPrecisions {
        let label = |i: usize| self.proposals.labels[self.rows[i]];
        let photo = |i: usize| self.proposals.boxes.photo_of[self.rows[i]];
        let mut found = vec![0.0; RESAMPLES + 1];
        for truth in (0..self.rows.len()).filter(|&i| label(i) == class) {
            found[0] += 1.0;
            let draws = found[1..].iter_mut().zip(self.counts);
            draws.for_each(|(sum, counts)| *sum += f64::from(counts[photo(truth)]));
        }
        let of = |ranking: DetectionRanking| {
            let all = ranking.average_precision(found[0], |_| 1.0);
            let draws = found[1..].iter().zip(self.counts);
            let draws: Vec<[f64; 2]> = draws
                .map(|(&positives, counts)| {
                    ranking.average_precision(positives, |photo| f64::from(counts[photo as usize]))
                })
                .collect();
            [1, 0].map(|form| ResampledPrecision {
                value: all[form],
                resampled: draws.iter().map(|it| it[form]).collect(),
            })
        };
        let variant = |variant: DetectionVariant| {
            let present = (0..self.rows.len()).filter(|&i| !variant.first_class || self.first[i] == candidate);
            let present: Vec<usize> = present.collect();
            let detection = |&i: &usize| (photo(i) as u32, score(variant, i), label(i) == class);
            let [points, steps] = of(DetectionRanking::new(present.iter().map(detection)));
            let matched = (!variant.first_class).then(|| {
                let right = self.matched(class, |i| score(variant, i));
                let detections =
                    present.iter().zip(right).map(|(&i, right)| (photo(i) as u32, score(variant, i), right));
                let [points, _] = of(DetectionRanking::new(detections));
                points
            });
            [Some(points), Some(steps), matched]
        };
        VARIANTS.map(variant).into()
    }

    /// For each box as a detection of `class`: whether it is matched to a box of the class. Detections with higher
    /// scores are matched first.
    fn matched(&self, class: usize, score: impl Fn(usize) -> f32) -> Vec<bool> {
        let Proposals { boxes, labels, .. } = self.proposals;
        let mut right = Vec::with_capacity(self.rows.len());
        let mut at = 0;
        for rows in self.rows.chunk_by(|&a, &b| boxes.photo_of[a] == boxes.photo_of[b]) {
            let truth = rows.iter().filter(|&&row| labels[row] == class).map(|&row| boxes.bboxes[row]);
            let truth: Vec<_> = truth.collect();
            if truth.is_empty() {
                right.extend(rows.iter().map(|_| false));
            } else {
                let found: Vec<_> =
                    rows.iter().enumerate().map(|(i, &row)| (score(at + i), boxes.bboxes[row])).collect();
                right.extend(iou_matches(&found, &truth, 0.5));
            }
            at += rows.len();
        }
        right
    }
}
