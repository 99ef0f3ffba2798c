use super::super::drawing::{Anchor, Drawing};
use super::super::font::FigureFont;
use crate::chart::{number, ticks};
use crate::palette::{GRID, INK, SOFT, colour};

/// Width of a column of a paper with two columns, points.
pub(in crate::figures) const COLUMN: f64 = 240.0;
/// Width of the text of a paper with one column, points.
pub(crate) const PAGE: f64 = 397.0;
/// Font size of names, points.
pub(crate) const SIZE: f64 = 8.0;
/// Font size of numbers, points: the smallest that papers allow.
pub(crate) const SMALL: f64 = 7.0;
/// Space for the numbers of a y axis.
const NUMBERS: f64 = 30.0;
/// Space between panels.
const GAP: f64 = 8.0;
/// Height of a line of text.
const LINE: f64 = 11.0;
/// Minimum distance between tick labels, points: `TICK_GAP` on the x axis, `LINE_GAP` on the y axis.
const TICK_GAP: f64 = 30.0;
const LINE_GAP: f64 = 14.0;

/// A rectangle of a drawing with a linear scale on both axes.
pub(super) struct Axes {
    /// Left, top, right and bottom border, points.
    pub(super) area: [f64; 4],
    pub(super) x: [f64; 2],
    pub(super) y: [f64; 2],
    /// Positions and labels of the ticks of the y axis; `None` for round numbers.
    pub(super) y_marks: Option<Vec<(f64, String)>>,
}

impl Axes {
    pub(super) fn x(&self, value: f64) -> f64 {
        scaled(value, self.x, [self.area[0], self.area[2]])
    }

    pub(super) fn y(&self, value: f64) -> f64 {
        scaled(value, self.y, [self.area[3], self.area[1]])
    }

    /// Draws the grid and the tick labels.
    pub(super) fn draw(&self, drawing: &mut Drawing, font: &FigureFont<'_>) {
        let [left, top, right, bottom] = self.area;
        let marks = self.y_marks.clone().unwrap_or_else(|| {
            let count = ((bottom - top) / LINE_GAP).max(2.0) as usize;
            ticks(self.y, count).into_iter().map(|it| (it, number(it))).collect()
        });
        for (at, text) in marks {
            let y = self.y(at);
            drawing.line(vec![[left, y], [right, y]], GRID, 0.5);
            let text = font.fitted(&text, SMALL, NUMBERS - 4.0);
            drawing.text([left - 3.0, (y + 2.5).max(SMALL)], SMALL, Anchor::End, SOFT, &text);
        }
        for at in ticks(self.x, ((right - left) / TICK_GAP).max(2.0) as usize) {
            let (x, text) = (self.x(at), number(at));
            drawing.line(vec![[x, bottom], [x, bottom + 2.5]], SOFT, 0.5);
            // Keep the outermost tick labels inside the drawing.
            let half = font.width(&text, SMALL) / 2.0;
            let x = x.clamp(half, (drawing.width - half).max(half));
            drawing.text([x, bottom + LINE - 1.0], SMALL, Anchor::Middle, SOFT, &text);
        }
        drawing.line(vec![[left, bottom], [right, bottom]], SOFT, 0.7);
    }
}

fn scaled(value: f64, [low, high]: [f64; 2], [from, to]: [f64; 2]) -> f64 {
    // Halve before subtracting, because the difference of two large numbers can overflow.
    let part = (value / 2.0 - low / 2.0) / (high / 2.0 - low / 2.0);
    from + part.clamp(0.0, 1.0) * (to - from)
}

/// The smallest range that contains all values; `[0, 1]` without values, and a range around a single value.
pub(super) fn range(values: impl Iterator<Item = f64>) -> [f64; 2] {
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
    if low > high {
        return [0.0, 1.0];
    }
    // The ticks of a smaller range would have equal labels.
    let least = (low.abs() + high.abs()) * 1e-6;
    if high - low > least { [low, high] } else { [low - 0.5 - least, high + 0.5 + least] }
}

