//! `POST /api/predict`: answers with the deepest node of a class tree whose probability exceeds the calibrated
//! threshold (`--threshold`).

use std::sync::Arc;

use axum::extract::State;
use conifer_eval::prediction::{Predictor, StoredThreshold};

use crate::Server;
use crate::api::extract::JsonBody;
use crate::api::replies::{PredictionReply, PredictionStep};
use crate::api::requests::PointRequest;
use crate::body::json;
use crate::error::{HttpError, HttpResult};

/// A calibrated threshold with the points of its classes.
pub struct ServedPredictor {
    stored: StoredThreshold,
    predictor: Predictor,
}

impl ServedPredictor {
    /// `predictor` must have the classes of `stored`.
    pub fn new(stored: StoredThreshold, predictor: Predictor) -> Self {
        Self { stored, predictor }
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
