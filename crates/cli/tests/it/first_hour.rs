//! The first commands of a new user: defaults, hints and help texts.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::{command, conifer, good, refused, root};

/// Trains a few steps on the toy world in `folder/run`, and embeds some scenes.
fn tiny_run(folder: &Path) {
    let config = root().join("configs/toy_meru.toml");
    good(folder, &["train", config.to_str().unwrap(), "--smoke", "--out", "run"]);
    good(folder, &[&["embed", "run"], &SCENES[..], &["--views", "image,text", "--out", "run/embeddings"]].concat());
}

const SCENES: [&str; 8] =
    ["--data", "toy", "--split", "test", "--data-option", "size=12", "--data-option", "resolution=32"];

fn stderr(folder: &Path, args: &[&str]) -> String {
    String::from_utf8(conifer(folder, args).stderr).unwrap()
}

#[test]
fn search_uses_the_model_named_by_the_set() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    tiny_run(here);
    let rows =
        |args: &[&str]| -> Vec<Value> { serde_json::from_str(&good(here, &[&["--json"], args].concat())).unwrap() };
    let named = rows(&["search", "run/embeddings", "--checkpoint", "run", "--text", "a red car", "-k", "4"]);
    assert_eq!(rows(&["search", "run/embeddings", "--text", "a red car", "-k", "4"]), named);
    assert_eq!(rows(&["search", "run", "--text", "a red car", "-k", "4"]), named);
    assert!(!rows(&["traverse", "run", "--text", "a red car"]).is_empty());
    good(here, &["export", "run", "--to", "parquet", "--out", "exported"]);

    // The search also works from another working directory.
    fs::create_dir(here.join("elsewhere")).unwrap();
    let other = command(here, &["--json", "search", "../run", "--text", "a red car", "-k", "4"])
        .current_dir(here.join("elsewhere"))
        .output()
        .unwrap();
    let other: Vec<Value> = serde_json::from_slice(&other.stdout).unwrap();
    assert_eq!(other, named);

    // The model is missing, or its path holds a model with other weights.
    good(here, &[&["embed", "run"], &SCENES[..], &["--out", "set"]].concat());
    let config = root().join("configs/toy_meru.toml");
    let config = config.to_str().unwrap();
    good(here, &["train", config, "--smoke", "--out", "other", "--set", "seed=1"]);
    fs::rename(here.join("run"), here.join("away")).unwrap();
    refused(
        here,
        &["search", "set", "--text", "a red car"],
        &["set", "run/checkpoints/step_", "was not found", "--checkpoint MODEL", "sha256"],
    );
    fs::rename(here.join("other"), here.join("run")).unwrap();
    refused(here, &["search", "set", "--text", "a red car"], &["other weights", "--checkpoint MODEL"]);
    good(here, &["search", "set", "--text", "a red car", "--checkpoint", "away"]);
    refused(here, &["search", "run", "--text", "a red car"], &["run/embeddings", "conifer embed run --data DATA"]);
}

#[test]
fn smoke_does_not_touch_the_run_folder() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let text = fs::read_to_string(root().join("configs/toy_meru.toml")).unwrap();
    fs::write(here.join("mine.toml"), text.replace("runs/toy_meru", "runs/mine")).unwrap();
    for _ in 0..2 {
        assert!(good(here, &["train", "mine.toml", "--smoke"]).contains("runs/mine-smoke"));
        assert!(!here.join("runs/mine").exists());
    }
    fs::write(here.join("runs/mine-smoke/notes.txt"), "mine").unwrap();
    refused(here, &["train", "mine.toml", "--smoke"], &["runs/mine-smoke", "notes.txt", "--out"]);
    assert!(here.join("runs/mine-smoke/checkpoints").is_dir());
}

#[test]
fn config_print_without_a_file_prints_the_defaults() {
    let folder = tempfile::tempdir().unwrap();
    let printed = good(folder.path(), &["config", "print"]);
    assert!(printed.contains("kind = \"phyclip\"") && printed.contains("steps = 120000"), "{printed}");
    let changed = good(folder.path(), &["config", "print", "--set", "train.steps=7000"]);
    assert!(changed.contains("steps = 7000"), "{changed}");
    fs::write(folder.path().join("printed.toml"), printed).unwrap();
    good(folder.path(), &["config", "check", "printed.toml"]);
}

