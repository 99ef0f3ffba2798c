//! Command-line arguments of `predict`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::eval::CacheArgs;
use super::{CropArg, DATA, OUTPUT};

const CALIBRATION: &str = "Calibration";
const CLASSES: &str = "Classes";

#[derive(Args)]
#[command(after_help = TERMS)]
pub(crate) struct PredictArgs {
    /// Checkpoint folder, run folder (its latest checkpoint), or a published model (file, folder, or name on the
    /// Hugging Face hub).
    pub(crate) checkpoint: PathBuf,
    /// Photos to predict, as `KIND:PATH` (`conifer data list` shows the kinds), or a path whose kind can be inferred
    /// (.jsonl, .csv, .tsv, .tar, a folder of class folders), or `toy`, or `set:FOLDER`. Without it, only
    /// --out-threshold is written.
    #[arg(long, required_unless_present = "out_threshold", help_heading = DATA)]
    pub(crate) data: Option<String>,
    /// Use only this split of --data.
    #[arg(long, requires = "data", help_heading = DATA)]
    pub(crate) split: Option<String>,
    /// Option of the data source as `name=value`; separate list items by commas: `ranks=kingdom,phylum`.
    #[arg(long = "data-option", value_name = "NAME=VALUE", help_heading = DATA)]
    pub(crate) data_options: Vec<String>,
    /// Additional folder that photos may be read from, besides the folder of the data file.
    #[arg(long = "root", value_name = "DIR", help_heading = DATA)]
    pub(crate) roots: Vec<PathBuf>,
    /// Do not compare the answers with the labels of --data.
    #[arg(long, help_heading = DATA)]
    pub(crate) ignore_labels: bool,
    /// How to resize or crop photos to the model's input size.
    #[arg(long, value_enum, default_value_t = CropArg::Center, conflicts_with = "threshold", help_heading = DATA)]
    pub(crate) crop: CropArg,
    /// File with one `parent child` edge per line (default: the ranks of all splits of the calibration data, else
    /// those of --data). With --threshold: checks that the threshold belongs to this tree.
    #[arg(long, value_name = "FILE", help_heading = CLASSES)]
    pub(crate) tree: Option<PathBuf>,
    /// File with one class per line: the nodes of the tree that the model chooses from, such as the classes of its
    /// training (default: all leaves).
    #[arg(long, value_name = "FILE", conflicts_with = "threshold", help_heading = CLASSES)]
    pub(crate) classes: Option<PathBuf>,
    /// Prompt templates: photo, bare, imagenet7, imagenet80, openai:SET or meru:SET (`conifer data sets` lists SET), or
    /// a file with one template per line, in which {} stands for the class.
    #[arg(long, default_value = "photo", conflicts_with = "threshold", help_heading = CLASSES)]
    pub(crate) prompts: String,
    /// Text of a class in the prompts.
    #[arg(long, value_enum, default_value_t = ClassTextArg::Name, conflicts_with = "threshold", help_heading = CLASSES)]
    pub(crate) class_text: ClassTextArg,
    /// Temperature of the softmax over the similarities (default: fitted on a fifth of the calibration photos, which
    /// are then not used for the threshold).
    #[arg(long, value_name = "T", conflicts_with = "threshold", help_heading = CLASSES)]
    pub(crate) temperature: Option<f64>,
    /// Share of answers that may be wrong, more than 0 and less than 1 (default: 0.1, or that of --threshold).
    #[arg(long, help_heading = CALIBRATION)]
    pub(crate) risk: Option<f64>,
    /// Labelled photos on which the threshold is calibrated, in the spelling of --data. They must be used neither for
    /// training nor as --data.
    #[arg(long, value_name = "DATA", conflicts_with = "threshold", help_heading = CALIBRATION)]
    pub(crate) calibration: Option<String>,
    /// Split of the calibration photos; without --calibration, a split of --data.
    #[arg(long, value_name = "SPLIT", conflicts_with = "threshold", help_heading = CALIBRATION)]
    pub(crate) calibration_split: Option<String>,
    /// Option of the calibration source (default: --data-option, if it is of the same kind as --data).
    #[arg(long = "calibration-option", value_name = "NAME=VALUE", conflicts_with = "threshold", help_heading = CALIBRATION)]
    pub(crate) calibration_options: Vec<String>,
    /// Photos of genera that the model never saw, in the spelling of --data. The risk then also holds for species of
    /// other new genera.
    #[arg(long, value_name = "DATA", conflicts_with = "threshold", help_heading = CALIBRATION)]
    pub(crate) unseen_calibration: Option<String>,
    /// Split of --unseen-calibration; without it, a split of the calibration photos' data set.
    #[arg(long, value_name = "SPLIT", conflicts_with = "threshold", help_heading = CALIBRATION)]
    pub(crate) unseen_split: Option<String>,
    /// Option of the source of --unseen-calibration (default: as for the calibration source).
    #[arg(long = "unseen-option", value_name = "NAME=VALUE", conflicts_with = "threshold", help_heading = CALIBRATION)]
    pub(crate) unseen_options: Vec<String>,
    /// Use the threshold in this file, written by --out-threshold, instead of calibrating.
    #[arg(long, value_name = "FILE", help_heading = CALIBRATION)]
    pub(crate) threshold: Option<PathBuf>,
    /// Write the calibrated threshold to this JSON file, for --threshold and `conifer serve --threshold`.
    #[arg(long, value_name = "FILE", conflicts_with = "threshold", help_heading = OUTPUT)]
    pub(crate) out_threshold: Option<PathBuf>,
    /// Write the predictions to this .csv, .json or .html file; repeat it for several files (default: print them).
    #[arg(long, value_name = "FILE", requires = "data", help_heading = OUTPUT)]
    pub(crate) out: Vec<PathBuf>,
    /// Replace existing output files.
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) overwrite: bool,
    #[command(flatten)]
    pub(crate) cache: CacheArgs,
}

/// Text of a class in the prompts.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ClassTextArg {
    /// The class name.
    Name,
    /// The names of all ranks down to the class, joined by spaces, as models of RCME and `embed --views taxa` use them.
    Taxon,
}

const TERMS: &str = "\
Terms:
  answer         the deepest node on the path to the most probable class whose probability exceeds the threshold
  wrong          the answer is neither the true class nor above it; the root of the tree is never wrong
  risk           share of wrong answers; kept on average over calibration sets if calibration photos and photos are
                 drawn in the same way (conformal risk control)
  mean depth     edges from the deepest node above all classes down to the answer
  right branch   share of answers that are right and below the deepest node above all classes
  unseen         the true class is not one of the classes; a right answer is a node above it";
