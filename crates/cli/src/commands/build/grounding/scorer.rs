//! Compares parts of photos with texts by a conifer model.

use std::collections::HashMap;

use anyhow::ensure;
use conifer_construct::grounding::{RegionRequest, RegionScorer};
use conifer_construct::{Error, Result};
use conifer_data::transform::{EvalCrop, crop_box};
use conifer_index::{Ranking, score_rows};
use conifer_model::head::Tower;
use rayon::prelude::*;

use crate::arguments::CropArg;
use crate::embedder::ModelEmbedder;

/// Scores boxes and phrases by the similarity of their points: the cosine on the sphere, minus the distance elsewhere.
pub(super) struct ModelScorer {
    embedder: ModelEmbedder,
    crop: EvalCrop,
    identity: String,
}

impl ModelScorer {
    pub(super) fn new(embedder: ModelEmbedder, crop: Option<CropArg>) -> anyhow::Result<Self> {
        ensure!(
            embedder.inner().vector_width(Tower::Image).is_none()
                && embedder.inner().vector_width(Tower::Text).is_none(),
            "--checkpoint {}: the model reads vectors; expected a model with an image and a text encoder",
            embedder.inner().name()
        );
        let crop = embedder.crop(crop);
        let identity = format!("{} {crop:?}", embedder.identity()?);
        Ok(Self { embedder, crop, identity })
    }

    fn scored(&self, photos: &[RegionRequest<'_>]) -> anyhow::Result<Vec<Vec<Vec<f32>>>> {
        let model = self.embedder.inner();
        let (dim, crop) = (model.spec().dim, self.crop);
        // Keep only the pixels that the model reads, because a photo has about a hundred boxes.
        let crops: Vec<Vec<u8>> = photos
            .par_iter()
            .flat_map(|photo| {
                photo.boxes.par_iter().map(move |bbox| model.pixels(&crop_box(photo.picture, bbox), crop))
            })
            .collect();
        let mut box_points = Vec::with_capacity(crops.len() * dim);
        for batch in crops.chunks(model.batch()) {
            box_points.extend(model.image_batch(batch)?);
        }
        let mut rows: HashMap<&str, usize> = HashMap::new();
        let mut texts = Vec::new();
        for phrase in photos.iter().flat_map(|photo| &photo.phrases) {
            rows.entry(*phrase).or_insert_with(|| {
                texts.push(*phrase);
                texts.len() - 1
            });
        }
        let text_points = model.texts(&texts, &mut |_, _| {})?;
        let mut found = Vec::with_capacity(photos.len());
        let mut start = 0;
        for photo in photos {
            let queries: Vec<f32> =
                photo.phrases.iter().flat_map(|it| &text_points[rows[it] * dim..][..dim]).copied().collect();
            let candidates = &box_points[start * dim..][..photo.boxes.len() * dim];
            start += photo.boxes.len();
            let scores =
                score_rows(model.spec(), Ranking::Similarity, &queries, candidates, |_, scores| scores.to_vec())?;
            found.push(scores);
        }
        Ok(found)
    }
}

impl RegionScorer for ModelScorer {
    fn name(&self) -> String {
        self.embedder.inner().name().to_owned()
    }

    fn identity(&self) -> String {
        self.identity.clone()
    }

    fn similarities(&self, photos: &[RegionRequest<'_>]) -> Result<Vec<Vec<Vec<f32>>>> {
        self.scored(photos).map_err(|error| Error::Scorer(format!("{error:#}")))
    }
}
