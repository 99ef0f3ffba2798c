//! ONNX encoders in training, embedding, evaluation, export of features and the server.
//!
//! The tests need ONNX Runtime. Unless `ORT_DYLIB_PATH` names the library, they are skipped with a message.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::serve::ServerProcess;
use crate::{command, good, refused, root};

/// The toy world and a config with two ONNX encoders.
fn config(at: &Path, textual: &str) {
    let fixtures = root().join("fixtures");
    good(at, &["data", "toy", "--out", "toy", "--size", "24", "--resolution", "16"]);
    let text = format!(
        "seed = 3
         [data]
         kind = 'jsonl'
         path = 'toy/scenes.jsonl'
         min_box_pixels = 1
         [tokenizer]
         kind = 'file'
         path = '{tokenizer}'
         [model]
         embed_dim = 8
         visual = {{ kind = 'onnx', file = '{onnx}/conv.onnx', output = 'features', image_size = 12 }}
         textual = {{ kind = 'onnx', file = '{onnx}/{textual}', context = 16, pooling = 'mean' }}
         [model.visual_adapter]
         [model.textual_adapter]
         [method]
         kind = 'meru'
         [optim]
         warmup_steps = 1
         [train]
         freeze = ['visual', 'textual']
         steps = 4
         batch_size = 8
         checkpoint_every = 0
         out = 'run'",
        tokenizer = fixtures.join("towers/sentence_mean/tokenizer.json").display(),
        onnx = fixtures.join("onnx").display(),
    );
    fs::write(at.join("onnx.toml"), text).unwrap();
}

/// True if ONNX Runtime is not available; the reason is printed.
pub(crate) fn skipped() -> bool {
    let skipped = std::env::var_os("ORT_DYLIB_PATH").is_none_or(|path| path.is_empty());
    if skipped {
        eprintln!("skipped: ORT_DYLIB_PATH does not name the library of ONNX Runtime");
    }
    skipped
}

#[test]
fn onnx_encoders_train_embed_and_serve() {
    if skipped() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    config(at, "bert.onnx");
    good(at, &["features", "onnx.toml", "--out", "store"]);
    good(at, &["train", "onnx.toml", "--set", "train.feature_store='store'"]);

    // A run without a store, and one that continues after two of its steps, end with the same weights.
    good(at, &["train", "onnx.toml", "--out", "other", "--set", "train.checkpoint_every=2"]);
    let weights = |run: &str, step: u64| {
        fs::read(at.join(run).join(format!("checkpoints/step_{step:08}/weights.safetensors"))).unwrap()
    };
    assert!(weights("run", 4) == weights("other", 4));
    fs::remove_dir_all(at.join("other/checkpoints/step_00000004")).unwrap();
    good(at, &["train", "--resume", "other"]);
    assert!(weights("run", 4) == weights("other", 4));

    // The checkpoint contains the files: it works after they moved.
    fs::rename(at.join("run"), at.join("moved")).unwrap();
    let data = ["--data", "toy/scenes.jsonl"];
    good(at, &[&["embed", "moved"], &data[..], &["--views", "image,text", "--out", "set"]].concat());
    good(at, &[&["eval", "run", "moved"], &data[..], &["--benchmark", "cross_modal_retrieval"]].concat());
    let server = ["serve", "set", "--checkpoint", "moved", "--port", "0", "--json"];
    let server = ServerProcess::start(command(at, &server));
    let reply = server.good("/api/search", &json!({ "query": { "text": "a small brown dog" }, "k": 3 }));
    let hits = reply["hits"].as_array().unwrap();
    assert_eq!(hits.len(), 3, "{reply}");

    // The program and the server compute the same point of a text.
    let searched: Value = serde_json::from_str(&good(
        at,
        &["--json", "search", "set", "--checkpoint", "moved", "--text", "a small brown dog", "-k", "3"],
    ))
    .unwrap();
    let ids = |hits: &Value| -> Vec<String> {
        hits.as_array().unwrap().iter().map(|hit| hit["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(&reply["hits"]), ids(searched.get("hits").unwrap_or(&searched)), "{searched}");
}

#[test]
fn onnx_encoders_are_refused_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    config(at, "bert.onnx");
    let run = command(at, &["train", "onnx.toml"]).env("ORT_DYLIB_PATH", "no_library.so").output().unwrap();
    let stderr = String::from_utf8_lossy(&run.stderr);
    assert!(!run.status.success() && stderr.contains("ORT_DYLIB_PATH") && !stderr.contains("panicked"), "{stderr}");
    if skipped() {
        return;
    }
    refused(at, &["train", "onnx.toml", "--set", "model.visual.output='heads'"], &["heads", "features", "maps"]);
    refused(at, &["train", "onnx.toml", "--set", "model.textual.file='absent.onnx'"], &["absent.onnx"]);
}
