//! Schemas of requests and responses.

use serde_json::{Value, json};

use super::super::search::{MAX_HITS, MAX_OFFSET, MIN_RADIUS};
use super::{exact, list, open, reference, with};
use crate::ranking::{MAX_ANGLE, NAMES};

pub(super) fn schemas() -> Value {
    with(with(query_schemas(), requests()), answers())
}

/// The schemas of queries.
fn query_schemas() -> Value {
    let one = |name: &str, of: Value| exact(json!({ name: of }), &[name]);
    let mut leaves = vec![
        one("text", json!({ "type": "string", "maxLength": 10_000, "description": "requires a server with a model" })),
        one("photo", json!({ "type": "string", "description": "a token from /api/photos" })),
        one("row", number_of("a row number")),
        one("id", json!({ "type": "string", "description": "the first row with this id" })),
        one(
            "point",
            json!({ "type": "array", "items": { "type": "number" }, "minItems": 1, "description": "`dim` coordinates, as returned by /api/point" }),
        ),
    ];
    for (name, input) in [("image_vector", "photo"), ("text_vector", "text")] {
        let what =
            format!("the vector of a {input}, for a model that reads vectors; /api/info has its width (`vectors`)");
        leaves.push(one(
            name,
            json!({ "type": "array", "items": { "type": "number" }, "minItems": 1, "description": what }),
        ));
    }
    let named = json!({ "oneOf": leaves });
    let all = json!({
        "type": "array", "items": reference("Named"), "minItems": 2, "maxItems": 8,
        "description": "several queries combined: the maximum in each factor",
    });
    leaves.push(one("all", all));
    json!({
        "Modality": { "enum": ["image", "text", "box_image", "box_text"], "description": "`-` may replace `_`" },
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
            "description": "only rows whose depth (distance from the root) is in this range; the minimum first",
        },
        "inside": about(reference("Query"), "only rows inside the cone of this query"),
        "not": { "type": "array", "items": reference("Query"), "description": "no rows inside the cone of any of these queries" },
        "subtree": { "type": "string", "description": "only rows of this class of the tree and the classes below it" },
    });
    let search = json!({
        "query": reference("Query"),
        "by": {
            "enum": NAMES, "default": "distance",
            "description": "distance, similarity, inner: the nearest rows by that measure. narrower, broader: the rows below or above the query, by exterior angle. gated_narrower, gated_broader: the same rows within `angle`, most similar first. general: the rows below the query within `angle`, or nearer than `within`, from general to specific. `-` may replace `_`",
        },
        "k": { "type": "integer", "minimum": 1, "maximum": MAX_HITS, "default": 10, "description": "maximum number of hits" },
        "angle": {
            "type": "number", "minimum": 0, "maximum": rounded(MAX_ANGLE),
            "description": "maximum exterior angle in radians. gated_narrower and gated_broader require it, general requires it or `within`, other rankings reject it",
        },
        "within": { "type": "number", "minimum": 0, "description": "maximum distance; only for general" },
        "offset": { "type": "integer", "minimum": 0, "maximum": MAX_OFFSET, "default": 0, "description": "number of best rows to skip" },
    });
    let walk = json!({
        "from": reference("Query"),
        "to": about(reference("Query"), "end of the path; the root by default"),
        "steps": { "type": "integer", "minimum": 2, "maximum": 200, "default": 50, "description": "number of points of the path" },
        "cone": { "type": "boolean", "default": true, "description": "only rows whose cone contains the point of the path" },
        "each": { "type": "boolean", "default": false, "description": "return every point of the path with its nearest row" },
    });
    json!({
        "Search": exact(with(search, filter.clone()), &["query"]),
        "Walk": exact(with(walk, filter), &["from"]),
        "PointOf": exact(json!({ "query": reference("Query") }), &["query"]),
    })
}

