mod hierarchy;
mod labels;
mod queries;
mod ranking;
mod same_class;

use std::collections::HashSet;
use std::sync::Mutex;

use conifer_data::{PartRule, Sample};
use conifer_geometry::slices::dot;
use conifer_geometry::{Root, Space, space};
use rayon::prelude::*;

use super::boxes::embed_boxes;
use super::{Benchmark, Context, RequiredInput, images};
use crate::metrics::ThresholdCurveSums;
use crate::record::{Baseline, Record, RecordKey};
use crate::{Error, PrecisionRecallCurve, Result};
use hierarchy::{HierarchicalRecall, ThresholdPrecision, ThresholdScore};
use labels::LabelNumbers;
use queries::PartQueries;
use ranking::{RankingCriterion, RankingProtocol, ScoredCandidate};
use same_class::SameClassPrecision;

/// Part retrieval: boxes retrieve photos that contain their class, and photos retrieve boxes whose class or one of its
/// ancestors is in the photo (Wang et al., Tables 1 to 3, Fig. 4).
///
/// The candidates are all photos with a box of at least 1 % of their area, or all such boxes. Every ranking is measured
/// twice: with all candidates, and without those of the query's own photo ("other photos"). The rankings are:
///
/// * the cosine of the coordinates;
/// * the distance of the space, the paper's "Hyp Dist" for HCL;
/// * the exterior angle seen from the root: at the whole if parts are retrieved, at the part if wholes are retrieved;
/// * the paper's *gated* angle: candidates whose angle reaches a gate come first, ordered by cosine, and the others
///   follow, ordered by angle. Published gates (App. B.2) are 2.5 for CLIP and 2.0 for MoCo at small k, and 1.0 at
///   large k. `Options::gate` is measured too.
///
/// The metrics are:
///
/// * `same_class`: fraction of correct answers among the first 5 to 100, averaged over queries, in both directions.
/// * `hierarchy`: photos retrieve boxes of their labels and of the descendants, and boxes retrieve photos that contain
///   their label or an ancestor of it (App. A): recall at large k, and precision and recall over thresholds. From photo
///   to box, the label distribution at large k is measured as well. From box to photo it is undefined, because a
///   retrieved photo has several labels. The paper reports numbers only from photo to box. Descendants are taken from
///   [`Context::graph`], an is-a or part-of graph of the phrases (`conifer data parts` builds one from boxes, App. A).
///   Without it, or with a graph of unrelated labels, no label has descendants, and the protocol says so.
/// * `photos`: the mean number of classes in a photo, without and with their descendants (the paper counts 5.29 and
///   61.5, App. B.2).
pub(super) struct PartRetrieval;

const NAME: &str = "part_retrieval";
/// Gates for small k in radians, of CLIP and of MoCo.
const GATES: [f64; 2] = [2.5, 2.0];
/// Gate for large k, radians.
const LARGE_GATE: f64 = 1.0;

/// Direction of the retrieval.
#[derive(Clone, Copy)]
enum RetrievalDirection {
    /// Photos retrieve boxes.
    Down,
    /// Boxes retrieve photos.
    Up,
}

/// A set of metrics that are computed from the candidates of one query.
trait RetrievalMetrics: Sync {
    fn protocol(&self) -> String;
    /// Name of each metric and of its baseline.
    fn metrics(&self) -> Vec<(String, &'static str)>;
    /// Value and baseline of each metric, or `None` if the metric is undefined for this query.
    ///
    /// `below` holds the labels in the query photo and their descendants, in class order. It is empty for box queries.
    fn values(&self, below: &[u32], scored: &[ScoredCandidate]) -> Vec<Option<[f64; 2]>>;
    /// Precision-recall curves over all queries so far. Empty if the metrics are not points of a curve.
    fn curves(&self, _: RecordKey<'_>) -> Vec<PrecisionRecallCurve> {
        Vec::new()
    }
}

/// Embedded photos and boxes, and their labels.
struct EmbeddedParts {
    photos: Vec<f32>,
    boxes: Vec<f32>,
    labels: LabelNumbers,
    labels_in: Vec<HashSet<u32>>,
    /// The labels of each photo and their descendants, in class order.
    below_of: Vec<Vec<u32>>,
    label_of: Vec<u32>,
    photo_of: Vec<usize>,
}

impl Benchmark for PartRetrieval {
    fn name(&self) -> &'static str {
        NAME
    }
    fn summary(&self) -> &'static str {
        "photo to box and box to photo by cosine, distance, angle and gated angle: right classes in the top k, hierarchical recall, label distribution"
    }
    fn reference(&self) -> &'static str {
        "visual hierarchies (Wang et al.) Tables 1, 2, 3 and 5, Fig. 4"
    }
    fn needs(&self) -> &'static [RequiredInput] {
        &[RequiredInput::Images, RequiredInput::Phrases]
    }

    fn looks_at_tree(&self) -> bool {
        true
    }

    fn draws_queries(&self) -> bool {
        true
    }

    fn draws_curves(&self) -> bool {
        true
    }

    fn run(&self, context: &Context<'_>) -> Result<Vec<Record>> {
        let parts = embed(context)?;
        let queries = PartQueries::draw(context, parts.labels_in.len(), parts.label_of.len())?;
        let mut records = Vec::new();
        for (direction, queries) in
            [(RetrievalDirection::Up, &queries.boxes), (RetrievalDirection::Down, &queries.photos)]
        {
            records.extend(parts.records(context, direction, queries)?);
        }
        records.extend(parts.class_counts(context.options.seed));
        Ok(records)
    }
}

