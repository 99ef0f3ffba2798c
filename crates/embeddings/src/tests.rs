#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use conifer_geometry::{ManifoldSpec, Root};

use crate::manifest::{MAX_LINE_BYTES, SetManifest, may_replace};
use crate::*;

/// Three rows on a hyperboloid, with a column that needs escaping.
pub(crate) fn sample() -> EmbeddingSet {
    let mut set = EmbeddingSet::new(
        ManifoldSpec::lorentz(2, 0.5),
        Root::Origin,
        ["a", "b", "a"].map(str::to_owned).into(),
        vec![Modality::Image, Modality::Text, Modality::BoxText],
        vec![0.1, -2.5, f32::MIN_POSITIVE, 1.1e9, 0.0, -0.0],
        Provenance {
            model: "m".into(),
            data: "d".into(),
            hash: sha256_hex(b"weights"),
            conifer: "0.1.0".into(),
            weights: sha256_hex(b"w"),
        },
    )
    .unwrap();
    let captions = ["a \"dog\"\n", "", "\u{e9}l\u{e8}ve \u{1f332}"].map(str::to_owned);
    set.columns.insert("caption".into(), captions.into());
    set
}

fn saved(dir: &Path) -> EmbeddingSet {
    let set = sample();
    set.save(dir).unwrap();
    set
}

fn load_error(dir: &Path) -> String {
    let text = EmbeddingSet::load(dir).unwrap_err().to_string();
    text.replace(dir.to_str().unwrap(), "SET")
}

/// Changes one file and removes the checksums from the manifest, as in a set of a writer that omits them.
fn tamper(dir: &Path, name: &str, change: impl FnOnce(Vec<u8>) -> Vec<u8>) {
    let path = dir.join(name);
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, change(bytes)).unwrap();
    let path = dir.join("manifest.json");
    let mut manifest: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    manifest.as_object_mut().unwrap().remove("files");
    fs::write(&path, manifest.to_string()).unwrap();
}

fn replace_text(from: &str, to: &str) -> impl FnOnce(Vec<u8>) -> Vec<u8> {
    let (from, to) = (from.to_owned(), to.to_owned());
    move |bytes| {
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.contains(&from), "{from} is not in {text}");
        text.replacen(&from, &to, 1).into_bytes()
    }
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn round_trip_is_exact() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("deep/er/set");
    let set = saved(&dir);
    let back = EmbeddingSet::load(&dir).unwrap();
    assert_eq!(back, set);
    let bits = |s: &EmbeddingSet| s.points.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&back), bits(&set), "-0 and the smallest normal number keep their bits");
    assert_eq!(names(&dir), ["manifest.json", "points.safetensors", "rows.jsonl"]);
    assert_eq!(names(dir.parent().unwrap()), ["set"], "no temporary file is left");
}

#[test]
fn round_trip_of_other_shapes() {
    let home = tempfile::tempdir().unwrap();
    let mut empty = sample().select(&[]).unwrap();
    empty.root = Root::Point(vec![0.25, -1.0]);
    let sphere = EmbeddingSet::new(
        ManifoldSpec::sphere(3),
        Root::Point(vec![0.0, 0.6, 0.8]),
        vec!["x".into()],
        vec![Modality::BoxImage],
        vec![0.0, 1.0, 0.0],
        Provenance::default(),
    )
    .unwrap();
    for set in [empty, sphere] {
        let dir = home.path().join("set");
        set.save(&dir).unwrap();
        assert_eq!(EmbeddingSet::load(&dir).unwrap(), set);
    }
}

