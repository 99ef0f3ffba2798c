use super::FigureEntry;
use super::checklist::VALUE_COLUMNS;
use super::plots::{BarMark, bars};

pub(super) const ENTRY: FigureEntry = FigureEntry {
    name: "ablation",
    summary: "Dots with 95 % intervals: numbers of several models, or differences of the claims of reproduce",
    inputs: "result files of eval run --out, one per model; or claims.json of reproduce",
    columns: VALUE_COLUMNS,
    draw: |table, font| Ok(bars(table, font, BarMark::Dot, "value; line: 95 % interval; dashes: trivial answer")),
};
