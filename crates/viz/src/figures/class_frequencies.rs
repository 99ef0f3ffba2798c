use super::FigureEntry;
use super::drawing::{Anchor, Drawing};
use super::font::FigureFont;
use super::plots::{COLUMN, SMALL};
use super::table::{FigureColumn, FigureColumnKind, FigureTable};
use crate::chart::number;
use crate::palette::{GRID, INK, SOFT, colour};

pub(super) const ENTRY: FigureEntry = FigureEntry {
    name: "class-frequencies",
    summary: "Frequencies of classes by rank, on a logarithmic axis (visual hierarchies Fig. 8)",
    inputs: "a data set, as for --data: labels of its samples and texts of its boxes",
    columns: &[
        FigureColumn { name: "class", kind: FigureColumnKind::Text, help: "name of the class" },
        FigureColumn { name: "count", kind: FigureColumnKind::Number, help: "samples or boxes of the class" },
    ],
    draw: |table, font| Ok(draw(table, font)),
};

const HEIGHT: f64 = 150.0;
/// `NAMED` is the number of classes that are named, `NAME` the maximum width of a name in points.
const NAMED: usize = 7;
const NAME: f64 = 70.0;

/// Draws the counts over the ranks as a curve. Both axes are logarithmic. Some classes, evenly spaced along the x axis,
/// are named.
fn draw(table: &FigureTable, font: &FigureFont<'_>) -> Drawing {
    let mut classes: Vec<(&str, f64)> = table.rows().map(|row| (row.text("class"), row.number("count"))).collect();
    classes.retain(|(_, count)| *count > 0.0);
    classes.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(b.0)));
    let mut drawing = Drawing { height: HEIGHT, ..Drawing::new(COLUMN) };
    let [left, top, right, bottom] = [34.0, 20.0, COLUMN - 8.0, HEIGHT - 26.0];
    let decades = |most: f64, least: f64| {
        let low = least.log10().floor();
        [low, most.log10().ceil().max(low + 1.0)]
    };
    let counts = decades(classes.first().map_or(1.0, |it| it.1), classes.last().map_or(1.0, |it| it.1));
    // The x axis ends at the last rank and not at a power of ten, because a few classes would not fill a decade.
    let ranks = [0.0, (classes.len().max(2) as f64).log10()];
    let part = |value: f64, [low, high]: [f64; 2]| (value.log10() - low) / (high - low);
    let y = |count: f64| bottom - part(count, counts) * (bottom - top);
    let x = |rank: usize| left + part(rank as f64, ranks) * (right - left);
    let step = ((counts[1] - counts[0]) / 6.0).ceil().max(1.0) as usize;
    for power in (counts[0] as i32..=counts[1] as i32).step_by(step) {
        let at = y(10f64.powi(power));
        drawing.line(vec![[left, at], [right, at]], GRID, 0.5);
        let text = font.fitted(&number(10f64.powi(power)), SMALL, 28.0).into_owned();
        drawing.text([left - 3.0, at + 2.5], SMALL, Anchor::End, SOFT, &text);
    }
    drawing.text([4.0, SMALL + 1.0], SMALL, Anchor::Start, SOFT, "samples or boxes of the class");
    let curve: Vec<[f64; 2]> = classes.iter().enumerate().map(|(at, it)| [x(at + 1), y(it.1)]).collect();
    if let (Some(first), Some(last)) = (curve.first(), curve.last()) {
        let ends = [[last[0], bottom], [first[0], bottom]];
        drawing.area(curve.iter().copied().chain(ends).collect(), colour(0), 0.18);
        drawing.line(curve.clone(), colour(0), 1.1);
    }
    drawing.line(vec![[left, bottom], [right, bottom]], SOFT, 0.7);
    names(&mut drawing, font, &classes, [left, right, bottom], ranks[1], &|rank, count| [x(rank), y(count)]);
    drawing.text([(left + right) / 2.0, HEIGHT - 4.0], SMALL, Anchor::Middle, SOFT, "rank of the class");
    drawing
}

/// Marks some classes with their names above the curve and their ranks below it. A text that would overlap the previous
/// one is left out.
fn names(
    drawing: &mut Drawing,
    font: &FigureFont<'_>,
    classes: &[(&str, f64)],
    [left, right, bottom]: [f64; 3],
    decades: f64,
    place: &dyn Fn(usize, f64) -> [f64; 2],
) {
    let (mut taken, mut free): (Option<[f64; 2]>, f64) = (None, 0.0);
    for named in 0..NAMED {
        let rank = 10f64.powf(decades * named as f64 / (NAMED as f64 - 1.0)).round() as usize;
        let Some((name, count)) = rank.checked_sub(1).and_then(|at| classes.get(at)) else { continue };
        let [x, y] = place(rank, *count);
        drawing.disc([x, y], 1.8, colour(0));
        let text = rank.to_string();
        let half = font.width(&text, SMALL) / 2.0;
        let middle = x.clamp(half, COLUMN - half);
        if middle - half > free {
            drawing.text([middle, bottom + 10.0], SMALL, Anchor::Middle, SOFT, &text);
            free = middle + half + 3.0;
        }
        let name = font.fitted(name, SMALL, NAME);
        let width = font.width(&name, SMALL);
        let start = (x + 2.0).min(right - width).max(left);
        // The curve falls, so it would cross a name that had to move to the left of its point. Such a name is placed
        // below the point if there is space.
        let below = y + SMALL + 4.0;
        let baseline = if start < x && below <= bottom - 2.0 { below } else { y - 4.0 };
        let covers = taken.is_some_and(|[end, last]| start < end && (baseline - last).abs() < SMALL);
        if !covers {
            drawing.text([start, baseline], SMALL, Anchor::Start, INK, &name);
            taken = Some([start + width + 2.0, baseline]);
        }
    }
}
