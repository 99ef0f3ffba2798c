use std::f64::consts::PI;

use conifer_data::Sample;
use conifer_geometry::{Root, Space, space};

use super::{Benchmark, Context, RequiredInput, images, lacking};
use crate::record::{Baseline, Record, RecordKey};
use crate::{Error, Outcomes, Result};

/// Probabilistic entailment protocol (ARGENT, Huynh et al. 2026): measures whether pairs in which the specific side
/// entails the general side score higher than pairs in which it does not.
///
/// The score of a pair is `max(1 - 2 X / pi, 0)`, with X the exterior angle at the general side: 1 if the specific side
/// lies straight behind the general side, and 0 from a right angle on. It does not depend on an aperture.
///
/// Pairs that entail are neighbouring tiers of a caption chain (`text_to_text`), and each tier with its photo
/// (`text_to_image`, if every sample has a photo). Each of these pairs is matched with one pair that does not entail
/// and has the same specific side. There are two protocols for choosing it:
///
/// * `wrong texts`: the general side is the wrong text of the same tier. A text that is right for the photo cannot
///   imply one that is wrong for it. Samples without wrong texts are not measured.
/// * `texts of other chains`: the general side is the same tier of the next sample whose text is not in this chain.
///   This text may be right for the photo by accident.
pub(super) struct Pep;

const NAME: &str = "pep";
const PROTOCOLS: [(&str, GeneralSide); 2] = [("wrong texts", wrong_text), ("texts of other chains", other_text)];

/// Number of samples that are searched for a text of another chain.
const OTHERS: usize = 1000;

/// Maps all chains, the index of a sample and the index of a tier to a text that the more specific tiers of the sample
/// do not entail.
type GeneralSide = for<'a> fn(&[&'a Chain], usize, usize) -> Option<&'a str>;

/// The specific side of a pair.
#[derive(Clone, Copy)]
enum SpecificSide<'a> {
    Text(&'a str),
    Photo(usize),
}

impl Benchmark for Pep {
    fn name(&self) -> &'static str {
        NAME
    }
    fn summary(&self) -> &'static str {
        "average precision and AUROC of an angle score over pairs that entail and pairs that do not"
    }
    fn reference(&self) -> &'static str {
        "ARGENT, Huynh et al. 2026 (PEP)"
    }
    fn needs(&self) -> &'static [RequiredInput] {
        &[RequiredInput::Tiers]
    }
    fn uses_photos(&self) -> bool {
        true
    }

    fn run(&self, context: &Context<'_>) -> Result<Vec<Record>> {
        let root = context.embedder.root()?;
        check_cones(context, &root)?;
        let samples = context.samples(NAME)?;
        let chains: Vec<&Chain> = samples.iter().map(chain).collect::<Result<_>>()?;
        let points = PairPoints::embed(context, &samples, &chains, &root)?;

        let mut splits = vec!["text_to_text"];
        if points.photos.is_some() {
            splits.push("text_to_image");
        }
        let mut records = Vec::new();
        for split in splits {
            for (protocol, general_side) in PROTOCOLS {
                let pairs = ScoredPairs::of(&chains, split == "text_to_image", general_side, &points);
                if !pairs.positive.is_empty() {
                    records.extend(pairs.records(split, protocol, context.options.seed));
                }
            }
        }
        if records.is_empty() {
            return Err(Error::Missing {
                benchmark: NAME,
                missing: "every pair that does not entail".into(),
                expected: "expected wrong texts beside the chains, or a second sample with another chain".into(),
            });
        }
        Ok(records)
    }
}

type Chain = conifer_data::Tiers;

/// Rejects a sphere with the root at its centre: all points have the same depth, so the angle only measures similarity.
fn check_cones(context: &Context<'_>, root: &Root) -> Result<()> {
    let spec = context.embedder.spec();
    let is_sphere = conifer_geometry::entry(spec.kind.name())?.tangent_norm.is_none();
    if !(is_sphere && matches!(root, Root::Origin)) {
        return Ok(());
    }
    Err(Error::Invalid {
        name: format!("{NAME}: space"),
        found: format!("{spec}, seen from its centre"),
        expected: "a space with cones: a hyperbolic or Euclidean space, or a sphere with a root such as --root-text ''"
            .into(),
    })
}

fn chain(sample: &Sample) -> Result<&Chain> {
    let expected = "at least two tiers, general before specific";
    let chain = sample.tiers.as_ref().filter(|chain| chain.positive.len() >= 2);
    chain.ok_or_else(|| lacking(NAME, sample, "the caption chain", expected))
}

