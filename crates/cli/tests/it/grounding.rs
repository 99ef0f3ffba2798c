//! `conifer build grounding`: over dense windows, over proposals of a detector, with a detector in an ONNX file, with bad
//! input, and killed on the way.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use conifer_data::{Picture, encode_png};
use serde_json::{Value, json};

use crate::onnx::skipped;
use crate::{command, good, refused, root};

/// A small model and `scenes` toy scenes.
fn prepare(at: &Path, scenes: &str) {
    let config = root().join("configs/toy_hycoclip.toml");
    good(at, &["train", config.to_str().unwrap(), "--smoke", "--out", "run"]);
    good(at, &["data", "toy", "--out", "toy", "--size", scenes, "--resolution", "96"]);
}

fn lines(path: &Path) -> Vec<Value> {
    fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn write_lines(path: &Path, lines: &[Value]) {
    fs::write(path, lines.iter().map(|line| format!("{line}\n")).collect::<String>()).unwrap();
}

#[test]
fn windows_ground_phrases_that_training_reads() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    prepare(at, "60");
    let build = ["build", "grounding", "--data", "toy/scenes.jsonl", "--checkpoint", "run", "--out", "g.jsonl"];
    let printed = good(at, &[&build[..], &["--min-probability", "0"]].concat());
    assert!(printed.contains("dense windows") && printed.contains("calibration error"), "{printed}");
    let (rows, scored) = (lines(&at.join("g.jsonl")), lines(&at.join("g.jsonl.work/rescore.jsonl")));
    assert_eq!(rows.len(), lines(&at.join("toy/scenes.jsonl")).len());
    assert!(at.join(rows[0]["image"].as_str().unwrap()).is_file());
    // The box of a noun chunk in the result has the largest similarity of all its boxes. An expression begins with its
    // chunk and has the chunk's box.
    let mut kinds = [0, 0];
    for (row, scored) in rows.iter().zip(&scored) {
        for (number, phrase) in row["phrases"].as_array().unwrap().iter().enumerate() {
            let similarities = scored["similarities"][number].as_array().unwrap();
            assert_eq!(similarities.len(), scored["boxes"].as_array().unwrap().len());
            let is_expression = row["meta"]["kinds"][number] == "expression";
            kinds[usize::from(is_expression)] += 1;
            if is_expression {
                let chunk = scored["phrases"][number]["chunk"].as_u64().unwrap() as usize;
                let text = |phrase: &Value| phrase["text"].as_str().unwrap().to_lowercase();
                assert!(text(phrase).starts_with(&text(&row["phrases"][chunk])), "{}", row["phrases"]);
                assert_eq!(phrase["boxes"], row["phrases"][chunk]["boxes"]);
                assert_eq!(phrase["score"], row["phrases"][chunk]["score"]);
            } else {
                let largest = similarities.iter().map(|it| it.as_f64().unwrap()).fold(f64::MIN, f64::max);
                assert_eq!(row["meta"]["similarities"][number].as_f64(), Some(largest));
                let first = similarities.iter().position(|it| it.as_f64() == Some(largest)).unwrap();
                assert_eq!(phrase["boxes"][0], scored["boxes"][first]);
            }
            let [caption, start, end] = [0, 1, 2].map(|it| phrase["spans"][0][it].as_u64().unwrap() as usize);
            let text = row["captions"][caption].as_str().unwrap();
            assert_eq!(&text[start..end], phrase["text"].as_str().unwrap());
        }
    }
    assert!(kinds[0] > kinds[1] && kinds[1] > 0, "chunks and expressions: {kinds:?}");
    assert!(printed.contains(&format!("({} chunks, {} expressions)", kinds[0], kinds[1])), "{kinds:?}: {printed}");
    assert_eq!(rows[0]["meta"]["provenance"][1], json!({"stage": "boxes", "by": "dense windows"}));
    good(at, &["data", "check", "--data", "g.jsonl"]);
    // A higher threshold repeats only the last stage and keeps fewer phrases.
    refused(at, &build, &["g.jsonl exists", "--overwrite"]);
    let kept = |rows: &[Value]| rows.iter().map(|row| row["phrases"].as_array().unwrap().len()).sum::<usize>();
    let report = good(at, &[&["--json"], &build[..], &["--overwrite", "--min-probability", "0.55"]].concat());
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["stages"].as_array().unwrap().iter().filter(|it| it["reused"] == true).count(), 3);
    let kinds = &report["stages"][0]["kinds"];
    let count = |kind: &str| kinds[kind]["left"].as_u64().unwrap();
    assert_eq!(report["stages"][0]["left"], count("chunk") + count("expression"));
    let again = lines(&at.join("g.jsonl"));
    assert!(kept(&again) < kept(&rows), "{} of {}", kept(&again), kept(&rows));
    let least = again.iter().flat_map(|it| it["phrases"].as_array().unwrap()).map(|it| it["score"].as_f64().unwrap());
    assert!(least.fold(1.0, f64::min) >= 0.55);
    // Chunks only.
    let chunks_only = ["--stage", "phrases", "--no-expressions", "--work", "w"];
    let report =
        good(at, &[&["--json", "build", "grounding", "--data", "toy/scenes.jsonl"], &chunks_only[..]].concat());
    let report: Value = serde_json::from_str(&report).unwrap();
    assert!(report["stages"][0]["kinds"]["chunk"]["left"].as_u64().unwrap() > 0, "{report:#}");
    assert_eq!(report["stages"][0]["kinds"].get("expression"), None);
    let page = fs::read_to_string(at.join("g.jsonl.work/report.html")).unwrap();
    assert!(page.contains("Calibration") && page.contains("below_threshold"), "the page has all sections");
}

