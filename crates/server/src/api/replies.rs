//! Bodies of responses, shared by server, front and the OpenAPI document.

use std::borrow::Cow;
use std::collections::BTreeMap;

use conifer_search::ScoreRange;
use conifer_viz::FactorDepth;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::requests::ModalityName;

/// An error.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct ErrorReply<'a> {
    pub(crate) error: ErrorDetail<'a>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct ErrorDetail<'a> {
    /// HTTP status.
    pub(crate) status: u16,
    pub(crate) message: Cow<'a, str>,
}

/// Reply of `GET /health`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct HealthReply {
    pub(crate) status: &'static str,
    /// Number of rows.
    pub(crate) rows: usize,
    pub(crate) version: &'static str,
    /// Number of shards; only on a front.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) shards: Option<usize>,
}

/// A row, alone or as a hit of a query. Fields that depend on a query are absent without one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Hit")]
pub(crate) struct RowReply<'a> {
    /// Row number.
    pub(crate) row: usize,
    pub(crate) id: Cow<'a, str>,
    pub(crate) modality: ModalityName,
    /// Value that the rows are ranked by. distance: the distance, ascending. similarity, gated_narrower,
    /// gated_broader: the similarity, descending. inner: the inner product, descending. narrower, broader: the
    /// exterior angle in radians, ascending. general: the depth, ascending.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) score: Option<f32>,
    /// Distance from the root; a larger depth is more specific.
    pub(crate) depth: f32,
    /// Distance from the query.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) distance: Option<f32>,
    /// Exterior angle in radians with the query as the parent; small if the row is below the query.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) angle_down: Option<f32>,
    /// Exterior angle in radians with the row as the parent; small if the row is above the query.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) angle_up: Option<f32>,
    /// Value of the row in each column; the empty string if the row has none.
    pub(crate) columns: BTreeMap<Cow<'a, str>, Cow<'a, str>>,
    /// Left, top, width, height as fractions of the photo.
    #[serde(rename = "box", skip_serializing_if = "Option::is_none")]
    pub(crate) bounds: Option<[f32; 4]>,
    /// True if /api/rows/{row}/thumbnail returns a picture.
    pub(crate) thumbnail: bool,
}

/// Reply of `POST /api/search`.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct SearchReply<'a> {
    pub(crate) query: QueryInfo,
    /// Best first.
    pub(crate) hits: Vec<RowReply<'a>>,
    /// Number of rows that pass the filters, including those that are not among the hits.
    pub(crate) rows_passing: usize,
    /// Absent for gated rankings and `general`, and if no row can be compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) scores: Option<SampledScores>,
    /// A warning, only for a flat ranking: the scores are less than 1 % apart, so the order of the rows is almost
    /// meaningless.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) flat: Option<String>,
    /// Time in milliseconds.
    pub(crate) took_ms: f64,
}

/// Information about the query.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct QueryInfo {
    /// Distance of the query from the root.
    pub(crate) depth: f32,
    /// Half-aperture of the query's cone in radians, as in MERU (K = 0.1).
    pub(crate) aperture: f32,
    /// Depth of the query in each factor; only in a product space.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) factors: Option<Vec<f32>>,
}

/// Scores of a sample of the rows that pass the filters, without rows at the query itself.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct SampledScores {
    #[serde(flatten)]
    pub(crate) range: Option<ScoreRange>,
    /// Best score of the hits and the skipped rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) best: Option<f32>,
}

/// Reply of `POST /api/point`.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct PointReply {
    /// `dim` coordinates: the space components of each factor.
    pub(crate) point: Vec<f32>,
}

/// Reply of `POST /api/photos`.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct PhotoReply {
    /// Token for queries.
    pub(crate) photo: String,
    /// Width in pixels.
    pub(crate) width: u32,
    /// Height in pixels.
    pub(crate) height: u32,
}

/// Reply of `POST /api/traverse`.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct PathReply<'a> {
    pub(crate) stops: Vec<StopReply<'a>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct StopReply<'a> {
    /// Position on the path: 0 is the start, 1 the end.
    pub(crate) at: f32,
    /// True if this stop is the root.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) root: bool,
    /// The row at this point. Its score is the similarity to the point of the path; its distance and angles are
    /// relative to the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hit: Option<RowReply<'a>>,
}

