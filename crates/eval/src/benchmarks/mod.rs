//! The protocols. One file each, one line in [`BENCHMARKS`] each.

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
pub mod prompts;
mod sugarcrepe;
mod taxonomic_ranks;
mod vg_attribution;
mod vl_checklist;
mod zero_shot_classification;

use std::cell::RefCell;
use std::collections::{BTreeSet, HashSet};

use conifer_data::hierarchy::Tree;
use conifer_data::transform::EvalCrop;
use conifer_data::{Broken, Cause, ClassEntry, ImageRef, Picture, PixelLimits, Sample, Source};
use conifer_space::Registry;

use crate::{Embedder, Error, Record, Result, Score};

pub use hierarcaps::{HierarcapsPoints, hierarcaps_records};

/// Every benchmark. CLI help, documentation tables and conformance tests iterate over this list.
///
/// A crate outside this workspace adds its own with [`Registry::register`].
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
        &hyperlex::HyperLex,
        &breeds::Breeds,
    ],
);

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
    /// Whether it asks with [`Options::templates`].
    fn prompts(&self) -> bool {
        false
    }
    /// Whether it looks at [`Context::tree`], where there is one.
    fn looks_at_tree(&self) -> bool {
        self.needs().contains(&Input::ClassTree)
    }
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
    /// A wrong caption beside the caption of each sample.
    WrongCaptions,
    /// A chain of a general and a specific text, with people's grade of it, for each sample.
    GradedChains,
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
            Self::WrongCaptions => "wrong captions",
            Self::GradedChains => "graded chains",
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
    /// What was left out, in words, where [`Options::partial`] allows it; [`measure`] adds it to the protocol.
    left_out: RefCell<Vec<String>>,
}

/// Runs a benchmark. What [`Options::partial`] let it leave out stands in the protocol of every record.
///
/// # Errors
/// Those of [`Benchmark::run`].
pub fn measure(benchmark: &dyn Benchmark, context: &Context<'_>) -> Result<Vec<Record>> {
    context.left_out.take();
    let mut records = benchmark.run(context)?;
    let left_out = context.left_out.take();
    if !left_out.is_empty() {
        let note = format!(", partial: {}", left_out.join(", "));
        records.iter_mut().for_each(|record| record.protocol += &note);
    }
    Ok(records)
}

/// Settings that published evaluators disagree on, each of them named in the records.
#[derive(Clone, Debug)]
pub struct Options {
    /// What the records call the prompts.
    pub prompts: String,
    /// Prompt templates with `{}` for the class name.
    pub templates: Vec<String>,
    /// Which similarity ranks.
    pub score: Score,
    /// How photographs are cut.
    pub crop: EvalCrop,
    /// Least angle at which the gated angle lets a candidate pass, radians: 2.5 for CLIP, 2.0 for MoCo (Wang et al., App. B.2).
    pub gate: f64,
    /// Levels of HierarCaps' widening ball: one number, or several to compare.
    pub steps: Vec<usize>,
    /// Measure on what is there, where photos or classes of a data set are absent: the records say how much is left. Without it
    /// an absent photo or class is an error, since the number would not be comparable.
    pub partial: bool,
    /// Seed of bootstrap intervals and of shuffled baselines.
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
            partial: false,
            seed: 0,
        }
    }
}

/// The benchmark called `name`.
///
/// # Errors
/// An unknown name; the message lists the known ones.
pub fn find(name: &str) -> Result<&'static dyn Benchmark> {
    BENCHMARKS.find(name).copied().ok_or_else(|| Error::Argument {
        name: "benchmark".into(),
        found: format!("`{name}`"),
        expected: BENCHMARKS.names(),
    })
}

impl<'a> Context<'a> {
    /// Everything for a run.
    pub fn new(
        embedder: &'a dyn Embedder,
        source: &'a dyn Source,
        tree: Option<&'a Tree>,
        options: &'a Options,
    ) -> Self {
        Self { embedder, source, tree, options, left_out: RefCell::default() }
    }

