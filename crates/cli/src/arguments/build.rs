//! Command-line arguments of `build`.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};

use super::{CropArg, DATA, DataArgs, OUTPUT};

const RULES: &str = "Rules";
const LLM: &str = "Language model";
const DISTIL: &str = "Distilled model";
const PHRASES: &str = "Phrases";
const BOXES: &str = "Boxes";
const DETECTOR: &str = "Detector";

#[derive(Subcommand)]
pub(crate) enum BuildCommand {
    /// Build caption hierarchies: four texts from general to specific for each caption, and four that contradict them.
    Hierarchies(Box<HierarchiesArgs>),
    /// Build grounded phrases: the noun chunks and referring expressions of captions with the boxes in which a model
    /// finds them.
    Grounding(Box<GroundingArgs>),
}

#[derive(Args)]
#[command(
    after_help = STAGES,
    group = ArgGroup::new("tier_model").args(["llm", "distil", "distilled"]).multiple(true),
    group = ArgGroup::new("seeds_reader").args(["llm", "distil"]).multiple(true)
)]
pub(crate) struct HierarchiesArgs {
    #[command(flatten)]
    pub(crate) data: DataArgs,
    /// Write the hierarchies to this .jsonl file (grounded JSONL) or .csv file (the layout of HierarCaps); repeat it
    /// for both. Required unless --stage names an earlier stage.
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub(crate) out: Vec<PathBuf>,
    /// Folder for the files of the stages, the report and the answers of the model (default: the first --out with
    /// `.work` appended).
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
    /// Minimum number of words of a caption.
    #[arg(long, default_value_t = 10, help_heading = DATA)]
    pub(crate) min_words: usize,
    /// Keep captions that do not look English; their rows are marked with `other_language`. The rules are English only.
    #[arg(long, help_heading = DATA)]
    pub(crate) keep_other_languages: bool,
    /// Seed of all random choices.
    #[arg(long, default_value_t = 0, help_heading = DATA)]
    pub(crate) seed: u64,
    /// Folder with WordNet 3.0 (data.noun, index.noun), such as /usr/share/wordnet of Debian's package wordnet-base,
    /// for nouns that the built-in list lacks.
    #[arg(long, value_name = "DIR", help_heading = RULES)]
    pub(crate) wordnet: Option<PathBuf>,
    /// Maximum number of hypernym steps from the subject of a caption to the first tier: 1 makes `dog` of a poodle, 2
    /// `animal`.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=9), help_heading = RULES)]
    pub(crate) hypernym_steps: u8,
    /// Judge of entailment: `rules`, a folder with a BART that was fine-tuned on MNLI (config.json, model.safetensors,
    /// tokenizer.json), its name on the Hugging Face hub, such as facebook/bart-large-mnli, or the URL of an endpoint
    /// with the route `/predict` of text-embeddings-inference.
    #[arg(long, value_name = "JUDGE", default_value = "rules", help_heading = RULES)]
    pub(crate) judge: PathBuf,
    /// OpenAI-compatible endpoint whose model generates the tiers (default: the rules generate them):
    /// `http://HOST:PORT[/PATH]`, where PATH is v1 if it is left out. --judge checks the tiers in both cases.
    #[arg(long, value_name = "URL", requires = "llm_model", help_heading = LLM)]
    pub(crate) llm: Option<String>,
    /// Name of the model at the endpoint.
    #[arg(long, value_name = "NAME", requires = "llm", help_heading = LLM)]
    pub(crate) llm_model: Option<String>,
    /// Environment variable with the key of the endpoint, sent as `Authorization: Bearer KEY`.
    #[arg(long, value_name = "VAR", requires = "llm", help_heading = LLM)]
    pub(crate) llm_key_env: Option<String>,
    /// HTTP API of the endpoint.
    #[arg(long, value_enum, default_value_t = LlmApiArg::Completions, requires = "llm", help_heading = LLM)]
    pub(crate) llm_api: LlmApiArg,
    /// Maximum number of concurrent requests.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256), requires = "llm", help_heading = LLM)]
    pub(crate) llm_concurrency: u16,
    /// Timeout of a request in seconds.
    #[arg(long, default_value_t = 120, value_parser = clap::value_parser!(u32).range(1..), requires = "llm", help_heading = LLM)]
    pub(crate) llm_timeout: u32,
    /// Maximum number of repetitions of a failed request.
    #[arg(long, default_value_t = 5, requires = "llm", help_heading = LLM)]
    pub(crate) llm_retries: u32,
    /// Maximum number of requests per minute (default: no limit).
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..), requires = "llm", help_heading = LLM)]
    pub(crate) llm_per_minute: Option<u32>,
    /// Maximum number of tokens of an answer.
    #[arg(long, default_value_t = 96, requires = "llm", help_heading = LLM)]
    pub(crate) llm_max_tokens: u32,
    /// Hierarchies that the grow stage continues, instead of those of the seeds stage: grounded JSONL, as this command
    /// writes it. For a model that is too small for instructions. Without --llm, those that --distil learns from.
    #[arg(long, value_name = "FILE", requires = "seeds_reader", help_heading = LLM)]
    pub(crate) seeds: Option<PathBuf>,
    /// Maximum number of captions that the seeds stage reads.
    #[arg(long, default_value_t = 5000, requires = "llm", conflicts_with = "seeds", help_heading = LLM)]
    pub(crate) seed_captions: usize,
    /// Number of hierarchies that the grow stage makes.
    #[arg(long, default_value_t = 10_000, requires = "llm", help_heading = LLM)]
    pub(crate) grow: usize,
    /// Maximum number of draws of the model for a caption; the first valid one is used.
    #[arg(long, default_value_t = 64, requires = "tier_model", help_heading = LLM)]
    pub(crate) candidates: u32,
    /// Select the captions, print how many prompts the model would get, and stop.
    #[arg(long, requires = "llm", conflicts_with = "stage", help_heading = LLM)]
    pub(crate) dry_run: bool,
    /// T5 that is fine-tuned on the hierarchies of the grow stage (or of --seeds, without --llm) and then makes the
    /// tiers of all captions: a folder with config.json, model.safetensors and tokenizer.json, its name on the Hugging
    /// Face hub, such as google/flan-t5-base, or the config.json of a new model.
    #[arg(long, value_name = "MODEL", conflicts_with = "distilled", help_heading = DISTIL)]
    pub(crate) distil: Option<PathBuf>,
    /// T5 that an earlier run with --distil wrote (`distilled` in its work folder): makes the tiers without training.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["llm", "seeds"], help_heading = DISTIL)]
    pub(crate) distilled: Option<PathBuf>,
    /// Number of passes of --distil over the hierarchies.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000), requires = "distil", help_heading = DISTIL)]
    pub(crate) distil_epochs: u32,
    /// Number of hierarchies of an update of --distil.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=65536), requires = "distil", help_heading = DISTIL)]
    pub(crate) distil_batch: u32,
    /// Learning rate of --distil (AdamW, constant, without weight decay).
    #[arg(long, default_value_t = 1e-3, value_parser = learning_rate, requires = "distil", help_heading = DISTIL)]
    pub(crate) distil_lr: f64,
}