impl RetrievalDirection {
    fn name(self) -> &'static str {
        match self {
            Self::Down => "photo_to_box",
            Self::Up => "box_to_photo",
        }
    }
}

/// Gates for small k and for large k. `own` is added to both lists unless it is in one of them.
fn gates(own: f64) -> [Vec<f64>; 2] {
    let mut gates = [GATES.to_vec(), vec![LARGE_GATE]];
    if !gates.iter().flatten().any(|it| *it == own) {
        gates.iter_mut().for_each(|it| it.push(own));
    }
    gates
}

impl EmbeddedParts {
    /// `queries` are indices of boxes or photos.
    fn records(&self, context: &Context<'_>, direction: RetrievalDirection, queries: &[usize]) -> Result<Vec<Record>> {
        let metric_sets = self.metric_sets(direction, context.options.gate);
        let space = space::<f32>(context.embedder.spec())?;
        let root = context.embedder.root()?;
        let query_values = self.evaluate(space.as_ref(), &root, direction, queries, &metric_sets);
        let mut records = Vec::new();
        let mut column = 0;
        for metric_set in &metric_sets {
            let protocol = metric_set.protocol();
            for (metric, trivial) in metric_set.metrics() {
                let found = queries.iter().zip(&query_values).filter_map(|(&query, it)| Some((query, it[column]?)));
                let (queries, found): (Vec<usize>, Vec<[f64; 2]>) = found.unzip();
                if found.is_empty() {
                    return Err(Error::Missing {
                        benchmark: NAME,
                        missing: format!("every right candidate of another photo ({}, {metric})", direction.name()),
                        expected: "expected at least two photos with boxes of the same class".into(),
                    });
                }
                let values: Vec<f64> = found.iter().map(|it| it[0]).collect();
                let trivial_value = found.iter().map(|it| it[1]).sum::<f64>() / found.len() as f64;
                let key = RecordKey { benchmark: NAME, split: direction.name(), protocol: &protocol, metric: &metric };
                let baseline = Baseline::named(trivial, trivial_value);
                records.push(match direction {
                    RetrievalDirection::Down => Record::of(key, values, baseline, context.options.seed),
                    RetrievalDirection::Up => {
                        // Boxes of one photo are dependent queries, so the bootstrap draws them together.
                        let photos = queries.iter().map(|&query| self.photo_of[query] as u32).collect();
                        Record::clustered(key, values, photos, baseline, context.options.seed)
                    }
                });
                column += 1;
            }
            let key = RecordKey { benchmark: NAME, split: direction.name(), protocol: &protocol, metric: "" };
            context.add_curves(metric_set.curves(key));
        }
        Ok(records)
    }

    /// Mean number of classes of a photo, counting their descendants. The baseline is the number without descendants.
    /// `None` if there is no graph.
    fn class_counts(&self, seed: u64) -> Option<Record> {
        if !self.labels.has_graph {
            return None;
        }
        let with_below: Vec<f64> = self.below_of.iter().map(|it| it.len() as f64).collect();
        let alone = self.labels_in.iter().map(HashSet::len).sum::<usize>() as f64 / self.labels_in.len() as f64;
        let (protocol, metric) = (self.labels.described, "classes of a photo");
        let key = RecordKey { benchmark: NAME, split: "photos", protocol, metric };
        Some(Record::of(key, with_below, Baseline::named("labels alone", alone), seed))
    }

