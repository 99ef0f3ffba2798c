//! Client of an OpenAI-compatible `/v1/embeddings` endpoint. It computes text vectors for a model that reads vectors
//! instead of texts.
//!
//! The request is `{"model": NAME, "input": [TEXT]}`, the response `{"data": [{"embedding": [..]}]}`
//! (<https://platform.openai.com/docs/api-reference/embeddings>). Errors contain neither the key nor the response body.

use std::fmt;
use std::time::Duration;

use hyper::Method;
use serde::{Deserialize, Serialize};

use crate::http_client::{ClientError, PlainHttpClient};
use crate::{Error, Result};

/// Path of the endpoint if the URL has none.
const DEFAULT_PATH: &str = "/v1/embeddings";
/// Maximum size of a response in bytes. A vector of 16,384 numbers takes about 350 kB.
const MAX_RESPONSE_BYTES: usize = 4 << 20;
/// Default timeout of a request.
pub const ENDPOINT_TIMEOUT: Duration = Duration::from_secs(20);

/// Address, model and key of an endpoint.
#[derive(Clone)]
pub struct EndpointSettings {
    /// `http://HOST:PORT[/PATH]`. The default path is `/v1/embeddings`.
    pub url: String,
    /// Name of the model that the endpoint should use.
    pub model: Option<String>,
    /// API key, sent as `Authorization: Bearer KEY`; `None`: no such header.
    pub key: Option<String>,
}

/// An embedding endpoint, and the width of the vectors that the model takes as input.
pub struct EmbeddingEndpoint {
    client: PlainHttpClient,
    path: String,
    model: Option<String>,
    width: usize,
}

/// Reason why the endpoint returned no usable vector.
#[derive(Debug)]
#[non_exhaustive]
pub enum EndpointError {
    /// There was no complete response within this time limit.
    Timeout(Duration),
    /// The connection failed, or the response is an error or has no vector of the expected width. The text describes
    /// the failure.
    BadReply(String),
}

#[derive(Serialize)]
struct EmbeddingsRequest<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
    input: [&'a str; 1],
}

#[derive(Deserialize)]
struct EmbeddingsReply {
    data: Vec<EmbeddingsItem>,
}

#[derive(Deserialize)]
struct EmbeddingsItem {
    embedding: Vec<f32>,
}

impl EmbeddingEndpoint {
    /// Creates a client for the model `name`. `width` is the width of the text vectors that the model reads; `None` if
    /// the model has a text encoder.
    ///
    /// # Errors
    /// The model has a text encoder. Also returns the errors of [`PlainHttpClient::new`].
    pub fn open(settings: &EndpointSettings, name: &str, width: Option<usize>, timeout: Duration) -> Result<Self> {
        let EndpointSettings { url, model, key } = settings;
        let width = width.ok_or_else(|| {
            Error::invalid(
                "the input of --embedding-endpoint",
                format!("a text, which the model {name} embeds itself"),
                "a model that reads vectors of texts, or no --embedding-endpoint",
            )
        });
        let endpoint = width.and_then(|width| Self::new(url, model.clone(), key.as_deref(), width, timeout));
        endpoint.map_err(|source| Error::Endpoint { url: url.clone(), source: Box::new(source) })
    }

    fn new(url: &str, model: Option<String>, key: Option<&str>, width: usize, timeout: Duration) -> Result<Self> {
        let client = PlainHttpClient::new(url, key, timeout, MAX_RESPONSE_BYTES)?;
        let path = if client.path() == "/" { DEFAULT_PATH } else { client.path() }.to_owned();
        Ok(Self { client, path, model, width })
    }

    /// Requests the vector of a text.
    ///
    /// # Errors
    /// The endpoint cannot be reached or does not respond in time, or its response has an error status or no vector of
    /// the expected width.
    pub async fn vector(&self, text: &str) -> std::result::Result<Vec<f32>, EndpointError> {
        let bad = |what: String| EndpointError::BadReply(what);
        let request = EmbeddingsRequest { model: self.model.as_deref(), input: [text] };
        let body = serde_json::to_vec(&request).map_err(|error| bad(error.to_string()))?;
        let reply = self.client.send(Method::POST, &self.path, Some(body)).await.map_err(|error| match error {
            ClientError::Timeout(limit) => EndpointError::Timeout(limit),
            error @ ClientError::Failed(_) => bad(error.to_string()),
        })?;
        if !reply.status.is_success() {
            return Err(bad(format!("status {}; expected 200", reply.status)));
        }
        // Omit the error of the parser, because it can quote the response.
        let parsed = serde_json::from_slice::<EmbeddingsReply>(&reply.bytes).ok();
        let item = parsed.and_then(|it| it.data.into_iter().next());
        let vector =
            item.ok_or_else(|| bad("no list of finite numbers at `data[0].embedding` of the response".to_owned()))?;
        let vector = vector.embedding;
        if vector.len() != self.width {
            return Err(bad(format!(
                "a vector of width {}; expected {}, as the model reads",
                vector.len(),
                self.width
            )));
        }
        Ok(vector)
    }

