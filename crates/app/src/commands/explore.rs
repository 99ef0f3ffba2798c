//! `conifer explore`: a folder of photos or a data set to a page in the browser, in one command.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, bail};
use burn::tensor::Device;
use conifer_data::transform::EvalCrop;
use conifer_learn::checkpoint::state::latest_checkpoint;
use conifer_space::points::{Draft, Element, sha256_hex};
use serde_json::{Value, json};

use super::embed::Job;
use crate::cli::{DataSet, Explore, SERVE_PORT, Serve};
use crate::embedder::ModelEmbedder;
use crate::invocation::program;
use crate::output::{note, print, print_json};
use crate::request::open_source;
use crate::set_model::EMBEDDINGS;
use crate::{serve, signal};

/// Beside the embeddings: what they were made of.
const MADE_OF: &str = "explore.json";
/// Where `conifer quickstart` leaves its run.
const QUICKSTART_RUN: &str = "runs/quickstart";
/// Most bytes of a photo that the page may send.
const MAX_UPLOAD: usize = 20 << 20;

pub(crate) fn run(mut args: Explore, as_json: bool, device: &Device) -> anyhow::Result<()> {
    choose_port(&mut args);
    let model = match args.model.take() {
        Some(model) => model,
        None => default_model()?,
    };
    let data = DataSet { data: args.data.clone(), split: args.split.clone(), data_options: args.data_options.clone() };
    let out = args.out.clone().unwrap_or_else(|| folder_for(&args.data));
    let set = out.join(EMBEDDINGS);

    if !embed(&args, &model, &data, &out, &set, device)? {
        let again = format!("stopped; the same command goes on from there: {} explore {}", program(), args.data);
        return if as_json { print_json(&json!({ "out": out, "stopped": true })) } else { print(&(again + "\n")) };
    }
    if args.open {
        open_when_ready(&args.door.host, args.door.port);
    }
    serve::serve(
        Serve {
            set,
            checkpoint: Some(model),
            data: Some(args.data),
            split: args.split,
            data_options: args.data_options,
            tree: args.tree,
            cells: false,
            shard: None,
            max_upload: MAX_UPLOAD,
            door: args.door,
        },
        as_json,
        device,
    )
}

/// The model of `explore` without `--model`. There is none inside the program yet, so it is that of the quickstart.
///
/// # Errors
/// No quickstart was run in this folder.
fn default_model() -> anyhow::Result<PathBuf> {
    let run = Path::new(QUICKSTART_RUN);
    if latest_checkpoint(run).is_err() {
        bail!(
            "choosing a model: --model is not given and {QUICKSTART_RUN} holds no checkpoint; expected a model; name one with --model MODEL (a \
             checkpoint, or a published model such as openai/clip-vit-base-patch32), or run `conifer quickstart` first: its small model knows \
             drawings only"
        );
    }
    note(&format!(
        "no --model: taking {QUICKSTART_RUN}, which was trained on drawings of simple scenes; on photos its answers will be poor"
    ));
    Ok(run.to_owned())
}

