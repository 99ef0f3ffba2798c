//! Arguments of `features`.

use std::path::PathBuf;

use clap::Args;

use super::{DATA, ElementArg, MODEL, OUTPUT};

#[derive(Args)]
pub(crate) struct FeaturesArgs {
    /// The config of an experiment (.toml), whose frozen encoders are used, or a model: checkpoint folder, run folder,
    /// or a published model.
    pub(crate) model: PathBuf,
    /// Override a key of the config: `--set data.augment.copies=4`.
    #[arg(long = "set", value_name = "KEY=VALUE", help_heading = MODEL)]
    pub(crate) set: Vec<String>,
    /// Data set, as for `embed`: KIND:PATH, a path, `toy` or `set:FOLDER`. Required for a model; the default for a
    /// config is its data set.
    #[arg(long, help_heading = DATA)]
    pub(crate) data: Option<String>,
    /// Use only this split.
    #[arg(long, requires = "data", help_heading = DATA)]
    pub(crate) split: Option<String>,
    /// Option of the data source as `name=value`.
    #[arg(long = "data-option", requires = "data", value_name = "NAME=VALUE", help_heading = DATA)]
    pub(crate) data_options: Vec<String>,
    /// Additional folder that photos may be read from.
    #[arg(long = "root", requires = "data", value_name = "DIR", help_heading = DATA)]
    pub(crate) roots: Vec<PathBuf>,
    /// Folder of the features, for `train.feature_store`; default: that of the config, or the cache that every run
    /// reads. Repeat the same command to resume a stopped or killed run.
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) out: Option<PathBuf>,
    /// Number format of the stored features; half precision takes half the disk space and rounds every number. Default:
    /// that of the features in the folder, or f32.
    #[arg(long, value_enum, help_heading = OUTPUT)]
    pub(crate) dtype: Option<ElementArg>,
    /// Number of rows after which a new file begins.
    #[arg(long, value_name = "ROWS", default_value_t = conifer_model::features::SHARD_ROWS,
          value_parser = clap::value_parser!(u64).range(1..), help_heading = OUTPUT)]
    pub(crate) shard_rows: u64,
}
