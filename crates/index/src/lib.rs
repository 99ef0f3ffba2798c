//! Search over embeddings on disk or in memory, and walks through them towards the root.
//!
//! * [`FlatIndex`] compares a query with every row: by distance, by similarity, by the exterior angle of the hierarchy in either direction, or
//!   among the rows within a limit, by similarity or by depth ([`Ranking`]); behind a [`Filter`]. It needs no training and gives the same answer
//!   for any number of threads.
//! * [`CellIndex`] gives that answer, to the bit, from a part of the rows where the points allow it; or most of it ([`Effort`]) from fewer.
//! * [`Traversal`] walks from a point to the root of the hierarchy, or to another point, and names the nearest row at every step.
//! * [`store`] keeps embeddings in a folder that grows and shrinks, searched where they lie ([`Snapshot`]); [`export`] writes them for other engines.

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

pub use cells::{CellIndex, Effort, Found, Partition};
pub use compose::conjunction;
pub use error::{Error, Result};
pub use filter::Filter;
pub use flat::FlatIndex;
pub use pairs::{score_pairs, score_rows};
pub use query::{Direction, Gate, Hit, Query, Ranking};
pub use store::{Snapshot, Store};
pub use traverse::{Cone, Place, Step, Stop, Traversal};