fn answers() -> Value {
    let text = json!({ "type": "string" });
    let status = number_of("HTTP status");
    let hits = list(reference("Hit"));
    json!({
        "Error": exact(json!({ "error": exact(json!({ "status": status, "message": text }), &["status", "message"]) }), &["error"]),
        "Point": open(json!({ "point": numbers("`dim` coordinates: the space components of each factor") }), &["point"]),
        "Hit": hit(),
        "Found": open(json!({
            "query": open(json!({
                "depth": number("distance of the query from the root"),
                "aperture": number(&format!("half-aperture of its cone in radians, as in MERU (K = {MIN_RADIUS})")),
                "factors": numbers("depth of the query in each factor; only in a product space"),
            }), &["depth", "aperture"]),
            "hits": { "type": "array", "items": reference("Hit"), "description": "best first" },
            "rows_passing": number_of("number of rows that pass the filters, including those that are not among the hits"),
            "scores": scores(),
            "flat": { "type": "string", "description": "a warning, only for a flat ranking: the scores are less than 1 % apart, so the order of the rows is almost meaningless" },
            "took_ms": number("time in milliseconds"),
        }), &["query", "hits", "rows_passing", "took_ms"]),
        "Path": open(json!({
            "stops": list(open(json!({
                "at": number("position on the path: 0 is the start, 1 the end"),
                "root": { "type": "boolean", "description": "true if this stop is the root" },
                "hit": about(reference("Hit"), "the row at this point. Its score is the similarity to the point of the path; its distance and angles are relative to the start"),
            }), &["at"])),
        }), &["stops"]),
        "Prediction": prediction(),
        "Photo": open(
            json!({ "photo": text, "width": number_of("pixels"), "height": number_of("pixels") }),
            &["photo", "width", "height"],
        ),
        "Neighbours": open(json!({
            "row": reference("Hit"),
            "broader": about(hits.clone(), "rows above the row, by angle"),
            "narrower": about(hits.clone(), "rows below the row, by angle"),
            "near": about(hits, "nearest rows by distance"),
        }), &["row", "broader", "narrower", "near"]),
        "Health": open(json!({ "status": text, "rows": number_of("number of rows"), "version": text }), &["status", "rows", "version"]),
        "Info": info(),
        "Set": open(json!({
            "sha256": { "type": "string", "description": "sha256 of everything that responses depend on; every response has it in the header `conifer-set`" },
            "rows": number_of("number of rows of all shards"), "version": number_of("version of the store"),
            "weights": { "type": "string", "description": "sha256 of the weights of the model" },
            "tree": { "type": "string", "description": "sha256 of the class tree" },
        }), &["sha256", "rows"]),
    })
}

fn scores() -> Value {
    let fields = json!({
        "rows": number_of("number of rows compared"),
        "low": number("smallest score of these rows"),
        "high": number("largest score of these rows"),
        "best": number("best score of all rows that are not at the query itself"),
    });
    let what = "scores of a sample of the rows that pass the filters, without rows at the query itself; absent for gated rankings";
    about(open(fields, &["rows", "low", "high"]), what)
}

fn prediction() -> Value {
    let text = json!({ "type": "string" });
    let step = open(
        json!({
            "name": text,
            "probability": number("sum of the probabilities of the classes below the node"),
            "answered": { "type": "boolean", "description": "true for the answer and the nodes above it" },
        }),
        &["name", "probability", "answered"],
    );
    open(
        json!({
            "answer": { "type": "string", "description": "the deepest node on the path whose probability exceeds the threshold" },
            "depth": number_of("depth of the answer below the deepest node that all classes share"),
            "probability": number("probability of the answer"),
            "path": { "type": "array", "items": step, "description": "from the root down to a class" },
            "class": { "type": "string", "description": "the most probable class" },
            "class_probability": number("probability of the most probable class"),
            "risk": number("share of answers that may be wrong"),
            "threshold": { "type": ["number", "null"], "description": "null if there were too few calibration photos; then only the root is answered" },
            "guarantee": { "type": "array", "items": text, "description": "what the risk holds for: photos of the classes, then photos of other classes" },
        }),
        &["answer", "depth", "probability", "path", "class", "class_probability", "risk", "threshold", "guarantee"],
    )
}