#[test]
fn hints_name_the_program_as_it_was_called() {
    let folder = tempfile::tempdir().unwrap();
    let program = env!("CARGO_BIN_EXE_conifer");
    let message = stderr(folder.path(), &["search", "nowhere", "--id", "x"]);
    assert!(message.contains(&format!("`{program} embed`")), "{message}");
    let bare = folder.path().join("bin");
    fs::create_dir(&bare).unwrap();
    std::os::unix::fs::symlink(program, bare.join("conifer")).unwrap();
    let output = Command::new("conifer").env("PATH", &bare).args(["search", "nowhere", "--id", "x"]).output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("`conifer embed`"), "{message}");
}

#[test]
fn help_has_groups_and_ends_with_the_global_options() {
    let folder = tempfile::tempdir().unwrap();
    let groups = |args: &[&str]| -> Vec<String> {
        let help = good(folder.path(), &[args, &["--help"]].concat());
        let head = |line: &&str| line.ends_with(':') && line.starts_with(|c: char| c.is_ascii_uppercase());
        help.lines().filter(head).map(str::to_owned).collect()
    };
    for verb in ["search", "traverse"] {
        let found = groups(&[verb]);
        assert_eq!(found[found.len() - 2..], ["Global options:", "Terms:"], "{verb}: {found:?}");
        let help = good(folder.path(), &[verb, "--help"]);
        for term in ["cone  ", "half aperture  ", "exterior angle  ", "gate  "] {
            assert!(help.contains(term), "{verb}: {help}");
        }
    }
    for verb in ["embed", "eval", "train", "serve", "front", "explore", "convert", "quickstart"] {
        let found = groups(&[verb]);
        assert_eq!(found.last().map(String::as_str), Some("Global options:"), "{verb}: {found:?}");
    }
    assert_eq!(groups(&["eval", "run"]).last().map(String::as_str), Some("Global options:"));
    assert!(groups(&["embed"]).len() >= 5, "{:?}", groups(&["embed"]));
    let port = |verb: &str| {
        let help = good(folder.path(), &[verb, "-h"]);
        let line = help.lines().find(|line| line.contains("--port")).unwrap();
        line.split_once("[default: ").unwrap().1.to_owned()
    };
    assert_ne!(port("serve"), port("front"));
}

#[test]
fn meaningless_results_give_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    // A set with nearly equal points, and one with distinct points.
    let set = |name: &str, spread: f32| {
        use conifer_embeddings::{EmbeddingSet, Modality, Provenance};
        use conifer_geometry::{ManifoldSpec, Root};
        let rows = 60;
        let points = (0..rows).flat_map(|i| [1.5 + spread * i as f32 / rows as f32, 0.0]).collect();
        let ids = (0..rows).map(|i| format!("row{i}")).collect();
        let modality = [&[Modality::Text; 20][..], &[Modality::Image; 40]].concat();
        let set =
            EmbeddingSet::new(ManifoldSpec::euclidean(2), Root::Origin, ids, modality, points, Provenance::default());
        let mut set = set.unwrap();
        // One outlier is the query.
        set.points[0] = -2.0;
        set.save(&here.join(name)).unwrap();
    };
    set("flat", 0.002);
    set("good", 1.0);
    let message = stderr(here, &["search", "flat", "--id", "row0", "--modality", "image"]);
    assert!(message.contains("the ranking is flat: the distance of the 40 rows compared goes from 3.5"), "{message}");
    assert!(stderr(here, &["search", "good", "--id", "row0", "--modality", "image"]).is_empty());
    // A filter by a column that the set lacks does not panic.
    let message = stderr(here, &["search", "flat", "--id", "row1", "--modality", "image,text", "--where", "label=x"]);
    assert!(!message.contains("panicked"), "{message}");

    // An untrained model is no better than chance.
    tiny_run(here);
    let eval = [&["eval", "run", "run", "--no-cache"], &SCENES[..], &["--benchmark", "cross_modal_retrieval"]].concat();
    let message = stderr(here, &eval);
    assert!(message.contains("are not clearly better than a trivial answer: cross_modal_retrieval"), "{message}");
    let config = root().join("configs/toy_meru.toml");
    let sets = [
        "train.steps=2",
        "train.batch_size=4",
        "optim.warmup_steps=1",
        "data.options.size=16",
        "data.options.resolution=32",
        "model.visual.image_size=32",
        "tokenizer.kind=train",
        "tokenizer.vocab_size=600",
        "eval.every=2",
        "eval.split=test",
        "eval.options.size=12",
    ];
    let mut args = vec!["train", config.to_str().unwrap(), "--out", "measured"];
    args.extend(sets.iter().flat_map(|set| ["--set", set]));
    let message = stderr(here, &args);
    assert!(message.contains("are not clearly better than a trivial answer: cross_modal_retrieval"), "{message}");
}