fn learning_rate(text: &str) -> Result<f64, String> {
    let rate = text.parse::<f64>().ok().filter(|rate| *rate > 0.0 && *rate <= 1.0);
    rate.ok_or_else(|| "expected a number above 0, at most 1".to_owned())
}

#[derive(Args)]
#[command(after_help = GROUNDING_STAGES)]
pub(crate) struct GroundingArgs {
    #[command(flatten)]
    pub(crate) data: DataArgs,
    /// Model that compares phrases with boxes: a checkpoint folder, a run folder (its latest checkpoint), or a
    /// published model (file, folder, or name on the Hugging Face hub). Required for the stage rescore.
    #[arg(long, value_name = "MODEL", help_heading = BOXES)]
    pub(crate) checkpoint: Option<PathBuf>,
    /// Write the photos with grounded phrases to this .jsonl file (grounded JSONL). Required unless --stage names an
    /// earlier stage.
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub(crate) out: Option<PathBuf>,
    /// Folder for the files of the stages and the report (default: --out with `.work` appended).
    #[arg(long, value_name = "DIR", help_heading = OUTPUT)]
    pub(crate) work: Option<PathBuf>,
    /// Replace an existing --out file.
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) overwrite: bool,
    /// Run only this stage (default: all, in order).
    #[arg(long, value_enum, help_heading = OUTPUT)]
    pub(crate) stage: Option<GroundingStageArg>,
    /// JSONL file with the noun chunks of the captions by another program, instead of the built-in chunker: {"caption":
    /// TEXT, "chunks": [[START, END], ...]} in each line, in characters, and perhaps "expressions", one for each chunk
    /// or null. bench/spacy_chunks.py writes those of spaCy.
    #[arg(long, value_name = "FILE", help_heading = PHRASES)]
    pub(crate) chunks: Option<PathBuf>,
    /// Make phrases of noun chunks only ("a dog"), without referring expressions ("a dog with a red collar"), which
    /// have the box of their chunk.
    #[arg(long, help_heading = PHRASES)]
    pub(crate) no_expressions: bool,
    /// File with head nouns of phrases that are removed, one per line (default: a built-in list of abstract nouns).
    #[arg(long, value_name = "FILE", help_heading = PHRASES)]
    pub(crate) abstract_nouns: Option<PathBuf>,
    /// Read captions that do not look English. The built-in chunker is English only.
    #[arg(long, help_heading = PHRASES)]
    pub(crate) keep_other_languages: bool,
    /// JSONL file with the boxes of a detector, instead of windows over the whole photo: {"image": "1.jpg", "width":
    /// 500, "height": 375, "boxes": [[LEFT, TOP, RIGHT, BOTTOM], ...]} in each line, in pixels, or in fractions without
    /// a size.
    #[arg(long, value_name = "FILE", conflicts_with = "detector", help_heading = BOXES)]
    pub(crate) proposals: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) detector: DetectorArgs,
    /// Minimum width and height of a box, in pixels of the photo.
    #[arg(long, value_name = "PIXELS", default_value_t = 32.0, value_parser = non_negative, help_heading = BOXES)]
    pub(crate) min_box: f32,
    /// Weight of the natural logarithm of the box's share of the photo, which is added to the similarity: a positive
    /// weight favours larger boxes.
    #[arg(long, value_name = "WEIGHT", default_value_t = 0.0, value_parser = finite, help_heading = BOXES)]
    pub(crate) area_weight: f32,
    /// Keep phrases with at least this calibrated probability of belonging to their photo.
    #[arg(long, value_name = "P", default_value_t = 0.65, value_parser = fraction, help_heading = BOXES)]
    pub(crate) min_probability: f32,
    /// Keep phrases whose box has at least this similarity, as the model computes it, whatever their probability.
    #[arg(long, value_name = "SIMILARITY", value_parser = finite, allow_negative_numbers = true, conflicts_with = "min_probability", help_heading = BOXES)]
    pub(crate) min_similarity: Option<f32>,
    /// How to resize or crop boxes to the model's input size (default: as the checkpoint names for photos).
    #[arg(long, value_enum, help_heading = BOXES)]
    pub(crate) crop: Option<CropArg>,
    /// Number of boxes per forward pass.
    #[arg(long, default_value_t = 32, help_heading = BOXES)]
    pub(crate) batch_size: usize,
    /// Seed of the photos on which the calibration is checked.
    #[arg(long, default_value_t = 0, help_heading = DATA)]
    pub(crate) seed: u64,
}

