//! `conifer serve`: an HTTP server that searches an embedding set.
//!
//! A *row* is one embedding of the set. A *point* is a vector in the space of the set. A request passes these layers:
//!
//! ```text
//! listen     accepts connections: connection limit, timeouts for request heads and for sending responses
//!   gate     middleware: access checks, request body, concurrency limit, request timeout
//!     routes -> search, rows, traverse, photos, thumbnails, info
//!                 fields: parses and validates the fields of a request
//!                 query: resolves the fields to points and filters
//!                 batch: embeds texts and photos in batches
//! ```

mod activity;
mod assets;
mod batch;
mod body;
mod boxes;
mod classes;
mod error;
mod explore;
mod factors;
mod fields;
mod framing;
mod front;
mod gate;
mod hits;
mod identity;
mod info;
mod listen;
mod log;
mod map;
mod metrics;
mod openapi;
mod page;
mod permits;
mod photos;
mod predict;
mod query;
mod response_buffer;
mod routes;
mod rows;
mod search;
mod start;
mod state;
mod thumbnails;
mod traverse;
mod tree;
mod unique;

use std::sync::Arc;

pub(crate) use front::front;
pub(crate) use start::serve;

use error::{HttpError, HttpResult};
use metrics::{GaugeGuard, Metrics};

/// State shared by all request handlers.
pub(crate) struct Server {
    pub(crate) state: state::ServedSet,
    pub(crate) info: info::ServerInfo,
    pub(crate) model: Option<batch::EmbeddingQueue>,
    pub(crate) photos: photos::UploadedPhotos,
    pub(crate) thumbnails: thumbnails::Thumbnails,
    pub(crate) explorer: explore::Explorer,
    /// Predicts classes, if the server has a threshold.
    pub(crate) predictor: Option<predict::ServedPredictor>,
    pub(crate) metrics: Arc<Metrics>,
    /// Maximum size of an uploaded photo in bytes.
    pub(crate) max_upload: usize,
    permits: permits::Permits,
}

impl Server {
    pub(crate) fn embedder(&self) -> HttpResult<&batch::EmbeddingQueue> {
        self.model.as_ref().ok_or_else(|| {
            HttpError::invalid(
                "queries by text or photo need the model that made the set; start the server with --checkpoint MODEL",
            )
        })
    }

    /// Runs CPU-bound work on a blocking thread, with a search permit.
    pub(crate) async fn work<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Server) -> HttpResult<T> + Send + 'static,
    ) -> HttpResult<T> {
        let server = Arc::clone(self);
        let _guard = GaugeGuard::new(&self.metrics.at_work);
        self.permits.search(move || work(&server)).await
    }

    /// Decodes an upload on a blocking thread, with a decoder permit.
    pub(crate) async fn decode<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> HttpResult<T> + Send + 'static,
    ) -> HttpResult<T> {
        let _guard = GaugeGuard::new(&self.metrics.at_work);
        self.permits.decode(work).await
    }
}
