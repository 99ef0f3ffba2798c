use std::path::Path;

use conifer_data::hierarchy::Tree;
use conifer_data::transform::EvalCrop;
use conifer_embeddings::sha256_hex;
use serde::{Deserialize, Serialize};

use super::PredictionTree;
use crate::{Error, Result};

/// Value of the key `format` in the file.
const FORMAT: &str = "conifer prediction threshold";
/// Version that this program writes and reads.
const VERSION: u32 = 1;

/// A calibrated threshold together with the model, class tree, classes, prompts and crop for which it is valid. It is
/// stored as JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredThreshold {
    format: String,
    version: u32,
    /// The share of answers that may be wrong.
    pub risk: f64,
    /// Confidence that an answer must exceed: the larger of the thresholds in `calibration` and `unseen`. `None` if
    /// there were too few calibration photos; then the root is the only answer.
    pub threshold: Option<f64>,
    /// The thresholds of the flat classifiers on the same photos, for comparison.
    pub flat: FlatThresholds,
    /// Temperature of the softmax over the similarities.
    pub temperature: f64,
    /// Calibration on photos of the classes that the model chooses from.
    pub calibration: CalibrationCounts,
    /// Calibration on photos of held-out genera. `None` if there was none; then there is no guarantee for classes that
    /// the model does not choose from.
    pub unseen: Option<CalibratedUnseen>,
    /// Name of the checkpoint, for messages.
    pub checkpoint: String,
    /// SHA-256 of the weights of the checkpoint. The model must have the same.
    pub weights_sha256: String,
    /// Crop of the photos.
    pub crop: EvalCrop,
    /// Name of the prompts, for messages.
    pub prompts: String,
    /// Prompt templates with `{}` for the text of a class.
    pub templates: Vec<String>,
    /// The class tree.
    pub tree: StoredTree,
    /// The classes that the model chooses from.
    pub classes: Vec<PredictedClass>,
}

/// Thresholds of the flat classifiers, which are measured for comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlatThresholds {
    /// Threshold for [`PredictionTree::flat_path`].
    pub back_off: Option<f64>,
    /// Threshold for [`PredictionTree::reject_path`].
    pub reject: Option<f64>,
}

/// Calibration photos of the classes that the model chooses from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CalibrationCounts {
    /// Number of photos on which the threshold was calibrated.
    pub photos: usize,
    /// Number of other photos on which the temperature was fitted; 0 if the user set it.
    pub temperature_photos: usize,
    /// The threshold calibrated on these photos alone.
    pub threshold: Option<f64>,
    /// Share of wrong answers among these photos at `threshold`.
    pub calibration_risk: f64,
    /// SHA-256 of the records of the data set.
    pub data_sha256: String,
}

/// Calibration photos of held-out genera.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CalibratedUnseen {
    /// Number of calibration photos.
    pub photos: usize,
    /// Number of genera, the units of the calibration.
    pub genera: usize,
    /// The threshold calibrated on these genera alone.
    pub threshold: Option<f64>,
    /// Mean over genera of the share of wrong answers at `threshold`.
    pub calibration_risk: f64,
    /// SHA-256 of the records of the data set.
    pub data_sha256: String,
}

/// A class tree as stored in the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredTree {
    /// SHA-256 of the edges as lines `parent<TAB>child`.
    pub sha256: String,
    /// The edges, parent first, in preorder.
    pub edges: Vec<[String; 2]>,
}

/// A class that the model chooses from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PredictedClass {
    /// Name of the class in the tree.
    pub label: String,
    /// Text for the prompts.
    pub text: String,
}

impl StoredTree {
    /// Converts a tree to its edges and their hash.
    pub fn of(tree: &Tree) -> Self {
        let edge = |node: usize| Some([tree.name(tree.parent(node)?).to_owned(), tree.name(node).to_owned()]);
        let edges: Vec<[String; 2]> = (0..tree.len()).filter_map(edge).collect();
        Self { sha256: hash(&edges), edges }
    }
}

fn hash(edges: &[[String; 2]]) -> String {
    let lines: String = edges.iter().map(|[parent, child]| format!("{parent}\t{child}\n")).collect();
    sha256_hex(lines.as_bytes())
}

impl StoredThreshold {
    /// Creates the threshold of `risk` for a tree, without calibration: the root is the only answer.
    pub fn uncalibrated(tree: &Tree, risk: f64, temperature: f64) -> Self {
        Self {
            format: FORMAT.into(),
            version: VERSION,
            risk,
            threshold: None,
            flat: FlatThresholds::default(),
            temperature,
            calibration: CalibrationCounts::default(),
            unseen: None,
            checkpoint: String::new(),
            weights_sha256: String::new(),
            crop: EvalCrop::Center,
            prompts: String::new(),
            templates: Vec::new(),
            tree: StoredTree::of(tree),
            classes: Vec::new(),
        }
    }

