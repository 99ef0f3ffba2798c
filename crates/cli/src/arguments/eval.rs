//! Command-line arguments of `eval`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::search::points;
use super::{CropArg, DATA, MODEL, OUTPUT};

#[derive(Subcommand)]
pub(crate) enum EvalCommand {
    /// Run benchmarks on one data set.
    Run(Box<EvalRunArgs>),
    /// Evaluate all tables of a paper beside its published numbers.
    Suite(SuiteArgs),
    /// Compare two result files written with `eval run --out` or `eval suite`, on the queries that both contain.
    Compare(CompareArgs),
}

#[derive(Args)]
pub(crate) struct EvalRunArgs {
    /// Checkpoint folder, run folder (its latest checkpoint), or a published model (file, folder, or name on the
    /// Hugging Face hub); or an embedding set that has the points of all texts and photos of the benchmark.
    pub(crate) checkpoint: PathBuf,
    /// Use the embedding of this text as the root, such as Eukarya for a published RCME model (default: the
    /// checkpoint's root).
    #[arg(long, value_name = "TEXT", help_heading = MODEL)]
    pub(crate) root_text: Option<String>,
    /// Data set as `KIND:PATH` (`conifer data list` shows the kinds), or a path whose kind can be inferred (.jsonl,
    /// .csv, .tsv, .tar, a folder of class folders), or `toy`, or `set:FOLDER` for an evaluation set (`conifer data
    /// sets`).
    #[arg(long, help_heading = DATA)]
    pub(crate) data: String,
    /// Use only this split.
    #[arg(long, help_heading = DATA)]
    pub(crate) split: Option<String>,
    /// Classify the photos of a split among the labels and taxa of all splits of the data, instead of those of the
    /// split (`zero_shot_classification`, `hierarchical_classification`, `taxonomic_ranks`).
    #[arg(long, requires = "split", help_heading = DATA)]
    pub(crate) all_classes: bool,
    /// Option of the data source as `name=value`; separate list items by commas: `ranks=kingdom,phylum`.
    #[arg(long = "data-option", value_name = "NAME=VALUE", help_heading = DATA)]
    pub(crate) data_options: Vec<String>,
    /// Benchmarks to run; see `conifer benchmarks`.
    #[arg(long = "benchmark", value_delimiter = ',', required = true, help_heading = DATA)]
    pub(crate) benchmarks: Vec<String>,
    /// Additional folder that photos may be read from, besides the folder of the data file.
    #[arg(long = "root", value_name = "DIR", help_heading = DATA)]
    pub(crate) roots: Vec<PathBuf>,
    /// Data set whose caption chains are candidates of `hierarcaps`, in addition to those of --data: `KIND:PATH` or a
    /// path, as --data.
    #[arg(long, value_name = "DATA", help_heading = DATA)]
    pub(crate) candidates: Option<String>,
    /// File with one `parent child` edge per line, for the benchmarks that need a class tree. A class may have several
    /// parents.
    #[arg(long, help_heading = DATA)]
    pub(crate) tree: Option<PathBuf>,
    /// Prompt templates: photo, bare, imagenet7, imagenet80, openai:SET or meru:SET (`conifer data sets` lists SET), or
    /// a file with one template per line, in which {} stands for the class.
    #[arg(long, default_value = "photo", help_heading = "Evaluation protocol")]
    pub(crate) prompts: String,
    /// Score to rank by: the similarity used in training, or the inner product that the released MERU-family code uses.
    #[arg(long, value_enum, default_value_t = ScoreArg::Similarity, help_heading = "Evaluation protocol")]
    pub(crate) score: ScoreArg,
    /// How to resize or crop photos to the model's input size; the MERU family squeezes for retrieval and crops for
    /// classification. Default: the crop that the checkpoint names, or else the centre.
    #[arg(long, value_enum, help_heading = "Evaluation protocol")]
    pub(crate) crop: Option<CropArg>,
    /// Gate of `part_retrieval`, in radians. Candidates with at least this exterior angle come first, ranked by cosine;
    /// the others follow, ranked by angle. Published: 2.5 for CLIP, 2.0 for MoCo.
    #[arg(long, default_value_t = 2.5, help_heading = "Evaluation protocol")]
    pub(crate) gate: f64,
    /// Number of levels of the HierarCaps ball; several comma-separated numbers are evaluated side by side.
    #[arg(long, default_value = "50", value_delimiter = ',', value_parser = points, help_heading = "Evaluation protocol")]
    pub(crate) steps: Vec<usize>,
    /// Number of photos, and of boxes, that `part_retrieval` draws at random as queries (the paper: 10000; default:
    /// all). More than the data has is an error; with --partial it uses all of them.
    #[arg(long, value_name = "N", help_heading = "Evaluation protocol")]
    pub(crate) queries: Option<usize>,
    /// Allow a data set with missing photos or classes and evaluate the rest; the records say how much was present.
    #[arg(long, help_heading = DATA)]
    pub(crate) partial: bool,
    /// Random seed of the confidence intervals, shuffled baselines and drawn queries.
    #[arg(long, default_value_t = 0, help_heading = "Evaluation protocol")]
    pub(crate) seed: u64,
    /// Write the precision-recall curves of `part_retrieval` to this folder, as `curves.csv` and as SVG charts. It must
    /// not contain a `curves.csv` yet.
    #[arg(long, value_name = "DIR", help_heading = OUTPUT)]
    pub(crate) curves: Option<PathBuf>,
    /// Append the records to this JSONL file, with the model and settings that produced them.
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) cache: CacheArgs,
}