/// Reply of `POST /api/hierarchy`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct HierarchyReply<'a> {
    /// Name of the protocol: the range of the radii, and whether the first text counts.
    pub(crate) protocol: &'static str,
    /// Number of candidates.
    pub(crate) candidates: usize,
    /// The retrieved texts, from general to specific.
    pub(crate) tiers: Vec<TierReply<'a>>,
    /// The first text, if the protocol leaves it out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) left_out: Option<TierReply<'a>>,
    /// The true chain of the query, from general to specific, if the query is a row that has one (column `tiers`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) true_chain: Option<Vec<String>>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct TierReply<'a> {
    /// The smallest radius around the root that retrieves the text.
    pub(crate) radius: f64,
    /// The row of the text. Its score is the similarity to the query.
    pub(crate) hit: RowReply<'a>,
}

/// Reply of `GET /api/rows/{row}/neighbours`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct NeighboursReply<'a> {
    pub(crate) row: RowReply<'a>,
    /// Rows above the row, by angle.
    pub(crate) broader: Vec<RowReply<'a>>,
    /// Rows below the row, by angle.
    pub(crate) narrower: Vec<RowReply<'a>>,
    /// Nearest rows by distance.
    pub(crate) near: Vec<RowReply<'a>>,
}

/// Reply of `POST /api/predict`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct PredictionReply<'a> {
    /// The deepest node on the path whose probability exceeds the threshold.
    pub(crate) answer: &'a str,
    /// Depth of the answer below the lowest common ancestor of all classes.
    pub(crate) depth: usize,
    /// Probability of the answer.
    pub(crate) probability: f64,
    /// From the root down to a class.
    pub(crate) path: Vec<PredictionStep<'a>>,
    /// The most probable class.
    pub(crate) class: &'a str,
    /// Probability of the most probable class.
    pub(crate) class_probability: f64,
    /// Share of answers that may be wrong.
    pub(crate) risk: f64,
    /// Null if there were too few calibration photos; then every answer is the root.
    pub(crate) threshold: Option<f64>,
    /// Two sentences: the photos for which the risk holds, and the limits for photos of other classes.
    pub(crate) guarantee: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct PredictionStep<'a> {
    pub(crate) name: &'a str,
    /// Sum of the probabilities of the classes below the node.
    pub(crate) probability: f64,
    /// True for the answer and the nodes above it.
    pub(crate) answered: bool,
}

/// Reply of `GET /api/rows/{row}/boxes`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct BoxesReply<'a> {
    /// The row of the whole photo; absent if the set has no such row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) photo: Option<usize>,
    pub(crate) boxes: Vec<PhotoBox<'a>>,
}

/// A box of a photo. Several phrases may describe the same box; each phrase has a separate row.
#[derive(Serialize, JsonSchema)]
pub(crate) struct PhotoBox<'a> {
    /// Left, top, width, height as fractions of the photo.
    #[serde(rename = "box")]
    pub(crate) bounds: [f32; 4],
    /// The rows of the box, one per phrase.
    pub(crate) rows: Vec<usize>,
    /// The phrases of the box.
    pub(crate) texts: Vec<&'a str>,
}

/// Reply of `GET /api/map`: rows in the Poincare disc.
#[derive(Serialize, JsonSchema)]
pub(crate) struct MapReply {
    /// Row numbers.
    pub(crate) rows: Vec<usize>,
    /// x coordinate of each row in the unit disc.
    pub(crate) x: Vec<f64>,
    /// y coordinate of each row.
    pub(crate) y: Vec<f64>,
    /// Distance of each row from the root.
    pub(crate) depth: Vec<f64>,
    /// One letter per row: i image, t text, b box_image, p box_text.
    pub(crate) modality: String,
}

/// Reply of `GET /api/map/row/{row}`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct MapRowReply {
    /// x coordinate in the unit disc.
    pub(crate) x: f64,
    /// y coordinate in the unit disc.
    pub(crate) y: f64,
    /// Half-aperture of the row's cone in radians.
    pub(crate) aperture: f32,
}

/// Reply of `GET /api/map/layers`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct LayersReply<'a> {
    /// The built-in disc first.
    pub(crate) layers: Vec<LayerSummary<'a>>,
    /// The layer that is being computed, or the last one that was; absent if there was none since the server started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) job: Option<LayerJobReply>,
    /// Methods of `POST /api/map/layers`.
    pub(crate) methods: Vec<LayerMethodSummary>,
    /// Why the server computes no layers; absent if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) refused: Option<&'a str>,
    /// The second set; absent without --beside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) beside: Option<BesideSummary<'a>>,
}

