use super::super::drawing::{Anchor, Drawing};
use super::super::font::FigureFont;
use super::super::table::{FigureRow, FigureTable, groups};
use super::axes::{PAGE, SIZE, SMALL, legend, range, widened};
use crate::chart::{number, ticks};
use crate::palette::{GRID, INK, SOFT, colour};

/// How a value is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::figures) enum BarMark {
    /// A bar from zero.
    Bar,
    /// A dot; the axis need not contain zero.
    Dot,
}

/// Height of the row of a bar or dot, points.
const BAR: f64 = 7.5;
/// Vertical space between the groups of bars of two names, points.
const GAP: f64 = 5.0;
/// Width of the names and of the numbers beside the bars.
const NAMES: f64 = 120.0;
const NUMBERS: f64 = 34.0;

/// Draws rows of the columns `panel`, `name`, `series`, `value`, `low`, `high` and `reference` as horizontal bars or
/// dots with their intervals, one panel below the other. The reference of a row is a dashed line across it.
pub(in crate::figures) fn bars(table: &FigureTable, font: &FigureFont<'_>, mark: BarMark, x_label: &str) -> Drawing {
    let names: Vec<&str> = groups(table.rows(), |row| row.text("series")).into_iter().map(|(name, _)| name).collect();
    let mut drawing = Drawing::new(PAGE);
    let mut y = legend(&mut drawing, font, &names, 3.0);
    let mut by_panel = groups(table.rows(), |row| row.text("panel"));
    if by_panel.is_empty() {
        by_panel.push(("", Vec::new()));
    }
    for (title, rows) in &by_panel {
        if !title.is_empty() {
            drawing.text([4.0, y + SIZE], SIZE, Anchor::Start, INK, &font.fitted(title, SIZE, PAGE - 8.0));
            y += SIZE + 4.0;
        }
        y = panel(&mut drawing, font, rows, &names, mark, y);
    }
    drawing.text([NAMES, y + SMALL], SMALL, Anchor::Start, SOFT, &font.fitted(x_label, SMALL, PAGE - NAMES - 4.0));
    drawing.height = y + SMALL + 5.0;
    drawing
}

/// Draws one panel from `top` and returns its lower border.
fn panel(
    drawing: &mut Drawing,
    font: &FigureFont<'_>,
    rows: &[FigureRow<'_>],
    series: &[&str],
    mark: BarMark,
    top: f64,
) -> f64 {
    let by_name = groups(rows.iter().copied(), |row| row.text("name"));
    let ends = rows.iter().flat_map(|row| {
        ["value", "low", "high", "reference"].into_iter().filter_map(|column| row.optional(column)).collect::<Vec<_>>()
    });
    let zero = (mark == BarMark::Bar).then_some(0.0);
    let scale = widened(range(ends.chain(zero)));
    let (left, right) = (NAMES, drawing.width - NUMBERS);
    let x = |value: f64| {
        let part = (value / 2.0 - scale[0] / 2.0) / (scale[1] / 2.0 - scale[0] / 2.0);
        left + part.clamp(0.0, 1.0) * (right - left)
    };
    let heights: f64 = by_name.iter().map(|(_, rows)| GAP + BAR * rows.len() as f64).sum();
    let bottom = top + heights + GAP;
    for tick in ticks(scale, 6) {
        drawing.line(vec![[x(tick), top], [x(tick), bottom]], GRID, 0.5);
        drawing.text([x(tick), bottom + SMALL + 2.0], SMALL, Anchor::Middle, SOFT, &number(tick));
    }
    let mut y = top + GAP;
    for (name, rows) in &by_name {
        let height = BAR * rows.len() as f64;
        let middle = y + height / 2.0;
        let name = font.fitted(name, SIZE, NAMES - 8.0);
        // A row is less high than a line of text, so a name also uses the space above and below its rows.
        drawing.text([NAMES - 4.0, middle + 0.35 * SIZE], SIZE, Anchor::End, INK, &name);
        for (at, row) in rows.iter().enumerate() {
            let shade = colour(series.iter().position(|it| *it == row.text("series")).unwrap_or(0));
            let center = y + BAR * (at as f64 + 0.5);
            let value = row.number("value");
            match mark {
                BarMark::Bar => {
                    let (from, to) = (x(value.min(0.0)), x(value.max(0.0)));
                    drawing.rectangle([from, center - 0.42 * BAR], [to - from, 0.84 * BAR], shade, 0.85);
                }
                BarMark::Dot => drawing.disc([x(value), center], 2.2, shade),
            }
            if let (Some(low), Some(high)) = (row.optional("low"), row.optional("high")) {
                let ink = if mark == BarMark::Bar { INK } else { shade };
                drawing.line(vec![[x(low), center], [x(high), center]], ink, 0.9);
            }
            if let Some(reference) = row.optional("reference") {
                let at = x(reference);
                drawing.dashes(vec![[at, center - BAR / 2.0], [at, center + BAR / 2.0]], INK, 0.8);
            }
            let text = number(value);
            let text = font.fitted(&text, SMALL, NUMBERS - 6.0);
            drawing.text([right + 4.0, center + 0.35 * SMALL], SMALL, Anchor::Start, SOFT, &text);
        }
        y += height + GAP;
    }
    bottom + SMALL + 8.0
}
