//! Requests of a front to its shards.

use std::time::Duration;

use axum::http::{Method, StatusCode};
use conifer_search::{ClientReply, PlainHttpClient};
use serde::de::DeserializeOwned;

use crate::api::replies::{ErrorReply, RowReply};
use crate::error::{HttpError, HttpResult};
use crate::set::identity::ShardIdentity;
use crate::start_error::{Error, Result};

/// Maximum size of a response in bytes.
const MAX_RESPONSE_BYTES: usize = 64 << 20;

/// Address, token and timeout for requests to one server.
#[derive(Clone, Debug)]
pub(crate) struct ShardClient {
    /// The URL as the user gave it, for messages.
    pub(crate) url: String,
    http: PlainHttpClient,
}

/// A server that holds one shard of the set.
#[derive(Clone, Debug)]
pub(crate) struct Shard {
    pub(crate) client: ShardClient,
    /// The shard that the server held when the front started. Every response must come from the same shard.
    pub(crate) identity: ShardIdentity,
    /// Number of rows of this shard.
    pub(crate) rows: usize,
}

impl ShardClient {
    /// # Errors
    /// The URL does not have the form `http://HOST[:PORT]`, the host cannot be resolved, or the token has bytes that a
    /// header cannot contain.
    pub(crate) fn new(url: &str, token: Option<&str>, timeout: Duration) -> Result<Self> {
        let option = format!("--shard {url}");
        let http = PlainHttpClient::new(url, token, timeout, MAX_RESPONSE_BYTES).map_err(Error::option(&option))?;
        if http.path() != "/" {
            return Err(Error::invalid(option, format!("the path {}", http.path()), "http://HOST:PORT without a path"));
        }
        Ok(Self { url: url.to_owned(), http })
    }

    /// Sends a request and reads the whole response.
    ///
    /// # Errors
    /// 503 with the URL of the server if the exchange fails or times out, or if the server returns a server error or
    /// rejects the token.
    pub(crate) async fn send(&self, method: Method, path: &str, body: Option<Vec<u8>>) -> HttpResult<ClientReply> {
        let reply = self.http.send(method, path, body).await.map_err(|error| self.no_answer(&error.to_string()))?;
        // The client of the front cannot fix a server error or a rejected token, so both count as an unavailable shard.
        let closed = matches!(reply.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        if closed || reply.status.is_server_error() {
            let message = error_message(&reply);
            return Err(self.no_answer(&format!("{}: {}", reply.status, message.as_deref().unwrap_or("no message"))));
        }
        Ok(reply)
    }

    fn no_answer(&self, why: &str) -> HttpError {
        HttpError::unavailable(format!("the shard {} does not answer: {why}", self.url))
    }

    /// Parses the JSON of a response. A 4xx response of the shard is returned with its status and message. Any other
    /// error response becomes 503.
    pub(crate) fn read<T: DeserializeOwned>(&self, reply: &ClientReply) -> HttpResult<T> {
        self.check_success(reply)?;
        serde_json::from_slice(&reply.bytes).map_err(|error| self.unexpected(&error.to_string()))
    }

    /// Returns an error unless the response is a success.
    pub(crate) fn check_success(&self, reply: &ClientReply) -> HttpResult<()> {
        if reply.status.is_success() {
            return Ok(());
        }
        match error_message(reply) {
            Some(message) if reply.status.is_client_error() => Err(HttpError::new(reply.status, message)),
            _ => Err(self.unexpected(&format!("status {}", reply.status))),
        }
    }

    /// The error for a response that a shard of this version cannot send.
    pub(crate) fn unexpected(&self, what: &str) -> HttpError {
        HttpError::unavailable(format!("unexpected response of the shard {}: {what}", self.url))
    }
}

impl Shard {
    /// Sends a request and checks that the response comes from the shard that the server held when the front started.
    ///
    /// # Errors
    /// The errors of [`ShardClient::send`]; 503 if the server now holds another set, another version of the set or
    /// another shard.
    pub(crate) async fn send(&self, method: Method, path: &str, body: Option<Vec<u8>>) -> HttpResult<ClientReply> {
        let reply = self.client.send(method, path, body).await?;
        match self.identity.other(&reply.headers) {
            None => Ok(reply),
            Some(other) => Err(HttpError::unavailable(format!(
                "the shard {} serves {other}; expected {}, as at the start of this front",
                self.client.url, self.identity
            ))),
        }
    }

    /// Sends a request and parses the JSON of the response.
    pub(crate) async fn json<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> HttpResult<T> {
        self.client.read(&self.send(method, path, body).await?)
    }

    /// Converts the row number of a hit from the shard to the whole set.
    ///
    /// # Errors
    /// 503: the shard has no such row.
    pub(crate) fn renumber<'a>(&self, mut hit: RowReply<'a>) -> HttpResult<RowReply<'a>> {
        if hit.row >= self.rows {
            return Err(self.client.unexpected(&format!("row {}; the shard has {} rows", hit.row, self.rows)));
        }
        hit.row = hit.row * self.identity.count + self.identity.index;
        Ok(hit)
    }
}

/// The message of an error response of a conifer server.
fn error_message(reply: &ClientReply) -> Option<String> {
    let reply: ErrorReply<'_> = serde_json::from_slice(&reply.bytes).ok()?;
    Some(reply.error.message.into_owned())
}
