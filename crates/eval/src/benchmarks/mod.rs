//! The protocols. One file each, one line in [`BENCHMARKS`] each.

mod cross_modal_retrieval;
mod depth_order;
mod hierarcaps;
mod hierarchical_classification;
mod part_retrieval;
pub mod prompts;
mod taxonomic_ranks;
mod zero_shot_classification;

use conifer_data::hierarchy::Tree;
use conifer_data::transform::EvalCrop;
use conifer_data::{ImageRef, Picture, PixelLimits, Sample, Source};

use crate::{Embedder, Error, Record, Result, Score};

pub use hierarcaps::{HierarcapsPoints, hierarcaps_records};

/// Every benchmark. CLI help, documentation tables and conformance tests iterate over this list.
pub const BENCHMARKS: &[&dyn Benchmark] = &[
    &zero_shot_classification::ZeroShotClassification,
    &hierarchical_classification::HierarchicalClassification,
    &cross_modal_retrieval::CrossModalRetrieval,
    &hierarcaps::Hierarcaps,
    &depth_order::DepthOrder,
    &part_retrieval::PartRetrieval,
    &taxonomic_ranks::TaxonomicRanks,
];

/// An evaluation protocol. It sees points and their space, never the model.
pub trait Benchmark: Sync {
    /// Name in configs, records and on the command line.
    fn name(&self) -> &'static str;
    /// What is measured, in one line.
    fn summary(&self) -> &'static str;
    /// The papers that report it, and where.
    fn reference(&self) -> &'static str;
    /// What every sample of the data set must carry.
    fn needs(&self) -> &'static [Input];
    /// Measures.
    ///
    /// # Errors
    /// Data that lack what the benchmark needs, and samples that cannot be read.
    fn run(&self, context: &Context<'_>) -> Result<Vec<Record>>;
}

/// What a benchmark needs to find in the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// A photograph for each sample.
    Images,
    /// At least one caption for each sample.
    Captions,
    /// A class label for each sample.
    Labels,
    /// A tree whose nodes the labels are.
    ClassTree,
    /// A caption chain from general to specific for each sample.
    Tiers,
    /// A phrase with its box for each sample.
    Phrases,
    /// The names of its taxon, from general to specific, for each sample.
    Taxa,
}

impl Input {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Images => "images",
            Self::Captions => "captions",
            Self::Labels => "labels",
            Self::ClassTree => "class tree",
            Self::Tiers => "tiers",
            Self::Phrases => "phrases with boxes",
            Self::Taxa => "taxa",
        }
    }
}

/// Everything a benchmark may look at.
pub struct Context<'a> {
    /// Turns texts and photographs into points.
    pub embedder: &'a dyn Embedder,
    /// The data set.
    pub source: &'a dyn Source,
    /// Tree of the class labels, where there is one.
    pub tree: Option<&'a Tree>,
    /// Settings.
    pub options: &'a Options,
}

/// Settings that published evaluators disagree on, each of them named in the records.
#[derive(Clone, Debug)]
pub struct Options {
    /// Prompt templates with `{}` for the class name.
    pub templates: Vec<String>,
    /// Which similarity ranks.
    pub score: Score,
    /// How photographs are cut.
    pub crop: EvalCrop,
    /// Least angle at which the gated angle lets a candidate pass, radians: 2.5 for CLIP, 2.0 for MoCo (Wang et al., App. B.2).
    pub gate: f64,
    /// Levels of HierarCaps' widening ball.
    pub steps: usize,
    /// Seed of bootstrap intervals and of shuffled baselines.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            templates: prompts::PHOTO.iter().map(|&t| t.to_owned()).collect(),
            score: Score::default(),
            crop: EvalCrop::Center,
            gate: 2.5,
            steps: 50,
            seed: 0,
        }
    }
}

/// The benchmark called `name`.
///
/// # Errors
/// An unknown name; the message lists the known ones.
pub fn find(name: &str) -> Result<&'static dyn Benchmark> {
    BENCHMARKS.iter().copied().find(|it| it.name() == name).ok_or_else(|| Error::Argument {
        name: "benchmark".into(),
        found: format!("`{name}`"),
        expected: BENCHMARKS.iter().map(|it| it.name()).collect::<Vec<_>>().join(", "),
    })
}

impl Context<'_> {
    /// Reads every sample. One that cannot be used is an error: dropping it would change the number in silence.
    pub(crate) fn samples(&self, benchmark: &'static str) -> Result<Vec<Sample>> {
        let total = self.source.len();
        let (mut samples, mut broken) = (Vec::with_capacity(total), Vec::new());
        for index in 0..total {
            match self.source.get(index) {
                Ok(sample) => samples.push(sample),
                Err(it) => broken.push(it),
            }
        }
        if let Some(first) = broken.first() {
            return Err(Error::Broken { benchmark, count: broken.len(), total, first: first.to_string() });
        }
        if samples.is_empty() {
            return Err(Error::Missing {
                benchmark,
                missing: "every sample".into(),
                expected: "the data set (or this split of it) is empty".into(),
            });
        }
        Ok(samples)
    }
}

/// The error for samples without something.
pub(crate) fn lacking(benchmark: &'static str, sample: &Sample, what: &str, expected: &str) -> Error {
    Error::Missing { benchmark, missing: format!("{what} of sample `{}`", sample.id), expected: expected.into() }
}

/// Photographs of all samples, in order.
pub(crate) fn images(benchmark: &'static str, samples: &[Sample]) -> Result<Vec<ImageRef>> {
    samples
        .iter()
        .map(|it| it.image.clone().ok_or_else(|| lacking(benchmark, it, "the photo", "each sample needs one")))
        .collect()
}

/// The pixels of a photograph, one of `total`.
pub(crate) fn open(benchmark: &'static str, photo: &ImageRef, total: usize) -> Result<Picture> {
    photo.open(&PixelLimits::default()).map_err(|broken| Error::Broken {
        benchmark,
        count: 1,
        total,
        first: broken.to_string(),
    })
}

#[cfg(test)]
mod tests;
