//! Merges the best rows of all shards page by page, with at most one page per shard in memory.

use std::collections::HashSet;
use std::sync::Arc;
use std::vec::IntoIter;

use axum::http::Method;
use serde_json::{Map, Value, json};

use super::super::error::{Answer, Refusal};
use super::super::search::MOST_HITS;
use super::Front;
use super::client::Shard;
use super::told::{About, Found, Hit, Key};
use crate::ranking::By;

/// Ranked hits, information about the query, and the number of rows that pass the filter.
pub(crate) type Best = (Vec<Hit>, About, usize);

/// The hits of one shard, best first.
struct Stream {
    shard: Arc<Shard>,
    large_first: bool,
    page: IntoIter<Hit>,
    last: Option<Key>,
    /// Rows received so far.
    met: HashSet<usize>,
    ended: bool,
}

impl Front {
    /// Returns the `k` best rows after the first `offset` rows. `body` is a search request with all queries resolved to
    /// points, without `k` and `offset`.
    pub(crate) async fn best(&self, mut body: Map<String, Value>, by: By, offset: usize, k: usize) -> Answer<Best> {
        // All of the best rows may be on one shard.
        let wanted = offset + k;
        let mut page = |from: usize, left: usize| {
            let length = left.min(MOST_HITS);
            body.insert("offset".to_owned(), json!(from));
            body.insert("k".to_owned(), json!(length));
            (Value::Object(body.clone()), length)
        };
        let (asked, length) = page(0, wanted);
        let (mut streams, mut about, mut passing) = (Vec::new(), None, 0);
        for (shard, found) in
            self.shards.iter().zip(self.all::<Found>(Method::POST, "/api/search", Some(&asked)).await?)
        {
            let mut stream = Stream::new(Arc::clone(shard), by.large_first());
            if found.rows_passing > shard.rows {
                let what = format!("`rows_passing` is {}; the shard has {} rows", found.rows_passing, shard.rows);
                return Err(shard.client.wrong(&what));
            }
            passing += found.rows_passing;
            stream.take(found.hits, length)?;
            about.get_or_insert(found.query);
            streams.push(stream);
        }
        let mut hits = Vec::new();
        for place in 0..wanted {
            for stream in streams.iter_mut().filter(|it| it.page.as_slice().is_empty() && !it.ended) {
                let (asked, length) = page(stream.met.len(), wanted - place);
                let asked = asked.to_string().into_bytes();
                let found: Found = stream.shard.json(Method::POST, "/api/search", Some(asked)).await?;
                stream.take(found.hits, length)?;
            }
            let best = streams.iter_mut().filter_map(|it| Some((it.next_key()?, it))).min_by_key(|(key, _)| *key);
            let Some(hit) = best.and_then(|(_, stream)| stream.page.next()) else { break };
            if place >= offset {
                hits.push(hit);
            }
        }
        let about = about.ok_or_else(|| Refusal::fault("the front has no shards"))?;
        Ok((hits, about, passing))
    }
}

impl Stream {
    fn new(shard: Arc<Shard>, large_first: bool) -> Self {
        Stream { shard, large_first, page: Vec::new().into_iter(), last: None, met: HashSet::new(), ended: false }
    }

    /// Stores the next page, for which `length` hits were requested.
    ///
    /// # Errors
    /// 503: the hits are too many, unsorted or repeated, or have no score.
    fn take(&mut self, hits: Vec<Hit>, length: usize) -> Answer<()> {
        let wrong = |what: String| Err(self.shard.client.wrong(&what));
        if hits.len() > length {
            return wrong(format!("{} hits; expected at most {length}", hits.len()));
        }
        let mut page = Vec::with_capacity(hits.len());
        for hit in hits {
            if hit.score.is_none() {
                return wrong(format!("row {} has no score", hit.row));
            }
            let hit = self.shard.renumber(hit)?;
            let key = hit.key(self.large_first);
            if self.last.is_some_and(|last| last >= key) {
                return wrong("unsorted hits".to_owned());
            }
            if !self.met.insert(hit.row) {
                return wrong("a repeated row".to_owned());
            }
            self.last = Some(key);
            page.push(hit);
        }
        self.ended = page.len() < length;
        self.page = page.into_iter();
        Ok(())
    }

    fn next_key(&self) -> Option<Key> {
        self.page.as_slice().first().map(|it| it.key(self.large_first))
    }
}