    /// Reads a threshold file.
    ///
    /// # Errors
    /// The file cannot be read, is not a threshold file, has another version, or is inconsistent.
    pub fn read(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| Error::Invalid {
            name: name.clone(),
            found: error.to_string(),
            expected: "a readable threshold file, written by `conifer predict --out-threshold`".into(),
        })?;
        Self::parse(&text).map_err(|(found, expected)| Error::Invalid { name, found, expected })
    }

    /// Parses the content of a file. An error is the value found and the value expected.
    fn parse(text: &str) -> std::result::Result<Self, (String, String)> {
        #[derive(Deserialize)]
        struct FormatProbe {
            format: String,
            version: u32,
        }
        let expected = "a threshold file, written by `conifer predict --out-threshold`";
        let probe: FormatProbe =
            serde_json::from_str(text).map_err(|error| (format!("not readable ({error})"), expected.to_owned()))?;
        if probe.format != FORMAT {
            return Err((format!("of format `{}`", probe.format), expected.into()));
        }
        if probe.version != VERSION {
            return Err((format!("of version {}", probe.version), format!("version {VERSION}; calibrate again")));
        }
        let stored: Self =
            serde_json::from_str(text).map_err(|error| (format!("damaged ({error})"), expected.to_owned()))?;
        let right = "an unchanged threshold file; calibrate again";
        let wrong = |found: String| Err((found, right.to_owned()));
        let thresholds = [stored.threshold, stored.flat.back_off, stored.flat.reject];
        if !(stored.risk > 0.0 && stored.risk < 1.0) {
            return wrong(format!("damaged (risk {})", stored.risk));
        }
        if thresholds.iter().flatten().any(|it| !(it.is_finite() && *it >= 0.0)) {
            return wrong(format!("damaged (threshold {:?})", stored.threshold));
        }
        if !(stored.temperature > 0.0 && stored.temperature.is_finite()) {
            return wrong(format!("damaged (temperature {})", stored.temperature));
        }
        if hash(&stored.tree.edges) != stored.tree.sha256 {
            return wrong("damaged (the tree does not match its hash)".into());
        }
        stored.prediction_tree().map_err(|error| (format!("damaged ({error})"), right.to_owned()))?;
        Ok(stored)
    }

    /// Returns the content of the file.
    ///
    /// # Errors
    /// A number is not finite.
    pub fn to_json(&self) -> Result<String> {
        let text = serde_json::to_string_pretty(self).map_err(|error| Error::Invalid {
            name: "the threshold file".into(),
            found: error.to_string(),
            expected: "finite numbers".into(),
        })?;
        Ok(text + "\n")
    }

    /// The classes and their tree.
    ///
    /// # Errors
    /// The edges do not form a tree, or a class is not in it.
    pub fn prediction_tree(&self) -> Result<PredictionTree> {
        let tree = Tree::from_edges(self.tree.edges.iter().map(|[parent, child]| (parent, child)))?;
        PredictionTree::of_names(tree, &self.classes.iter().map(|class| &class.label).collect::<Vec<_>>())
    }

    /// Two sentences for display: the photos for which the risk is guaranteed, and the limits for photos of classes
    /// that the model does not choose from.
    pub fn guarantee(&self) -> [String; 2] {
        // Round, because 100 * 0.07 is 7.000000000000001.
        let percent = (1e8 * self.risk).round() / 1e6;
        let photos = self.calibration.photos;
        let seen = match self.calibration.threshold {
            Some(_) => format!(
                "at most {percent} % of the answers are wrong for photos like the {photos} calibration photos (on average over calibration sets)"
            ),
            None => {
                format!("too few calibration photos ({photos}) for a risk of {percent} %: only the root is answered")
            }
        };
        let unseen = match &self.unseen {
            Some(unseen) if unseen.threshold.is_some() => format!(
                "the same holds for unseen classes, as a mean over genera, if their genera are like the {} held-out genera of the calibration",
                unseen.genera
            ),
            Some(unseen) => format!("no guarantee for unseen classes: too few held-out genera ({})", unseen.genera),
            None => "no guarantee for unseen classes: no calibration photos of held-out genera (--unseen-calibration)"
                .into(),
        };
        [seen, unseen]
    }

    /// Checks that the threshold was calibrated for this model.
    ///
    /// # Errors
    /// The weights differ.
    pub fn check_model(&self, name: &str, weights_sha256: &str) -> Result<()> {
        if self.weights_sha256 == weights_sha256 {
            return Ok(());
        }
        let short = |hash: &str| hash.get(..12).unwrap_or(hash).to_owned();
        Err(Error::Invalid {
            name: format!("the threshold of {}", self.checkpoint),
            found: format!("for weights {}", short(&self.weights_sha256)),
            expected: format!("a threshold for {name} (weights {}); calibrate again", short(weights_sha256)),
        })
    }

    /// Checks that the threshold was calibrated for this tree.
    ///
    /// # Errors
    /// The edges differ.
    pub fn check_tree(&self, name: &str, tree: &Tree) -> Result<()> {
        let other = StoredTree::of(tree);
        if other.sha256 == self.tree.sha256 {
            return Ok(());
        }
        Err(Error::Invalid {
            name: "the tree of the threshold".into(),
            found: format!("another one ({} edges below `{}`)", self.tree.edges.len(), self.tree.edges[0][0]),
            expected: format!("{name} ({} edges below `{}`); calibrate again", other.edges.len(), tree.name(0)),
        })
    }
}
