//! Reads photographs, captions, boxes and hierarchies, and makes batches of them. Independent of any tensor engine.
//!
//! ```text
//! files, shards, tables, folders, the toy world
//!   | sources::<kind>          index -> Sample { image?, captions, phrases with boxes, tiers, taxon, label }
//!   | transform, tokenizer     pixels and token ids, seeded per (seed, epoch, sample)
//!   v loader                   Batch, in an order that depends on the seed alone
//! ```
//!
//! A bad *sample* is returned as a [`Broken`] with a [`Cause`], and counted; the loader stops a run only if too many
//! samples are broken. A bad *request* (a missing index file, an unknown option) is an [`Error`].
//!
//! ```
//! use conifer_data::{SourceSpec, open};
//!
//! let world = open(&SourceSpec { kind: "toy".to_owned(), ..SourceSpec::default() })?;
//! let sample = world.get(0).expect("the toy world has no broken sample");
//! assert!(sample.image.is_some() && !sample.captions.is_empty() && sample.label.is_some());
//! # Ok::<(), conifer_data::Error>(())
//! ```

pub mod batch;
pub mod build;
pub mod error;
pub mod export;
mod files;
#[cfg(test)]
mod fixtures;
pub mod grounded;
pub mod guard;
pub mod hierarchy;
pub mod import;
pub mod loader;
mod names;
pub mod parts;
mod picture;
pub mod printable;
pub mod rng;
mod roots;
pub mod sample;
pub mod sampler;
pub mod sets;
pub mod shard;
pub mod sources;
pub mod tokenizer;
pub mod toy;
pub mod transform;
pub mod vectors;
mod wide;

pub use error::{Error, Result};
pub use parts::PartRule;
pub use picture::{encode_jpeg, encode_png};
pub use sample::{BBox, Broken, Cause, ImageRef, Phrase, Picture, PixelLimits, Sample, Span, Tiers, View};
pub use sets::{DATA_SETS, DataSet};
pub use sources::{ClassEntry, SOURCES, Source, SourceEntry, SourceSpec, open};
