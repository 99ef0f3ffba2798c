//! Search over embeddings in memory or on disk, and traversals through them towards the root.
//!
//! * [`FlatIndex`] compares a query with every row. It ranks by distance, similarity or exterior angle in either
//!   direction, or it ranks the rows within a limit by similarity or depth ([`Ranking`]). A [`Filter`] restricts the
//!   rows. It needs no training and gives the same result for any number of threads.
//! * [`CellIndex`] gives the same result bit for bit while visiting fewer rows, if the data allows it. With a limited
//!   [`Effort`] it visits fewer still and finds most of the result.
//! * [`Traversal`] samples the path from a point to the root of the hierarchy, or to another point, and returns the
//!   nearest row at every step.
//! * [`store`] keeps embeddings in a folder to which rows are appended and from which rows are deleted. A [`Snapshot`]
//!   of it is searched through memory-mapped files. [`export`] converts embeddings for other engines.
//!
//! ```
//! use conifer_index::{Direction, Filter, FlatIndex, Query, Ranking};
//! use conifer_embeddings::{EmbeddingSet, Modality};
//! use conifer_geometry::{ManifoldSpec, Root};
//!
//! let set = EmbeddingSet {
//!     spec: ManifoldSpec::lorentz(2, 1.0),
//!     root: Root::Origin,
//!     ids: ["animal", "dog", "bus"].map(String::from).into(),
//!     modality: vec![Modality::Text; 3],
//!     points: vec![0.3, 0.0, 2.0, 0.1, -2.0, 0.0],
//!     columns: Default::default(),
//!     source: Default::default(),
//! };
//! let index = FlatIndex::new(&set)?;
//! // The rows below "animal", by exterior angle: itself (0 by definition), then "dog".
//! let narrower = index.top_k(&Query::row(&set, 0), Ranking::Angle(Direction::Down), 2, &Filter::All)?;
//! assert_eq!(narrower[0].iter().map(|hit| hit.row).collect::<Vec<_>>(), [0, 1]);
//! # Ok::<(), conifer_index::Error>(())
//! ```

mod cells;
mod compose;
mod error;
pub mod export;
mod filter;
mod flat;
mod kernel;
mod mapped;
mod pairs;
mod query;
mod raw;
mod rows;
mod scan;
mod select;
pub mod store;
mod table;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod traverse;

pub use cells::{CellHits, CellIndex, Effort, Partition};
pub use compose::conjunction;
pub use error::{Error, Result};
pub use filter::Filter;
pub use flat::FlatIndex;
pub use pairs::{score_pairs, score_rows};
pub use query::{Direction, Gate, Hit, Query, Ranking};
pub use store::{Snapshot, Store};
pub use traverse::{Cone, PathKind, Step, Stop, StopPlace, Traversal};
