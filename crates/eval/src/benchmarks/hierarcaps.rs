use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

use conifer_geometry::{ManifoldSpec, Root, space};
use rand::SeedableRng;
use rand::seq::SliceRandom;

use super::transitivity::{transitivity_records, triples};
use super::zero_shot_classification::first_maximum;
use super::{Benchmark, Context, RequiredInput, images, lacking};
use crate::chain_retrieval::{CHAIN_PROTOCOLS, ChainProtocol, spellings};
use crate::metrics::{
    ChainRetrieval, chain_precision_recall, depth_levels, ordering_by_ascending, pair_order_tau, retrieve_chain,
};
use crate::record::{Baseline, Record, RecordKey};
use crate::score::{Score, similarity_rows};
use crate::{Error, Outcomes, Result};

/// Retrieval of caption hierarchies by photos, and the order of the tiers by depth (HierarCaps section 4; supplement
/// 2.5, 3.2).
///
/// All tier texts of the data set are candidates. A ball around the root widens in equal steps. At each level, the text
/// inside the ball that is most similar to the photo is retrieved. The supplement and the released evaluator differ in
/// two points, so there are four protocols:
///
/// * `released`: the levels go from the shallowest to the deepest text of the data set and are the same for every
///   photo; all retrieved texts are kept.
/// * `paper`: the levels go from the root to the text most similar to the photo; the first retrieved text is left out
///   (in the paper: the text closest to the root).
/// * `released, first left out` and `paper, first kept`: only one of the two points changed.
///
/// The tiers of a second data set can be added to the candidates ([`Context::chain_candidates`]), such as the expanded
/// candidates of supplement 2.1. The protocol then ends with the number of these texts.
///
/// tau_d is Kendall's tau between tier and depth within a row, averaged over rows. The first setting (number of levels
/// and protocol) is also measured on the supplement's subsets of chains of four tiers with controlled length.
///
/// The rate of violations of RCME Eq. 4 is measured on all distinct triples of neighbouring tiers.
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
    fn needs(&self) -> &'static [RequiredInput] {
        &[RequiredInput::Images, RequiredInput::Tiers]
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
        let more_texts = more_texts(context, self.name(), &texts)?;
        let text_points = context.embedder.texts(&texts)?;
        let more_points = context.embedder.texts(&more_texts)?;
        let image_points = context.embedder.images(&images(self.name(), &samples)?, context.options.crop)?;
        let root = context.embedder.root()?;
        let points = HierarcapsPoints {
            spec: context.embedder.spec(),
            root: &root,
            tiers: &tiers,
            texts: &text_points,
            more_texts: &more_texts,
            more_points: &more_points,
            images: &image_points,
        };
        let (options, dim) = (context.options, points.spec.dim);
        let mut records = hierarcaps_records(&points, &options.steps, options.score, options.seed)?;
        let rows: HashMap<&str, usize> = texts.iter().enumerate().map(|(row, text)| (text.as_str(), row)).collect();
        let found = triples(tiers.iter().map(|chain| chain.iter().map(String::as_str).enumerate().collect()));
        let point = |text: &str| &text_points[rows[text] * dim..][..dim];
        records.extend(transitivity_records(self.name(), "tier", points.spec, &root, &found, point, options.seed)?);
        Ok(records)
    }
}

/// The distinct tiers of [`Context::chain_candidates`] that are not in `own`, sorted.
fn more_texts(context: &Context<'_>, benchmark: &'static str, own: &[String]) -> Result<Vec<String>> {
    let Some(source) = context.chain_candidates else { return Ok(Vec::new()) };
    let mut texts = BTreeSet::new();
    let (mut chains, mut broken) = (0, Vec::new());
    for index in 0..source.len() {
        match source.get(index) {
            Ok(sample) => {
                chains += usize::from(sample.tiers.is_some());
                texts.extend(sample.tiers.into_iter().flat_map(|it| it.positive));
            }
            Err(it) => broken.push(it),
        }
    }
    if let Some(first) = broken.first() {
        let (count, total) = (broken.len(), source.len());
        return Err(Error::Broken { benchmark, count, total, first: format!("in the candidates: {first}") });
    }
    if chains == 0 {
        return Err(Error::Missing {
            benchmark,
            missing: format!("every caption chain of the candidates `{}`", source.name()),
            expected: format!(
                "none of its {} samples has tiers; expected a data set with caption chains",
                source.len()
            ),
        });
    }
    own.iter().for_each(|text| _ = texts.remove(text));
    Ok(texts.into_iter().collect())
}

