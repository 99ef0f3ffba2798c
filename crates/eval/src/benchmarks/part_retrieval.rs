use std::cmp::Ordering;
use std::collections::HashSet;
use std::sync::Arc;

use conifer_data::parts::PartRule;
use conifer_data::transform::crop_pixels;
use conifer_data::{ImageRef, PixelLimits, Sample};
use conifer_space::{Root, Space, space};
use rayon::prelude::*;

use super::{Benchmark, Context, Input, images};
use crate::metrics::bootstrap_mean;
use crate::record::{Baseline, Record};
use crate::{Error, Result};

/// Boxes find photos with a thing of their class, photos find boxes of a class that is in them (Wang et al., Table 1).
///
/// The number is the share of right answers among the first k, mean over queries; all photos, or all boxes of at least 1 % of their
/// photo, are candidates, with the query's own photo and without it. Three rankings: the cosine of the coordinates; the angle, at the
/// whole seen from the root for parts, at the part for wholes; and the paper's *gated* angle, where the candidates whose angle says
/// "part" (or "whole") by at least `gate` come first, by cosine, and the rest by their angle.
pub(super) struct PartRetrieval;

const TOP: [usize; 2] = [5, 10];
const RANKINGS: [Ranking; 3] = [Ranking::Cosine, Ranking::Angle, Ranking::Gated];

#[derive(Clone, Copy)]
enum Ranking {
    Cosine,
    Angle,
    Gated,
}

/// Who asks for whom.
#[derive(Clone, Copy, PartialEq)]
enum Direction {
    /// A photo asks for boxes.
    Down,
    /// A box asks for photos.
    Up,
}

/// A candidate as a query sees it.
struct Seen {
    cosine: f32,
    /// Radians; pi says "part of the query" (down) or "whole of the query" (up).
    angle: f32,
}

/// What is embedded: photos with the classes in them, boxes with their class and photo.
struct Things {
    photos: Vec<f32>,
    boxes: Vec<f32>,
    classes: Vec<HashSet<String>>,
    class_of: Vec<String>,
    photo_of: Vec<usize>,
}

impl Benchmark for PartRetrieval {
    fn name(&self) -> &'static str {
        "part_retrieval"
    }
    fn summary(&self) -> &'static str {
        "share of right classes among the first 5 and 10: box to photo and photo to box, by cosine, angle and gated angle"
    }
    fn reference(&self) -> &'static str {
        "visual hierarchies (Wang et al.) Tables 1 and 3"
    }
    fn needs(&self) -> &'static [Input] {
        &[Input::Images, Input::Phrases]
    }

    fn run(&self, context: &Context<'_>) -> Result<Vec<Record>> {
        let things = embed(self.name(), context)?;
        let space = space::<f32>(context.embedder.spec())?;
        let root = context.embedder.root()?;
        let mut records = Vec::new();
        for direction in [Direction::Up, Direction::Down] {
            for ranking in RANKINGS {
                for other_photos in [false, true] {
                    let asked = Asked { direction, ranking, other_photos, gate: context.options.gate as f32 };
                    let found = things.shares(space.as_ref(), &root, &asked);
                    if found.is_empty() {
                        return Err(Error::Missing {
                            benchmark: self.name(),
                            missing: "every candidate of another photo".into(),
                            expected: "two photos with boxes".into(),
                        });
                    }
                    for (column, k) in TOP.into_iter().enumerate() {
                        let values: Vec<f64> = found.iter().map(|it| it.shares[column]).collect();
                        let chance = found.iter().map(|it| it.chance).sum::<f64>() / found.len() as f64;
                        records.push(Record {
                            benchmark: self.name().into(),
                            split: direction.name().into(),
                            protocol: asked.protocol(),
                            metric: format!("same class, top {k}"),
                            value: values.iter().sum::<f64>() / values.len() as f64,
                            interval: bootstrap_mean(&values, context.options.seed),
                            n: values.len(),
                            baseline: Baseline::chance(chance),
                        });
                    }
                }
            }
        }
        Ok(records)
    }
}

/// One row of the table.
struct Asked {
    direction: Direction,
    ranking: Ranking,
    other_photos: bool,
    gate: f32,
}

/// What one query got.
struct Found {
    /// For each k of [`TOP`].
    shares: [f64; TOP.len()],
    /// Share of right candidates among all.
    chance: f64,
}

impl Direction {
    fn name(self) -> &'static str {
        match self {
            Self::Down => "photo_to_box",
            Self::Up => "box_to_photo",
        }
    }
}

impl Asked {
    fn protocol(&self) -> String {
        let ranking = match self.ranking {
            Ranking::Cosine => "cosine".to_owned(),
            Ranking::Angle => "angle".to_owned(),
            Ranking::Gated => format!("gated angle {}", self.gate),
        };
        if self.other_photos { format!("{ranking}, other photos") } else { ranking }
    }