/// Readers in other languages depend on this layout.
#[test]
fn files_follow_the_format() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("set");
    saved(&dir);
    let rows = fs::read_to_string(dir.join("rows.jsonl")).unwrap();
    let lines: Vec<_> = rows.lines().collect();
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[0], r#"{"id":"a","modality":"image","caption":"a \"dog\"\n"}"#);
    assert!(lines[2].contains(r#""modality":"box_text""#));
    let points = fs::read(dir.join("points.safetensors")).unwrap();
    let header = u64::from_le_bytes(points[..8].try_into().unwrap()) as usize;
    let json: serde_json::Value = serde_json::from_slice(&points[8..8 + header]).unwrap();
    assert_eq!(json["points"]["dtype"], "F32");
    assert_eq!(json["points"]["shape"], serde_json::json!([3, 2]));
    assert_eq!(points[8 + header..][..4], 0.1_f32.to_le_bytes());
    let manifest: serde_json::Value = serde_json::from_slice(&fs::read(dir.join("manifest.json")).unwrap()).unwrap();
    assert_eq!(manifest["version"], 1);
    assert_eq!(manifest["spec"], serde_json::json!({"kind": "lorentz", "dim": 2, "factors": 1, "curv": [0.5]}));
    assert_eq!(manifest["root"], "origin");
}

#[test]
fn damaged_files_say_what_is_wrong() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("set");

    saved(&dir);
    let points = dir.join("points.safetensors");
    let whole = fs::read(&points).unwrap();
    fs::write(&points, &whole[..whole.len() - 5]).unwrap();
    assert_eq!(
        load_error(&dir),
        format!(
            "embedding set: `SET/points.safetensors`: length is {} bytes; expected {} bytes, as in manifest.json",
            whole.len() - 5,
            whole.len()
        )
    );

    let mut flipped = whole.clone();
    *flipped.last_mut().unwrap() ^= 1;
    fs::write(&points, &flipped).unwrap();
    assert!(load_error(&dir).contains("SET/points.safetensors`: sha256 is "));

    saved(&dir);
    tamper(&dir, "points.safetensors", |mut b| {
        b.truncate(b.len() - 5);
        b
    });
    let message = load_error(&dir);
    assert!(message.contains("SET/points.safetensors`: the file is unreadable"), "{message}");

    saved(&dir);
    fs::remove_file(dir.join("rows.jsonl")).unwrap();
    assert!(load_error(&dir).starts_with("cannot read `SET/rows.jsonl`: No such file"));

    assert!(load_error(&home.path().join("nothing")).contains("SET/manifest.json"));
}

/// Sparse files can be longer than the memory and occupy almost no disk space.
#[test]
fn oversized_files_are_rejected() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("set");
    let stretch = |name: &str, bytes: u64| {
        fs::OpenOptions::new().write(true).open(dir.join(name)).unwrap().set_len(bytes).unwrap();
    };
    saved(&dir);
    tamper(&dir, "points.safetensors", |_| (150_000_000_u64).to_le_bytes().to_vec());
    stretch("points.safetensors", 200_000_000);
    let message = load_error(&dir);
    assert!(message.contains("its header has 150000000 bytes; the limit is 100000000"), "{message}");

    saved(&dir);
    tamper(&dir, "rows.jsonl", |_| Vec::new());
    stretch("rows.jsonl", 1 << 26);
    let message = load_error(&dir);
    assert!(message.contains("line 1 is longer than 16777216 bytes; expected a shorter line"), "{message}");

    saved(&dir);
    stretch("manifest.json", 200_000_000);
    let message = load_error(&dir);
    assert!(
        message.contains("manifest.json`: length is over the limit; expected at most 100000000 bytes"),
        "{message}"
    );

    // Writer and reader have the same limit: the longest allowed row is written and read, and a longer one is not
    // written.
    let mut set = saved(&dir);
    let row = "{\"caption\":\"\",\"id\":\"a\",\"modality\":\"image\"}\n".len();
    set.columns.get_mut("caption").unwrap()[0] = "x".repeat(MAX_LINE_BYTES - row);
    set.save(&dir).unwrap();
    assert!(EmbeddingSet::load(&dir).unwrap() == set);
    set.columns.get_mut("caption").unwrap()[0].push('x');
    let message = set.save(&dir).unwrap_err().to_string();
    assert!(message.contains("a row of 16777217 bytes; expected at most 16777216"), "{message}");
}

