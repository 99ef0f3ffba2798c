//! `POST /api/map/page`: points of a layer as one HTML file that needs no network, the page of `conifer project`.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use conifer_viz::projection::{coloured_values, map_html};
use serde_json::{Map, json};

use crate::Server;
use crate::api::extract::JsonBody;
use crate::api::map_points::column_of;
use crate::api::map_requests::MapPageRequest;
use crate::body::typed;
use crate::error::{HttpError, HttpResult};
use crate::set::state::ServedSet;

/// Column with the text of a row.
const TEXT: &str = "text";

/// `POST /api/map/page`.
pub(crate) async fn page(State(server): State<Arc<Server>>, JsonBody(request): JsonBody<MapPageRequest>) -> HttpResult {
    request.check()?;
    server.work(move |server| respond(server, &request)).await
}

fn respond(server: &Server, request: &MapPageRequest) -> HttpResult<Response> {
    let state = &server.state;
    let layer = server.explorer.layers.find(request.layer.as_deref())?;
    let (of_layer, positions) = (layer.rows(state, usize::MAX), layer.positions(state, &server.explorer, usize::MAX)?);
    let center = request.center.filter(|_| layer.is_disc()).unwrap_or_default();
    let place = |point: [f64; 2]| moved(point, center).map(|it| (it * 1e6).round() / 1e6);
    let (mut x, mut y) = (Vec::new(), Vec::new());
    for (at, row) in request.rows.iter().enumerate() {
        let found = of_layer.binary_search(row).map_err(|_| {
            HttpError::invalid(format!("`rows[{at}]` is {row}; expected a row of the layer `{}`", layer.name()))
        })?;
        let [px, py] = place(positions[found].map(f64::from));
        x.push(px);
        y.push(py);
    }
    let mut columns = Map::new();
    let mut coloured = Map::new();
    for name in request.columns() {
        match name {
            "modality" => {
                let names = || state.modality.iter().map(|it| it.name());
                columns.insert(name.to_owned(), request.rows.iter().map(|row| state.modality[*row].name()).collect());
                coloured.insert(name.to_owned(), json!(coloured_values(names())));
            }
            "depth" => {
                columns.insert(name.to_owned(), request.rows.iter().map(|row| json!(state.depths[*row])).collect());
            }
            _ => {
                let (name, values) = column_of(state, name)?;
                let shown = numbers(values, &request.rows);
                if shown.is_none() {
                    coloured.insert(name.to_owned(), json!(coloured_values(values.iter().map(String::as_str))));
                }
                let texts = || request.rows.iter().map(|row| values[*row].as_str()).collect();
                columns.insert(name.to_owned(), shown.map_or_else(texts, |it| json!(it)));
            }
        }
    }
    let count = request.rows.len();
    let seen = request.seen.unwrap_or(count);
    let sampled = (seen > count).then(|| format!("a sample of {count} of the {seen} points that were seen"));
    let title = format!("{} · {count} rows", layer.title());
    let data = json!({
        "title": title,
        "notes": sampled.into_iter().collect::<Vec<_>>(),
        "disc": layer.is_disc(),
        "x": x,
        "y": y,
        "root": layer.root().map(place),
        "view": request.view,
        "ids": request.rows.iter().map(|row| state.ids[*row].as_str()).collect::<Vec<_>>(),
        "labels": request.rows.iter().map(|row| text(state, *row)).collect::<Vec<_>>(),
        "columns": columns,
        "coloured": coloured,
    });
    Ok(typed("text/html; charset=utf-8", map_html(&title, &data.to_string())))
}

fn text(state: &ServedSet, row: usize) -> &str {
    state.columns.get(TEXT).map_or("", |values| values[row].as_str())
}

/// The values of a column whose values at these rows are all finite numbers.
fn numbers(values: &[String], rows: &[usize]) -> Option<Vec<f64>> {
    let number = |row: &usize| values[*row].parse::<f64>().ok().filter(|it| it.is_finite());
    let found: Option<Vec<f64>> = rows.iter().map(number).collect();
    found.map(|all| all.into_iter().map(|it| (it * 1e6).round() / 1e6).collect())
}

/// The isometry of the disc that moves `a` to the centre: `(z - a) / (1 - conj(a) z)`, with complex numbers.
fn moved([x, y]: [f64; 2], [ax, ay]: [f64; 2]) -> [f64; 2] {
    let (tx, ty) = (x - ax, y - ay);
    let (bx, by) = (1.0 - (ax * x + ay * y), ay * x - ax * y);
    let size = bx * bx + by * by;
    [(tx * bx + ty * by) / size, (ty * bx - tx * by) / size]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn isometry_moves_its_point_to_the_centre_and_keeps_distances() {
        let distance = |[ax, ay]: [f64; 2], [bx, by]: [f64; 2]| {
            let far = (ax - bx).powi(2) + (ay - by).powi(2);
            (1.0 + 2.0 * far / ((1.0 - ax * ax - ay * ay) * (1.0 - bx * bx - by * by))).acosh()
        };
        let (a, p, q) = ([0.5, -0.3], [0.1, 0.7], [-0.6, 0.2]);
        assert_eq!(moved(a, a), [0.0, 0.0]);
        assert_eq!(moved(p, [0.0, 0.0]), p);
        assert!((distance(moved(p, a), moved(q, a)) - distance(p, q)).abs() < 1e-12);
    }

    #[test]
    fn a_column_is_numeric_if_the_shown_values_are() {
        let values = ["1", "x", "2.5"].map(str::to_owned);
        assert_eq!(numbers(&values, &[0, 2]), Some(vec![1.0, 2.5]));
        assert_eq!(numbers(&values, &[0, 1]), None);
        assert_eq!(numbers(&["inf".to_owned()], &[0]), None);
    }
}
