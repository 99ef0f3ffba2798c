//! The command lines of searches.

use std::path::PathBuf;

use clap::Args;

use super::ViewArg;
use crate::ranking::By;

/// What is looked for.
#[derive(Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Query {
    /// A text.
    #[arg(long)]
    pub(crate) text: Option<String>,
    /// A photo.
    #[arg(long)]
    pub(crate) image: Option<PathBuf>,
    /// A row of the set, by id.
    #[arg(long)]
    pub(crate) id: Option<String>,
}

#[derive(Args)]
pub(crate) struct Search {
    /// The embedding set or store.
    pub(crate) set: PathBuf,
    #[command(flatten)]
    pub(crate) query: Query,
    /// The checkpoint that embeds a text or a photo.
    #[arg(long)]
    pub(crate) checkpoint: Option<PathBuf>,
    /// This text, or the row `id:ID`, as well: "a dog" and "a car", by the maximum of each factor.
    #[arg(long, value_name = "TEXT")]
    pub(crate) and: Vec<String>,
    /// The ranking.
    #[arg(long, value_enum, default_value_t = By::Distance)]
    pub(crate) by: By,
    /// The largest exterior angle, 0 to pi radians, of the gated rankings and `general`.
    #[arg(long, value_name = "RADIANS", allow_negative_numbers = true)]
    pub(crate) angle: Option<f32>,
    /// The largest distance, of `general`.
    #[arg(long, value_name = "DISTANCE", allow_negative_numbers = true)]
    pub(crate) within: Option<f32>,
    /// How many.
    #[arg(short, long, default_value_t = 10, value_parser = some)]
    pub(crate) k: usize,
    /// Leave out so many of the best ones: the rows after those of an earlier search.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) offset: usize,
    /// Only rows of these modalities.
    #[arg(long, value_delimiter = ',')]
    pub(crate) modality: Vec<ViewArg>,
    #[command(flatten)]
    pub(crate) only: Only,
}

/// Which rows may be found, beside their modality.
#[derive(Args)]
pub(crate) struct Only {
    /// Only rows with this value in this column, such as label=car; several values of one column are alternatives.
    #[arg(long = "where", value_name = "COLUMN=VALUE")]
    pub(crate) columns: Vec<String>,
    /// Only rows whose label is this class of --tree or lies below it.
    #[arg(long, value_name = "CLASS", requires = "tree")]
    pub(crate) subtree: Option<String>,
    /// File of `parent child` edges above the labels of the rows.
    #[arg(long, value_name = "FILE", requires = "subtree")]
    pub(crate) tree: Option<PathBuf>,
    /// Only rows whose depth, their distance from the root, is between these two.
    #[arg(long, num_args = 2, value_names = ["LEAST", "MOST"], allow_negative_numbers = true)]
    pub(crate) depth: Vec<f32>,
    /// Only rows inside the cone of this text, or of the row `id:ID`.
    #[arg(long, value_name = "TEXT")]
    pub(crate) inside: Vec<String>,
    /// No row inside the cone of this text, or of the row `id:ID`.
    #[arg(long, value_name = "TEXT")]
    pub(crate) not: Vec<String>,
}

#[derive(Args)]
pub(crate) struct Traverse {
    /// The embedding set or store.
    pub(crate) set: PathBuf,
    #[command(flatten)]
    pub(crate) query: Query,
    /// The checkpoint that embeds a text or a photo.
    #[arg(long)]
    pub(crate) checkpoint: Option<PathBuf>,
    /// Go to this row instead of the root.
    #[arg(long)]
    pub(crate) to: Option<String>,
    /// Points on the way.
    #[arg(long, default_value_t = 50, value_parser = points)]
    pub(crate) steps: usize,
    /// Take the nearest row at each point, in its cone or not.
    #[arg(long)]
    pub(crate) no_filter: bool,
    /// Only rows of these modalities.
    #[arg(long, value_delimiter = ',', default_value = "text,box-text")]
    pub(crate) modality: Vec<ViewArg>,
    #[command(flatten)]
    pub(crate) only: Only,
}

/// A number of rows.
fn some(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count @ 1..) => Ok(count),
        _ => Err("expected 1 or more".to_owned()),
    }
}

/// A number of points on a line.
pub(super) fn points(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count @ 2..=100_000) => Ok(count),
        _ => Err("expected 2 to 100000".to_owned()),
    }
}
