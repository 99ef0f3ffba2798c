//! An HTTP server that searches an embedding set, with a web page to explore the set.
//!
//! A *row* is one embedding of the set. A *point* is a vector in the space of the set. A program opens the set and the
//! model and hands them over as [`ServedContent`]; [`Settings`] has the address and the limits:
//!
//! ```no_run
//! use std::path::Path;
//! use std::sync::Arc;
//!
//! use conifer_index::Snapshot;
//! use conifer_server::{BoundServer, Reporter, ServedContent, Settings};
//!
//! struct Console;
//!
//! impl Reporter for Console {
//!     fn listening(&self, what: &str, address: std::net::SocketAddr) -> std::io::Result<()> {
//!         println!("{what} at http://{address}");
//!         Ok(())
//!     }
//! }
//!
//! let server = BoundServer::bind(Settings { port: 8080, ..Settings::default() })?;
//! let set = Snapshot::open(Path::new("embeddings"))?;
//! server.serve(ServedContent::new(set), Arc::new(Console))?; // until Ctrl-C
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The API describes itself as an OpenAPI document:
//!
//! ```
//! let document = conifer_server::openapi();
//! assert!(document["paths"]["/api/search"]["post"]["requestBody"].is_object());
//! ```
//!
//! A request passes these layers:
//!
//! ```text
//! limits::listen     accepts connections: connection limit, timeouts for request heads and for sending responses
//!   app::gate        middleware: access checks (auth), request body, concurrency limit, request timeout
//!       body                 reads a body up to the size limit that the gate chooses
//!     app::routes -> api
//!       extract              parses bodies and query parameters
//!       requests, replies    the types of bodies and query parameters; openapi describes them
//!       query                resolves queries to points and filters to rows
//!     layer_jobs             computes layers of the map in the background, by the program's `LayerMaker`
//!     embedding_queue        embeds texts, photos and vectors in batches
//!     set            the rows with their index, classes and identity
//! cluster            most of the API over several servers, each with one shard of the rows
//! ```

mod api;
mod app;
mod auth;
mod body;
mod cluster;
mod content;
mod embedding_queue;
mod error;
mod layer_jobs;
mod layer_maker;
mod limits;
mod log;
mod metrics;
mod reporter;
mod set;
mod settings;
mod start_error;

pub use api::openapi::document as openapi;
pub use api::predict::ServedPredictor;
pub use app::start::BoundServer;
pub use auth::read_token;
pub use content::{SecondSet, ServedContent, ServedMap};
pub use layer_maker::{LayerMaker, LayerMethod, LayerRecipe, LayerWatch, MadeLayer};
pub use reporter::Reporter;
pub use settings::{DEFAULT_PORT, LogFormat, Settings};
pub use start_error::{Error, Result};

use app::Server;
