//! `conifer front`: a server that combines several servers, each with one shard of a set.
//!
//! A search goes to all shards. Its response equals that of one index over all rows. If a shard does not answer or
//! serves another set, the response is an error that names the shard.

mod best;
mod client;
mod connect;
mod merge;
mod router;

use std::sync::Arc;
use std::time::Instant;

use axum::http::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::{Mutex, Semaphore};
use tokio::task::JoinSet;

use crate::api::replies::{PointReply, RowReply};
use crate::api::requests::{PointQuery, PointRequest};
use crate::api::rows::MAX_ROWS;
use crate::error::{HttpError, HttpResult};
use crate::metrics::Metrics;
use client::Shard;

/// The shards in order of their shard number, and the shared state of the handlers.
pub(crate) struct FrontServer {
    shards: Vec<Arc<Shard>>,
    /// Number of rows of all shards.
    rows: usize,
    /// Number of coordinates of a point.
    dim: usize,
    metrics: Arc<Metrics>,
    /// Permits for photos that are forwarded to a shard.
    uploads: Semaphore,
    /// Time and result of the last health check of the shards.
    health: Mutex<Option<(Instant, HttpResult<()>)>>,
}

impl FrontServer {
    /// Sends the same request to all shards concurrently, and returns the responses in shard order.
    async fn all<T: DeserializeOwned + Send + 'static>(
        &self,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> HttpResult<Vec<T>> {
        let mut requests = JoinSet::new();
        for (i, shard) in self.shards.iter().enumerate() {
            let (shard, method, path, body) = (Arc::clone(shard), method.clone(), path.to_owned(), body.clone());
            requests.spawn(async move { (i, shard.json::<T>(method, &path, body).await) });
        }
        let mut answers = Vec::new();
        while let Some(done) = requests.join_next().await {
            let (i, answer) = done.map_err(|error| HttpError::fault(error.to_string()))?;
            answers.push((i, answer?));
        }
        answers.sort_by_key(|(i, _)| *i);
        Ok(answers.into_iter().map(|(_, answer)| answer).collect())
    }

    fn first(&self) -> HttpResult<&Shard> {
        self.shards.first().map(AsRef::as_ref).ok_or_else(|| HttpError::fault("the front has no shards"))
    }

    /// Returns the shard that holds a row, and the number of the row on that shard.
    fn holder(&self, row: usize) -> HttpResult<(&Shard, usize)> {
        if row >= self.rows {
            return Err(HttpError::absent(format!("no row {row}; expected a number below {}", self.rows)));
        }
        Ok((&self.shards[row % self.shards.len()], row / self.shards.len()))
    }

    /// Fetches a row from the shard that holds it.
    async fn row(&self, row: usize) -> HttpResult<RowReply<'static>> {
        let (shard, local) = self.holder(row)?;
        let hit: RowReply<'static> = shard.json(Method::GET, &format!("/api/rows/{local}"), None).await?;
        if hit.row != local {
            return Err(shard.client.unexpected(&format!("row {}; expected row {local}", hit.row)));
        }
        shard.renumber(hit)
    }

    /// Fetches the rows that match `query`, the URL query of `GET /api/rows`: the first [`MAX_ROWS`] in ascending
    /// order.
    async fn rows_of(&self, query: &str) -> HttpResult<Vec<RowReply<'static>>> {
        let mut rows = Vec::new();
        let found = self.all::<Vec<RowReply<'static>>>(Method::GET, &format!("/api/rows?{query}"), None).await?;
        for (shard, found) in self.shards.iter().zip(found) {
            for hit in found {
                rows.push(shard.renumber(hit)?);
            }
        }
        rows.sort_by_key(|hit| hit.row);
        rows.truncate(MAX_ROWS);
        Ok(rows)
    }

    /// Resolves a query to a query by point.
    async fn point(&self, query: &PointQuery) -> HttpResult<PointQuery> {
        let Some(parts) = &query.all else { return self.single(query).await };
        let mut points = Vec::new();
        for it in parts {
            points.push(self.single(it).await?);
        }
        self.resolve_point(self.first()?, PointQuery { all: Some(points), ..PointQuery::default() }).await
    }

    async fn single(&self, query: &PointQuery) -> HttpResult<PointQuery> {
        if query.point.is_some() {
            // The shards validate the point.
            return Ok(query.clone());
        }
        let mut row = query.row;
        if let Some(id) = &query.id {
            let encoded: String = form_urlencoded::byte_serialize(id.as_bytes()).collect();
            let rows = self.rows_of(&format!("id={encoded}")).await?;
            let found = rows.first().ok_or_else(|| HttpError::absent(format!("no row has the id `{id}`")))?;
            row = Some(found.row);
        }
        match row {
            Some(row) => {
                let (shard, local) = self.holder(row)?;
                self.resolve_point(shard, PointQuery::of_row(local)).await
            }
            None => self.resolve_point(self.first()?, query.clone()).await,
        }
    }

    /// Resolves `query` on one shard to a query by point, which every shard accepts.
    async fn resolve_point(&self, shard: &Shard, query: PointQuery) -> HttpResult<PointQuery> {
        let body = written(&PointRequest { query })?;
        let PointReply { point } = shard.json(Method::POST, "/api/point", Some(body)).await?;
        if point.len() != self.dim {
            return Err(shard.client.unexpected(&format!(
                "a point of {} coordinates; expected {}",
                point.len(),
                self.dim
            )));
        }
        Ok(PointQuery::of_point(point))
    }

    /// Resolves the queries of a filter: `inside` and `not`.
    async fn resolve_filter(
        &self,
        inside: &mut Option<PointQuery>,
        not: &mut Option<Vec<PointQuery>>,
    ) -> HttpResult<()> {
        for it in inside.iter_mut().chain(not.iter_mut().flatten()) {
            *it = self.point(it).await?;
        }
        Ok(())
    }
}

/// The JSON of a request to a shard.
fn written(request: &impl Serialize) -> HttpResult<Vec<u8>> {
    serde_json::to_vec(request).map_err(|error| HttpError::fault(error.to_string()))
}