    fn order(&self, a: &Seen, b: &Seen) -> Ordering {
        let by_cosine = b.cosine.total_cmp(&a.cosine);
        let by_angle = b.angle.total_cmp(&a.angle);
        match self.ranking {
            Ranking::Cosine => by_cosine,
            Ranking::Angle => by_angle,
            Ranking::Gated => match (a.angle >= self.gate, b.angle >= self.gate) {
                (true, true) => by_cosine,
                (false, false) => by_angle,
                (a, b) => b.cmp(&a),
            },
        }
    }
}

impl Things {
    fn shares(&self, space: &dyn Space<f32>, root: &Root, asked: &Asked) -> Vec<Found> {
        let dim = space.spec().dim;
        let (queries, candidates) = match asked.direction {
            Direction::Down => (&self.photos, &self.boxes),
            Direction::Up => (&self.boxes, &self.photos),
        };
        let one = |(query, point): (usize, &[f32])| {
            let right = |candidate: usize| match asked.direction {
                Direction::Down => self.classes[query].contains(&self.class_of[candidate]),
                Direction::Up => self.classes[candidate].contains(&self.class_of[query]),
            };
            let own = |candidate: usize| match asked.direction {
                Direction::Down => self.photo_of[candidate] == query,
                Direction::Up => self.photo_of[query] == candidate,
            };
            let mut seen: Vec<(Seen, bool)> = candidates
                .chunks_exact(dim)
                .enumerate()
                .filter(|&(candidate, _)| !(asked.other_photos && own(candidate)))
                .map(|(candidate, row)| {
                    let angle = match asked.direction {
                        Direction::Down => std::f32::consts::PI - space.exterior_angle(point, row, root),
                        Direction::Up => space.exterior_angle(point, row, root),
                    };
                    (Seen { cosine: cosine(point, row), angle }, right(candidate))
                })
                .collect();
            let most = TOP[TOP.len() - 1].min(seen.len());
            if most == 0 {
                return None;
            }
            let chance = seen.iter().filter(|(_, right)| *right).count() as f64 / seen.len() as f64;
            // Equal ranks: the wrong one first, so that a model to which everything looks the same gains nothing.
            let order = |a: &(Seen, bool), b: &(Seen, bool)| asked.order(&a.0, &b.0).then(a.1.cmp(&b.1));
            seen.select_nth_unstable_by(most - 1, order);
            seen.truncate(most);
            seen.sort_by(order);
            let shares = TOP.map(|k| {
                let k = k.min(most);
                seen[..k].iter().filter(|(_, right)| *right).count() as f64 / k as f64
            });
            Some(Found { shares, chance })
        };
        queries.par_chunks_exact(dim).enumerate().filter_map(one).collect()
    }
}

fn cosine(x: &[f32], y: &[f32]) -> f32 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    let norms = (dot(x, x) * dot(y, y)).sqrt();
    if norms > 0.0 { dot(x, y) / norms } else { 0.0 }
}

fn embed(benchmark: &'static str, context: &Context<'_>) -> Result<Things> {
    let rule = PartRule::default();
    let kept = |sample: &Sample| sample.phrases.iter().any(|it| it.boxes.iter().any(|bbox| rule.keeps(bbox)));
    let samples: Vec<Sample> = context.samples(benchmark)?.into_iter().filter(kept).collect();
    if samples.is_empty() {
        return Err(Error::Missing {
            benchmark,
            missing: "every phrase with a box".into(),
            expected: format!("boxes of at least {} of their photo", rule.min_area),
        });
    }
    let photos = images(benchmark, &samples)?;
    let (mut crops, mut class_of, mut photo_of) = (Vec::new(), Vec::new(), Vec::new());
    for (photo, sample) in samples.iter().enumerate() {
        let broken = |it: conifer_data::Broken| Error::Broken {
            benchmark,
            count: 1,
            total: samples.len(),
            first: it.to_string(),
        };
        let picture = photos[photo].open(&PixelLimits::default()).map_err(broken)?;
        for phrase in &sample.phrases {
            for bbox in phrase.boxes.iter().filter(|bbox| rule.keeps(bbox)) {
                let corners = bbox.to_pixels(picture.width, picture.height);
                crops.push(ImageRef::Pixels(Arc::new(crop_pixels(&picture, corners))));
                class_of.push(phrase.text.clone());
                photo_of.push(photo);
            }
        }
    }
    let crop = context.options.crop;
    Ok(Things {
        photos: context.embedder.images(&photos, crop)?,
        boxes: context.embedder.images(&crops, crop)?,
        classes: samples.iter().map(|it| it.phrases.iter().map(|phrase| phrase.text.clone()).collect()).collect(),
        class_of,
        photo_of,
    })
}
