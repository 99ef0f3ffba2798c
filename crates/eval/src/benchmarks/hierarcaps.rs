use std::collections::BTreeMap;

use conifer_space::{ManifoldSpec, Root, space};
use rand::SeedableRng;
use rand::seq::SliceRandom;

use super::zero_shot_classification::first_maximum;
use super::{Benchmark, Context, Input, images, lacking};
use crate::metrics::{
    ChainRetrieval, chain_precision_recall, depth_levels, ordering_by_ascending, pair_order_tau, retrieve_chain,
};
use crate::record::{Baseline, Place, Record};
use crate::score::{Score, similarity_rows};
use crate::{Error, Outcomes, Result};

/// Caption hierarchies retrieved for a photo, and their order by depth (HierarCaps section 4; supplement 2.5, 3.2).
///
/// All tier texts of the data set are candidates. A ball around the root widens in equal steps; at each level the text in the
/// ball most similar to the photo is taken. Four protocols, since the supplement and the released evaluator differ twice:
///
/// * `released`: levels from the shallowest to the deepest text of the data set, the same for every photo; all texts kept.
/// * `paper`: levels from the root to the text most similar to the photo; the text closest to the root, which is the same for
///   nearly every photo, is left out.
/// * `released, first left out` and `paper, first kept`: one difference at a time.
///
/// tau_d is Kendall's tau between tier and depth within a row, averaged over rows. Chains of four tiers are also measured on
/// the supplement's subsets of controlled length.
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
        hierarcaps_records(&points, &context.options.steps, context.options.score, context.options.seed)
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

/// Precision, recall, F1 and tau_d with intervals, shuffled photos and caption length as baselines; retrieval for each number
/// of levels in `steps`.
///
/// # Errors
/// No number of levels, or one of zero, and a spec that names no space.
pub fn hierarcaps_records(
    points: &HierarcapsPoints<'_>,
    steps: &[usize],
    score: Score,
    seed: u64,
) -> Result<Vec<Record>> {
    if steps.is_empty() || steps.contains(&0) {
        return Err(Error::Argument {
            name: "steps".into(),
            found: format!("{steps:?}"),
            expected: "at least one number of levels, each at least 1".into(),
        });
    }
    // Depths in f64: two texts whose depths differ in the last bits of f32 must not tie.
    let space64 = space::<f64>(points.spec)?;
    let wide = |row: &[f32]| row.iter().map(|&v| f64::from(v)).collect::<Vec<_>>();
    let depths: Vec<f64> =
        points.texts.chunks(points.spec.dim).map(|row| space64.depth(&wide(row), points.root)).collect();
    let asked: Vec<Asked> =
        steps.iter().flat_map(|&steps| PROTOCOLS.map(|protocol| Asked { protocol, steps })).collect();
    let found = chains(points, &depths, &asked, score, points.images)?;
    let by_chance = chains(points, &depths, &asked, score, &shuffled_rows(points.images, points.spec.dim, seed))?;

    let all: Vec<usize> = (0..points.tiers.len()).collect();
    let tau = orders(points.tiers, &depths);
    let mut records = Vec::new();
    for ((asked, found), by_chance) in asked.iter().zip(&found).zip(&by_chance) {
        let name = asked.name(score);
        records.extend(retrieval("all", &name, &all, found, by_chance, seed));
        // The order is the same in every protocol; it stands beside the numbers of each.
        records.extend(order("all", &name, &all, &tau, points.tiers, seed));
    }
    let name = asked[0].name(score);
    for (split, holds) in LENGTH_SUBSETS {
        let rows: Vec<usize> = all.iter().copied().filter(|&row| holds(&points.tiers[row])).collect();
        if !rows.is_empty() {
            records.extend(retrieval(split, &name, &rows, &found[0], &by_chance[0], seed));
            records.extend(order(split, &name, &rows, &tau, points.tiers, seed));
        }
    }
    Ok(records)
}

/// Where the levels lie, and whether the first text counts.
#[derive(Clone, Copy)]
struct Protocol {
    name: &'static str,
    per_photo: bool,
    first_kept: bool,
}

const PROTOCOLS: [Protocol; 4] = [
    Protocol { name: "released", per_photo: false, first_kept: true },
    Protocol { name: "released, first left out", per_photo: false, first_kept: false },
    Protocol { name: "paper", per_photo: true, first_kept: false },
    Protocol { name: "paper, first kept", per_photo: true, first_kept: true },
];

/// A protocol with its number of levels.
struct Asked {
    protocol: Protocol,
    steps: usize,
}

impl Asked {
    fn name(&self, score: Score) -> String {
        format!("{} levels, {}, {}", self.steps, self.protocol.name, score.name())
    }
}