#[test]
fn bad_input_is_counted_by_cause() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    prepare(at, "6");
    let mut scenes = lines(&at.join("toy/scenes.jsonl"));
    scenes.truncate(6);
    for scene in &mut scenes {
        scene["captions"] = json!(["a red ball"]);
        let fields = scene.as_object_mut().unwrap();
        fields.remove("phrases");
        fields.remove("tiers");
    }
    let image = |scene: &Value| scene["image"].as_str().unwrap().to_owned();
    let photos: Vec<String> = scenes.iter().map(image).collect();
    scenes[0]["image"] = "absent.png".into();
    scenes[1]["captions"] = json!([""]);
    scenes[2]["captions"] = json!(["the distance", "a red ball in the air"]);
    fs::write(at.join("toy/broken.png"), "no photo").unwrap();
    scenes[3]["image"] = "broken.png".into();
    scenes[4].as_object_mut().unwrap().remove("image");
    write_lines(&at.join("toy/data.jsonl"), &scenes);
    let proposals = format!(
        "{}\n{}\n{}\n{}\nno JSON\n",
        json!({"image": photos[2], "width": 96, "height": 96, "boxes": [[0, 0, 60, 60], [0, 0, 20, 60], [40, 0, 140, 60]]}),
        json!({"image": "other.png", "boxes": [[0, 0, 1, 1]]}),
        json!({"image": photos[0], "boxes": [[0, 0, 1, 1]]}),
        json!({"image": photos[5], "boxes": [[0, 0, 0.2, 0.2]]}),
    );
    fs::write(at.join("p.jsonl"), proposals).unwrap();
    let build = [
        "--json",
        "build",
        "grounding",
        "--data",
        "toy/data.jsonl",
        "--checkpoint",
        "run",
        "--out",
        "g.jsonl",
        "--proposals",
        "p.jsonl",
        "--min-similarity",
        "-1000",
    ];
    let report: Value = serde_json::from_str(&good(at, &build)).unwrap();
    let count = |stage: usize, kind: &str, cause: &str| report["stages"][stage][kind][cause]["count"].as_u64();
    for (cause, expected) in [("empty_caption", 1), ("no_photo", 1)] {
        assert_eq!(count(0, "left_out", cause), Some(expected), "{cause}: {report:#}");
    }
    // The abstract nouns are "the distance" and "the air".
    assert_eq!(count(0, "dropped", "abstract_noun"), Some(2));
    let causes = ["photo_gone", "photo_unreadable", "malformed_proposal", "box_outside"];
    for cause in causes {
        assert_eq!(count(1, "left_out", cause), Some(1), "{cause}: {report:#}");
    }
    assert_eq!(count(1, "left_out", "small_box"), Some(2));
    // The unknown photos are other.png and the photo that `absent.png` replaces in the data.
    assert_eq!(count(1, "left_out", "unknown_photo"), Some(2));
    for cause in ["no_box", "photo_gone", "photo_unreadable"] {
        assert_eq!(count(1, "dropped", cause), Some(1), "{cause}: {report:#}");
    }
    for stage in report["stages"].as_array().unwrap() {
        let dropped = stage["dropped"].as_object().unwrap().values().map(|it| it["count"].as_u64().unwrap());
        assert_eq!(
            stage["entered"].as_u64(),
            Some(stage["left"].as_u64().unwrap() + dropped.sum::<u64>()),
            "{stage:#}"
        );
    }
    let rows = lines(&at.join("g.jsonl"));
    assert_eq!((rows.len(), rows[0]["phrases"][0]["text"].as_str()), (1, Some("a red ball")));
    assert_eq!(rows[0]["phrases"][0]["boxes"], json!([[0.0, 0.0, 0.625, 0.625]]));

    let build = |more: &[&'static str]| [&["build", "grounding", "--data", "toy/data.jsonl"], more].concat();
    refused(at, &build(&["--out", "h.jsonl"]), &["expected --checkpoint MODEL"]);
    refused(at, &build(&["--checkpoint", "run", "--work", "w"]), &["expected --out FILE.jsonl"]);
    refused(at, &build(&["--checkpoint", "run", "--out", "h.csv"]), &["h.csv: unknown format"]);
    refused(at, &build(&["--work", "w", "--stage", "keep"]), &["stage rescore has not run", "`--stage rescore` first"]);
    refused(
        at,
        &build(&["--checkpoint", "run", "--out", "h.jsonl"]),
        &["--min-probability: too few phrases for a calibration", "--min-similarity"],
    );
    fs::write(at.join("chunks.jsonl"), "{}\n").unwrap();
    refused(
        at,
        &build(&["--work", "w", "--stage", "phrases", "--chunks", "chunks.jsonl"]),
        &["line 1 of `chunks.jsonl`"],
    );
}

