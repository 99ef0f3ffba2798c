use std::collections::HashMap;

use conifer_data::Sample;
use conifer_geometry::{Root, Space, space};
use conifer_index::Cone;

use super::{Benchmark, Context, RequiredInput, lacking};
use crate::metrics::spearman;
use crate::record::{Baseline, Record, RecordKey};
use crate::{Error, Outcomes, Result};

/// HyperLex: Spearman's correlation between a score of two words and human grades of "X is a type of Y" (HierarCaps
/// Sec. 5, supplement 2.6 and Table 5).
///
/// Each word is embedded as "a picture of a ..." (supplement 2.6). The first text of a chain is the general word, the
/// last text the specific word. The authors have not released the score of the published numbers, so every score of
/// [`SCORES`] is reported under its name. One published result suggests a score that depends on the root (supplement
/// Table 2): with the root at the centre of the sphere, where the exterior angle ranks like the cosine, a model has
/// .23, and with a learned root .51. A pair without a grade is an error. A score that is the same for all pairs has
/// correlation 0.
///
/// The baseline scores a pair by the number of pairs in which its general word occurs as the general word. This
/// baseline uses only one of the two words and no grade. It reaches .39 over all pairs of the published file and .42
/// over its nouns; the published numbers of CLIP ViT-B are .44 and .48. The first score is recorded a second time with
/// another baseline, the difference of the word lengths, which reaches .01.
pub(super) struct HyperLexBenchmark;

const PROMPT: &str = "a picture of a {}";

/// Names of the baselines.
const PREVALENCE: &str = "pairs with this general word";
const LENGTH: &str = "characters, specific minus general";

/// Score of a pair. Larger values mean that the specific word is more likely a type of the general one.
type PairScore = fn(&EmbeddedWordPair<'_>) -> f64;

const SCORES: [(&str, PairScore); 6] = [
    ("minus exterior angle", |it| -it.angle()),
    ("minus angle / half aperture", |it| -it.angle() / it.aperture()),
    ("minus cone excess", |it| -it.excess()),
    ("depth, specific minus general", |it| it.space.depth(it.specific, it.root) - it.space.depth(it.general, it.root)),
    ("similarity", |it| it.similarity()),
    ("similarity minus exterior angle", |it| it.similarity() - it.angle()),
];

struct EmbeddedWordPair<'a> {
    space: &'a dyn Space<f64>,
    root: &'a Root,
    cone: Cone,
    general: &'a [f64],
    specific: &'a [f64],
}

impl EmbeddedWordPair<'_> {
    /// Exterior angle at the general point, radians.
    fn angle(&self) -> f64 {
        self.space.exterior_angle(self.general, self.specific, self.root)
    }

    /// Half aperture of the cone at the general point, radians; more than 0.
    fn aperture(&self) -> f64 {
        self.space.half_aperture(self.general, self.cone.min_radius.into(), self.root)
    }

    fn excess(&self) -> f64 {
        let Cone { min_radius, aperture_scale } = self.cone;
        self.space.cone_excess(self.general, self.specific, min_radius.into(), aperture_scale.into(), self.root)
    }

    fn similarity(&self) -> f64 {
        self.space.similarity(self.general, self.specific)
    }
}

