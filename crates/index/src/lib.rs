//! Search over a set of embeddings, and walks through it towards the root.
//!
//! [`FlatIndex`] compares a query with every row, exactly: by distance, by similarity, by the exterior angle of the
//! hierarchy in either direction, or among the rows within a limit, by similarity or by depth ([`Ranking`]). It needs no training, gives the same answer for any number of threads,
//! and is the truth to which approximate indexes are held. [`Traversal`] walks from a point to the root of the hierarchy
//! (or to another point) and names the nearest row at every step.

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
