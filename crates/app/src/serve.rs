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

use tokio::sync::Semaphore;

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
    /// Photos that are made pictures of at a time.
    pub(crate) uploads: Semaphore,
    /// Searches and pictures at a time; the first to come is the first to go.
    cores: Arc<Semaphore>,
}

impl Server {
    pub(crate) fn embedder(&self) -> Answer<&batch::Queue> {
        self.model.as_ref().ok_or_else(|| {
            Refusal::invalid("texts and photos need a server with --checkpoint MODEL, the model that made the set")
        })
    }

    /// Does what takes a core on a thread that may block, in turn. Work that nobody waits for any more goes on to its end, and keeps
    /// its place until then.
    pub(crate) async fn work<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Server) -> Answer<T> + Send + 'static,
    ) -> Answer<T> {
        let server = Arc::clone(self);
        let raised = Raised::new(&self.metrics.at_work);
        let turn = Arc::clone(&self.cores).acquire_owned().await.map_err(|error| Refusal::fault(error.to_string()))?;
        let done = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            work(&server)
        });
        let done = done.await.map_err(|_| Refusal::fault("this request met a fault of the server's"))?;
        drop(raised);
        done
    }
}
