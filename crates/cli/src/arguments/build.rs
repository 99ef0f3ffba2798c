//! Command-line arguments of `build`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::{DATA, DataArgs, OUTPUT};

const RULES: &str = "Rules";
const LLM: &str = "Language model";

#[derive(Subcommand)]
pub(crate) enum BuildCommand {
    /// Build caption hierarchies: four texts from general to specific for each caption, and four that contradict them.
    Hierarchies(Box<HierarchiesArgs>),
}

#[derive(Args)]
#[command(after_help = STAGES)]
pub(crate) struct HierarchiesArgs {
    #[command(flatten)]
    pub(crate) data: DataArgs,
    /// Write the hierarchies to this .jsonl file (grounded JSONL) or .csv file (the layout of HierarCaps); repeat it for
    /// both. Required unless --stage names an earlier stage.
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub(crate) out: Vec<PathBuf>,
    /// Folder for the stages' files, the report and the answers of the model (default: the first --out with `.work`
    /// appended).
    #[arg(long, value_name = "DIR", help_heading = OUTPUT)]
    pub(crate) work: Option<PathBuf>,
    /// Replace existing --out files.
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) overwrite: bool,
    /// Run only this stage (default: all, in order).
    #[arg(long, value_enum, help_heading = OUTPUT)]
    pub(crate) stage: Option<BuildStageArg>,
    /// CSV file with decisions on rows of an earlier run: columns id, decision (accept, edit, reject), tier1 to tier4.
    /// The report stage writes such a table, review.csv, to the work folder.
    #[arg(long, value_name = "FILE", help_heading = DATA)]
    pub(crate) review: Option<PathBuf>,
    /// Fewest words of a caption.
    #[arg(long, default_value_t = 10, help_heading = DATA)]
    pub(crate) min_words: usize,
    /// Keep captions that do not look English; their rows are marked with `other_language`. The rules are English only.
    #[arg(long, help_heading = DATA)]
    pub(crate) keep_other_languages: bool,
    /// Seed of all random choices.
    #[arg(long, default_value_t = 0, help_heading = DATA)]
    pub(crate) seed: u64,
    /// Folder with WordNet 3.0 (data.noun, index.noun), such as /usr/share/wordnet of Debian's package wordnet-base, for
    /// nouns that the built-in list lacks.
    #[arg(long, value_name = "DIR", help_heading = RULES)]
    pub(crate) wordnet: Option<PathBuf>,
    /// Hypernyms between the subject of a caption and the first tier: 1 makes `dog` of a poodle, 2 `animal`.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=9), help_heading = RULES)]
    pub(crate) hypernym_steps: u8,
    /// OpenAI-compatible endpoint that makes the tiers instead of the rules: `http://HOST:PORT[/PATH]`, where PATH is v1 if
    /// it is left out. The rules still check them.
    #[arg(long, value_name = "URL", requires = "llm_model", help_heading = LLM)]
    pub(crate) llm: Option<String>,
    /// Name of the model at the endpoint.
    #[arg(long, value_name = "NAME", requires = "llm", help_heading = LLM)]
    pub(crate) llm_model: Option<String>,
    /// Environment variable with the key of the endpoint, sent as `Authorization: Bearer KEY`.
    #[arg(long, value_name = "VAR", requires = "llm", help_heading = LLM)]
    pub(crate) llm_key_env: Option<String>,
    /// Interface of the endpoint.
    #[arg(long, value_enum, default_value_t = LlmApiArg::Completions, requires = "llm", help_heading = LLM)]
    pub(crate) llm_api: LlmApiArg,
    /// Requests at a time.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256), requires = "llm", help_heading = LLM)]
    pub(crate) llm_concurrency: u16,
    /// Longest time of a request, in seconds.
    #[arg(long, default_value_t = 120, value_parser = clap::value_parser!(u32).range(1..), requires = "llm", help_heading = LLM)]
    pub(crate) llm_timeout: u32,
    /// How often a failed request is repeated.
    #[arg(long, default_value_t = 5, requires = "llm", help_heading = LLM)]
    pub(crate) llm_retries: u32,
    /// Most requests a minute.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..), requires = "llm", help_heading = LLM)]
    pub(crate) llm_per_minute: Option<u32>,
    /// Most tokens of an answer.
    #[arg(long, default_value_t = 96, requires = "llm", help_heading = LLM)]
    pub(crate) llm_max_tokens: u32,
    /// Hierarchies that the grow stage continues, instead of those of the seeds stage: grounded JSONL, as this command
    /// writes it. For a model that is too small for instructions.
    #[arg(long, value_name = "FILE", requires = "llm", help_heading = LLM)]
    pub(crate) seeds: Option<PathBuf>,
    /// Captions that the seeds stage reads.
    #[arg(long, default_value_t = 5000, requires = "llm", conflicts_with = "seeds", help_heading = LLM)]
    pub(crate) seed_captions: usize,
    /// Hierarchies that the grow stage makes.
    #[arg(long, default_value_t = 10_000, requires = "llm", help_heading = LLM)]
    pub(crate) grow: usize,
    /// Draws of the model for a caption until one is valid.
    #[arg(long, default_value_t = 64, requires = "llm", help_heading = LLM)]
    pub(crate) candidates: u32,
    /// Select the captions, print how many prompts the model would get, and stop.
    #[arg(long, requires = "llm", conflicts_with = "stage", help_heading = LLM)]
    pub(crate) dry_run: bool,
}

/// A stage of `build hierarchies`.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum BuildStageArg {
    /// Select captions by length, characters and language.
    Captions,
    /// Make a few hierarchies with three instructions (only with --llm).
    Seeds,
    /// Continue lists of seeds (only with --llm).
    Grow,
    /// Complete each caption to four tiers.
    Complete,
    /// Make four negative tiers for each hierarchy.
    Negatives,
    /// Write --out, the report and the table for review.
    Report,
}

/// Interface of an LLM endpoint.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LlmApiArg {
    /// /completions: the prompt begins the answer, as in the paper.
    Completions,
    /// /chat/completions: the model gets the instruction only.
    Chat,
}

const STAGES: &str = "\
Files in the work folder:
  STAGE.jsonl    rows of the stages captions, seeds, grow, complete, negatives; each row names who made its texts
  report.html    what entered and left each stage, by cause, with examples; report.json has the same
  review.csv     100 rows for review by a person; fill in the decisions and pass the file to --review
  answers.jsonl  answers of the model; a repeated command asks for nothing twice";
