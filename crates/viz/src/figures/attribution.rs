use super::FigureEntry;
use super::checklist::VALUE_COLUMNS;
use super::plots::{BarMark, bars};

pub(super) const ENTRY: FigureEntry = FigureEntry {
    name: "attribution",
    summary: "VG-Attribution: accuracy of the most frequent attribute pairs, as bars (HyCoCLIP Fig. 8b)",
    inputs: "result files of eval run --benchmark vg_attribution --out, one per model",
    columns: VALUE_COLUMNS,
    draw: |table, font| Ok(bars(table, font, BarMark::Bar, "accuracy; line: 95 % interval; dashes: trivial answer")),
};
