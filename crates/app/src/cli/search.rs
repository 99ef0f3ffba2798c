//! The command lines of searches.

use std::path::PathBuf;

use clap::Args;

use super::ViewArg;
use crate::ranking::By;

/// The words of the field that these commands need.
const TERMS: &str = "\
Terms:
  cone            the region that opens away from the root at a point; what lies in it is narrower than the point: the cone of \"dog\" holds dogs
  half aperture   the angle between the axis of a cone and its side; the nearer the point is to the root, the wider the cone
  exterior angle  the angle at the general point between the way out from the root and the way to a row; 0: straight behind it; at most the
                  half aperture: in the cone
  gate            a limit that rows have to pass before they are ranked";

/// What is looked for.
#[derive(Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Query {
    /// A text.
    #[arg(long, help_heading = "Query")]
    pub(crate) text: Option<String>,
    /// A photo.
    #[arg(long, help_heading = "Query")]
    pub(crate) image: Option<PathBuf>,
    /// A row of the set, by id.
    #[arg(long, help_heading = "Query")]
    pub(crate) id: Option<String>,
}

#[derive(Args)]
#[command(after_help = TERMS)]
pub(crate) struct Search {
    /// The embedding set, store, or run with embeddings.
    pub(crate) set: PathBuf,
    #[command(flatten)]
    pub(crate) query: Query,
    /// The model that embeds a text or a photo (default: the one that the set names).
    #[arg(long, help_heading = "Query")]
    pub(crate) checkpoint: Option<PathBuf>,
    /// This text, or the row `id:ID`, as well: "a dog" and "a car", by the maximum of each factor.
    #[arg(long, value_name = "TEXT", help_heading = "Query")]
    pub(crate) and: Vec<String>,
    /// The ranking.
    #[arg(long, value_enum, default_value_t = By::Distance, help_heading = "Ranking")]
    pub(crate) by: By,
    /// The gate of the gated rankings and of `general`: rows with a larger exterior angle are left out; 0 to pi radians.
    #[arg(long, value_name = "RADIANS", allow_negative_numbers = true, help_heading = "Ranking")]
    pub(crate) angle: Option<f32>,
    /// The gate of `general` by distance: rows farther than this are left out.
    #[arg(long, value_name = "DISTANCE", allow_negative_numbers = true, help_heading = "Ranking")]
    pub(crate) within: Option<f32>,
    /// How many.
    #[arg(short, long, default_value_t = 10, value_parser = some, help_heading = "Ranking")]
    pub(crate) k: usize,
    /// Leave out so many of the best ones: the rows after those of an earlier search.
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Ranking")]
    pub(crate) offset: usize,
    /// Only rows of these modalities.
    #[arg(long, value_delimiter = ',', help_heading = "Filters")]
    pub(crate) modality: Vec<ViewArg>,
    #[command(flatten)]
    pub(crate) only: Only,
}

/// Which rows may be found, beside their modality.
#[derive(Args)]
pub(crate) struct Only {
    /// Only rows with this value in this column, such as label=car; several values of one column are alternatives.
    #[arg(long = "where", value_name = "COLUMN=VALUE", help_heading = "Filters")]
    pub(crate) columns: Vec<String>,
    /// Only rows whose label is this class of --tree or lies below it.
    #[arg(long, value_name = "CLASS", requires = "tree", help_heading = "Filters")]
    pub(crate) subtree: Option<String>,
    /// File of `parent child` edges above the labels of the rows.
    #[arg(long, value_name = "FILE", requires = "subtree", help_heading = "Filters")]
    pub(crate) tree: Option<PathBuf>,
    /// Only rows whose depth, their distance from the root, is between these two.
    #[arg(long, num_args = 2, value_names = ["LEAST", "MOST"], allow_negative_numbers = true, help_heading = "Filters")]
    pub(crate) depth: Vec<f32>,
    /// Only rows inside the cone of this text, or of the row `id:ID`.
    #[arg(long, value_name = "TEXT", help_heading = "Filters")]
    pub(crate) inside: Vec<String>,
    /// No row inside the cone of this text, or of the row `id:ID`.
    #[arg(long, value_name = "TEXT", help_heading = "Filters")]
    pub(crate) not: Vec<String>,
}

#[derive(Args)]
#[command(after_help = TERMS)]
pub(crate) struct Traverse {
    /// The embedding set, store, or run with embeddings.
    pub(crate) set: PathBuf,
    #[command(flatten)]
    pub(crate) query: Query,
    /// The model that embeds a text or a photo (default: the one that the set names).
    #[arg(long, help_heading = "Query")]
    pub(crate) checkpoint: Option<PathBuf>,
    /// Go to this row instead of the root.
    #[arg(long, help_heading = "Walk")]
    pub(crate) to: Option<String>,
    /// Points on the way.
    #[arg(long, default_value_t = 50, value_parser = points, help_heading = "Walk")]
    pub(crate) steps: usize,
    /// Take the nearest row at each point, in its cone or not.
    #[arg(long, help_heading = "Walk")]
    pub(crate) no_filter: bool,
    /// Only rows of these modalities.
    #[arg(long, value_delimiter = ',', default_value = "text,box-text", help_heading = "Filters")]
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
