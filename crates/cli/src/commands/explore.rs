//! `conifer explore`: embeds a folder of photos or a data set and serves the explorer page, in one command.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use burn::tensor::Device;
use conifer_embeddings::{Draft, Element};
use conifer_model::checkpoint::run_folder::latest_checkpoint;
use conifer_server::DEFAULT_PORT;
use conifer_train::ranks::Ranks;
use serde_json::json;

use super::embed::{EmbedJob, finished_rows};
use super::{serve, towers};
use crate::arguments::{DataArgs, EndpointArgs, ExploreArgs, ServeArgs};
use crate::embedder::ModelEmbedder;
use crate::invocation::program;
use crate::output::{note, print, print_json};
use crate::request::open_source;
use crate::set_model::EMBEDDINGS;
use crate::signal;

/// Default folder of a `conifer quickstart` run.
const QUICKSTART_RUN: &str = "runs/quickstart";
/// Maximum size of an uploaded photo, in bytes.
const MAX_UPLOAD: usize = 20 << 20;

pub(crate) fn run(mut args: ExploreArgs, as_json: bool, device: &Device) -> anyhow::Result<()> {
    choose_port(&mut args);
    let data = DataArgs {
        data: args.data.clone(),
        split: args.split.clone(),
        data_options: args.data_options.clone(),
        roots: args.roots.clone(),
    };
    let out = args.out.clone().unwrap_or_else(|| folder_for(&args.data));
    let set = out.join(EMBEDDINGS);
    let model = match args.model.take() {
        Some(model) => model,
        None => default_model(&out)?,
    };

    if !embed(&args, &model, &data, &set, device)? {
        let again = format!("stopped; continue with: {} explore {}", program(), args.data);
        return if as_json { print_json(&json!({ "out": out, "stopped": true })) } else { print(&(again + "\n")) };
    }
    if args.open {
        open_when_ready(&args.listen.host, args.listen.port);
    }
    serve::serve(
        ServeArgs {
            set,
            checkpoint: Some(model),
            endpoint: EndpointArgs::default(),
            data: Some(args.data),
            split: args.split,
            data_options: args.data_options,
            roots: args.roots,
            tree: args.tree,
            threshold: args.threshold,
            maps: Vec::new(),
            beside: None,
            cells: false,
            shard: None,
            max_upload: MAX_UPLOAD,
            listen: args.listen,
        },
        as_json,
        device,
    )
}

/// The model of `explore` without `--model`: the latest checkpoint of a quickstart run, or else the built-in encoders,
/// which are written to `out`.
fn default_model(out: &Path) -> anyhow::Result<PathBuf> {
    let run = Path::new(QUICKSTART_RUN);
    let model = if latest_checkpoint(run).is_ok() { run.to_owned() } else { towers::write(out)? };
    note(&format!(
        "no --model given: using {}, which was trained on drawings of simple scenes; results on photos will be poor",
        model.display()
    ));
    Ok(model)
}

/// Embeds `data` into `set`, unless it is already embedded. Returns false if it was stopped before the end.
fn embed(args: &ExploreArgs, model: &Path, data: &DataArgs, set: &Path, device: &Device) -> anyhow::Result<bool> {
    let source = open_source(data)?;
    let embedder = ModelEmbedder::open(model, device)?.with_text_vectors(source.as_ref())?;
    let roots: Vec<String> = args.roots.iter().map(|it| it.display().to_string()).collect();
    let identity = BTreeMap::from([
        ("--split".to_owned(), args.split.clone().unwrap_or_default()),
        ("--data-option".to_owned(), args.data_options.join(" ")),
        ("--root".to_owned(), roots.join(" ")),
        ("--device".to_owned(), format!("{device:?}")),
    ]);
    let job = EmbedJob {
        embedder: &embedder,
        source: source.as_ref(),
        views: &args.views,
        crop: embedder.crop(None),
        data: &args.data,
        element: Element::F32,
        identity,
        ranks: Ranks::default(),
    };
    match finished_rows(&job, set) {
        _ if args.overwrite => Draft::discard(set)?,
        Ok(Some(rows)) => {
            let set = set.display();
            note(&format!(
                "{set} already holds the {rows} embeddings of this data and model; --overwrite embeds again"
            ));
            return Ok(true);
        }
        Ok(None) => {}
        // Without --out the folder belongs to this command, so an outdated set is replaced.
        Err(changed) if args.out.is_none() => note(&format!("embedding again: {changed:#}")),
        Err(changed) => return Err(changed),
    }
    note(&format!("embedding {} samples of {} into {}", source.len(), args.data, set.display()));
    let done = job.run(set, signal::stop_flag()?.as_ref()).with_context(|| {
        let begun = if Draft::is_begun(set) {
            " (incomplete: repeat the command to continue, or use --overwrite to start over)"
        } else {
            ""
        };
        format!("{}{begun}", set.display())
    })?;
    for line in &done.first_left_out {
        note(&format!("skipped: {line}"));
    }
    if done.stopped {
        return Ok(false);
    }
    note(&format!("{} rows embedded, {} samples skipped", done.rows, done.left_out));
    Ok(true)
}

/// `runs/explore-NAME`, where NAME is the file name of the data without its extension. Characters other than letters,
/// digits, `-`, `_` and `.` become `_`.
fn folder_for(data: &str) -> PathBuf {
    let path = data.split_once(':').map_or(data, |(_, path)| path);
    let full = fs::canonicalize(path).unwrap_or_else(|_| path.into());
    let name = full.file_stem().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
    let plain: String = name.chars().map(|c| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '_' }).collect();
    PathBuf::from("runs").join(format!("explore-{}", if plain.is_empty() { "data" } else { &plain }))
}

/// Picks a free port for port 0, and if the default port is in use. Any other port was chosen by the user.
fn choose_port(args: &mut ExploreArgs) {
    let (host, port) = (args.listen.host.clone(), args.listen.port);
    if port != DEFAULT_PORT && port != 0 {
        return;
    }
    if port == DEFAULT_PORT && TcpListener::bind((host.as_str(), port)).is_ok() {
        return;
    }
    if let Some(free) = TcpListener::bind((host.as_str(), 0)).ok().and_then(|it| it.local_addr().ok()) {
        args.listen.port = free.port();
    }
}

/// Opens the page in the browser when the server accepts connections.
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
    fn default_folder_is_named_after_the_data() {
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