/// A second set whose map is shown beside that of the served set.
#[derive(Serialize, JsonSchema)]
pub(crate) struct BesideSummary<'a> {
    /// Name to display.
    pub(crate) title: &'a str,
    /// Number of rows.
    pub(crate) rows: usize,
    /// Number of different ids that both sets have.
    pub(crate) shared_ids: usize,
    /// Number of rows that are linked: rows of the same id and kind in both sets.
    pub(crate) linked_rows: usize,
}

/// A method that computes a layer.
#[derive(Serialize, JsonSchema)]
pub(crate) struct LayerMethodSummary {
    /// Name in requests.
    pub(crate) by: String,
    /// A short description.
    pub(crate) title: String,
    /// True if the request must name a factor of the space.
    pub(crate) needs_factor: bool,
    /// Why the method does not fit the set; absent if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) refused: Option<String>,
}

/// Reply of `POST /api/map/layers` and `DELETE /api/map/layers/{name}`: a layer that is being computed, or was.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "LayerJob")]
pub(crate) struct LayerJobReply {
    /// Name of the layer.
    pub(crate) name: String,
    /// Name of the method.
    pub(crate) by: String,
    /// Factor of a product space, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) factor: Option<usize>,
    /// Number of rows drawn at random; absent for all rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sample: Option<usize>,
    pub(crate) state: LayerJobState,
    /// Name of the steps, for example `epochs`. A method may have several stages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stage: Option<String>,
    /// Number of finished steps of the stage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) step: Option<usize>,
    /// Number of steps of the stage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) steps: Option<usize>,
    /// Estimated time until the end of the stage in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) seconds_left: Option<f64>,
    /// Why the computation failed, or why a computed layer is lost when the server ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
}

/// State of the computation of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LayerJobState {
    Computing,
    /// Cancelled, but still in its current step.
    Stopping,
    /// The layer is among `layers`.
    Done,
    Cancelled,
    Failed,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct LayerSummary<'a> {
    /// Name in requests.
    pub(crate) name: &'a str,
    /// Name to display.
    pub(crate) title: &'a str,
    /// Number of rows that the layer shows.
    pub(crate) rows: usize,
    /// True for the Poincare disc, false for a plane.
    pub(crate) disc: bool,
}

/// Reply of `GET /api/map/labels`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct LabelsReply<'a> {
    /// From general to specific.
    pub(crate) labels: Vec<MapLabel<'a>>,
}

/// A word of a map: the name of a class, or a short text of the set.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub(crate) struct MapLabel<'a> {
    pub(crate) text: &'a str,
    /// Row at the position of the label: for a class, the one nearest to the mean of its rows.
    pub(crate) row: usize,
    /// x coordinate of the row.
    pub(crate) x: f32,
    /// y coordinate of the row.
    pub(crate) y: f32,
    /// Root of the mean squared distance between the rows and their mean; 0 for a text.
    pub(crate) reach: f32,
    /// Depth of the row.
    pub(crate) depth: f32,
    /// Number of rows with this class or this text, among the rows that were read.
    pub(crate) rows: usize,
    /// Level of the class below the root, from 1. Texts have levels, too: 1 for the most general ones.
    pub(crate) level: usize,
    /// True if the class has classes below it.
    pub(crate) inner: bool,
}

/// Reply of `GET /api/factors`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct FactorsReply<'a> {
    pub(crate) factors: &'a [FactorSummary],
}

/// A factor of a product space, with statistics over all rows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub(crate) struct FactorSummary {
    /// c > 0; the curvature is -c.
    pub(crate) curv: f64,
    /// Mean depth of the rows in the factor; zero without rows.
    pub(crate) mean: f64,
    /// Maximum depth of the rows in the factor.
    pub(crate) max: f64,
}

impl From<FactorDepth> for FactorSummary {
    fn from(FactorDepth { curv, mean, max }: FactorDepth) -> Self {
        FactorSummary { curv, mean, max }
    }
}

/// Reply of `GET /api/factors/{factor}`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct FactorReply<'a> {
    /// The deepest rows in the factor. The score is the depth in the factor.
    pub(crate) hits: Vec<RowReply<'a>>,
}

/// Reply of `GET /api/tree`.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct ClassReply {
    pub(crate) node: ClassSummary,
    /// Names from the root to the class.
    pub(crate) path: Vec<String>,
    /// In the order of the tree.
    pub(crate) children: Vec<ClassSummary>,
    /// Number of rows with a label that is not in the tree.
    pub(crate) outside: usize,
}

/// A class of the tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct ClassSummary {
    pub(crate) name: String,
    /// Number of rows of this class and the classes below it.
    pub(crate) count: usize,
    /// Number of child classes.
    pub(crate) children: usize,
}
