//! From embeddings to numbers: metrics, and the benchmarks built on them.
//!
//! * [`metrics`]: pure functions of arrays, labels and trees. No files, no models, no spaces.
//! * [`benchmarks`]: one file per protocol. A benchmark sees points and the space they live in
//!   (and an [`Embedder`] for prompts and photographs), never the method or the encoder behind them.
//! * [`Record`]: one measured number with its sample size, interval and trivial baseline.

pub mod benchmarks;
mod embedder;
mod error;
pub mod metrics;
mod outcomes;
mod record;
mod score;

pub use benchmarks::{BENCHMARKS, Benchmark, Context, Input, Options, measure};
pub use embedder::Embedder;
pub use error::{Error, Result};
pub use outcomes::Outcomes;
pub use record::{Baseline, Place, Record, table};
pub use score::{Score, similarity_rows};
