use std::collections::BTreeMap;

use conifer_space::{ManifoldSpec, Root, space};
use rand::SeedableRng;
use rand::seq::SliceRandom;

use super::{Benchmark, Context, Input, images, lacking};
use crate::metrics::{
    ChainRetrieval, chain_precision_recall, depth_levels, kendall_tau_permutation, ordering_by_ascending,
    pair_order_tau, retrieve_chain,
};
use crate::record::{Baseline, Place, Record};
use crate::score::{Score, similarity_rows};
use crate::{Error, Outcomes, Result};

/// Caption hierarchies retrieved for a photo, and their order by depth (HierarCaps section 4; supplement 2.5).
///
/// All tier texts of the data set are candidates. A ball around the root widens in equal steps from the
/// shallowest to the deepest text; at each level the text in the ball most similar to the photo is taken.
/// Levels are those of the whole data set and the first text is kept, as in the released evaluator.
/// tau_d is Kendall's tau between tier and depth within a row, averaged over rows.
pub(super) struct Hierarcaps;

impl Benchmark for Hierarcaps {
    fn name(&self) -> &'static str {
        "hierarcaps"
    }
    fn summary(&self) -> &'static str {
        "precision, recall and F1 of caption chains retrieved for a photo; tau_d of their order"
    }
    fn reference(&self) -> &'static str {
        "HierarCaps Tables 1, 2 and 4; RCME Table 7"
    }
    fn needs(&self) -> &'static [Input] {
        &[Input::Images, Input::Tiers]
    }

    fn run(&self, context: &Context<'_>) -> Result<Vec<Record>> {
        let samples = context.samples(self.name())?;
        let mut tiers = Vec::with_capacity(samples.len());
        for sample in &samples {
            match &sample.tiers {
                Some(it) if it.positive.len() >= 2 => tiers.push(it.positive.clone()),
                _ => {
                    return Err(lacking(
                        self.name(),
                        sample,
                        "the caption chain",
                        "at least two tiers, general before specific",
                    ));
                }
            }
        }
        let texts: Vec<String> = tiers.iter().flatten().cloned().collect();
        let text_points = context.embedder.texts(&texts)?;
        let image_points = context.embedder.images(&images(self.name(), &samples)?, context.options.crop)?;
        let root = context.embedder.root()?;
        let points = HierarcapsPoints {
            spec: context.embedder.spec(),
            root: &root,
            tiers: &tiers,
            texts: &text_points,
            images: &image_points,
        };
        hierarcaps_records(&points, context.options.steps, context.options.score, context.options.seed)
    }
}

/// Embedded HierarCaps rows: what the numbers are computed from.
pub struct HierarcapsPoints<'a> {
    /// Space of all points.
    pub spec: &'a ManifoldSpec,
    /// The most general point.
    pub root: &'a Root,
    /// Per row its tier texts, general first.
    pub tiers: &'a [Vec<String>],
    /// Points of all tier texts, row after row, tier after tier, `[sum of tiers, dim]`.
    pub texts: &'a [f32],
    /// Points of the photos `[rows, dim]`.
    pub images: &'a [f32],
}

