//! The command line: what can be typed. Meaning is given by `commands/`.

mod search;
mod serve;
mod store;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use search::points;
pub(crate) use search::{Only, Query, Search, Traverse};
pub(crate) use serve::{Door, Front, Serve};
pub(crate) use store::{Engine, ExportSet, KeptAs, Store};

use crate::device::DeviceArg;

/// Train, evaluate, search and look into hierarchical vision-language embeddings.
#[derive(Parser)]
#[command(name = "conifer", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    /// Results as JSON on stdout, for machines.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Where training and embedding run.
    #[arg(long, global = true, value_enum, default_value_t)]
    pub(crate) device: DeviceArg,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Train PHyCLIP on the toy world from small towers, measure it and write a report: about two minutes, no download.
    Quickstart(Quickstart),
    /// Look at data, import other formats, write the toy world to disk.
    #[command(subcommand)]
    Data(Data),
    /// Train the experiment of a config, or go on with a run.
    Train(Train),
    /// Turn photos and texts into a set of embeddings on disk.
    Embed(Embed),
    /// Measure a checkpoint on a data set.
    Eval(Box<Eval>),
    /// The rows of an embedding set nearest to a text, a photo or a row.
    Search(Search),
    /// Keep embeddings in a folder that grows and shrinks: search and traverse read it as they read a set.
    #[command(subcommand)]
    Store(Store),
    /// Write an embedding set or store for another search engine.
    Export(ExportSet),
    /// What lies on the way from a text, a photo or a row to the root, or to another row.
    Traverse(Traverse),
    /// Answer searches, traversals and thumbnails over HTTP, and show the explorer.
    Serve(Box<Serve>),
    /// Answer for several `conifer serve --shard I/N` as one index would.
    Front(Front),
    /// Published checkpoints to conifer's folders, and back.
    Convert(Convert),
    /// List the training methods.
    Methods,
    /// List the benchmarks.
    Benchmarks,
    /// List the encoders and their presets: `kind` and `preset` of `model.visual` and `model.textual`.
    Encoders,
    /// List the spaces: `manifold.kind`.
    Spaces,
    /// Print, check or explain a config.
    #[command(subcommand)]
    Config(Config),
    /// Print a completion script for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

#[derive(Args)]
pub(crate) struct Quickstart {
    /// Folder for the run, the checkpoint and report.html.
    #[arg(long, default_value = "runs/quickstart")]
    pub(crate) out: PathBuf,
    /// Start anew when the folder holds an earlier run, which is deleted.
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Training steps.
    #[arg(long)]
    pub(crate) steps: Option<usize>,
    /// Measure on the validation scenes instead of the test scenes: settings are compared there.
    #[arg(long)]
    pub(crate) validation: bool,
    /// Measure this checkpoint and train nothing.
    #[arg(long, value_name = "CHECKPOINT")]
    pub(crate) measure: Option<PathBuf>,
}

#[derive(Subcommand)]
pub(crate) enum Data {
    /// List the kinds of sources and the formats that can be imported.
    List,
    /// List the evaluation data sets of the papers: what each folder has to hold, and where to get it.
    Sets {
        /// The folder of all data sets: says which are there.
        #[arg(long)]
        root: Option<PathBuf>,
    },
    /// Write the toy world as grounded JSONL with PNG files, and as class folders.
    Toy {
        /// Folder to write to.
        #[arg(long)]
        out: PathBuf,
        /// Number of scenes in the training split.
        #[arg(long, default_value_t = 1000)]
        size: usize,
        /// Pixels per side.
        #[arg(long, default_value_t = 96)]
        resolution: u32,
        /// Seed of the world.
        #[arg(long, default_value_t = 0)]
        seed: u64,
    },
    /// Turn another format into grounded JSONL or shards.
    Import(Import),
    /// Turn a data set that conifer reads into grounded JSONL or shards.
    Export(Export),
    /// Which class is a part of which, from the boxes of photos: a class graph, printed as an indented tree.
    Parts(Parts),
    /// Print a published tree of classes, or a part of it, and write its edges for --tree and `eval.tree`.
    Tree(Tree),
    /// Read every sample of a data set and count what is broken, by cause.
    Check {
        #[command(flatten)]
        data: DataSet,
        /// Decode every photo too.
        #[arg(long)]
        pixels: bool,
    },
}

#[derive(Args)]
pub(crate) struct Import {
    /// The format: see `conifer data list`.
    pub(crate) format: String,
    /// A file or folder it reads: `--input captions=captions_val2017.json`; names: `conifer data list`.
    #[arg(long = "input", value_name = "NAME=PATH", required = true)]
    pub(crate) inputs: Vec<String>,
    #[command(flatten)]
    pub(crate) target: Target,
    /// Split of the samples for which the files name none.
    #[arg(long)]
    pub(crate) split: Option<String>,
}

