#![allow(clippy::unwrap_used)]
use std::path::PathBuf;

use conifer_data::fixtures::{FixtureFolder, jpeg};
use conifer_data::{Cause, ImageRef, View};
use serde_json::json;

use super::*;

fn spec(kind: &str, path: impl Into<PathBuf>) -> SourceSpec {
    SourceSpec { kind: kind.to_owned(), path: Some(path.into()), ..SourceSpec::default() }
}

fn with(mut spec: SourceSpec, options: serde_json::Value) -> SourceSpec {
    spec.options = serde_json::from_value(options).unwrap();
    spec
}

fn message(spec: &SourceSpec) -> String {
    open(spec).err().unwrap().to_string()
}

fn texts(list: &[&str]) -> Vec<String> {
    list.iter().map(|&text| text.to_owned()).collect()
}

#[test]
fn kinds_are_unique_and_listed_if_unknown() {
    let mut names: Vec<_> = SOURCES.iter().map(|entry| entry.kind).collect();
    assert_eq!(
        message(&spec("tfds", "x")),
        format!("data: source kind `tfds` is unknown; expected one of: {}", names.join(", "))
    );
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), SOURCES.len());
}

#[test]
fn unknown_options_and_missing_paths_are_rejected() {
    for entry in SOURCES.iter().filter(|entry| entry.kind != "toy") {
        let unknown = with(spec(entry.kind, "nowhere"), json!({"colour": 1}));
        let text = message(&unknown);
        let head = format!(
            "data: `options of source {}` is {{\"colour\":1}}; expected valid options (unknown field",
            entry.kind
        );
        assert!(text.starts_with(&head), "{text}");

        let none = SourceSpec { kind: entry.kind.to_owned(), ..SourceSpec::default() };
        let expected = format!(
            "data: `path of source {}` is not given; expected a file, a folder or a pattern of shards",
            entry.kind
        );
        assert_eq!(message(&none), expected);

        let text = message(&spec(entry.kind, "no/such/place"));
        assert!(text.contains("no/such/place"), "{}: {text}", entry.kind);
    }
}

#[test]
fn karpathy() {
    let folder = FixtureFolder::new();
    let photo = |name: &str, split: &str| {
        let sentences = json!([{"raw": " a dog\n", "tokens": ["a", "dog"], "sentid": 7}, {"raw": "a cat"}]);
        json!({"filepath": "val2014", "filename": name, "imgid": 0, "split": split, "sentences": sentences})
    };
    let photos = [photo("a.jpg", "train"), photo("b.jpg", "restval"), photo("c.jpg", "test")];
    let path = folder.write("dataset_coco.json", json!({"images": photos, "dataset": "coco"}).to_string());
    let all = spec("karpathy", &path);
    let source = open(&all).unwrap();
    assert_eq!((source.name(), source.len(), source.views()), ("karpathy", 3, &[View::Pair][..]));
    let sample = source.get(0).unwrap();
    assert_eq!(sample.captions, texts(&["a dog", "a cat"]));
    assert_eq!((&*sample.id, sample.split.as_deref()), ("a.jpg", Some("train")));
    assert_eq!(sample.image, Some(ImageRef::File(folder.path().join("val2014/a.jpg"))));

    let one =
        with(SourceSpec { split: Some("test".into()), ..all.clone() }, json!({"captions": 1, "images": "photos"}));
    let source = open(&one).unwrap();
    let sample = source.get(0).unwrap();
    assert_eq!((source.len(), sample.captions), (1, texts(&["a dog"])));
    assert_eq!(sample.image, Some(ImageRef::File(folder.path().join("photos/val2014/c.jpg"))));

    let none = SourceSpec { split: Some("val".into()), ..all.clone() };
    assert!(message(&none).ends_with("expected split `val` (there are: restval, test, train)"), "{}", message(&none));
    assert!(message(&with(all.clone(), json!({"captions": 0}))).contains("`captions` is 0; expected at least 1"));
    folder.write("dataset_coco.json", json!({"images": [{"filename": "a.jpg"}]}).to_string());
    assert!(message(&all).contains("missing field `split`"), "{}", message(&all));
}

