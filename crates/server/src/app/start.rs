//! Binds the address of a server, builds its state and runs it.

use std::net::{SocketAddr, TcpListener, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use conifer_data::hierarchy::Tree;
use conifer_eval::TreeFile;
use conifer_model::head::Tower;
use conifer_search::{ENDPOINT_TIMEOUT, EmbeddingEndpoint};
use tokio::sync::Semaphore;

use crate::Server;
use crate::api::info::{Capabilities, ServerInfo};
use crate::api::photos::UploadedPhotos;
use crate::api::thumbnails::Thumbnails;
use crate::app::gate::RequestGate;
use crate::app::routes::router;
use crate::auth::AccessPolicy;
use crate::content::ServedContent;
use crate::embedding_queue::EmbeddingQueue;
use crate::layer_jobs::LayerJobs;
use crate::limits::listen;
use crate::limits::permits::Permits;
use crate::limits::response_buffer::{MAX_UNSENT, ResponseBudget};
use crate::log::RequestLog;
use crate::metrics::Metrics;
use crate::reporter::Reporter;
use crate::set::beside::BesideSet;
use crate::set::classes::ClassSource;
use crate::set::explorer::Explorer;
use crate::set::identity::SetIdentity;
use crate::set::layers::MapLayers;
use crate::set::state::ServedSet;
use crate::settings::Settings;
use crate::start_error::{Error, Result};

/// Maximum number of photos that a server decodes, or a front forwards, at the same time.
pub(crate) const CONCURRENT_UPLOADS: usize = 4;
/// Number of photos of maximum size that may be in memory at the same time, including unfinished uploads.
const MAX_INCOMING: usize = 8;
/// Timeout of a request to another server, as a share of the request timeout. The rest is for the error response, which
/// names the slow server.
pub(crate) const SHARE_OF_TIMEOUT: f64 = 0.9;

/// A server that has bound its address, but does not accept connections yet.
pub struct BoundServer {
    listener: TcpListener,
    pub(crate) gate: Arc<RequestGate>,
    pub(crate) settings: Settings,
}

impl BoundServer {
    /// Binds the address. Call it before opening large files, so that a wrong address is reported at once.
    ///
    /// # Errors
    /// The address cannot be bound, the process already has a request log, or other machines could connect without a
    /// token and `allow_anyone` is not set.
    pub fn bind(settings: Settings) -> Result<Self> {
        let Settings { host, port, max_upload, .. } = &settings;
        let addresses = (host.as_str(), *port).to_socket_addrs();
        let addresses: Vec<SocketAddr> = addresses.map_err(Error::option(format!("--host {host}")))?.collect();
        let local_only = addresses.iter().all(|it| it.ip().is_loopback());
        if !local_only && settings.token.is_none() && !settings.allow_anyone {
            return Err(Error::invalid(
                format!("--host {host}"),
                "other machines could send requests",
                "--token-file FILE with a token that clients must send, or --allow-anyone",
            ));
        }
        let listener = TcpListener::bind(&*addresses);
        let listener = listener.map_err(Error::option(format!("--host {host} --port {port}")))?;
        let log = settings.log_format.map(RequestLog::start).transpose()?;
        let gate = RequestGate {
            access: AccessPolicy { local_name: local_only.then(|| host.clone()), token: settings.token.clone() },
            work: Semaphore::new(settings.concurrency),
            max_requests: settings.concurrency,
            timeout: settings.timeout,
            max_upload: *max_upload,
            photos: Semaphore::new(MAX_INCOMING * max_upload),
            responses: ResponseBudget::new(MAX_UNSENT),
            metrics: Arc::new(Metrics::new(log.as_ref().map(RequestLog::dropped))?),
            _log: log,
        };
        Ok(BoundServer { listener, gate: Arc::new(gate), settings })
    }

    /// Builds the indexes of a set and serves it until Ctrl-C or SIGTERM.
    ///
    /// # Errors
    /// The content cannot be served, for example because the tree is damaged, or because an embedding endpoint is given
    /// for a model with a text encoder. `reporter` cannot report the address.
    pub fn serve(self, content: ServedContent, reporter: Arc<dyn Reporter>) -> Result<()> {
        let server = Arc::new(Server::new(content, &self, &reporter)?);
        let what = format!("{} rows", server.state.len());
        let router = router(Arc::clone(&server), Arc::clone(&self.gate));
        let ended = self.run(router, reporter.as_ref(), &what, || server.layer_jobs.stop());
        server.layer_jobs.wait();
        ended
    }

    /// Serves requests until Ctrl-C or SIGTERM. `on_stop` is called then, before the open connections are closed.
    pub(crate) fn run(self, router: Router, reporter: &dyn Reporter, what: &str, on_stop: impl FnOnce()) -> Result<()> {
        let BoundServer { listener, gate, settings } = self;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        reporter.listening(what, listener.local_addr()?)?;
        let metrics = Arc::clone(&gate.metrics);
        let stop = async {
            listen::stopped().await;
            on_stop();
        };
        let done = runtime.block_on(listen::serve(listener, router, settings.connections, metrics, stop));
        // Wait at most one second for searches that are still running.
        runtime.shutdown_timeout(Duration::from_secs(1));
        Ok(done?)
    }
}

impl Server {
    fn new(content: ServedContent, bound: &BoundServer, reporter: &Arc<dyn Reporter>) -> Result<Self> {
        let ServedContent {
            set,
            model,
            endpoint,
            predictor,
            source,
            tree: tree_file,
            cells,
            shard,
            maps,
            layer_maker,
            beside,
        } = content;
        let (settings, metrics) = (&bound.settings, &bound.gate.metrics);
        let tree =
            tree_file.as_deref().map(|it| std::fs::read(it).map_err(Error::option(format!("--tree {}", it.display()))));
        // Without --tree, the ranks of the data give the class tree. All shards derive the same tree from the same
        // data.
        let ranks = match &source {
            Some(source) if tree.is_none() => source.class_tree(),
            _ => None,
        };
        let tree = tree.transpose()?.or_else(|| ranks.as_ref().map(|it| TreeFile::of_ranks(it).sha256.into_bytes()));
        let fingerprint = set.fingerprint()?;
        let identity = SetIdentity::new(&fingerprint, &set, tree.as_deref());
        // The classes are derived from the whole set, so that all shards have the same classes.
        let classes = match (tree_file.as_deref(), ranks) {
            (Some(file), _) => Some(ClassSource::Edges(Tree::read_edges(file).map_err(Error::option("--tree"))?)),
            (None, Some(ranks)) => Some(ClassSource::Edges(ranks)),
            (None, None) => ClassSource::of_columns(&set.columns)?,
        };
        if beside.is_some() && shard.is_some() {
            return Err(Error::invalid("--beside", "--shard, too", "a server of the whole set"));
        }
        let layers = Arc::new(MapLayers::new(maps, set.len(), shard)?);
        let is_open = bound.gate.access.local_name.is_none() && settings.token.is_none();
        let maker = match layer_maker {
            // Two shards would write the same layer.
            _ if shard.is_some() => Err("a shard computes no layers; use `conifer project`".to_owned()),
            _ if is_open => Err(
                "this server computes no layers, because everyone can send it requests (--allow-anyone); expected a \
                server with --token-file, or one that listens on this machine only"
                    .to_owned(),
            ),
            maker => maker.ok_or_else(|| "this server computes no layers; use `conifer project`".to_owned()),
        };
        let layer_jobs = LayerJobs::new(maker, fingerprint, Arc::clone(&layers), Arc::clone(reporter));
        let set = match shard {
            None => set,
            Some((part, of)) => set.select(&(part..set.len()).step_by(of).collect::<Vec<_>>())?,
        };
        let state = ServedSet::new(set, cells, classes)?;
        let beside = beside.map(|it| BesideSet::new(it, &state)).transpose()?;
        if let Some(BesideSet { title, shared_ids, links, .. }) = &beside {
            reporter.note(&format!("{title} beside it: {shared_ids} ids in both, {} rows linked", links.len()));
        }
        let thumbnails = match source {
            None => Thumbnails::default(),
            Some(source) => Thumbnails::new(source, &state, Arc::clone(reporter))?,
        };
        if thumbnails.has_source() {
            reporter.note(&format!("{} of {} rows have a picture in --data", thumbnails.count(), state.len()));
        }
        let endpoint = match (&model, &endpoint) {
            (_, None) => None,
            (None, Some(_)) => {
                return Err(Error::invalid(
                    "--embedding-endpoint",
                    "no model",
                    "--checkpoint MODEL, too, with a model that reads vectors",
                ));
            }
            (Some(model), Some(endpoint)) => {
                let limit = ENDPOINT_TIMEOUT.min(settings.timeout.mul_f64(SHARE_OF_TIMEOUT));
                Some(EmbeddingEndpoint::open(endpoint, model.name(), model.vector_width(Tower::Text), limit)?)
            }
        };
        // A tower that reads vectors has no encoder for a text or an upload.
        let width = |tower| model.as_ref().and_then(|it| it.vector_width(tower));
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
        Ok(Server {
            info: ServerInfo::new(&state, capabilities, vectors, shard, identity),
            explorer: Explorer::new(&state, layers)?,
            layer_jobs,
            beside,
            predictor,
            endpoint,
            model: model.map(|it| EmbeddingQueue::start(it, settings.concurrency)).transpose()?,
            state,
            photos: UploadedPhotos::new(),
            thumbnails,
            metrics: Arc::clone(metrics),
            max_upload: settings.max_upload,
            permits: Permits::new(cores, CONCURRENT_UPLOADS),
        })
    }
}
