//! `POST /api/predict`: the deepest class of a tree that is right with the risk of `--threshold`.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use axum::extract::State;
use conifer_eval::prediction::{Predictor, StoredThreshold};

use crate::embedder::ModelEmbedder;
use crate::serve::Server;
use crate::serve::api::extract::JsonBody;
use crate::serve::api::replies::{PredictionReply, PredictionStep};
use crate::serve::api::requests::PointRequest;
use crate::serve::body::json;
use crate::serve::error::{HttpError, HttpResult};

/// A calibrated threshold with the points of its classes.
pub(crate) struct ServedPredictor {
    stored: StoredThreshold,
    predictor: Predictor,
}

impl ServedPredictor {
    /// Reads a threshold and embeds the prompts of its classes.
    ///
    /// # Errors
    /// There is no model, the threshold belongs to another model, or the file is damaged.
    pub(crate) fn open(path: &Path, model: Option<&ModelEmbedder>) -> anyhow::Result<Self> {
        let option = || format!("--threshold {}", path.display());
        let model = model.with_context(|| format!("{}: expected --checkpoint MODEL, too", option()))?;
        let stored = StoredThreshold::read(path).with_context(option)?;
        stored.check_model(model.inner().name(), model.inner().fingerprint()).with_context(option)?;
        let predictor = Predictor::of_stored(model, &stored).with_context(option)?;
        Ok(Self { stored, predictor })
    }

    fn reply(&self, point: &[f32]) -> conifer_eval::Result<Option<PredictionReply<'_>>> {
        let (stored, classes) = (&self.stored, self.predictor.classes());
        let paths = self.predictor.paths(point, stored.temperature)?;
        let Some(photo) = paths.first() else { return Ok(None) };
        let name = |node: usize| classes.tree().name(node);
        let len = photo.greedy.answer_len(stored.threshold);
        let steps = photo.greedy.nodes().iter().zip(photo.greedy.scores()).enumerate();
        let path =
            steps.map(|(i, (&node, &probability))| PredictionStep { name: name(node), probability, answered: i < len });
        let answer = photo.greedy.nodes()[len - 1];
        Ok(Some(PredictionReply {
            answer: name(answer),
            depth: classes.depth(answer),
            probability: photo.greedy.scores()[len - 1],
            path: path.collect(),
            class: name(photo.class),
            class_probability: photo.class_probability,
            risk: stored.risk,
            threshold: stored.threshold,
            guarantee: stored.guarantee().to_vec(),
        }))
    }
}

pub(crate) async fn predict(
    State(server): State<Arc<Server>>,
    JsonBody(PointRequest { query }): JsonBody<PointRequest>,
) -> HttpResult {
    query.check()?;
    if server.predictor.is_none() {
        return Err(HttpError::absent(
            "this server has no threshold; start it with --threshold FILE, written by `conifer predict --out-threshold FILE`",
        ));
    }
    let point = query.point(&server).await?;
    server
        .work(move |server| {
            let reply = server.predictor.as_ref().map(|it| it.reply(&point)).transpose();
            json(&reply.map_err(|error| HttpError::fault(error.to_string()))?)
        })
        .await
}
