//! HTTP client of a front for its shards. Every request opens a new connection.

use std::net::ToSocketAddrs as _;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use axum::body::Body;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use axum::http::{HeaderMap, Method, Request, StatusCode, Uri};
use http_body_util::BodyExt as _;
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::net::TcpStream;

use super::super::error::{HttpError, HttpResult};
use super::super::identity::ShardIdentity;
use super::shard_replies::ShardHit;

/// Maximum size of a response in bytes.
const MAX_RESPONSE_BYTES: usize = 64 << 20;

/// Address, token and timeout for requests to one server.
#[derive(Clone, Debug)]
pub(crate) struct ShardClient {
    /// The URL as the user gave it, for messages.
    pub(crate) url: String,
    authority: String,
    token: Option<String>,
    timeout: Duration,
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

/// A response of a server.
pub(crate) struct ShardReply {
    pub(crate) bytes: Vec<u8>,
    status: StatusCode,
    headers: HeaderMap,
}

impl ShardClient {
    /// # Errors
    /// The URL does not have the form `http://HOST[:PORT]`, or the host cannot be resolved.
    pub(crate) fn new(url: &str, token: Option<String>, timeout: Duration) -> anyhow::Result<Self> {
        let expected = || format!("--shard {url}: expected http://HOST:PORT");
        let uri: Uri = url.parse().with_context(expected)?;
        ensure!(
            uri.scheme_str() == Some("http") && matches!(uri.path(), "" | "/") && uri.query().is_none(),
            expected()
        );
        let authority = uri.authority().with_context(expected)?;
        let port = authority.port_u16().unwrap_or(80);
        let authority = format!("{}:{port}", authority.host());
        authority.to_socket_addrs().with_context(expected)?;
        Ok(Self { url: url.to_owned(), authority, token, timeout })
    }

    /// Sends a request and reads the whole response.
    ///
    /// # Errors 503 with the URL of the server if the exchange fails or times out, or if the server returns a server
    /// error or rejects the token.
    pub(crate) async fn send(&self, method: Method, path: &str, body: Option<Vec<u8>>) -> HttpResult<ShardReply> {
        match tokio::time::timeout(self.timeout, self.exchange(method, path, body)).await {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(error)) => Err(self.no_answer(&format!("{error:#}"))),
            Err(_) => Err(self.no_answer(&format!("no response within {} s", self.timeout.as_secs_f64()))),
        }
    }

    async fn exchange(&self, method: Method, path: &str, body: Option<Vec<u8>>) -> anyhow::Result<ShardReply> {
        let stream = TcpStream::connect(&self.authority).await?;
        stream.set_nodelay(true)?;
        let (mut send, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        // This task drives the connection. A connection error also fails `send_request` or the body, so the task's
        // result is not read.
        let connection = tokio::spawn(connection);
        let mut request = Request::builder().method(method).uri(path).header(HOST, &self.authority);
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let response = send.send_request(request.body(Body::from(body.unwrap_or_default()))?).await?;
        let (head, mut incoming) = response.into_parts();
        let mut bytes = Vec::new();
        while let Some(frame) = incoming.frame().await {
            if let Ok(data) = frame?.into_data() {
                ensure!(
                    bytes.len() + data.len() <= MAX_RESPONSE_BYTES,
                    "the response is longer than {MAX_RESPONSE_BYTES} bytes"
                );
                bytes.extend_from_slice(&data);
            }
        }
        connection.abort();
        let reply = ShardReply { bytes, status: head.status, headers: head.headers };
        // The client of the front cannot fix a server error or a rejected token, so both count as an unavailable shard.
        let closed = matches!(reply.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        if closed || reply.status.is_server_error() {
            bail!("{}: {}", reply.status, reply.message().as_deref().unwrap_or("no message"));
        }
        Ok(reply)
    }

    fn no_answer(&self, why: &str) -> HttpError {
        HttpError::unavailable(format!("the shard {} does not answer: {why}", self.url))
    }

    /// Parses the JSON of a response. A client error of the server is passed on with its status and message.
    pub(crate) fn read<T: DeserializeOwned>(&self, reply: &ShardReply) -> HttpResult<T> {
        self.check_success(reply)?;
        serde_json::from_slice(&reply.bytes).map_err(|error| self.unexpected(&error.to_string()))
    }

    /// Returns an error unless the response is a success.
    pub(crate) fn check_success(&self, reply: &ShardReply) -> HttpResult<()> {
        if reply.status.is_success() {
            return Ok(());
        }
        match reply.message() {
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
    /// Those of [`ShardClient::send`]; 503 if the server now holds another set, another version of the set or another
    /// shard.
    pub(crate) async fn send(&self, method: Method, path: &str, body: Option<Vec<u8>>) -> HttpResult<ShardReply> {
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
    pub(crate) fn renumber(&self, mut hit: ShardHit) -> HttpResult<ShardHit> {
        if hit.row >= self.rows {
            return Err(self.client.unexpected(&format!("row {}; the shard has {} rows", hit.row, self.rows)));
        }
        hit.row = hit.row * self.identity.count + self.identity.index;
        Ok(hit)
    }
}

impl ShardReply {
    pub(crate) fn is_absent(&self) -> bool {
        self.status == StatusCode::NOT_FOUND
    }

    pub(crate) fn is_jpeg(&self) -> bool {
        self.headers.get(CONTENT_TYPE).is_some_and(|it| it == "image/jpeg")
    }

    fn message(&self) -> Option<String> {
        let body: Value = serde_json::from_slice(&self.bytes).ok()?;
        Some(body.get("error")?.get("message")?.as_str()?.to_owned())
    }
}
