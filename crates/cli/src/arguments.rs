//! Command-line arguments and their help texts. The modules in `commands/` run the commands.

mod build;
mod convert;
mod endpoint;
mod eval;
#[cfg(feature = "serve")]
mod explore;
mod factors;
mod features;
mod figure;
mod hierarchy;
mod path;
mod place;
mod predict;
mod project;
mod ranking;
mod reproduce;
mod search;
#[cfg(feature = "serve")]
mod serve;
mod store;

use std::path::PathBuf;

use clap::builder::PossibleValue;
use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};

pub(crate) use build::{
    BuildCommand, BuildStageArg, DetectorArgs, DetectorLogitsArg, DetectorPixelsArg, GroundingArgs, GroundingStageArg,
    HierarchiesArgs, LlmApiArg,
};
pub(crate) use convert::{ConvertArgs, WeightArg};
pub(crate) use endpoint::EndpointArgs;
pub(crate) use eval::{EvalCommand, EvalRunArgs, ReportFormat, ScoreArg, SuiteArgs};
#[cfg(feature = "serve")]
pub(crate) use explore::ExploreArgs;
pub(crate) use factors::FactorsArgs;
pub(crate) use features::FeaturesArgs;
pub(crate) use figure::FigureArgs;
pub(crate) use hierarchy::{ChainProtocolArg, HierarchyArgs};
pub(crate) use path::PathArg;
pub(crate) use place::PlaceArgs;
pub(crate) use predict::{ClassTextArg, PredictArgs};
pub(crate) use project::{CenterArg, KernelArg, ProjectArgs, ProjectionArg, UmapTargetArg};
pub(crate) use ranking::RankingArg;
pub(crate) use reproduce::ReproduceArgs;
pub(crate) use search::{FilterArgs, QueryArgs, QueryEmbedderArgs, SearchArgs, TraverseArgs};
#[cfg(feature = "serve")]
pub(crate) use serve::{FrontArgs, ListenArgs, ServeArgs};
pub(crate) use store::{EngineArg, ExportArgs, StoreCommand, StoreElementArg};

use crate::device::DeviceArg;

const DATA: &str = "Data";
const MODEL: &str = "Model";
const OUTPUT: &str = "Output";
#[cfg(feature = "serve")]
const SERVER: &str = "Server";
const GLOBAL: &str = "Global options";

