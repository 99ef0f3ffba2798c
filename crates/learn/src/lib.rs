//! Training hierarchical vision-language embeddings: encoders, the model, its losses, the trainer, checkpoints, and the
//! way from photographs and captions to an [`EmbeddingSet`](conifer_space::EmbeddingSet).
//!
//! A batch goes through [`encoders`] (features), [`model`] (projection, scale) and the head (points on a manifold); one
//! of the [`methods`] turns the points into a loss; [`train`] takes the step; [`checkpoint`] keeps the result;
//! [`embed`] uses it. This is the only crate between the data and the tensor engine: what it hands on (`EmbeddingSet`)
//! needs no engine at all.

pub mod checkpoint;
pub mod config;
pub mod embed;
pub mod encoders;
pub mod error;
pub mod head;
pub mod laws;
pub mod log;
pub mod memory;
pub mod methods;
pub mod model;
pub mod optim;
pub mod params;
pub mod root;
pub mod scalars;
pub mod schedule;
pub mod terms;
pub mod train;

pub use error::{Error, Result};
