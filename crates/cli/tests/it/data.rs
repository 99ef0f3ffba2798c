//! Untrusted and unusual data sets.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::{conifer, good, refused, root};

/// Creates photos in `photos`, and a private file beside that folder.
fn photos(at: &Path) {
    good(at, &["data", "toy", "--out", "toy", "--size", "8", "--resolution", "32"]);
    fs::create_dir(at.join("photos")).unwrap();
    let scenes = fs::read_to_string(at.join("toy/scenes.jsonl")).unwrap();
    for (number, line) in scenes.lines().take(3).enumerate() {
        let scene: Value = serde_json::from_str(line).unwrap();
        let photo = at.join("toy").join(scene["image"].as_str().unwrap());
        fs::copy(photo, at.join(format!("photos/{number}.png"))).unwrap();
    }
    fs::write(at.join("private.txt"), "the secret of the house").unwrap();
}

fn stderr(at: &Path, args: &[&str]) -> String {
    String::from_utf8(conifer(at, args).stderr).unwrap()
}

/// The content of all files below a folder.
fn all_contents(folder: &Path) -> String {
    let mut text = String::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => text += &all_contents(&path),
            false => text += &String::from_utf8_lossy(&fs::read(path).unwrap()),
        }
    }
    text
}

#[test]
fn records_cannot_copy_files_outside_the_roots() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    photos(at);
    let private = at.join("private.txt");
    fs::create_dir(at.join("data")).unwrap();
    let lines = [
        format!(r#"{{"id": "whole path", "image": "{}", "captions": ["x"]}}"#, private.display()),
        r#"{"id": "way out", "image": "../private.txt", "captions": ["x"]}"#.to_owned(),
        r#"{"id": "photo", "image": "../photos/0.png", "captions": ["x"]}"#.to_owned(),
        r#"{"id": "no photo", "image": "inside.jpg", "captions": ["x"]}"#.to_owned(),
    ];
    fs::write(at.join("data/d.jsonl"), lines.join("\n")).unwrap();
    fs::write(at.join("data/inside.jpg"), "the secret of the data").unwrap();
    fs::write(at.join("data/d.csv"), format!("image,caption\n{},x\n../photos/0.png,y\n", private.display())).unwrap();
    for data in ["data/d.jsonl", "data/d.csv"] {
        // No sample can be written, so no file is created.
        let words = ["outside_roots", "lies outside the allowed folders", "data`); expected", "--root photos"];
        let words = if data.ends_with("csv") { &words[..3] } else { &words[..2] };
        refused(at, &["data", "export", "--data", data, "--to", "pairs", "--out", "shards"], words);
        refused(at, &["data", "check", "--data", data], &["lies outside the allowed folders"]);
        // --root allows photos in that folder, but not the files beside it.
        let export =
            ["--json", "data", "export", "--data", data, "--root", "photos", "--to", "pairs", "--out", "shards"];
        let report: Value = serde_json::from_str(&good(at, &export)).unwrap();
        assert_eq!(report["written"], 1, "{report}");
        assert!(!all_contents(&at.join("shards")).contains("the secret"));
        fs::remove_dir_all(at.join("shards")).unwrap();
    }
    let message = stderr(at, &["data", "check", "--data", "data/d.jsonl"]);
    let expected = "photo `data/../photos/0.png` lies outside the allowed folders";
    assert!(
        message.contains(expected) && message.contains("add `--root photos` (in a config: `data.roots`)"),
        "{message}"
    );
    refused(at, &["data", "check", "--data", "data/d.jsonl", "--root", "nowhere"], &["nowhere", "not a folder"]);
}