/// Runs `explore`, and returns its `/api/info` and its stderr.
fn explored(folder: &Path, args: &[&str]) -> (Value, String) {
    let mut process = command(folder, &[args, &["--port", "0"]].concat())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let address = loop {
        let Some(line) = lines.next() else {
            let message = std::io::read_to_string(process.stderr.take().unwrap()).unwrap();
            panic!("conifer {}: {message}", args.join(" "));
        };
        if let Some((_, address)) = line.unwrap().split_once("http://") {
            break address.to_owned();
        }
    };
    let mut stream = TcpStream::connect(&address).unwrap();
    stream
        .write_all(format!("GET /api/info HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").as_bytes())
        .unwrap();
    let answer = std::io::read_to_string(stream).unwrap();
    let info = answer.split_once("\r\n\r\n").unwrap().1.to_owned();
    let stopped = Command::new("kill").args(["-INT", &process.id().to_string()]).status().unwrap();
    assert!(stopped.success());
    let message = std::io::read_to_string(process.stderr.take().unwrap()).unwrap();
    assert!(process.wait().unwrap().success(), "{message}");
    (serde_json::from_str(&info).unwrap(), message)
}

#[test]
fn explore_embeds_a_folder_and_serves_it() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    good(here, &["data", "toy", "--out", "toy", "--size", "8", "--resolution", "32"]);
    // A folder of photos without class folders.
    fs::create_dir(here.join("photos")).unwrap();
    let classes = fs::read_dir(here.join("toy/classes")).unwrap().map(|it| it.unwrap().path());
    for (i, class) in classes.filter(|it| it.is_dir()).take(3).enumerate() {
        let photo = fs::read_dir(class).unwrap().next().unwrap().unwrap().path();
        fs::copy(photo, here.join(format!("photos/{i}.png"))).unwrap();
    }
    // Without --model and a quickstart run, the built-in encoders are used.
    let (info, message) = explored(here, &["explore", "photos", "--out", "towers"]);
    assert_eq!(info["rows"], 3, "{info}");
    assert!(message.contains("drawings") && here.join("towers/towers/weights.safetensors").is_file(), "{message}");
    let config = root().join("configs/toy_meru.toml");
    good(here, &["train", config.to_str().unwrap(), "--smoke", "--out", "runs/quickstart"]);

    let (info, message) = explored(here, &["explore", "photos"]);
    assert_eq!(info["rows"], 3, "{info}");
    assert!(message.contains("drawings") && message.contains("embedding 3 samples"), "{message}");
    assert!(here.join("runs/explore-photos/embeddings/manifest.json").is_file());
    // Existing embeddings are reused, a new photo causes a new run, and sets of other commands are not replaced.
    let (_, message) = explored(here, &["explore", "photos", "--model", "runs/quickstart"]);
    assert!(!message.contains("drawings") && message.contains("--overwrite"), "{message}");
    fs::copy(here.join("photos/0.png"), here.join("photos/again.png")).unwrap();
    assert_eq!(explored(here, &["explore", "photos"]).0["rows"], 4);
    assert!(explored(here, &["explore", "toy/classes", "--views", "image"]).0["rows"].as_u64().unwrap() > 4);
    good(here, &[&["embed", "runs/quickstart"], &SCENES[..], &["--out", "mine/embeddings"]].concat());
    refused(here, &["explore", "photos", "--out", "mine"], &["mine/embeddings", "--overwrite", "--out"]);
    refused(here, &["explore", "nowhere"], &["nowhere"]);
}
