//! Metrics as pure functions of arrays, labels and trees. Each is tested on a table that can be checked by hand.

mod average_precision;
mod bootstrap;
mod bootstrap_counts;
mod chain;
mod classification;
mod correlation;
mod hierarchical;
mod matching;
mod ordering;
mod proportion;
mod recall;
mod roc_auc;
mod threshold_curve;
mod threshold_curve_sums;
mod wasserstein;

pub use average_precision::{DetectionRanking, average_precision, average_precision_101};
pub use bootstrap::{BootstrapUnits, bootstrap_mean, bootstrap_statistic, bootstrap_units};
pub use bootstrap_counts::{bootstrap_counts, normal_interval};
pub use chain::{ChainRetrieval, best_within_levels, chain_precision_recall, depth_levels, retrieve_chain};
pub use classification::{Accuracy, accuracy};
pub use correlation::{SpearmanRanks, spearman};
pub use hierarchical::{HierarchicalScores, hierarchical_scores, random_hierarchical_scores};
pub use matching::{iou, iou_matches};
pub use ordering::{ordering_by_ascending, pair_order_tau};
pub use proportion::wilson_interval;
pub use recall::{chance_hit_at_k, hit_at_k, rank_of_best};
pub use roc_auc::{RocRanking, roc_auc};
pub use threshold_curve::ThresholdCurve;
pub use threshold_curve_sums::ThresholdCurveSums;
pub use wasserstein::{LabelDistance, wasserstein};

#[cfg(test)]
mod tests;
