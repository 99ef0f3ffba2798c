use super::FigureEntry;
use super::plots::{HISTOGRAM_COLUMNS, histograms};

pub(super) const ENTRY: FigureEntry = FigureEntry {
    name: "depths",
    summary: "Histogram of the distances from the root, by view (HyCoCLIP Fig. 5a)",
    inputs: "embedding sets, one panel each",
    columns: HISTOGRAM_COLUMNS,
    draw: |table, font| Ok(histograms(table, font, "distance from the root")),
};
