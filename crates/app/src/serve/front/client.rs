//! A shard as the front sees it: requests over HTTP, each on a connection of its own.

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

use super::super::error::{Answer, Refusal};
use super::super::part::Part;
use super::told::Hit;

/// Most bytes of an answer.
const MOST_BYTES: usize = 64 << 20;

/// Where a server is.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    /// As it was given, for messages.
    pub(crate) url: String,
    authority: String,
    token: Option<String>,
    limit: Duration,
}

/// The server of a part of the set.
#[derive(Clone, Debug)]
pub(crate) struct Shard {
    pub(crate) client: Client,
    /// What it held when the front was started, and has to hold in every answer.
    pub(crate) part: Part,
    /// Rows of this part.
    pub(crate) rows: usize,
}

/// An answer of a server.
pub(crate) struct Reply {
    pub(crate) bytes: Vec<u8>,
    status: StatusCode,
    headers: HeaderMap,
}

impl Client {
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

    /// Asks, and waits for the whole answer.
    ///
    /// # Errors
    /// 503, naming the server, when it does not answer, meets a fault, or does not let us in.
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
        let (head, mut incoming) = response.into_parts();
        let mut bytes = Vec::new();
        while let Some(frame) = incoming.frame().await {
            if let Ok(data) = frame?.into_data() {
                ensure!(bytes.len() + data.len() <= MOST_BYTES, "an answer of more than {MOST_BYTES} bytes");
                bytes.extend_from_slice(&data);
            }
        }
        connection.abort();
        let reply = Reply { bytes, status: head.status, headers: head.headers };
        // A fault of the server's, or its door closed to us, is its absence: whoever asks us can do nothing about it.
        let closed = matches!(reply.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        if closed || reply.status.is_server_error() {
            bail!("{}: {}", reply.status, reply.message().as_deref().unwrap_or("no reason"));
        }
        Ok(reply)
    }

    fn gone(&self, why: &str) -> Refusal {
        Refusal::unavailable(format!("the shard {} does not answer: {why}", self.url))
    }

    /// The JSON of an answer; what the server refuses is refused in its words.
    pub(crate) fn read<T: DeserializeOwned>(&self, reply: &Reply) -> Answer<T> {
        self.good(reply)?;
        serde_json::from_slice(&reply.bytes).map_err(|error| self.wrong(&error.to_string()))
    }

    /// That an answer is no refusal.
    pub(crate) fn good(&self, reply: &Reply) -> Answer<()> {
        if reply.status.is_success() {
            return Ok(());
        }
        match reply.message() {
            Some(message) if reply.status.is_client_error() => Err(Refusal::new(reply.status, message)),
            _ => Err(self.wrong(&format!("the status {}", reply.status))),
        }
    }

    /// The refusal of an answer that cannot be one.
    pub(crate) fn wrong(&self, what: &str) -> Refusal {
        Refusal::unavailable(format!("the shard {} answers what no shard does: {what}", self.url))
    }
}

impl Shard {
    /// Asks, and sees to it that the answer comes from the part that the front was started with.
    ///
    /// # Errors
    /// Those of [`Client::ask`]; 503 where another set, another version of it or another part of it is served there by now.
    pub(crate) async fn ask(&self, method: Method, path: &str, body: Option<Vec<u8>>) -> Answer<Reply> {
        let reply = self.client.ask(method, path, body).await?;
        match self.part.other(&reply.headers) {
            None => Ok(reply),
            Some(other) => Err(Refusal::unavailable(format!(
                "the shard {} serves {other}; expected {}, as when this front was started",
                self.client.url, self.part
            ))),
        }
    }

    /// The JSON of an answer.
    pub(crate) async fn json<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> Answer<T> {
        self.client.read(&self.ask(method, path, body).await?)
    }

    /// A hit of this shard with the number of its row in the whole set.
    ///
    /// # Errors
    /// 503: a row that the shard cannot have.
    pub(crate) fn renumber(&self, mut hit: Hit) -> Answer<Hit> {
        if hit.row >= self.rows {
            return Err(self.client.wrong(&format!("row {}; it has {} rows", hit.row, self.rows)));
        }
        hit.row = hit.row * self.part.of + self.part.part;
        Ok(hit)
    }
}

impl Reply {
    pub(crate) fn is_absent(&self) -> bool {
        self.status == StatusCode::NOT_FOUND
    }

    pub(crate) fn is_jpeg(&self) -> bool {
        self.headers.get(CONTENT_TYPE).is_some_and(|it| it == "image/jpeg")
    }

    fn message(&self) -> Option<String> {
        let told: Value = serde_json::from_slice(&self.bytes).ok()?;
        Some(told.get("error")?.get("message")?.as_str()?.to_owned())
    }
}
