//! Bodies and query parameters of requests for the map.

use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use crate::api::requests::{in_range, object_only};
use crate::error::{HttpError, HttpResult};
use crate::layer_maker::LayerRecipe;

/// Default number of rows of a map.
pub(crate) const MAP_ROWS: usize = 100_000;
/// Maximum number of rows of a map.
pub(crate) const MAX_MAP_ROWS: usize = 1_000_000;
/// Maximum and default number of points of `/api/map/points`. A point has 18 bytes.
pub(crate) const MAX_MAP_POINTS: usize = 10_000_000;
/// Maximum number of rows and of columns of a saved page of the map.
const MAX_PAGE_ROWS: usize = 60_000;
const MAX_PAGE_COLUMNS: usize = 20;
/// Maximum length of the name of a layer, which is also the name of its folder.
const MAX_LAYER_NAME: usize = 60;

/// Query parameters of `GET /api/map`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MapParams {
    /// Maximum number of rows.
    #[schemars(range(min = 1, max = MAX_MAP_ROWS), extend("default" = MAP_ROWS))]
    limit: Option<usize>,
}

/// Query parameters of `GET /api/map/points`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MapPointsParams {
    /// Name of a layer; the built-in disc by default.
    pub(crate) layer: Option<String>,
    /// Maximum number of points. If the layer has more, they are evenly sampled.
    #[schemars(range(min = 1, max = MAX_MAP_POINTS), extend("default" = MAX_MAP_POINTS))]
    limit: Option<usize>,
    /// Name of a column, for colour codes.
    pub(crate) column: Option<String>,
    /// Return only the colour codes; requires `column`.
    pub(crate) only: Option<PointField>,
    /// The map of the second set (--beside).
    #[schemars(extend("default" = false))]
    pub(crate) beside: Option<bool>,
}

/// A part of the response of `GET /api/map/points`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PointField {
    Codes,
}

/// Query parameters of `GET /api/map/labels`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MapLabelsParams {
    /// Name of a layer; the built-in disc by default.
    pub(crate) layer: Option<String>,
    /// The map of the second set (--beside).
    #[schemars(extend("default" = false))]
    pub(crate) beside: Option<bool>,
}

/// Query parameters of `GET /api/map/layers`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MapLayersParams {
    /// The layers of the second set (--beside).
    #[schemars(extend("default" = false))]
    pub(crate) beside: Option<bool>,
}

/// Body of `POST /api/map/layers`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", deny_unknown_fields)]
#[schemars(rename = "NewLayer")]
pub(crate) struct LayerRequest {
    /// Name of a method; /api/map/layers lists them.
    pub(crate) by: String,
    /// Factor of a product space, from 0.
    pub(crate) factor: Option<usize>,
    /// Number of rows, drawn at random; all rows by default.
    #[schemars(range(min = 1))]
    pub(crate) sample: Option<usize>,
    /// Name of the layer: up to 60 letters, digits, `-`, `_` and `.`, the first one a letter or a digit. By default the
    /// method, with factor and sample.
    pub(crate) name: Option<String>,
}

object_only!(LayerRequest, "an object");

/// Body of `POST /api/map/page`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", deny_unknown_fields)]
#[schemars(rename = "MapPage")]
pub(crate) struct MapPageRequest {
    /// Name of a layer; the built-in disc by default.
    pub(crate) layer: Option<String>,
    /// Row numbers of the layer.
    #[schemars(length(min = 1, max = MAX_PAGE_ROWS))]
    pub(crate) rows: Vec<usize>,
    /// Names of the columns that colour the points, the initial one first: `modality`, `depth` and columns of the set. `modality`
    /// and `depth` by default.
    #[schemars(length(max = MAX_PAGE_COLUMNS))]
    columns: Option<Vec<String>>,
    /// Point of a disc that is moved to the centre.
    pub(crate) center: Option<[f64; 2]>,
    /// The part of the map that is shown at first: x and y of its middle after the move, and half the shorter side of
    /// the picture. All of it by default.
    pub(crate) view: Option<[f64; 3]>,
    /// Number of points of which the rows are a sample.
    pub(crate) seen: Option<usize>,
}

object_only!(MapPageRequest, "an object");

impl MapParams {
    /// # Errors
    /// 422: `limit` is out of range.
    pub(crate) fn limit(&self) -> HttpResult<usize> {
        in_range("limit", self.limit.unwrap_or(MAP_ROWS), 1, MAX_MAP_ROWS)
    }
}

impl MapPointsParams {
    /// # Errors
    /// 422: `limit` is out of range, or `only` is given without `column`.
    pub(crate) fn limit(&self) -> HttpResult<usize> {
        if let (Some(PointField::Codes), None) = (self.only, &self.column) {
            return Err(HttpError::invalid("`only` is `codes` without `column`; expected the name of a column, too"));
        }
        in_range("limit", self.limit.unwrap_or(MAX_MAP_POINTS), 1, MAX_MAP_POINTS)
    }
}

