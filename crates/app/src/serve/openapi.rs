//! `GET /api/openapi.json`: what can be asked, for programs. Written by hand: the derive macros of the usual crate bring a tree of their
//! own, and "exactly one of these fields" would have to be said by hand all the same. A test holds it to the routes.

mod explorer;

use serde_json::{Map, Value, json};

use super::body::typed;
use super::search::{MOST_HITS, MOST_OFFSET};
use crate::ranking::NAMES;

pub(crate) async fn openapi() -> axum::response::Response {
    typed("application/json", document().to_string())
}

/// The description of every route.
pub(crate) fn document() -> Value {
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "conifer serve",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Search over an embedding set: distances, cones and products, exactly.",
        },
        "paths": with(paths(), explorer::paths()),
        "components": {
            "schemas": with(schemas(), explorer::schemas()),
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
        "security": [{}, { "token": [] }],
    })
}

/// The same of a server that answers only on these paths and looks no further than this.
pub(crate) fn document_of(paths: &[&str], most_offset: usize) -> Value {
    let mut document = document();
    if let Some(all) = document["paths"].as_object_mut() {
        all.retain(|path, _| paths.contains(&path.as_str()));
    }
    document["info"]["title"] = json!("conifer front");
    document["components"]["schemas"]["Search"]["properties"]["offset"]["maximum"] = json!(most_offset);
    document
}

fn with(mut object: Value, more: Map<String, Value>) -> Value {
    if let Some(object) = object.as_object_mut() {
        object.extend(more);
    }
    object
}

fn paths() -> Value {
    let row = path_number("row", "The number of a row.");
    let k = query("k", json!({ "type": "integer", "minimum": 1, "maximum": MOST_HITS, "default": 10 }), false);
    let modality = query("modality", reference("Modality"), false);
    let size = query("size", json!({ "type": "integer", "minimum": 32, "maximum": 1024, "default": 256 }), false);
    let id = query("id", json!({ "type": "string" }), true);
    json!({
        "/": { "get": operation("The explorer.", vec![], answer("text/html", json!({ "type": "string" }))) },
        "/health": { "get": operation("Whether the server is well.", vec![], answer_json("Health")) },
        "/metrics": { "get": operation("Counts for Prometheus.", vec![], answer("text/plain", json!({ "type": "string" }))) },
        "/api/openapi.json": {
            "get": operation("This document.", vec![], answer("application/json", json!({ "type": "object" }))),
        },
        "/api/info": { "get": operation("What is served.", vec![], answer_json("Info")) },
        "/api/search": { "post": posted("The best rows.", reference("Search"), answer_json("Found")) },
        "/api/point": { "post": posted("The point that a query names.", reference("PointOf"), answer_json("Point")) },
        "/api/traverse": { "post": posted("What lies on the way to the root, or to another point.", reference("Walk"), answer_json("Path")) },
        "/api/photos": { "post": photo() },
        "/api/rows": { "get": operation("The rows of an id.", vec![id], answer("application/json", list(reference("Hit")))) },
        "/api/rows/{row}": { "get": operation("A row.", vec![row.clone()], answer_json("Hit")) },
        "/api/rows/{row}/neighbours": {
            "get": operation("What is broader, narrower and near.", vec![row.clone(), k, modality], answer_json("Neighbours")),
        },
        "/api/rows/{row}/thumbnail": {
            "get": operation(
                "The picture of a row; of a box, what is in it. `size` limits the shorter side, pixels.",
                vec![row, size],
                answer("image/jpeg", json!({ "type": "string", "contentMediaType": "image/jpeg" })),
            ),
        },
    })
}

