//! `GET /api/openapi.json`: the OpenAPI description of the API. Schemas come from the types of requests and replies; a
//! test compares the paths with the routes.

use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};

use crate::api::info::ServerInfo;
use crate::api::map_requests::{
    LayerRequest, MapLabelsParams, MapLayersParams, MapPageRequest, MapParams, MapPointsParams,
};
use crate::api::replies::{
    BoxesReply, ClassReply, ErrorReply, FactorReply, FactorsReply, HealthReply, HierarchyReply, LabelsReply,
    LayerJobReply, LayersReply, MapReply, MapRowReply, NeighboursReply, PathReply, PhotoReply, PointReply,
    PredictionReply, RowReply, SearchReply,
};
use crate::api::requests::{
    HierarchyRequest, NeighbourParams, PointRequest, RowIdParams, RowListRequest, SearchRequest, ThumbnailParams,
    TraverseRequest, TreeParams, non_null,
};
use crate::body::typed;

const MAP_POINTS: &str = "Returns the points of a layer as arrays: 8 bytes with the length of the header (little-endian), the header \
(JSON), then the arrays, little-endian. The header has `layer`, `points` (number of points), `rows_of_layer`, `disc`, \
`root`, `colour` and `arrays`, which gives the `type` (u8, u32, f32) and `offset` in bytes after the header of each \
array: `row`, `x`, `y`, `depth`, `modality` (0 image, 1 text, 2 box_image, 3 box_text) and, with `column`, `code`: an \
index into `colour.names`, or 255 for other values; if all values are numbers, `names` is empty and 0 to 254 stand for \
`min` to `max`.";

/// Generators of the schemas of requests and of replies.
struct Schemas {
    requests: SchemaGenerator,
    replies: SchemaGenerator,
}

/// A JSON operation of the document.
struct Operation(Value);

pub(crate) async fn openapi() -> axum::response::Response {
    typed("application/json", document().to_string())
}

/// The OpenAPI document of the API.
pub fn document() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|it| {
        it.definitions_path = "/components/schemas".into();
        it.meta_schema = None;
    });
    let mut schemas = Schemas {
        requests: settings.clone().for_deserialize().into_generator(),
        replies: settings.for_serialize().into_generator(),
    };
    let mut paths = Map::new();
    for (path, method, Operation(mut operation)) in operations(&mut schemas) {
        operation["operationId"] = name(method, path).into();
        operation["responses"]["4XX"] = error(
            &mut schemas,
            "The request is not valid. 429: the server is at a limit; retry after Retry-After seconds.",
        );
        operation["responses"]["500"] = error(&mut schemas, "Internal server error.");
        operation["responses"]["502"] = error(&mut schemas, "The embedding endpoint of the server failed.");
        operation["responses"]["503"] =
            error(&mut schemas, "Timeout. On a front also: a shard does not answer, or serves another set.");
        operation["responses"]["504"] =
            error(&mut schemas, "The embedding endpoint of the server did not answer in time.");
        paths.entry(path).or_insert_with(|| json!({}))[method] = operation;
    }
    let mut components = schemas.requests.take_definitions(true);
    components.extend(schemas.replies.take_definitions(true));
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "conifer serve",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Exact search over an embedding set, by distance, by cone and in product spaces.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
        "security": [{}, { "token": [] }],
    })
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

