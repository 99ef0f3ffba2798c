//! Builds class hierarchies from the boxes of a data set before training.
//!
//! ```text
//! boxes of photos (OpenImages CSV, COCO and LVIS JSON, grounded JSONL)
//!   | inputs    blocks of whole photos, in the order of the files
//!   | counts    (whole, part) class pairs, in parallel; sums do not depend on the order of the work
//!   v graph     pairs that pass the thresholds -> a class graph without cycles
//! ```

pub mod counts;
pub mod graph;
mod inputs;
pub mod parts;
mod state;

pub use counts::{ClassBox, ClassId, PartCounts};
pub use graph::{PartEdge, PartGraph, PartRow, PartThresholds};
pub use parts::{BuildProgress, BuiltGraph, PartsSpec, build};

#[cfg(test)]
mod tests;
