//! Bodies and query parameters of requests, shared by server, front and the OpenAPI document.
//!
//! `null` means that a field is absent.

use std::collections::BTreeMap;

use conifer_embeddings::Modality;
use conifer_eval::ChainProtocol;
use conifer_index::{PathKind, Ranking};
use conifer_search::{MAX_ANGLE, PathName, RankingName};
use schemars::{JsonSchema, Schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Value, json};

use crate::error::{HttpError, HttpResult};

/// Maximum number of hits in a response.
pub(crate) const MAX_HITS: usize = 1000;
/// Maximum number of hits that a request may skip.
pub(crate) const MAX_OFFSET: usize = 1_000_000;
/// Maximum number of characters of a text.
pub(crate) const MAX_CHARACTERS: usize = 10_000;
/// Maximum number of points of a path.
pub(crate) const MAX_STEPS: usize = 200;
/// Limits of the size of a thumbnail in pixels.
pub(crate) const MIN_THUMBNAIL: usize = 32;
pub(crate) const MAX_THUMBNAIL: usize = 1024;

/// Describes a query in error messages.
pub(crate) const POINT_QUERY: &str =
    "an object with exactly one of `text`, `photo`, `row`, `id`, `point`, `image_vector`, `text_vector`, `all`";

/// Implements `Deserialize` and `Serialize` with the derived code of `#[serde(remote = "Self")]`, but accepts only
/// objects. The derived code alone also accepts a list of the fields.
macro_rules! object_only {
    ($type:ident, $expected:expr) => {
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                struct ObjectVisitor;
                impl<'de> Visitor<'de> for ObjectVisitor {
                    type Value = $type;

                    fn expecting(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        to.write_str($expected)
                    }

                    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<$type, A::Error> {
                        $type::deserialize(MapAccessDeserializer::new(map))
                    }
                }
                from.deserialize_map(ObjectVisitor)
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                $type::serialize(self, to)
            }
        }
    };
}

pub(crate) use object_only;

/// Modality of a row. `-` may replace `_` in requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Modality")]
pub(crate) enum ModalityName {
    Image,
    Text,
    #[serde(alias = "box-image")]
    BoxImage,
    #[serde(alias = "box-text")]
    BoxText,
}

/// Declares a request with these fields and those of a row filter. `serde(flatten)` would lose the path of a wrong
/// value.
macro_rules! filtered_request {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* }) => {
        #[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
        #[serde(remote = "Self", deny_unknown_fields)]
        $(#[$doc])*
        pub(crate) struct $name {
            $($(#[$field_doc])* pub(crate) $field: $type,)*
            /// Only rows of one of these modalities.
            pub(crate) modality: Option<Vec<ModalityName>>,
            /// Only rows with one of these values, for each column: {"label": ["bus", "car"]}.
            #[serde(default, deserialize_with = "unique_columns")]
            pub(crate) columns: Option<BTreeMap<String, Vec<String>>>,
            /// Only rows whose depth (distance from the root) is in this range; the minimum first.
            pub(crate) depth: Option<[f32; 2]>,
            /// Only rows inside the cone of this query.
            pub(crate) inside: Option<PointQuery>,
            /// No rows inside the cone of any of these queries.
            pub(crate) not: Option<Vec<PointQuery>>,
            /// Only rows of this class of the tree and the classes below it.
            pub(crate) subtree: Option<String>,
        }

        impl $name {
            pub(crate) fn filter(&self) -> RowFilter<'_> {
                RowFilter {
                    modality: self.modality.as_deref(),
                    columns: self.columns.as_ref(),
                    depth: self.depth,
                    inside: self.inside.as_ref(),
                    not: self.not.as_deref().unwrap_or_default(),
                    subtree: self.subtree.as_deref(),
                }
            }
        }

        object_only!($name, "an object");
    };
}

/// The row filter of a request. A row must satisfy every field that is set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowFilter<'a> {
    pub(crate) modality: Option<&'a [ModalityName]>,
    pub(crate) columns: Option<&'a BTreeMap<String, Vec<String>>>,
    pub(crate) depth: Option<[f32; 2]>,
    pub(crate) inside: Option<&'a PointQuery>,
    pub(crate) not: &'a [PointQuery],
    pub(crate) subtree: Option<&'a str>,
}

