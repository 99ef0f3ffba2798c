use super::FigureEntry;
use super::plots::{HISTOGRAM_COLUMNS, histograms};

pub(super) const ENTRY: FigureEntry = FigureEntry {
    name: "box-areas",
    summary: "Histogram of the areas of boxes, as shares of their photos (HyCoCLIP Fig. 4)",
    inputs: "data sets, one panel each, as for --data",
    columns: HISTOGRAM_COLUMNS,
    draw: |table, font| Ok(histograms(table, font, "area of the box / area of the photo")),
};