fn wrong_text<'a>(chains: &[&'a Chain], sample: usize, tier: usize) -> Option<&'a str> {
    chains[sample].negative.get(tier).map(String::as_str)
}

fn other_text<'a>(chains: &[&'a Chain], sample: usize, tier: usize) -> Option<&'a str> {
    let others = (1..chains.len()).take(OTHERS).map(|step| chains[(sample + step) % chains.len()]);
    let mut texts = others.filter_map(|other| other.positive.get(tier));
    texts.find(|text| !chains[sample].positive.contains(text)).map(String::as_str)
}

/// Points of all texts and photos.
struct PairPoints<'a> {
    space: Box<dyn Space<f64>>,
    root: &'a Root,
    dim: usize,
    /// Distinct texts, sorted.
    texts: Vec<&'a str>,
    text_points: Vec<f64>,
    /// Points of the photos by sample; `None` if a sample has no photo.
    photos: Option<Vec<f64>>,
}

impl<'a> PairPoints<'a> {
    fn embed(context: &Context<'_>, samples: &'a [Sample], chains: &[&'a Chain], root: &'a Root) -> Result<Self> {
        let mut texts: Vec<&str> =
            chains.iter().flat_map(|it| it.positive.iter().chain(&it.negative)).map(String::as_str).collect();
        texts.sort_unstable();
        texts.dedup();
        let wide = |points: Vec<f32>| -> Vec<f64> { points.into_iter().map(f64::from).collect() };
        let owned: Vec<String> = texts.iter().map(|&text| text.to_owned()).collect();
        let photos = match samples.iter().all(|sample| sample.image.is_some()) {
            true => Some(wide(context.embedder.images(&images(NAME, samples)?, context.options.crop)?)),
            false => None,
        };
        Ok(Self {
            space: space::<f64>(context.embedder.spec())?,
            root,
            dim: context.embedder.spec().dim,
            text_points: wide(context.embedder.texts(&owned)?),
            texts,
            photos,
        })
    }

    fn text(&self, text: &str) -> &[f64] {
        &self.text_points[self.dim * self.texts.partition_point(|it| *it < text)..][..self.dim]
    }

    /// `max(1 - 2 X / pi, 0)` with the exterior angle X at `general`.
    fn score(&self, general: &str, specific: SpecificSide<'_>) -> f64 {
        let specific = match (specific, &self.photos) {
            (SpecificSide::Text(text), _) => self.text(text),
            (SpecificSide::Photo(sample), Some(photos)) => &photos[self.dim * sample..][..self.dim],
            (SpecificSide::Photo(_), None) => return f64::NAN,
        };
        let angle = self.space.exterior_angle(self.text(general), specific, self.root);
        (1.0 - 2.0 * angle / PI).max(0.0)
    }
}

/// Scores of the pairs of one split and protocol.
#[derive(Default)]
struct ScoredPairs {
    scores: Vec<f64>,
    positive: Vec<bool>,
    /// The sample of each pair. Pairs of a sample are dependent, so the bootstrap draws them together.
    samples: Vec<u32>,
}

impl ScoredPairs {
    fn of(chains: &[&Chain], with_photos: bool, general_side: GeneralSide, points: &PairPoints<'_>) -> Self {
        let mut pairs = Self::default();
        for (sample, chain) in chains.iter().enumerate() {
            for (tier, general) in chain.positive.iter().enumerate() {
                let specific = match (with_photos, chain.positive.get(tier + 1)) {
                    (true, _) => SpecificSide::Photo(sample),
                    (false, Some(text)) => SpecificSide::Text(text),
                    (false, None) => continue,
                };
                let Some(other) = general_side(chains, sample, tier) else { continue };
                for (general, positive) in [(general.as_str(), true), (other, false)] {
                    pairs.scores.push(points.score(general, specific));
                    pairs.positive.push(positive);
                    pairs.samples.push(sample as u32);
                }
            }
        }
        pairs
    }

    fn records(self, split: &str, protocol: &str, seed: u64) -> [Record; 2] {
        let Self { scores, positive, samples } = self;
        let share = positive.iter().filter(|it| **it).count() as f64 / positive.len() as f64;
        let record = |metric, outcomes, chance| {
            let key = RecordKey { benchmark: NAME, split, protocol, metric };
            Record::clustered(key, outcomes, samples.clone(), Baseline::chance(chance), seed)
        };
        let precision = Outcomes::AveragePrecision { scores: scores.clone(), positive: positive.clone() };
        [record("AP", precision, share), record("AUROC", Outcomes::RocAuc { scores, positive }, 0.5)]
    }
}