impl Benchmark for HyperLexBenchmark {
    fn name(&self) -> &'static str {
        "hyperlex"
    }
    fn summary(&self) -> &'static str {
        "rank correlation of scores of two words with people's grades of \"X is a type of Y\"; all pairs, nouns, verbs"
    }
    fn reference(&self) -> &'static str {
        "HierarCaps Table 2, supplement Tables 2 and 5 (rho_all, rho_N)"
    }
    fn needs(&self) -> &'static [RequiredInput] {
        &[RequiredInput::GradedChains]
    }

    fn run(&self, context: &Context<'_>) -> Result<Vec<Record>> {
        let samples = context.samples(self.name())?;
        let graded: Vec<GradedWordPair<'_>> =
            samples.iter().map(|it| graded(self.name(), it)).collect::<Result<_>>()?;
        // A word can occur in many pairs, so each distinct word is embedded once.
        let mut words: Vec<&str> = graded.iter().flat_map(|it| [it.general, it.specific]).collect();
        words.sort_unstable();
        words.dedup();
        let prompts: Vec<String> = words.iter().map(|word| PROMPT.replace("{}", word)).collect();
        let points: Vec<f64> = context.embedder.texts(&prompts)?.into_iter().map(f64::from).collect();
        let dim = context.embedder.spec().dim;
        let point = |word: &str| &points[dim * words.partition_point(|it| *it < word)..][..dim];
        let space = space::<f64>(context.embedder.spec())?;
        let root = context.embedder.root()?;
        let pair = |it: &GradedWordPair<'_>| EmbeddedWordPair {
            space: space.as_ref(),
            root: &root,
            cone: Cone::default(),
            general: point(it.general),
            specific: point(it.specific),
        };

        let prevalence = prevalence(graded.iter().map(|it| it.general));
        let mut records = Vec::new();
        for (split, rows) in splits(&graded) {
            let truth: Vec<f64> = rows.iter().map(|it| it.grade).collect();
            if truth.iter().all(|grade| *grade == truth[0]) {
                return Err(Error::Missing {
                    benchmark: self.name(),
                    missing: format!(
                        "a second distinct grade (all {} pairs ({split}) have the grade {})",
                        rows.len(),
                        truth[0]
                    ),
                    expected: "a correlation needs two different grades".into(),
                });
            }
            let trivial = |answer: &dyn Fn(&GradedWordPair<'_>) -> f64| {
                let rho = spearman(&rows.iter().map(|it| answer(it)).collect::<Vec<_>>(), &truth);
                if rho.is_finite() { rho } else { 0.0 }
            };
            let prevalence = trivial(&|it| prevalence.get(it.general).copied().unwrap_or(0.0));
            let length = Baseline::named(LENGTH, trivial(&|it| longer(it.general, it.specific)));
            // Pairs with the same general word are dependent, so the bootstrap draws them together.
            let mut numbers = HashMap::new();
            let words: Vec<u32> = rows
                .iter()
                .map(|it| {
                    let next = numbers.len() as u32;
                    *numbers.entry(it.general).or_insert(next)
                })
                .collect();
            let first = records.len();
            for (name, score) in SCORES {
                let found: Vec<f64> = rows.iter().map(|it| score(&pair(it))).collect();
                if found.iter().any(|it| !it.is_finite()) {
                    return Err(Error::Embedder(format!("the score `{name}` of a pair is not a number")));
                }
                let protocol = format!("{name}, \"{PROMPT}\"");
                let key =
                    RecordKey { benchmark: self.name(), split: &split, protocol: &protocol, metric: "spearman rho" };
                let outcomes = Outcomes::Spearman { found, truth: truth.clone() };
                let baseline = Baseline::named(PREVALENCE, prevalence);
                records.push(Record::clustered(key, outcomes, words.clone(), baseline, context.options.seed));
            }
            let again = records.get(first).cloned();
            records.extend(again.map(|record| Record { baseline: length, ..record }));
        }
        Ok(records)
    }
}

struct GradedWordPair<'a> {
    general: &'a str,
    specific: &'a str,
    grade: f64,
    split: Option<&'a str>,
}

fn graded<'a>(benchmark: &'static str, sample: &'a Sample) -> Result<GradedWordPair<'a>> {
    let chain = sample.tiers.as_ref().map_or(&[][..], |tiers| &tiers.positive);
    let ([general, .., specific], Some(grade)) = (chain, sample.grade) else {
        return Err(lacking(
            benchmark,
            sample,
            "the graded chain",
            "each sample needs a general and a specific text and a grade",
        ));
    };
    Ok(GradedWordPair { general, specific, grade, split: sample.split.as_deref() })
}

/// All pairs as one split, then the pairs of each named split, sorted by name.
fn splits<'a, 'b>(graded: &'b [GradedWordPair<'a>]) -> Vec<(String, Vec<&'b GradedWordPair<'a>>)> {
    let mut names: Vec<&str> = graded.iter().filter_map(|it| it.split).collect();
    names.sort_unstable();
    names.dedup();
    let mut splits = vec![("all".to_owned(), graded.iter().collect())];
    for split in names {
        let name = match split {
            "N" => "nouns",
            "V" => "verbs",
            other => other,
        };
        splits.push((name.to_owned(), graded.iter().filter(|it| it.split == Some(split)).collect()));
    }
    splits
}

/// Number of characters of the specific text minus that of the general text.
fn longer(general: &str, specific: &str) -> f64 {
    specific.chars().count() as f64 - general.chars().count() as f64
}

/// For each word, the number of pairs in which it is the general word.
pub(super) fn prevalence<'a>(general: impl Iterator<Item = &'a str>) -> HashMap<&'a str, f64> {
    let mut counts = HashMap::new();
    general.for_each(|word| *counts.entry(word).or_insert(0.0) += 1.0);
    counts
}