fn schemas() -> Value {
    let text = json!({ "type": "string" });
    let number = json!({ "type": "number" });
    let row = json!({ "type": "integer", "minimum": 0 });
    let one = |name: &str, of: Value| exact(json!({ name: of }), &[name]);
    let coordinates =
        json!({ "type": "array", "items": { "type": "number" }, "minItems": 1, "description": "`dim` numbers" });
    let mut leaves = vec![
        one("text", json!({ "type": "string", "maxLength": 10_000 })),
        one("photo", json!({ "type": "string", "description": "a token of /api/photos" })),
        one("row", row.clone()),
        one("id", text.clone()),
        one("point", coordinates),
    ];
    let named = json!({ "oneOf": leaves });
    leaves.push(one("all", json!({ "type": "array", "items": reference("Named"), "minItems": 2, "maxItems": 8 })));
    let filter = json!({
        "modality": list(reference("Modality")),
        "columns": { "type": "object", "additionalProperties": list(text.clone()) },
        "depth": { "type": "array", "items": { "type": "number" }, "minItems": 2, "maxItems": 2 },
        "inside": reference("Query"),
        "not": list(reference("Query")),
        "subtree": { "type": "string", "description": "a class of the tree" },
    });
    let with_filter = |own: Value| {
        let mut all = own.as_object().cloned().unwrap_or_default();
        all.extend(filter.as_object().cloned().unwrap_or_default());
        Value::Object(all)
    };
    let hits = list(reference("Hit"));
    json!({
        "Error": exact(json!({ "error": exact(json!({ "status": { "type": "integer" }, "message": text }), &["status", "message"]) }), &["error"]),
        "Modality": { "enum": ["image", "text", "box_image", "box_text"] },
        "Named": named,
        "Query": { "oneOf": leaves },
        "Search": exact(with_filter(json!({
            "query": reference("Query"),
            "by": { "enum": NAMES, "default": "distance" },
            "k": { "type": "integer", "minimum": 1, "maximum": MOST_HITS, "default": 10 },
            "angle": { "type": "number", "description": "radians; for gated_narrower, gated_broader and general" },
            "within": { "type": "number", "description": "a distance; for general" },
            "offset": { "type": "integer", "minimum": 0, "maximum": MOST_OFFSET, "default": 0 },
        })), &["query"]),
        "Walk": exact(with_filter(json!({
            "from": reference("Query"),
            "to": reference("Query"),
            "steps": { "type": "integer", "minimum": 2, "maximum": 200, "default": 50 },
            "cone": { "type": "boolean", "default": true, "description": "only rows whose cone contains the point of the path" },
            "each": { "type": "boolean", "default": false, "description": "every point of the path with the nearest row there" },
        })), &["from"]),
        "PointOf": exact(json!({ "query": reference("Query") }), &["query"]),
        "Point": open(json!({ "point": list(number.clone()) }), &["point"]),
        "Hit": open(json!({
            "row": row, "id": text, "modality": reference("Modality"),
            "score": number, "depth": number, "distance": number, "angle_down": number, "angle_up": number,
            "columns": { "type": "object", "additionalProperties": { "type": "string" } },
            "box": { "type": "array", "items": { "type": "number" }, "minItems": 4, "maxItems": 4, "description": "left, top, width, height as fractions of the photo" },
            "thumbnail": { "type": "boolean" },
        }), &["row", "id", "modality", "depth", "columns", "thumbnail"]),
        "Found": open(json!({
            "query": open(json!({ "depth": number, "aperture": number, "factors": list(number.clone()) }), &["depth", "aperture"]),
            "hits": hits, "rows_passing": row, "took_ms": number,
        }), &["query", "hits", "rows_passing", "took_ms"]),
        "Path": open(json!({
            "stops": list(open(json!({ "at": number, "root": { "type": "boolean" }, "hit": reference("Hit") }), &["at"])),
        }), &["stops"]),
        "Photo": open(json!({ "photo": text, "width": row, "height": row }), &["photo", "width", "height"]),
        "Neighbours": open(json!({ "row": reference("Hit"), "broader": hits, "narrower": hits, "near": hits }), &["row", "broader", "narrower", "near"]),
        "Health": open(json!({ "status": text, "rows": row, "version": text }), &["status", "rows", "version"]),
        "Info": open(json!({
            "version": text, "rows": row, "space": { "type": "object" }, "root": { "enum": ["origin", "point"] },
            "model": { "type": ["string", "null"] }, "can": { "type": "object", "additionalProperties": { "type": "boolean" } },
            "modalities": { "type": "object", "additionalProperties": { "type": "integer" } },
            "columns": { "type": "array", "items": { "type": "object" } }, "depth": { "type": "object" },
            "by": list(text.clone()),
            "shard": { "type": "array", "items": { "type": "integer" }, "minItems": 2, "maxItems": 2, "description": "part I of N" },
            "set": reference("Set"),
        }), &["version", "rows", "space", "root", "can", "modalities", "columns", "depth", "by", "set"]),
        "Set": open(json!({
            "sha256": { "type": "string", "description": "of all that answers depend on; `conifer-set` in the head of every answer" },
            "rows": row, "version": row, "weights": text, "tree": text,
        }), &["sha256", "rows"]),
    })
}