/// Train, evaluate, search and explore hierarchical vision-language embeddings.
#[derive(Parser)]
#[command(name = "conifer", version, arg_required_else_help = true, disable_help_flag = true)]
pub(crate) struct Cli {
    /// Print results as JSON on stdout.
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub(crate) json: bool,
    /// Device for training and embedding.
    #[arg(long, global = true, value_enum, default_value_t, help_heading = GLOBAL)]
    pub(crate) device: DeviceArg,
    /// Print help; -h prints a summary.
    #[arg(long, short, global = true, action = ArgAction::Help, help_heading = GLOBAL)]
    help: Option<bool>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Train a small PHyCLIP on the toy world (drawn scenes), evaluate it and write a report: a few minutes, no
    /// download.
    Quickstart(QuickstartArgs),
    /// Inspect, check, import and export data sets; write the toy world to disk.
    #[command(subcommand)]
    Data(DataCommand),
    /// Build training data: caption hierarchies from captions, grounded phrases from photos with captions.
    #[command(subcommand)]
    Build(BuildCommand),
    /// Embed a folder of photos or a data set and show it in the browser: `embed` and `serve` in one command.
    #[cfg(feature = "serve")]
    Explore(Box<ExploreArgs>),
    /// Train the experiment of a config file, or resume a run.
    Train(TrainArgs),
    /// Encode each photo, box and text of a data set once with frozen encoders, and store the features for training.
    Features(FeaturesArgs),
    /// Embed the photos and texts of a data set and write them to disk as an embedding set.
    Embed(EmbedArgs),
    /// Evaluate a checkpoint on a data set or on all tables of a paper, or compare two results.
    #[command(subcommand)]
    Eval(EvalCommand),
    /// Train and measure what decides claims of the papers, and write a page with the verdicts.
    Reproduce(ReproduceArgs),
    /// Predict the deepest class of a tree at which the risk of an error is bounded: a species, else its genus, else
    /// its family.
    Predict(Box<PredictArgs>),
    /// Find the rows of an embedding set nearest to a text, a photo or another row.
    Search(SearchArgs),
    /// Create and change a store: a folder of embeddings with append, delete and versions, usable wherever a set is.
    #[command(subcommand)]
    Store(StoreCommand),
    /// Export an embedding set or store to another search engine.
    Export(ExportArgs),
    /// Project an embedding set to a few dimensions and draw a map: tangent PCA, depth, HoroPCA, CO-SNE or UMAP.
    Project(Box<ProjectArgs>),
    /// Print the place of a text, a photo or a row in a map that `project` made: by the formula of the map, or between its
    /// nearest rows.
    Place(Box<PlaceArgs>),
    /// Draw a figure of the papers from sets, data, results or runs, as SVG, PNG and CSV.
    Figure(Box<FigureArgs>),
    /// Measure texts in every factor of a product space: norms, conjunctions, photos of a factor, specialisation.
    Factors(Box<FactorsArgs>),
    /// List the rows on the path from a text, a photo or a row to the root, or to another row.
    Traverse(TraverseArgs),
    /// Print the chain of texts, from general to specific, that is retrieved for a photo or a text.
    Hierarchy(Box<HierarchyArgs>),
    /// Serve searches, traversals and thumbnails over HTTP, together with the explorer page.
    #[cfg(feature = "serve")]
    Serve(Box<ServeArgs>),
    /// Combine several `conifer serve --shard I/N` servers into one server for the whole set.
    #[cfg(feature = "serve")]
    #[command(mut_arg("port", |port| port.default_value(serve::FRONT_PORT)))]
    Front(FrontArgs),
    /// Convert published checkpoints to checkpoint folders, and back.
    Convert(ConvertArgs),
    /// List the training methods.
    Methods,
    /// List the benchmarks.
    Benchmarks,
    /// List the encoders and their presets, the values of `kind` and `preset` in `model.visual` and `model.textual`.
    Encoders {
        /// Also list the layouts of pretrained weights for `model.visual.init` and `model.textual.init`, and where to
        /// get them.
        #[arg(long)]
        long: bool,
    },
    /// List the embedding spaces, the values of `manifold.kind`.
    Spaces,
    /// Print or check a config, or list all keys.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print a completion script for a shell.
    Completions {
        /// The shell to write the script for.
        shell: clap_complete::Shell,
    },
}

#[derive(Args)]
pub(crate) struct QuickstartArgs {
    /// Folder for the run, the checkpoint and report.html.
    #[arg(long, default_value = "runs/quickstart")]
    pub(crate) out: PathBuf,
    /// Delete the earlier quickstart run in the folder and start over.
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Number of training steps.
    #[arg(long)]
    pub(crate) steps: Option<usize>,
    /// Evaluate on the validation scenes instead of the test scenes; use it to compare settings.
    #[arg(long)]
    pub(crate) validation: bool,
    /// Evaluate this checkpoint without training.
    #[arg(long, value_name = "CHECKPOINT")]
    pub(crate) measure: Option<PathBuf>,
}

#[derive(Subcommand)]
pub(crate) enum DataCommand {
    /// List the data sources, the import formats and the class trees that conifer reads.
    List,
    /// List the evaluation data sets of the papers, their required layout and where to get them.
    Sets {
        /// Folder with one subfolder per data set; shows which data sets are present.
        #[arg(long)]
        root: Option<PathBuf>,
    },
    /// Write the toy world as grounded JSONL with PNG files, and as class folders with a class tree.
    Toy {
        /// Folder to write to.
        #[arg(long)]
        out: PathBuf,
        /// Number of scenes in the training split.
        #[arg(long, default_value_t = 1000)]
        size: usize,
        /// Width and height of a photo in pixels.
        #[arg(long, default_value_t = 96)]
        resolution: u32,
        /// Random seed of the world.
        #[arg(long, default_value_t = 0)]
        seed: u64,
    },
    /// Convert a data set in another format to grounded JSONL or shards.
    Import(ImportArgs),
    /// Write a data set that conifer reads as grounded JSONL or shards.
    Export(DataExportArgs),
    /// Build a graph of which class is a part of which from the boxes of photos, and print it as an indented tree.
    Parts(PartsArgs),
    /// Print a published class tree or a subtree of it, or write its edges for `--tree` and `eval.tree`.
    Tree(TreeArgs),
    /// Read every sample of a data set and count the broken ones by cause.
    Check {
        #[command(flatten)]
        data: DataArgs,
        /// Also decode every photo.
        #[arg(long)]
        pixels: bool,
    },
    /// Describe a data set: counts, sizes, captions, boxes, taxonomy, label balance, repeated photos, broken samples.
    Profile(ProfileArgs),
}

