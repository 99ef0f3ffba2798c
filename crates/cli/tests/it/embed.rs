//! `conifer embed` over several runs of the program.

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::{command, good, refused, root};

const FILES: [&str; 3] = ["manifest.json", "points.safetensors", "rows.jsonl"];

fn model(at: &Path, out: &str, more: &[&str]) {
    let config = root().join("configs/toy_hycoclip.toml");
    good(at, &[&["train", config.to_str().unwrap(), "--smoke", "--out", out], more].concat());
}

fn files(at: &Path, set: &str) -> Vec<Vec<u8>> {
    FILES.iter().map(|name| fs::read(at.join(set).join(name)).unwrap()).collect()
}

/// The state of the last commit, or null.
fn committed_state(at: &Path, set: &str) -> Value {
    let state = fs::read(at.join(format!(".{set}.unfinished/state.json"))).unwrap_or_default();
    serde_json::from_slice::<Value>(&state).map_or(Value::Null, |it| it["state"].clone())
}

/// Starts `args`, and waits until `enough` accepts the committed state. Returns the running program and the state.
fn start_until(at: &Path, args: &[&str], set: &str, enough: impl Fn(&Value) -> bool) -> (Child, Value) {
    let mut child = command(at, args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let started = Instant::now();
    loop {
        let state = committed_state(at, set);
        if enough(&state) {
            return (child, state);
        }
        assert!(child.try_wait().unwrap().is_none(), "the program ended before it was stopped; it was at {state}");
        assert!(started.elapsed() < Duration::from_secs(300), "{state}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn killed_run_resumes_to_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    model(at, "run", &[]);
    // Photos are embedded first, then texts of various lengths. Every 50th photo is missing.
    good(at, &["data", "toy", "--out", "toy", "--size", "600", "--resolution", "48"]);
    let scenes = fs::read_to_string(at.join("toy/scenes.jsonl")).unwrap();
    let data: Vec<String> = scenes
        .lines()
        .enumerate()
        .map(|(i, line)| {
            let mut sample: Value = serde_json::from_str(line).unwrap();
            let caption = |n: usize| Value::from(format!("{} and {}", "a tall tree ".repeat(n % 7), i * 20 + n));
            sample["captions"].as_array_mut().unwrap().extend((0..20).map(caption));
            if i % 50 == 7 {
                sample["image"] = Value::from("absent.png");
            }
            sample.to_string()
        })
        .collect();
    fs::write(at.join("toy/data.jsonl"), data.join("\n")).unwrap();
    let args = |out: &'static str| {
        ["--json", "embed", "run", "--data", "toy/data.jsonl", "--views", "image,text,box-text,box-image", "--out", out]
    };

    let whole: Value = serde_json::from_str(&good(at, &args("whole"))).unwrap();
    assert!(whole["skipped"].as_u64().unwrap() >= 12 && whole["stopped"] == false, "{whole}");

    let (mut child, first) = start_until(at, &args("parts"), "parts", |it| it["photos"].as_u64() > Some(0));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!at.join("parts").exists());
    // Other settings are rejected with the name of the setting. The draft is kept.
    let other = |more: &[&str], words: &[&str]| refused(at, &[&args("parts")[1..], more].concat(), words);
    other(&["--crop", "squeeze"], &["`--crop` is `Center`; expected `Squeeze`", "--overwrite"]);
    other(&["--dtype", "bf16"], &["`--dtype` is `F32`; expected `BF16`"]);
    other(&["--split", "test"], &["--split", "test"]);
    other(&["--root-text", "life"], &["`--root-text` is ``; expected `life`"]);
    refused(
        at,
        &["search", "parts", "--id", "x"],
        &["`parts`, which is not finished", "run the command that started it again"],
    );
    model(at, "other", &["--set", "seed=1"]);
    let mut others = args("parts");
    others[2] = "other";
    refused(at, &others, &["`the model` is `run/", "expected `other/"]);
    assert_eq!(committed_state(at, "parts"), first);

    // Interrupt the run (SIGINT) while it embeds texts, then kill the next run there too.
    let (child, _) = start_until(at, &args("parts"), "parts", |it| it["window"]["batches"].as_u64() > Some(0));
    let signal = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(signal.success());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let stopped: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(stopped["stopped"], true, "{stopped}");
    // The summary counts only rows with a point. The draft already has all rows of the window of texts.
    assert!(stopped["rows"].as_u64() < whole["rows"].as_u64(), "{stopped}");
    let at_texts = committed_state(at, "parts")["window"]["batches"].as_u64().unwrap();
    let later = |it: &Value| it["window"]["batches"].as_u64() > Some(at_texts);
    let (mut child, _) = start_until(at, &args("parts"), "parts", later);
    child.kill().unwrap();
    child.wait().unwrap();

    let parts: Value = serde_json::from_str(&good(at, &args("parts"))).unwrap();
    assert_eq!((&parts["rows"], &parts["skipped"]), (&whole["rows"], &whole["skipped"]));
    assert!(files(at, "parts") == files(at, "whole"), "the bytes differ from those of an uninterrupted run");
    assert!(!at.join(".parts.unfinished").exists());
    let set = conifer_embeddings::EmbeddingSet::load(&at.join("parts")).unwrap();
    assert_eq!(set.len() as u64, whole["rows"].as_u64().unwrap());
}

#[test]
fn sets_of_other_commands_are_replaced_only_with_overwrite() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    model(at, "run", &[]);
    let args =
        ["embed", "run", "--data", "toy", "--data-option", "size=8", "--data-option", "resolution=32", "--out", "set"];
    let half = [&args[..], &["--dtype", "f16"]].concat();
    good(at, &args);
    let whole = conifer_embeddings::EmbeddingSet::load(&at.join("set")).unwrap();
    let written = files(at, "set");
    refused(at, &half, &["set holds a finished set", "`--dtype` is `F32`; expected `F16`", "--overwrite"]);
    // The same command has nothing to do.
    let again: Value = serde_json::from_str(&good(at, &[&["--json"], &args[..]].concat())).unwrap();
    assert_eq!((&again["rows"], &again["unchanged"]), (&whole.len().into(), &true.into()), "{again}");
    assert!(good(at, &args).contains("already complete, nothing to do"));
    assert!(files(at, "set") == written);
    good(at, &[&half[..], &["--overwrite"]].concat());
    let rounded = conifer_embeddings::EmbeddingSet::load(&at.join("set")).unwrap();
    assert_eq!(rounded.ids, whole.ids);
    for (rounded, exact) in rounded.points.iter().zip(&whole.points) {
        // Half a unit in the last place at 11 significant bits. Subnormal numbers have a step of 2^-24.
        assert!((rounded - exact).abs() <= (exact.abs() * 2.0_f32.powi(-11)).max(2.0_f32.powi(-25)));
    }
    assert!(rounded.points != whole.points);

    // A draft of another job.
    let plan = conifer_embeddings::DraftPlan {
        spec: whole.spec.clone(),
        root: whole.root.clone(),
        columns: Vec::new(),
        element: conifer_embeddings::Element::F32,
        identity: std::collections::BTreeMap::from([("--views".to_owned(), "image".to_owned())]),
    };
    let mut draft = conifer_embeddings::Draft::open(&at.join("set"), plan).unwrap();
    draft.commit(Value::Null).unwrap();
    drop(draft);
    refused(at, &args, &["was started with other settings", "(incomplete:", "--overwrite"]);
    good(at, &[&args[..], &["--overwrite"]].concat());
    assert_eq!(conifer_embeddings::EmbeddingSet::load(&at.join("set")).unwrap(), whole);
    // A set without recorded settings is not replaced either.
    whole.save(&at.join("foreign")).unwrap();
    let to_foreign = [&args[..args.len() - 1], &["foreign"]].concat();
    refused(at, &to_foreign, &["foreign holds a finished set", "it names model", "--overwrite"]);
    good(at, &[&to_foreign[..], &["--overwrite"]].concat());
    assert!(files(at, "foreign") == written);
    // After an interrupted replacement, the previous set is read from its temporary folder.
    fs::rename(at.join("foreign"), at.join(".foreign.previous")).unwrap();
    let id = whole.ids[0].as_str();
    let output = command(at, &["search", "foreign", "--id", id]).output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && message.contains("its replacement was interrupted"), "{message}");
}

