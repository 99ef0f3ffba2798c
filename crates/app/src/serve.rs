//! `conifer serve`: an embedding set and the model that made it, behind HTTP.
//!
//! ```text
//! listen     connections, bounded; time for the head of a request, and for taking the answer
//!   gate     who may ask, how much at a time, for how long; bodies are read here
//!     routes -> search, rows, traverse, photos, thumbnails, info
//!                 fields: what stands in a request, each field with its name
//!                 query: what is asked, to points and filters
//!                 batch: texts and photos to points, together
//! ```

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
mod info;
mod listen;
mod log;
mod map;
mod metrics;
mod openapi;
mod outgoing;
mod page;
mod part;
mod permits;
mod photos;
mod pulse;
mod query;
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

use error::{Answer, Refusal};
use metrics::{Metrics, Raised};

/// Everything that answers are made of.
pub(crate) struct Server {
    pub(crate) state: state::State,
    pub(crate) info: info::Info,
    pub(crate) model: Option<batch::Queue>,
    pub(crate) photos: photos::Photos,
    pub(crate) thumbnails: thumbnails::Thumbnails,
    pub(crate) explorer: explore::Explorer,
    pub(crate) metrics: Arc<Metrics>,
    /// Bytes of a photo, at most.
    pub(crate) max_upload: usize,
    permits: permits::Permits,
}

impl Server {
    pub(crate) fn embedder(&self) -> Answer<&batch::Queue> {
        self.model.as_ref().ok_or_else(|| {
            Refusal::invalid("texts and photos need a server with --checkpoint MODEL, the model that made the set")
        })
    }

    /// Does what takes a core on a thread that may block, with a permit for searches.
    pub(crate) async fn work<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Server) -> Answer<T> + Send + 'static,
    ) -> Answer<T> {
        let server = Arc::clone(self);
        let _raised = Raised::new(&self.metrics.at_work);
        self.permits.search(move || work(&server)).await
    }

    /// Decodes an upload, with a permit of its own.
    pub(crate) async fn decode<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Answer<T> + Send + 'static,
    ) -> Answer<T> {
        let _raised = Raised::new(&self.metrics.at_work);
        self.permits.decode(work).await
    }
}
