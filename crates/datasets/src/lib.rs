//! Data sets by name: evaluation sets, importers, class trees and part graphs.
//!
//! * [`SOURCES`] lists every kind of source; [`open`] opens a source from its [`SourceSpec`](conifer_data::SourceSpec).
//! * [`DATA_SETS`] lists the evaluation sets of the papers, each read in the layout of its published archive
//!   ([`sets`]).
//! * [`import`] converts the files of published training sets to grounded JSONL or shards.
//! * [`class_trees`] reads published is-a trees, [`breeds`] the BREEDS tasks.
//! * [`part_graph`] builds a part-of hierarchy of classes from the boxes of a data set.
//!
//! ```
//! use conifer_data::SourceSpec;
//! use conifer_datasets::{open, sets, spec_of_text};
//!
//! let world = open(&SourceSpec { kind: "toy".to_owned(), ..SourceSpec::default() })?;
//! let sample = world.get(0).expect("the toy world has no broken sample");
//! assert!(sample.image.is_some() && !sample.captions.is_empty() && sample.label.is_some());
//!
//! assert_eq!(spec_of_text("photos.csv").map(|spec| spec.kind).as_deref(), Some("csv_pairs"));
//! assert_eq!(sets::find("cifar10")?.classes, 10);
//! # Ok::<(), conifer_data::Error>(())
//! ```

pub mod breeds;
pub mod class_trees;
pub mod import;
pub mod part_graph;
pub mod sets;
pub mod sources;

pub use sets::{DATA_SETS, DataSet};
pub use sources::{SOURCES, open, spec_of_text};