#[test]
fn failed_start_is_not_reported_as_incomplete() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    model(at, "run", &[]);
    fs::write(at.join("data.jsonl"), "{\"image\": \"absent.png\", \"captions\": [\"a\"]}\n{\"captions\": [\"b\"]}\n")
        .unwrap();
    let embed = |views: &str, out: &str| {
        let args = ["embed", "run", "--data", "data.jsonl", "--views", views, "--out", out];
        let output = command(at, &args).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let message = embed("box-image", "set");
    assert!(message.contains("1 of 2 samples are broken, the others have none of the requested views"), "{message}");
    assert!(!message.contains("(incomplete:"), "{message}");
    let message = embed("text", "data.jsonl");
    assert!(message.contains("data.jsonl") && !message.contains("(incomplete:"), "{message}");
    assert_eq!(fs::read_dir(at).unwrap().count(), 2, "nothing is left behind");
}

/// MoCo-v2 without fine-tuning in visual hierarchies Tables 1 and 2: photos and boxes are embedded and evaluated by an
/// image encoder without a text encoder.
#[test]
fn an_image_encoder_alone_embeds_and_retrieves_parts() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let weights = root().join("fixtures/towers/timm_resnet_bottleneck/model.safetensors");
    let weights = weights.to_str().unwrap();
    let data = ["--data", "toy", "--data-option", "size=64"];
    let embed = [&["--json", "embed", weights, "--views", "image,box-image", "--out", "set"][..], &data].concat();
    let done: Value = serde_json::from_str(&good(at, &embed)).unwrap();
    assert!(done["rows"].as_u64().unwrap() > 64 && done["skipped"] == 0, "{done}");
    let eval = |benchmark: &'static str| {
        [&["--json", "eval", "run", weights, "--no-cache", "--benchmark", benchmark][..], &data].concat()
    };
    let records: Vec<Value> = serde_json::from_str(&good(at, &eval("part_retrieval"))).unwrap();
    let by_cosine = |it: &&Value| it["protocol"].as_str().unwrap().starts_with("cosine");
    assert!(records.iter().filter(by_cosine).count() > 0, "{records:?}");
    refused(at, &eval("cross_modal_retrieval"), &["has no text encoder"]);
    good(at, &["convert", weights, "checkpoint"]);
    let again =
        [&["--json", "embed", "checkpoint", "--views", "image,box-image", "--out", "again"][..], &data].concat();
    good(at, &again);
    let points = |set: &str| fs::read(at.join(set).join("points.safetensors")).unwrap();
    assert!(points("again") == points("set"));
}