    fn metric_sets(&self, direction: RetrievalDirection, gate: f64) -> Vec<Box<dyn RetrievalMetrics + '_>> {
        let [small, large] = gates(gate);
        let both = |criteria: Vec<RankingCriterion>| -> Vec<RankingProtocol> {
            criteria
                .into_iter()
                .flat_map(|criterion| [false, true].map(|other_photos| RankingProtocol { criterion, other_photos }))
                .collect()
        };
        let all = |gates: &[f64]| {
            let plain = [RankingCriterion::Cosine, RankingCriterion::Distance, RankingCriterion::Angle];
            let gated = gates.iter().map(|&gate| RankingCriterion::Gated(gate as f32));
            both(plain.into_iter().chain(gated).collect())
        };
        let small = all(&small);
        let mut metric_sets: Vec<Box<dyn RetrievalMetrics>> = Vec::new();
        metric_sets.extend(
            small.into_iter().map(|ranking| Box::new(SameClassPrecision { ranking }) as Box<dyn RetrievalMetrics>),
        );
        for ranking in all(&large) {
            metric_sets.push(match direction {
                RetrievalDirection::Down => {
                    Box::new(HierarchicalRecall::of_boxes(ranking, &self.labels, self.photo_of.len()))
                }
                RetrievalDirection::Up => Box::new(HierarchicalRecall::of_photos(ranking, &self.labels)),
            });
        }
        // Fig. 4 has thresholds on the cosine and on the angle.
        for score in [ThresholdScore::Cosine, ThresholdScore::Angle] {
            for ranking in both(vec![score.criterion()]) {
                let sums = Mutex::new(ThresholdCurveSums::default());
                metric_sets.push(Box::new(ThresholdPrecision { score, ranking, labels: &self.labels, sums }));
            }
        }
        metric_sets
    }

    /// For each query, the concatenated values of all metric sets. Each pair of query and candidate is scored once.
    fn evaluate(
        &self,
        space: &dyn Space<f32>,
        root: &Root,
        direction: RetrievalDirection,
        queries: &[usize],
        metric_sets: &[Box<dyn RetrievalMetrics + '_>],
    ) -> Vec<Vec<Option<[f64; 2]>>> {
        let dim = space.spec().dim;
        let (points, candidates) = match direction {
            RetrievalDirection::Down => (&self.photos, &self.boxes),
            RetrievalDirection::Up => (&self.boxes, &self.photos),
        };
        let one = |&query: &usize| {
            let point = &points[query * dim..][..dim];
            let below: &[u32] = match direction {
                RetrievalDirection::Down => &self.below_of[query],
                RetrievalDirection::Up => &[],
            };
            let score = |(candidate, row): (usize, &[f32])| {
                let (photo, box_index) = match direction {
                    RetrievalDirection::Down => (query, candidate),
                    RetrievalDirection::Up => (candidate, query),
                };
                let angle = space.exterior_angle(point, row, root);
                let label = self.label_of[box_index];
                ScoredCandidate {
                    cosine: cosine(point, row),
                    distance: space.dist(point, row),
                    angle: if matches!(direction, RetrievalDirection::Down) {
                        std::f32::consts::PI - angle
                    } else {
                        angle
                    },
                    label,
                    right: self.labels_in[photo].contains(&label),
                    below: self.below_of[photo].binary_search(&label).is_ok(),
                    own: self.photo_of[box_index] == photo,
                }
            };
            let scored: Vec<ScoredCandidate> = candidates.chunks_exact(dim).enumerate().map(score).collect();
            metric_sets.iter().flat_map(|it| it.values(below, &scored)).collect()
        };
        queries.par_iter().map(one).collect()
    }
}

fn cosine(x: &[f32], y: &[f32]) -> f32 {
    let norms = (dot(x, x) * dot(y, y)).sqrt();
    if norms > 0.0 { dot(x, y) / norms } else { 0.0 }
}

fn embed(context: &Context<'_>) -> Result<EmbeddedParts> {
    let rule = PartRule::default();
    let has_part = |sample: &Sample| sample.phrases.iter().any(|it| it.boxes.iter().any(|bbox| rule.keeps(bbox)));
    let samples: Vec<Sample> = context.samples(NAME)?.into_iter().filter(has_part).collect();
    if samples.is_empty() {
        return Err(Error::Missing {
            benchmark: NAME,
            missing: "every phrase with a box".into(),
            expected: format!("expected boxes that cover at least {} of their photo", rule.min_area),
        });
    }
    let labels =
        LabelNumbers::new(context, samples.iter().flat_map(|it| it.phrases.iter().map(|phrase| &*phrase.text)))?;
    let boxes = embed_boxes(NAME, context, &samples, |_, bbox| rule.keeps(bbox))?;
    let in_photo = |sample: &Sample| {
        sample.phrases.iter().filter_map(|phrase| labels.number(&phrase.text)).collect::<HashSet<_>>()
    };
    let labels_in: Vec<HashSet<u32>> = samples.iter().map(in_photo).collect();
    Ok(EmbeddedParts {
        photos: context.embedder.images(&images(NAME, &samples)?, context.options.crop)?,
        boxes: boxes.points,
        below_of: labels_in.iter().map(|it| labels.with_below(it)).collect(),
        labels_in,
        // Every class has an index, because `labels` was built from all phrases.
        label_of: boxes.class_of.iter().filter_map(|class| labels.number(class)).collect(),
        photo_of: boxes.photo_of,
        labels,
    })
}
