//! Evaluation protocols, one per file. [`BENCHMARKS`] lists all of them.

mod boxes;
mod breeds;
mod contrasts;
mod cross_modal_retrieval;
mod depth_order;
mod detection;
mod hierarcaps;
mod hierarchical_classification;
mod hyperlex;
mod part_retrieval;
mod pep;
pub mod prompts;
mod sugarcrepe;
mod taxonomic_ranks;
mod transitivity;
mod vg_attribution;
mod vl_checklist;
mod zero_shot_classification;

use std::cell::RefCell;
use std::collections::{BTreeSet, HashSet};

use conifer_data::hierarchy::ClassGraph;
use conifer_data::transform::EvalCrop;
use conifer_data::{Broken, Cause, ClassEntry, ImageRef, Picture, PixelLimits, Sample, Source};
use conifer_geometry::Registry;

use crate::{EmbeddingModel, Error, PrecisionRecallCurve, Record, Result, Score};

pub use hierarcaps::{HierarcapsPoints, hierarcaps_records};

/// All benchmarks. The CLI help, the tables of the documentation and the tests iterate over this list.
///
/// A crate outside this workspace adds a benchmark with [`Registry::register`].
pub static BENCHMARKS: Registry<&dyn Benchmark> = Registry::new(
    "benchmark",
    |it| it.name(),
    &[
        &zero_shot_classification::ZeroShotClassification,
        &hierarchical_classification::HierarchicalClassification,
        &cross_modal_retrieval::CrossModalRetrieval,
        &hierarcaps::Hierarcaps,
        &depth_order::DepthOrder,
        &part_retrieval::PartRetrieval,
        &detection::Detection,
        &taxonomic_ranks::TaxonomicRanks,
        &sugarcrepe::Sugarcrepe,
        &vl_checklist::VlChecklist,
        &vg_attribution::VgAttribution,
        &hyperlex::HyperLexBenchmark,
        &breeds::BreedsBenchmark,
        &pep::Pep,
    ],
);

/// An evaluation protocol. A [`Context`] provides photos and texts, and embeds them as points of a space.
pub trait Benchmark: Sync {
    /// Name in configs, records and on the command line.
    fn name(&self) -> &'static str;
    /// What is measured, in one line.
    fn summary(&self) -> &'static str;
    /// Papers that report the benchmark, with table or section.
    fn reference(&self) -> &'static str;
    /// Inputs that every sample of the data set must have.
    fn needs(&self) -> &'static [RequiredInput];
    /// Returns true if the benchmark uses [`Options::templates`].
    fn prompts(&self) -> bool {
        false
    }
    /// Returns true if the benchmark embeds photos. A benchmark that also works without photos overrides this.
    fn uses_photos(&self) -> bool {
        self.needs().contains(&RequiredInput::Images)
    }
    /// Returns true if the benchmark uses [`Context::graph`], provided that it is set.
    fn looks_at_tree(&self) -> bool {
        self.needs().contains(&RequiredInput::ClassTree)
    }
    /// Returns true if the benchmark uses [`Options::queries`].
    fn draws_queries(&self) -> bool {
        false
    }
    /// Returns true if the benchmark adds precision-recall curves to the context ([`Context::take_curves`]).
    fn draws_curves(&self) -> bool {
        false
    }
    /// Runs the benchmark.
    ///
    /// # Errors
    /// The data lack an input that the benchmark needs, or a sample cannot be read.
    fn run(&self, context: &Context<'_>) -> Result<Vec<Record>>;
}

/// An input that a benchmark requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequiredInput {
    /// A photo for each sample.
    Images,
    /// At least one caption for each sample.
    Captions,
    /// A class label for each sample.
    Labels,
    /// A tree whose nodes include the labels.
    ClassTree,
    /// A caption chain from general to specific for each sample.
    Tiers,
    /// A phrase with a box for each sample.
    Phrases,
    /// A taxon for each sample: its names from general to specific.
    Taxa,
    /// A wrong caption in addition to the caption of each sample.
    WrongCaptions,
    /// A chain of a general and a specific text with a human grade, for each sample.
    GradedChains,
}

impl RequiredInput {
    /// Name in messages and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Images => "images",
            Self::Captions => "captions",
            Self::Labels => "labels",
            Self::ClassTree => "class tree",
            Self::Tiers => "tiers",
            Self::Phrases => "phrases with boxes",
            Self::Taxa => "taxa",
            Self::WrongCaptions => "wrong captions",
            Self::GradedChains => "graded chains",
        }
    }
}