/// Path, method and description of each operation.
fn operations(schemas: &mut Schemas) -> Vec<(&'static str, &'static str, Operation)> {
    let text = json!({ "type": "string" });
    let row = || path_parameter("row", "The number of a row.", json!({ "type": "integer", "minimum": 0 }));
    let factor = "The number of a factor, from 0; the explorer counts from 1.";
    let factor = path_parameter("factor", factor, json!({ "type": "integer", "minimum": 0 }));
    let layer = path_parameter("name", "The name of a layer.", text.clone());
    let asset = path_parameter("name", "The name of a file.", text.clone());
    let binary = json!({ "type": "string", "contentMediaType": "application/octet-stream" });
    let jpeg = json!({ "type": "string", "contentMediaType": "image/jpeg" });
    vec![
        ("/", "get", Operation::new("The explorer.").returns("text/html", text.clone())),
        ("/assets/{name}", "get", Operation::new("A file of the explorer.").with(asset).returns("text/javascript", text.clone())),
        ("/health", "get", Operation::new("Health check.").json::<HealthReply>(schemas)),
        ("/metrics", "get", Operation::new("Metrics for Prometheus.").returns("text/plain", text.clone())),
        ("/api/openapi.json", "get", Operation::new("This document.").returns("application/json", json!({ "type": "object" }))),
        ("/api/info", "get", Operation::new("Describes the served set.").json::<ServerInfo>(schemas)),
        ("/api/search", "post", Operation::new("Returns the best rows.").reads::<SearchRequest>(schemas).json::<SearchReply<'_>>(schemas)),
        ("/api/point", "post", Operation::new("Resolves a query to a point.").reads::<PointRequest>(schemas).json::<PointReply>(schemas)),
        ("/api/traverse", "post", Operation::new("Returns the rows along a path to the root or to another point.").reads::<TraverseRequest>(schemas).json::<PathReply<'_>>(schemas)),
        ("/api/hierarchy", "post", Operation::new("Returns the chain of texts, from general to specific, that is retrieved for a query with a ball that widens around the root (HierarCaps).").reads::<HierarchyRequest>(schemas).json::<HierarchyReply<'_>>(schemas)),
        ("/api/photos", "post", Operation::new("Embeds a photo and returns a token for queries. The token expires after many more uploads.").reads_photo().json::<PhotoReply>(schemas)),
        ("/api/predict", "post", Operation::new("Returns the deepest class of a tree that is right with the risk of --threshold; 404 without a threshold.").reads::<PointRequest>(schemas).json::<PredictionReply<'_>>(schemas)),
        ("/api/rows", "get", Operation::new("Returns the rows with an id.").query::<RowIdParams>(schemas).json::<Vec<RowReply<'_>>>(schemas)),
        ("/api/rows/list", "post", Operation::new("Returns the rows with these numbers, in their order.").reads::<RowListRequest>(schemas).json::<Vec<RowReply<'_>>>(schemas)),
        ("/api/rows/{row}", "get", Operation::new("Returns a row.").with(row()).json::<RowReply<'_>>(schemas)),
        ("/api/rows/{row}/neighbours", "get", Operation::new("Returns broader, narrower and near rows.").with(row()).query::<NeighbourParams>(schemas).json::<NeighboursReply<'_>>(schemas)),
        ("/api/rows/{row}/boxes", "get", Operation::new("Returns the boxes of the photo that a row belongs to, each once, with its phrases. At most 1000 rows of a photo are read.").with(row()).json::<BoxesReply<'_>>(schemas)),
        ("/api/rows/{row}/thumbnail", "get", Operation::new("Returns the picture of a row. For a box this is its part of the photo, or the whole photo with `whole=true`.").with(row()).query::<ThumbnailParams>(schemas).returns("image/jpeg", jpeg)),
        ("/api/map", "get", Operation::new("Returns rows projected into the Poincare disc. The distance from the centre shows the distance from the root.").query::<MapParams>(schemas).json::<MapReply>(schemas)),
        ("/api/map/row/{row}", "get", Operation::new("Returns the position of a row in the disc and the half-aperture of its cone in radians.").with(row()).json::<MapRowReply>(schemas)),
        ("/api/map/layers", "get", Operation::new("Lists the layers of the map: the built-in disc and the projections that the server was given or has computed. Names the methods that compute further layers, and the progress of the current computation.").query::<MapLayersParams>(schemas).json::<LayersReply<'_>>(schemas)),
        ("/api/map/layers", "post", Operation::new("Computes a projection of the set in the background, as a new layer of the map; one at a time (409). 403: the server computes no layers.").reads::<LayerRequest>(schemas).json::<LayerJobReply>(schemas)),
        ("/api/map/layers/{name}", "delete", Operation::new("Cancels the computation of a layer. It stops after its current step.").with(layer).json::<LayerJobReply>(schemas)),
        ("/api/map/points", "get", Operation::new(MAP_POINTS).query::<MapPointsParams>(schemas).returns("application/octet-stream", binary.clone())),
        ("/api/map/labels", "get", Operation::new("Returns words for the map, from general to specific: the classes of the set and its short texts.").query::<MapLabelsParams>(schemas).json::<LabelsReply<'_>>(schemas)),
        ("/api/map/cone/{row}", "get", Operation::new("Returns the rows inside the cone of a row in the whole space, as the filter `inside` selects them, in the binary form of /api/map/points: the header has `row`, `aperture` (half-aperture in radians), `points` and the array `row`.").with(row()).returns("application/octet-stream", binary.clone())),
        ("/api/map/links", "get", Operation::new("Returns which rows of the second set (--beside) are rows of the served set, in the binary form of /api/map/points: the header has `points` (number of pairs), the arrays are `row` (of the served set, ascending) and `beside`. 404 without a second set.").returns("application/octet-stream", binary)),
        ("/api/map/page", "post", Operation::new("Returns points of a layer as one HTML file with zoom, text and legend, which needs no network.").reads::<MapPageRequest>(schemas).returns("text/html", text)),
        ("/api/factors", "get", Operation::new("Returns the factors of a product space, with the mean and maximum depth of the rows.").json::<FactorsReply<'_>>(schemas)),
        ("/api/factors/{factor}", "get", Operation::new("Returns the deepest rows in a factor. The score is the depth in the factor.").with(factor).query::<NeighbourParams>(schemas).json::<FactorReply<'_>>(schemas)),
        ("/api/tree", "get", Operation::new("Returns a class and its children with row counts.").query::<TreeParams>(schemas).json::<ClassReply>(schemas)),
    ]
}

impl Operation {
    fn new(summary: &str) -> Self {
        Operation(json!({ "summary": summary, "parameters": [], "responses": {} }))
    }

    fn with(mut self, parameter: Value) -> Self {
        if let Some(all) = self.0["parameters"].as_array_mut() {
            all.push(parameter);
        }
        self
    }

    /// The fields of `T` as URL query parameters.
    fn query<T: JsonSchema>(mut self, schemas: &mut Schemas) -> Self {
        let schema = T::json_schema(&mut schemas.requests).to_value();
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            let required = schema["required"].as_array().is_some_and(|all| all.iter().any(|it| it == name));
            let mut field = field.clone();
            non_null(&mut field);
            self = self.with(json!({ "name": name, "in": "query", "required": required, "schema": field }));
        }
        self
    }

    fn reads<T: JsonSchema>(mut self, schemas: &mut Schemas) -> Self {
        let schema = schemas.requests.subschema_for::<T>();
        self.0["requestBody"] = json!({ "required": true, "content": { "application/json": { "schema": schema } } });
        self
    }

    fn reads_photo(mut self) -> Self {
        let bytes = json!({ "schema": { "type": "string", "contentEncoding": "binary" } });
        let kinds = ["image/jpeg", "image/png", "image/webp", "image/gif", "image/bmp"];
        let content: Map<String, Value> = kinds.iter().map(|kind| ((*kind).to_owned(), bytes.clone())).collect();
        self.0["requestBody"] = json!({ "required": true, "content": content });
        self
    }

    fn json<T: JsonSchema>(self, schemas: &mut Schemas) -> Self {
        let schema: Schema = schemas.replies.subschema_for::<T>();
        self.returns("application/json", schema.to_value())
    }

    fn returns(mut self, kind: &str, schema: Value) -> Self {
        let header = |what: &str| json!({ "description": what, "schema": { "type": "string" } });
        self.0["responses"]["200"] = json!({
            "description": "Success.",
            "headers": {
                "conifer-part": header("Shard of the set, `I/N`; absent on a front."),
                "conifer-set": header("sha256 of the set; absent on a front."),
            },
            "content": { kind: { "schema": schema } },
        });
        self
    }
}

fn error(schemas: &mut Schemas, what: &str) -> Value {
    let schema = schemas.replies.subschema_for::<ErrorReply<'_>>();
    json!({ "description": what, "content": { "application/json": { "schema": schema } } })
}

fn path_parameter(name: &str, description: &str, schema: Value) -> Value {
    json!({ "name": name, "in": "path", "required": true, "description": description, "schema": schema })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeSet;

    use super::*;
    use crate::app::routes::routes;

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

    /// A number or a list of numbers needs a description.
    #[test]
    fn number_fields_have_descriptions() {
        fn bare(place: &str, properties: &Value, found: &mut Vec<String>) {
            for (name, schema) in properties.as_object().into_iter().flatten() {
                let place = format!("{place}.{name}");
                let number = |it: &Value| {
                    let types = it["type"].as_array().cloned().unwrap_or_else(|| vec![it["type"].clone()]);
                    types.iter().any(|it| it == "number" || it == "integer")
                };
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
        let query = &document["components"]["schemas"]["Query"]["oneOf"];
        assert_eq!(query.as_array().unwrap().len(), 8, "{query}");
    }
}
