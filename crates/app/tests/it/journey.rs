//! Data to search, once through everything, on the toy world.

use serde_json::Value;

use crate::{good, refused, root};

#[test]
fn toy_world_to_search_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let config = root().join("configs/toy_hycoclip.toml");
    let config = config.to_str().unwrap();

    good(folder.path(), &["data", "toy", "--out", "toy", "--size", "16", "--resolution", "32"]);
    let checked: Value = serde_json::from_str(&good(
        folder.path(),
        &["--json", "data", "check", "--data", "toy/scenes.jsonl", "--pixels"],
    ))
    .unwrap();
    assert!(checked["samples"].as_u64().unwrap() >= 16 && checked["boxes"].as_u64().unwrap() > 0, "{checked}");

    good(folder.path(), &["train", config, "--smoke", "--out", "run"]);
    for file in ["config.toml", "metrics.jsonl"] {
        assert!(folder.path().join("run").join(file).is_file(), "{file}");
    }
    // A run is never overwritten, and going on with a finished one changes nothing.
    refused(folder.path(), &["train", config, "--smoke", "--out", "run"], &["run"]);
    good(folder.path(), &["train", "--resume", "run"]);

    good(
        folder.path(),
        &[
            "embed",
            "run",
            "--data",
            "toy/scenes.jsonl",
            "--split",
            "test",
            "--views",
            "image,text,box-text",
            "--out",
            "set",
        ],
    );
    let search = |query: &[&str]| -> Vec<Value> {
        let args = [&["--json", "search", "set", "--checkpoint", "run", "-k", "3"], query].concat();
        serde_json::from_str(&good(folder.path(), &args)).unwrap()
    };
    assert_eq!(search(&["--text", "a red car"]).len(), 3);
    let first = search(&["--text", "a red car", "--modality", "image", "--by", "narrower"]).remove(0);
    assert_eq!(first["modality"], "image");
    // A row is its own nearest neighbour.
    let id = first["id"].as_str().unwrap();
    assert_eq!(search(&["--id", id])[0]["id"], id);
    let path: Vec<Value> =
        serde_json::from_str(&good(folder.path(), &["--json", "traverse", "set", "--id", id])).unwrap();
    assert_eq!(path.last().unwrap()["root"], true);

    let records: Vec<Value> = serde_json::from_str(&good(
        folder.path(),
        &[
            "--json",
            "eval",
            "run",
            "--data",
            "toy/classes",
            "--tree",
            "toy/tree.txt",
            "--benchmark",
            "zero_shot_classification,hierarchical_classification",
            "--out",
            &at("records.jsonl"),
        ],
    ))
    .unwrap();
    assert!(records.iter().any(|it| it["metric"] == "TIE"));
    let lines = std::fs::read_to_string(at("records.jsonl")).unwrap();
    assert_eq!(lines.lines().count(), records.len());
    assert!(lines.contains("weights_sha256"));

    // Out to the published names, back in, and out again: the same bytes.
    good(folder.path(), &["convert", "run", "a.safetensors"]);
    good(folder.path(), &["convert", "a.safetensors", "again", "--image-heads", "2", "--text-heads", "2"]);
    good(folder.path(), &["convert", "again", "b.safetensors"]);
    assert_eq!(std::fs::read(at("a.safetensors")).unwrap(), std::fs::read(at("b.safetensors")).unwrap());
}

#[test]
fn registries_are_printed() {
    let methods: Vec<Value> = serde_json::from_str(&good(&root(), &["--json", "methods"])).unwrap();
    let names: Vec<&str> = methods.iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["clip", "meru", "hycoclip", "phyclip"]);
    assert!(good(&root(), &["benchmarks"]).contains("hierarcaps"));
    assert!(good(&root(), &["data", "list"]).contains("jsonl"));
    assert!(good(&root(), &["config", "schema"]).contains("optim.weight_decay"));
    assert!(good(&root(), &["completions", "bash"]).contains("conifer"));
}
