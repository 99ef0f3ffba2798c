//! Hierarchical classification with a bounded risk: answers with the deepest node of a class tree whose confidence
//! exceeds a calibrated threshold.
//!
//! A photo has a score for each class. A softmax turns the scores into probabilities, and the probability of a node is
//! the sum over the classes below it ([`PredictionTree`]). The answer is the deepest node on a path from the root whose
//! confidence exceeds a threshold ([`ScoredPath`]). Conformal risk control calibrates the threshold on labelled photos
//! that were used neither for training nor for the test ([`conformal_threshold`]).
//!
//! ```
//! use conifer_data::hierarchy::Tree;
//! use conifer_eval::prediction::{PredictionTree, conformal_threshold};
//!
//! let tree = Tree::from_edges([("bird", "duck"), ("bird", "owl"), ("duck", "mallard"), ("duck", "pintail")])?;
//! let classes = PredictionTree::of_leaves(tree)?;
//! // Scores of mallard, pintail and owl. The two ducks are equally likely; together they have 0.94.
//! let path = classes.greedy_path(&classes.node_probabilities(&[2.0, 2.0, 0.0], 1.0)?);
//! assert_eq!(classes.tree().name(path.answer(Some(0.9))), "duck");
//! // The path first leaves the ancestors of `pintail` at a node with probability 0.47.
//! let pintail = classes.tree().find("pintail").unwrap();
//! let critical = path.critical(classes.tree(), pintail).unwrap();
//! assert!((critical - 0.468).abs() < 1e-3);
//! // Nine such photos are too few for a risk of 0.05: nineteen are needed.
//! assert_eq!(conformal_threshold(&vec![vec![Some(critical)]; 9], 0.05)?.threshold, None);
//! # Ok::<(), conifer_eval::Error>(())
//! ```

mod classes;
mod conformal;
mod path;
mod predictor;
mod statistics;
mod stored;
mod temperature;

pub use classes::{PredictionTree, TruePosition};
pub use conformal::{ConformalThreshold, conformal_threshold, needed_units};
pub use path::ScoredPath;
pub use predictor::{PhotoPaths, Predictor, calibrate};
pub use statistics::{AnswerStatistics, JudgedAnswer, answer_statistics};
pub use stored::{CalibratedUnseen, CalibrationCounts, FlatThresholds, PredictedClass, StoredThreshold, StoredTree};
pub use temperature::fit_temperature;

#[cfg(test)]
mod tests;
