//! The command line of `eval`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::search::points;
use super::{CropArg, DATA, MODEL, OUTPUT};

#[derive(Args)]
pub(crate) struct Eval {
    /// A checkpoint folder, a run folder (its latest checkpoint), or a published model: its file, its folder, or its name on the hub.
    pub(crate) checkpoint: Option<PathBuf>,
    /// The text whose embedding is the root, such as Eukarya for a published RCME model (default: what the checkpoint was trained with).
    #[arg(long, value_name = "TEXT", help_heading = MODEL)]
    pub(crate) root_text: Option<String>,
    /// `KIND:PATH` (kinds: `conifer data list`), or a path whose kind shows: .jsonl, .csv, .tsv, .tar, a folder of class folders; `toy`; or
    /// `set:FOLDER`, an evaluation set called as its folder is (`conifer data sets`).
    #[arg(long, help_heading = DATA)]
    pub(crate) data: Option<String>,
    /// Only this split.
    #[arg(long, help_heading = DATA)]
    pub(crate) split: Option<String>,
    /// Settings of the source, `name=value`; lists by commas: `ranks=kingdom,phylum`.
    #[arg(long = "data-option", value_name = "NAME=VALUE", help_heading = DATA)]
    pub(crate) data_options: Vec<String>,
    /// Which benchmarks: see `conifer benchmarks`.
    #[arg(long = "benchmark", value_delimiter = ',', help_heading = DATA)]
    pub(crate) benchmarks: Vec<String>,
    /// Instead of one data set, all tables of a paper beside its published numbers: paper:hycoclip, paper:phyclip, paper:hierarcaps,
    /// paper:rcme, paper:visual-hierarchies, or a .toml of the same form. It sets prompts, crops, scores, gates and steps itself.
    #[arg(long, value_name = "SUITE", conflicts_with_all = ["data", "split", "data_options", "benchmarks", "tree", "prompts", "score", "crop", "gate", "steps"], help_heading = "Tables of a paper")]
    pub(crate) suite: Option<String>,
    /// With --suite: the folder in which each data set of the suite has a folder. With --data: another folder in which the photos may be
    /// that the data file names, besides its own folder.
    #[arg(long = "root", value_name = "DIR", help_heading = DATA)]
    pub(crate) roots: Vec<PathBuf>,
    /// How the report of a suite is written (default: by the ending of --out, else text).
    #[arg(long, value_enum, help_heading = "Tables of a paper")]
    pub(crate) format: Option<ReportFormat>,
    /// What the tables of a suite call the model (default: the last part of its path).
    #[arg(long, help_heading = "Tables of a paper")]
    pub(crate) name: Option<String>,
    /// Let the report of a suite take the place of the file that --out names.
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) overwrite: bool,
    /// Compare two result files, as --out writes them, on the queries they share: no model is needed.
    #[arg(long, num_args = 2, value_names = ["FIRST", "SECOND"], conflicts_with_all = ["checkpoint", "root_text", "data", "split", "data_options", "benchmarks", "suite", "tree", "prompts", "score", "crop", "gate", "steps", "partial", "out"], help_heading = "Two models")]
    pub(crate) compare: Vec<PathBuf>,
    /// File of `parent child` edges for the tree benchmarks.
    #[arg(long, help_heading = DATA)]
    pub(crate) tree: Option<PathBuf>,
    /// Prompt templates: photo, bare, imagenet7, imagenet80, openai:SET or meru:SET (SET as `conifer data sets` lists them), or a file with one template per line, {} for the class.
    #[arg(long, default_value = "photo", help_heading = "How it is measured")]
    pub(crate) prompts: String,
    /// Rank by what training used, or by the inner product as released MERU-family code does.
    #[arg(long, value_enum, default_value_t = ScoreArg::Similarity, help_heading = "How it is measured")]
    pub(crate) score: ScoreArg,
    /// How photos are cut; the MERU family squeezes for retrieval and cuts the centre for classification.
    #[arg(long, value_enum, default_value_t = CropArg::Center, help_heading = "How it is measured")]
    pub(crate) crop: CropArg,
    /// Gate of `part_retrieval`, radians: candidates with a smaller exterior angle (see `conifer search --help`) are left out; published: 2.5 for
    /// CLIP, 2.0 for MoCo.
    #[arg(long, default_value_t = 2.5, help_heading = "How it is measured")]
    pub(crate) gate: f64,
    /// Levels of the HierarCaps ball; several numbers, by commas, are measured side by side.
    #[arg(long, default_value = "50", value_delimiter = ',', value_parser = points, help_heading = "How it is measured")]
    pub(crate) steps: Vec<usize>,
    /// Measure on what is there where photos or classes of the data set are absent; the records say how much is left.
    #[arg(long, help_heading = DATA)]
    pub(crate) partial: bool,
    /// Seed of intervals and shuffled baselines.
    #[arg(long, default_value_t = 0, help_heading = "How it is measured")]
    pub(crate) seed: u64,
    /// Append the records to this JSONL file, with what produced them; of a suite, write the report to this file, which must not be there
    /// yet (but see --overwrite).
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) cache: Cache,
}

/// Where embeddings are kept between runs.
#[derive(Args)]
pub(crate) struct Cache {
    /// Keep embeddings in this folder, and take from it those of the same model and content (default: the user's cache folder).
    #[arg(long, value_name = "DIR", conflicts_with = "no_cache", help_heading = "Cache of embeddings")]
    cache: Option<PathBuf>,
    /// Embed everything anew, and keep nothing.
    #[arg(long, help_heading = "Cache of embeddings")]
    no_cache: bool,
}

impl Cache {
    /// The folder, if embeddings are to be kept.
    pub(crate) fn folder(&self) -> Option<PathBuf> {
        if self.no_cache { None } else { self.cache.clone().or_else(crate::cache::default_folder) }
    }
}

/// How the report of a suite is written.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportFormat {
    /// Aligned columns.
    Text,
    /// Markdown.
    Md,
    /// One line a cell.
    Csv,
    /// Tables for booktabs.
    Latex,
    /// The records, as --compare reads them.
    Jsonl,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ScoreArg {
    Similarity,
    Inner,
}
