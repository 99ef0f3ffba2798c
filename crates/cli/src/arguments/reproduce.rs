//! Command-line arguments of `reproduce`.

use std::path::PathBuf;

use clap::Args;

use super::{DATA, OUTPUT};

#[derive(Args)]
pub(crate) struct ReproduceArgs {
    /// `list` prints the claims; a name of that list; `paper:NAME` for all claims of a paper; `all`; or a .toml file of
    /// the same form.
    #[arg(required = true, value_name = "CLAIM")]
    pub(crate) claims: Vec<String>,
    /// Number of training seeds: 0, 1, 2 ...
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=100))]
    pub(crate) seeds: u64,
    /// File of a data set: `--data flickr8k=flickr8k.jsonl`. `conifer reproduce list` shows the names. The toy world
    /// needs none.
    #[arg(long = "data", value_name = "NAME=PATH", help_heading = DATA)]
    pub(crate) data: Vec<String>,
    /// Additional folder that photos may be read from, besides the folders of the data files.
    #[arg(long = "root", value_name = "DIR", help_heading = DATA)]
    pub(crate) roots: Vec<PathBuf>,
    /// Only claims that need few runs: all of them with three seeds take half an hour on two cores.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Folder of the configs that the claims name.
    #[arg(long, value_name = "DIR", default_value = "configs")]
    pub(crate) configs: PathBuf,
    /// Folder for claims.json, claims.html, claims.md, the charts, the runs and their measurements. Runs and
    /// measurements that it already holds are used again; unfinished runs are resumed.
    #[arg(long, default_value = "runs/claims", help_heading = OUTPUT)]
    pub(crate) out: PathBuf,
    /// Write the tables into this Markdown file, too, between the lines `<!-- claims -->` and `<!-- /claims -->`, and
    /// the forest plots into the folder `pictures` beside it.
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub(crate) update: Option<PathBuf>,
}
