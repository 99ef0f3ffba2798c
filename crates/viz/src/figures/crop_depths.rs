use super::FigureEntry;
use super::plots::{HISTOGRAM_COLUMNS, histograms};

pub(super) const ENTRY: FigureEntry = FigureEntry {
    name: "crop-depths",
    summary: "Histogram of the distances from the root of photos, boxes, blurred boxes and tiny crops (visual hierarchies Fig. 10)",
    inputs: "data sets with boxes, one panel each, and a checkpoint (--model)",
    columns: HISTOGRAM_COLUMNS,
    draw: |table, font| Ok(histograms(table, font, "distance from the root")),
};
