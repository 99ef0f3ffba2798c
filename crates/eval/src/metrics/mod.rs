//! Pure functions: arrays, labels and trees in, numbers out. Each is tested on a table that can be checked by eye.

mod bootstrap;
mod chain;
mod classification;
mod correlation;
mod hierarchical;
mod ordering;
mod recall;

pub use bootstrap::{bootstrap_mean, bootstrap_statistic};
pub use chain::{ChainRetrieval, chain_precision_recall, depth_levels, retrieve_chain};
pub use classification::{Accuracy, accuracy};
pub use correlation::spearman;
pub use hierarchical::{HierarchicalScores, hierarchical_scores, random_hierarchical_scores};
pub use ordering::{kendall_tau_permutation, ordering_by_ascending, pair_order_tau};
pub use recall::{chance_hit_at_k, hit_at_k, rank_of_best};

#[cfg(test)]
mod tests;
