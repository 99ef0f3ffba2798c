//! A head on vectors that another program computed, from training to search.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;

use serde_json::{Value, json};

use crate::serve::ServerProcess;
use crate::{command, conifer, good, refused, root};

/// Key that the embedding endpoint requires.
const KEY: &str = "a-secret-key";
/// The text for which the embedding endpoint never answers.
const SLOW: &str = "a slow text";

/// Options of the data for commands that take `--data`.
const DATA: [&str; 8] = [
    "--data",
    "features:vectors.csv",
    "--data-option",
    "images=images.npy",
    "--data-option",
    "texts=texts.npy",
    "--data-option",
    "captions=captions.txt",
];

/// A `.npy` file of pseudo-random rows; returns the values.
fn write_vectors(path: &Path, rows: usize, width: usize) -> Vec<f32> {
    let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {width}), }}\n");
    let values: Vec<f32> = (0..rows * width).map(|i| ((i * 7919) % 101) as f32 / 50.0 - 1.0).collect();
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    fs::write(path, bytes).unwrap();
    values
}

#[test]
fn vectors_are_trained_embedded_evaluated_and_searched() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let images = write_vectors(&at.join("images.npy"), 16, 5);
    write_vectors(&at.join("texts.npy"), 16, 3);
    let rows: String = (0..16).map(|i| format!("{i},{i}\n")).collect();
    fs::write(at.join("vectors.csv"), format!("image,text\n{rows}")).unwrap();
    fs::write(at.join("captions.txt"), (0..16).map(|i| format!("photo {i}\n")).collect::<String>()).unwrap();
    let config = root().join("configs/own_vectors.toml");
    let train =
        [
            &[
                "train",
                config.to_str().unwrap(),
                "--out",
                "run",
                "--set",
                "train.steps=4",
                "--set",
                "train.batch_size=8",
            ][..],
            &["--set", "optim.warmup_steps=1", "--set", "model.embed_dim=8"][..],
        ]
        .concat();
    let wide = [&train[..], &["--set", "model.visual={kind='vectors',width=6}"][..]].concat();
    refused(at, &wide, &["`model.visual.width` is 6; expected 5"]);
    good(at, &train);
    assert!(!at.join("run/checkpoints/step_00000004/tokenizer.json").exists());

    let embed = [&["--json", "embed", "run", "--out", "set"][..], &DATA[..]].concat();
    let done: Value = serde_json::from_str(&good(at, &embed)).unwrap();
    assert_eq!((&done["rows"], &done["skipped"]), (&32.into(), &0.into()), "{done}");
    // A model that reads vectors rejects photos.
    refused(at, &["embed", "run", "--data", "toy", "--data-option", "size=4", "--out", "toy"], &["vector"]);

    let search = |query: &[&str]| -> Vec<Value> {
        let args = [&["--json", "search", "set", "-k", "3", "--modality", "image"][..], query].concat();
        serde_json::from_str(&good(at, &args)).unwrap()
    };
    let third = serde_json::to_string(&images[15..20]).unwrap();
    assert_eq!(search(&["--image-vector", &third])[0]["id"], "3");
    fs::write(at.join("query.json"), &third).unwrap();
    assert_eq!(search(&["--image-vector", "query.json", "--checkpoint", "run"])[0]["id"], "3");
    assert_eq!(search(&["--text-vector", "[1, 0, -1]"]).len(), 3);
    let refusal = |query: &[&str], words: &[&str]| refused(at, &[&["search", "set"][..], query].concat(), words);
    refusal(&["--image-vector", "[1, 2]"], &["is of width 2; expected 5"]);
    refusal(&["--text-vector", "texts.npy"], &["an array of shape [16, 3]; expected one vector"]);
    refusal(&["--text", "photo 3"], &["this model reads vectors and has no text encoder"]);
    refusal(&["--image", "a.jpg"], &["the model reads vectors", "--image-vector"]);

    endpoint_search(at);
    served_vectors(at, &images[15..20]);

    let eval = [&["--json", "eval", "run", "run", "--benchmark", "cross_modal_retrieval"][..], &DATA[..]].concat();
    let records: Vec<Value> = serde_json::from_str(&good(at, &eval)).unwrap();
    assert!(!records.is_empty());
    // The second evaluation reads the points from the cache.
    assert_eq!(serde_json::from_str::<Vec<Value>>(&good(at, &eval)).unwrap(), records);
    good(at, &[&["data", "check"][..], &DATA[..]].concat());
}

