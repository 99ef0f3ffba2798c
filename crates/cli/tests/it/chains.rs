//! `conifer hierarchy`, and candidates of a second data set in `conifer eval run`.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::{good, refused, root};

/// A model `run`; `t.jsonl`, three photos with chains; `more.jsonl`, two chains without photos, with two texts that
/// `t.jsonl` lacks.
fn prepare(at: &Path) {
    let config = root().join("configs/toy_hycoclip.toml");
    good(at, &["train", config.to_str().unwrap(), "--smoke", "--out", "run"]);
    good(at, &["data", "toy", "--out", "toy", "--size", "8", "--resolution", "32"]);
    let scenes = fs::read_to_string(at.join("toy/scenes.jsonl")).unwrap();
    let chains = [["a thing", "a red car"], ["a thing", "a duck"], ["an animal", "a small dog"]];
    let line = |(i, (scene, chain)): (usize, (&str, [&str; 2]))| {
        let scene: Value = serde_json::from_str(scene).unwrap();
        let image = format!("toy/{}", scene["image"].as_str().unwrap());
        json!({ "id": format!("photo {i}"), "image": image, "tiers": { "positive": chain } }).to_string()
    };
    let lines: Vec<String> = scenes.lines().zip(chains).enumerate().map(line).collect();
    fs::write(at.join("t.jsonl"), lines.join("\n")).unwrap();
    let chain = |positive: [&str; 2]| json!({ "tiers": { "positive": positive } }).to_string();
    let more = [chain(["a thing", "a blue boat"]), chain(["a vehicle", "a red car"])];
    fs::write(at.join("more.jsonl"), more.join("\n")).unwrap();
}

fn embed(at: &Path, data: &str, views: &str, out: &str, more: &[&str]) {
    good(at, &[&["embed", "run", "--data", data, "--views", views, "--out", out], more].concat());
}

#[test]
fn chain_of_a_photo_is_printed_beside_the_truth() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    prepare(at);
    embed(at, "t.jsonl", "image,tiers", "set", &[]);
    embed(at, "more.jsonl", "tiers", "more", &[]);
    let hierarchy = |more: &[&str]| -> Value {
        serde_json::from_str(&good(at, &[&["--json", "hierarchy", "set"], more].concat())).unwrap()
    };
    let chain = hierarchy(&["--id", "photo 0", "--protocol", "paper-first-kept"]);
    assert_eq!((&chain["protocol"], &chain["steps"]), (&json!("paper, first kept"), &json!(50)));
    assert_eq!(chain["true_chain"], json!(["a thing", "a red car"]));
    // The candidates are: a thing, a red car, a duck, an animal, a small dog.
    assert_eq!((&chain["candidates"], chain["levels"].as_array().unwrap().len()), (&json!(5), 50));
    let (tiers, closest) = (chain["tiers"].as_array().unwrap(), &chain["closest"]);
    // The last radius is the depth of the closest text.
    assert_eq!(
        (&tiers.last().unwrap()["id"], &chain["levels"][49]["candidate"]["id"]),
        (&closest["id"], &closest["id"])
    );
    assert_eq!(chain["levels"][49]["radius"], tiers.last().unwrap()["depth"]);
    let numbers = |name: &str| tiers.iter().map(|it| it[name].as_f64().unwrap()).collect::<Vec<_>>();
    assert!(numbers("radius").is_sorted() && numbers("similarity").is_sorted(), "{chain}");
    let correct = tiers.iter().filter(|it| it["correct"] == true).count() as f64;
    let near = |name: &str, value: f64| assert!((chain[name].as_f64().unwrap() - value).abs() < 1e-12, "{chain}");
    near("precision", correct / tiers.len() as f64);
    near("recall", correct / 2.0);

    // The first text is left out by default.
    let paper = hierarchy(&["--id", "photo 0"]);
    assert_eq!(paper["left_out"], tiers[0]);
    assert_eq!(paper["tiers"].as_array().unwrap()[..], tiers[1..]);
    // A photo of the set is recognised by its point. A text has no true chain.
    let scenes = fs::read_to_string(at.join("t.jsonl")).unwrap();
    let scene: Value = serde_json::from_str(scenes.lines().next().unwrap()).unwrap();
    let photo = hierarchy(&["--image", scene["image"].as_str().unwrap()]);
    assert_eq!((&photo["true_chain"], &photo["closest"]), (&paper["true_chain"], &paper["closest"]));
    let text = hierarchy(&["--text", "a dog", "--steps", "10", "--protocol", "released"]);
    assert!(text["true_chain"].is_null() && text["precision"].is_null() && text["tiers"][0].get("correct").is_none());
    assert_eq!(text["levels"].as_array().unwrap().len(), 10);

    // Candidates of another set.
    let other = hierarchy(&["--id", "photo 0", "--candidates", "more", "--protocol", "released"]);
    assert_eq!(other["candidates"], json!(4));
    let texts: Vec<&str> = other["tiers"].as_array().unwrap().iter().map(|it| it["text"].as_str().unwrap()).collect();
    let known = ["a thing", "a blue boat", "a vehicle", "a red car"];
    assert!(!texts.is_empty() && texts.iter().all(|it| known.contains(it)), "{texts:?}");

    let table = good(at, &["hierarchy", "set", "--id", "photo 0", "--protocol", "paper-first-kept"]);
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].starts_with("radius") && lines[0].ends_with("true chain"), "{table}");
    assert!(lines[1].ends_with("a thing") && lines.last().unwrap().starts_with("precision "), "{table}");
}

