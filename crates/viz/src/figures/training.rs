use super::FigureEntry;
use super::plots::{LinePlot, LinePoint, lines};
use super::table::{FigureColumn, FigureColumnKind};

pub(super) const ENTRY: FigureEntry = FigureEntry {
    name: "training",
    summary: "Training curves of several runs; runs that differ only in their seed are a mean with a band",
    inputs: "run folders of train",
    columns: &[
        FigureColumn { name: "panel", kind: FigureColumnKind::Text, help: "the logged value" },
        FigureColumn { name: "line", kind: FigureColumnKind::Text, help: "the experiment" },
        FigureColumn { name: "step", kind: FigureColumnKind::Number, help: "number of updates" },
        FigureColumn { name: "mean", kind: FigureColumnKind::Number, help: "mean over the seeds" },
        FigureColumn { name: "smallest", kind: FigureColumnKind::Number, help: "smallest value of a seed" },
        FigureColumn { name: "largest", kind: FigureColumnKind::Number, help: "largest value of a seed" },
        FigureColumn { name: "seeds", kind: FigureColumnKind::Number, help: "number of runs" },
    ],
    draw: |table, font| {
        let points = table.rows().map(|row| {
            let several = row.number("seeds") > 1.0;
            let band = several.then(|| [row.number("smallest"), row.number("largest")]);
            LinePoint {
                panel: row.text("panel"),
                line: row.text("line"),
                x: row.number("step"),
                y: row.number("mean"),
                band,
            }
        });
        let label = "value; band: smallest to largest over seeds";
        Ok(lines(&LinePlot { points: points.collect(), labels: ["step", label], unit_square: false }, font))
    },
};
