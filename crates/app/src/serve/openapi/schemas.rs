//! What requests and answers are made of.

use serde_json::{Value, json};

use super::super::search::{MIN_RADIUS, MOST_HITS, MOST_OFFSET};
use super::{exact, list, open, reference, with};
use crate::ranking::{MOST_ANGLE, NAMES};

/// By name.
pub(super) fn schemas() -> Value {
    with(with(asked(), requests()), answers())
}

/// The ways to name a point.
fn asked() -> Value {
    let one = |name: &str, of: Value| exact(json!({ name: of }), &[name]);
    let mut leaves = vec![
        one("text", json!({ "type": "string", "maxLength": 10_000, "description": "needs a server with a model" })),
        one("photo", json!({ "type": "string", "description": "a token of /api/photos" })),
        one("row", number_of("the number of a row")),
        one("id", json!({ "type": "string", "description": "the first row with this id" })),
        one(
            "point",
            json!({ "type": "array", "items": { "type": "number" }, "minItems": 1, "description": "`dim` numbers, as of /api/point" }),
        ),
    ];
    let named = json!({ "oneOf": leaves });
    let all = json!({
        "type": "array", "items": reference("Named"), "minItems": 2, "maxItems": 8,
        "description": "all of them at once: by the maximum of each factor",
    });
    leaves.push(one("all", all));
    json!({
        "Modality": { "enum": ["image", "text", "box_image", "box_text"], "description": "`-` is as good as `_`" },
        "Named": named,
        "Query": { "oneOf": leaves },
    })
}

fn requests() -> Value {
    let filter = json!({
        "modality": { "type": "array", "items": reference("Modality"), "description": "only rows of one of these modalities" },
        "columns": {
            "type": "object", "additionalProperties": list(json!({ "type": "string" })),
            "description": "only rows with one of these values, for each column: {\"label\": [\"bus\", \"car\"]}",
        },
        "depth": {
            "type": "array", "items": { "type": "number" }, "minItems": 2, "maxItems": 2,
            "description": "only rows whose depth, their distance from the root, is between these two; the smaller one first",
        },
        "inside": about(reference("Query"), "only rows inside the cone of this"),
        "not": { "type": "array", "items": reference("Query"), "description": "no row inside the cone of one of these" },
        "subtree": { "type": "string", "description": "only rows whose class is this one of the tree, or one below it" },
    });
    let search = json!({
        "query": reference("Query"),
        "by": {
            "enum": NAMES, "default": "distance",
            "description": "distance, similarity, inner: the nearest by that measure; narrower, broader: by exterior angle, what lies below the query, or above it; gated_narrower, gated_broader: of these what is within `angle`, most similar first; general: what is below the query within `angle`, or nearer than `within`, from general to specific. `-` is as good as `_`",
        },
        "k": { "type": "integer", "minimum": 1, "maximum": MOST_HITS, "default": 10, "description": "hits, at most" },
        "angle": {
            "type": "number", "minimum": 0, "maximum": rounded(MOST_ANGLE),
            "description": "the largest exterior angle, radians: gated_narrower and gated_broader need it, general needs it or `within`, others refuse it",
        },
        "within": { "type": "number", "minimum": 0, "description": "the largest distance; for general" },
        "offset": { "type": "integer", "minimum": 0, "maximum": MOST_OFFSET, "default": 0, "description": "better rows that are left out" },
    });
    let walk = json!({
        "from": reference("Query"),
        "to": about(reference("Query"), "where the path ends; else at the root"),
        "steps": { "type": "integer", "minimum": 2, "maximum": 200, "default": 50, "description": "points of the path" },
        "cone": { "type": "boolean", "default": true, "description": "only rows whose cone contains the point of the path" },
        "each": { "type": "boolean", "default": false, "description": "every point of the path with the nearest row there" },
    });
    json!({
        "Search": exact(with(search, filter.clone()), &["query"]),
        "Walk": exact(with(walk, filter), &["from"]),
        "PointOf": exact(json!({ "query": reference("Query") }), &["query"]),
    })
}