/// An operation without a body.
fn operation(summary: &str, parameters: Vec<Value>, content: Value) -> Value {
    json!({ "summary": summary, "parameters": parameters, "responses": responses(&content) })
}

/// An operation with a body of JSON.
fn posted(summary: &str, body: Value, content: Value) -> Value {
    let mut operation = operation(summary, vec![], content);
    operation["requestBody"] = json!({ "required": true, "content": { "application/json": { "schema": body } } });
    operation
}

fn photo() -> Value {
    let mut operation =
        operation("A photo to a token, which stands for its point for a while.", vec![], answer_json("Photo"));
    let bytes = json!({ "schema": { "type": "string", "contentEncoding": "binary" } });
    let kinds = ["image/jpeg", "image/png", "image/webp"];
    let content: Map<String, Value> = kinds.iter().map(|kind| ((*kind).to_owned(), bytes.clone())).collect();
    operation["requestBody"] = json!({ "required": true, "content": content });
    operation
}

fn responses(content: &Value) -> Value {
    let error = |what: &str| json!({ "description": what, "content": { "application/json": { "schema": reference("Error") } } });
    let told = |what: &str| json!({ "description": what, "schema": { "type": "string" } });
    let headers = json!({
        "conifer-part": told("The part of the set that is served, `I/N`; not of a front."),
        "conifer-set": told("sha256 of the set; not of a front."),
    });
    json!({
        "200": { "description": "The answer.", "headers": headers, "content": content },
        "4XX": error("The request cannot be answered as it is; 429: come back after Retry-After seconds."),
        "503": error("No answer in time; of a front, a shard that does not answer or serves something else."),
    })
}

fn answer_json(schema: &str) -> Value {
    answer("application/json", reference(schema))
}

fn answer(kind: &str, schema: Value) -> Value {
    json!({ kind: { "schema": schema } })
}

fn reference(schema: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{schema}") })
}

fn list(items: Value) -> Value {
    json!({ "type": "array", "items": items })
}

/// An object that has no other fields.
fn exact(properties: Value, required: &[&str]) -> Value {
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

/// An object that may have more fields some day.
fn open(properties: Value, required: &[&str]) -> Value {
    json!({ "type": "object", "properties": properties, "required": required })
}

fn query(name: &str, schema: Value, required: bool) -> Value {
    json!({ "name": name, "in": "query", "required": required, "schema": schema })
}

fn path_number(name: &str, description: &str) -> Value {
    let schema = json!({ "type": "integer", "minimum": 0 });
    json!({ "name": name, "in": "path", "required": true, "description": description, "schema": schema })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeSet;

    use super::*;
    use crate::serve::routes::routes;

    #[test]
    fn every_route_is_described_and_every_description_has_its_route() {
        let there: BTreeSet<(String, String)> =
            routes().iter().map(|(method, path, _)| ((*path).to_owned(), (*method).to_owned())).collect();
        let document = document();
        let paths = document["paths"].as_object().unwrap().iter();
        let said: BTreeSet<(String, String)> = paths
            .flat_map(|(path, methods)| methods.as_object().unwrap().keys().map(|it| (path.clone(), it.clone())))
            .collect();
        assert_eq!(said, there);
    }

    #[test]
    fn every_reference_leads_somewhere() {
        let document = document();
        let text = document.to_string();
        let names = text.split("#/components/schemas/").skip(1).map(|it| it.split('"').next().unwrap());
        let mut count = 0;
        for name in names {
            assert!(document["components"]["schemas"][name].is_object(), "{name}");
            count += 1;
        }
        assert!(count > 20, "{count}");
    }
}
