//! `GET /api/map/points`: the points of a map layer as arrays of numbers, with the colour codes of a column.
//!
//! A response of a million points has 18 MB, of which a browser can use every array without parsing it.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use conifer_embeddings::Modality;
use conifer_viz::projection::{MAP_COLOURS, coloured_values};
use serde::Serialize;

use crate::Server;
use crate::api::extract::QueryParams;
use crate::api::map_requests::{MapPointsParams, PointField};
use crate::body::typed;
use crate::error::{HttpError, HttpResult};
use crate::set::state::{BOX, ServedSet};

/// Code of a value without a colour.
const OTHER: u8 = 255;
/// Largest code of a number.
const STEPS: f64 = 254.0;

/// The JSON header of a response.
#[derive(Serialize)]
struct PointsHeader<'a> {
    layer: &'a str,
    /// Number of points of the response.
    points: usize,
    /// Number of rows of the layer, of which the points may be a sample.
    rows_of_layer: usize,
    /// True for the Poincare disc, false for a plane.
    disc: bool,
    root: Option<[f64; 2]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    colour: Option<ColumnColours<'a>>,
    arrays: PointArrays,
}

#[derive(Serialize)]
struct ArrayPlace {
    #[serde(rename = "type")]
    kind: &'static str,
    /// First byte, counted from the end of the header.
    offset: usize,
}

/// How the values of a column are coloured.
#[derive(Debug, PartialEq, Serialize)]
struct ColumnColours<'a> {
    column: &'a str,
    /// The values with an own colour, in the order of their codes; empty for a column of numbers.
    names: Vec<&'a str>,
    /// Smallest and largest number of the column, if it is a column of numbers.
    min: Option<f64>,
    max: Option<f64>,
}

/// Arrays of numbers, each at a multiple of 4 bytes. In a header, their places by name.
#[derive(Default, Serialize)]
#[serde(transparent)]
pub(crate) struct PointArrays {
    places: BTreeMap<&'static str, ArrayPlace>,
    #[serde(skip)]
    bytes: Vec<u8>,
}

/// `GET /api/map/points`.
pub(crate) async fn points(
    State(server): State<Arc<Server>>,
    QueryParams(params): QueryParams<MapPointsParams>,
) -> HttpResult {
    let limit = params.limit()?;
    server.work(move |server| respond(server, &params, limit)).await
}

fn respond(server: &Server, params: &MapPointsParams, limit: usize) -> HttpResult<Response> {
    let (state, explorer) = server.mapped(params.beside)?;
    let layer = explorer.layers.find(params.layer.as_deref())?;
    let rows = layer.rows(state, limit);
    let mut arrays = PointArrays::default();
    if params.only != Some(PointField::Codes) {
        let positions = layer.positions(state, explorer, limit)?;
        // An index has fewer than 2^32 rows.
        arrays.put("row", "u32", rows.iter().map(|row| (*row as u32).to_le_bytes()));
        arrays.put("x", "f32", positions.iter().map(|[x, _]| x.to_le_bytes()));
        arrays.put("y", "f32", positions.iter().map(|[_, y]| y.to_le_bytes()));
        arrays.put("depth", "f32", rows.iter().map(|row| state.depths[*row].to_le_bytes()));
        arrays.put("modality", "u8", rows.iter().map(|row| [modality_code(state.modality[*row])]));
    }
    let mut colour = None;
    if let Some(column) = &params.column {
        let (name, values) = column_of(state, column)?;
        let found = ColumnColours::new(name, values);
        arrays.put("code", "u8", rows.iter().map(|row| [found.code(&values[*row])]));
        colour = Some(found);
    }
    let bytes = arrays.take_bytes();
    let header = PointsHeader {
        layer: layer.name(),
        points: rows.len(),
        rows_of_layer: layer.len(state),
        disc: layer.is_disc(),
        root: layer.root(),
        colour,
        arrays,
    };
    binary(&header, bytes)
}

/// A response: 8 bytes with the length of the header, the header as JSON, then the arrays.
pub(crate) fn binary(header: &impl Serialize, mut arrays: Vec<u8>) -> HttpResult<Response> {
    let mut header = serde_json::to_vec(header).map_err(|error| HttpError::fault(error.to_string()))?;
    // Spaces are valid at the end of JSON. So the arrays begin at a multiple of 8 bytes.
    header.resize(header.len().next_multiple_of(8), b' ');
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.reserve_exact(header.len() + arrays.len());
    bytes.append(&mut header);
    bytes.append(&mut arrays);
    Ok(typed("application/octet-stream", bytes))
}

