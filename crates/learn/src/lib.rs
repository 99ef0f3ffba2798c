//! Training of hierarchical vision-language embeddings: encoders, model, losses, trainer and checkpoints, and the
//! embedding of photographs and captions into an [`EmbeddingSet`](conifer_embeddings::EmbeddingSet).
//!
//! The [`encoders`] map a batch to features. The [`model`] projects them and its head lifts them to points on a
//! manifold. One of the [`methods`] computes a loss from the points. [`train`] runs the optimiser, [`checkpoint`]
//! stores the result, and [`embed`] applies it. Only this crate connects the data to the tensor engine; an
//! `EmbeddingSet` needs no engine.
//!
//! ```
//! use conifer_learn::config::Config;
//!
//! let text = "data = { kind = 'toy' }\nmethod = { kind = 'hycoclip' }\ntrain = { steps = 10 }";
//! let config = Config::parse("experiment.toml", text, &[])?.resolve()?;
//! assert_eq!(config.optim.betas, [0.9, 0.98]); // a default of the papers, filled in by `resolve`
//! let typo = Config::parse("experiment.toml", "train = { stepz = 10 }", &[]).unwrap_err();
//! assert!(typo.to_string().contains("steps"), "the message names the nearest key");
//! # Ok::<(), conifer_learn::Error>(())
//! ```

pub mod adapter;
pub mod apex;
pub mod batch_space;
pub mod checkpoint;
pub mod config;
pub mod embed;
pub mod encoders;
pub mod error;
pub mod features;
pub mod frozen_features;
pub mod head;
pub mod laws;
pub mod layer_ids;
pub mod log;
pub mod lora;
pub mod memory;
pub mod methods;
pub mod model;
pub mod onnx;
pub mod optim;
pub mod params;
pub mod root;
pub mod scalars;
pub mod schedule;
pub mod terms;
pub mod train;
pub mod unfreeze;
pub mod weight_array;

pub use error::{Error, Result};