fn hit() -> Value {
    let text = json!({ "type": "string" });
    open(
        json!({
            "row": number_of("row number"), "id": text, "modality": reference("Modality"),
            "score": number("value that the rows are ranked by. distance: the distance, ascending. similarity, gated_narrower, gated_broader: the similarity, descending. inner: the inner product, descending. narrower, broader: the exterior angle in radians, ascending. general: the depth, ascending. Absent without a query"),
            "depth": number("distance from the root; a larger depth is more specific"),
            "distance": number("distance from the query"),
            "angle_down": number("exterior angle in radians with the query as the parent; small if the row is below the query"),
            "angle_up": number("exterior angle in radians with the row as the parent; small if the row is above the query"),
            "columns": { "type": "object", "additionalProperties": { "type": "string" }, "description": "value in each column; empty if it has none" },
            "box": {
                "type": "array", "items": { "type": "number" }, "minItems": 4, "maxItems": 4,
                "description": "left, top, width, height as fractions of the photo",
            },
            "thumbnail": { "type": "boolean", "description": "true if /api/rows/{row}/thumbnail returns a picture" },
        }),
        &["row", "id", "modality", "depth", "columns", "thumbnail"],
    )
}

fn info() -> Value {
    let text = json!({ "type": "string" });
    let value = json!({
        "type": "array", "prefixItems": [{ "type": "string" }, { "type": "integer", "minimum": 1 }], "minItems": 2, "maxItems": 2,
        "description": "a value and the number of rows that have it",
    });
    let column = json!({
        "name": text,
        "distinct": number_of("number of distinct values, without the empty value"),
        "values": { "type": "array", "items": value, "description": "at most 50 values, most frequent first" },
        "partial": { "type": "boolean", "description": "only on a front: true if there may be more values than the shards list" },
    });
    let depth = json!({
        "min": number("minimum depth of the rows"),
        "max": number("maximum depth of the rows"),
        "deciles": numbers("depths at the quantiles 0 %, 10 %, .. 100 %"),
    });
    let space = json!({
        "kind": { "type": "string", "description": "sphere, euclidean, lorentz, product_l1, product_l2" },
        "dim": number_of("number of coordinates of a point, over all factors"),
        "factors": number_of("number of factors; each has dim / factors consecutive coordinates"),
        "curv": numbers("curvature parameter c > 0 of each hyperbolic factor; the curvature is -c"),
    });
    let counts =
        |what: &str| json!({ "type": "object", "additionalProperties": { "type": "integer" }, "description": what });
    let can = json!({ "type": "object", "additionalProperties": { "type": "boolean" }, "description": "true for what the server supports: queries by text, queries by photo, thumbnails, `subtree`, `/api/predict`" });
    open(
        json!({
            "version": text, "rows": number_of("number of rows"), "space": open(space, &["kind", "dim", "factors", "curv"]),
            "root": { "enum": ["origin", "point"] }, "model": { "type": ["string", "null"] }, "can": can,
            "vectors": counts("width of the vectors that the model reads, for `image_vector` (image) and `text_vector` (text); absent for a model with encoders"),
            "modalities": counts("number of rows of each modality"), "columns": list(open(column, &["name", "distinct", "values"])),
            "depth": open(depth, &["min", "max", "deciles"]), "by": list(text),
            "shard": { "type": "array", "items": { "type": "integer" }, "minItems": 2, "maxItems": 2, "description": "shard I of N, as [I, N]" },
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

/// A schema with a description.
fn about(mut schema: Value, what: &str) -> Value {
    schema["description"] = what.into();
    schema
}

/// The shortest decimal of an f32, without the extra digits of its conversion to f64.
fn rounded(it: f32) -> Value {
    it.to_string().parse::<f64>().map_or(Value::Null, Value::from)
}
