//! OpenAPI description of the explorer: its files, the map, boxes, factors and classes.

use serde_json::{Value, json};

use super::super::explore::{MAP_ROWS, MAX_MAP_ROWS};
use super::super::search::MAX_HITS;
use super::{answer, answer_json, list, open, operation, path_number, query, reference, with};

pub(super) fn paths() -> Value {
    let text = json!({ "type": "string" });
    let limit =
        query("limit", json!({ "type": "integer", "minimum": 1, "maximum": MAX_MAP_ROWS, "default": MAP_ROWS }), false);
    let k = query("k", json!({ "type": "integer", "minimum": 1, "maximum": MAX_HITS, "default": 10 }), false);
    let name = json!({ "name": "name", "in": "path", "required": true, "schema": text });
    let all = [
        ("/assets/{name}", "A file of the explorer.", vec![name], answer("text/javascript", text.clone())),
        (
            "/api/map",
            "Returns rows projected into the Poincare disc. The distance from the centre shows the distance from the root.",
            vec![limit],
            answer_json("Map"),
        ),
        (
            "/api/map/row/{row}",
            "Returns the position of a row in the disc and the half-aperture of its cone in radians.",
            vec![path_number("row", "The number of a row.")],
            answer_json("MapRow"),
        ),
        (
            "/api/factors",
            "Returns the factors of a product space, with the mean and maximum depth of the rows.",
            vec![],
            answer_json("Factors"),
        ),
        (
            "/api/factors/{factor}",
            "Returns the deepest rows in a factor. The score is the depth in the factor.",
            vec![
                path_number("factor", "The number of a factor, from 0; the explorer counts from 1."),
                k,
                query("modality", reference("Modality"), false),
            ],
            answer_json("Top"),
        ),
        (
            "/api/rows/{row}/boxes",
            "Returns the boxes of the photo that a row belongs to, each once, with its phrases. At most 1000 rows of a photo are read.",
            vec![path_number("row", "The number of a row.")],
            answer_json("Boxes"),
        ),
        (
            "/api/tree",
            "Returns a class and its children with row counts. Without `node`, returns the root.",
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

/// The schemas that these paths use.
pub(super) fn schemas() -> Value {
    let (text, number, count) =
        (json!({ "type": "string" }), json!({ "type": "number" }), json!({ "type": "integer", "minimum": 0 }));
    let numbers = |what: &str| json!({ "type": "array", "items": number, "description": what });
    let described = |of: &Value, what: &str| with(of.clone(), json!({ "description": what }));
    let child = json!({
        "name": text,
        "count": described(&count, "number of rows of this class and the classes below it"),
        "children": described(&count, "number of child classes"),
    });
    let child = open(child, &["name", "count", "children"]);
    let letters =
        json!({ "type": "string", "description": "one letter per row: i image, t text, b box_image, p box_text" });
    let factor = json!({
        "curv": described(&number, "c > 0; the curvature is -c"),
        "mean": described(&number, "mean depth of the rows in the factor"),
        "max": described(&number, "maximum depth of the rows in the factor"),
    });
    json!({
        "Map": open(
            json!({
                "rows": described(&list(count.clone()), "row numbers"),
                "x": numbers("x coordinate of each row in the unit disc"), "y": numbers("y coordinate of each row"),
                "depth": numbers("distance of each row from the root"), "modality": letters,
            }),
            &["rows", "x", "y", "depth", "modality"],
        ),
        "MapRow": open(
            json!({
                "x": described(&number, "x coordinate in the unit disc"), "y": described(&number, "y coordinate in the unit disc"),
                "aperture": described(&number, "half-aperture of its cone in radians"),
            }),
            &["x", "y", "aperture"],
        ),
        "Boxes": open(
            json!({
                "photo": described(&count, "the row of the whole photo; absent if the set has no such row"),
                "boxes": list(open(
                    json!({
                        "box": {
                            "type": "array", "items": { "type": "number" }, "minItems": 4, "maxItems": 4,
                            "description": "left, top, width, height as fractions of the photo",
                        },
                        "rows": described(&list(count.clone()), "the rows of the box, one per phrase"),
                        "texts": described(&list(text.clone()), "the phrases of the box"),
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
                "node": open(json!({ "name": text, "count": described(&count, "number of rows of this class and the classes below it") }), &["name", "count"]),
                "path": described(&list(text.clone()), "names from the root to the class"), "children": list(child),
                "outside": described(&count, "number of rows with a label that is not in the tree"),
            }),
            &["node", "path", "children", "outside"],
        ),
    })
}
