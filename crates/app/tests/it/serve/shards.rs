//! Several servers of parts, as one.

use serde_json::{Value, json};

use super::{Running, folder, start, whole};

/// An answer without what time it took.
fn timeless(server: &Running, path: &str, body: &Value) -> Value {
    let mut answer = server.good(path, body);
    if let Some(fields) = answer.as_object_mut() {
        fields.shift_remove("took_ms");
    }
    answer
}

#[test]
fn a_front_answers_as_one_index() {
    let one = whole();
    let mut shards: Vec<Running> = ["0/3", "1/3", "2/3"]
        .iter()
        .map(|part| {
            let more = ["--shard", part, "--checkpoint", "run", "--tree", "tree.tsv"];
            start(&[&["serve", "set"], &super::DATA[..], &more].concat())
        })
        .collect();
    let urls: Vec<String> = shards.iter().map(|it| format!("http://{}", it.address)).collect();
    let front = |urls: &[&String]| -> Vec<String> {
        let mut args = vec!["front".to_owned()];
        urls.iter().for_each(|url| args.extend(["--shard".to_owned(), (*url).clone()]));
        args
    };
    let args = front(&urls.iter().collect::<Vec<_>>());
    let front_server = start(&args.iter().map(String::as_str).collect::<Vec<_>>());

    let queries = [
        json!({ "row": 4 }),
        json!({ "text": "a red cake" }),
        json!({ "all": [{ "row": 1 }, { "text": "a dog" }] }),
        json!({ "id": one.good("/api/rows/8", &Value::Null)["id"] }),
    ];
    let rankings = [
        json!({ "by": "distance" }),
        json!({ "by": "similarity" }),
        json!({ "by": "inner" }),
        json!({ "by": "narrower" }),
        json!({ "by": "broader" }),
        json!({ "by": "gated_narrower", "angle": 2.0 }),
        json!({ "by": "gated_broader", "angle": 2.0 }),
        json!({ "by": "general", "angle": 2.0 }),
        json!({ "by": "general", "within": 0.7 }),
    ];
    let label = one.good("/api/rows/4", &Value::Null)["columns"]["label"].clone();
    let filters = [
        json!({}),
        json!({ "modality": ["text", "box_text"] }),
        json!({ "columns": { "label": [label] } }),
        json!({ "depth": [0.0, 1.5] }),
        json!({ "inside": { "row": 5 } }),
        json!({ "not": [{ "row": 5 }, { "text": "a red cake" }] }),
        json!({ "subtree": "early", "offset": 3, "k": 7 }),
    ];
    let mut hits = 0;
    for query in &queries {
        for ranking in &rankings {
            for filter in &filters {
                let mut body = json!({ "query": query });
                for more in [ranking, filter] {
                    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
                }
                let expected = timeless(&one, "/api/search", &body);
                assert_eq!(timeless(&front_server, "/api/search", &body), expected, "{body}");
                hits += expected["hits"].as_array().unwrap().len();
            }
        }
    }
    assert!(hits > 1000, "{hits}");
    // More than a page of a shard, and what no shard alone can number.
    let all = json!({ "query": { "row": 4 }, "k": 1000, "offset": 20 });
    assert_eq!(timeless(&front_server, "/api/search", &all), timeless(&one, "/api/search", &all));
    for more in [
        json!({}),
        json!({ "cone": false }),
        json!({ "cone": false, "each": true, "steps": 7 }),
        json!({ "cone": false, "to": { "text": "a dog" }, "modality": ["text", "box_text"], "steps": 200 }),
        json!({ "to": { "row": 9 }, "not": [{ "row": 5 }] }),
    ] {
        let mut body = json!({ "from": { "row": 4 } });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        assert_eq!(front_server.good("/api/traverse", &body), one.good("/api/traverse", &body), "{body}");
    }
    let photo = one.get("/api/rows/0/thumbnail?size=64").body;
    let token = front_server.send("POST", "/api/photos", "", &photo).json();
    assert_eq!(
        front_server.good("/api/search", &json!({ "query": { "photo": token["photo"] } }))["hits"]
            .as_array()
            .unwrap()
            .len(),
        10
    );
    for path in ["/api/rows/7", "/api/rows/7/neighbours?k=4", "/api/rows/7/neighbours?k=4&modality=text"] {
        assert_eq!(timeless(&front_server, path, &Value::Null), timeless(&one, path, &Value::Null), "{path}");
    }
    assert_eq!(front_server.get("/api/rows/0/thumbnail?size=32").body, one.get("/api/rows/0/thumbnail?size=32").body);
    let (info, expected) = (front_server.good("/api/info", &Value::Null), one.good("/api/info", &Value::Null));
    for name in ["rows", "space", "root", "model", "modalities", "by"] {
        assert_eq!(info[name], expected[name], "{name}");
    }
    let reply = front_server.post("/api/search", &json!({ "query": { "row": 999_999 } }));
    assert_eq!((reply.status, &reply.json()["error"]["message"]), (404, &json!("row 999999 is not there")));
    assert_eq!(front_server.post("/api/search", &json!({ "query": { "row": 0 }, "k": 0 })).status, 422);

    // In another order they are not the parts that the numbers of rows say.
    let wrong = front(&[&urls[1], &urls[0], &urls[2]]);
    let wrong: Vec<&str> = wrong.iter().map(String::as_str).chain(["--port", "0"]).collect();
    crate::refused(folder(), &wrong, &["expected --shard 0/3 there", &urls[1]]);

    // Never a part of an answer.
    drop(shards.remove(1));
    let reply = front_server.post("/api/search", &json!({ "query": { "row": 0 } }));
    let message = reply.json()["error"]["message"].as_str().unwrap().to_owned();
    assert_eq!(reply.status, 503, "{message}");
    assert!(message.contains(&urls[1]), "{message}");
}