#[derive(Args)]
pub(crate) struct ImportArgs {
    /// Input format; see `conifer data list`.
    pub(crate) format: String,
    /// Input file or folder: `--input captions=captions_val2017.json`; `conifer data list` shows the names of a format.
    #[arg(long = "input", value_name = "NAME=PATH", required = true, help_heading = DATA)]
    pub(crate) inputs: Vec<String>,
    /// Option of the format: `--option leave_out=occluded,truncated`; `conifer data list` shows them.
    #[arg(long = "option", value_name = "NAME=VALUE", help_heading = DATA)]
    pub(crate) options: Vec<String>,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// Split to give to the samples for which the input files name none.
    #[arg(long, help_heading = DATA)]
    pub(crate) split: Option<String>,
    /// Additional folder that photos may be read from, besides the folders of --input.
    #[arg(long = "root", value_name = "DIR", help_heading = DATA)]
    pub(crate) roots: Vec<PathBuf>,
}

#[derive(Args)]
pub(crate) struct PartsArgs {
    /// Files with boxes: OpenImages .csv, COCO or LVIS .json, grounded .jsonl; several files form one data set.
    #[arg(long, value_name = "FILE", num_args = 1.., required = true, help_heading = DATA)]
    pub(crate) boxes: Vec<PathBuf>,
    /// Folder for parts.json, edges.tsv, tree.tsv, outline.txt, tree.svg and the state to resume a stopped run from.
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) out: PathBuf,
    /// Display names of the labels, such as class-descriptions-boxable.csv.
    #[arg(long, value_name = "FILE", help_heading = DATA)]
    pub(crate) names: Option<PathBuf>,
    /// Minimum number of box pairs for a part-of relation between two classes (the paper uses 5 for LVIS).
    #[arg(long, default_value_t = 50, help_heading = "Thresholds")]
    pub(crate) min_count: u64,
    /// Minimum share of the boxes of a class that must contain the part (the paper uses 0.05 for LVIS).
    #[arg(long, default_value_t = 0.1, help_heading = "Thresholds")]
    pub(crate) min_share: f64,
    /// Minimum share of a part's area that must lie inside the whole.
    #[arg(long, default_value_t = 0.8, help_heading = "Thresholds")]
    pub(crate) containment: f32,
    /// Minimum share of the photo that a box must cover to count.
    #[arg(long, default_value_t = 0.01, help_heading = "Thresholds")]
    pub(crate) min_area: f32,
    /// Also count boxes that contain several objects (IsGroupOf) as parts.
    #[arg(long, help_heading = "Thresholds")]
    pub(crate) keep_groups: bool,
}