/// Embedded HierarCaps rows, the input of [`hierarcaps_records`].
pub struct HierarcapsPoints<'a> {
    /// Space of all points.
    pub spec: &'a ManifoldSpec,
    /// The most general point.
    pub root: &'a Root,
    /// Tier texts of each row, general first.
    pub tiers: &'a [Vec<String>],
    /// Points of all tier texts by row, then tier: `[total number of tiers, dim]`.
    pub texts: &'a [f32],
    /// Candidates that are not a tier of any row; usually empty.
    pub more_texts: &'a [String],
    /// Points of `more_texts`, `[more_texts.len(), dim]`.
    pub more_points: &'a [f32],
    /// Points of the photos, `[rows, dim]`.
    pub images: &'a [f32],
}

/// Computes precision, recall, F1 and tau_d with intervals. The retrieval is measured with each number of levels in
/// `steps`. The baselines are shuffled photos (retrieval) and caption length (tau_d).
///
/// # Errors
/// `steps` is empty or contains zero, or `points.spec` is not a valid space.
pub fn hierarcaps_records(
    points: &HierarcapsPoints<'_>,
    steps: &[usize],
    score: Score,
    seed: u64,
) -> Result<Vec<Record>> {
    if steps.is_empty() || steps.contains(&0) {
        return Err(Error::Invalid {
            name: "steps".into(),
            found: format!("{steps:?}"),
            expected: "at least one number of levels, each at least 1".into(),
        });
    }
    // Compute depths in f64: two texts whose depths differ only in the last bits of f32 must not tie.
    let space64 = space::<f64>(points.spec)?;
    let wide = |row: &[f32]| row.iter().map(|&v| f64::from(v)).collect::<Vec<_>>();
    let rows = points.texts.chunks(points.spec.dim).chain(points.more_points.chunks(points.spec.dim));
    let depths: Vec<f64> = rows.map(|row| space64.depth(&wide(row), points.root)).collect();
    let more = points.more_texts.len();
    let settings: Vec<ChainSetting> = steps
        .iter()
        .flat_map(|&steps| CHAIN_PROTOCOLS.map(|protocol| ChainSetting { protocol, steps, more }))
        .collect();
    let found = chains(points, &depths, &settings, score, points.images)?;
    let by_chance = chains(points, &depths, &settings, score, &shuffled_rows(points.images, points.spec.dim, seed))?;

    let all: Vec<usize> = (0..points.tiers.len()).collect();
    let tau = orders(points.tiers, &depths);
    let mut records = Vec::new();
    for ((setting, found), by_chance) in settings.iter().zip(&found).zip(&by_chance) {
        let name = setting.name(score);
        records.extend(retrieval("all", &name, &all, found, by_chance, seed));
        // tau_d does not depend on the protocol, but is recorded under each.
        records.extend(order("all", &name, &all, &tau, points.tiers, seed));
    }
    let name = settings[0].name(score);
    for (split, holds) in LENGTH_SUBSETS {
        let rows: Vec<usize> = all.iter().copied().filter(|&row| holds(&points.tiers[row])).collect();
        if !rows.is_empty() {
            records.extend(retrieval(split, &name, &rows, &found[0], &by_chance[0], seed));
            records.extend(order(split, &name, &rows, &tau, points.tiers, seed));
        }
    }
    Ok(records)
}

struct ChainSetting {
    protocol: ChainProtocol,
    steps: usize,
    /// Number of candidates of the second data set.
    more: usize,
}

impl ChainSetting {
    fn name(&self, score: Score) -> String {
        let name = format!("{} levels, {}, {}", self.steps, self.protocol.name, score.name());
        if self.more == 0 { name } else { format!("{name}, more candidates: {}", self.more) }
    }
}