#[test]
fn a_detector_in_an_onnx_file_proposes_boxes() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    // 200 x 100 pixels with a red rectangle from (40, 20) to (120, 80).
    let is_red = |x: usize, y: usize| (40..120).contains(&x) && (20..80).contains(&y);
    let rgb = (0..20_000).flat_map(|place| if is_red(place % 200, place / 200) { [255, 0, 0] } else { [50; 3] });
    let png = encode_png(&Picture { width: 200, height: 100, rgb: rgb.collect() }).unwrap();
    fs::write(at.join("red.png"), &png).unwrap();
    fs::write(at.join("half.png"), &png[..png.len() / 2]).unwrap();
    let photo = |name: &str| json!({"id": name, "image": name, "captions": ["a red ball"]});
    write_lines(&at.join("data.jsonl"), &[photo("red.png"), photo("half.png"), photo("absent.png")]);
    let fixture = |name: &str| root().join("fixtures/onnx").join(name).to_str().unwrap().to_owned();
    let (corners, conv) = (fixture("detector_corners.onnx"), fixture("conv.onnx"));
    let build = ["build", "grounding", "--data", "data.jsonl", "--work", "w"];
    good(at, &[&build[..], &["--stage", "phrases"]].concat());
    let boxes = |file, more: &[&'static str]| [&build[..], &["--stage", "boxes", "--detector", file], more].concat();

    let run = command(at, &boxes(&corners, &["--detector-size", "64"])).env("ORT_DYLIB_PATH", "absent.so").output();
    let run = run.unwrap();
    let stderr = String::from_utf8_lossy(&run.stderr);
    for said in ["--detector", "ORT_DYLIB_PATH", "Install ONNX Runtime"] {
        assert!(!run.status.success() && stderr.contains(said) && !stderr.contains("panicked"), "{stderr}");
    }
    for misused in [
        [&build[..], &["--detector-size", "64"]].concat(),
        boxes(&corners, &["--proposals", "p.jsonl"]),
        boxes(&corners, &["--detector-min-score", "1.5"]),
    ] {
        let run = command(at, &misused).output().unwrap();
        let stderr = String::from_utf8_lossy(&run.stderr);
        assert!(run.status.code() == Some(2) && stderr.contains("--detector"), "{misused:?}: {stderr}");
    }
    if skipped() {
        return;
    }
    refused(at, &boxes(&conv, &[]), &["`features` float32 [-1, 5]", "expected float32 outputs `boxes` [N, 4]"]);
    refused(at, &boxes(&corners, &[]), &["`--detector-size` is absent"]);
    let report = good(at, &[&["--json"], &boxes(&corners, &["--detector-size", "64"])[..]].concat());
    let report: Value = serde_json::from_str(&report).unwrap();
    let stage = &report["stages"][0];
    assert_eq!((stage["by"].as_str(), stage["left"].as_u64()), (Some("detector detector_corners.onnx"), Some(1)));
    // The other two boxes of the file are in the padding and not a number.
    assert_eq!(stage["left_out"]["box_outside"]["count"], 2, "{stage:#}");
    for cause in ["photo_gone", "photo_unreadable"] {
        let count = |kind: &str| stage[kind][cause]["count"].as_u64();
        assert_eq!((count("left_out"), count("dropped")), (Some(1), Some(1)), "{cause}: {stage:#}");
    }
    let rows = lines(&at.join("w/boxes.jsonl"));
    assert_eq!((rows.len(), rows[0]["boxes"].as_array().unwrap().len()), (1, 1));
    // The photo has 64 x 32 pixels of the input.
    for (border, (expected, side)) in [(0.2, 64.0), (0.2, 32.0), (0.6, 64.0), (0.8, 32.0)].into_iter().enumerate() {
        let found = rows[0]["boxes"][0][border].as_f64().unwrap();
        assert!((found - expected).abs() < 1.001 / side, "{}", rows[0]);
    }
    // The rectangle has 80 x 60 pixels.
    let report = good(at, &[&["--json"], &boxes(&corners, &["--detector-size", "64", "--min-box", "70"])[..]].concat());
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["stages"][0]["left_out"]["small_box"]["count"], 1, "{report:#}");
    // Other stages need no ONNX Runtime.
    let phrases = [&build[..], &["--stage", "phrases", "--detector", &corners]].concat();
    let run = command(at, &phrases).env("ORT_DYLIB_PATH", "absent.so").output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
}

#[test]
fn a_killed_run_continues_to_the_same_file() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    prepare(at, "300");
    let build = |out: &'static str| {
        let data = ["build", "grounding", "--data", "toy/scenes.jsonl", "--checkpoint", "run"];
        [&data[..], &["--min-similarity", "-1000", "--out", out]].concat()
    };
    good(at, &build("whole.jsonl"));
    let part = at.join("killed.jsonl.work/rescore.unfinished.jsonl");
    let rows = || fs::read_to_string(&part).map_or(0, |text| text.lines().count());
    let mut child = command(at, &build("killed.jsonl")).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let started = Instant::now();
    while rows() < 9 {
        assert!(child.try_wait().unwrap().is_none(), "the program ended before it was killed");
        assert!(started.elapsed() < Duration::from_secs(300));
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let done = rows();
    assert!((9..300).contains(&done), "{done}");
    good(at, &build("killed.jsonl"));
    assert!(!part.exists());
    let read = |name: &str| fs::read(at.join(name)).unwrap();
    assert_eq!(read("killed.jsonl.work/rescore.jsonl"), read("whole.jsonl.work/rescore.jsonl"));
    assert_eq!(read("killed.jsonl"), read("whole.jsonl"));
}
