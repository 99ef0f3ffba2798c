//! The part of the description that is about the explorer: its files, the map, factors and classes.

use serde_json::{Map, Value, json};

use super::super::explore::{MAP_ROWS, MOST_MAP_ROWS};
use super::super::search::MOST_HITS;
use super::{answer, answer_json, list, open, operation, path_number, query, reference};

/// Path by path.
pub(super) fn paths() -> Map<String, Value> {
    let text = json!({ "type": "string" });
    let limit = query(
        "limit",
        json!({ "type": "integer", "minimum": 1, "maximum": MOST_MAP_ROWS, "default": MAP_ROWS }),
        false,
    );
    let k = query("k", json!({ "type": "integer", "minimum": 1, "maximum": MOST_HITS, "default": 10 }), false);
    let name = json!({ "name": "name", "in": "path", "required": true, "schema": text });
    let all = [
        ("/assets/{name}", "A file of the explorer.", vec![name], answer("text/javascript", text.clone())),
        (
            "/api/map",
            "Rows in the Poincare disc: the distance from the middle is that from the root.",
            vec![limit],
            answer_json("Map"),
        ),
        (
            "/api/map/row/{row}",
            "Where a row lies in the disc, and the half aperture of its cone, radians.",
            vec![path_number("row", "The number of a row.")],
            answer_json("MapRow"),
        ),
        ("/api/factors", "The factors of a product: depth of the rows in each.", vec![], answer_json("Factors")),
        (
            "/api/factors/{factor}",
            "The rows that reach farthest in a factor, with their depth in it as score.",
            vec![
                path_number("factor", "The number of a factor, from 0."),
                k,
                query("modality", reference("Modality"), false),
            ],
            answer_json("Top"),
        ),
        (
            "/api/tree",
            "A class and those directly below it, with numbers of rows; without `node` the root.",
            vec![query("node", text, false)],
            answer_json("Class"),
        ),
    ];
    all.into_iter()
        .map(|(path, summary, parameters, content)| {
            (path.to_owned(), json!({ "get": operation(summary, parameters, content) }))
        })
        .collect()
}

/// The schemas that these paths name.
pub(super) fn schemas() -> Map<String, Value> {
    let (text, number, count) =
        (json!({ "type": "string" }), json!({ "type": "number" }), json!({ "type": "integer", "minimum": 0 }));
    let numbers = list(number.clone());
    let child = open(json!({ "name": text, "count": count, "children": count }), &["name", "count", "children"]);
    let letters =
        json!({ "type": "string", "description": "a letter a row: i image, t text, b box_image, p box_text" });
    let schemas = json!({
        "Map": open(
            json!({ "rows": list(count.clone()), "x": numbers, "y": numbers, "depth": numbers, "modality": letters }),
            &["rows", "x", "y", "depth", "modality"],
        ),
        "MapRow": open(json!({ "x": number, "y": number, "aperture": number }), &["x", "y", "aperture"]),
        "Factors": open(
            json!({ "factors": list(open(json!({ "curv": number, "mean": number, "max": number }), &["curv", "mean", "max"])) }),
            &["factors"],
        ),
        "Top": open(json!({ "hits": list(reference("Hit")) }), &["hits"]),
        "Class": open(
            json!({
                "node": open(json!({ "name": text, "count": count }), &["name", "count"]),
                "path": list(text.clone()), "children": list(child), "outside": count,
            }),
            &["node", "path", "children", "outside"],
        ),
    });
    schemas.as_object().cloned().unwrap_or_default()
}