impl<'a> RowFilter<'a> {
    /// Only the rows inside the cone of a query.
    pub(crate) fn inside(query: &'a PointQuery) -> Self {
        RowFilter { modality: None, columns: None, depth: None, inside: Some(query), not: &[], subtree: None }
    }
}

/// A query, which specifies a point. Exactly one field is set.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", deny_unknown_fields)]
#[schemars(transform = one_field, rename = "Query")]
pub(crate) struct PointQuery {
    /// A text; requires a server with a model.
    #[schemars(length(max = MAX_CHARACTERS))]
    pub(crate) text: Option<String>,
    /// A token from /api/photos.
    pub(crate) photo: Option<String>,
    /// A row number.
    pub(crate) row: Option<usize>,
    /// The first row with this id.
    pub(crate) id: Option<String>,
    /// `dim` coordinates in the space of the set, as returned by /api/point.
    pub(crate) point: Option<Vec<f32>>,
    /// The vector of a photo, for a model that reads vectors; /api/info has its width (`vectors`).
    pub(crate) image_vector: Option<Vec<f32>>,
    /// The vector of a text, for a model that reads vectors.
    pub(crate) text_vector: Option<Vec<f32>>,
    /// Conjunction of several queries: in each factor, the factor point with the largest norm. They cannot contain
    /// `all`.
    #[schemars(length(min = 2, max = 8))]
    pub(crate) all: Option<Vec<PointQuery>>,
}

object_only!(PointQuery, POINT_QUERY);

filtered_request! {
    /// Body of `POST /api/search`.
    #[schemars(rename = "Search")]
    SearchRequest {
        query: PointQuery,
        /// distance, similarity, inner: the nearest rows by that measure. narrower, broader: the rows below or above
        /// the query, by exterior angle. gated_narrower, gated_broader: the same rows within `angle`, most similar
        /// first. general: the rows below the query within `angle`, or the rows not farther than `within`, from general
        /// to specific. `-` may replace `_`.
        #[schemars(extend("default" = "distance"))]
        by: Option<RankingName>,
        /// Maximum number of hits.
        #[schemars(range(min = 1, max = MAX_HITS), extend("default" = 10))]
        k: Option<usize>,
        /// Maximum exterior angle in radians. gated_narrower and gated_broader require it, general requires it or
        /// `within`, other rankings reject it.
        #[schemars(range(min = 0, max = MAX_ANGLE))]
        angle: Option<f32>,
        /// Maximum distance; only for general.
        #[schemars(range(min = 0))]
        within: Option<f32>,
        /// Number of best rows to skip.
        #[schemars(range(max = MAX_OFFSET), extend("default" = 0))]
        offset: Option<usize>,
    }
}

filtered_request! {
    /// Body of `POST /api/traverse`.
    #[schemars(rename = "Walk")]
    TraverseRequest {
        from: PointQuery,
        /// End of the path; the root by default.
        to: Option<PointQuery>,
        /// Number of points of the path.
        #[schemars(range(min = 2, max = MAX_STEPS), extend("default" = 50))]
        steps: Option<usize>,
        /// Kind of the path between both ends.
        #[schemars(extend("default" = "geodesic"))]
        path: Option<PathName>,
        /// Only rows whose cone contains the point of the path, as in MERU. Otherwise all rows, as in the
        /// interpolation of HyCoCLIP.
        #[schemars(extend("default" = true))]
        cone: Option<bool>,
        /// Return every point of the path with its nearest row, instead of each row once.
        #[schemars(extend("default" = false))]
        each: Option<bool>,
    }
}

filtered_request! {
    /// Body of `POST /api/hierarchy`. Without `modality`, the texts of the set are the candidates.
    #[schemars(rename = "Hierarchy")]
    HierarchyRequest {
        from: PointQuery,
        /// Number of radii.
        #[schemars(range(min = 2, max = MAX_STEPS), extend("default" = 50))]
        steps: Option<usize>,
        /// Range of the radii, and whether the first text counts.
        #[schemars(extend("default" = "paper"))]
        protocol: Option<ChainProtocolName>,
    }
}

/// A protocol of chain retrieval by its name in requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "ChainProtocol")]
pub(crate) enum ChainProtocolName {
    /// From the root to the text closest to the query, without the first text.
    Paper,
    /// From the root to the text closest to the query.
    PaperFirstKept,
    /// From the shallowest to the deepest candidate, as the released evaluator of HierarCaps.
    Released,
    /// From the shallowest to the deepest candidate, without the first text.
    ReleasedFirstLeftOut,
}

