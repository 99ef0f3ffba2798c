//! HTTP/1.1 client without TLS, for shards and embedding endpoints. Every request opens a new connection.

use std::fmt;
use std::net::ToSocketAddrs as _;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{HeaderMap, Method, Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::{Error, Result};

/// Client of one server, with limits for every request.
#[derive(Clone, Debug)]
pub struct PlainHttpClient {
    /// `HOST:PORT`.
    authority: String,
    /// Path of the URL; `/` if it has none.
    path: String,
    bearer: Option<BearerToken>,
    timeout: Duration,
    /// Maximum size of a response body in bytes.
    max_bytes: usize,
}

/// Value of the header `Authorization`. Its `Debug` output hides the token.
#[derive(Clone, Debug)]
struct BearerToken(HeaderValue);

/// A complete response.
pub struct ClientReply {
    /// Status code.
    pub status: StatusCode,
    /// Response headers.
    pub headers: HeaderMap,
    /// Complete response body.
    pub bytes: Vec<u8>,
}

/// Reason why there is no complete response.
#[derive(Debug)]
#[non_exhaustive]
pub enum ClientError {
    /// There was no complete response within this time limit.
    Timeout(Duration),
    /// The connection failed, or the response is too long.
    Failed(Box<dyn std::error::Error + Send + Sync>),
}

impl PlainHttpClient {
    /// Creates a client. `token` is sent as `Authorization: Bearer TOKEN`.
    ///
    /// # Errors
    /// `url` does not have the form `http://HOST[:PORT][/PATH]`, its host cannot be resolved, or the token has bytes
    /// that a header cannot contain.
    pub fn new(url: &str, token: Option<&str>, timeout: Duration, max_bytes: usize) -> Result<Self> {
        let invalid = |found: String| Error::invalid("the URL", found, "http://HOST:PORT");
        let refused = |why: &dyn fmt::Display| invalid(format!("`{url}` ({why})"));
        let uri: Uri = url.parse().map_err(|error: hyper::http::uri::InvalidUri| refused(&error))?;
        if uri.scheme_str() != Some("http") || uri.query().is_some() {
            return Err(invalid(format!("`{url}`")));
        }
        let authority = uri.authority().ok_or_else(|| refused(&"no host"))?;
        let authority = format!("{}:{}", authority.host(), authority.port_u16().unwrap_or(80));
        authority.to_socket_addrs().map_err(|error| refused(&error))?;
        let bearer = token.map(|it| {
            // The error must not quote the key.
            let mut value = HeaderValue::from_str(&format!("Bearer {it}"))
                .map_err(|_| Error::invalid("the key", "text that an HTTP header cannot contain", "visible ASCII"))?;
            value.set_sensitive(true);
            Ok::<_, Error>(BearerToken(value))
        });
        Ok(Self { authority, path: uri.path().to_owned(), bearer: bearer.transpose()?, timeout, max_bytes })
    }

    /// Path of the URL; `/` if it has none.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Sends a request and reads the whole response. `body` is JSON.
    ///
    /// # Errors
    /// The connection fails, the response is longer than `max_bytes`, or there is no complete response within the time
    /// limit.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> std::result::Result<ClientReply, ClientError> {
        match tokio::time::timeout(self.timeout, self.exchange(method, path, body)).await {
            Ok(reply) => reply.map_err(ClientError::Failed),
            Err(_) => Err(ClientError::Timeout(self.timeout)),
        }
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> std::result::Result<ClientReply, Box<dyn std::error::Error + Send + Sync>> {
        let stream = TcpStream::connect(&self.authority).await?;
        stream.set_nodelay(true)?;
        let (mut send, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        // This task drives the connection. Its result is ignored, because a connection error also fails `send_request`
        // or the body.
        let connection = tokio::spawn(connection);
        let mut request = Request::builder().method(method).uri(path).header(HOST, &self.authority);
        if let Some(BearerToken(value)) = &self.bearer {
            request = request.header(AUTHORIZATION, value);
        }
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let response = send.send_request(request.body(Full::<Bytes>::from(body.unwrap_or_default()))?).await?;
        let (head, mut incoming) = response.into_parts();
        let mut bytes = Vec::new();
        while let Some(frame) = incoming.frame().await {
            if let Ok(data) = frame?.into_data() {
                if bytes.len() + data.len() > self.max_bytes {
                    return Err(format!("the response is longer than {} bytes", self.max_bytes).into());
                }
                bytes.extend_from_slice(&data);
            }
        }
        connection.abort();
        Ok(ClientReply { status: head.status, headers: head.headers, bytes })
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientError::Timeout(limit) => write!(to, "no response within {} s", limit.as_secs_f64()),
            ClientError::Failed(error) => {
                write!(to, "{error}")?;
                let mut cause = error.source();
                while let Some(error) = cause {
                    write!(to, ": {error}")?;
                    cause = error.source();
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn urls_other_than_plain_http_are_rejected() {
        let client = |url: &str, token: Option<&str>| PlainHttpClient::new(url, token, Duration::from_secs(1), 1);
        for url in ["https://127.0.0.1", "127.0.0.1:80", "http://", "ftp://127.0.0.1/", "http://127.0.0.1/v1?key=a", ""]
        {
            let error = format!("{:#}", client(url, None).unwrap_err());
            assert!(error.contains("expected http://HOST:PORT"), "{url}: {error}");
        }
        assert_eq!(client("http://127.0.0.1", None).unwrap().path(), "/");
        assert_eq!(client("http://127.0.0.1:1/v1/embeddings", None).unwrap().path(), "/v1/embeddings");
        let error = client("http://127.0.0.1", Some("hunter\n2")).unwrap_err();
        assert!(!format!("{error:#?}").contains("hunter") && error.to_string().contains("visible ASCII"), "{error:#}");
        let shown = format!("{:?}", client("http://127.0.0.1", Some("hunter2")).unwrap());
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
