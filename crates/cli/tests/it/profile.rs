//! `conifer data profile`.

use std::fs;

use serde_json::{Value, json};

use crate::{good, refused, root};

/// Six photos: two pairs of equal photos, of which one pair is in two splits, a broken photo and one more; labels,
/// captions and a box.
#[test]
fn a_profile_counts_what_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    good(at, &["data", "toy", "--out", "toy", "--size", "8", "--resolution", "48"]);
    let scenes = fs::read_to_string(at.join("toy/scenes.jsonl")).unwrap();
    let photos: Vec<String> = scenes
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["image"].as_str().unwrap().to_owned())
        .collect();
    fs::create_dir(at.join("photos")).unwrap();
    for (number, photo) in [0, 1, 2, 0, 3, 2].into_iter().enumerate() {
        fs::copy(at.join("toy").join(&photos[photo]), at.join(format!("photos/{number}.png"))).unwrap();
    }
    fs::write(at.join("photos/1.png"), "no photo").unwrap();
    let sample = |number: usize| {
        json!({
            "id": number.to_string(), "image": format!("photos/{number}.png"), "captions": ["a b c", "a"],
            "label": if number == 4 { "rare" } else { "common" }, "split": if number == 5 { "test" } else { "train" },
        })
    };
    let mut lines: Vec<Value> = (0..6).map(sample).collect();
    lines[0]["phrases"] = json!([{ "text": "a dog", "boxes": [[0.0, 0.0, 0.5, 0.5]] }]);
    let text: String = lines.iter().map(|it| format!("{it}\n")).collect();
    fs::write(at.join("d.jsonl"), text).unwrap();

    let profile = |out: &str, more: &[&str]| -> Value {
        let args = [&["--json", "data", "profile", "--data", "d.jsonl", "--out", out], more].concat();
        serde_json::from_str(&good(at, &args)).unwrap()
    };
    let found = profile("profile", &[]);
    let counts = &found["counts"];
    assert_eq!((&counts["samples"], &counts["readable"], &counts["captions"]), (&json!(6), &json!(5), &json!(10)));
    assert_eq!(counts["broken"]["undecodable_image"]["count"], 1);
    assert_eq!(counts["caption_words"], json!([1.0, 1.0, 3.0, 3.0, 3.0]));
    assert_eq!(counts["widths"], json!([48.0, 48.0, 48.0, 48.0, 48.0]));
    assert_eq!(counts["labels"], json!([["common", 4], ["rare", 1]]));
    assert_eq!(counts["splits"], json!({ "test": 1, "train": 4 }));
    let repeated = &found["duplicates"];
    assert_eq!(repeated["exact"], json!({ "groups": 2, "photos": 4 }), "{repeated}");
    assert_eq!(repeated["across_splits"], json!({ "groups": 1, "photos": 2 }), "{repeated}");
    let page = fs::read_to_string(at.join("profile/profile.html")).unwrap();
    assert!(
        page.contains("Repeated photos") && page.contains("in several splits") && page.contains("undecodable_image")
    );
    assert!(page.matches("<img").count() >= 4 && !page.contains("NaN"));
    let stored: Value = serde_json::from_slice(&fs::read(at.join("profile/profile.json")).unwrap()).unwrap();
    assert_eq!(stored["counts"], found["counts"]);

    let quick = profile("quick", &["--no-photos"]);
    assert_eq!((&quick["counts"]["readable"], quick.get("duplicates")), (&json!(6), None));
    refused(at, &["data", "profile", "--data", "d.jsonl", "--out", "quick"], &["quick exists"]);
    refused(at, &["data", "profile", "--data", "d.jsonl", "--near", "99", "--out", "x"], &["--near is 99"]);
    refused(at, &["data", "profile", "--data", "d.jsonl", "--set", "absent", "--out", "x"], &["--set", "absent"]);
    refused(
        at,
        &["data", "profile", "--data", "d.jsonl", "--other-split", "test", "--out", "x"],
        &["expected --split"],
    );
}

/// The pairs that are nearest by embedding, over two splits of the toy world; and an empty data set.
#[test]
fn a_profile_compares_embeddings_and_splits() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let config = root().join("configs/toy_clip.toml");
    good(at, &["train", config.to_str().unwrap(), "--smoke", "--out", "run"]);
    let data = ["--data", "toy", "--split", "test", "--data-option", "size=12", "--data-option", "resolution=32"];
    good(at, &[&["embed", "run", "--views", "image", "--out", "set"], &data[..]].concat());
    let args =
        [&["--json", "data", "profile", "--other-split", "train", "--set", "set", "--out", "p"], &data[..]].concat();
    let found: Value = serde_json::from_str(&good(at, &args)).unwrap();
    assert_eq!(found["counts"]["splits"], json!({ "test": 12, "train": 12 }));
    assert_eq!(found["neighbours"]["nearest_distance"].as_array().unwrap().len(), 5);
    fs::write(at.join("none.jsonl"), "").unwrap();
    let output = crate::conifer(at, &["data", "profile", "--data", "none.jsonl", "--out", "none"]);
    assert!(!String::from_utf8_lossy(&output.stderr).contains("panicked"), "{output:?}");
}
