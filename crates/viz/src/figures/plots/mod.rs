//! Drawings that several figures share.

mod axes;
mod bars;
mod histograms;
mod lines;

pub(super) use axes::COLUMN;
pub(crate) use axes::{PAGE, SIZE, SMALL, legend};
pub(super) use bars::{BarMark, bars};
pub(super) use histograms::histograms;
pub(super) use lines::{LinePlot, LinePoint, lines};

pub use histograms::{HISTOGRAM_COLUMNS, push_histogram};
