//! From the command line to a running front.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use axum::http::Method;
use serde_json::json;
use tokio::sync::Semaphore;

use super::super::start::{UPLOADS, door, run, token};
use super::client::Shard;
use super::{Front, router};
use crate::cli::Front as Args;

pub(crate) fn front(args: Args, as_json: bool) -> anyhow::Result<()> {
    let (listener, gate) = door(&args.door, args.max_upload, as_json)?;
    let token = args.shard_token_file.as_deref().map(token).transpose()?;
    // A shard that takes longer is named, which needs the rest of the time.
    let limit = Duration::from_secs_f64(args.door.timeout * 0.9);
    let shards = args.shards.iter().map(|url| Shard::new(url, token.clone(), limit).map(Arc::new));
    let shards = shards.collect::<anyhow::Result<Vec<_>>>()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(check(&shards))?;
    let gate = Arc::new(gate);
    let metrics = Arc::clone(&gate.metrics);
    let front = Front { shards, metrics, max_upload: args.max_upload, uploads: Semaphore::new(UPLOADS) };
    let what = format!("{} shards", front.shards.len());
    run(listener, router(Arc::new(front), Arc::clone(&gate)), &gate, &args.door, as_json, &what)
}

/// That the shards are the parts of one set, in order.
async fn check(shards: &[Arc<Shard>]) -> anyhow::Result<()> {
    let mut first = None;
    for (i, shard) in shards.iter().enumerate() {
        let info = shard.json(Method::GET, "/api/info", None).await;
        let info = info.map_err(|error| anyhow::anyhow!(error.message)).context("asking a shard what it holds")?;
        let expected = json!([i, shards.len()]);
        ensure!(
            info["shard"] == expected || (shards.len() == 1 && info["shard"].is_null()),
            "--shard {}: it serves part {} of its set; expected --shard {i}/{} there, by its place in this command",
            shard.url,
            info["shard"],
            shards.len()
        );
        let set = json!([info["space"], info["root"], info["model"]]);
        let same = first.get_or_insert_with(|| set.clone());
        ensure!(*same == set, "--shard {}: it serves {set}; expected {same}, as the first one does", shard.url);
    }
    Ok(())
}
