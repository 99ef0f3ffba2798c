//! Error messages for invalid requests: field, value and expectation.

use serde_json::{Value, json};

use super::{ServerProcess, folder, rows, start, whole};

/// Status and message of an error response.
fn error_of(server: &ServerProcess, path: &str, body: &str) -> (u16, String) {
    let method = if body.is_empty() { "GET" } else { "POST" };
    let reply = server.send(method, path, "", body.as_bytes());
    (reply.status, reply.json()["error"]["message"].as_str().unwrap_or_default().to_owned())
}

/// Invalid requests (path, body) and the message that each must return.
const WRONG: [(&str, &str, &str); 32] = [
    (
        "/api/search",
        r#"{"query":{"row":0},"colums":{"label":["x"]}}"#,
        "unknown field `colums`; did you mean `columns`? expected one of `query`, `by`, `k`, `angle`, `within`, `offset`, `modality`, `columns`, `depth`, `inside`, `not`, `subtree`",
    ),
    (
        "/api/search",
        r#"{"query":{"txt":"a"}}"#,
        "unknown field `txt` in `query`; did you mean `text`? expected one of `text`, `photo`",
    ),
    (
        "/api/search",
        r#"{"query":{"row":0},"not":[{"rows":1}]}"#,
        "unknown field `rows` in `not[0]`; did you mean `row`?",
    ),
    ("/api/traverse", r#"{"from":{"row":0},"step":3}"#, "unknown field `step`; did you mean `steps`?"),
    ("/api/point", r#"{"query":{"row":0},"k":3}"#, "unknown field `k`; expected `query`"),
    ("/api/search", r#"{"k":1}"#, "missing field `query`"),
    ("/api/search", "[]", "the body is []; expected an object"),
    ("/api/search", r#"{"query":{"row":0},"k":"ten"}"#, r#"`k` is "ten"; expected a whole number"#),
    ("/api/search", r#"{"query":{"row":0},"k":1.5}"#, "`k` is 1.5; expected a whole number"),
    ("/api/search", r#"{"query":{"row":-1}}"#, "`query.row` is -1; expected a whole number"),
    ("/api/search", r#"{"query":"a dog"}"#, r#"`query` is "a dog"; expected an object with exactly one of `text`"#),
    (
        "/api/search",
        r#"{"query":["a",null,null,null,null,null]}"#,
        r#"`query` is ["a",null,null,null,null,null]; expected an object"#,
    ),
    (
        "/api/search",
        r#"{"query":{"all":[{"row":1},{"row":"2"}]}}"#,
        r#"`query.all[1].row` is "2"; expected a whole number"#,
    ),
    ("/api/search", r#"{"query":{"point":[1,"2"]}}"#, r#"`query.point[1]` is "2"; expected a number"#),
    ("/api/search", r#"{"query":{"row":0},"modality":"image"}"#, r#"`modality` is "image"; expected a list"#),
    (
        "/api/search",
        r#"{"query":{"row":0},"by":"nearest"}"#,
        r#"`by` is "nearest"; expected one of `distance`, `similarity`"#,
    ),
    ("/api/search", r#"{"query":{"row":0},"by":"general","angle":"1"}"#, r#"`angle` is "1"; expected a number"#),
    ("/api/search", r#"{"query":{"row":0},"depth":[1]}"#, "`depth` is [1]; expected a list of two numbers"),
    (
        "/api/search",
        r#"{"query":{"row":0},"inside":[{"row":1}]}"#,
        r#"`inside` is [{"row":1}]; expected an object with exactly one of"#,
    ),
    ("/api/search", r#"{"query":{"row":0},"columns":{"label":"x"}}"#, r#"`columns.label` is "x"; expected a list"#),
    (
        "/api/search",
        r#"{"query":{"row":0},"by":"gated_narrower","angle":90}"#,
        "`angle` is 90; expected radians, 0 to 3.1416",
    ),
    ("/api/search", r#"{"query":{"row":0},"by":"general","angle":-1}"#, "`angle` is -1; expected radians"),
    (
        "/api/search",
        r#"{"query":{"row":0},"by":"general","within":-1}"#,
        "`within` is -1; expected a distance, 0 or more",
    ),
    ("/api/traverse", r#"{"from":{"row":0},"cone":"no"}"#, r#"`cone` is "no"; expected true or false"#),
    ("/api/rows", "", "missing field `id`"),
    ("/api/rows?id=a&id=b", "", "`id` is given twice"),
    ("/api/rows?name=a", "", "unknown field `name`; expected `id`"),
    ("/api/rows/+1", "", "`+1` is not a row number"),
    ("/api/rows/0/thumbnail?size=big", "", r#"`size` is "big"; expected a whole number"#),
    ("/api/rows/0/thumbnail?size=4294967552", "", "`size` is 4294967552; expected 32 to 1024"),
    ("/api/rows?id", "", "missing field `id`"),
    ("/api/point", r#"{"query":{"row":null}}"#, "exactly one of"),
];

#[test]
fn errors_name_field_value_and_expectation() {
    let server = whole();
    for (path, body, expected) in WRONG {
        if path == "/api/rows?id" {
            // A parameter without a value has the empty value.
            assert_eq!(server.good(path, &Value::Null), json!([]));
            continue;
        }
        let (status, message) = error_of(&server, path, body);
        assert_eq!(status, 422, "{path} {body}: {message}");
        assert!(message.contains(expected), "{path} {body}: `{expected}` is not in: {message}");
        assert!(!message.contains("usize") && !message.contains("struct"), "{message}");
    }
    for (path, expected) in [
        ("/api/rows/0/neighbours?k=abc", r#"`k` is "abc"; expected a whole number"#),
        ("/api/rows/0/neighbours?modality=image&modality=text", "`modality` is given twice"),
        ("/api/map?limit=all", r#"`limit` is "all"; expected a whole number"#),
        ("/api/tree?class=x", "unknown field `class`; expected `node`"),
        ("/api/rows/0/thumbnail?whole=yes", r#"`whole` is "yes"; expected true or false"#),
    ] {
        let (status, message) = error_of(&server, path, "");
        assert_eq!((status, message.contains(expected)), (422, true), "{path}: {message}");
    }
    // Both spellings of enum values are accepted, and `null` means absent.
    let ask = |more: Value| {
        let mut body = json!({ "query": { "row": 3 }, "angle": 2.0 });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        rows(&server.good("/api/search", &body))
    };
    let found = ask(json!({ "by": "gated_broader", "modality": ["box_image", "text"] }));
    assert!(!found.is_empty());
    let again = ask(json!({ "by": "gated-broader", "modality": ["box-image", "text"], "within": null, "depth": null }));
    assert_eq!(again, found);
}

#[test]
fn front_and_server_return_the_same_errors() {
    let server = start(&["serve", "set"]);
    let front = start(&["front", "--shard", &format!("http://{}", server.address)]);
    let mut invalid = 0;
    for (path, body, _) in WRONG {
        let (status, message) = error_of(&server, path, body);
        assert_eq!(error_of(&front, path, body), (status, message), "{path} {body}");
        invalid += usize::from(status == 422);
    }
    assert!(invalid > 25, "{invalid}");
}

#[test]
fn only_whole_photos_and_captions_have_a_class() {
    let server = whole();
    let info = server.good("/api/info", &Value::Null);
    let label = info["columns"].as_array().unwrap().iter().find(|it| it["name"] == "label").unwrap();
    let counted: u64 = label["values"].as_array().unwrap().iter().map(|it| it[1].as_u64().unwrap()).sum();
    let wholes = info["modalities"]["image"].as_u64().unwrap() + info["modalities"]["text"].as_u64().unwrap();
    assert_eq!(counted, wholes, "{label}");
    assert!(label["values"].as_array().unwrap().iter().all(|it| it[0] != ""), "{label}");
    assert_eq!(server.good("/api/tree", &Value::Null)["node"]["count"], wholes);
    let below = server.good("/api/search", &json!({ "query": { "row": 0 }, "subtree": "all", "k": 1000 }));
    assert_eq!(below["rows_passing"], wholes);
    assert!(folder().join("tree.tsv").exists());
}
