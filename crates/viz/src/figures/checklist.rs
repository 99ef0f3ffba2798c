use super::FigureEntry;
use super::plots::{BarMark, bars};
use super::table::{FigureColumn, FigureColumnKind};

/// Columns of values with intervals, in panels.
pub(super) const VALUE_COLUMNS: &[FigureColumn] = &[
    FigureColumn { name: "panel", kind: FigureColumnKind::Text, help: "title of the panel" },
    FigureColumn { name: "series", kind: FigureColumnKind::Text, help: "the model" },
    FigureColumn { name: "name", kind: FigureColumnKind::Text, help: "what is measured" },
    FigureColumn { name: "value", kind: FigureColumnKind::Number, help: "the value" },
    FigureColumn { name: "low", kind: FigureColumnKind::Optional, help: "lower end of its 95 % interval" },
    FigureColumn { name: "high", kind: FigureColumnKind::Optional, help: "upper end of its 95 % interval" },
    FigureColumn { name: "reference", kind: FigureColumnKind::Optional, help: "value of the trivial answer" },
];

pub(super) const ENTRY: FigureEntry = FigureEntry {
    name: "checklist",
    summary: "VL-CheckList objects: accuracy by location and size, as bars (HyCoCLIP Fig. 8a)",
    inputs: "result files of eval run --benchmark vl_checklist --out, one per model",
    columns: VALUE_COLUMNS,
    draw: |table, font| Ok(bars(table, font, BarMark::Bar, "accuracy; line: 95 % interval; dashes: trivial answer")),
};
