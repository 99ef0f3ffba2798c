//! Metrics on embeddings, and the benchmarks built on them.
//!
//! * [`metrics`]: pure functions of arrays, labels and trees, without files, models or spaces.
//! * [`benchmarks`]: one file per protocol. A benchmark sees points, their space and an [`EmbeddingModel`] for prompts
//!   and photos, but not the training method or the encoders.
//! * [`suite`]: measures the tables of a paper and shows them next to the published numbers.
//! * [`prediction`]: answers with the deepest node of a class tree at which the risk of a wrong answer is bounded.
//! * [`retrieve_text_chain`]: the chain of texts from general to specific that is retrieved for one photo.
//! * [`Record`]: one measured number with its sample size, interval and baseline.
//!
//! ```
//! use conifer_eval::metrics::{bootstrap_mean, hit_at_k, rank_of_best};
//!
//! // Scores of four candidates for two queries; the right candidates are 1 and 2.
//! let (first, second) = ([0.2, 0.9, 0.1, 0.3], [0.8, 0.1, 0.7, 0.2]);
//! let ranks = [rank_of_best(&first, |i| i == 1), rank_of_best(&second, |i| i == 2)].map(|it| it.unwrap());
//! assert_eq!((hit_at_k(&ranks, 1), hit_at_k(&ranks, 2)), (0.5, 1.0));
//! assert!(bootstrap_mean(&[1.0, 0.0, 1.0, 1.0], 0).is_some_and(|[low, high]| low < 0.75 && 0.75 < high));
//! ```

pub mod benchmarks;
mod chain_retrieval;
mod compare;
mod curve;
mod embedder;
mod error;
pub mod metrics;
mod outcomes;
pub mod prediction;
mod record;
mod results;
mod score;
mod seed_comparison;
mod settings;
pub mod suite;

pub use benchmarks::{BENCHMARKS, Benchmark, Context, Options, RequiredInput, measure};
pub use chain_retrieval::{
    CHAIN_PROTOCOLS, ChainProtocol, ChainQuery, RetrievedChain, RetrievedLevel, RetrievedText, TIERS_COLUMN,
    retrieve_text_chain,
};
pub use compare::{Comparison, Verdict, compare_results, comparison_table};
pub use curve::{CurveAverage, CurvePoint, PrecisionRecallCurve};
pub use embedder::EmbeddingModel;
pub use error::{Error, Result};
pub use outcomes::Outcomes;
pub use record::{Baseline, Record, RecordKey, table};
pub use results::{ResultLine, read_results};
pub use score::{Score, similarity_rows};
pub use seed_comparison::{ClaimVerdict, Opponent, SeedComparison, TrivialComparison, compare_over_seeds, decide};
pub use settings::{TreeFile, settings};
pub use suite::{SUITES, Suite, SuiteReport};