#[test]
fn candidates_of_other_models_and_sets_without_texts_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    prepare(at);
    embed(at, "t.jsonl", "image,tiers", "set", &[]);
    let candidates = |path: &str, words: &[&str]| {
        refused(at, &["hierarchy", "set", "--id", "photo 0", "--candidates", path], words);
    };
    candidates("absent", &["--candidates", "absent does not exist"]);
    embed(at, "t.jsonl", "tiers", "rooted", &["--root-text", "life"]);
    candidates("rooted", &["--candidates rooted", "the root of the candidates is the point", "expected the origin"]);
    embed(at, "t.jsonl", "image", "photos", &[]);
    candidates("photos", &["photos: none of its 3 rows is a candidate (--modality text)", "--views tiers"]);
    refused(at, &["hierarchy", "photos", "--id", "photo 0"], &["photos: none of its 3 rows is a candidate"]);
    refused(at, &["hierarchy", "set", "--id", "photo 9"], &["no row has the id `photo 9`"]);
    let filtered = ["hierarchy", "set", "--id", "photo 0", "--where", "text=a house"];
    refused(at, &filtered, &["set: nothing found", "text=a house"]);

    let config = root().join("configs/toy_hycoclip.toml");
    good(at, &["train", config.to_str().unwrap(), "--smoke", "--out", "other", "--set", "seed=1"]);
    good(at, &["embed", "other", "--data", "t.jsonl", "--views", "tiers", "--out", "others"]);
    // Its space may differ, too, because the curvature is learned.
    candidates("others", &["--candidates others", "expected", "embed both with the same model"]);
}

#[test]
fn benchmark_takes_candidates_of_a_second_data_set() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    prepare(at);
    let eval = |benchmark: &'static str, more: &[&'static str]| {
        let args = ["--json", "eval", "run", "run", "--data", "t.jsonl", "--benchmark", benchmark];
        [&args[..], more].concat()
    };
    let records =
        |more: &[&'static str]| -> Vec<Value> { serde_json::from_str(&good(at, &eval("hierarcaps", more))).unwrap() };
    let with = records(&["--candidates", "more.jsonl", "--out", "results.jsonl"]);
    assert!(with.iter().all(|it| it["protocol"].as_str().unwrap().ends_with(", more candidates: 2")), "{with:?}");
    let line: Value =
        serde_json::from_str(fs::read_to_string(at.join("results.jsonl")).unwrap().lines().next().unwrap()).unwrap();
    assert_eq!(line["produced_by"]["candidates"], "more.jsonl");
    assert!(line["produced_by"]["candidates_sha256"].is_string(), "{line}");
    // The data set itself adds no candidate.
    assert_eq!(records(&["--candidates", "t.jsonl"]), records(&[]));

    let unread = eval("pep", &["--candidates", "more.jsonl"]);
    refused(at, &unread, &["--candidates is more.jsonl", "expected --benchmark hierarcaps"]);
    refused(at, &eval("hierarcaps", &["--candidates", "absent.xyz"]), &["--candidates absent.xyz", "KIND:PATH"]);
    fs::write(at.join("bare.jsonl"), json!({ "captions": ["a thing"] }).to_string()).unwrap();
    let bare = eval("hierarcaps", &["--candidates", "bare.jsonl"]);
    refused(at, &bare, &["every caption chain of the candidates", "1 samples"]);
}