/// A name, and which chains it holds of.
type Subset = (&'static str, fn(&[String]) -> bool);

/// Chains of four tiers whose order length tells little about (supplement 3.2).
const LENGTH_SUBSETS: [Subset; 2] = [
    ("tiers 1 and 2 of equal length", |tiers| tiers.len() == 4 && words(&tiers[0]) == words(&tiers[1])),
    ("tiers 3 and 4 within 4 words", |tiers| tiers.len() == 4 && words(&tiers[2]).abs_diff(words(&tiers[3])) <= 4),
];

/// A trivial order of texts, and its name.
type Length = (&'static str, fn(&str) -> usize);

const LENGTHS: [Length; 2] = [("caption length (words)", words), ("caption length (characters)", characters)];

fn words(text: &str) -> usize {
    text.split_whitespace().count()
}

fn characters(text: &str) -> usize {
    text.chars().count()
}

/// Precision, recall and F1 (harmonic mean of the two means: HierarCaps, RCME Table 1) over some rows.
fn retrieval(
    split: &str,
    protocol: &str,
    rows: &[usize],
    found: &[ChainRetrieval],
    by_chance: &[ChainRetrieval],
    seed: u64,
) -> Vec<Record> {
    let outcomes = |chains: &[ChainRetrieval]| -> [(&'static str, Outcomes); 3] {
        let column = |of: fn(&ChainRetrieval) -> f64| rows.iter().map(|&row| of(&chains[row])).collect::<Vec<_>>();
        let (precision, recall) = (column(|it| it.precision), column(|it| it.recall));
        let both = Outcomes::HarmonicMean { first: precision.clone(), second: recall.clone() };
        [("precision", precision.into()), ("recall", recall.into()), ("F1", both)]
    };
    let pairs = outcomes(found).into_iter().zip(outcomes(by_chance));
    pairs
        .map(|((metric, found), (_, trivial))| {
            let place = Place { benchmark: "hierarcaps", split, protocol, metric };
            Record::of(place, found, Baseline::named("shuffled photos", trivial.value()), seed)
        })
        .collect()
}

/// tau_d over some rows, beside the order by length in words and in characters.
fn order(split: &str, protocol: &str, rows: &[usize], tau: &[f64], tiers: &[Vec<String>], seed: u64) -> [Record; 2] {
    LENGTHS.map(|(name, length)| {
        let by_length =
            rows.iter().map(|&row| pair_order_tau(&tiers[row].iter().map(|t| length(t) as f64).collect::<Vec<_>>()));
        let by_length = by_length.sum::<f64>() / rows.len() as f64;
        let values: Vec<f64> = rows.iter().map(|&row| tau[row]).collect();
        let place = Place { benchmark: "hierarcaps", split, protocol, metric: "tau_d" };
        Record::of(place, values, Baseline::named(name, by_length), seed)
    })
}

/// Kendall's tau of every row, equal depths counting 0: texts that are all at one place are in no order.
fn orders(tiers: &[Vec<String>], depths: &[f64]) -> Vec<f64> {
    let mut rest = depths;
    tiers
        .iter()
        .map(|row| {
            let (own, others) = rest.split_at(row.len());
            rest = others;
            pair_order_tau(own)
        })
        .collect()
}

/// For each of `asked` the chain of every photo, retrieved and scored. A photo looks at each text once.
fn chains(
    points: &HierarcapsPoints<'_>,
    depths: &[f64],
    asked: &[Asked],
    score: Score,
    images: &[f32],
) -> Result<Vec<Vec<ChainRetrieval>>> {
    let texts: Vec<&str> = points.tiers.iter().flatten().map(String::as_str).collect();
    let by_depth = ordering_by_ascending(depths);
    let fixed: Vec<Vec<f64>> = asked.iter().map(|asked| depth_levels(depths, asked.steps)).collect();
    // Spelling decides equality, so each text gets the number of its first occurrence.
    let mut first = BTreeMap::new();
    let spelling: Vec<usize> = texts.iter().enumerate().map(|(i, &t)| *first.entry(t).or_insert(i)).collect();
    let rows = similarity_rows(points.spec, score, images, points.texts, |row, scores| {
        let reference: Vec<Vec<&str>> = points.tiers[row].iter().map(|t| vec![t.as_str()]).collect();
        let closest = depths[first_maximum(scores)];
        let answer = |(asked, fixed): (&Asked, &Vec<f64>)| {
            let own = if asked.protocol.per_photo { depth_levels(&[0.0, closest], asked.steps) } else { Vec::new() };
            let levels = if asked.protocol.per_photo { &own } else { fixed };
            let chain = retrieve_chain(&by_depth, depths, levels, scores, |a, b| spelling[a] == spelling[b]);
            let left_out = usize::from(!asked.protocol.first_kept).min(chain.len());
            let retrieved: Vec<&str> = chain[left_out..].iter().map(|&i| texts[i]).collect();
            chain_precision_recall(&retrieved, &reference)
        };
        asked.iter().zip(&fixed).map(answer).collect::<Vec<_>>()
    })?;
    Ok((0..asked.len()).map(|i| rows.iter().map(|row| row[i]).collect()).collect())
}

fn shuffled_rows(rows: &[f32], dim: usize, seed: u64) -> Vec<f32> {
    let mut chunks: Vec<&[f32]> = rows.chunks(dim).collect();
    chunks.shuffle(&mut rand_chacha::ChaCha8Rng::seed_from_u64(seed));
    chunks.concat()
}
