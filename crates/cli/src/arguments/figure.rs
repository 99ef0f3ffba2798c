//! Command-line arguments of `figure`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{DATA, OUTPUT};

const ROWS: &str = "Rows and records";

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct FigureArgs {
    #[command(subcommand)]
    pub(crate) list: Option<FigureCommand>,
    /// The figure; `conifer figure list` shows the names and the inputs of each.
    #[arg(required = true)]
    pub(crate) name: Option<String>,
    /// Inputs of the figure, or CSV files that the same figure wrote.
    #[arg(required = true)]
    pub(crate) inputs: Vec<String>,
    /// Folder for NAME.svg, NAME.png, NAME.csv, and for the photos of `interpolation`.
    #[arg(long, value_name = "DIR", required = true, help_heading = OUTPUT)]
    pub(crate) out: Option<PathBuf>,
    /// Replace the files of an earlier figure.
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) overwrite: bool,
    /// Font for the PNG file, for letters that the built-in one lacks (it has Latin and Greek).
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub(crate) font: Option<PathBuf>,
    /// Of `depths`, `factor-depths` and `crop-depths`: use at most N rows of a set, or photos of a data set, drawn without
    /// replacement.
    #[arg(long, value_name = "N", default_value_t = 128_000, help_heading = ROWS)]
    pub(crate) sample: usize,
    /// Seed of the sample.
    #[arg(long, default_value_t = 0, help_heading = ROWS)]
    pub(crate) seed: u64,
    /// Of results and training curves: use only records whose benchmark, split, protocol and metric, or only curves
    /// whose name contain this text; repeat it for any of several texts.
    #[arg(long, value_name = "TEXT", help_heading = ROWS)]
    pub(crate) only: Vec<String>,
    /// Of `crop-depths`: the checkpoint that embeds the photos.
    #[arg(long, value_name = "CHECKPOINT", help_heading = DATA)]
    pub(crate) model: Option<PathBuf>,
    /// Of `interpolation`: the data set of the photos.
    #[arg(long, value_name = "KIND:PATH", help_heading = DATA)]
    pub(crate) photos: Option<String>,
    /// Use only this split of the data set.
    #[arg(long, help_heading = DATA)]
    pub(crate) split: Option<String>,
    /// Option of the data source as `name=value`.
    #[arg(long = "data-option", value_name = "NAME=VALUE", help_heading = DATA)]
    pub(crate) data_options: Vec<String>,
    /// Additional folder that photos may be read from.
    #[arg(long = "root", value_name = "DIR", help_heading = DATA)]
    pub(crate) roots: Vec<PathBuf>,
}

#[derive(Subcommand)]
pub(crate) enum FigureCommand {
    /// List the figures with their inputs.
    List,
}