fn answers() -> Value {
    let text = json!({ "type": "string" });
    let status = number_of("that of HTTP");
    let hits = list(reference("Hit"));
    json!({
        "Error": exact(json!({ "error": exact(json!({ "status": status, "message": text }), &["status", "message"]) }), &["error"]),
        "Point": open(json!({ "point": numbers("its `dim` coordinates: the space components of each factor") }), &["point"]),
        "Hit": hit(),
        "Found": open(json!({
            "query": open(json!({
                "depth": number("its distance from the root"),
                "aperture": number(&format!("half the aperture of its cone, radians, as MERU has it (K = {MIN_RADIUS})")),
                "factors": numbers("of a product: its depth in each factor"),
            }), &["depth", "aperture"]),
            "hits": { "type": "array", "items": reference("Hit"), "description": "the best first" },
            "rows_passing": number_of("rows that pass the filters, found or not"),
            "took_ms": number("milliseconds"),
        }), &["query", "hits", "rows_passing", "took_ms"]),
        "Path": open(json!({
            "stops": list(open(json!({
                "at": number("where on the path: 0 is its start, 1 its end"),
                "root": { "type": "boolean", "description": "the root itself" },
                "hit": about(reference("Hit"), "the row that is met; its score is the similarity with the point of the path, its distance and angles are those from the start"),
            }), &["at"])),
        }), &["stops"]),
        "Photo": open(
            json!({ "photo": text, "width": number_of("pixels"), "height": number_of("pixels") }),
            &["photo", "width", "height"],
        ),
        "Neighbours": open(json!({
            "row": reference("Hit"),
            "broader": about(hits.clone(), "what lies above the row, by angle"),
            "narrower": about(hits.clone(), "what lies below the row, by angle"),
            "near": about(hits, "by distance"),
        }), &["row", "broader", "narrower", "near"]),
        "Health": open(json!({ "status": text, "rows": number_of("rows"), "version": text }), &["status", "rows", "version"]),
        "Info": info(),
        "Set": open(json!({
            "sha256": { "type": "string", "description": "of all that answers depend on; `conifer-set` in the head of every answer" },
            "rows": number_of("rows of all parts"), "version": number_of("of a store"),
            "weights": { "type": "string", "description": "sha256 of the weights of the model" },
            "tree": { "type": "string", "description": "sha256 of the class tree" },
        }), &["sha256", "rows"]),
    })
}

fn hit() -> Value {
    let text = json!({ "type": "string" });
    open(
        json!({
            "row": number_of("its number"), "id": text, "modality": reference("Modality"),
            "score": number("what the rows were ranked by. distance: the distance, small first; similarity, gated_narrower, gated_broader: the similarity, large first; inner: the inner product, large first; narrower, broader: the exterior angle, radians, small first; general: the depth, small first. Absent where there is no query"),
            "depth": number("its distance from the root: how specific it is"),
            "distance": number("from the query"),
            "angle_down": number("the exterior angle, radians, with the query as the parent: small where the row lies below the query"),
            "angle_up": number("the exterior angle, radians, with the row as the parent: small where the row lies above the query"),
            "columns": { "type": "object", "additionalProperties": { "type": "string" }, "description": "its value in each column; empty for none" },
            "box": {
                "type": "array", "items": { "type": "number" }, "minItems": 4, "maxItems": 4,
                "description": "left, top, width, height as fractions of the photo",
            },
            "thumbnail": { "type": "boolean", "description": "whether /api/rows/{row}/thumbnail has a picture" },
        }),
        &["row", "id", "modality", "depth", "columns", "thumbnail"],
    )
}

fn info() -> Value {
    let text = json!({ "type": "string" });
    let value = json!({
        "type": "array", "prefixItems": [{ "type": "string" }, { "type": "integer", "minimum": 1 }], "minItems": 2, "maxItems": 2,
        "description": "a value and how many rows have it",
    });
    let column = json!({
        "name": text,
        "distinct": number_of("different values; an empty one is none"),
        "values": { "type": "array", "items": value, "description": "the most frequent ones first, 50 at most" },
        "partial": { "type": "boolean", "description": "of a front: there may be more values than its shards told" },
    });
    let depth = json!({
        "min": number("of the row nearest to the root"),
        "max": number("of the row farthest from it"),
        "deciles": numbers("0 %, 10 %, .. 100 % of the rows are no deeper"),
    });
    let space = json!({
        "kind": { "type": "string", "description": "sphere, euclidean, lorentz, product_l1, product_l2" },
        "dim": number_of("numbers of a point, over all factors"),
        "factors": number_of("factors; each has dim / factors numbers, one factor after the other"),
        "curv": numbers("c > 0 of each hyperbolic factor, whose curvature is -c"),
    });
    let counts =
        |what: &str| json!({ "type": "object", "additionalProperties": { "type": "integer" }, "description": what });
    let can = json!({ "type": "object", "additionalProperties": { "type": "boolean" }, "description": "queries by text and by photo, thumbnails, `subtree`" });
    open(
        json!({
            "version": text, "rows": number_of("rows"), "space": open(space, &["kind", "dim", "factors", "curv"]),
            "root": { "enum": ["origin", "point"] }, "model": { "type": ["string", "null"] }, "can": can,
            "modalities": counts("rows of each modality"), "columns": list(open(column, &["name", "distinct", "values"])),
            "depth": open(depth, &["min", "max", "deciles"]), "by": list(text),
            "shard": { "type": "array", "items": { "type": "integer" }, "minItems": 2, "maxItems": 2, "description": "part I of N" },
            "set": reference("Set"),
        }),
        &["version", "rows", "space", "root", "can", "modalities", "columns", "depth", "by", "set"],
    )
}

fn number(what: &str) -> Value {
    json!({ "type": "number", "description": what })
}

fn numbers(what: &str) -> Value {
    json!({ "type": "array", "items": { "type": "number" }, "description": what })
}

fn number_of(what: &str) -> Value {
    json!({ "type": "integer", "minimum": 0, "description": what })
}

/// A reference beside which something is said.
fn about(mut schema: Value, what: &str) -> Value {
    schema["description"] = what.into();
    schema
}

/// An f32 as it reads, not as the f64 next to it.
fn rounded(it: f32) -> Value {
    it.to_string().parse::<f64>().map_or(Value::Null, Value::from)
}