    /// Reads every sample. One that cannot be used is an error: dropping it would change the number in silence. With
    /// [`Options::partial`] those whose photo is not there are left out, and counted, as are those that the data set has beyond
    /// the source ([`Source::complete`]).
    pub(crate) fn samples(&self, benchmark: &'static str) -> Result<Vec<Sample>> {
        let total = self.source.len();
        let whole = self.source.complete().unwrap_or(total);
        if total != whole && !self.options.partial {
            return Err(Error::Missing {
                benchmark,
                missing: format!("the whole of `{}`", self.source.name()),
                expected: format!("it has {whole} samples, {total} are here; with --partial those are measured"),
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
        if let Some(twice) = samples.iter().find(|sample| !ids.insert(sample.id.as_str())) {
            return Err(Error::Argument {
                name: format!("{benchmark}: id of a sample"),
                found: format!("`{}`, twice", twice.id),
                expected: "one sample of each id: a sample that counts twice changes the number".into(),
            });
        }
        if samples.is_empty() {
            return Err(Error::Missing {
                benchmark,
                missing: "every sample".into(),
                expected: match absent {
                    0 => "the data set (or this split of it) is empty".into(),
                    _ => format!("none of the {total} photos is there"),
                },
            });
        }
        if let Some(what) = self.source.left_out() {
            self.leaves_out(what);
        }
        if absent > 0 || total != whole {
            self.leaves_out(format!("{} of {whole} samples", samples.len()));
        }
        Ok(samples)
    }

    /// The classes of the data set, in its order; those of the samples where the source does not list them. A label that is
    /// not listed is an error; a listed class without a sample is one, too, unless [`Options::partial`] is set.
    pub(crate) fn classes(&self, benchmark: &'static str, samples: &[Sample]) -> Result<Vec<ClassEntry>> {
        let mut there = BTreeSet::new();
        for sample in samples {
            let label = sample.label.as_deref();
            there.insert(
                label.ok_or_else(|| lacking(benchmark, sample, "the label", "each sample needs a class label"))?,
            );
        }
        let classes = self.source.classes();
        if classes.is_empty() {
            let class =
                |label: &&str| ClassEntry { label: (*label).into(), name: prompts::words(label), taxon: Vec::new() };
            return Ok(there.iter().map(class).collect());
        }
        let listed: BTreeSet<&str> = classes.iter().map(|class| class.label.as_str()).collect();
        if let Some(unknown) = there.iter().find(|label| !listed.contains(*label)) {
            return Err(Error::UnknownLabel {
                label: (*unknown).into(),
                known: "class of the data set",
                count: classes.len(),
                example: classes[0].label.clone(),
            });
        }
        let absent: Vec<&str> = listed.difference(&there).copied().collect();
        match absent.first() {
            None => {}
            Some(_) if self.options.partial => {
                self.leaves_out(format!("{} of {} classes have photos", there.len(), classes.len()));
            }
            Some(first) => {
                return Err(Error::Missing {
                    benchmark,
                    missing: format!("every photo of {} of {} classes, first `{first}`,", absent.len(), classes.len()),
                    expected: "with --partial they stay candidates, and the records say so".into(),
                });
            }
        }
        Ok(classes)
    }

    /// Notes what is left out, for the protocol of the records.
    pub(crate) fn leaves_out(&self, what: String) {
        self.left_out.borrow_mut().push(what);
    }
}

/// The sample, unless it names a photo file that is not there.
fn with_photo(sample: Sample) -> std::result::Result<Sample, Broken> {
    match &sample.image {
        Some(ImageRef::File(path)) if !path.is_file() => {
            let detail = format!("photo `{}` is not there", path.display());
            Err(Broken { sample: sample.id, cause: Cause::MissingFile, detail })
        }
        _ => Ok(sample),
    }
}

/// The error for samples without something.
pub(crate) fn lacking(benchmark: &'static str, sample: &Sample, what: &str, expected: &str) -> Error {
    Error::Missing { benchmark, missing: format!("{what} of sample `{}`", sample.id), expected: expected.into() }
}

const NEEDS_PHOTO: &str = "each sample needs one (some sources are told where photos lie: --data-option images=FOLDER)";

/// Photographs of all samples, in order.
pub(crate) fn images(benchmark: &'static str, samples: &[Sample]) -> Result<Vec<ImageRef>> {
    samples.iter().map(|it| it.image.clone().ok_or_else(|| lacking(benchmark, it, "the photo", NEEDS_PHOTO))).collect()
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