impl LayerRequest {
    /// # Errors
    /// 422: the name or the sample is not valid.
    pub(crate) fn recipe(self) -> HttpResult<LayerRecipe> {
        let LayerRequest { by, factor, sample, name } = self;
        if sample == Some(0) {
            return Err(HttpError::invalid("`sample` is 0; expected at least 1"));
        }
        let Some(name) = name else {
            // The maker checks `by`.
            let mut name = by.clone();
            name.extend(factor.map(|it| format!("-factor-{it}")));
            name.extend(sample.map(|it| format!("-sample-{it}")));
            return Ok(LayerRecipe { name, by, factor, sample });
        };
        let is_valid = |it: char| it.is_ascii_alphanumeric() || "-_.".contains(it);
        let starts = name.starts_with(|it: char| it.is_ascii_alphanumeric());
        if !starts || name.len() > MAX_LAYER_NAME || !name.chars().all(is_valid) {
            let shown: String = name.chars().take(MAX_LAYER_NAME).collect();
            let expected =
                format!("up to {MAX_LAYER_NAME} letters, digits, `-`, `_` and `.`, the first one a letter or a digit");
            return Err(HttpError::invalid(format!("`name` is `{shown}`; expected {expected}")));
        }
        Ok(LayerRecipe { name, by, factor, sample })
    }
}

impl MapPageRequest {
    /// # Errors
    /// 422: there are no rows or too many rows or columns, or the part of the map is not valid.
    pub(crate) fn check(&self) -> HttpResult<()> {
        if !(1..=MAX_PAGE_ROWS).contains(&self.rows.len()) {
            let found = self.rows.len();
            return Err(HttpError::invalid(format!("`rows` has {found} numbers; expected 1 to {MAX_PAGE_ROWS}")));
        }
        if self.columns().count() > MAX_PAGE_COLUMNS {
            let found = self.columns().count();
            return Err(HttpError::invalid(format!(
                "`columns` has {found} names; expected at most {MAX_PAGE_COLUMNS}"
            )));
        }
        if let Some([x, y]) = self.center.filter(|[x, y]| x.hypot(*y) >= 1.0) {
            return Err(HttpError::invalid(format!("`center` is [{x}, {y}]; expected a point inside the unit disc")));
        }
        if let Some([_, _, half]) = self.view.filter(|[_, _, half]| *half <= 0.0) {
            return Err(HttpError::invalid(format!("`view[2]` is {half}; expected a length above 0")));
        }
        Ok(())
    }

    pub(crate) fn columns(&self) -> impl Iterator<Item = &str> {
        const DEFAULT: [&str; 2] = ["modality", "depth"];
        let default = if self.columns.is_none() { &DEFAULT[..] } else { &[] };
        self.columns.iter().flatten().map(String::as_str).chain(default.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    #[test]
    fn layers_are_named_after_their_recipe() {
        let recipe = |body: serde_json::Value| serde_json::from_value::<LayerRequest>(body).unwrap().recipe();
        let name = |body: serde_json::Value| recipe(body).unwrap().name;
        assert_eq!(name(json!({ "by": "umap" })), "umap");
        assert_eq!(name(json!({ "by": "horopca", "factor": 1, "sample": 50 })), "horopca-factor-1-sample-50");
        assert_eq!(name(json!({ "by": "umap", "name": "Map_2.b" })), "Map_2.b");
        let long = "a".repeat(61);
        for wrong in ["", ".umap", "..", "a/b", "a b", "ü", &long] {
            let error = recipe(json!({ "by": "umap", "name": wrong })).unwrap_err();
            assert!(error.status == 422 && error.message.contains("expected up to 60 letters"), "{wrong}: {error:?}");
        }
        assert!(recipe(json!({ "by": "umap", "sample": 0 })).unwrap_err().message.contains("`sample` is 0"));
    }

    #[test]
    fn pages_are_checked() {
        let error = |body: serde_json::Value| {
            serde_json::from_value::<MapPageRequest>(body)
                .unwrap()
                .check()
                .err()
                .map(|it| it.message)
                .unwrap_or_default()
        };
        assert_eq!(error(json!({ "rows": [1], "center": [0.6, 0.7], "view": [0, 0, 1] })), "");
        assert!(error(json!({ "rows": [] })).contains("`rows` has 0 numbers; expected 1 to 60000"));
        assert!(error(json!({ "rows": vec![0; 60_001] })).contains("`rows` has 60001 numbers"));
        assert!(error(json!({ "rows": [1], "columns": vec!["a"; 21] })).contains("`columns` has 21 names"));
        assert!(error(json!({ "rows": [1], "center": [0.6, 0.8] })).contains("inside the unit disc"));
        assert!(error(json!({ "rows": [1], "view": [0, 0, 0] })).contains("`view[2]` is 0"));
    }
}
