//! Connects a front to its shards and starts it.

use std::sync::Arc;

use axum::http::Method;
use serde_json::json;
use tokio::sync::{Mutex, Semaphore};

use super::FrontServer;
use super::client::{Shard, ShardClient};
use super::router::router;
use crate::api::info::ServerInfo;
use crate::app::start::{BoundServer, CONCURRENT_UPLOADS, SHARE_OF_TIMEOUT};
use crate::reporter::Reporter;
use crate::set::identity::SetIdentity;
use crate::start_error::{Error, Result};

impl BoundServer {
    /// Serves the set whose shards are on the servers `shards` until Ctrl-C or SIGTERM. `shards` lists the URLs
    /// (`http://HOST:PORT`) in the order of the shard numbers. `shard_token` is the access token of these servers.
    ///
    /// # Errors
    /// A URL is invalid, a server does not answer, or the servers do not hold all shards of one set in order.
    pub fn front(self, shards: &[String], shard_token: Option<&str>, reporter: &dyn Reporter) -> Result<()> {
        let timeout = self.settings.timeout.mul_f64(SHARE_OF_TIMEOUT);
        let clients = shards.iter().map(|url| ShardClient::new(url, shard_token, timeout));
        let clients = clients.collect::<Result<Vec<_>>>()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (shards, info) = runtime.block_on(connect(clients))?;
        let front = FrontServer {
            shards,
            rows: info.set.rows,
            dim: info.space.dim,
            metrics: Arc::clone(&self.gate.metrics),
            uploads: Semaphore::new(CONCURRENT_UPLOADS),
            health: Mutex::new(None),
        };
        let what = format!("{} rows of {} shards", front.rows, front.shards.len());
        let router = router(Arc::new(front), Arc::clone(&self.gate));
        self.run(router, reporter, &what, || {})
    }
}

/// Requests `/api/info` from every server and checks that the servers hold all shards of one set, in order. Returns the
/// shards and the info of the first one.
async fn connect(clients: Vec<ShardClient>) -> Result<(Vec<Arc<Shard>>, ServerInfo)> {
    let (of, mut first, mut shards) = (clients.len(), None, Vec::new());
    for (i, client) in clients.into_iter().enumerate() {
        let url = client.url.clone();
        let info = match client.send(Method::GET, "/api/info", None).await {
            Ok(reply) => client.read::<ServerInfo>(&reply),
            Err(error) => Err(error),
        };
        let info = info.map_err(|error| Error::option("requesting /api/info from a shard")(error.message))?;
        let shard = info.shard_identity();
        let check = |right: bool, found: String, expected: String| {
            if right { Ok(()) } else { Err(Error::invalid(format!("--shard {url}"), found, expected)) }
        };
        check(
            (shard.index, shard.count) == (i, of),
            format!("the server holds part {}/{} of its set", shard.index, shard.count),
            format!("a server started with --shard {i}/{of} at this position"),
        )?;
        let text = |set: &SetIdentity| json!(set).to_string();
        let first = first.get_or_insert_with(|| info.clone());
        check(
            info.set == first.set && info.space == first.space,
            format!("the server holds a part of the set {}", text(&info.set)),
            format!(
                "a part of {}, as on the first shard: all shards need the same set, store version and --tree",
                text(&first.set)
            ),
        )?;
        let rows = shard.rows(info.set.rows);
        check(
            info.rows == rows,
            format!("the server has {} rows", info.rows),
            format!("{rows} in part {i}/{of} of {} rows", info.set.rows),
        )?;
        shards.push(Arc::new(Shard { client, identity: shard, rows }));
    }
    let first = first.ok_or_else(|| Error::invalid("--shard", "none", "at least one"))?;
    Ok((shards, first))
}
