//! Starts a server from its command-line arguments.

use std::net::{SocketAddr, TcpListener, ToSocketAddrs as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use burn::tensor::Device;
use conifer_data::hierarchy::Tree;
use conifer_eval::TreeFile;
use conifer_learn::head::Tower;
use serde_json::json;
use tokio::sync::Semaphore;

use super::limits::listen;
use super::{Server, routes};
use crate::arguments::{DataArgs, ListenArgs, LogFormatArg, ServeArgs};
use crate::embedder::ModelEmbedder;
use crate::embedding_endpoint::{ENDPOINT_TIMEOUT, EmbeddingEndpoint};
use crate::output::{note, print, print_json};
use crate::request::{open_rows, open_source};
use crate::serve::api::explore::Explorer;
use crate::serve::api::info::{Capabilities, ServerInfo};
use crate::serve::api::photos::UploadedPhotos;
use crate::serve::api::predict::ServedPredictor;
use crate::serve::api::thumbnails::Thumbnails;
use crate::serve::auth::AccessPolicy;
use crate::serve::batch::EmbeddingQueue;
use crate::serve::gate::RequestGate;
use crate::serve::limits::permits::Permits;
use crate::serve::limits::response_buffer::{MAX_UNSENT, ResponseBudget};
use crate::serve::log::RequestLog;
use crate::serve::metrics::Metrics;
use crate::serve::set::classes::ClassSource;
use crate::serve::set::identity::SetIdentity;
use crate::serve::set::state::ServedSet;

/// Maximum number of photos that a server decodes, or a front forwards, at the same time.
pub(crate) const CONCURRENT_UPLOADS: usize = 4;
/// Number of photos of maximum size that may be in memory at the same time while they are uploaded.
const MAX_INCOMING: usize = 8;
/// Share of the request timeout that a request to another server may take, so that the error response that names the
/// slow server is still in time.
pub(crate) const SHARE_OF_TIMEOUT: f64 = 0.9;
/// Minimum length of a token in characters. 16 random base64 characters have 96 bits.
const MIN_TOKEN_LENGTH: usize = 16;

pub(crate) fn serve(args: ServeArgs, as_json: bool, device: &Device) -> anyhow::Result<()> {
    let (listener, gate) = bind(&args.listen, args.max_upload, as_json)?;
    let set = open_rows(&args.set)?;
    let model = args.checkpoint.as_deref().map(|it| ModelEmbedder::open(it, device)).transpose()?;
    if let Some(model) = &model {
        model.check_made(&set.spec, &set.source)?;
    }
    let predictor = args.threshold.as_deref().map(|it| ServedPredictor::open(it, model.as_ref())).transpose()?;
    let source = args.data.map(|data| {
        open_source(&DataArgs { data, split: args.split, data_options: args.data_options, roots: args.roots })
    });
    let source = source.transpose()?;
    let model = match (model, &source) {
        (Some(model), Some(source)) => Some(model.with_text_vectors(source.as_ref())?),
        (model, _) => model,
    };
    let tree = args.tree.as_deref().map(|it| std::fs::read(it).with_context(|| format!("--tree {}", it.display())));
    // Without --tree, the ranks of the data give the class tree. All shards derive the same tree from the same data.
    let ranks = match &source {
        Some(source) if tree.is_none() => source.class_tree().map(TreeFile::of_ranks),
        _ => None,
    };
    let tree = tree.transpose()?.or_else(|| ranks.as_ref().map(|it| it.sha256.clone().into_bytes()));
    let identity = SetIdentity::new(&set, tree.as_deref())?;
    // Derived from the whole set, so that all shards have the same classes.
    let classes = match (args.tree.as_deref(), ranks) {
        (Some(file), _) => Some(ClassSource::Edges(Tree::read_edges(file).context("--tree")?)),
        (None, Some(ranks)) => Some(ClassSource::Edges(ranks.tree)),
        (None, None) => ClassSource::of_columns(&set.columns)?,
    };
    let set = match args.shard {
        None => set,
        Some((part, of)) => set.select(&(part..set.len()).step_by(of).collect::<Vec<_>>())?,
    };
    let state = ServedSet::new(set, args.cells, classes)?;
    let thumbnails = match source {
        None => Thumbnails::default(),
        Some(source) => Thumbnails::new(source, &state)?,
    };
    if thumbnails.has_source() {
        note(&format!("{} of {} rows have a picture in --data", thumbnails.count(), state.len()));
    }
    let limit = ENDPOINT_TIMEOUT.min(Duration::from_secs_f64(args.listen.timeout * SHARE_OF_TIMEOUT));
    let endpoint = match &model {
        Some(model) => EmbeddingEndpoint::of_args(&args.endpoint, model, limit)?,
        None => {
            ensure!(
                args.endpoint.embedding_endpoint.is_none(),
                "--embedding-endpoint: expected --checkpoint MODEL, too, with a model that reads vectors"
            );
            None
        }
    };
    // A tower that reads vectors has no encoder for a text or an upload.
    let width = |tower| model.as_ref().and_then(|it| it.inner().vector_width(tower));
    let has_encoder = |tower| model.is_some() && width(tower).is_none();
    let vectors = [("image", Tower::Image), ("text", Tower::Text)];
    let vectors = vectors.into_iter().filter_map(|(name, tower)| Some((name.to_owned(), width(tower)?))).collect();
    let capabilities = Capabilities {
        text: has_encoder(Tower::Text) || endpoint.is_some(),
        photo: has_encoder(Tower::Image),
        thumbnails: thumbnails.has_source(),
        tree: state.tree.is_some(),
        predict: predictor.is_some(),
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let server = Arc::new(Server {
        info: ServerInfo::new(&state, capabilities, vectors, args.shard, identity),
        explorer: Explorer::new(&state)?,
        predictor,
        endpoint,
        model: model.map(|it| EmbeddingQueue::start(it, args.listen.concurrency)).transpose()?,
        state,
        photos: UploadedPhotos::new(),
        thumbnails,
        metrics: Arc::clone(&gate.metrics),
        max_upload: args.max_upload,
        permits: Permits::new(cores, CONCURRENT_UPLOADS),
    });
    let what = format!("{} rows", server.state.len());
    let gate = Arc::new(gate);
    run(listener, routes::router(server, Arc::clone(&gate)), &gate, &args.listen, as_json, &what)
}

/// Binds the listener and creates the gate. Fails if other machines could connect without a token and `--allow-anyone`
/// is not set.
pub(crate) fn bind(args: &ListenArgs, max_upload: usize, as_json: bool) -> anyhow::Result<(TcpListener, RequestGate)> {
    let addresses = (args.host.as_str(), args.port).to_socket_addrs();
    let addresses: Vec<SocketAddr> = addresses.with_context(|| format!("--host {}", args.host))?.collect();
    let local_only = addresses.iter().all(|it| it.ip().is_loopback());
    let token = args.token_file.as_deref().map(token).transpose()?;
    ensure!(
        local_only || token.is_some() || args.allow_anyone,
        "--host {}: other machines could send requests; expected --token-file FILE with a token that clients must send, or --allow-anyone",
        args.host
    );
    let listener =
        TcpListener::bind(&*addresses).with_context(|| format!("--host {} --port {}", args.host, args.port))?;
    let format = args.log_format.or(as_json.then_some(LogFormatArg::Json));
    let log = format.map(RequestLog::start).transpose()?;
    let metrics = Arc::new(Metrics::new(log.as_ref().map(RequestLog::dropped))?);
    let gate = RequestGate {
        access: AccessPolicy { local_name: local_only.then(|| args.host.clone()), token },
        work: Semaphore::new(args.concurrency),
        max_requests: args.concurrency,
        timeout: Duration::from_secs_f64(args.timeout),
        max_upload,
        photos: Semaphore::new(MAX_INCOMING * max_upload),
        responses: ResponseBudget::new(MAX_UNSENT),
        metrics,
        _log: log,
    };
    Ok((listener, gate))
}

/// Serves requests until Ctrl-C or SIGTERM.
pub(crate) fn run(
    listener: TcpListener,
    router: axum::Router,
    gate: &RequestGate,
    args: &ListenArgs,
    as_json: bool,
    what: &str,
) -> anyhow::Result<()> {
    let url = format!("http://{}", listener.local_addr()?);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    match as_json {
        true => print_json(&json!({ "listening": url }))?,
        false => print(&format!("{what} at {url}\n"))?,
    }
    let metrics = Arc::clone(&gate.metrics);
    let done = runtime.block_on(listen::serve(listener, router, args.connections, metrics, listen::stopped()));
    // Wait at most one second for searches that are still running.
    runtime.shutdown_timeout(Duration::from_secs(1));
    done
}

pub(crate) fn token(file: &Path) -> anyhow::Result<String> {
    let option = || format!("--token-file {}", file.display());
    let token = std::fs::read_to_string(file).with_context(option)?.trim().to_owned();
    ensure!(
        token.len() >= MIN_TOKEN_LENGTH && token.bytes().all(|it| it.is_ascii_graphic()),
        "{}: expected one line of at least {MIN_TOKEN_LENGTH} visible ASCII characters",
        option()
    );
    Ok(token)
}
