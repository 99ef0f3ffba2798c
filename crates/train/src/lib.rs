//! Training of hierarchical vision-language embeddings: methods (losses), optimiser, configuration of an experiment,
//! trainer and logs.
//!
//! A [`Config`](config::Config) describes an experiment. One of the [`methods`] computes a loss from the points of a
//! batch. The [`Trainer`](trainer::Trainer) runs the optimiser, writes logs and checkpoints, and resumes a run. The
//! models themselves, their checkpoints and the embedding of data are in the crate `conifer-model`.
//!
//! ```
//! use conifer_train::config::Config;
//!
//! let text = "data = { kind = 'toy' }\nmethod = { kind = 'hycoclip' }\ntrain = { steps = 10 }";
//! let config = Config::parse("experiment.toml", text, &[])?.resolve()?;
//! assert_eq!(config.optim.betas, [0.9, 0.98]); // a default of the papers, filled in by `resolve`
//! let typo = Config::parse("experiment.toml", "train = { stepz = 10 }", &[]).unwrap_err();
//! assert!(typo.to_string().contains("steps"), "the message names the nearest key");
//! # Ok::<(), conifer_train::Error>(())
//! ```

pub mod config;
pub mod error;
pub mod frozen_features;
pub mod laws;
pub mod log;
pub mod memory;
pub mod methods;
pub mod optim;
pub mod ranks;
pub mod root;
pub mod schedule;
pub mod sequences;
pub mod terms;
pub mod trainer;
pub mod unfreeze;

pub use error::{Error, Result};
