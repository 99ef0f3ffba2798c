//! The command line: what can be typed. Meaning is given by `commands/`.

mod convert;
mod eval;
mod explore;
mod search;
mod serve;
mod store;

use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};

pub(crate) use convert::{Convert, WeightArg};
pub(crate) use eval::{Eval, ReportFormat, ScoreArg};
pub(crate) use explore::Explore;
pub(crate) use search::{Only, Query, Search, Traverse};
pub(crate) use serve::{Door, Front, SERVE_PORT, Serve};
pub(crate) use store::{Engine, ExportSet, KeptAs, Store};

use crate::device::DeviceArg;

const DATA: &str = "Data";
const MODEL: &str = "Model";
const OUTPUT: &str = "Output";
const SERVER: &str = "Server";
const GLOBAL: &str = "Global options";

/// Train, evaluate, search and look into hierarchical vision-language embeddings.
#[derive(Parser)]
#[command(name = "conifer", version, arg_required_else_help = true, disable_help_flag = true)]
pub(crate) struct Cli {
    /// Print results as JSON on stdout, for machines.
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub(crate) json: bool,
    /// Where training and embedding run.
    #[arg(long, global = true, value_enum, default_value_t, help_heading = GLOBAL)]
    pub(crate) device: DeviceArg,
    /// Print help (-h: a summary).
    #[arg(long, short, global = true, action = ArgAction::Help, help_heading = GLOBAL)]
    help: Option<bool>,
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
    /// Embed a folder of photos or a data set and show it in the browser: embed and serve in one command.
    Explore(Box<Explore>),
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
    #[command(mut_arg("port", |port| port.default_value(serve::FRONT_PORT)))]
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
    #[arg(long = "input", value_name = "NAME=PATH", required = true, help_heading = DATA)]
    pub(crate) inputs: Vec<String>,
    #[command(flatten)]
    pub(crate) target: Target,
    /// Split of the samples for which the files name none.
    #[arg(long, help_heading = DATA)]
    pub(crate) split: Option<String>,
    /// Another folder in which the photos may be that the files name, besides those of --input.
    #[arg(long = "root", value_name = "DIR", help_heading = DATA)]
    pub(crate) roots: Vec<PathBuf>,
}

#[derive(Args)]
pub(crate) struct Parts {
    /// Files of boxes: OpenImages .csv, COCO or LVIS .json, grounded .jsonl; several are one data set.
    #[arg(long, value_name = "FILE", num_args = 1.., required = true, help_heading = DATA)]
    pub(crate) boxes: Vec<PathBuf>,
    /// Folder for parts.json, edges.tsv, tree.tsv, tree.txt, tree.svg and the state from which a run that was stopped goes on.
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) out: PathBuf,
    /// Display names of the labels: class-descriptions-boxable.csv.
    #[arg(long, value_name = "FILE", help_heading = DATA)]
    pub(crate) names: Option<PathBuf>,
    /// Pairs of boxes that make a relation of classes, at least (LVIS: 5).
    #[arg(long, default_value_t = 50, help_heading = "Thresholds")]
    pub(crate) min_count: u64,
    /// Share of the boxes of a class that have such a part, at least (LVIS: 0.05).
    #[arg(long, default_value_t = 0.1, help_heading = "Thresholds")]
    pub(crate) min_share: f64,
    /// Share of a part's area that lies inside its whole, at least.
    #[arg(long, default_value_t = 0.8, help_heading = "Thresholds")]
    pub(crate) containment: f32,
    /// Share of the photo that a box covers, at least.
    #[arg(long, default_value_t = 0.01, help_heading = "Thresholds")]
    pub(crate) min_area: f32,
    /// Count boxes of several things (IsGroupOf) as parts too.
    #[arg(long, help_heading = "Thresholds")]
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
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) out: PathBuf,
    /// The form.
    #[arg(long, value_enum, default_value_t = Form::Grounded, help_heading = OUTPUT)]
    pub(crate) to: Form,
    /// Most samples in a shard.
    #[arg(long, default_value_t = 10_000, help_heading = OUTPUT)]
    pub(crate) shard_samples: usize,
    /// Side of the white squares of `--to boxes`, pixels.
    #[arg(long, default_value_t = 224, help_heading = OUTPUT)]
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
    #[arg(long, help_heading = DATA)]
    pub(crate) data: String,
    /// Only this split.
    #[arg(long, help_heading = DATA)]
    pub(crate) split: Option<String>,
    /// Settings of the source, `name=value`; lists by commas: `ranks=kingdom,phylum`.
    #[arg(long = "data-option", value_name = "NAME=VALUE", help_heading = DATA)]
    pub(crate) data_options: Vec<String>,
    /// Another folder in which the photos may be that the data file names, besides its own folder.
    #[arg(long = "root", value_name = "DIR", help_heading = DATA)]
    pub(crate) roots: Vec<PathBuf>,
}