/// An OpenAI-compatible endpoint whose vectors are derived from the length of the text; returns its URL. The vector of
/// `a wide text` has another width. The thread ends with the test process.
fn embedding_endpoint() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut head, mut line, mut length) = (String::new(), String::new(), 0);
            while line != "\r\n" {
                line.clear();
                reader.read_line(&mut line).unwrap();
                head += &line.to_lowercase();
                if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let body: Value = serde_json::from_slice(&body).unwrap();
            let (text, model) = (body["input"][0].as_str().unwrap(), &body["model"]);
            if text == SLOW {
                // Keep the connection open without an answer.
                std::mem::forget(stream);
                continue;
            }
            let known = head.contains(&format!("authorization: bearer {KEY}\r\n")) && model == "small";
            let (status, answer) = match (known, text) {
                (false, _) => ("401 Unauthorized", json!({ "error": { "message": format!("bad key in {head}") } })),
                (_, "a wide text") => ("200 OK", json!({ "data": [{ "embedding": [1, 2, 3, 4] }] })),
                _ => ("200 OK", json!({ "data": [{ "index": 0, "embedding": vector_of(text) }] })),
            };
            let answer = answer.to_string();
            let length = answer.len();
            let response =
                format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{answer}");
            stream.write_all(response.as_bytes()).unwrap();
        }
    });
    url
}

/// The vector of a text at the embedding endpoint.
fn vector_of(text: &str) -> [f32; 3] {
    [1.0, 0.25 * text.len() as f32, -1.0]
}

fn endpoint_search(at: &Path) {
    let url = embedding_endpoint();
    let base = ["--json", "search", "set", "-k", "5"];
    let with = |more: &[&str], key: &str| {
        let options =
            ["--embedding-endpoint", &url, "--embedding-model", "small", "--embedding-key-env", "CONIFER_KEY"];
        command(at, &[&base[..], &options, more].concat()).env("CONIFER_KEY", key).output().unwrap()
    };
    let vector = json!(vector_of("a new text")).to_string();
    let expected = good(at, &[&base[..], &["--text-vector", &vector]].concat());
    let found = with(&["--text", "a new text"], KEY);
    assert_eq!(String::from_utf8_lossy(&found.stdout), expected, "{}", String::from_utf8_lossy(&found.stderr));
    // A text in a filter is embedded in the same way.
    let inside = with(&["--id", "3", "--not", "a new text"], KEY);
    assert!(inside.status.success(), "{}", String::from_utf8_lossy(&inside.stderr));

    for (text, key, words) in [
        ("a wide text", KEY, "a vector of width 4; expected 3"),
        ("a new text", "another-key", "status 401 Unauthorized"),
    ] {
        let output = with(&["--text", text], key);
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && message.contains(words), "{message}");
        assert!(!message.contains(key) && !message.contains("bad key"), "{message}");
    }
    let plain = |more: &[&str], words: &[&str]| refused(at, &[&["search", "set", "--text", "a"], more].concat(), words);
    plain(&["--embedding-endpoint", "https://127.0.0.1"], &["--embedding-endpoint https://", "http://HOST:PORT"]);
    plain(
        &["--embedding-endpoint", &url, "--embedding-key-env", "CONIFER_NO_KEY"],
        &["--embedding-key-env CONIFER_NO_KEY", "environment variable"],
    );
    plain(&["--embedding-endpoint", "http://127.0.0.1:1"], &["the embedding endpoint failed"]);
    let usage = conifer(at, &["search", "set", "--text", "a", "--embedding-model", "small"]);
    assert!(String::from_utf8_lossy(&usage.stderr).contains("--embedding-endpoint"));
    refused(
        at,
        &["serve", "set", "--port", "0", "--embedding-endpoint", &url],
        &["--embedding-endpoint", "--checkpoint"],
    );
}