/// Inputs of a benchmark run.
pub struct Context<'a> {
    /// Embeds texts and photos.
    pub embedder: &'a dyn EmbeddingModel,
    /// The data set to measure.
    pub source: &'a dyn Source,
    /// Graph of the class labels, often a tree; `None` if the data set has none.
    pub graph: Option<&'a ClassGraph>,
    /// Settings of the run.
    pub options: &'a Options,
    /// Samples whose taxa and labels are further candidates, although their photos are not measured. `None`: only the
    /// taxa and labels of the measured photos are candidates.
    pub candidates: Option<&'a dyn Source>,
    /// Samples whose caption chains are candidates of `hierarcaps`, in addition to those of the data set.
    pub chain_candidates: Option<&'a dyn Source>,
    /// Descriptions of what was left out under [`Options::partial`]; [`measure`] appends them to the protocol.
    left_out: RefCell<Vec<String>>,
    /// The precision-recall curves of the running or last benchmark.
    curves: RefCell<Vec<PrecisionRecallCurve>>,
}

/// Runs a benchmark. The protocol of every record and curve ends with a note on what was left out, if anything was.
///
/// # Errors
/// The errors of [`Benchmark::run`].
pub fn measure(benchmark: &dyn Benchmark, context: &Context<'_>) -> Result<Vec<Record>> {
    context.left_out.take();
    context.curves.take();
    let mut records = benchmark.run(context)?;
    let left_out = context.left_out.take();
    if !left_out.is_empty() {
        let note = format!(", partial: {}", left_out.join(", "));
        records.iter_mut().for_each(|record| record.protocol += &note);
        context.curves.borrow_mut().iter_mut().for_each(|curve| curve.protocol += &note);
    }
    Ok(records)
}

/// Settings in which published evaluators differ. The records state them.
#[derive(Clone, Debug)]
pub struct Options {
    /// Name of the prompts in the records.
    pub prompts: String,
    /// Prompt templates with `{}` for the class name.
    pub templates: Vec<String>,
    /// Similarity that ranks the candidates.
    pub score: Score,
    /// Crop of the photos.
    pub crop: EvalCrop,
    /// Smallest angle in radians that passes the gate of the gated angle: 2.5 for CLIP, 2.0 for MoCo (Wang et al., App.
    /// B.2).
    pub gate: f64,
    /// Numbers of levels for HierarCaps' widening ball. Each number is measured separately.
    pub steps: Vec<usize>,
    /// Number of queries of each kind that `part_retrieval` draws at random. `None`: every photo and box is a query.
    pub queries: Option<usize>,
    /// If true, a data set with absent photos or classes is measured on the available part, and the records state the
    /// size of this part. If false, an absent photo or class is an error, because the number would not be comparable.
    pub partial: bool,
    /// Seed of the bootstrap intervals, of the shuffled baselines and of the drawn queries.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            prompts: "photo".into(),
            templates: prompts::PHOTO.iter().map(|&t| t.to_owned()).collect(),
            score: Score::default(),
            crop: EvalCrop::Center,
            gate: 2.5,
            steps: vec![50],
            queries: None,
            partial: false,
            seed: 0,
        }
    }
}

/// Returns the benchmark called `name`.
///
/// # Errors
/// The name is unknown; the message lists the known ones.
pub fn find(name: &str) -> Result<&'static dyn Benchmark> {
    BENCHMARKS.find(name).copied().ok_or_else(|| Error::Invalid {
        name: "benchmark".into(),
        found: format!("`{name}`"),
        expected: BENCHMARKS.names(),
    })
}

impl<'a> Context<'a> {
    /// Creates the context of a run.
    pub fn new(
        embedder: &'a dyn EmbeddingModel,
        source: &'a dyn Source,
        graph: Option<&'a ClassGraph>,
        options: &'a Options,
    ) -> Self {
        let (left_out, curves) = (RefCell::default(), RefCell::default());
        let (candidates, chain_candidates) = (None, None);
        Self { embedder, source, graph, options, candidates, chain_candidates, left_out, curves }
    }

    /// Adds the taxa and labels of `candidates`, usually the samples of all splits, to the candidates.
    #[must_use]
    pub fn with_candidates(self, candidates: Option<&'a dyn Source>) -> Self {
        Self { candidates, ..self }
    }

    /// Adds the caption chains of `candidates` to the candidates of `hierarcaps`.
    #[must_use]
    pub fn with_chain_candidates(self, candidates: Option<&'a dyn Source>) -> Self {
        Self { chain_candidates: candidates, ..self }
    }

