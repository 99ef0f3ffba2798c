//! `GET /api/openapi.json`: the OpenAPI description of the API.
//!
//! The description is written by hand. The usual derive macros add many dependencies and cannot express "exactly one of
//! these fields". A test compares the description with the routes.

mod explorer;
mod schemas;

use serde_json::{Map, Value, json};

use super::body::typed;
use super::search::MAX_HITS;

pub(crate) async fn openapi() -> axum::response::Response {
    typed("application/json", document().to_string())
}

/// The OpenAPI document of all routes.
pub(crate) fn document() -> Value {
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "conifer serve",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Exact search over an embedding set, by distance, by cone and in product spaces.",
        },
        "paths": with(paths(), explorer::paths()),
        "components": {
            "schemas": with(schemas::schemas(), explorer::schemas()),
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
        "security": [{}, { "token": [] }],
    });
    for (path, methods) in document["paths"].as_object_mut().into_iter().flatten() {
        for (method, operation) in methods.as_object_mut().into_iter().flatten() {
            operation["operationId"] = name(method, path).into();
        }
    }
    document
}

/// The OpenAPI document of a server that has only these paths and this maximum offset.
pub(crate) fn document_of(paths: &[&str], max_offset: usize) -> Value {
    let mut document = document();
    if let Some(all) = document["paths"].as_object_mut() {
        all.retain(|path, _| paths.contains(&path.as_str()));
    }
    document["info"]["title"] = json!("conifer front");
    document["components"]["schemas"]["Search"]["properties"]["offset"]["maximum"] = json!(max_offset);
    document
}

/// The operation id for generated clients: `get_rows_row_neighbours` for `GET /api/rows/{row}/neighbours`.
fn name(method: &str, path: &str) -> String {
    let words = path.split(|it: char| !it.is_ascii_alphanumeric()).filter(|it| !it.is_empty() && *it != "api");
    std::iter::once(method).chain(words).collect::<Vec<_>>().join("_")
}

fn with(mut object: Value, more: Value) -> Value {
    if let (Some(object), Value::Object(more)) = (object.as_object_mut(), more) {
        object.extend(more);
    }
    object
}

fn paths() -> Value {
    let row = path_number("row", "The number of a row.");
    let k = query(
        "k",
        json!({ "type": "integer", "minimum": 1, "maximum": MAX_HITS, "default": 10, "description": "maximum number of rows in each list" }),
        false,
    );
    let modality = query("modality", reference("Modality"), false);
    let size = query("size", json!({ "type": "integer", "minimum": 32, "maximum": 1024, "default": 256 }), false);
    let whole = query("whole", json!({ "type": "boolean", "default": false }), false);
    let id = query("id", json!({ "type": "string" }), true);
    json!({
        "/": { "get": operation("The explorer.", vec![], answer("text/html", json!({ "type": "string" }))) },
        "/health": { "get": operation("Health check.", vec![], answer_json("Health")) },
        "/metrics": { "get": operation("Metrics for Prometheus.", vec![], answer("text/plain", json!({ "type": "string" }))) },
        "/api/openapi.json": {
            "get": operation("This document.", vec![], answer("application/json", json!({ "type": "object" }))),
        },
        "/api/info": { "get": operation("Describes the served set.", vec![], answer_json("Info")) },
        "/api/search": { "post": posted("Returns the best rows.", reference("Search"), answer_json("Found")) },
        "/api/point": { "post": posted("Resolves a query to a point.", reference("PointOf"), answer_json("Point")) },
        "/api/traverse": { "post": posted("Returns the rows along a path to the root or to another point.", reference("Walk"), answer_json("Path")) },
        "/api/photos": { "post": photo() },
        "/api/predict": { "post": posted("Returns the deepest class of a tree that is right with the risk of --threshold; 404 without a threshold.", reference("PointOf"), answer_json("Prediction")) },
        "/api/rows": { "get": operation("Returns the rows with an id.", vec![id], answer("application/json", list(reference("Hit")))) },
        "/api/rows/{row}": { "get": operation("Returns a row.", vec![row.clone()], answer_json("Hit")) },
        "/api/rows/{row}/neighbours": {
            "get": operation("Returns broader, narrower and near rows.", vec![row.clone(), k, modality], answer_json("Neighbours")),
        },
        "/api/rows/{row}/thumbnail": {
            "get": operation(
                "Returns the picture of a row. For a box this is its part of the photo, or the whole photo with `whole=true`. `size` limits the shorter side in pixels.",
                vec![row, size, whole],
                answer("image/jpeg", json!({ "type": "string", "contentMediaType": "image/jpeg" })),
            ),
        },
    })
}

