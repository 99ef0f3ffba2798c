use conifer_geometry::ManifoldSpec;

use super::{ConformalThreshold, PredictionTree, ScoredPath, StoredThreshold, conformal_threshold};
use crate::benchmarks::prompts::class_points;
use crate::score::similarity_rows;
use crate::{EmbeddingModel, Result, Score};

/// A classifier: the classes of a tree and their points in the space of a model.
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
    /// Path of [`PredictionTree::greedy_path`]. The predictions are answers on it.
    pub greedy: ScoredPath,
    /// Path of [`PredictionTree::flat_path`], for comparison.
    pub flat: ScoredPath,
    /// Path of [`PredictionTree::reject_path`], for comparison.
    pub reject: ScoredPath,
    /// Node of the most probable class.
    pub class: usize,
    /// Probability of this class.
    pub class_probability: f64,
}

impl Predictor {
    /// Embeds the prompts of the classes. `texts` has the text of each class, in the order of the classes.
    ///
    /// # Errors
    /// There is no template, a template lacks `{}`, or the model fails.
    pub fn new<S: AsRef<str>>(
        embedder: &dyn EmbeddingModel,
        classes: PredictionTree,
        templates: &[String],
        texts: &[S],
    ) -> Result<Self> {
        let points = class_points(embedder, templates, texts)?;
        Ok(Self { classes, spec: embedder.spec().clone(), points })
    }

    /// Creates the predictor for a stored threshold.
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

    /// Similarities between photos and classes, `[photos, classes]`.
    ///
    /// # Errors
    /// The length of `photos` is not a multiple of the dimension.
    pub fn scores(&self, photos: &[f32]) -> Result<Vec<f32>> {
        let rows = similarity_rows(&self.spec, Score::Similarity, photos, &self.points, |_, row| row.to_vec())?;
        Ok(rows.concat())
    }

    /// Paths of photos with the points `photos`, `[photos, dim]`.
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
/// The errors of [`conformal_threshold`].
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
