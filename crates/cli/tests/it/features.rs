//! `conifer features`: features of frozen encoders that are stored before a run.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::{command, conifer, good, refused, root};

/// A config with frozen miniatures of EfficientNet-Lite and BERT, on `scenes` scenes of the toy world.
fn config(at: &Path, scenes: usize) {
    let towers = root().join("fixtures/towers");
    good(at, &["data", "toy", "--out", "toy", "--size", &scenes.to_string(), "--resolution", "40"]);
    let text = format!(
        "seed = 3
         [data]
         kind = 'jsonl'
         path = 'toy/scenes.jsonl'
         split = 'train'
         min_box_pixels = 4
         max_broken_share = 0.5
         [model]
         embed_dim = 8
         [model.visual]
         init = '{}'
         [model.textual]
         init = '{}'
         [method]
         kind = 'hycoclip'
         [optim]
         warmup_steps = 1
         [train]
         freeze = ['visual', 'textual']
         steps = 3
         batch_size = 8
         checkpoint_every = 0",
        towers.join("efficientnet_lite/model.pth").display(),
        towers.join("sentence_mean").display(),
    );
    fs::write(at.join("frozen.toml"), text).unwrap();
}

fn features(at: &Path, more: &[&str]) -> Value {
    serde_json::from_str(&good(at, &[&["--json", "features", "frozen.toml"], more].concat())).unwrap()
}

fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    entries.map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())).collect()
}

/// The number of rows in the headers of the photo shards, see the documentation of the file format.
fn stored_photos(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let photos = paths.filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("image-")));
    let rows = photos.filter_map(|path| Some(u64::from_le_bytes(fs::read(path).ok()?.get(32..40)?.try_into().ok()?)));
    rows.sum()
}

#[test]
fn killed_run_continues_and_training_encodes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    config(at, 300);
    // A photo that cannot be decoded does not shift the batches of a later run.
    let scenes = fs::read_to_string(at.join("toy/scenes.jsonl")).unwrap();
    let scenes = scenes.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let scene = scenes.into_iter().find(|scene| scene["split"] == "train").unwrap();
    let photo = at.join("toy").join(scene["image"].as_str().unwrap());
    let cut = fs::read(&photo).unwrap();
    fs::write(&photo, &cut[..cut.len() / 2]).unwrap();

    let whole = features(at, &["--out", "whole", "--shard-rows", "64"]);
    let count = |value: &Value, kind: &str| value[kind]["images"].as_u64().unwrap();
    assert!(count(&whole, "encoded") > 300 && whole["reused"]["images"] == 0, "{whole}");
    assert_eq!((&whole["broken"], &whole["stopped"]), (&1.into(), &false.into()), "{whole}");
    let size: usize = files(&at.join("whole")).values().map(Vec::len).sum();
    assert_eq!(whole["bytes"], size);

    let args = ["--json", "features", "frozen.toml", "--out", "parts", "--shard-rows", "64"];
    let mut child = command(at, &args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let started = Instant::now();
    while stored_photos(&at.join("parts")) < 64 {
        assert!(child.try_wait().unwrap().is_none(), "the program ended before it was killed");
        assert!(started.elapsed() < Duration::from_secs(300));
        std::thread::sleep(Duration::from_millis(2));
    }
    // SIGKILL on Unix.
    child.kill().unwrap();
    child.wait().unwrap();
    let stored = stored_photos(&at.join("parts"));
    let rest = features(at, &args[3..]);
    assert!(stored >= 64 && stored < count(&whole, "encoded"), "{stored} of {whole}");
    assert_eq!((count(&rest, "reused"), count(&rest, "encoded")), (stored, count(&whole, "encoded") - stored));
    assert!(
        files(&at.join("parts")) == files(&at.join("whole")),
        "the bytes differ from those of a run without a stop"
    );
    let again = features(at, &args[3..]);
    assert_eq!((&again["encoded"]["images"], &again["encoded"]["texts"]), (&0.into(), &0.into()), "{again}");

    // A run reads the folder and leaves it as it is.
    let before = files(&at.join("parts"));
    let train = |store: &str, out: &str| {
        conifer(at, &["train", "frozen.toml", "--out", out, "--set", &format!("train.feature_store={store}")])
    };
    let run = train("parts", "run");
    let stderr = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{stderr}");
    // The run tries again to read the photo that cannot be decoded.
    assert!(stderr.contains("reading photos: ") && !stderr.contains("encoding texts"), "{stderr}");
    assert!(files(&at.join("parts")) == before);
    // The weights equal those of a run that encodes.
    assert!(train("fresh", "other").status.success());
    let weights = |run: &str| fs::read(at.join(run).join("checkpoints/step_00000003/weights.safetensors")).unwrap();
    assert!(weights("run") == weights("other"));

    // A truncated shard is completed.
    let shard = fs::read_dir(at.join("parts"))
        .unwrap()
        .map(|it| it.unwrap().path())
        .find(|path| path.to_string_lossy().contains("image-") && path.to_string_lossy().contains(".0000."));
    let shard = shard.unwrap();
    let bytes = fs::read(&shard).unwrap();
    fs::write(&shard, &bytes[..bytes.len() - 1]).unwrap();
    let output = conifer(at, &args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && stderr.contains("half-written file); they will be computed again"), "{stderr}");
    let mended: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&mended["encoded"]["images"], &mended["broken"]), (&1.into(), &1.into()), "{mended}");
}

