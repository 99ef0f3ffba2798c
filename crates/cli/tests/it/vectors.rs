//! A head on vectors that another program computed, from training to search.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::{good, refused, root};

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
    // Without the vectors of the texts, only photos have rows.
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

    let eval = [&["--json", "eval", "run", "--benchmark", "cross_modal_retrieval"][..], &DATA[..]].concat();
    let records: Vec<Value> = serde_json::from_str(&good(at, &eval)).unwrap();
    assert!(!records.is_empty());
    // The second evaluation reads the points from the cache.
    assert_eq!(serde_json::from_str::<Vec<Value>>(&good(at, &eval)).unwrap(), records);
    good(at, &[&["data", "check"][..], &DATA[..]].concat());
}
