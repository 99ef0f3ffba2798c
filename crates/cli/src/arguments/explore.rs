//! Command-line arguments of `explore`.

use std::path::PathBuf;

use clap::Args;

use super::{DATA, EmbedView, ListenArgs, MODEL, OUTPUT, SERVER};

#[derive(Args)]
pub(crate) struct ExploreArgs {
    /// A folder of photos, with or without one subfolder per class, or a data set as in `conifer embed --data`.
    #[arg(value_name = "FOLDER|DATA")]
    pub(crate) data: String,
    /// Checkpoint folder, run folder or published model (default: a model trained on drawings only, with a warning).
    #[arg(long, value_name = "MODEL", help_heading = MODEL)]
    pub(crate) model: Option<PathBuf>,
    /// Use only this split.
    #[arg(long, help_heading = DATA)]
    pub(crate) split: Option<String>,
    /// Option of the data source as `name=value`; separate list items by commas: `ranks=kingdom,phylum`.
    #[arg(long = "data-option", value_name = "NAME=VALUE", help_heading = DATA)]
    pub(crate) data_options: Vec<String>,
    /// Additional folder that photos may be read from, besides the folder of the data file.
    #[arg(long = "root", value_name = "DIR", help_heading = DATA)]
    pub(crate) roots: Vec<PathBuf>,
    /// Views to embed of each sample that has them.
    #[arg(long, value_delimiter = ',', default_value = "image,text,box-image,box-text,taxa,tiers", help_heading = DATA)]
    pub(crate) views: Vec<EmbedView>,
    /// File with one `parent child` edge per line, a tree above the labels of the rows.
    #[arg(long, value_name = "FILE", help_heading = DATA)]
    pub(crate) tree: Option<PathBuf>,
    /// Threshold written by `conifer predict --out-threshold` with the same model; the page then predicts the class of
    /// photos.
    #[arg(long, value_name = "FILE", help_heading = DATA)]
    pub(crate) threshold: Option<PathBuf>,
    /// Folder for the embeddings (default: runs/explore-NAME, where NAME is the name of the data).
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) out: Option<PathBuf>,
    /// Embed again even if the embeddings of this model and this data exist.
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) overwrite: bool,
    /// Open the page in the browser (with xdg-open).
    #[arg(long, help_heading = SERVER)]
    pub(crate) open: bool,
    #[command(flatten)]
    pub(crate) listen: ListenArgs,
}