#[derive(Args)]
pub(crate) struct SuiteArgs {
    /// Checkpoint folder, run folder (its latest checkpoint), or a published model (file, folder, or name on the
    /// Hugging Face hub).
    pub(crate) checkpoint: PathBuf,
    /// paper:hycoclip, paper:phyclip, paper:hierarcaps, paper:rcme, paper:visual-hierarchies, or a .toml file of the
    /// same form. The suite sets prompts, crops, scores, gates and steps.
    pub(crate) suite: String,
    /// Folder with one subfolder per data set.
    #[arg(long, value_name = "DIR", help_heading = DATA)]
    pub(crate) root: PathBuf,
    /// Use the embedding of this text as the root, such as Eukarya for a published RCME model (default: the
    /// checkpoint's root).
    #[arg(long, value_name = "TEXT", help_heading = MODEL)]
    pub(crate) root_text: Option<String>,
    /// Allow missing data sets, photos or classes and evaluate the rest; the records say how much was present.
    #[arg(long, help_heading = DATA)]
    pub(crate) partial: bool,
    /// Random seed of the confidence intervals and shuffled baselines.
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    /// Name of the model in the tables (default: the last part of its path).
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) name: Option<String>,
    /// Write the report to this file, which must not exist yet unless --overwrite is given.
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) out: Option<PathBuf>,
    /// Replace an existing --out file.
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) overwrite: bool,
    /// Format of the report (default: by the extension of --out, else text).
    #[arg(long, value_enum, help_heading = OUTPUT)]
    pub(crate) format: Option<ReportFormat>,
    #[command(flatten)]
    pub(crate) cache: CacheArgs,
}

#[derive(Args)]
pub(crate) struct CompareArgs {
    /// The first result file.
    pub(crate) first: PathBuf,
    /// The second result file.
    pub(crate) second: PathBuf,
    /// Random seed of the bootstrap.
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
}

/// Where embeddings are cached between runs.
#[derive(Args)]
pub(crate) struct CacheArgs {
    /// Cache embeddings in this folder and reuse those of the same model and content (default: the user's cache
    /// folder).
    #[arg(long, value_name = "DIR", conflicts_with = "no_cache", help_heading = "Cache of embeddings")]
    cache: Option<PathBuf>,
    /// Compute all embeddings and do not cache them.
    #[arg(long, help_heading = "Cache of embeddings")]
    no_cache: bool,
}

impl CacheArgs {
    /// The cache folder. `None` with `--no-cache`, or if no folder is given and the environment does not name the
    /// user's cache folder.
    pub(crate) fn folder(&self) -> Option<PathBuf> {
        if self.no_cache { None } else { self.cache.clone().or_else(crate::cache::default_folder) }
    }
}

/// Format of a suite's report.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportFormat {
    /// Aligned columns.
    Text,
    /// Markdown.
    Md,
    /// CSV with one table cell per line.
    Csv,
    /// LaTeX tables that use booktabs.
    Latex,
    /// The records, readable by `eval compare`.
    Jsonl,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ScoreArg {
    Similarity,
    Inner,
}
