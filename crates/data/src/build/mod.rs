//! What is made from a data set before training: hierarchies of classes from the boxes of its photos.
//!
//! ```text
//! boxes of photos (OpenImages CSV, COCO and LVIS JSON, grounded JSONL)
//!   | inputs    blocks of whole photos, in the order of the files
//!   | counts    class pairs (whole, part), in parallel; sums, so the order of work does not show
//!   v graph     pairs that are frequent and usual -> a class graph without cycles
//! ```

pub mod counts;
pub mod graph;
mod inputs;
pub mod parts;
mod state;

pub use counts::{ClassBox, ClassId, PartCounts};
pub use graph::{Edge, PartGraph, PartRow, Thresholds};
pub use parts::{Built, PartsSpec, Progress, build};

#[cfg(test)]
mod tests;