#[derive(Args)]
pub(crate) struct Train {
    /// The experiment (TOML). Not needed with --resume.
    pub(crate) config: Option<PathBuf>,
    /// Change a key of the config: `--set train.steps=100`.
    #[arg(long = "set", value_name = "KEY=VALUE", help_heading = "Experiment")]
    pub(crate) set: Vec<String>,
    /// Folder of the run: checkpoints, metrics.jsonl, TensorBoard events.
    #[arg(long, help_heading = "Run")]
    pub(crate) out: Option<PathBuf>,
    /// Go on with the run in this folder, from its last checkpoint, exactly.
    #[arg(long, value_name = "RUN", conflicts_with_all = ["config", "set"], help_heading = "Run")]
    pub(crate) resume: Option<PathBuf>,
    /// Shrink everything to run in seconds, in a folder of its own (RUN-smoke): does the experiment work at all?
    #[arg(long, help_heading = "Experiment")]
    pub(crate) smoke: bool,
}

#[derive(Args)]
pub(crate) struct Embed {
    /// A checkpoint folder, a run folder (its latest checkpoint), or a published model: its file, its folder, or its name on the hub.
    pub(crate) checkpoint: PathBuf,
    /// The text whose embedding is the root, such as Eukarya for a published RCME model (default: what the checkpoint was trained with).
    #[arg(long, value_name = "TEXT", help_heading = MODEL)]
    pub(crate) root_text: Option<String>,
    #[command(flatten)]
    pub(crate) data: DataSet,
    /// Folder to write. A run that was stopped or killed goes on where it was when the same command is given again; a finished set of
    /// another command is not replaced without --overwrite.
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) out: PathBuf,
    /// Start anew: forget what a stopped run has left for --out, and replace a finished set.
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) overwrite: bool,
    /// How the points are stored: in half precision they take half the space on disk.
    #[arg(long, value_enum, default_value_t = ElementArg::F32, help_heading = OUTPUT)]
    pub(crate) dtype: ElementArg,
    /// Photos or texts that are embedded at a time: memory against speed.
    #[arg(long, value_name = "ROWS", default_value_t = 32, value_parser = rows, help_heading = MODEL)]
    pub(crate) batch_size: usize,
    /// What to embed of each sample.
    #[arg(long, value_delimiter = ',', default_value = "image,text", help_heading = DATA)]
    pub(crate) views: Vec<EmbedView>,
    /// How photos are cut.
    #[arg(long, value_enum, default_value_t = CropArg::Center, help_heading = DATA)]
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

/// What is embedded of a data set.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum EmbedView {
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
    /// Each rank of the taxa, as one text for all samples: a walk from a photo to the root passes them.
    Taxa,
    /// Each text of the caption hierarchies, as one text for all samples.
    Tiers,
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

#[derive(Subcommand)]
pub(crate) enum Config {
    /// The resolved config: all keys with the values that will be used; without a file, the defaults.
    Print {
        /// The experiment.
        config: Option<PathBuf>,
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
