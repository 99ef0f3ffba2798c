//! The command lines of servers.

use std::path::PathBuf;

use clap::Args;

use super::{MODEL, SERVER, rows};

/// Port of `serve`.
pub(crate) const SERVE_PORT: u16 = 7878;
/// Port of `front`: another one, so that a front can start beside a server.
pub(super) const FRONT_PORT: &str = "7879";

#[derive(Args)]
pub(crate) struct Serve {
    /// The embedding set, store, or run with embeddings.
    pub(crate) set: PathBuf,
    /// The model that made the set: embeds texts and photos (default: none; for the folder of a run, the run).
    #[arg(long, value_name = "MODEL", help_heading = MODEL)]
    pub(crate) checkpoint: Option<PathBuf>,
    /// Where the photos of the set are, as they were embedded: gives thumbnails.
    #[arg(long, value_name = "KIND:PATH", help_heading = "Photos and classes")]
    pub(crate) data: Option<String>,
    /// Only this split of --data.
    #[arg(long, requires = "data", help_heading = "Photos and classes")]
    pub(crate) split: Option<String>,
    /// Settings of --data, `name=value`.
    #[arg(long = "data-option", value_name = "NAME=VALUE", requires = "data", help_heading = "Photos and classes")]
    pub(crate) data_options: Vec<String>,
    /// Another folder in which the photos may be that --data names, besides its own folder.
    #[arg(long = "root", value_name = "DIR", requires = "data")]
    pub(crate) roots: Vec<PathBuf>,
    /// File of `parent child` edges above the labels of the rows.
    #[arg(long, value_name = "FILE", help_heading = "Photos and classes")]
    pub(crate) tree: Option<PathBuf>,
    /// Sort the rows into cells, which searches visit as far as they have to; the answers are the same. Holds the points twice.
    #[arg(long, help_heading = "Index")]
    pub(crate) cells: bool,
    /// Serve only part I of N, from 0: rows I, I + N, I + 2 N and so on, for `conifer front`.
    #[arg(long, value_name = "I/N", value_parser = part, help_heading = "Index")]
    pub(crate) shard: Option<(usize, usize)>,
    /// Most bytes of a photo that is sent.
    #[arg(long, value_name = "BYTES", default_value_t = 20 << 20, value_parser = upload, help_heading = SERVER)]
    pub(crate) max_upload: usize,
    #[command(flatten)]
    pub(crate) door: Door,
}

#[derive(Args)]
pub(crate) struct Front {
    /// The servers of all parts of a set, `http://HOST:PORT`, in the order of their parts.
    #[arg(long = "shard", value_name = "URL", required = true, help_heading = "Shards")]
    pub(crate) shards: Vec<String>,
    /// The token that the shards want.
    #[arg(long, value_name = "FILE", help_heading = "Shards")]
    pub(crate) shard_token_file: Option<PathBuf>,
    /// Most bytes of a photo that is sent.
    #[arg(long, value_name = "BYTES", default_value_t = 20 << 20, value_parser = upload, help_heading = SERVER)]
    pub(crate) max_upload: usize,
    #[command(flatten)]
    pub(crate) door: Door,
}

/// Where requests come in.
#[derive(Args)]
pub(crate) struct Door {
    /// The address to listen at.
    #[arg(long, default_value = "127.0.0.1", help_heading = SERVER)]
    pub(crate) host: String,
    /// The port; 0 takes a free one.
    #[arg(long, default_value_t = SERVE_PORT, help_heading = SERVER)]
    pub(crate) port: u16,
    /// Answer only requests with the token that is in this file: `Authorization: Bearer TOKEN`.
    #[arg(long, value_name = "FILE", help_heading = SERVER)]
    pub(crate) token_file: Option<PathBuf>,
    /// Answer whoever can reach --host, without a token.
    #[arg(long, help_heading = SERVER)]
    pub(crate) allow_anyone: bool,
    /// Longest time for an answer, seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0, value_parser = seconds, help_heading = SERVER)]
    pub(crate) timeout: f64,
    /// Requests that are worked on at a time; more are told to come back (429).
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = rows, help_heading = SERVER)]
    pub(crate) concurrency: usize,
    /// Connections that are open at a time; the idlest is closed for a new one.
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = rows, help_heading = SERVER)]
    pub(crate) connections: usize,
}

/// `I/N` with I below N.
fn part(text: &str) -> Result<(usize, usize), String> {
    let numbers = text.split_once('/').and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
    match numbers {
        Some((i, n @ 1..=1024)) if i < n => Ok((i, n)),
        _ => Err("expected I/N with I from 0 to N - 1 and N up to 1024".to_owned()),
    }
}

/// Bytes of a photo.
fn upload(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(bytes @ 1024..=268_435_456) => Ok(bytes),
        _ => Err("expected 1024 to 268435456 bytes".to_owned()),
    }
}

/// A time.
fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.1..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("expected 0.1 to 3600 seconds".to_owned()),
    }
}