    /// Reads every sample. An unusable or missing sample is an error, because dropping it would silently change the
    /// number.
    ///
    /// With [`Options::partial`], samples whose photo file does not exist are left out and counted. Samples of the
    /// complete data set that the source lacks ([`Source::complete`]) are counted, too.
    pub(crate) fn samples(&self, benchmark: &'static str) -> Result<Vec<Sample>> {
        let total = self.source.len();
        let complete_len = self.source.complete().unwrap_or(total);
        if total != complete_len && !self.options.partial {
            return Err(Error::Missing {
                benchmark,
                missing: format!("a part of `{}`", self.source.name()),
                expected: format!(
                    "the data set has {complete_len} samples, {total} were found; use --partial to measure those"
                ),
            });
        }
        let (mut samples, mut broken, mut absent) = (Vec::with_capacity(total), Vec::new(), 0);
        for index in 0..total {
            match self.source.get(index).and_then(with_photo) {
                Ok(sample) => samples.push(sample),
                Err(it) if self.options.partial && it.cause == Cause::MissingFile => absent += 1,
                Err(it) => broken.push(it),
            }
        }
        if let Some(first) = broken.first() {
            return Err(Error::Broken { benchmark, count: broken.len(), total, first: first.to_string() });
        }
        let mut ids = HashSet::new();
        if let Some(duplicate) = samples.iter().find(|sample| !ids.insert(sample.id.as_str())) {
            return Err(Error::Invalid {
                name: format!("{benchmark}: id of a sample"),
                found: format!("`{}`, twice", duplicate.id),
                expected: "unique ids, because a duplicate sample changes the result".into(),
            });
        }
        if samples.is_empty() {
            return Err(Error::Missing {
                benchmark,
                missing: "every sample".into(),
                expected: match absent {
                    0 => "the data set (or this split of it) is empty".into(),
                    _ => format!("none of the {total} photos exists"),
                },
            });
        }
        if let Some(what) = self.source.left_out() {
            self.leaves_out(what);
        }
        if absent > 0 || total != complete_len {
            self.leaves_out(format!("{} of {complete_len} samples", samples.len()));
        }
        Ok(samples)
    }

    /// Returns the classes that the data set lists, in its order; if it lists none, the classes of the samples and of
    /// [`Context::candidates`], sorted. A label that is not listed is an error. A listed class without a sample is also
    /// an error, unless [`Options::partial`] is set.
    pub(crate) fn classes(&self, benchmark: &'static str, samples: &[Sample]) -> Result<Vec<ClassEntry>> {
        let mut present = BTreeSet::new();
        for sample in samples {
            let label = sample.label.as_deref();
            present.insert(
                label.ok_or_else(|| lacking(benchmark, sample, "the label", "each sample needs a class label"))?,
            );
        }
        let classes = self.source.classes();
        if classes.is_empty() {
            let mut labels: BTreeSet<String> = present.iter().map(|&label| label.into()).collect();
            if let Some(source) = self.candidates {
                labels.extend((0..source.len()).filter_map(|index| source.get(index).ok()?.label));
            }
            let class = |label: String| ClassEntry { name: prompts::words(&label), label, taxon: Vec::new() };
            return Ok(labels.into_iter().map(class).collect());
        }
        let listed: BTreeSet<&str> = classes.iter().map(|class| class.label.as_str()).collect();
        if let Some(unknown) = present.iter().find(|label| !listed.contains(*label)) {
            return Err(Error::UnknownLabel {
                label: (*unknown).into(),
                known: "class of the data set",
                count: classes.len(),
                example: classes[0].label.clone(),
            });
        }
        let absent: Vec<&str> = listed.difference(&present).copied().collect();
        match absent.first() {
            None => {}
            Some(_) if self.options.partial => {
                self.leaves_out(format!("{} of {} classes have photos", present.len(), classes.len()));
            }
            Some(first) => {
                return Err(Error::Missing {
                    benchmark,
                    missing: format!("every photo of {} of {} classes (first: `{first}`)", absent.len(), classes.len()),
                    expected: "with --partial these classes remain candidates, and the records say so".into(),
                });
            }
        }
        Ok(classes)
    }

    /// Returns the curves of the last [`measure`], for benchmarks with [`Benchmark::draws_curves`]. A second call
    /// returns none.
    pub fn take_curves(&self) -> Vec<PrecisionRecallCurve> {
        self.curves.take()
    }

    /// Adds curves of the running benchmark.
    pub(crate) fn add_curves(&self, curves: impl IntoIterator<Item = PrecisionRecallCurve>) {
        self.curves.borrow_mut().extend(curves);
    }

    /// Records a description of what is left out; it is appended to the protocol of the records.
    pub(crate) fn leaves_out(&self, what: String) {
        self.left_out.borrow_mut().push(what);
    }
}

/// Returns the sample, or an error if its photo file does not exist.
fn with_photo(sample: Sample) -> std::result::Result<Sample, Broken> {
    match &sample.image {
        Some(ImageRef::File(path)) if !path.is_file() => {
            let detail = format!("photo `{}` does not exist", path.display());
            Err(Broken { sample: sample.id, cause: Cause::MissingFile, detail })
        }
        _ => Ok(sample),
    }
}

/// Error for a sample that lacks `what`.
pub(crate) fn lacking(benchmark: &'static str, sample: &Sample, what: &str, expected: &str) -> Error {
    Error::Missing { benchmark, missing: format!("{what} of sample `{}`", sample.id), expected: expected.into() }
}

const NEEDS_PHOTO: &str =
    "each sample needs one (some sources need the folder of the photos: --data-option images=FOLDER)";

/// Photos of all samples, in order.
pub(crate) fn images(benchmark: &'static str, samples: &[Sample]) -> Result<Vec<ImageRef>> {
    samples.iter().map(|it| it.image.clone().ok_or_else(|| lacking(benchmark, it, "the photo", NEEDS_PHOTO))).collect()
}

/// Decodes a photo. `total` is the number of photos; it is used only in the error.
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
