//! Command-line arguments of `place`.

use std::path::PathBuf;

use clap::Args;

use super::{QueryArgs, QueryEmbedderArgs};

#[derive(Args)]
pub(crate) struct PlaceArgs {
    /// The embedding set, the store, or a run folder with embeddings, from which the map was made.
    pub(crate) set: PathBuf,
    /// The folder of the map, which `project` wrote.
    #[arg(long, value_name = "MAP")]
    pub(crate) into: PathBuf,
    #[command(flatten)]
    pub(crate) query: QueryArgs,
    #[command(flatten)]
    pub(crate) embedder: QueryEmbedderArgs,
}