/// An importer writes photo paths that the reader accepts without --root.
#[test]
fn imported_photos_need_no_root_option() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    photos(at);
    let image = |id: usize, name: &str| format!(r#"{{"id": {id}, "file_name": "{name}", "width": 32, "height": 32}}"#);
    let images = [image(0, "0.png"), image(1, "1.png"), image(7, "../private.txt")].join(", ");
    let caption = |id: usize| format!(r#"{{"id": {id}, "image_id": {id}, "caption": "a thing"}}"#);
    let captions = [caption(0), caption(1), caption(7)].join(", ");
    fs::create_dir(at.join("notes")).unwrap();
    let json = format!(r#"{{"images": [{images}], "annotations": [{captions}]}}"#);
    fs::write(at.join("notes/captions.json"), json).unwrap();
    let import = |to: &str, out: &str| {
        let inputs = ["--input", "images=photos", "--input", "captions=notes/captions.json"];
        good(at, &[&["data", "import", "coco", "--to", to, "--out", out], &inputs[..]].concat())
    };
    // Two photos have annotations and the third has none. The private file is outside the photo folder.
    let message = import("grounded", "out/c.jsonl");
    assert!(message.starts_with("2 of 3 photos written: 1 have no annotations, 1 x outside_roots\n"), "{message}");
    import("pairs", "shards");
    assert!(!all_contents(&at.join("shards")).contains("the secret"));
    let checked = good(at, &["data", "check", "--data", "out/c.jsonl", "--pixels"]);
    assert!(
        checked.contains("photos                       2\n") && checked.ends_with("broken                       0\n"),
        "{checked}"
    );
}

#[test]
fn control_characters_of_records_are_escaped() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let evil = r#"{"id": "a\u001b]0;owned\u0007\nerror: all is well\u009b2J", "image": "absent\u001b[31m.jpg", "captions": ["x"]}"#;
    fs::write(at.join("d.jsonl"), evil).unwrap();
    fs::write(at.join("e.jsonl"), r#"{"id": "a", "captions": [""], "label": "\u001b[2J"}"#).unwrap();
    for args in [
        &["data", "check", "--data", "d.jsonl", "--pixels"][..],
        &["data", "export", "--data", "d.jsonl", "--to", "pairs", "--out", "s"],
        &["data", "export", "--data", "e.jsonl", "--to", "pairs", "--out", "s"],
        &["data", "check", "--data", "\u{1b}[31mabsent.jsonl"],
        &["data", "check", "--data", "d.jsonl", "--data-option", "\u{1b}[31m=1"],
    ] {
        let message = stderr(at, args);
        assert!(!message.is_empty() && message.chars().all(|c| c == '\n' || !c.is_control()), "{message:?}");
        assert!(!message.lines().any(|line| line.starts_with("error: all is well")), "{message}");
    }
    assert!(stderr(at, &["data", "check", "--data", "d.jsonl", "--pixels"]).contains("a\\u{1b}]0;owned\\u{7}\\nerror"));
}

#[test]
fn pipe_as_data_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    assert!(std::process::Command::new("mkfifo").arg(at.join("p.jsonl")).status().unwrap().success());
    refused(at, &["data", "check", "--data", "p.jsonl"], &["p.jsonl`: a named pipe; expected a regular file"]);
}

/// Two birds share an epithet. Tests the texts of the ranks, and the class tree of the ranks.
#[test]
fn taxa_with_a_shared_epithet_stay_distinct() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    photos(at);
    let rows = "image,order,genus,species,common\n0.png,Passeriformes,Malacocincla,abbotti,Babbler\n1.png,Suliformes,Papasula,abbotti,Booby\n2.png,Suliformes,Papasula,abbotti,Booby\n";
    fs::write(at.join("photos/birds.csv"), rows).unwrap();
    let data = ["--data", "taxon_table:photos/birds.csv", "--data-option", "ranks=order,genus,species"];
    let checked = good(at, &[&["data", "check"], &data[..]].concat());
    assert!(
        checked.contains("different labels             2\n") && checked.contains("different taxa               2\n"),
        "{checked}"
    );
    let config = root().join("configs/toy_hycoclip.toml");
    good(at, &["train", config.to_str().unwrap(), "--smoke", "--out", "run"]);
    let views = ["--views", "image,taxa", "--out"];
    good(at, &[&["embed", "run"], &data[..], &views, &["set"]].concat());
    let set = conifer_embeddings::EmbeddingSet::load(&at.join("set")).unwrap();
    let texts = &set.columns["text"];
    assert_eq!(texts[..3], ["Malacocincla abbotti", "Papasula abbotti", "Papasula abbotti"]);
    assert_eq!(
        set.ids[3..],
        [
            "taxon:Passeriformes",
            "taxon:Passeriformes Malacocincla",
            "taxon:Passeriformes Malacocincla abbotti",
            "taxon:Suliformes",
            "taxon:Suliformes Papasula",
            "taxon:Suliformes Papasula abbotti",
        ]
    );
    assert_eq!(set.columns["label"][3..6], ["Passeriformes", "Malacocincla", "Malacocincla abbotti"]);
    // The common name is appended to the scientific name. No row contains a local path.
    good(at, &[&["embed", "run"], &data[..], &["--data-option", "label=common"], &views, &["named"]].concat());
    let set = conifer_embeddings::EmbeddingSet::load(&at.join("named")).unwrap();
    assert_eq!(set.columns["text"][0], "Malacocincla abbotti (Babbler)");
    let rows = fs::read_to_string(at.join("named/rows.jsonl")).unwrap();
    assert!(!rows.contains(at.to_str().unwrap()) && !rows.contains("photos/"), "{rows}");
    // The benchmark uses the tree of the ranks.
    let eval = ["eval", "run", "run", "--no-cache", "--benchmark", "hierarchical_classification"];
    let output = conifer(at, &[&eval[..], &data].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn tiers_are_separate_rows() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let line = |last: &str| format!(r#"{{"tiers": {{"positive": ["an animal", "a dog", "{last}"]}}}}"#);
    fs::write(at.join("t.jsonl"), [line("a black dog"), line("a white dog")].join("\n")).unwrap();
    let config = root().join("configs/toy_hycoclip.toml");
    good(at, &["train", config.to_str().unwrap(), "--smoke", "--out", "run"]);
    good(at, &["embed", "run", "--data", "t.jsonl", "--views", "tiers", "--out", "set"]);
    let set = conifer_embeddings::EmbeddingSet::load(&at.join("set")).unwrap();
    assert_eq!(set.columns["text"], ["an animal", "a dog", "a black dog", "a white dog"]);
}

/// A config infers the kind from `data.path`, as `--data` does.
#[test]
fn config_infers_the_kind_from_the_path() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    photos(at);
    fs::write(at.join("photos/captions.csv"), "image,caption\n0.png,a thing\n1.png,a thing\n2.png,a thing\n").unwrap();
    fs::write(
        at.join("own.toml"),
        "[data]\nkind = \"jsonl\"\npath = \"x.jsonl\"\nsplit = \"train\"\n[train]\nsteps = 20\n",
    )
    .unwrap();
    let printed = |set: &str| -> toml::Table {
        toml::from_str(&good(at, &["config", "print", "own.toml", "--set", set])).unwrap()
    };
    let data = |set: &str| {
        let data = printed(set)["data"].as_table().unwrap().clone();
        let text = |key: &str| data.get(key).map_or("none", |it| it.as_str().unwrap()).to_owned();
        [text("kind"), text("path"), text("split")]
    };
    assert_eq!(data("data.path=captions.csv"), ["csv_pairs", "captions.csv", "none"]);
    assert_eq!(data("data.path=y.jsonl"), ["jsonl", "y.jsonl", "train"]);
    assert_eq!(data("data.path=photos"), ["image_folder", "photos", "none"]);
    assert_eq!(data("data.path=taxon_table:b.csv"), ["taxon_table", "b.csv", "none"]);
    // The default warm-up is shortened for a short run.
    assert_eq!(printed("seed=1")["optim"]["warmup_steps"].as_integer(), Some(2));
    let toy = |set: &[&str]| {
        let config = root().join("configs/toy_clip.toml");
        let sets = set.iter().flat_map(|set| ["--set", set]).collect::<Vec<_>>();
        stderr(at, &[&["train", config.to_str().unwrap(), "--out", "run"], &sets[..]].concat())
    };
    let message = toy(&["data.path=photos/captions.csv", "train.batch_size=64"]);
    assert!(
        message.contains(
            "train.batch_size` is 64; expected at most 3, the number of samples, such as --set train.batch_size=2"
        ),
        "{message}"
    );
    // Class folders provide labels, but no captions.
    let message = toy(&["data.path=toy/classes", "train.batch_size=8"]);
    assert!(
        message.contains("one of the views of source image_folder")
            && message.contains("caption=\"a photo of a {label}\""),
        "{message}"
    );
}
