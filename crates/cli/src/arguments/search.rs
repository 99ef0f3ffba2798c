//! Command-line arguments of `search` and `traverse`.

use std::path::PathBuf;

use clap::Args;

use super::{EndpointArgs, PathArg, RankingArg, ViewArg};

/// Definitions printed below the help of both commands.
const TERMS: &str = "\
Terms:
  cone            the region behind a point, as seen from the root; rows in it are narrower than the point: the cone of \"dog\" holds dogs
  half aperture   the angle between the axis and the side of a cone; the nearer the point is to the root, the wider the cone
  exterior angle  the angle at the more general point, between the direction away from the root and the direction to the row; 0: the row is
                  straight behind the point; up to the half aperture: the row is in the cone
  gate            a threshold that rows must pass before they are ranked";

/// The query.
#[derive(Args)]
#[group(required = true, multiple = false)]
pub(crate) struct QueryArgs {
    /// Search for this text.
    #[arg(long, help_heading = "Query")]
    pub(crate) text: Option<String>,
    /// Search for this photo (a file).
    #[arg(long, help_heading = "Query")]
    pub(crate) image: Option<PathBuf>,
    /// Search for the row of the set with this id.
    #[arg(long, help_heading = "Query")]
    pub(crate) id: Option<String>,
    /// Search for this vector of a photo, for a model that reads vectors: a .npy or .npz file with one vector, or a
    /// JSON list of numbers (or a file with one).
    #[arg(long, value_name = "FILE|LIST", help_heading = "Query")]
    pub(crate) image_vector: Option<String>,
    /// Search for this vector of a text; as --image-vector.
    #[arg(long, value_name = "FILE|LIST", help_heading = "Query")]
    pub(crate) text_vector: Option<String>,
}

/// The model or the endpoint that embeds the text or photo of a query.
#[derive(Args)]
pub(crate) struct QueryEmbedderArgs {
    /// Model that embeds the text or photo (default: the model that the set names).
    #[arg(long, help_heading = "Query")]
    pub(crate) checkpoint: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) endpoint: EndpointArgs,
}

#[derive(Args)]
#[command(after_help = TERMS)]
pub(crate) struct SearchArgs {
    /// The embedding set, the store, or a run folder with embeddings.
    pub(crate) set: PathBuf,
    #[command(flatten)]
    pub(crate) query: QueryArgs,
    #[command(flatten)]
    pub(crate) embedder: QueryEmbedderArgs,
    /// Search for the query and this text together, such as "a dog" and "a car". `id:ID` stands for a row. Meant for
    /// product spaces: in each factor, the point farthest from the origin is used.
    #[arg(long, value_name = "TEXT", help_heading = "Query")]
    pub(crate) and: Vec<String>,
    /// Ranking of the rows.
    #[arg(long, value_enum, default_value_t = RankingArg::Distance, help_heading = "Ranking")]
    pub(crate) by: RankingArg,
    /// Gate of the gated rankings and of `general`: leaves out rows with a larger exterior angle; 0 to pi radians.
    #[arg(long, value_name = "RADIANS", allow_negative_numbers = true, help_heading = "Ranking")]
    pub(crate) angle: Option<f32>,
    /// Gate of `general` by distance: leaves out rows farther than this.
    #[arg(long, value_name = "DISTANCE", allow_negative_numbers = true, help_heading = "Ranking")]
    pub(crate) within: Option<f32>,
    /// Maximum number of rows to return.
    #[arg(short, long, default_value_t = 10, value_parser = positive, help_heading = "Ranking")]
    pub(crate) k: usize,
    /// Skip the first N rows of the ranking, to continue an earlier search.
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Ranking")]
    pub(crate) offset: usize,
    /// Return only rows of these modalities.
    #[arg(long, value_delimiter = ',', help_heading = "Filters")]
    pub(crate) modality: Vec<ViewArg>,
    #[command(flatten)]
    pub(crate) only: FilterArgs,
}

/// Filters besides the modality.
#[derive(Args)]
pub(crate) struct FilterArgs {
    /// Return only rows with this value in this column, such as label=car; repeat it for alternative values of a
    /// column.
    #[arg(long = "where", value_name = "COLUMN=VALUE", help_heading = "Filters")]
    pub(crate) columns: Vec<String>,
    /// Return only rows whose label is this class of --tree or a descendant of it.
    #[arg(long, value_name = "CLASS", requires = "tree", help_heading = "Filters")]
    pub(crate) subtree: Option<String>,
    /// File with one `parent child` edge per line, a tree above the labels of the rows.
    #[arg(long, value_name = "FILE", requires = "subtree", help_heading = "Filters")]
    pub(crate) tree: Option<PathBuf>,
    /// Return only rows whose depth, the distance from the root, is in this range.
    #[arg(long, num_args = 2, value_names = ["LEAST", "MOST"], allow_negative_numbers = true, help_heading = "Filters")]
    pub(crate) depth: Vec<f32>,
    /// Return only rows inside the cone of this text, or of the row `id:ID`.
    #[arg(long, value_name = "TEXT", help_heading = "Filters")]
    pub(crate) inside: Vec<String>,
    /// Leave out rows inside the cone of this text, or of the row `id:ID`.
    #[arg(long, value_name = "TEXT", help_heading = "Filters")]
    pub(crate) not: Vec<String>,
}

#[derive(Args)]
#[command(after_help = TERMS)]
pub(crate) struct TraverseArgs {
    /// The embedding set, the store, or a run folder with embeddings.
    pub(crate) set: PathBuf,
    #[command(flatten)]
    pub(crate) query: QueryArgs,
    #[command(flatten)]
    pub(crate) embedder: QueryEmbedderArgs,
    /// Id of the row to walk to, instead of the root.
    #[arg(long, value_name = "ID", help_heading = "Walk")]
    pub(crate) to: Option<String>,
    /// Photo (a file) to walk to, instead of the root.
    #[arg(long, value_name = "FILE", conflicts_with = "to", help_heading = "Walk")]
    pub(crate) to_image: Option<PathBuf>,
    /// Text to walk to, instead of the root.
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["to", "to_image"], help_heading = "Walk")]
    pub(crate) to_text: Option<String>,
    /// Curve between both ends (default: tangent between two points, geodesic to the root). If the root is the origin,
    /// both curves to it are the same.
    #[arg(long, help_heading = "Walk")]
    pub(crate) path: Option<PathArg>,
    /// Number of points to sample on the path, both ends included (default: 50 to the root, 100 between two points).
    #[arg(long, value_parser = points, help_heading = "Walk")]
    pub(crate) steps: Option<usize>,
    /// Take the nearest row at each point, even if the point is outside the cone of that row (default between two
    /// points).
    #[arg(long, help_heading = "Walk")]
    pub(crate) no_filter: bool,
    /// Take only rows whose cone contains the point (default to the root).
    #[arg(long, conflicts_with = "no_filter", help_heading = "Walk")]
    pub(crate) cones: bool,
    /// Use only rows of these modalities.
    #[arg(long, value_delimiter = ',', default_value = "text,box-text", help_heading = "Filters")]
    pub(crate) modality: Vec<ViewArg>,
    #[command(flatten)]
    pub(crate) only: FilterArgs,
}

fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count @ 1..) => Ok(count),
        _ => Err("expected 1 or more".to_owned()),
    }
}

/// Parses a number of points on a path, 2 to 100,000.
pub(super) fn points(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count @ 2..=100_000) => Ok(count),
        _ => Err("expected 2 to 100000".to_owned()),
    }
}
