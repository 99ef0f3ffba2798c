//! Address, access control and limits of a server.

use std::time::Duration;

/// Default port.
pub const DEFAULT_PORT: u16 = 7878;

/// Address, access control and limits of a server.
#[derive(Clone)]
pub struct Settings {
    /// Host name or address to listen on.
    pub host: String,
    /// Port to listen on; 0 picks a free port.
    pub port: u16,
    /// Accept only requests with this token, sent as `Authorization: Bearer TOKEN`. The explorer page and `/health`
    /// need no token.
    pub token: Option<String>,
    /// Accept requests without a token from every machine that can reach `host`.
    pub allow_anyone: bool,
    /// Timeout of a request.
    pub timeout: Duration,
    /// Maximum number of concurrent requests; further requests get 429.
    pub concurrency: usize,
    /// Maximum number of open connections. At the limit, a new connection closes the one that has been idle longest,
    /// or gets 503 if none is idle.
    pub connections: usize,
    /// Maximum size of an uploaded photo in bytes.
    pub max_upload: usize,
    /// Log each request on stdout in this format; a process can have only one log.
    pub log_format: Option<LogFormat>,
}

/// Format of the request log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// One JSON object per line.
    Json,
    /// One line of text.
    Text,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            host: "127.0.0.1".to_owned(),
            port: DEFAULT_PORT,
            token: None,
            allow_anyone: false,
            timeout: Duration::from_secs(30),
            concurrency: 128,
            connections: 512,
            max_upload: 20 << 20,
            log_format: None,
        }
    }
}