#[derive(Args)]
pub(crate) struct Parts {
    /// Files of boxes: OpenImages .csv, COCO or LVIS .json, grounded .jsonl; several are one data set.
    #[arg(long, value_name = "FILE", num_args = 1.., required = true)]
    pub(crate) boxes: Vec<PathBuf>,
    /// Folder for parts.json, edges.tsv, tree.tsv, tree.txt, tree.svg and the state from which a run that was stopped goes on.
    #[arg(long)]
    pub(crate) out: PathBuf,
    /// Display names of the labels: class-descriptions-boxable.csv.
    #[arg(long, value_name = "FILE")]
    pub(crate) names: Option<PathBuf>,
    /// Pairs of boxes that make a relation of classes, at least (LVIS: 5).
    #[arg(long, default_value_t = 50)]
    pub(crate) min_count: u64,
    /// Share of the boxes of a class that have such a part, at least (LVIS: 0.05).
    #[arg(long, default_value_t = 0.1)]
    pub(crate) min_share: f64,
    /// Share of a part's area that lies inside its whole, at least.
    #[arg(long, default_value_t = 0.8)]
    pub(crate) containment: f32,
    /// Share of the photo that a box covers, at least.
    #[arg(long, default_value_t = 0.01)]
    pub(crate) min_area: f32,
    /// Count boxes of several things (IsGroupOf) as parts too.
    #[arg(long)]
    pub(crate) keep_groups: bool,
}

#[derive(Args)]
pub(crate) struct Tree {
    /// The form and the file or folder: `wordnet:/usr/share/wordnet`; forms: `conifer data list`.
    #[arg(value_name = "KIND:PATH")]
    pub(crate) tree: String,
    /// Only this node and what is below it, by its identifier or a word that no other node has.
    #[arg(long, value_name = "NODE")]
    pub(crate) below: Option<String>,
    /// Levels below the first that are printed and written, at most.
    #[arg(long, value_name = "LEVELS")]
    pub(crate) depth: Option<usize>,
    /// Write identifiers, not words.
    #[arg(long)]
    pub(crate) ids: bool,
    /// Write the edges here, a parent, a tab and a child a line, instead of printing the tree; a file called .svg gets a drawing.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct Export {
    #[command(flatten)]
    pub(crate) data: DataSet,
    #[command(flatten)]
    pub(crate) target: Target,
}

/// Where samples are written, and in which form.
#[derive(Args)]
pub(crate) struct Target {
    /// The .jsonl file, or the folder for shards.
    #[arg(long)]
    pub(crate) out: PathBuf,
    /// The form.
    #[arg(long, value_enum, default_value_t = Form::Grounded)]
    pub(crate) to: Form,
    /// Most samples in a shard.
    #[arg(long, default_value_t = 10_000)]
    pub(crate) shard_samples: usize,
    /// Side of the white squares of `--to boxes`, pixels.
    #[arg(long, default_value_t = 224)]
    pub(crate) side: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// Grounded JSONL: every caption, phrase and box; photos stay where they are.
    Grounded,
    /// Plain image-text shards: photo, first caption, the whole record as JSON.
    Pairs,
    /// Shards as HyCoCLIP prepares GRIT: photo and boxes as white-padded squares.
    Boxes,
}

/// A data set on the command line.
#[derive(Args, Clone)]
pub(crate) struct DataSet {
    /// `KIND:PATH` (kinds: `conifer data list`), or a path whose kind shows: .jsonl, .csv, .tsv, .tar, a folder of class folders; `toy`; or
    /// `set:FOLDER`, an evaluation set called as its folder is (`conifer data sets`).
    #[arg(long)]
    pub(crate) data: String,
    /// Only this split.
    #[arg(long)]
    pub(crate) split: Option<String>,
    /// Settings of the source, `name=value`.
    #[arg(long = "data-option", value_name = "NAME=VALUE")]
    pub(crate) data_options: Vec<String>,
}

#[derive(Args)]
pub(crate) struct Train {
    /// The experiment (TOML). Not needed with --resume.
    pub(crate) config: Option<PathBuf>,
    /// Change a key of the config: `--set train.steps=100`.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Folder of the run: checkpoints, metrics.jsonl, TensorBoard events.
    #[arg(long)]
    pub(crate) out: Option<PathBuf>,
    /// Go on with the run in this folder, from its last checkpoint, exactly.
    #[arg(long, value_name = "RUN", conflicts_with_all = ["config", "set"])]
    pub(crate) resume: Option<PathBuf>,
    /// Shrink everything to run in seconds: does the experiment work at all?
    #[arg(long)]
    pub(crate) smoke: bool,
}