/// Name of a subset, and the predicate that selects its chains.
type ChainSubset = (&'static str, fn(&[String]) -> bool);

/// Subsets of the chains with four tiers in which two neighbouring captions have equal or similar lengths. Caption
/// length therefore hardly predicts their order (supplement 3.2).
const LENGTH_SUBSETS: [ChainSubset; 2] = [
    ("tiers 1 and 2 of equal length", |tiers| tiers.len() == 4 && words(&tiers[0]) == words(&tiers[1])),
    ("tiers 3 and 4 within 4 words", |tiers| tiers.len() == 4 && words(&tiers[2]).abs_diff(words(&tiers[3])) <= 4),
];

/// Name of a text length, and the function that computes it.
type TextLength = (&'static str, fn(&str) -> usize);

const LENGTHS: [TextLength; 2] = [("caption length (words)", words), ("caption length (characters)", characters)];

fn words(text: &str) -> usize {
    text.split_whitespace().count()
}

fn characters(text: &str) -> usize {
    text.chars().count()
}

/// Precision, recall and F1 over some rows. F1 is the harmonic mean of mean precision and mean recall (HierarCaps, RCME
/// Table 1).
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
            let key = RecordKey { benchmark: "hierarcaps", split, protocol, metric };
            Record::of(key, found, Baseline::named("shuffled photos", trivial.value()), seed)
        })
        .collect()
}

/// tau_d over some rows. The baselines order the texts by their length in words or in characters.
fn order(split: &str, protocol: &str, rows: &[usize], tau: &[f64], tiers: &[Vec<String>], seed: u64) -> [Record; 2] {
    LENGTHS.map(|(name, length)| {
        let by_length =
            rows.iter().map(|&row| pair_order_tau(&tiers[row].iter().map(|t| length(t) as f64).collect::<Vec<_>>()));
        let by_length = by_length.sum::<f64>() / rows.len() as f64;
        let values: Vec<f64> = rows.iter().map(|&row| tau[row]).collect();
        let key = RecordKey { benchmark: "hierarcaps", split, protocol, metric: "tau_d" };
        Record::of(key, values, Baseline::named(name, by_length), seed)
    })
}

/// Kendall's tau of each row. Pairs of equal depth count 0, so a row of texts at the same depth has tau 0.
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

/// Precision and recall of the chain of every photo, for each of `settings`. The similarities of a photo are computed
/// once.
fn chains(
    points: &HierarcapsPoints<'_>,
    depths: &[f64],
    settings: &[ChainSetting],
    score: Score,
    images: &[f32],
) -> Result<Vec<Vec<ChainRetrieval>>> {
    let texts: Vec<&str> = points.tiers.iter().flatten().chain(points.more_texts).map(String::as_str).collect();
    let candidates = match points.more_points {
        [] => Cow::Borrowed(points.texts),
        more => Cow::Owned([points.texts, more].concat()),
    };
    let by_depth = ordering_by_ascending(depths);
    let fixed: Vec<Vec<f64>> = settings.iter().map(|setting| depth_levels(depths, setting.steps)).collect();
    // Texts with the same spelling count as the same text.
    let spelling = spellings(&texts);
    let rows = similarity_rows(points.spec, score, images, &candidates, |row, scores| {
        let reference: Vec<Vec<&str>> = points.tiers[row].iter().map(|t| vec![t.as_str()]).collect();
        let closest = depths[first_maximum(scores)];
        let measured = |(setting, fixed): (&ChainSetting, &Vec<f64>)| {
            let levels = match setting.protocol.per_query {
                true => Cow::Owned(setting.protocol.levels(depths, closest, setting.steps)),
                // These levels do not depend on the photo, so they are computed once.
                false => Cow::Borrowed(fixed),
            };
            let chain = retrieve_chain(&by_depth, depths, &levels, scores, |a, b| spelling[a] == spelling[b]);
            let left_out = usize::from(!setting.protocol.first_kept).min(chain.len());
            let retrieved: Vec<&str> = chain[left_out..].iter().map(|&i| texts[i]).collect();
            chain_precision_recall(&retrieved, &reference)
        };
        settings.iter().zip(&fixed).map(measured).collect::<Vec<_>>()
    })?;
    Ok((0..settings.len()).map(|i| rows.iter().map(|row| row[i]).collect()).collect())
}

fn shuffled_rows(rows: &[f32], dim: usize, seed: u64) -> Vec<f32> {
    let mut chunks: Vec<&[f32]> = rows.chunks(dim).collect();
    chunks.shuffle(&mut rand_chacha::ChaCha8Rng::seed_from_u64(seed));
    chunks.concat()
}
