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
pub use traverse::{Cone, Step, Stop, StopPlace, Traversal};