/// Vectors in requests of a server and of a front, and texts through an embedding endpoint.
fn served_vectors(at: &Path, third: &[f32]) {
    let url = embedding_endpoint();
    let serve = ["serve", "set", "--checkpoint", "run", "--timeout", "3"];
    let endpoint = ["--embedding-endpoint", &url, "--embedding-model", "small", "--embedding-key-env", "CONIFER_KEY"];
    let start = |args: &[&str]| {
        let mut program = command(at, &[args, &["--port", "0", "--json"]].concat());
        program.env("CONIFER_KEY", KEY);
        ServerProcess::start(program)
    };
    let (bare, server) = (start(&serve), start(&[&serve[..], &endpoint].concat()));
    let front = start(&["front", "--shard", &format!("http://{}", server.address)]);

    let info = server.good("/api/info", &Value::Null);
    assert_eq!((&info["vectors"], &info["can"]["text"]), (&json!({ "image": 5, "text": 3 }), &json!(true)));
    assert_eq!(
        (&info["can"]["photo"], &bare.good("/api/info", &Value::Null)["can"]["text"]),
        (&json!(false), &json!(false))
    );

    let photos = |query: Value| json!({ "query": query, "k": 3, "modality": ["image"] });
    let hits = |server: &ServerProcess, query: &Value| server.good("/api/search", query)["hits"].clone();
    let by_image = photos(json!({ "image_vector": third }));
    assert_eq!(hits(&bare, &by_image)[0]["id"], "3");
    let by_vector = photos(json!({ "text_vector": vector_of("a new text") }));
    let by_text = photos(json!({ "text": "a new text" }));
    for server in [&server, &front] {
        assert_eq!(hits(server, &by_image), hits(&bare, &by_image));
        assert_eq!(hits(server, &by_vector), hits(&bare, &by_vector));
        assert_eq!(hits(server, &by_text), hits(&bare, &by_vector));
    }
    let walk = |from: Value| json!({ "from": from, "to": { "image_vector": third }, "cone": false, "steps": 5 });
    let path = server.good("/api/traverse", &walk(json!({ "text": "a new text" })));
    assert_eq!(front.good("/api/traverse", &walk(json!({ "text_vector": vector_of("a new text") }))), path);
    let all = json!({ "all": [{ "text_vector": [1, 0, -1] }, { "row": 2 }] });
    assert_eq!(hits(&server, &photos(all)).as_array().unwrap().len(), 3);

    let refusal = |server: &ServerProcess, query: Value, status: u16, words: &[&str]| {
        let reply = server.post("/api/search", &json!({ "query": query }));
        let message = reply.json()["error"]["message"].as_str().unwrap().to_owned();
        assert_eq!(reply.status, status, "{message}");
        for word in words {
            assert!(message.contains(word), "`{word}` is not in: {message}");
        }
        assert!(!message.contains(KEY), "{message}");
    };
    for server in [&server, &front] {
        refusal(server, json!({ "image_vector": [1, 2] }), 422, &["`image_vector` is a list of 2", "= 5 numbers"]);
        refusal(server, json!({ "text_vector": [1, 2, 1e39] }), 422, &["`query.text_vector[2]`", "finite"]);
        refusal(server, json!({ "text_vector": [1, null, 1] }), 422, &["`query.text_vector[1]` is null"]);
        refusal(server, json!({ "text_vector": [1, 2, 3], "row": 1 }), 422, &["exactly one of"]);
    }
    refusal(&server, json!({ "image_vector": [3e38, 3e38, 3e38, 3e38, 3e38] }), 422, &["finite"]);
    refusal(&bare, json!({ "text": "a new text" }), 422, &["reads vectors"]);
    refusal(&server, json!({ "text": "a wide text" }), 502, &["the embedding endpoint failed", "width 4; expected 3"]);
    refusal(&server, json!({ "text": SLOW }), 504, &["the embedding endpoint sent no response within 2.7 s"]);
    let upload = server.send("POST", "/api/photos", "", b"a photo");
    assert_eq!(upload.status, 422);
    assert!(upload.json()["error"]["message"].as_str().unwrap().contains("`image_vector` of 5 numbers"));
    server.is_well();
}
