use std::cmp::Ordering;
use std::collections::HashSet;
use std::sync::Arc;

use conifer_data::parts::PartRule;
use conifer_data::transform::crop_pixels;
use conifer_data::{ImageRef, Sample};
use conifer_space::slices::dot;
use conifer_space::{Root, Space, space};
use rayon::prelude::*;

use super::{Benchmark, Context, Input, images, open};
use crate::record::{Baseline, Place, Record};
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
#[derive(Clone, Copy)]
enum Direction {
    /// A photo asks for boxes.
    Down,
    /// A box asks for photos.
    Up,
}

/// A candidate as a query sees it.
#[derive(Clone, Copy)]
struct Seen {
    cosine: f32,
    /// Radians; pi says "part of the query" (down) or "whole of the query" (up).
    angle: f32,
    right: bool,
    /// Whether it is of the query's own photo.
    own: bool,
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
        let gate = context.options.gate as f32;
        let protocols = RANKINGS.map(|ranking| [false, true].map(|other_photos| Asked { ranking, other_photos, gate }));
        let protocols = protocols.as_flattened();
        let mut records = Vec::new();
        for direction in [Direction::Up, Direction::Down] {
            for (asked, found) in protocols.iter().zip(things.ask(space.as_ref(), &root, direction, protocols)) {
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
                    let (protocol, metric) = (asked.protocol(), format!("same class, top {k}"));
                    let place =
                        Place { benchmark: self.name(), split: direction.name(), protocol: &protocol, metric: &metric };
                    records.push(Record::of(place, values, Baseline::chance(chance), context.options.seed));
                }
            }
        }
        Ok(records)
    }
}

/// How candidates are ranked, and which there are.
struct Asked {
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

impl Asked {
    /// What a query gets; nothing where no candidate is left.
    fn answer(&self, seen: &[Seen]) -> Option<Found> {
        let mut seen: Vec<&Seen> = seen.iter().filter(|it| !(self.other_photos && it.own)).collect();
        let most = TOP[TOP.len() - 1].min(seen.len());
        if most == 0 {
            return None;
        }
        let right = |seen: &[&Seen]| seen.iter().filter(|it| it.right).count() as f64 / seen.len() as f64;
        let chance = right(&seen);
        // Equal ranks: the wrong one first, so that a model to which everything looks the same gains nothing.
        let order = |a: &&Seen, b: &&Seen| self.order(a, b).then(a.right.cmp(&b.right));
        seen.select_nth_unstable_by(most - 1, order);
        seen.truncate(most);
        seen.sort_by(order);
        Some(Found { shares: TOP.map(|k| right(&seen[..k.min(most)])), chance })
    }
}

impl Things {
    /// For each of the protocols what every query gets. A query looks at each candidate once.
    fn ask(&self, space: &dyn Space<f32>, root: &Root, direction: Direction, protocols: &[Asked]) -> Vec<Vec<Found>> {
        let dim = space.spec().dim;
        let (queries, candidates) = match direction {
            Direction::Down => (&self.photos, &self.boxes),
            Direction::Up => (&self.boxes, &self.photos),
        };
        let see = |query: usize, point: &[f32], candidate: usize, row: &[f32]| {
            let (photo, boxed) = match direction {
                Direction::Down => (query, candidate),
                Direction::Up => (candidate, query),
            };
            let angle = space.exterior_angle(point, row, root);
            Seen {
                cosine: cosine(point, row),
                angle: if matches!(direction, Direction::Down) { std::f32::consts::PI - angle } else { angle },
                right: self.classes[photo].contains(&self.class_of[boxed]),
                own: self.photo_of[boxed] == photo,
            }
        };
        let one = |(query, point): (usize, &[f32])| {
            let rows = candidates.chunks_exact(dim).enumerate();
            let seen: Vec<Seen> = rows.map(|(candidate, row)| see(query, point, candidate, row)).collect();
            protocols.iter().map(|asked| asked.answer(&seen)).collect::<Vec<_>>()
        };
        let answers: Vec<_> = queries.par_chunks_exact(dim).enumerate().map(one).collect();
        let mut found: Vec<Vec<Found>> = protocols.iter().map(|_| Vec::new()).collect();
        for answer in answers {
            found.iter_mut().zip(answer).for_each(|(found, one)| found.extend(one));
        }
        found
    }
}

fn cosine(x: &[f32], y: &[f32]) -> f32 {
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
        let picture = open(benchmark, &photos[photo], samples.len())?;
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
