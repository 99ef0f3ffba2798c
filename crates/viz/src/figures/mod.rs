//! Figures of the papers, for any data: drawings as SVG and PNG, and the data behind them as CSV.
//!
//! A figure is a function of a [`FigureTable`] with the columns that it declares. So the CSV file that a figure writes
//! can be drawn again. All drawings are deterministic.

mod ablation;
mod attribution;
mod box_areas;
mod chain;
mod checklist;
mod class_frequencies;
mod crop_depths;
mod depths;
pub(crate) mod drawing;
mod factor_depths;
mod factor_norms;
mod font;
mod interpolation;
pub(crate) mod plots;
mod pr_curves;
mod raster;
mod table;
#[cfg(test)]
mod tests;
mod training;

pub use drawing::Drawing;
pub use font::FigureFont;
pub use plots::{HISTOGRAM_COLUMNS, push_histogram};
pub use table::{FigureCell, FigureColumn, FigureColumnKind, FigureTable};

use crate::Result;

/// A figure by name.
pub struct FigureEntry {
    /// Name on the command line.
    pub name: &'static str,
    /// What the figure shows, and the figures of papers that it corresponds to.
    pub summary: &'static str,
    /// Description of the inputs of `conifer figure`.
    pub inputs: &'static str,
    /// Columns of the data that the figure draws.
    pub columns: &'static [FigureColumn],
    /// Draws a table with these columns.
    pub draw: fn(&FigureTable, &FigureFont<'_>) -> Result<Drawing>,
}

/// All figures.
pub const FIGURES: &[&FigureEntry] = &[
    &depths::ENTRY,
    &factor_depths::ENTRY,
    &factor_norms::ENTRY,
    &crop_depths::ENTRY,
    &box_areas::ENTRY,
    &class_frequencies::ENTRY,
    &pr_curves::ENTRY,
    &checklist::ENTRY,
    &attribution::ENTRY,
    &training::ENTRY,
    &ablation::ENTRY,
    &chain::ENTRY,
    &interpolation::ENTRY,
];

/// The figure with this name; `None` if there is none.
pub fn figure(name: &str) -> Option<&'static FigureEntry> {
    FIGURES.iter().copied().find(|it| it.name == name)
}
