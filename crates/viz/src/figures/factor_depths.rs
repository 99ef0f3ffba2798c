use super::FigureEntry;
use super::plots::{HISTOGRAM_COLUMNS, histograms};

pub(super) const ENTRY: FigureEntry = FigureEntry {
    name: "factor-depths",
    summary: "Histograms of the distances from the root in the factors of a product space, by view (PHyCLIP Fig. 3)",
    inputs: "an embedding set in a product space; the 12 factors of the largest mean distance",
    columns: HISTOGRAM_COLUMNS,
    draw: |table, font| Ok(histograms(table, font, "distance from the root")),
};
