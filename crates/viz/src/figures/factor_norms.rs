use super::FigureEntry;
use super::drawing::{Anchor, Drawing};
use super::font::FigureFont;
use super::plots::{PAGE, SIZE, SMALL};
use super::table::{FigureColumn, FigureColumnKind, FigureTable, groups};
use crate::chart::number;
use crate::palette::{INK, SOFT, colour};
use crate::{Error, Result};

pub(super) const ENTRY: FigureEntry = FigureEntry {
    name: "factor-norms",
    summary: "Distances of texts from the root in every factor of a product space (PHyCLIP Fig. 4a)",
    inputs: "factors.csv of conifer factors",
    columns: &[
        FigureColumn { name: "text", kind: FigureColumnKind::Text, help: "the text" },
        FigureColumn { name: "factor", kind: FigureColumnKind::Number, help: "number of the factor, from 0" },
        FigureColumn { name: "depth", kind: FigureColumnKind::Number, help: "distance from the root of the factor" },
    ],
    draw,
};

/// Maximum number of texts in a drawing.
const MAX_TEXTS: usize = 60;
/// Heights in points: `BARS` for the bars of a text, `ROW` for the text with its bars.
const BARS: f64 = 30.0;
const ROW: f64 = 47.0;

/// Draws one row of bars per text. All rows have the same scale.
fn draw(table: &FigureTable, font: &FigureFont<'_>) -> Result<Drawing> {
    let by_text = groups(table.rows(), |row| row.text("text"));
    if by_text.len() > MAX_TEXTS {
        return Err(Error::invalid("texts", by_text.len(), format!("at most {MAX_TEXTS}")));
    }
    let mut drawing = Drawing::new(PAGE);
    let factors: Vec<f64> = {
        let mut all: Vec<f64> = table.rows().map(|row| row.number("factor")).collect();
        all.sort_by(f64::total_cmp);
        all.dedup();
        all
    };
    let largest = table.rows().map(|row| row.number("depth").abs()).fold(0.0, f64::max);
    let scale = if largest > 0.0 { largest } else { 1.0 };
    let width = (PAGE - 8.0) / factors.len().max(1) as f64;
    for (at, (text, rows)) in by_text.iter().enumerate() {
        let top = ROW * at as f64;
        let best = rows.iter().map(|row| row.number("depth")).fold(f64::NEG_INFINITY, f64::max);
        let text = font.fitted(text, SIZE, PAGE - 90.0).into_owned();
        drawing.text([4.0, top + SIZE + 1.0], SIZE, Anchor::Start, INK, &text);
        let note = format!("largest {}", number(best));
        drawing.text([PAGE - 4.0, top + SIZE + 1.0], SMALL, Anchor::End, SOFT, &font.fitted(&note, SMALL, 80.0));
        let bottom = top + SIZE + 6.0 + BARS;
        for row in rows {
            let depth = row.number("depth");
            let column = factors.iter().position(|it| *it == row.number("factor")).unwrap_or(0);
            let height = (depth.abs() / scale).clamp(0.0, 1.0) * BARS;
            let shade = if depth == best { colour(5) } else { colour(0) };
            let x = 4.0 + width * column as f64;
            drawing.rectangle([x + 0.1 * width, bottom - height], [0.8 * width, height], shade, 0.9);
        }
        drawing.line(vec![[4.0, bottom], [PAGE - 4.0, bottom]], SOFT, 0.5);
    }
    let y = ROW * by_text.len() as f64 + SMALL + 2.0;
    let label = |factor: Option<&f64>| factor.map_or(String::new(), |it| format!("factor {}", number(*it)));
    drawing.text([4.0, y], SMALL, Anchor::Start, SOFT, &label(factors.first()));
    if factors.len() > 1 {
        drawing.text([PAGE - 4.0, y], SMALL, Anchor::End, SOFT, &label(factors.last()));
    }
    drawing.height = y + 4.0;
    Ok(drawing)
}
