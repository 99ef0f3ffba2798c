//! Command-line arguments of `hierarchy`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::search::points;
use super::{FilterArgs, QueryArgs, QueryEmbedderArgs, ViewArg};

const METHOD: &str = "\
A ball around the root widens in --steps equal steps. At each radius, the text inside the ball that is most similar to the query is
taken. It is kept if it differs from the previous text (HierarCaps, supplement Sec. 2.5).

The true chain is printed beside it if the photo is a row of a set made with `conifer embed --views image,tiers`, or is the same photo
as one.";

#[derive(Args)]
#[command(after_help = METHOD)]
pub(crate) struct HierarchyArgs {
    /// The embedding set, the store, or a run folder with embeddings.
    pub(crate) set: PathBuf,
    #[command(flatten)]
    pub(crate) query: QueryArgs,
    #[command(flatten)]
    pub(crate) embedder: QueryEmbedderArgs,
    /// Embedding set or store whose texts are the candidates, made by the same model with the same root (default: the
    /// texts of SET).
    #[arg(long, value_name = "OTHER_SET", help_heading = "Chain")]
    pub(crate) candidates: Option<PathBuf>,
    /// Number of radii.
    #[arg(long, value_parser = points, default_value_t = 50, help_heading = "Chain")]
    pub(crate) steps: usize,
    /// Range of the radii, and whether the first text counts.
    #[arg(long, value_enum, default_value_t = ChainProtocolArg::Paper, help_heading = "Chain")]
    pub(crate) protocol: ChainProtocolArg,
    /// Modalities of the candidates.
    #[arg(long, value_delimiter = ',', default_value = "text", help_heading = "Filters")]
    pub(crate) modality: Vec<ViewArg>,
    #[command(flatten)]
    pub(crate) only: FilterArgs,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ChainProtocolArg {
    /// From the root to the text closest to the query, without the first text.
    Paper,
    /// From the root to the text closest to the query.
    PaperFirstKept,
    /// From the shallowest to the deepest candidate, as the released evaluator.
    Released,
    /// From the shallowest to the deepest candidate, without the first text.
    ReleasedFirstLeftOut,
}