#[derive(Args)]
pub(crate) struct TreeArgs {
    /// Format and location of the tree: `wordnet:/usr/share/wordnet`; `conifer data list` shows the formats.
    #[arg(value_name = "KIND:PATH")]
    pub(crate) tree: String,
    /// Only this node and its descendants; give its identifier or a name that no other node has.
    #[arg(long, value_name = "NODE")]
    pub(crate) below: Option<String>,
    /// Maximum number of levels below the top node.
    #[arg(long, value_name = "LEVELS")]
    pub(crate) depth: Option<usize>,
    /// Write node identifiers instead of names.
    #[arg(long)]
    pub(crate) ids: bool,
    /// Write the edges to this file (one `parent<TAB>child` per line) instead of printing the tree; a .svg file gets a
    /// drawing.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct DataExportArgs {
    #[command(flatten)]
    pub(crate) data: DataArgs,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

/// Destination and format of exported samples.
#[derive(Args)]
pub(crate) struct TargetArgs {
    /// The .jsonl file to write, or the folder for shards.
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) out: PathBuf,
    /// Output format.
    #[arg(long, value_enum, default_value_t = SampleFormatArg::Grounded, help_heading = OUTPUT)]
    pub(crate) to: SampleFormatArg,
    /// Maximum number of samples per shard.
    #[arg(long, default_value_t = 10_000, help_heading = OUTPUT)]
    pub(crate) shard_samples: usize,
    /// Side of the white-padded squares of `--to boxes`, in pixels.
    #[arg(long, default_value_t = 224, help_heading = OUTPUT)]
    pub(crate) side: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SampleFormatArg {
    /// Grounded JSONL: all captions, phrases and boxes; the photos are not copied.
    Grounded,
    /// Image-text shards: photo, first caption and the whole record as JSON.
    Pairs,
    /// Shards in HyCoCLIP's GRIT layout: photo and boxes as white-padded squares.
    Boxes,
}

/// A data set on the command line.
#[derive(Args, Clone)]
pub(crate) struct DataArgs {
    /// Data set as `KIND:PATH` (`conifer data list` shows the kinds), or a path whose kind can be inferred (.jsonl,
    /// .csv, .tsv, .tar, a folder of class folders), or `toy`, or `set:FOLDER` for an evaluation set (`conifer data
    /// sets`).
    #[arg(long, help_heading = DATA)]
    pub(crate) data: String,
    /// Use only this split.
    #[arg(long, help_heading = DATA)]
    pub(crate) split: Option<String>,
    /// Option of the data source as `name=value`; separate list items by commas: `ranks=kingdom,phylum`.
    #[arg(long = "data-option", value_name = "NAME=VALUE", help_heading = DATA)]
    pub(crate) data_options: Vec<String>,
    /// Additional folder that photos may be read from, besides the folder of the data file.
    #[arg(long = "root", value_name = "DIR", help_heading = DATA)]
    pub(crate) roots: Vec<PathBuf>,
}

#[derive(Args)]
pub(crate) struct ProfileArgs {
    #[command(flatten)]
    pub(crate) data: DataArgs,
    /// Another split of the data set, to find photos that are in both; repeat it for several. Sources whose samples
    /// name their split need it only with --split.
    #[arg(long = "other-split", value_name = "SPLIT", help_heading = DATA)]
    pub(crate) other_splits: Vec<String>,
    /// New folder for profile.html and profile.json.
    #[arg(long, value_name = "DIR", help_heading = OUTPUT)]
    pub(crate) out: PathBuf,
    /// Photos whose perceptual hashes (112 bits) differ in at most N bits are nearly equal.
    #[arg(long, value_name = "N", default_value_t = 4, help_heading = "Repeated photos")]
    pub(crate) near: u32,
    /// An embedding set of the data: also list the pairs of photos that are nearest by embedding.
    #[arg(long, help_heading = "Repeated photos")]
    pub(crate) set: Option<PathBuf>,
    /// Do not decode photos: no sizes and no perceptual hashes.
    #[arg(long, help_heading = "Repeated photos")]
    pub(crate) no_photos: bool,
}

#[derive(Args)]
pub(crate) struct TrainArgs {
    /// The experiment's config file (TOML); omit it with --resume.
    pub(crate) config: Option<PathBuf>,
    /// Override a config key: `--set train.steps=100`.
    #[arg(long = "set", value_name = "KEY=VALUE", help_heading = "Experiment")]
    pub(crate) set: Vec<String>,
    /// Folder of the run: checkpoints, metrics.jsonl, TensorBoard events (default: `train.out` of the config).
    #[arg(long, help_heading = "Run")]
    pub(crate) out: Option<PathBuf>,
    /// Resume the run in this folder from its latest checkpoint; the result equals that of an uninterrupted run.
    #[arg(long, value_name = "RUN", conflicts_with_all = ["config", "set"], help_heading = "Run")]
    pub(crate) resume: Option<PathBuf>,
    /// Check that the experiment works: shrink it to run in seconds on the toy world, in the separate folder RUN-smoke.
    #[arg(long, help_heading = "Experiment")]
    pub(crate) smoke: bool,
}

#[derive(Args)]
pub(crate) struct EmbedArgs {
    /// Checkpoint folder, run folder (its latest checkpoint), or a published model (file, folder, or name on the
    /// Hugging Face hub).
    pub(crate) checkpoint: PathBuf,
    /// Use the embedding of this text as the root, such as Eukarya for a published RCME model (default: the
    /// checkpoint's root).
    #[arg(long, value_name = "TEXT", help_heading = MODEL)]
    pub(crate) root_text: Option<String>,
    #[command(flatten)]
    pub(crate) data: DataArgs,
    /// Folder to write the embedding set to. Repeat the same command to resume a stopped or killed run. A finished set
    /// of another command is replaced only with --overwrite.
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) out: PathBuf,
    /// Start over: discard what a stopped run left for --out, and replace a finished set.
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) overwrite: bool,
    /// Number format of the stored embeddings; half precision takes half the disk space.
    #[arg(long, value_enum, default_value_t = ElementArg::F32, help_heading = OUTPUT)]
    pub(crate) dtype: ElementArg,
    /// Number of photos or texts per forward pass; larger is faster but needs more memory.
    #[arg(long, value_name = "ROWS", default_value_t = 32, value_parser = limited_count, help_heading = MODEL)]
    pub(crate) batch_size: usize,
    /// Views of each sample to embed.
    #[arg(long, value_delimiter = ',', default_value = "image,text", help_heading = DATA)]
    pub(crate) views: Vec<EmbedView>,
    /// How to resize or crop photos to the model's input size. Default: the crop that the checkpoint names, or else
    /// the centre.
    #[arg(long, value_enum, help_heading = DATA)]
    pub(crate) crop: Option<CropArg>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ViewArg {
    /// The photo.
    Image,
    /// Every caption.
    Text,
    /// Every box of the photo.
    #[value(alias = "box_image")]
    BoxImage,
    /// Every phrase.
    #[value(alias = "box_text")]
    BoxText,
}