/// Precision, recall, F1 and tau_d with intervals, shuffled photos and caption length as baselines.
///
/// # Errors
/// `steps` of zero, and a spec that names no space.
pub fn hierarcaps_records(points: &HierarcapsPoints<'_>, steps: usize, score: Score, seed: u64) -> Result<Vec<Record>> {
    if steps == 0 {
        return Err(Error::Argument { name: "steps".into(), found: "0".into(), expected: "at least 1 level".into() });
    }
    let dim = points.spec.dim;
    // Depths in f64: two texts whose depths differ in the last bits of f32 must not tie.
    let space64 = space::<f64>(points.spec)?;
    let depths: Vec<f64> = points
        .texts
        .chunks(dim)
        .map(|row| space64.depth(&row.iter().map(|&v| f64::from(v)).collect::<Vec<_>>(), points.root))
        .collect();
    let texts: Vec<&str> = points.tiers.iter().flatten().map(String::as_str).collect();
    let found = chains(points, &texts, &depths, steps, score, points.images)?;
    let shuffled = shuffled_rows(points.images, dim, seed);
    let by_chance = ChainScores::of(&chains(points, &texts, &depths, steps, score, &shuffled)?);

    let mut start = 0;
    let mut tau = Vec::with_capacity(points.tiers.len());
    for row in points.tiers {
        tau.push(kendall_tau_permutation(&ordering_by_ascending(&depths[start..start + row.len()])));
        start += row.len();
    }
    let length_tau = |length: fn(&str) -> usize| {
        mean(
            &points
                .tiers
                .iter()
                .map(|row| pair_order_tau(&row.iter().map(|t| length(t) as f64).collect::<Vec<_>>()))
                .collect::<Vec<_>>(),
        )
    };
    let words = length_tau(|t| t.split_whitespace().count());
    let characters = length_tau(|t| t.chars().count());

    let protocol = format!("{steps} levels, released, {}", score.name());
    let record = |metric, outcomes: Outcomes, (baseline, trivial): (&str, f64)| {
        let place = Place { benchmark: "hierarcaps", split: "all", protocol: &protocol, metric };
        Record::of(place, outcomes, Baseline::named(baseline, trivial), seed)
    };
    let column = |field: fn(&ChainRetrieval) -> f64| found.iter().map(field).collect::<Vec<_>>();
    let (precision, recall) = (column(|c| c.precision), column(|c| c.recall));
    let both = Outcomes::HarmonicMean { first: precision.clone(), second: recall.clone() };
    Ok(vec![
        record("precision", precision.into(), ("shuffled photos", by_chance.precision)),
        record("recall", recall.into(), ("shuffled photos", by_chance.recall)),
        record("F1", both, ("shuffled photos", by_chance.f1)),
        record("tau_d", tau.clone().into(), ("caption length (words)", words)),
        record("tau_d", tau.into(), ("caption length (characters)", characters)),
    ])
}

/// Mean precision and recall, and F1 as the harmonic mean of the two means (HierarCaps, RCME Table 1).
struct ChainScores {
    precision: f64,
    recall: f64,
    f1: f64,
}

impl ChainScores {
    fn of(rows: &[ChainRetrieval]) -> Self {
        let precision = mean(&rows.iter().map(|r| r.precision).collect::<Vec<_>>());
        let recall = mean(&rows.iter().map(|r| r.recall).collect::<Vec<_>>());
        let f1 = if precision + recall > 0.0 { 2.0 * precision * recall / (precision + recall) } else { 0.0 };
        Self { precision, recall, f1 }
    }
}

/// Retrieves and scores the chain of every photo.
fn chains(
    points: &HierarcapsPoints<'_>,
    texts: &[&str],
    depths: &[f64],
    steps: usize,
    score: Score,
    images: &[f32],
) -> Result<Vec<ChainRetrieval>> {
    let by_depth = ordering_by_ascending(depths);
    let levels = depth_levels(depths, steps);
    // Spelling decides equality, so each text gets the number of its first occurrence.
    let mut first = BTreeMap::new();
    let spelling: Vec<usize> = texts.iter().enumerate().map(|(i, &t)| *first.entry(t).or_insert(i)).collect();
    similarity_rows(points.spec, score, images, points.texts, |row, scores| {
        let chain = retrieve_chain(&by_depth, depths, &levels, scores, |a, b| spelling[a] == spelling[b]);
        let retrieved: Vec<&str> = chain.iter().map(|&i| texts[i]).collect();
        let reference: Vec<Vec<&str>> = points.tiers[row].iter().map(|t| vec![t.as_str()]).collect();
        chain_precision_recall(&retrieved, &reference)
    })
}

fn shuffled_rows(rows: &[f32], dim: usize, seed: u64) -> Vec<f32> {
    let mut chunks: Vec<&[f32]> = rows.chunks(dim).collect();
    chunks.shuffle(&mut rand_chacha::ChaCha8Rng::seed_from_u64(seed));
    chunks.concat()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}
