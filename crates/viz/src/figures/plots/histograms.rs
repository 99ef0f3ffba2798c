use super::super::drawing::Drawing;
use super::super::font::FigureFont;
use super::super::table::{FigureColumn, FigureColumnKind, FigureTable, groups};
use super::axes::{Axes, COLUMN, PAGE, legend, panels, range};
use crate::palette::colour;
use crate::{Error, Result};

/// Number of bins.
const BINS: usize = 40;
/// Maximum number of panels side by side.
const PER_ROW: usize = 4;

/// The columns of a histogram.
pub const HISTOGRAM_COLUMNS: &[FigureColumn] = &[
    FigureColumn { name: "panel", kind: FigureColumnKind::Text, help: "title of the panel" },
    FigureColumn { name: "group", kind: FigureColumnKind::Text, help: "the values that are counted together" },
    FigureColumn { name: "from", kind: FigureColumnKind::Number, help: "lower end of the bin" },
    FigureColumn { name: "to", kind: FigureColumnKind::Number, help: "upper end of the bin" },
    FigureColumn { name: "count", kind: FigureColumnKind::Number, help: "values of the group in the bin" },
];

/// Counts values in bins of equal width over the range of all groups, and appends a row per group and bin to a table of
/// [`HISTOGRAM_COLUMNS`]. Groups without values are left out.
///
/// # Errors
/// A value is not finite; the table has other columns.
pub fn push_histogram(table: &mut FigureTable, panel: &str, groups: &[(String, Vec<f64>)]) -> Result<()> {
    if let Some((name, values)) = groups.iter().find(|(_, values)| values.iter().any(|it| !it.is_finite())) {
        let found = values.iter().find(|it| !it.is_finite()).copied().unwrap_or(f64::NAN);
        return Err(Error::invalid(format!("values of {name}"), found, "finite numbers"));
    }
    let [low, high] = range(groups.iter().flat_map(|(_, values)| values.iter().copied()));
    let edge = |bin: usize| low + (high - low) * bin as f64 / BINS as f64;
    for (name, values) in groups.iter().filter(|(_, values)| !values.is_empty()) {
        let mut counts = [0usize; BINS];
        for value in values {
            counts[(((value - low) / (high - low) * BINS as f64) as usize).min(BINS - 1)] += 1;
        }
        for (bin, count) in counts.into_iter().enumerate() {
            table.push(vec![
                panel.into(),
                name.as_str().into(),
                edge(bin).into(),
                edge(bin + 1).into(),
                (count as f64).into(),
            ])?;
        }
    }
    Ok(())
}

/// Draws a table of [`HISTOGRAM_COLUMNS`]: the share of a group in each bin, one panel beside the other.
pub(in crate::figures) fn histograms(table: &FigureTable, font: &FigureFont<'_>, x_label: &str) -> Drawing {
    let by_panel = groups(table.rows(), |row| row.text("panel"));
    let names: Vec<&str> = groups(table.rows(), |row| row.text("group")).into_iter().map(|(name, _)| name).collect();
    let mut drawing = Drawing::new(if by_panel.len() > 1 { PAGE } else { COLUMN });
    let top = legend(&mut drawing, font, &names, 3.0);
    let titles: Vec<&str> = by_panel.iter().map(|(title, _)| *title).collect();
    let grid = panels(&mut drawing, font, &titles, top, PER_ROW, [x_label, "share of the group per bin"]);
    // All panels have the same x axis, so that they can be compared.
    let x = range(table.rows().flat_map(|row| [row.number("from"), row.number("to")]));
    for (at, area) in grid.areas.iter().enumerate() {
        let by_group = by_panel.get(at).map(|(_, rows)| groups(rows.iter().copied(), |row| row.text("group")));
        let shares: Vec<(&str, Vec<[f64; 3]>)> = by_group
            .unwrap_or_default()
            .into_iter()
            .map(|(name, rows)| {
                let total: f64 = rows.iter().map(|row| row.number("count").abs()).sum();
                let share = |count: f64| if total > 0.0 { count.abs() / total } else { 0.0 };
                (
                    name,
                    rows.iter().map(|row| [row.number("from"), row.number("to"), share(row.number("count"))]).collect(),
                )
            })
            .collect();
        let highest = shares.iter().flat_map(|(_, bins)| bins.iter().map(|it| it[2])).fold(0.0, f64::max);
        let axes = Axes { area: *area, x, y: [0.0, if highest > 0.0 { 1.08 * highest } else { 1.0 }], y_marks: None };
        axes.draw(&mut drawing, font);
        for (name, bins) in shares {
            let shade = colour(names.iter().position(|it| *it == name).unwrap_or(0));
            // Empty bins at both ends are not drawn: their lines would hide the axis.
            let filled = |bin: &[f64; 3]| bin[2] > 0.0;
            let (Some(first), Some(last)) = (bins.iter().position(filled), bins.iter().rposition(filled)) else {
                continue;
            };
            let mut outline = vec![[axes.x(bins[first][0]), axes.y(0.0)]];
            for [from, to, share] in &bins[first..=last] {
                outline.extend([[axes.x(*from), axes.y(*share)], [axes.x(*to), axes.y(*share)]]);
            }
            outline.push([axes.x(bins[last][1]), axes.y(0.0)]);
            drawing.area(outline.clone(), shade, 0.18);
            drawing.line(outline, shade, 1.0);
        }
    }
    drawing.height = top + grid.height;
    drawing
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn values_are_counted_in_their_bins() {
        let mut table = FigureTable::new(HISTOGRAM_COLUMNS);
        let groups =
            [("a".to_owned(), vec![0.0, 0.0, 40.0]), ("b".to_owned(), vec![20.0]), ("none".to_owned(), vec![])];
        push_histogram(&mut table, "p", &groups).unwrap();
        assert_eq!(table.len(), 2 * BINS);
        let of = |group: &str, bin: usize| {
            let row = table.rows().filter(|row| row.text("group") == group).nth(bin).unwrap();
            [row.number("from"), row.number("to"), row.number("count")]
        };
        assert_eq!((of("a", 0), of("a", 39), of("b", 20)), ([0.0, 1.0, 2.0], [39.0, 40.0, 1.0], [20.0, 21.0, 1.0]));
        assert_eq!(table.rows().map(|row| row.number("count")).sum::<f64>(), 4.0);
        let error = push_histogram(&mut table, "p", &[("c".to_owned(), vec![f64::NAN])]).unwrap_err().to_string();
        assert!(error.contains("values of c") && error.contains("NaN"), "{error}");
    }
}
