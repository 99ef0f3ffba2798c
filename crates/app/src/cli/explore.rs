//! The command line of `explore`.

use std::path::PathBuf;

use clap::Args;

use super::{DATA, Door, EmbedView, MODEL, OUTPUT, SERVER};

#[derive(Args)]
pub(crate) struct Explore {
    /// A folder of photos, with or without a folder for each class, or a data set as `--data` of `conifer embed` takes it.
    #[arg(value_name = "FOLDER|DATA")]
    pub(crate) data: String,
    /// A checkpoint folder, a run, or a published model (default: one that knows drawings only, with a warning).
    #[arg(long, value_name = "MODEL", help_heading = MODEL)]
    pub(crate) model: Option<PathBuf>,
    /// Only this split.
    #[arg(long, help_heading = DATA)]
    pub(crate) split: Option<String>,
    /// Settings of the source, `name=value`; lists by commas: `ranks=kingdom,phylum`.
    #[arg(long = "data-option", value_name = "NAME=VALUE", help_heading = DATA)]
    pub(crate) data_options: Vec<String>,
    /// Another folder in which the photos may be that the data file names, besides its own folder.
    #[arg(long = "root", value_name = "DIR", help_heading = DATA)]
    pub(crate) roots: Vec<PathBuf>,
    /// What to embed of each sample, where it has it.
    #[arg(long, value_delimiter = ',', default_value = "image,text,box-image,box-text,taxa,tiers", help_heading = DATA)]
    pub(crate) views: Vec<EmbedView>,
    /// File of `parent child` edges above the labels of the rows.
    #[arg(long, value_name = "FILE", help_heading = DATA)]
    pub(crate) tree: Option<PathBuf>,
    /// Folder for the embeddings (default: runs/explore-NAME, NAME being that of the data).
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) out: Option<PathBuf>,
    /// Embed again, even if the embeddings of this model and these data are there.
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) overwrite: bool,
    /// Open the page in the browser (with xdg-open).
    #[arg(long, help_heading = SERVER)]
    pub(crate) open: bool,
    #[command(flatten)]
    pub(crate) door: Door,
}
