use super::super::drawing::Drawing;
use super::super::font::FigureFont;
use super::super::table::groups;
use super::axes::{Axes, COLUMN, PAGE, legend, panels, range, widened};
use crate::palette::colour;

/// Maximum number of panels side by side.
const PER_ROW: usize = 3;

/// A point of a line plot.
#[derive(Clone, Copy)]
pub(in crate::figures) struct LinePoint<'a> {
    pub(in crate::figures) panel: &'a str,
    pub(in crate::figures) line: &'a str,
    pub(in crate::figures) x: f64,
    pub(in crate::figures) y: f64,
    /// Lower and upper border of a band around the line.
    pub(in crate::figures) band: Option<[f64; 2]>,
}

/// Lines in panels. All panels have the same x range, each has a separate y range.
pub(in crate::figures) struct LinePlot<'a> {
    pub(in crate::figures) points: Vec<LinePoint<'a>>,
    /// Names of the axes.
    pub(in crate::figures) labels: [&'a str; 2],
    /// True if both axes range from 0 to 1. Otherwise the ranges come from the points.
    pub(in crate::figures) unit_square: bool,
}

pub(in crate::figures) fn lines(plot: &LinePlot<'_>, font: &FigureFont<'_>) -> Drawing {
    let points = || plot.points.iter().copied();
    let by_panel = groups(points(), |it| it.panel);
    let names: Vec<&str> = groups(points(), |it| it.line).into_iter().map(|(name, _)| name).collect();
    let mut drawing = Drawing::new(if by_panel.len() > 1 { PAGE } else { COLUMN });
    let top = legend(&mut drawing, font, &names, 3.0);
    let titles: Vec<&str> = by_panel.iter().map(|(title, _)| *title).collect();
    let grid = panels(&mut drawing, font, &titles, top, PER_ROW, plot.labels);
    let x = if plot.unit_square { [0.0, 1.0] } else { range(points().map(|it| it.x)) };
    for (at, area) in grid.areas.iter().enumerate() {
        let own: &[LinePoint<'_>] = by_panel.get(at).map_or(&[], |(_, points)| points);
        let ends = own.iter().flat_map(|it| it.band.unwrap_or([it.y; 2]).into_iter().chain([it.y]));
        let y = if plot.unit_square { [0.0, 1.0] } else { widened(range(ends)) };
        let axes = Axes { area: *area, x, y, y_marks: None };
        axes.draw(&mut drawing, font);
        let by_line = groups(own.iter().copied(), |it| it.line);
        let shade = |name: &str| colour(names.iter().position(|it| *it == name).unwrap_or(0));
        for (name, points) in &by_line {
            let edge = |k: usize| points.iter().filter_map(move |it| Some((it.x, it.band?[k])));
            let mut band: Vec<[f64; 2]> = edge(0).map(|(x, y)| [axes.x(x), axes.y(y)]).collect();
            let mut upper: Vec<[f64; 2]> = edge(1).map(|(x, y)| [axes.x(x), axes.y(y)]).collect();
            upper.reverse();
            band.extend(upper);
            if band.len() > 2 {
                drawing.area(band, shade(name), 0.18);
            }
        }
        for (name, points) in &by_line {
            let path: Vec<[f64; 2]> = points.iter().map(|it| [axes.x(it.x), axes.y(it.y)]).collect();
            match path[..] {
                [point] => drawing.disc(point, 1.6, shade(name)),
                _ => drawing.line(path, shade(name), 1.1),
            }
        }
    }
    drawing.height = top + grid.height;
    drawing
}
