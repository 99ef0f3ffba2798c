//! The state that all request handlers share.

pub(crate) mod gate;
pub(crate) mod routes;
pub(crate) mod start;

use std::sync::Arc;

use axum::http::StatusCode;
use conifer_model::head::Tower;
use conifer_search::{EmbeddingEndpoint, EndpointError};

use crate::error::{HttpError, HttpResult};
use crate::metrics::{GaugeGuard, Metrics};
use crate::{api, embedding_queue, layer_jobs, limits, set};

/// State shared by all request handlers.
pub(crate) struct Server {
    pub(crate) state: set::state::ServedSet,
    pub(crate) info: api::info::ServerInfo,
    pub(crate) model: Option<embedding_queue::EmbeddingQueue>,
    /// Embedding endpoint that turns the texts of queries into vectors, for a model that reads vectors.
    pub(crate) endpoint: Option<EmbeddingEndpoint>,
    pub(crate) photos: api::photos::UploadedPhotos,
    pub(crate) thumbnails: api::thumbnails::Thumbnails,
    pub(crate) explorer: set::explorer::Explorer,
    pub(crate) layer_jobs: layer_jobs::LayerJobs,
    /// The set whose map is shown beside that of `state`.
    pub(crate) beside: Option<set::beside::BesideSet>,
    /// Predicts classes, if the server has a threshold.
    pub(crate) predictor: Option<api::predict::ServedPredictor>,
    pub(crate) metrics: Arc<Metrics>,
    /// Maximum size of an uploaded photo in bytes.
    pub(crate) max_upload: usize,
    permits: limits::permits::Permits,
}

impl Server {
    pub(crate) fn embedder(&self) -> HttpResult<&embedding_queue::EmbeddingQueue> {
        self.model.as_ref().ok_or_else(|| {
            HttpError::invalid(
                "queries by text or photo need the model that made the set; start the server with --checkpoint MODEL",
            )
        })
    }

    /// The set beside the served one.
    ///
    /// # Errors
    /// 404: there is none.
    pub(crate) fn second(&self) -> HttpResult<&set::beside::BesideSet> {
        let none = || HttpError::absent("this server has no second set; start it with --beside OTHER");
        self.beside.as_ref().ok_or_else(none)
    }

    /// The rows and maps of the served set, or of the one beside it.
    ///
    /// # Errors
    /// 404: there is no second set.
    pub(crate) fn mapped(
        &self,
        beside: Option<bool>,
    ) -> HttpResult<(&set::state::ServedSet, &set::explorer::Explorer)> {
        if beside.unwrap_or(false) {
            return self.second().map(|it| (&it.state, &it.explorer));
        }
        Ok((&self.state, &self.explorer))
    }

    /// The point of a text.
    ///
    /// # Errors
    /// 422 without a model; the errors of the model; 502 or 504 if the embedding endpoint fails or does not answer in
    /// time.
    pub(crate) async fn text_point(&self, text: &str) -> HttpResult<Vec<f32>> {
        let model = self.embedder()?;
        let Some(endpoint) = &self.endpoint else { return model.text(text).await };
        let vector = endpoint.vector(text).await.map_err(|error| {
            let status = match error {
                EndpointError::Timeout(_) => StatusCode::GATEWAY_TIMEOUT,
                _ => StatusCode::BAD_GATEWAY,
            };
            HttpError::new(status, error.to_string())
        })?;
        model.vector(Tower::Text, vector).await
    }

    /// The point of a vector, for a model that reads vectors. `name` is the field of the request.
    ///
    /// # Errors
    /// 422: there is no model, the tower has an encoder, or the vector has another width. The errors of the model.
    pub(crate) async fn vector_point(&self, name: &str, tower: Tower, values: &[f32]) -> HttpResult<Vec<f32>> {
        let model = self.embedder()?;
        let Some(width) = model.model().vector_width(tower) else {
            let input = if tower == Tower::Image { "photo` or a `row" } else { "text" };
            return Err(HttpError::invalid(format!(
                "`{name}` is a vector, but the model has an encoder and reads no vectors; expected a `{input}`"
            )));
        };
        api::query::check_numbers(name, values, width, "the width of the vectors of the model")?;
        model.vector(tower, values.to_vec()).await
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
