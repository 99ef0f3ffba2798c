use conifer_geometry::ManifoldSpec;

use super::{ConformalThreshold, PredictionTree, ScoredPath, StoredThreshold, conformal_threshold};
use crate::benchmarks::prompts::class_points;
use crate::score::similarity_rows;
use crate::{EmbeddingModel, Result, Score};

/// The classes of a tree as points of a model.
#[derive(Clone, Debug)]
pub struct Predictor {
    classes: PredictionTree,
    spec: ManifoldSpec,
    /// Point of each class, `[classes, dim]`.
    points: Vec<f32>,
}

/// Paths of a photo through the class tree.
#[derive(Clone, Debug, PartialEq)]
pub struct PhotoPaths {
    /// As in [`PredictionTree::greedy_path`]. Its answers are the predictions.
    pub greedy: ScoredPath,
    /// As in [`PredictionTree::flat_path`].
    pub flat: ScoredPath,
    /// As in [`PredictionTree::reject_path`].
    pub reject: ScoredPath,
    /// Node of the most probable class.
    pub class: usize,
    /// Its probability.
    pub class_probability: f64,
}

impl Predictor {
    /// Embeds the prompts of the classes. `texts` has the text of each class, in the order of the classes.
    ///
    /// # Errors
    /// A template lacks `{}`, or the model fails.
    pub fn new<S: AsRef<str>>(
        embedder: &dyn EmbeddingModel,
        classes: PredictionTree,
        templates: &[String],
        texts: &[S],
    ) -> Result<Self> {
        let points = class_points(embedder, templates, texts)?;
        Ok(Self { classes, spec: embedder.spec().clone(), points })
    }

    /// The predictor of a stored threshold.
    ///
    /// # Errors
    /// The tree is damaged, or the model fails.
    pub fn of_stored(embedder: &dyn EmbeddingModel, stored: &StoredThreshold) -> Result<Self> {
        let texts: Vec<&str> = stored.classes.iter().map(|class| class.text.as_str()).collect();
        Self::new(embedder, stored.prediction_tree()?, &stored.templates, &texts)
    }

    /// The classes and their tree.
    pub fn classes(&self) -> &PredictionTree {
        &self.classes
    }

    /// Similarities of photos to the classes, `[photos, classes]`.
    ///
    /// # Errors
    /// The length of `photos` is not a multiple of the dimension.
    pub fn scores(&self, photos: &[f32]) -> Result<Vec<f32>> {
        let rows = similarity_rows(&self.spec, Score::Similarity, photos, &self.points, |_, row| row.to_vec())?;
        Ok(rows.concat())
    }

    /// Paths of photos, given by their points `[photos, dim]`.
    ///
    /// # Errors
    /// The length of `photos` is not a multiple of the dimension, a score is not finite, or the temperature is not
    /// positive.
    pub fn paths(&self, photos: &[f32], temperature: f64) -> Result<Vec<PhotoPaths>> {
        let classes = &self.classes;
        let path = |_, row: &[f32]| {
            let probabilities = classes.node_probabilities(row, temperature)?;
            let class = classes.most_probable(&probabilities);
            Ok(PhotoPaths {
                greedy: classes.greedy_path(&probabilities),
                flat: classes.flat_path(&probabilities),
                reject: classes.reject_path(&probabilities),
                class,
                class_probability: probabilities[class],
            })
        };
        similarity_rows(&self.spec, Score::Similarity, photos, &self.points, path)?.into_iter().collect()
    }
}

/// Thresholds of the greedy, flat and reject paths, in this order, for one set of calibration units. A unit is a list
/// of photos, each with its paths and its true node; see [`conformal_threshold`].
///
/// # Errors
/// Those of [`conformal_threshold`].
pub fn calibrate(
    classes: &PredictionTree,
    units: &[Vec<(&PhotoPaths, usize)>],
    risk: f64,
) -> Result<[ConformalThreshold; 3]> {
    let threshold = |path: fn(&PhotoPaths) -> &ScoredPath| {
        let critical = |&(paths, truth): &(&PhotoPaths, usize)| path(paths).critical(classes.tree(), truth);
        let units: Vec<Vec<Option<f64>>> = units.iter().map(|unit| unit.iter().map(critical).collect()).collect();
        conformal_threshold(&units, risk)
    };
    Ok([threshold(|it| &it.greedy)?, threshold(|it| &it.flat)?, threshold(|it| &it.reject)?])
}
