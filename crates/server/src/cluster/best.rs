//! Merges the best rows of all shards page by page, with at most one page per shard in memory.

use std::collections::HashSet;
use std::sync::Arc;
use std::vec::IntoIter;

use axum::http::Method;

use super::client::Shard;
use super::merge::HitKey;
use super::{FrontServer, written};
use crate::api::replies::{QueryInfo, RowReply, SampledScores, SearchReply};
use crate::api::requests::{MAX_HITS, SearchRequest};
use crate::error::{HttpError, HttpResult};

/// The merged result of a search.
pub(crate) struct BestHits {
    /// Best first.
    pub(crate) hits: Vec<RowReply<'static>>,
    pub(crate) query: QueryInfo,
    /// Number of rows that pass the filter.
    pub(crate) rows_passing: usize,
    pub(crate) scores: Option<SampledScores>,
}

/// The hits of one shard, best first.
struct ShardCursor {
    shard: Arc<Shard>,
    large_first: bool,
    page: IntoIter<RowReply<'static>>,
    last: Option<HitKey>,
    /// Numbers of the rows received so far. Their count is the offset of the next page.
    received: HashSet<usize>,
    ended: bool,
}

impl FrontServer {
    /// Returns the `k` best rows after the first `offset` rows. The caller has resolved all queries of `search` to
    /// points. The `k` and `offset` fields of `search` are ignored.
    pub(crate) async fn best(&self, mut search: SearchRequest, offset: usize, k: usize) -> HttpResult<BestHits> {
        // All of the best rows may be on one shard. Therefore the first request asks every shard for `needed` rows, but
        // for at most one page of `MAX_HITS`.
        let (needed, large_first) = (offset + k, search.by().large_first());
        let mut page = |from: usize, left: usize| {
            let length = left.min(MAX_HITS);
            (search.offset, search.k) = (Some(from), Some(length));
            HttpResult::Ok((written(&search)?, length))
        };
        let (request, length) = page(0, needed)?;
        let (mut cursors, mut query_info, mut passing, mut scores) = (Vec::new(), None, 0, Vec::new());
        for (shard, found) in
            self.shards.iter().zip(self.all::<SearchReply<'static>>(Method::POST, "/api/search", Some(request)).await?)
        {
            let mut cursor = ShardCursor::new(Arc::clone(shard), large_first);
            if found.rows_passing > shard.rows {
                let what = format!("`rows_passing` is {}; the shard has {} rows", found.rows_passing, shard.rows);
                return Err(shard.client.unexpected(&what));
            }
            passing += found.rows_passing;
            cursor.take(found.hits, length)?;
            query_info.get_or_insert(found.query);
            scores.push(found.scores);
            cursors.push(cursor);
        }
        let (mut hits, mut last) = (Vec::new(), None);
        for rank in 0..needed {
            for cursor in cursors.iter_mut().filter(|it| it.page.as_slice().is_empty() && !it.ended) {
                let (request, length) = page(cursor.received.len(), needed - rank)?;
                let found: SearchReply<'static> = cursor.shard.json(Method::POST, "/api/search", Some(request)).await?;
                cursor.take(found.hits, length)?;
            }
            let best = cursors.iter_mut().filter_map(|it| Some((it.next_key()?, it))).min_by_key(|(key, _)| *key);
            let Some(hit) = best.and_then(|(_, cursor)| cursor.page.next()) else { break };
            last = if rank + 1 == needed { hit.score } else { None };
            if rank >= offset {
                hits.push(hit);
            }
        }
        let query = query_info.ok_or_else(|| HttpError::fault("the front has no shards"))?;
        let mut scores = SampledScores::merged(scores.into_iter(), large_first);
        // Drop the best score if it belongs to a row after the last merged hit.
        if let (Some(SampledScores { best, .. }), Some(last)) = (&mut scores, last) {
            *best = best.filter(|it| if large_first { *it >= last } else { *it <= last });
        }
        let scores = scores.filter(|it| it.range.is_some() || it.best.is_some());
        Ok(BestHits { hits, query, rows_passing: passing, scores })
    }
}

impl ShardCursor {
    fn new(shard: Arc<Shard>, large_first: bool) -> Self {
        ShardCursor {
            shard,
            large_first,
            page: Vec::new().into_iter(),
            last: None,
            received: HashSet::new(),
            ended: false,
        }
    }

    /// Stores the next page, for which `length` hits were requested.
    ///
    /// # Errors
    /// 503: the hits are too many, unsorted or repeated, or have no score.
    fn take(&mut self, hits: Vec<RowReply<'static>>, length: usize) -> HttpResult<()> {
        let wrong = |what: String| Err(self.shard.client.unexpected(&what));
        if hits.len() > length {
            return wrong(format!("{} hits; expected at most {length}", hits.len()));
        }
        let mut page = Vec::with_capacity(hits.len());
        for hit in hits {
            if hit.score.is_none() {
                return wrong(format!("row {} has no score", hit.row));
            }
            let hit = self.shard.renumber(hit)?;
            let key = HitKey::of(&hit, self.large_first);
            if self.last.is_some_and(|last| last >= key) {
                return wrong("unsorted hits".to_owned());
            }
            if !self.received.insert(hit.row) {
                return wrong("a repeated row".to_owned());
            }
            self.last = Some(key);
            page.push(hit);
        }
        self.ended = page.len() < length;
        self.page = page.into_iter();
        Ok(())
    }

    fn next_key(&self) -> Option<HitKey> {
        self.page.as_slice().first().map(|it| HitKey::of(it, self.large_first))
    }
}