/// A detector of the user in place of windows.
#[derive(Args)]
pub(crate) struct DetectorArgs {
    /// ONNX file of a detector whose boxes replace the windows: outputs boxes, scores and labels (torchvision), logits
    /// and pred_boxes (DETR), or one output [1, 4 + C, N] or [1, N, 5 + C] (YOLO). Needs the ONNX Runtime library
    /// (`pip install onnxruntime`); ORT_DYLIB_PATH names its file.
    #[arg(long, value_name = "FILE", help_heading = DETECTOR)]
    pub(crate) detector: Option<PathBuf>,
    /// Width and height to which photos are resized, if the file accepts any size.
    #[arg(long, value_name = "PIXELS", value_parser = clap::value_parser!(u32).range(32..=4096), requires = "detector", help_heading = DETECTOR)]
    pub(crate) detector_size: Option<u32>,
    /// Minimum score of a box.
    #[arg(long, value_name = "SCORE", default_value_t = 0.1, value_parser = fraction, requires = "detector", help_heading = DETECTOR)]
    pub(crate) detector_min_score: f32,
    /// Maximum intersection over union of two boxes of the same class; the box with the lower score is dropped. Only
    /// for the outputs of YOLO.
    #[arg(long, value_name = "IOU", default_value_t = 0.5, value_parser = fraction, requires = "detector", help_heading = DETECTOR)]
    pub(crate) detector_max_overlap: f32,
    /// How the logits of DETR become scores.
    #[arg(long, value_enum, default_value_t = DetectorLogitsArg::Softmax, requires = "detector", help_heading = DETECTOR)]
    pub(crate) detector_logits: DetectorLogitsArg,
    /// Normalisation of pixels (default: imagenet for the outputs of DETR, unit for the others).
    #[arg(long, value_enum, requires = "detector", help_heading = DETECTOR)]
    pub(crate) detector_pixels: Option<DetectorPixelsArg>,
}

