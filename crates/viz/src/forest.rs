use std::fmt::Write as _;

use crate::chart::{escape, number, ticks};
use crate::chart_file::standalone;

const WIDTH: f64 = 860.0;
/// Width of the names at the left and of the numbers at the right.
const LEFT: f64 = 330.0;
const RIGHT: f64 = 190.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 40.0;
const ROW: f64 = 22.0;
/// Number of characters of a name that fit into `LEFT`.
const NAME_CHARS: usize = 54;

/// A line of a forest plot.
#[derive(Clone, Debug)]
pub struct ForestRow {
    /// Name at the left.
    pub name: String,
    /// Estimate, lower and upper end of its interval. `None` if there is no number; the line then shows only texts.
    pub estimate: Option<[f64; 3]>,
    /// Text at the right.
    pub note: String,
    /// Meaning of the interval, which determines the colour.
    pub mark: ForestMark,
}

/// The meaning of the interval of a [`ForestRow`], shown by its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForestMark {
    /// In favour: the interval is above 0.
    For,
    /// Against: the interval is below 0.
    Against,
    /// Undecided, or without an estimate.
    Open,
}

impl ForestMark {
    /// Number of the colour in the style sheet.
    fn colour(self) -> usize {
        match self {
            Self::For => 2,
            Self::Against => 1,
            Self::Open => 3,
        }
    }
}

/// Draws estimates with their intervals, one line each, around a vertical line at 0, as an SVG element.
///
/// Numbers that are not finite count as no estimate. The axis always contains 0.
pub fn forest(title: &str, x_label: &str, rows: &[ForestRow]) -> String {
    let finite = |row: &ForestRow| row.estimate.filter(|it| it.iter().all(|v| v.is_finite()));
    let ends = rows.iter().filter_map(finite).flatten();
    let (low, high) = ends.fold((0.0_f64, 0.0_f64), |(low, high), v| (low.min(v), high.max(v)));
    let (low, high) = if high > low { (low, high) } else { (-1.0, 1.0) };
    let margin = 0.04 * (high - low);
    let (low, high) = (low - margin, high + margin);
    let x = |value: f64| LEFT + (value - low) / (high - low) * (WIDTH - LEFT - RIGHT);
    let height = TOP + ROW * rows.len() as f64 + BOTTOM;
    let bottom = height - BOTTOM;
    let mut svg = format!(
        "<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{0}\"><text class=\"title\" x=\"8\" y=\"16\">{0}</text>",
        escape(title)
    );
    for tick in ticks([low, high], 6) {
        let at = x(tick);
        let _ = write!(
            svg,
            "<path class=\"grid\" d=\"M{at:.1},{TOP}V{bottom:.1}\"/><text class=\"tick\" text-anchor=\"middle\" x=\"{at:.1}\" y=\"{:.1}\">{}</text>",
            bottom + 15.0,
            number(tick)
        );
    }
    let _ = write!(
        svg,
        "<path class=\"zero\" d=\"M{0:.1},{TOP}V{bottom:.1}\"/><text class=\"tick\" text-anchor=\"middle\" x=\"{1:.1}\" y=\"{2:.1}\">{3}</text>",
        x(0.0),
        (LEFT + WIDTH - RIGHT) / 2.0,
        height - 8.0,
        escape(x_label)
    );
    for (i, row) in rows.iter().enumerate() {
        let y = TOP + ROW * (i as f64 + 0.5);
        let whole = row.name.chars().count() <= NAME_CHARS;
        let name: String = match whole {
            true => row.name.clone(),
            false => row.name.chars().take(NAME_CHARS - 1).chain(['\u{2026}']).collect(),
        };
        let _ = write!(
            svg,
            "<g><title>{0}</title><text class=\"label\" x=\"8\" y=\"{1:.1}\">{2}</text><text class=\"tick\" x=\"{3:.1}\" y=\"{1:.1}\">{4}</text>",
            escape(&row.name),
            y + 3.5,
            escape(&name),
            WIDTH - RIGHT + 10.0,
            escape(&row.note)
        );
        if let Some([estimate, from, to]) = finite(row) {
            let _ = write!(
                svg,
                "<path class=\"whisker s{0}\" d=\"M{1:.1},{y:.1}H{2:.1}\"/><circle class=\"dot s{0}\" cx=\"{3:.1}\" cy=\"{y:.1}\" r=\"4\"/>",
                row.mark.colour(),
                x(from),
                x(to),
                x(estimate)
            );
        }
        svg.push_str("</g>");
    }
    svg + "</svg>"
}

/// [`forest`] as a complete SVG file.
pub fn forest_file(title: &str, x_label: &str, rows: &[ForestRow]) -> String {
    standalone(&forest(title, x_label, rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(estimate: Option<[f64; 3]>) -> ForestRow {
        ForestRow { name: "a < b".into(), estimate, note: "holds".into(), mark: ForestMark::For }
    }

    #[test]
    fn positions_by_hand() {
        // The axis goes from 0 to 10 with a margin of 4 %: -.4 .. 10.4, over 340 units from 330. 5 is at
        // 330 + 5.4 / 10.8 x 340 = 500, and 0 at 330 + .4 / 10.8 x 340 = 342.6.
        let svg = forest("t", "x", &[row(Some([5.0, 0.0, 10.0]))]);
        assert!(svg.contains("cx=\"500.0\"") && svg.contains("class=\"zero\" d=\"M342.6,"), "{svg}");
        assert!(svg.contains("a &lt; b") && !svg.contains("a < b"));
    }

    #[test]
    fn plots_survive_any_values() {
        for estimate in [None, Some([f64::NAN, 0.0, 1.0]), Some([0.0; 3]), Some([1e300, -1e300, f64::INFINITY])] {
            let svg = forest("t", "x", &[row(estimate)]);
            assert!(svg.ends_with("</svg>") && !svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
        assert!(forest("t", "x", &[]).ends_with("</svg>"));
        let file = forest_file("a > b", "x", &[row(None)]);
        assert!(file.contains("xmlns=") && file.contains("aria-label=\"a &gt; b\""), "{file}");
    }
}
