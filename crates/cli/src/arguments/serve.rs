//! Command-line arguments of `serve` and `front`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use conifer_server::{DEFAULT_PORT, LogFormat};

use super::{EndpointArgs, MODEL, SERVER, limited_count};

/// Default port of `front`. It differs from that of `serve`, so that both can run on one machine.
pub(super) const FRONT_PORT: &str = "7879";

#[derive(Args)]
pub(crate) struct ServeArgs {
    /// The embedding set, the store, or a run folder with embeddings.
    pub(crate) set: PathBuf,
    /// Model that made the set; embeds the texts and photos of queries (default: the run, if SET is a run folder, else
    /// none).
    #[arg(long, value_name = "MODEL", help_heading = MODEL)]
    pub(crate) checkpoint: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) endpoint: EndpointArgs,
    /// Data set that was embedded, as in `conifer embed --data`; enables thumbnails.
    #[arg(long, value_name = "KIND:PATH", help_heading = "Photos and classes")]
    pub(crate) data: Option<String>,
    /// Use only this split of --data.
    #[arg(long, requires = "data", help_heading = "Photos and classes")]
    pub(crate) split: Option<String>,
    /// Option of the --data source as `name=value`.
    #[arg(long = "data-option", value_name = "NAME=VALUE", requires = "data", help_heading = "Photos and classes")]
    pub(crate) data_options: Vec<String>,
    /// Additional folder that the photos of --data may be read from, besides its own folder.
    #[arg(long = "root", value_name = "DIR", requires = "data")]
    pub(crate) roots: Vec<PathBuf>,
    /// File with one `parent child` edge per line, a tree above the labels of the rows. Without it, the classes come
    /// from the ranks of --data, or else from the labels and the ranks of the rows.
    #[arg(long, value_name = "FILE", help_heading = "Photos and classes")]
    pub(crate) tree: Option<PathBuf>,
    /// Threshold written by `conifer predict --out-threshold`, for predictions of classes (`POST /api/predict`); needs
    /// --checkpoint.
    #[arg(long, value_name = "FILE", help_heading = "Photos and classes")]
    pub(crate) threshold: Option<PathBuf>,
    /// Map written by `conifer project`, shown as a layer of the page's map: its folder, or a CSV or Parquet file with the
    /// columns row, id, x0 and x1; repeat it for several. Maps in the folder `maps` of the set are found without it.
    #[arg(long = "map", value_name = "DIR|FILE", help_heading = "Photos and classes")]
    pub(crate) maps: Vec<PathBuf>,
    /// Another embedding set or store of the same items, for example before the training or by another method: the page shows
    /// its map beside that of SET, with the rows of the same ids linked.
    #[arg(long, value_name = "OTHER", conflicts_with = "shard", help_heading = "Photos and classes")]
    pub(crate) beside: Option<PathBuf>,
    /// Build a cell index, which searches fewer rows and returns the same results; needs twice the memory for the
    /// points.
    #[arg(long, help_heading = "Index")]
    pub(crate) cells: bool,
    /// Serve only shard I of N, counted from 0 (rows I, I + N, I + 2 N, ...), for `conifer front`.
    #[arg(long, value_name = "I/N", value_parser = shard_number, help_heading = "Index")]
    pub(crate) shard: Option<(usize, usize)>,
    /// Maximum size of an uploaded photo in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 20 << 20, value_parser = upload, help_heading = SERVER)]
    pub(crate) max_upload: usize,
    #[command(flatten)]
    pub(crate) listen: ListenArgs,
}

#[derive(Args)]
pub(crate) struct FrontArgs {
    /// URLs of the shard servers, `http://HOST:PORT`, in the order of their shards; repeat it for each shard.
    #[arg(long = "shard", value_name = "URL", required = true, help_heading = "Shards")]
    pub(crate) shards: Vec<String>,
    /// File with the access token of the shard servers.
    #[arg(long, value_name = "FILE", help_heading = "Shards")]
    pub(crate) shard_token_file: Option<PathBuf>,
    /// Maximum size of an uploaded photo in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 20 << 20, value_parser = upload, help_heading = SERVER)]
    pub(crate) max_upload: usize,
    #[command(flatten)]
    pub(crate) listen: ListenArgs,
}

/// Listening address, access control and limits.
#[derive(Args)]
pub(crate) struct ListenArgs {
    /// Address to listen on.
    #[arg(long, default_value = "127.0.0.1", help_heading = SERVER)]
    pub(crate) host: String,
    /// Port to listen on; 0 picks a free port.
    #[arg(long, default_value_t = DEFAULT_PORT, help_heading = SERVER)]
    pub(crate) port: u16,
    /// Accept only requests with the token in this file, sent as `Authorization: Bearer TOKEN`.
    #[arg(long, value_name = "FILE", help_heading = SERVER)]
    pub(crate) token_file: Option<PathBuf>,
    /// Accept requests without a token from every machine that can reach --host.
    #[arg(long, help_heading = SERVER)]
    pub(crate) allow_anyone: bool,
    /// Timeout of a request in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0, value_parser = seconds, help_heading = SERVER)]
    pub(crate) timeout: f64,
    /// Maximum number of concurrent requests; further requests get 429 (retry later).
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = limited_count, help_heading = SERVER)]
    pub(crate) concurrency: usize,
    /// Maximum number of open connections; a new connection closes the one that has been idle longest.
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = limited_count, help_heading = SERVER)]
    pub(crate) connections: usize,
    /// Log each request on stdout in this format (default: json with --json, else no log).
    #[arg(long, value_name = "FORMAT", value_enum, help_heading = SERVER)]
    pub(crate) log_format: Option<LogFormatArg>,
}

/// Format of the request log.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormatArg {
    /// One JSON object per line.
    Json,
    /// One line of text.
    Text,
}

impl From<LogFormatArg> for LogFormat {
    fn from(argument: LogFormatArg) -> Self {
        match argument {
            LogFormatArg::Json => LogFormat::Json,
            LogFormatArg::Text => LogFormat::Text,
        }
    }
}

/// Parses `I/N` with I < N.
fn shard_number(text: &str) -> Result<(usize, usize), String> {
    let numbers = text.split_once('/').and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
    match numbers {
        Some((i, n @ 1..=1024)) if i < n => Ok((i, n)),
        _ => Err("expected I/N with I from 0 to N - 1 and N up to 1024".to_owned()),
    }
}

fn upload(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(bytes @ 1024..=268_435_456) => Ok(bytes),
        _ => Err("expected 1024 to 268435456 bytes".to_owned()),
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.1..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("expected 0.1 to 3600 seconds".to_owned()),
    }
}