/// How logits become scores.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DetectorLogitsArg {
    /// Softmax whose last column means that there is no object (DETR).
    Softmax,
    /// The sigmoid of each column (Deformable DETR, RT-DETR).
    Sigmoid,
}

/// Normalisation of the pixels of a detector.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DetectorPixelsArg {
    /// Pixels in [0, 1].
    Unit,
    /// ImageNet's mean and standard deviation.
    Imagenet,
}

/// A stage of `build grounding`.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum GroundingStageArg {
    /// Find the noun chunks and referring expressions of the captions.
    Phrases,
    /// Propose boxes for each photo.
    Boxes,
    /// Compare each box with each phrase of its photo.
    Rescore,
    /// Keep the noun chunks whose best box reaches the threshold, with their expressions.
    Keep,
    /// Write --out and the report.
    Report,
}

fn finite(text: &str) -> Result<f32, String> {
    let number: f32 = text.parse().map_err(|_| "expected a number".to_owned())?;
    if number.is_finite() { Ok(number) } else { Err("expected a finite number".to_owned()) }
}

fn non_negative(text: &str) -> Result<f32, String> {
    finite(text).ok().filter(|it| *it >= 0.0).ok_or_else(|| "expected a number of at least 0".to_owned())
}

fn fraction(text: &str) -> Result<f32, String> {
    finite(text).ok().filter(|it| (0.0..=1.0).contains(it)).ok_or_else(|| "expected a number from 0 to 1".to_owned())
}

/// A stage of `build hierarchies`.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum BuildStageArg {
    /// Select captions by length, characters and language.
    Captions,
    /// Make a few hierarchies with three instructions (only with --llm), or read those of --seeds.
    Seeds,
    /// Continue lists of seeds (only with --llm).
    Grow,
    /// Fine-tune a small model on the hierarchies (only with --distil).
    Distil,
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
    /// /chat/completions: the model gets the prompt as a message.
    Chat,
}

const STAGES: &str = "\
Files in the work folder:
  STAGE.jsonl    rows of the stages captions, seeds, grow, complete, negatives; each row names who made its texts
  distil.jsonl   loss of each pass of --distil; the folder distilled has the model
  report.html    what entered and left each stage, by cause, with examples; report.json has the same
  review.csv     100 rows for review by a person; fill in the decisions and pass the file to --review
  answers.jsonl  answers of the model; a repeated command asks for nothing twice";

const GROUNDING_STAGES: &str = "\
Files in the work folder:
  STAGE.jsonl       rows of the stages phrases, boxes, rescore, keep; each has the fields of the stage before
  report.html       what entered and left each stage, by cause, with examples; report.json has the same
  calibration.json  how similarities become probabilities, checked on the other half of the photos";