/// Body of `POST /api/point` and `POST /api/predict`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", deny_unknown_fields)]
pub(crate) struct PointRequest {
    pub(crate) query: PointQuery,
}

object_only!(PointRequest, "an object");

/// Body of `POST /api/rows/list`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", deny_unknown_fields)]
#[schemars(rename = "RowList")]
pub(crate) struct RowListRequest {
    /// Row numbers.
    #[schemars(length(min = 1, max = MAX_HITS))]
    pub(crate) rows: Vec<usize>,
}

object_only!(RowListRequest, "an object");

/// Query parameters of `GET /api/rows`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RowIdParams {
    pub(crate) id: String,
}

/// Query parameters of a neighbour search.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NeighbourParams {
    /// Maximum number of rows in each list.
    #[schemars(range(min = 1, max = MAX_HITS), extend("default" = 10))]
    k: Option<usize>,
    pub(crate) modality: Option<ModalityName>,
}

/// Query parameters of a thumbnail.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ThumbnailParams {
    /// Maximum length of the shorter side in pixels.
    #[schemars(range(min = MIN_THUMBNAIL, max = MAX_THUMBNAIL), extend("default" = 256))]
    size: Option<usize>,
    /// For a box, return the whole photo.
    #[schemars(extend("default" = false))]
    pub(crate) whole: Option<bool>,
}

/// Query parameters of `GET /api/tree`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TreeParams {
    /// Name of a class; the root by default.
    pub(crate) node: Option<String>,
}

impl SearchRequest {
    /// # Errors
    /// A number is out of range, or a limit is missing or not accepted by the ranking.
    pub(crate) fn check(&self) -> HttpResult<Ranking> {
        in_range("k", self.k(), 1, MAX_HITS)?;
        in_range("offset", self.offset(), 0, MAX_OFFSET)?;
        self.by().ranking(self.angle, self.within, "").map_err(HttpError::invalid)
    }

    /// A search without limits and filters, except by modality.
    pub(crate) fn of(query: PointQuery, by: RankingName, modality: Option<ModalityName>) -> Self {
        Self {
            query,
            by: Some(by),
            k: None,
            angle: None,
            within: None,
            offset: None,
            modality: modality.map(|it| vec![it]),
            columns: None,
            depth: None,
            inside: None,
            not: None,
            subtree: None,
        }
    }

    pub(crate) fn by(&self) -> RankingName {
        self.by.unwrap_or_default()
    }

    pub(crate) fn k(&self) -> usize {
        self.k.unwrap_or(10)
    }

    pub(crate) fn offset(&self) -> usize {
        self.offset.unwrap_or(0)
    }
}

impl TraverseRequest {
    /// Returns the number of points in the request.
    ///
    /// # Errors
    /// The number of steps is out of range, or `from` or `to` is not a valid query.
    pub(crate) fn check(&self) -> HttpResult<usize> {
        in_range("steps", self.steps(), 2, MAX_STEPS)?;
        Ok(self.to.as_ref().map_or(Ok(0), PointQuery::check)? + self.from.check()?)
    }

    pub(crate) fn steps(&self) -> usize {
        self.steps.unwrap_or(50)
    }

    pub(crate) fn path(&self) -> PathKind {
        self.path.map_or(PathKind::Geodesic, Into::into)
    }
}

impl HierarchyRequest {
    /// Returns the number of points in the request.
    ///
    /// # Errors
    /// The number of steps is out of range, or `from` is not a valid query.
    pub(crate) fn check(&self) -> HttpResult<usize> {
        in_range("steps", self.steps(), 2, MAX_STEPS)?;
        self.from.check()
    }

    pub(crate) fn steps(&self) -> usize {
        self.steps.unwrap_or(50)
    }

    pub(crate) fn protocol(&self) -> ChainProtocol {
        match self.protocol {
            None | Some(ChainProtocolName::Paper) => ChainProtocol::PAPER,
            Some(ChainProtocolName::PaperFirstKept) => ChainProtocol::PAPER_FIRST_KEPT,
            Some(ChainProtocolName::Released) => ChainProtocol::RELEASED,
            Some(ChainProtocolName::ReleasedFirstLeftOut) => ChainProtocol::RELEASED_FIRST_LEFT_OUT,
        }
    }
}

