//! A shard as the front sees it: requests over HTTP, each on a connection of its own.

use std::net::ToSocketAddrs as _;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use axum::body::Body;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use axum::http::{Method, Request, StatusCode, Uri};
use http_body_util::BodyExt as _;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

use super::super::error::{Answer, Refusal};

/// Most bytes of an answer.
const MOST_BYTES: usize = 64 << 20;

/// Where a shard is.
#[derive(Clone, Debug)]
pub(crate) struct Shard {
    /// As it was given, for messages.
    pub(crate) url: String,
    authority: String,
    token: Option<String>,
    limit: Duration,
}

/// An answer of a shard.
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) kind: String,
    pub(crate) bytes: Vec<u8>,
}

impl Shard {
    /// # Errors
    /// No URL of the form `http://HOST[:PORT]`.
    pub(crate) fn new(url: &str, token: Option<String>, limit: Duration) -> anyhow::Result<Self> {
        let place = || format!("--shard {url}: expected http://HOST:PORT");
        let uri: Uri = url.parse().with_context(place)?;
        ensure!(uri.scheme_str() == Some("http") && matches!(uri.path(), "" | "/") && uri.query().is_none(), place());
        let authority = uri.authority().with_context(place)?;
        let port = authority.port_u16().unwrap_or(80);
        let authority = format!("{}:{port}", authority.host());
        authority.to_socket_addrs().with_context(place)?;
        Ok(Self { url: url.to_owned(), authority, token, limit })
    }

    /// The JSON of an answer; what the shard refuses is refused in its words.
    pub(crate) async fn json(&self, method: Method, path: &str, body: Option<Vec<u8>>) -> Answer<Value> {
        let reply = self.ask(method, path, body).await?;
        serde_json::from_slice(&reply.good(self)?.bytes).map_err(|error| self.gone(&error.to_string()))
    }

    /// Asks, and waits for the whole answer.
    ///
    /// # Errors
    /// 503, naming the shard, when it does not answer.
    pub(crate) async fn ask(&self, method: Method, path: &str, body: Option<Vec<u8>>) -> Answer<Reply> {
        match tokio::time::timeout(self.limit, self.exchange(method, path, body)).await {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(error)) => Err(self.gone(&format!("{error:#}"))),
            Err(_) => Err(self.gone(&format!("nothing within {} s", self.limit.as_secs_f64()))),
        }
    }

    async fn exchange(&self, method: Method, path: &str, body: Option<Vec<u8>>) -> anyhow::Result<Reply> {
        let stream = TcpStream::connect(&self.authority).await?;
        stream.set_nodelay(true)?;
        let (mut send, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        // It ends with the answer; what goes wrong on it is told by the answer.
        let connection = tokio::spawn(connection);
        let mut request = Request::builder().method(method).uri(path).header(HOST, &self.authority);
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let response = send.send_request(request.body(Body::from(body.unwrap_or_default()))?).await?;
        let status = response.status();
        let kind = response.headers().get(CONTENT_TYPE).and_then(|it| it.to_str().ok()).unwrap_or_default().to_owned();
        let mut incoming = response.into_body();
        let mut bytes = Vec::new();
        while let Some(frame) = incoming.frame().await {
            if let Ok(data) = frame?.into_data() {
                ensure!(bytes.len() + data.len() <= MOST_BYTES, "an answer of more than {MOST_BYTES} bytes");
                bytes.extend_from_slice(&data);
            }
        }
        connection.abort();
        Ok(Reply { status, kind, bytes })
    }

    pub(crate) fn gone(&self, why: &str) -> Refusal {
        Refusal::unavailable(format!("the shard {} does not answer: {why}", self.url))
    }
}

impl Reply {
    /// The answer, or the refusal that it is. A fault of a shard is told as its absence.
    pub(crate) fn good(self, shard: &Shard) -> Answer<Reply> {
        if self.status.is_success() {
            return Ok(self);
        }
        let told: Value = serde_json::from_slice(&self.bytes).unwrap_or_default();
        let message = told["error"]["message"].as_str().unwrap_or("no reason");
        let ours = self.status.is_client_error() && self.status != StatusCode::UNAUTHORIZED;
        match ours {
            true => Err(Refusal::new(self.status, message)),
            false => Err(shard.gone(&format!("{}: {message}", self.status))),
        }
    }
}
