//! The part of the description that is about the explorer: its files, the map, factors and classes.

use serde_json::{Value, json};

use super::super::explore::{MAP_ROWS, MOST_MAP_ROWS};
use super::super::search::MOST_HITS;
use super::{answer, answer_json, list, open, operation, path_number, query, reference, with};

/// Path by path.
pub(super) fn paths() -> Value {
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
                path_number("factor", "The number of a factor, from 0; the explorer counts from 1."),
                k,
                query("modality", reference("Modality"), false),
            ],
            answer_json("Top"),
        ),
        (
            "/api/rows/{row}/boxes",
            "The boxes of the photo that a row belongs to, each once, with the phrases that name it. At most 1000 rows of a photo are looked at.",
            vec![path_number("row", "The number of a row.")],
            answer_json("Boxes"),
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
pub(super) fn schemas() -> Value {
    let (text, number, count) =
        (json!({ "type": "string" }), json!({ "type": "number" }), json!({ "type": "integer", "minimum": 0 }));
    let numbers = |what: &str| json!({ "type": "array", "items": number, "description": what });
    let said = |of: &Value, what: &str| with(of.clone(), json!({ "description": what }));
    let child = json!({
        "name": text,
        "count": said(&count, "rows whose class is this one or one below it"),
        "children": said(&count, "classes directly below it"),
    });
    let child = open(child, &["name", "count", "children"]);
    let letters =
        json!({ "type": "string", "description": "a letter a row: i image, t text, b box_image, p box_text" });
    let factor = json!({
        "curv": said(&number, "c > 0; the curvature is -c"),
        "mean": said(&number, "mean depth of the rows in the factor"),
        "max": said(&number, "the largest"),
    });
    json!({
        "Map": open(
            json!({
                "rows": said(&list(count.clone()), "their numbers"),
                "x": numbers("of each, in the unit disc"), "y": numbers("of each"),
                "depth": numbers("distance of each from the root"), "modality": letters,
            }),
            &["rows", "x", "y", "depth", "modality"],
        ),
        "MapRow": open(
            json!({
                "x": said(&number, "in the unit disc"), "y": said(&number, "in the unit disc"),
                "aperture": said(&number, "half the aperture of its cone, radians"),
            }),
            &["x", "y", "aperture"],
        ),
        "Boxes": open(
            json!({
                "photo": said(&count, "the row of the whole photo; absent where the set has none"),
                "boxes": list(open(
                    json!({
                        "box": {
                            "type": "array", "items": { "type": "number" }, "minItems": 4, "maxItems": 4,
                            "description": "left, top, width, height as fractions of the photo",
                        },
                        "rows": said(&list(count.clone()), "the rows of the box, one for each phrase"),
                        "texts": said(&list(text.clone()), "its phrases"),
                    }),
                    &["box", "rows", "texts"],
                )),
            }),
            &["boxes"],
        ),
        "Factors": open(json!({ "factors": list(open(factor, &["curv", "mean", "max"])) }), &["factors"]),
        "Top": open(json!({ "hits": list(reference("Hit")) }), &["hits"]),
        "Class": open(
            json!({
                "node": open(json!({ "name": text, "count": said(&count, "rows whose class is this one or one below it") }), &["name", "count"]),
                "path": said(&list(text.clone()), "names from the root to the class"), "children": list(child),
                "outside": said(&count, "rows with a class that the tree does not know"),
            }),
            &["node", "path", "children", "outside"],
        ),
    })
}
