use super::FigureEntry;
use super::drawing::{Anchor, Drawing};
use super::font::FigureFont;
use super::plots::{COLUMN, SIZE, SMALL};
use super::table::{FigureColumn, FigureColumnKind, FigureTable, groups};
use crate::chart::number;
use crate::palette::{GRID, INK, SOFT, colour};
use crate::{Error, Result};

pub(super) const ENTRY: FigureEntry = FigureEntry {
    name: "chain",
    summary: "The text at each radius of a path from the root, general to specific (HierarCaps Fig. 4)",
    inputs: "output of --json hierarchy or --json traverse",
    columns: &[
        FigureColumn { name: "path", kind: FigureColumnKind::Text, help: "title of the path" },
        FigureColumn { name: "at", kind: FigureColumnKind::Number, help: "radius or part of the path" },
        FigureColumn { name: "text", kind: FigureColumnKind::Text, help: "the text found there" },
    ],
    draw,
};

/// Maximum number of texts in a drawing, so that it stays readable.
const MAX_LINES: usize = 400;
/// Height of a line, points.
const LINE: f64 = 11.0;
/// Maximum number of lines per text. A longer text is shortened.
const TEXT_LINES: usize = 3;
/// Widths in points: `NUMBERS` for the radii at the left, `SCALE` for the bar beside them that shows their range.
const NUMBERS: f64 = 44.0;
const SCALE: f64 = 40.0;

/// Draws one entry per text, with the range of radii at which the text was found. Consecutive rows with the same text
/// are one entry.
fn draw(table: &FigureTable, font: &FigureFont<'_>) -> Result<Drawing> {
    let mut drawing = Drawing::new(COLUMN);
    let mut y = 4.0;
    let ends = table.rows().map(|row| row.number("at"));
    let (low, high) = ends.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), at| (low.min(at), high.max(at)));
    let mut count = 0;
    for (title, rows) in groups(table.rows(), |row| row.text("path")) {
        if !title.is_empty() {
            for line in font.wrapped(title, SIZE, COLUMN - 8.0, 2) {
                drawing.text([4.0, y + SIZE], SIZE, Anchor::Start, INK, &line);
                y += LINE;
            }
            y += 2.0;
        }
        let mut lines: Vec<(f64, f64, &str)> = Vec::new();
        for row in rows {
            let (at, text) = (row.number("at"), row.text("text"));
            match lines.last_mut() {
                Some(line) if line.2 == text => line.1 = at,
                _ => lines.push((at, at, text)),
            }
        }
        count += lines.len();
        if count > MAX_LINES {
            return Err(Error::invalid(
                "texts",
                format!("more than {MAX_LINES}"),
                format!("at most {MAX_LINES} different texts in a row"),
            ));
        }
        let x = |at: f64| {
            let part = if high > low { (at / 2.0 - low / 2.0) / (high / 2.0 - low / 2.0) } else { 0.5 };
            NUMBERS + 4.0 + part.clamp(0.0, 1.0) * (SCALE - 8.0)
        };
        for (from, to, text) in lines {
            let middle = y + LINE / 2.0;
            drawing.line(vec![[x(low), middle], [x(high), middle]], GRID, 0.7);
            drawing.line(vec![[x(from) - 1.5, middle], [x(to) + 1.5, middle]], colour(0), 3.0);
            let number = font.fitted(&number(from), SMALL, NUMBERS - 10.0).into_owned();
            drawing.text([NUMBERS - 4.0, middle + 0.35 * SMALL], SMALL, Anchor::End, SOFT, &number);
            let left = NUMBERS + SCALE + 4.0;
            let wrapped = font.wrapped(text, SIZE, COLUMN - left - 4.0, TEXT_LINES);
            for (at, line) in wrapped.iter().enumerate() {
                let baseline = middle + 0.35 * SIZE + (LINE - 2.0) * at as f64;
                drawing.text([left, baseline], SIZE, Anchor::Start, INK, line);
            }
            y += LINE + (LINE - 2.0) * wrapped.len().saturating_sub(1) as f64;
        }
        y += 6.0;
    }
    drawing.height = y.max(LINE);
    Ok(drawing)
}