#[test]
fn features_of_a_model_in_half_precision_and_refusals() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    config(at, 40);
    let exact = features(at, &["--out", "exact"]);
    let half = features(at, &["--out", "half", "--dtype", "f16"]);
    assert_eq!(half["encoded"], exact["encoded"]);
    assert!(half["bytes"].as_u64() < exact["bytes"].as_u64(), "{half} {exact}");
    good(at, &["train", "frozen.toml", "--out", "run", "--set", "train.feature_store=half"]);
    // New features get the number format of those in the folder; another format is rejected.
    assert_eq!(features(at, &["--out", "half"])["encoded"]["images"], 0);
    refused(
        at,
        &["features", "frozen.toml", "--out", "half", "--dtype", "f32"],
        &["vectors stored as F16; expected F32; remove the file, or use another folder"],
    );

    // The checkpoint has the encoders of the config, so the stored features are reused.
    let model: Value = serde_json::from_str(&good(
        at,
        &["--json", "features", "run", "--data", "toy/scenes.jsonl", "--split", "train", "--out", "exact"],
    ))
    .unwrap();
    assert!(model["reused"]["images"].as_u64() > Some(0) && model["reused"]["texts"].as_u64() > Some(0), "{model}");

    // A store with features of another text encoder is rejected.
    let init = format!("model.textual.init={}", root().join("fixtures/towers/sentence_cls_dense").display());
    let args = ["train", "frozen.toml", "--out", "other", "--set", "train.feature_store=exact", "--set", &init];
    let words = ["`train.feature_store` is `exact`, which holds features of another text encoder", "conifer features"];
    refused(at, &args, &words);

    // Captions without photos.
    fs::write(at.join("captions.jsonl"), "{\"captions\": [\"a red dog\", \"a cat\"]}\n{\"captions\": [\"a cat\"]}\n")
        .unwrap();
    let args = ["--json", "features", "run", "--data", "captions.jsonl", "--out", "captions"];
    let report: Value = serde_json::from_str(&good(at, &args)).unwrap();
    assert_eq!((&report["encoded"]["texts"], &report["encoded"]["images"]), (&2.into(), &0.into()), "{report}");
    refused(at, &["features", "run", "--out", "f"], &["--data is missing; a model needs a data set"]);
    refused(
        at,
        &["features", "run", "--data", "toy", "--set", "seed=1"],
        &["--set seed=1: a model has no config keys"],
    );
    refused(
        at,
        &["features", "frozen.toml", "--set", "train.freeze=[]", "--out", "f"],
        &["`train.freeze` is []; expected visual or textual, with an encoder"],
    );
    fs::write(at.join("file"), "x").unwrap();
    refused(at, &["features", "frozen.toml", "--out", "file"], &["file"]);
}
