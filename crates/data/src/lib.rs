//! Reads photographs, captions, boxes and hierarchies, and makes batches of them. The crate does not depend on a tensor
//! engine.
//!
//! ```text
//! files, shards, tables, folders
//!   | sources::<kind>          index -> Sample { image?, captions, phrases with boxes, tiers, taxon, label }
//!   | transform, tokenizer     pixels and token ids, seeded per (seed, epoch, sample)
//!   v loader                   Batch, in an order that depends on the seed alone
//! ```
//!
//! A bad *sample* is returned as a [`Broken`] with a [`Cause`], and counted; the loader stops a run only if too many
//! samples are broken. A bad *request* (a missing index file, an unknown option) is an [`Error`].
//!
//! ```
//! use conifer_data::SourceSpec;
//! use conifer_data::sources::jsonl;
//!
//! # let folder = tempfile::tempdir().unwrap();
//! let path = folder.path().join("captions.jsonl");
//! std::fs::write(&path, "{\"captions\": [\"a dog\", \"a brown dog\"], \"label\": \"dog\"}\n").unwrap();
//! let source = jsonl::ENTRY.open(&SourceSpec { path: Some(path), ..SourceSpec::default() })?;
//! let sample = source.get(0).expect("the record is valid");
//! assert_eq!((source.len(), sample.captions.len(), sample.label.as_deref()), (1, 2, Some("dog")));
//! # Ok::<(), conifer_data::Error>(())
//! ```
//!
//! `conifer-datasets` opens sources by the name of their kind, and adds the toy world and published data sets.

pub mod batch;
pub mod error;
pub mod export;
pub mod files;
#[cfg(any(test, feature = "fixtures"))]
pub mod fixtures;
pub mod grounded;
pub mod guard;
pub mod hierarchy;
pub mod loader;
pub mod names;
pub mod parts;
mod picture;
pub mod printable;
pub mod rng;
pub mod roots;
pub mod sample;
pub mod sampler;
pub mod shard;
pub mod source;
pub mod sources;
pub mod tokenizer;
pub mod transform;
pub mod vectors;

pub use error::{Error, Result};
pub use parts::PartRule;
pub use picture::{encode_jpeg, encode_png};
pub use sample::{BBox, Broken, Cause, ImageRef, MissingRank, Phrase, Picture, PixelLimits, Sample, Span, Tiers, View};
pub use source::{ClassEntry, Source, SourceSpec};
pub use sources::SourceEntry;