/// Embeds `data` into `set`, or finds it done. Returns false if it was told to stop before the end.
fn embed(
    args: &Explore,
    model: &Path,
    data: &DataSet,
    out: &Path,
    set: &Path,
    device: &Device,
) -> anyhow::Result<bool> {
    let source = open_source(data)?;
    let embedder = ModelEmbedder::open(model, device)?;
    let views: Vec<&str> = args.views.iter().map(|&it| conifer_space::Modality::from(it).name()).collect();
    let made_of = json!({
        "model": sha256_hex(embedder.identity()?.as_bytes()),
        "data": args.data,
        "split": args.split,
        "data_options": args.data_options,
        "records": source.fingerprint(),
        "views": views,
    });
    let note_file = out.join(MADE_OF);
    let done = || read_json(&note_file).is_some_and(|it| it["made_of"] == made_of && it["set"] == json!(seal(set)));
    if !args.overwrite && done() {
        note(&format!("{} has the embeddings of these data by this model; --overwrite makes them anew", set.display()));
        return Ok(true);
    }
    match args.overwrite {
        true => Draft::discard(set)?,
        false => check_ours(set, &note_file)?,
    }
    note(&format!("embedding {} samples of {} into {}", source.len(), args.data, set.display()));
    let identity = BTreeMap::from([
        ("--split".to_owned(), args.split.clone().unwrap_or_default()),
        ("--data-option".to_owned(), args.data_options.join(" ")),
        ("--device".to_owned(), format!("{device:?}")),
    ]);
    let job = Job {
        embedder: &embedder,
        source: source.as_ref(),
        views: &args.views,
        crop: EvalCrop::Center,
        data: &args.data,
        element: Element::F32,
        identity,
    };
    let done = job.run(set, signal::stop_flag()?.as_ref()).with_context(|| {
        let begun =
            if Draft::is_begun(set) { " (half done: the same command goes on; --overwrite starts anew)" } else { "" };
        format!("{}{begun}", set.display())
    })?;
    for line in &done.first_left_out {
        note(&format!("skipped: {line}"));
    }
    if done.stopped {
        return Ok(false);
    }
    note(&format!("{} rows embedded, {} samples skipped", done.rows, done.left_out));
    let text = serde_json::to_vec_pretty(&json!({ "made_of": made_of, "set": seal(set) }))?;
    fs::write(&note_file, text).with_context(|| note_file.display().to_string())?;
    Ok(true)
}

/// A set that is replaced without `--overwrite` must be one that `explore` made.
fn check_ours(set: &Path, note_file: &Path) -> anyhow::Result<()> {
    if set.exists() && !note_file.exists() {
        bail!(
            "writing embeddings to {}: it is there and has no {MADE_OF} beside it; expected a folder that `explore` made; choose another one \
             with --out, replace it with --overwrite, or serve it with `conifer serve`",
            set.display()
        );
    }
    Ok(())
}

/// The sha256 of the manifest of a set, by which it is known again: the manifest holds those of the other files.
fn seal(set: &Path) -> Option<String> {
    Some(sha256_hex(&fs::read(set.join("manifest.json")).ok()?))
}

fn read_json(path: &Path) -> Option<Value> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// `runs/explore-NAME`, NAME being the last part of the path of the data.
fn folder_for(data: &str) -> PathBuf {
    let path = data.split_once(':').map_or(data, |(_, path)| path);
    let full = fs::canonicalize(path).unwrap_or_else(|_| path.into());
    let name = full.file_stem().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
    let plain: String = name.chars().map(|c| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '_' }).collect();
    PathBuf::from("runs").join(format!("explore-{}", if plain.is_empty() { "data" } else { &plain }))
}

/// Takes a free port where the usual one is in use: who types `explore` wants a page, not a port.
fn choose_port(args: &mut Explore) {
    let (host, port) = (args.door.host.clone(), args.door.port);
    if port != SERVE_PORT && port != 0 {
        return;
    }
    if port == SERVE_PORT && TcpListener::bind((host.as_str(), port)).is_ok() {
        return;
    }
    if let Some(free) = TcpListener::bind((host.as_str(), 0)).ok().and_then(|it| it.local_addr().ok()) {
        args.door.port = free.port();
    }
}

/// Opens the page once the server answers.
fn open_when_ready(host: &str, port: u16) {
    let (host, url) = (host.to_owned(), format!("http://{host}:{port}"));
    thread::spawn(move || {
        for _ in 0..600 {
            if std::net::TcpStream::connect((host.as_str(), port)).is_ok() {
                let mut opener = Command::new("xdg-open");
                opener.arg(&url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
                if !opener.status().is_ok_and(|it| it.success()) {
                    note(&format!("--open: xdg-open did not open {url}; open it in a browser"));
                }
                return;
            }
            thread::sleep(Duration::from_millis(500));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embeddings_lie_in_a_folder_called_as_the_data() {
        for (data, folder) in [
            ("photos/", "runs/explore-photos"),
            ("image_folder:my photos", "runs/explore-my_photos"),
            ("data/birds.jsonl", "runs/explore-birds"),
            ("toy", "runs/explore-toy"),
            ("shards/*.tar", "runs/explore-_"),
        ] {
            assert_eq!(folder_for(data), PathBuf::from(folder), "{data}");
        }
    }
}