    /// [`EmbeddingEndpoint::vector`] for a caller without an async runtime.
    ///
    /// # Errors
    /// The runtime cannot start. Also returns the errors of [`EmbeddingEndpoint::vector`].
    pub fn vector_blocking(&self, text: &str) -> std::result::Result<Vec<f32>, EndpointError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime =
            runtime.map_err(|error| EndpointError::BadReply(format!("no connection is possible: {error}")))?;
        runtime.block_on(self.vector(text))
    }
}

impl fmt::Display for EndpointError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EndpointError::Timeout(limit) => {
                write!(to, "the embedding endpoint sent no response within {} s", limit.as_secs_f64())
            }
            EndpointError::BadReply(why) => write!(to, "the embedding endpoint failed: {why}"),
        }
    }
}

impl std::error::Error for EndpointError {}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::thread::JoinHandle;

    use super::*;

    /// Starts a server that sends one response. Returns its URL and, through the thread, the request that it received.
    fn server(response: String) -> (String, JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let thread = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let (mut request, mut piece) = (String::new(), [0; 4096]);
            while !request.ends_with(']') && !request.ends_with("]}") {
                let read = stream.read(&mut piece).unwrap();
                assert!(read > 0, "{request}");
                request += std::str::from_utf8(&piece[..read]).unwrap();
            }
            // Ignore the error: the client closes the connection if the response is too long.
            _ = stream.write_all(response.as_bytes());
            request
        });
        (url, thread)
    }

    fn http(status: &str, body: &str) -> String {
        format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
    }

    fn ask(response: String, timeout: Duration) -> (std::result::Result<Vec<f32>, EndpointError>, String) {
        let (url, thread) = server(response);
        let endpoint = EmbeddingEndpoint::new(&url, Some("small".to_owned()), Some("hunter2"), 3, timeout).unwrap();
        let vector = endpoint.vector_blocking("a \"red\" car");
        (vector, thread.join().unwrap())
    }

    const WAIT: Duration = Duration::from_secs(20);

    #[test]
    fn vector_is_read_from_the_first_item() {
        let body = r#"{"object":"list","data":[{"index":0,"embedding":[0.5,-1,2e0]}],"usage":{}}"#;
        let (vector, request) = ask(http("200 OK", body), WAIT);
        assert_eq!(vector.unwrap(), [0.5, -1.0, 2.0]);
        assert!(request.starts_with("POST /v1/embeddings HTTP/1.1\r\n"), "{request}");
        assert!(request.contains("authorization: Bearer hunter2\r\n"), "{request}");
        assert!(request.ends_with(r#"{"model":"small","input":["a \"red\" car"]}"#), "{request}");
    }

    #[test]
    fn bad_responses_give_a_reason_without_the_body() {
        let long = format!(r#"{{"data":[],"secret":"{}"}}"#, "a".repeat(MAX_RESPONSE_BYTES));
        for (response, words) in [
            (http("401 Unauthorized", r#"{"error":"secret hunter2"}"#), "status 401 Unauthorized"),
            (http("302 Found", ""), "status 302"),
            (http("200 OK", r#"{"data":[]}"#), "data[0].embedding"),
            (http("200 OK", r#"{"data":[{"embedding":"secret"}]}"#), "data[0].embedding"),
            (http("200 OK", "secret"), "data[0].embedding"),
            (http("200 OK", r#"{"data":[{"embedding":[1,2]}]}"#), "width 2; expected 3"),
            (http("200 OK", r#"{"data":[{"embedding":[1,2,1e39]}]}"#), "data[0].embedding"),
            (http("200 OK", &long), "longer than"),
            ("secret".to_owned(), "failed"),
        ] {
            let error = format!("{:#}", ask(response, WAIT).0.unwrap_err());
            assert!(error.contains(words), "`{words}` is not in: {error}");
            assert!(!error.contains("secret") && !error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn silent_endpoint_times_out() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let endpoint = EmbeddingEndpoint::new(&url, None, None, 3, Duration::from_millis(200)).unwrap();
        let error = endpoint.vector_blocking("a").unwrap_err();
        assert!(matches!(error, EndpointError::Timeout(_)), "{error:#}");
        drop(listener);
        let error = endpoint.vector_blocking("a").unwrap_err();
        assert!(matches!(error, EndpointError::BadReply(_)), "{error:#}");
    }
}