impl NeighbourParams {
    /// # Errors
    /// 422: `k` is out of range.
    pub(crate) fn k(&self) -> HttpResult<usize> {
        in_range("k", self.k.unwrap_or(10), 1, MAX_HITS)
    }
}

impl ThumbnailParams {
    /// # Errors
    /// 422: `size` is out of range.
    pub(crate) fn size(&self) -> HttpResult<u32> {
        // The maximum fits into `u32`.
        in_range("size", self.size.unwrap_or(256), MIN_THUMBNAIL, MAX_THUMBNAIL).map(|size| size as u32)
    }
}

impl RowListRequest {
    /// # Errors
    /// 422: there are no rows, or more than [`MAX_HITS`].
    pub(crate) fn check(&self) -> HttpResult<()> {
        if (1..=MAX_HITS).contains(&self.rows.len()) {
            return Ok(());
        }
        Err(HttpError::invalid(format!("`rows` has {} numbers; expected 1 to {MAX_HITS}", self.rows.len())))
    }
}

impl PointQuery {
    pub(crate) fn of_row(row: usize) -> Self {
        Self { row: Some(row), ..Self::default() }
    }

    pub(crate) fn of_point(point: Vec<f32>) -> Self {
        Self { point: Some(point), ..Self::default() }
    }
}

impl From<ModalityName> for Modality {
    fn from(name: ModalityName) -> Self {
        match name {
            ModalityName::Image => Modality::Image,
            ModalityName::Text => Modality::Text,
            ModalityName::BoxImage => Modality::BoxImage,
            ModalityName::BoxText => Modality::BoxText,
        }
    }
}

impl From<Modality> for ModalityName {
    fn from(modality: Modality) -> Self {
        match modality {
            Modality::Image => ModalityName::Image,
            Modality::Text => ModalityName::Text,
            Modality::BoxImage => ModalityName::BoxImage,
            Modality::BoxText => ModalityName::BoxText,
        }
    }
}

/// Checks that `value` of the field `name` is from `min` to `max`.
pub(crate) fn in_range(name: &str, value: usize, min: usize, max: usize) -> HttpResult<usize> {
    match value {
        _ if (min..=max).contains(&value) => Ok(value),
        _ if min == 0 => Err(HttpError::invalid(format!("`{name}` is {value}; expected at most {max}"))),
        _ => Err(HttpError::invalid(format!("`{name}` is {value}; expected {min} to {max}"))),
    }
}

/// Rejects repeated columns, of which the derived code would keep only the last.
fn unique_columns<'de, D: Deserializer<'de>>(from: D) -> Result<Option<BTreeMap<String, Vec<String>>>, D::Error> {
    struct ColumnsVisitor;
    impl<'de> Visitor<'de> for ColumnsVisitor {
        type Value = Option<BTreeMap<String, Vec<String>>>;

        fn expecting(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            to.write_str("an object with a list of texts for each column")
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut columns = BTreeMap::new();
            while let Some((name, values)) = map.next_entry::<String, Vec<String>>()? {
                if columns.contains_key(&name) {
                    return Err(serde::de::Error::custom(format_args!("duplicate field `{name}`")));
                }
                columns.insert(name, values);
            }
            Ok(Some(columns))
        }
    }
    from.deserialize_any(ColumnsVisitor)
}

/// Turns the schema of a struct into "an object with exactly one of these fields".
fn one_field(schema: &mut Schema) {
    let Some(Value::Object(fields)) = schema.remove("properties") else { return };
    let one = |(name, mut field): (String, Value)| {
        non_null(&mut field);
        json!({ "type": "object", "properties": { name.clone(): field }, "required": [name], "additionalProperties": false })
    };
    let one_of: Vec<Value> = fields.into_iter().map(one).collect();
    schema.remove("type");
    schema.remove("additionalProperties");
    schema.insert("oneOf".to_owned(), one_of.into());
}

/// Removes `null` from the types of a schema.
pub(crate) fn non_null(schema: &mut Value) {
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|it| it != "null");
        if let [one] = &types[..] {
            schema["type"] = one.clone();
        }
    }
    if let Some(Value::Array(types)) = schema.get_mut("anyOf") {
        types.retain(|it| it["type"] != "null");
    }
}