#[derive(Args)]
pub(crate) struct Embed {
    /// A checkpoint folder, a run folder (its latest checkpoint), or a published model: its file, its folder, or its name on the hub.
    pub(crate) checkpoint: PathBuf,
    /// The text whose embedding is the root, such as Eukarya for a published RCME model (default: what the checkpoint was trained with).
    #[arg(long, value_name = "TEXT")]
    pub(crate) root_text: Option<String>,
    #[command(flatten)]
    pub(crate) data: DataSet,
    /// Folder to write. A run that was stopped or killed goes on where it was when the same command is given again.
    #[arg(long)]
    pub(crate) out: PathBuf,
    /// Forget what a run that was stopped has left for --out, and start anew.
    #[arg(long)]
    pub(crate) overwrite: bool,
    /// How the points are stored: in half precision they take half the space on disk.
    #[arg(long, value_enum, default_value_t = ElementArg::F32)]
    pub(crate) dtype: ElementArg,
    /// Photos or texts that are embedded at a time: memory against speed.
    #[arg(long, value_name = "ROWS", default_value_t = 32, value_parser = rows)]
    pub(crate) batch_size: usize,
    /// What to embed of each sample.
    #[arg(long, value_delimiter = ',', default_value = "image,text")]
    pub(crate) views: Vec<ViewArg>,
    /// How photos are cut.
    #[arg(long, value_enum, default_value_t = CropArg::Center)]
    pub(crate) crop: CropArg,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ViewArg {
    /// The photo.
    Image,
    /// Each caption.
    Text,
    /// Each box of the photo.
    #[value(alias = "box_image")]
    BoxImage,
    /// Each phrase.
    #[value(alias = "box_text")]
    BoxText,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ElementArg {
    /// As computed.
    F32,
    /// Half the size, 11 significant bits, numbers up to 65,504.
    F16,
    /// Half the size, 8 significant bits, the range of f32.
    Bf16,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CropArg {
    /// Shorter side to size, centre cut out.
    Center,
    /// Both sides to size, aspect lost.
    Squeeze,
}

#[derive(Args)]
pub(crate) struct Eval {
    /// A checkpoint folder, a run folder (its latest checkpoint), or a published model: its file, its folder, or its name on the hub.
    pub(crate) checkpoint: Option<PathBuf>,
    /// The text whose embedding is the root, such as Eukarya for a published RCME model (default: what the checkpoint was trained with).
    #[arg(long, value_name = "TEXT")]
    pub(crate) root_text: Option<String>,
    /// `KIND:PATH` (kinds: `conifer data list`), or a path whose kind shows: .jsonl, .csv, .tsv, .tar, a folder of class folders; `toy`; or
    /// `set:FOLDER`, an evaluation set called as its folder is (`conifer data sets`).
    #[arg(long)]
    pub(crate) data: Option<String>,
    /// Only this split.
    #[arg(long)]
    pub(crate) split: Option<String>,
    /// Settings of the source, `name=value`.
    #[arg(long = "data-option", value_name = "NAME=VALUE")]
    pub(crate) data_options: Vec<String>,
    /// Which benchmarks: see `conifer benchmarks`.
    #[arg(long = "benchmark", value_delimiter = ',')]
    pub(crate) benchmarks: Vec<String>,
    /// Instead of one data set, all tables of a paper beside its published numbers: paper:hycoclip, paper:phyclip, paper:hierarcaps,
    /// paper:rcme, paper:visual-hierarchies, or a .toml of the same form. It sets prompts, crops, scores, gates and steps itself.
    #[arg(long, value_name = "SUITE", conflicts_with_all = ["data", "split", "data_options", "benchmarks", "tree", "prompts", "score", "crop", "gate", "steps"])]
    pub(crate) suite: Option<String>,
    /// The folder in which each data set of a suite has a folder.
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
    /// How the report of a suite is written (default: by the ending of --out, else text).
    #[arg(long, value_enum)]
    pub(crate) format: Option<ReportFormat>,
    /// What the tables of a suite call the model (default: the last part of its path).
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Let the report of a suite take the place of the file that --out names.
    #[arg(long)]
    pub(crate) overwrite: bool,
    /// Compare two result files, as --out writes them, on the queries they share: no model is needed.
    #[arg(long, num_args = 2, value_names = ["FIRST", "SECOND"], conflicts_with_all = ["checkpoint", "root_text", "data", "split", "data_options", "benchmarks", "suite", "tree", "prompts", "score", "crop", "gate", "steps", "partial", "out"])]
    pub(crate) compare: Vec<PathBuf>,
    /// File of `parent child` edges for the tree benchmarks.
    #[arg(long)]
    pub(crate) tree: Option<PathBuf>,
    /// Prompt templates: photo, bare, imagenet7, imagenet80, openai:SET or meru:SET (SET as `conifer data sets` lists them), or a file with one template per line, {} for the class.
    #[arg(long, default_value = "photo")]
    pub(crate) prompts: String,
    /// Rank by what training used, or by the inner product as released MERU-family code does.
    #[arg(long, value_enum, default_value_t = ScoreArg::Similarity)]
    pub(crate) score: ScoreArg,
    /// How photos are cut; the MERU family squeezes for retrieval and cuts the centre for classification.
    #[arg(long, value_enum, default_value_t = CropArg::Center)]
    pub(crate) crop: CropArg,
    /// Least angle (radians) at which `part_retrieval` lets a candidate pass its gate: published 2.5 for CLIP, 2.0 for MoCo.
    #[arg(long, default_value_t = 2.5)]
    pub(crate) gate: f64,
    /// Levels of the HierarCaps ball; several numbers, by commas, are measured side by side.
    #[arg(long, default_value = "50", value_delimiter = ',', value_parser = points)]
    pub(crate) steps: Vec<usize>,
    /// Measure on what is there where photos or classes of the data set are absent; the records say how much is left.
    #[arg(long)]
    pub(crate) partial: bool,
    /// Seed of intervals and shuffled baselines.
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    /// Append the records to this JSONL file, with what produced them; of a suite, write the report to this file, which must not be there
    /// yet (but see --overwrite).
    #[arg(long)]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) cache: Cache,
}

/// Where embeddings are kept between runs.
#[derive(Args)]
pub(crate) struct Cache {
    /// Keep embeddings in this folder, and take from it those of the same model and content (default: the user's cache folder).
    #[arg(long, value_name = "DIR", conflicts_with = "no_cache")]
    cache: Option<PathBuf>,
    /// Embed everything anew, and keep nothing.
    #[arg(long)]
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

#[derive(Args)]
pub(crate) struct Convert {
    /// A published checkpoint (.pth, .pt, .safetensors, the folder of a Hugging Face or open_clip model, or its name in the hub cache, such as
    /// openai/clip-vit-base-patch32), or a checkpoint folder.
    pub(crate) input: PathBuf,
    /// A checkpoint folder to write, a .safetensors with the published names, or the folder that --to asks for.
    pub(crate) output: PathBuf,
    /// Write the folder of another system: hf-clip (transformers) or open-clip.
    #[arg(long)]
    pub(crate) to: Option<String>,
    /// How the weights are stored: bf16 takes half the space (matrices and kernels lose all but 8 significant bits).
    #[arg(long, value_enum, default_value_t = WeightArg::F32, conflicts_with = "to")]
    pub(crate) dtype: WeightArg,
    /// The method that trained it, where the weights do not tell (hycoclip reads as meru).
    #[arg(long)]
    pub(crate) method: Option<String>,
    /// Attention heads of the image encoder, which a published file does not tell (default: as published for its width).
    #[arg(long)]
    pub(crate) image_heads: Option<usize>,
    /// Attention heads of the text encoder.
    #[arg(long)]
    pub(crate) text_heads: Option<usize>,
    /// Non-linearity of the feed-forward layers, where no config beside the weights tells (default: gelu).
    #[arg(long)]
    pub(crate) activation: Option<Activation>,
    /// The CLIP merges or tokenizer.json to put beside the weights.
    #[arg(long)]
    pub(crate) tokenizer: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum WeightArg {
    /// As they are.
    F32,
    /// Rounded, half the size.
    Bf16,
}

impl From<WeightArg> for conifer_learn::checkpoint::Precision {
    fn from(it: WeightArg) -> Self {
        match it {
            WeightArg::F32 => Self::F32,
            WeightArg::Bf16 => Self::Bf16,
        }
    }
}

/// Names of the two non-linearities of CLIPs.
#[derive(Clone, Copy, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Activation {
    /// The exact one: the MERU family, LAION and most of open_clip.
    Gelu,
    /// OpenAI's.
    QuickGelu,
}

impl From<Activation> for conifer_learn::encoders::layers::Activation {
    fn from(activation: Activation) -> Self {
        match activation {
            Activation::Gelu => Self::Gelu,
            Activation::QuickGelu => Self::QuickGelu,
        }
    }
}

#[derive(Subcommand)]
pub(crate) enum Config {
    /// The resolved config: all keys with the values that will be used.
    Print {
        /// The experiment.
        config: PathBuf,
        /// Change a key.
        #[arg(long = "set", value_name = "KEY=VALUE")]
        set: Vec<String>,
    },
    /// Say whether a config is right.
    Check {
        /// The experiments.
        #[arg(required = true)]
        configs: Vec<PathBuf>,
    },
    /// Every key with its type, default and meaning.
    Schema,
}

/// A number of rows.
fn rows(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count @ 1..=65_536) => Ok(count),
        _ => Err("expected 1 to 65536".to_owned()),
    }
}
