use super::FigureEntry;
use super::plots::{LinePlot, LinePoint, lines};
use super::table::{FigureColumn, FigureColumnKind};

pub(super) const ENTRY: FigureEntry = FigureEntry {
    name: "pr-curves",
    summary: "Precision over recall, a line per protocol (visual hierarchies Fig. 4)",
    inputs: "curves.csv of eval run --curves",
    columns: &[
        FigureColumn { name: "benchmark", kind: FigureColumnKind::Text, help: "name of the benchmark" },
        FigureColumn { name: "split", kind: FigureColumnKind::Text, help: "part of the data" },
        FigureColumn { name: "protocol", kind: FigureColumnKind::Text, help: "the line" },
        FigureColumn { name: "average", kind: FigureColumnKind::Text, help: "mean over queries, or pooled" },
        FigureColumn { name: "threshold", kind: FigureColumnKind::Number, help: "score of the point" },
        FigureColumn { name: "recall", kind: FigureColumnKind::Number, help: "recall at the threshold" },
        FigureColumn { name: "precision", kind: FigureColumnKind::Optional, help: "precision, if there is one" },
        FigureColumn { name: "queries", kind: FigureColumnKind::Number, help: "number of queries" },
    ],
    draw: |table, font| {
        let titles: Vec<String> =
            table.rows().map(|row| format!("{}, {}", row.text("split"), row.text("average"))).collect();
        let points = table.rows().zip(&titles).filter_map(|(row, panel)| {
            let (x, y) = (row.number("recall"), row.optional("precision")?);
            // Shorten the protocol: all lines of a panel share the rest, and the legend has no space for it.
            let line = row.text("protocol").split(", labels").next().unwrap_or_default();
            Some(LinePoint { panel, line, x, y, band: None })
        });
        let plot = LinePlot { points: points.collect(), labels: ["recall", "precision"], unit_square: true };
        Ok(lines(&plot, font))
    },
};
