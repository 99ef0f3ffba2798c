//! `conifer serve` opens the set, model, threshold and photos that its arguments name and starts a server for them.
//! `conifer front` starts a server that queries other servers.

mod layers;
mod maps;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use burn::tensor::Device;
use conifer_data::Source;
use conifer_embeddings::StoredSet;
use conifer_eval::prediction::{Predictor, StoredThreshold};
use conifer_server::{
    BoundServer, LogFormat, Reporter, SecondSet, ServedContent, ServedPredictor, Settings, read_token,
};
use indicatif::ProgressBar;
use serde_json::json;

use self::layers::SetProjections;
use super::embed::DATA_RECORDS;
use crate::arguments::{DataArgs, FrontArgs, ListenArgs, ServeArgs};
use crate::embedder::ModelEmbedder;
use crate::output::{note, print, print_json};
use crate::progress;
use crate::request::{open_rows, open_source};
use crate::set_model::{is_run, set_of};

pub(crate) fn serve(mut args: ServeArgs, as_json: bool, device: &Device) -> anyhow::Result<()> {
    if is_run(&args.set) {
        let run = std::mem::take(&mut args.set);
        args.set = set_of(&run);
        args.checkpoint = args.checkpoint.or(Some(run));
    } else if args.checkpoint.is_none() {
        note("no --checkpoint MODEL given: only rows can be used as queries, not texts or photos");
    }
    let server = BoundServer::bind(settings(args.listen, args.max_upload, as_json)?)?;
    let set = open_rows(&args.set)?;
    let model = args.checkpoint.as_deref().map(|it| ModelEmbedder::open(it, device)).transpose()?;
    if let Some(model) = &model {
        model.check_made(&set.spec, &set.source)?;
    }
    let maps = maps::served_maps(&args.set, &args.maps, &set.ids)?;
    let predictor = args.threshold.as_deref().map(|it| open_predictor(it, model.as_ref())).transpose()?;
    let source = args.data.map(|data| {
        open_source(&DataArgs { data, split: args.split, data_options: args.data_options, roots: args.roots })
    });
    let source = source.transpose()?;
    if let Some(source) = &source {
        note_other_records(&args.set, source.as_ref())?;
    }
    let model = match (model, &source) {
        (Some(model), Some(source)) => Some(model.with_text_vectors(source.as_ref())?),
        (model, _) => model,
    };
    let layer_maker = SetProjections::new(&args.set, &set.spec, set.len());
    let content = ServedContent {
        set,
        model: model.map(ModelEmbedder::into_inner),
        endpoint: args.endpoint.settings()?,
        predictor,
        source,
        tree: args.tree,
        cells: args.cells,
        shard: args.shard,
        maps,
        layer_maker: Some(Arc::new(layer_maker)),
        beside: args.beside.as_deref().map(second_set).transpose()?,
    };
    Ok(server.serve(content, Arc::new(TerminalReporter::new(as_json)))?)
}

/// The set of `--beside`, with the maps in its folder.
fn second_set(path: &Path) -> anyhow::Result<SecondSet> {
    let option = || format!("--beside {}", path.display());
    let set = open_rows(path).with_context(option)?;
    let maps = maps::served_maps(path, &[], &set.ids)?;
    Ok(SecondSet { set, title: path.display().to_string(), maps })
}

pub(crate) fn front(args: FrontArgs, as_json: bool) -> anyhow::Result<()> {
    let server = BoundServer::bind(settings(args.listen, args.max_upload, as_json)?)?;
    let token = args.shard_token_file.as_deref().map(read_token).transpose()?;
    Ok(server.front(&args.shards, token.as_deref(), &TerminalReporter::new(as_json))?)
}

fn settings(args: ListenArgs, max_upload: usize, as_json: bool) -> anyhow::Result<Settings> {
    Ok(Settings {
        token: args.token_file.as_deref().map(read_token).transpose()?,
        host: args.host,
        port: args.port,
        allow_anyone: args.allow_anyone,
        timeout: Duration::from_secs_f64(args.timeout),
        concurrency: args.concurrency,
        connections: args.connections,
        max_upload,
        log_format: args.log_format.map(LogFormat::from).or(as_json.then_some(LogFormat::Json)),
    })
}

/// Notes on the terminal that `source` is not the data from which the set was made. The pictures of the rows are found
/// by id, and other data may have the same ids.
fn note_other_records(set: &Path, source: &dyn Source) -> anyhow::Result<()> {
    let Some(made) = StoredSet::identity(set)? else {
        return Ok(());
    };
    if made.get(DATA_RECORDS).is_some_and(|records| *records != source.fingerprint()) {
        let values = |name: &str| made.get(name).map_or("", String::as_str).split_whitespace();
        let options: String = ["--data", "--split", "--data-option"]
            .into_iter()
            .flat_map(|name| values(name).map(move |value| format!(" {name} {value}")))
            .collect();
        let set = set.display();
        note(&format!(
            "--data: its records are not those of {set}, so pictures may be wrong; the set was made with{options}"
        ));
    }
    Ok(())
}

/// Reads a threshold and embeds the prompts of its classes.
///
/// # Errors
/// There is no model, the threshold belongs to another model, or the file is damaged.
fn open_predictor(path: &Path, model: Option<&ModelEmbedder>) -> anyhow::Result<ServedPredictor> {
    let option = || format!("--threshold {}", path.display());
    let model = model.with_context(|| format!("{}: expected --checkpoint MODEL, too", option()))?;
    let stored = StoredThreshold::read(path).with_context(option)?;
    stored.check_model(model.inner().name(), model.inner().fingerprint()).with_context(option)?;
    let predictor = Predictor::of_stored(model, &stored).with_context(option)?;
    Ok(ServedPredictor::new(stored, predictor))
}

/// Shows the reports of a server on the terminal.
struct TerminalReporter {
    as_json: bool,
    bar: Mutex<Option<ProgressBar>>,
}

impl TerminalReporter {
    fn new(as_json: bool) -> Self {
        TerminalReporter { as_json, bar: Mutex::new(None) }
    }
}

impl Reporter for TerminalReporter {
    fn note(&self, line: &str) {
        note(line);
    }

    fn progress(&self, done: usize, total: usize) {
        let mut bar = self.bar.lock().unwrap_or_else(PoisonError::into_inner);
        bar.get_or_insert_with(|| progress::bar("samples", total)).set_position(done as u64);
        if done == total
            && let Some(bar) = bar.take()
        {
            bar.finish_and_clear();
        }
    }

    fn listening(&self, what: &str, address: SocketAddr) -> std::io::Result<()> {
        let url = format!("http://{address}");
        let printed =
            if self.as_json { print_json(&json!({ "listening": url })) } else { print(&format!("{what} at {url}\n")) };
        printed.map_err(std::io::Error::other)
    }
}