/// Parts of a sample that can be embedded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum EmbedView {
    /// The photo, the captions, the boxes or their phrases.
    Modality(ViewArg),
    /// Every rank of the taxa.
    Taxa,
    /// Every text of the caption hierarchies.
    Tiers,
}

impl ValueEnum for EmbedView {
    fn value_variants<'a>() -> &'a [Self] {
        use EmbedView::{Modality, Taxa, Tiers};
        use ViewArg::{BoxImage, BoxText, Image, Text};
        &[Modality(Image), Modality(Text), Modality(BoxImage), Modality(BoxText), Taxa, Tiers]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            EmbedView::Modality(view) => view.to_possible_value(),
            EmbedView::Taxa => Some(PossibleValue::new("taxa").help(
                "Every rank of the taxa, one row per distinct text; paths from a photo to the root then pass through the ranks",
            )),
            EmbedView::Tiers => Some(
                PossibleValue::new("tiers").help("Every text of the caption hierarchies, one row per distinct text"),
            ),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ElementArg {
    /// 32-bit, as computed.
    F32,
    /// 16-bit: 11 significant bits, magnitudes up to 65,504.
    F16,
    /// 16-bit: 8 significant bits, the range of f32.
    Bf16,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CropArg {
    /// Resize the shorter side, then crop the centre.
    Center,
    /// Resize both sides; the aspect ratio changes.
    Squeeze,
}

#[derive(Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print the resolved config, all keys with their effective values; without a file, the defaults.
    Print {
        /// The config file.
        config: Option<PathBuf>,
        /// Override a config key.
        #[arg(long = "set", value_name = "KEY=VALUE")]
        set: Vec<String>,
    },
    /// Check config files for unknown keys and invalid values.
    Check {
        /// The config files.
        #[arg(required = true)]
        configs: Vec<PathBuf>,
    },
    /// List every key with its type, default and meaning.
    Schema,
}

fn limited_count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count @ 1..=65_536) => Ok(count),
        _ => Err("expected 1 to 65536".to_owned()),
    }
}