fn operation(summary: &str, parameters: Vec<Value>, content: Value) -> Value {
    json!({ "summary": summary, "parameters": parameters, "responses": responses(&content) })
}

/// An operation with a JSON body.
fn posted(summary: &str, body: Value, content: Value) -> Value {
    let mut operation = operation(summary, vec![], content);
    operation["requestBody"] = json!({ "required": true, "content": { "application/json": { "schema": body } } });
    operation
}

fn photo() -> Value {
    let mut operation = operation(
        "Embeds a photo and returns a token for queries. The token expires after many more uploads.",
        vec![],
        answer_json("Photo"),
    );
    let bytes = json!({ "schema": { "type": "string", "contentEncoding": "binary" } });
    let kinds = ["image/jpeg", "image/png", "image/webp", "image/gif", "image/bmp"];
    let content: Map<String, Value> = kinds.iter().map(|kind| ((*kind).to_owned(), bytes.clone())).collect();
    operation["requestBody"] = json!({ "required": true, "content": content });
    operation
}

fn responses(content: &Value) -> Value {
    let error = |what: &str| json!({ "description": what, "content": { "application/json": { "schema": reference("Error") } } });
    let header = |what: &str| json!({ "description": what, "schema": { "type": "string" } });
    let headers = json!({
        "conifer-part": header("Shard of the set, `I/N`; absent on a front."),
        "conifer-set": header("sha256 of the set; absent on a front."),
    });
    json!({
        "200": { "description": "Success.", "headers": headers, "content": content },
        "4XX": error("The request is not valid. 429: the server is at a limit; retry after Retry-After seconds."),
        "500": error("Internal server error."),
        "502": error("The embedding endpoint of the server failed."),
        "503": error("Timeout. On a front also: a shard does not answer, or serves another set."),
        "504": error("The embedding endpoint of the server did not answer in time."),
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

/// An object that allows no other fields.
fn exact(properties: Value, required: &[&str]) -> Value {
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

/// An object that may get more fields in later versions.
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
    fn routes_and_openapi_paths_match() {
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
    fn request_schemas_match_the_parsed_fields() {
        use crate::serve::fields::Request;
        use crate::serve::query::RowFilter;
        use crate::serve::search::{PointRequest, SearchRequest};
        use crate::serve::traverse::TraverseRequest;
        let document = document();
        for (name, fields) in [
            ("Search", [SearchRequest::FIELDS, RowFilter::FIELDS].concat()),
            ("Walk", [TraverseRequest::FIELDS, RowFilter::FIELDS].concat()),
            ("PointOf", PointRequest::FIELDS.to_vec()),
        ] {
            let properties = document["components"]["schemas"][name]["properties"].as_object().unwrap();
            let said: BTreeSet<&str> = properties.keys().map(String::as_str).collect();
            assert_eq!(said, BTreeSet::from_iter(fields), "{name}");
        }
    }

    /// A number or a list of numbers needs a description.
    #[test]
    fn number_fields_have_descriptions() {
        fn bare(place: &str, properties: &Value, found: &mut Vec<String>) {
            for (name, schema) in properties.as_object().into_iter().flatten() {
                let place = format!("{place}.{name}");
                let number = |it: &Value| matches!(it["type"].as_str(), Some("number" | "integer"));
                if (number(schema) || number(&schema["items"])) && schema["description"].is_null() {
                    found.push(place.clone());
                }
                for inner in [schema, &schema["items"]] {
                    bare(&place, &inner["properties"], found);
                }
            }
        }
        let (document, mut found) = (document(), Vec::new());
        let schemas = document["components"]["schemas"].as_object().unwrap();
        schemas.iter().for_each(|(name, schema)| bare(name, &schema["properties"], &mut found));
        assert_eq!(found, [""; 0]);
    }

    #[test]
    fn operation_ids_are_unique() {
        let document = document();
        let operations =
            || document["paths"].as_object().unwrap().values().flat_map(|it| it.as_object().unwrap().values());
        let names: BTreeSet<&str> = operations().map(|it| it["operationId"].as_str().unwrap()).collect();
        assert_eq!(names.len(), operations().count());
        assert!(names.contains("get_rows_row_neighbours") && names.contains("post_search"), "{names:?}");
        assert!(operations().all(|it| it["responses"]["500"].is_object()));
    }

    #[test]
    fn schema_references_resolve() {
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
