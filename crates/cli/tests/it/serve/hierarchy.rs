//! `POST /api/hierarchy`.

use conifer_embeddings::{EmbeddingSet, Modality};
use serde_json::{Value, json};

use super::{folder, whole};
use crate::good;

#[test]
fn chain_over_http_is_that_of_the_command() {
    let server = whole();
    let set = EmbeddingSet::load(&folder().join("set")).unwrap();
    let photo = set.modality.iter().position(|it| *it == Modality::Image).unwrap();
    let id = set.ids[photo].as_str();
    let same = |name: &str, option: &str, steps: u64| {
        let body = json!({ "from": { "row": photo }, "protocol": name, "steps": steps });
        let found = server.good("/api/hierarchy", &body);
        let steps = steps.to_string();
        let args = ["--json", "hierarchy", "set", "--id", id, "--protocol", option, "--steps", steps.as_str()];
        let printed: Value = serde_json::from_str(&good(folder(), &args)).unwrap();
        assert_eq!((&found["protocol"], &found["candidates"]), (&printed["protocol"], &printed["candidates"]));
        let of_server = found["tiers"].as_array().unwrap().iter().map(|it| (&it["radius"], &it["hit"]["row"]));
        let of_command = printed["tiers"].as_array().unwrap().iter().map(|it| (&it["radius"], &it["row"]));
        assert_eq!(of_server.collect::<Vec<_>>(), of_command.collect::<Vec<_>>(), "{name}");
        assert_eq!(found["left_out"]["hit"]["row"], printed["left_out"]["row"], "{name}");
        found
    };
    let kept = same("paper_first_kept", "paper-first-kept", 20);
    assert!(kept["tiers"].as_array().unwrap().iter().all(|it| it["hit"]["modality"] == "text"), "{kept}");
    same("released", "released", 200);
    same("released_first_left_out", "released-first-left-out", 7);
    // The default is 50 radii with the protocol `paper`. This set has no true chains.
    let default = server.good("/api/hierarchy", &json!({ "from": { "id": id } }));
    let full = json!({ "from": { "id": id }, "steps": 50, "protocol": "paper", "modality": ["text"] });
    assert_eq!(default, server.good("/api/hierarchy", &full));
    assert!(default["true_chain"].is_null(), "{default}");
    assert!(default["left_out"]["hit"]["row"].is_u64(), "{default}");
}

#[test]
fn invalid_chain_requests_are_refused() {
    let server = whole();
    let wrong = [
        (json!({ "steps": 3 }), "missing field `from`"),
        (json!({ "from": { "row": 0 }, "steps": 1 }), "`steps` is 1; expected 2 to 200"),
        (json!({ "from": { "row": 0 }, "protocol": "first" }), "`protocol` is \"first\"; expected one of `paper`"),
        (json!({ "from": { "row": 0 }, "columns": { "label": ["no class"] } }), "passes the filters; expected"),
        (json!({ "from": { "row": 0 }, "levels": 3 }), "unknown field `levels`"),
    ];
    for (body, expected) in wrong {
        let reply = server.send("POST", "/api/hierarchy", "", body.to_string().as_bytes());
        let message = reply.json()["error"]["message"].as_str().unwrap_or_default().to_owned();
        assert_eq!((reply.status, message.contains(expected)), (422, true), "{body}: {message}");
    }
    let absent = server.send("POST", "/api/hierarchy", "", br#"{"from":{"row":1000000}}"#);
    assert_eq!(absent.status, 404);
}
