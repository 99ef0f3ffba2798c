//! The content that a server serves.

use std::path::PathBuf;

use conifer_data::Source;
use conifer_index::Snapshot;
use conifer_model::embed::Embedder;
use conifer_search::EndpointSettings;

use crate::api::predict::ServedPredictor;

/// The set that a server searches, and what it needs to embed queries and to show pictures.
pub struct ServedContent {
    /// The rows.
    pub set: Snapshot,
    /// The model that made the set. It embeds the texts and photos of queries.
    pub model: Option<Embedder>,
    /// Embedding endpoint that turns the texts of queries into vectors, for a model that reads vectors.
    pub endpoint: Option<EndpointSettings>,
    /// Predicts classes (`POST /api/predict`).
    pub predictor: Option<ServedPredictor>,
    /// The data set that was embedded, for thumbnails.
    pub source: Option<Box<dyn Source>>,
    /// File of the class tree above the labels of the rows, with one `parent child` edge per line. Without it, the
    /// classes come from the ranks of `source`, or from the labels and ranks of the rows.
    pub tree: Option<PathBuf>,
    /// Build a cell index, which searches fewer rows and returns the same results.
    pub cells: bool,
    /// Serve only shard `(i, n)`: rows i, i + n, i + 2 n, ...
    pub shard: Option<(usize, usize)>,
}

impl ServedContent {
    /// Serves the whole set without a model. Queries can then be rows and points, but not texts or photos.
    pub fn new(set: Snapshot) -> Self {
        ServedContent {
            set,
            model: None,
            endpoint: None,
            predictor: None,
            source: None,
            tree: None,
            cells: false,
            shard: None,
        }
    }
}