/// A pipe instead of a file is rejected without blocking.
#[cfg(unix)]
#[test]
fn pipes_are_rejected() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("set");
    for name in SetManifest::REQUIRED {
        saved(&dir);
        fs::remove_file(dir.join(name)).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(dir.join(name)).status().unwrap().success());
        let message = load_error(&dir);
        assert!(
            message.contains(&format!("SET/{name}`: the entry is not a regular file; expected a regular file")),
            "{message}"
        );
    }
}

#[test]
fn inconsistent_files_say_what_is_wrong() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("set");
    let manifest = "manifest.json";
    let rows = "rows.jsonl";
    let cases: [(&str, &str, &str, &str); 12] = [
        (manifest, r#""version": 1"#, r#""version": 7"#, "`version` is 7; expected 1 or 2, which this build reads"),
        (manifest, "conifer embedding set", "lettuce", r#"`format` is "lettuce"; expected "conifer embedding set""#),
        (
            manifest,
            r#""rows": 3"#,
            r#""rows": 4"#,
            "shape of `points` is [3, 2]; expected [4, 2], `rows` and `spec.dim` of manifest.json",
        ),
        (manifest, r#""dim": 2"#, r#""dim": 3"#, "shape of `points` is [3, 2]; expected [3, 3]"),
        (manifest, r#""kind": "lorentz""#, r#""kind": "sphare""#, "`kind` is `sphare`; expected one of sphere"),
        (manifest, r#""root": "origin""#, r#""root": {"point": [1.0]}"#, "root is a point of 1 numbers; expected 2"),
        (manifest, r#""source""#, r#""sauce""#, "unknown field `sauce`"),
        (rows, "\n", "", "number of lines is 2; expected 3, `rows` of manifest.json"),
        (
            rows,
            r#""modality":"text""#,
            r#""modality":"sound""#,
            "line 2: `modality` is \"sound\"; expected image, text, box_image or box_text",
        ),
        (rows, r#""caption":"""#, r#""caption":3"#, "line 2: `caption` is 3; expected a string"),
        (rows, r#","caption":"""#, "", "line 2: `caption` is missing; expected a string"),
        (
            rows,
            r#""caption":"""#,
            r#""caption":"","extra":"x""#,
            "line 2: a field is `extra`; expected one of `columns` in manifest.json",
        ),
    ];
    for (file, from, to, expected) in cases {
        saved(&dir);
        tamper(&dir, file, replace_text(from, to));
        let message = load_error(&dir);
        assert!(message.contains(expected), "{from} -> {to}: {message}");
    }
}

#[test]
fn invalid_sets_are_rejected() {
    let broken = |change: &dyn Fn(&mut EmbeddingSet)| {
        let mut set = sample();
        change(&mut set);
        set.check().unwrap_err().to_string()
    };
    assert_eq!(
        broken(&|s| s.points[3] = f32::NAN),
        "embedding set: row 1 (`b`), component 1, is NaN; expected a finite number"
    );
    assert_eq!(broken(&|s| s.ids.truncate(2)), "embedding set: `modality` is a list of 3; expected 2, one per id");
    assert_eq!(
        broken(&|s| s.points.truncate(5)),
        "embedding set: `points` is a list of 5 numbers; expected 3 rows of 2 = 6"
    );
    assert_eq!(
        broken(&|s| {
            s.columns.insert("label".into(), vec!["x".into()]);
        }),
        "embedding set: column `label` is a list of 1; expected 3, one per id"
    );
    assert!(
        broken(&|s| {
            s.columns.insert("id".into(), vec![String::new(); 3]);
        })
        .contains("a column is `id`")
    );
    assert!(broken(&|s| s.source.hash = "abc".into()).contains("64 hex digits"));
    let off = broken(&|s| {
        s.spec = ManifoldSpec::sphere(2);
        s.points = vec![1.0, 0.0, 0.0, 1.0, 3.0, 4.0];
    });
    assert!(off.starts_with("embedding set: row 2 (`a`) is 4 away from the sphere(dim 2)"), "{off}");
}

/// Simulates a full disk: saving fails after the first file is written.
#[test]
fn failed_save_keeps_the_old_set() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("set");
    let old = saved(&dir);
    let failure = conifer_files::replace_folder(&dir, may_replace, |fresh| {
        conifer_files::write_whole(&fresh.join("points.safetensors"), b"half")?;
        Err(Error::io("write", fresh)(std::io::Error::from(std::io::ErrorKind::StorageFull)))
    });
    assert!(failure.unwrap_err().to_string().contains("cannot write"));
    assert_eq!(EmbeddingSet::load(&dir).unwrap(), old);
    assert_eq!(names(home.path()), ["set"]);
}

/// Simulates a crash after the old folder was moved aside and before the new one was renamed into place.
#[test]
fn interrupted_save_keeps_the_old_set() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("set");
    let old = saved(&dir);
    fs::rename(&dir, home.path().join(".set.previous")).unwrap();
    assert_eq!(EmbeddingSet::load(&dir).unwrap(), old);
    let new = old.select(&[2]).unwrap();
    new.save(&dir).unwrap();
    assert_eq!(EmbeddingSet::load(&dir).unwrap(), new);
    assert_eq!(names(home.path()), ["set"]);
}

#[test]
fn foreign_files_are_never_replaced() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("photos");
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("cat.jpg"), b"cat").unwrap();
    let message = sample().save(&dir).unwrap_err().to_string();
    assert!(message.contains("an entry is `cat.jpg`; expected only points.safetensors, rows.jsonl"), "{message}");
    assert_eq!(names(home.path()), ["photos"]);
    assert_eq!(fs::read(dir.join("cat.jpg")).unwrap(), b"cat");
    assert!(sample().save(&dir.join("cat.jpg")).is_err(), "a file is not a folder");
}

#[test]
fn select_keeps_order_and_repeats() {
    let set = sample();
    let picked = set.select(&[2, 0, 2]).unwrap();
    assert_eq!(picked.ids, ["a", "a", "a"]);
    assert_eq!(picked.modality, [Modality::BoxText, Modality::Image, Modality::BoxText]);
    assert_eq!(picked.row(1), set.row(0));
    assert_eq!(picked.columns["caption"][0], set.columns["caption"][2]);
    picked.check().unwrap();
    let message = set.select(&[1, 3]).unwrap_err().to_string();
    assert_eq!(message, "embedding set: a selected row is 3; expected a row below 3");
}

#[test]
fn concat_joins_rows_columns_and_sources() {
    let first = sample();
    let mut second = sample().select(&[1]).unwrap();
    second.columns = BTreeMap::from([("level".to_owned(), vec!["2".to_owned()])]);
    second.source.model = "other".into();
    second.source.hash = sha256_hex(b"other");
    let joined = EmbeddingSet::concat(&[&first, &second]).unwrap();
    joined.check().unwrap();
    assert_eq!(joined.len(), 4);
    assert_eq!(joined.row(3), first.row(1));
    assert_eq!(joined.columns["level"], ["", "", "", "2"]);
    assert_eq!(joined.columns["caption"][3], "");
    assert_eq!((joined.source.model.as_str(), joined.source.data.as_str()), ("m + other", "d"));
    assert_ne!(joined.source.hash, first.source.hash);
    assert_eq!(EmbeddingSet::concat(&[&first]).unwrap(), first);

    second.spec.curv = vec![1.0];
    let message = EmbeddingSet::concat(&[&first, &second]).unwrap_err().to_string();
    assert_eq!(
        message,
        "space of a set to join is lorentz(dim 2, c 1); expected lorentz(dim 2, c 0.5), the space of the first"
    );
    assert!(EmbeddingSet::concat(&[]).is_err());
}

/// sha256 of "abc", FIPS 180-2 appendix B.1.
#[test]
fn sha256_is_sha256() {
    assert_eq!(sha256_hex(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}