/// All sources whose records name files reject files outside of the allowed folders.
#[test]
fn records_may_only_name_files_in_their_folders() {
    let folder = FixtureFolder::new();
    folder.write("photos/1.jpg", jpeg(4, 4));
    let record = r#"{"image": "../photos/1.jpg", "captions": ["a"]}"#;
    let crop = r#"{"captions": ["a"], "phrases": [{"text": "b", "crop": "/etc/hostname"}]}"#;
    folder.write("data/j.jsonl", [record, crop].join("\n"));
    folder.write(
        "data/c.csv",
        "image,caption,genus,species\n../photos/1.jpg,a,Turdus,merula\n/etc/hostname,b,Turdus,merula\n",
    );
    let image = |name: &str| format!(r#"{{"filename": "{name}", "split": "test", "sentences": [{{"raw": "a"}}]}}"#);
    let images = [image("../photos/1.jpg"), image("/etc/hostname")].join(", ");
    folder.write("data/k.json", format!("{{\"images\": [{images}]}}"));
    for (kind, file) in [("jsonl", "j.jsonl"), ("csv_pairs", "c.csv"), ("taxon_table", "c.csv"), ("karpathy", "k.json")]
    {
        let mut spec = SourceSpec {
            kind: kind.to_owned(),
            path: Some(folder.path().join("data").join(file)),
            ..SourceSpec::default()
        };
        if kind == "taxon_table" {
            spec.options.insert("ranks".to_owned(), "genus,species".into());
        }
        let faults = |spec: &SourceSpec| -> Vec<Option<Cause>> {
            let source = open(spec).unwrap();
            (0..source.len()).map(|index| source.get(index).err().map(|broken| broken.cause)).collect()
        };
        assert_eq!(faults(&spec), [Some(Cause::OutsideRoots); 2], "{kind}");
        spec.roots = vec![folder.path().join("photos")];
        assert_eq!(faults(&spec), [None, Some(Cause::OutsideRoots)], "{kind}");
    }
    let roots = vec![folder.path().join("absent")];
    let spec = SourceSpec {
        kind: "jsonl".to_owned(),
        path: Some(folder.path().join("data/j.jsonl")),
        roots,
        ..SourceSpec::default()
    };
    assert!(open(&spec).err().unwrap().to_string().contains("absent`, which is not a folder"));
}

/// Opening a pipe without a writer would block forever.
#[cfg(unix)]
#[test]
fn pipes_are_not_data_files() {
    let folder = FixtureFolder::new();
    let pipe = folder.path().join("pipe.jsonl");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for entry in SOURCES.iter().filter(|entry| entry.kind != "toy") {
        let spec = SourceSpec { kind: entry.kind.to_owned(), path: Some(pipe.clone()), ..SourceSpec::default() };
        let message = open(&spec).err().unwrap().to_string();
        assert!(message.contains("pipe.jsonl`: a named pipe; expected a regular file"), "{}: {message}", entry.kind);
    }
}

#[test]
fn kinds_are_inferred_from_paths() {
    let named = |text: &str| spec_of_text(text).map(|it| (it.kind, it.path));
    let folder = FixtureFolder::new();
    let text = folder.path().to_str().unwrap();
    assert_eq!(named("a/b.tsv"), Some(("csv_pairs".to_owned(), Some("a/b.tsv".into()))));
    assert_eq!(named("a.tar"), Some(("image_text_shards".to_owned(), Some("a.tar".into()))));
    assert_eq!(named(text), Some(("image_folder".to_owned(), Some(text.into()))));
    assert_eq!(named("karpathy:a.json"), Some(("karpathy".to_owned(), Some("a.json".into()))));
    assert_eq!(named("unknown:a.json"), None);
}