/// The name and values of a column that rows can be coloured by.
pub(crate) fn column_of<'a>(state: &'a ServedSet, column: &str) -> HttpResult<(&'a str, &'a [String])> {
    let shown = || state.columns.iter().filter(|(name, _)| *name != BOX);
    let found = shown().find(|(name, _)| *name == column);
    found.map(|(name, values)| (name.as_str(), values.as_slice())).ok_or_else(|| {
        let names: Vec<String> = shown().map(|(name, _)| format!("`{name}`")).collect();
        let expected = if names.is_empty() { "a set with columns".to_owned() } else { names.join(", ") };
        HttpError::invalid(format!("`column` is `{column}`; expected a column of the set: {expected}"))
    })
}

fn modality_code(modality: Modality) -> u8 {
    match modality {
        Modality::Image => 0,
        Modality::Text => 1,
        Modality::BoxImage => 2,
        Modality::BoxText => 3,
    }
}

impl<'a> ColumnColours<'a> {
    /// Numbers are coloured along a scale if there are more of them than colours. All values of the set count, so that a
    /// value has the same colour in every layer and sample.
    fn new(column: &'a str, values: &'a [String]) -> Self {
        match number_range(values) {
            Some((min, max)) => ColumnColours { column, names: Vec::new(), min: Some(min), max: Some(max) },
            None => {
                let names = coloured_values(values.iter().map(String::as_str));
                ColumnColours { column, names, min: None, max: None }
            }
        }
    }

    fn code(&self, value: &str) -> u8 {
        let (Some(min), Some(max)) = (self.min, self.max) else {
            // There are few names, so the index fits.
            return self.names.iter().position(|name| *name == value).map_or(OTHER, |at| at as u8);
        };
        match value.parse::<f64>() {
            Ok(number) if max > min => (STEPS * ((number - min) / (max - min))).round() as u8,
            Ok(_) => 0,
            Err(_) => OTHER,
        }
    }
}

/// The range of a column whose values are all finite numbers or empty, with more distinct values than colours.
fn number_range(values: &[String]) -> Option<(f64, f64)> {
    let (mut min, mut max) = (f64::INFINITY, f64::NEG_INFINITY);
    let mut distinct = HashSet::new();
    for value in values.iter().filter(|it| !it.is_empty()) {
        let number = value.parse::<f64>().ok().filter(|it| it.is_finite())?;
        (min, max) = (min.min(number), max.max(number));
        if distinct.len() <= MAP_COLOURS {
            distinct.insert(value.as_str());
        }
    }
    (distinct.len() > MAP_COLOURS).then_some((min, max))
}

impl PointArrays {
    /// Removes the bytes of the arrays; their places stay.
    pub(crate) fn take_bytes(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    pub(crate) fn put<const N: usize>(
        &mut self,
        name: &'static str,
        kind: &'static str,
        values: impl Iterator<Item = [u8; N]>,
    ) {
        self.places.insert(name, ArrayPlace { kind, offset: self.bytes.len() });
        values.for_each(|value| self.bytes.extend_from_slice(&value));
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(values: &[&str]) -> Vec<String> {
        values.iter().map(|it| (*it).to_owned()).collect()
    }

    #[test]
    fn names_have_codes_in_their_order() {
        let values = texts(&["dog", "cat", "dog", ""]);
        let colours = ColumnColours::new("label", &values);
        assert_eq!(colours.names, ["", "cat", "dog"]);
        assert_eq!(["dog", "cat", "", "ox"].map(|it| colours.code(it)), [2, 1, 0, OTHER]);
        // Few numbers are names.
        let values = texts(&["2", "1", "2"]);
        assert_eq!(ColumnColours::new("a", &values).names, ["1", "2"]);
    }

    #[test]
    fn many_numbers_have_a_scale() {
        let values: Vec<String> = (0..10).map(|it| format!("{}", it * 2 - 3)).chain([String::new()]).collect();
        let colours = ColumnColours::new("a", &values);
        assert_eq!((colours.min, colours.max, colours.names.len()), (Some(-3.0), Some(15.0), 0));
        assert_eq!(["-3", "6", "15", ""].map(|it| colours.code(it)), [0, 127, 254, OTHER]);
        let mixed: Vec<String> = values.into_iter().chain(["dog".to_owned()]).collect();
        assert_eq!(ColumnColours::new("a", &mixed).names.len(), MAP_COLOURS);
        let infinite: Vec<String> = (0..10).map(|it| format!("{it}")).chain(["inf".to_owned()]).collect();
        assert_eq!(ColumnColours::new("a", &infinite).min, None);
    }

    #[test]
    fn arrays_are_aligned() {
        let mut arrays = PointArrays::default();
        arrays.put("a", "u8", [[1], [2], [3]].into_iter());
        arrays.put("b", "u32", [7_u32.to_le_bytes()].into_iter());
        assert_eq!((arrays.places["a"].offset, arrays.places["b"].offset), (0, 4));
        assert_eq!(arrays.bytes, [1, 2, 3, 0, 7, 0, 0, 0]);
    }
}