/// A range that is 5 % longer at both ends, except at an end that is zero.
pub(super) fn widened([low, high]: [f64; 2]) -> [f64; 2] {
    let margin = 0.05 * (high - low);
    [if low == 0.0 { 0.0 } else { low - margin }, if high == 0.0 { 0.0 } else { high + margin }]
}

/// Draws the legend (series names with colours) and returns the y coordinate of its lower edge. Draws nothing if all
/// names are empty.
pub(crate) fn legend(drawing: &mut Drawing, font: &FigureFont<'_>, names: &[&str], y: f64) -> f64 {
    if names.iter().all(|name| name.is_empty()) {
        return y;
    }
    let (left, right) = (4.0, drawing.width - 4.0);
    let (mut x, mut row) = (left, 0.0);
    for (at, name) in names.iter().enumerate() {
        let name = font.fitted(name, SIZE, right - left - 10.0);
        let width = 10.0 + font.width(&name, SIZE);
        if x > left && x + width > right {
            (x, row) = (left, row + 1.0);
        }
        let baseline = y + row * LINE + SIZE;
        drawing.rectangle([x, baseline - 6.0], [7.0, 6.0], colour(at), 1.0);
        drawing.text([x + 10.0, baseline], SIZE, Anchor::Start, INK, &name);
        x += width + 10.0;
    }
    y + (row + 1.0) * LINE + 2.0
}

/// The positions of panels that are arranged in rows.
pub(super) struct PanelGrid {
    /// The area between the axes of each panel: left, top, right, bottom.
    pub(super) areas: Vec<[f64; 4]>,
    /// Height of all rows.
    pub(super) height: f64,
}

/// Places panels below `top` in rows of at most `per_row`, draws their titles, and the names of the axes once.
pub(super) fn panels(
    drawing: &mut Drawing,
    font: &FigureFont<'_>,
    titles: &[&str],
    top: f64,
    per_row: usize,
    [x_label, y_label]: [&str; 2],
) -> PanelGrid {
    let count = titles.len().max(1);
    let per_row = count.min(per_row);
    let width = drawing.width;
    let cell = (width - GAP * (per_row as f64 - 1.0)) / per_row as f64;
    let head = if titles.iter().any(|it| !it.is_empty()) { LINE + 3.0 } else { 3.0 };
    let body = (0.62 * (cell - NUMBERS)).clamp(56.0, 130.0);
    let foot = LINE + 5.0;
    drawing.text([4.0, top + SMALL], SMALL, Anchor::Start, SOFT, &font.fitted(y_label, SMALL, width - 8.0));
    let first = top + LINE;
    let mut areas = Vec::new();
    for at in 0..count {
        let (row, column) = ((at / per_row) as f64, (at % per_row) as f64);
        let left = column * (cell + GAP);
        let y = first + row * (head + body + foot);
        let title = titles.get(at).copied().unwrap_or_default();
        drawing.text([left + 4.0, y + SIZE], SIZE, Anchor::Start, INK, &font.fitted(title, SIZE, cell - 8.0));
        areas.push([left + NUMBERS, y + head, left + cell - 4.0, y + head + body]);
    }
    let rows = count.div_ceil(per_row) as f64;
    let bottom = first + rows * (head + body + foot);
    let label = font.fitted(x_label, SMALL, width - 8.0);
    drawing.text([width / 2.0, bottom + SMALL - 2.0], SMALL, Anchor::Middle, SOFT, &label);
    PanelGrid { areas, height: bottom + LINE - top }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_never_empty() {
        assert_eq!(range([].into_iter()), [0.0, 1.0]);
        assert_eq!(range([0.0].into_iter()), [-0.5, 0.5]);
        assert_eq!(range([2.0, 1.0].into_iter()), [1.0, 2.0]);
        for value in [1e300, -1e300, 1e-300] {
            let [low, high] = range([value].into_iter());
            assert!(low < high && low.is_finite() && high.is_finite(), "{value}");
        }
        assert_eq!(widened([0.0, 1.0]), [0.0, 1.05]);
        assert_eq!((scaled(-1e308, [-1e308, 1e308], [0.0, 1.0]), scaled(5.0, [0.0, 10.0], [0.0, 1.0])), (0.0, 0.5));
    }
}
