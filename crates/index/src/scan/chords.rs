//! The sphere and flat space, where lines are straight.

use conifer_space::slices::{dot, norm, sums};
use conifer_space::{ManifoldSpec, Root};

use super::{Probe, Scan, dot_error};
use crate::query::{Direction, Ranking};
use crate::select::Bounds;

/// Rounding of the exact score itself (an arc or an angle, radians, or a relative distance), on the scale of a cosine.
const SCORE_ERROR: f32 = 4e-6;

/// Rows with what the rankings need besides a dot product with the query.
pub(super) struct Chords {
    spherical: bool,
    dot_error: f32,
    root: Vec<f32>,
    /// `|root|^2`.
    root_square: f32,
    /// `|row|^2`.
    squares: Vec<f32>,
    /// `<root, row>`.
    root_dots: Vec<f32>,
    /// `|row - root|`.
    depths: Vec<f32>,
}

impl Chords {
    pub(super) fn new(spec: &ManifoldSpec, root: &Root, points: &[f32]) -> Self {
        let root: Vec<f32> = match root {
            Root::Origin => vec![0.0; spec.dim],
            Root::Point(point) => point.iter().map(|v| *v as f32).collect(),
        };
        let rows = || points.chunks_exact(spec.dim);
        Chords {
            spherical: spec.kind == "sphere",
            dot_error: dot_error(spec.dim),
            squares: rows().map(|row| dot(row, row)).collect(),
            root_dots: rows().map(|row| dot(&root, row)).collect(),
            depths: rows().map(|row| distance(row, &root)).collect(),
            root_square: dot(&root, &root),
            root,
        }
    }

    /// `-<query, row>`.
    fn inner<'a>(&'a self, query: &'a [f32]) -> Probe<'a> {
        let length = norm(query);
        Box::new(move |i, row| Bounds::around(-dot(query, row), self.dot_error * length * self.squares[i].sqrt()))
    }

    /// Minus the cosine: the arc grows with it.
    fn arc<'a>(&'a self, query: &'a [f32]) -> Probe<'a> {
        let square = dot(query, query);
        Box::new(move |i, row| {
            let cosine = 2.0 * dot(query, row) / (square + self.squares[i]);
            Bounds::around(-cosine, 4.0 * self.dot_error + SCORE_ERROR)
        })
    }

    /// `|query - row|^2 = |query|^2 + |row|^2 - 2 <query, row>`.
    fn distance<'a>(&'a self, query: &'a [f32]) -> Probe<'a> {
        let square = dot(query, query);
        Box::new(move |i, row| {
            let squares = square + self.squares[i];
            let gap = squares - 2.0 * dot(query, row);
            Bounds::around(gap, 4.0 * self.dot_error * squares + SCORE_ERROR * gap.abs())
        })
    }

    /// Minus the cosine of the angle at the query between `a = query - root` and `b = row - query`.
    fn down<'a>(&'a self, query: &'a [f32]) -> Probe<'a> {
        let square = dot(query, query);
        let root_dot = dot(&self.root, query);
        let depth = distance(query, &self.root);
        Box::new(move |i, row| {
            let across = dot(query, row);
            let product = across - square - self.root_dots[i] + root_dot;
            self.angle(product, depth, square + self.squares[i], across)
        })
    }

    /// Minus the cosine of the angle at the row between `a = row - root` and `b = query - row`.
    fn up<'a>(&'a self, query: &'a [f32]) -> Probe<'a> {
        let square = dot(query, query);
        let root_dot = dot(&self.root, query);
        Box::new(move |i, row| {
            let across = dot(query, row);
            let product = across - self.squares[i] - root_dot + self.root_dots[i];
            self.angle(product, self.depths[i], square + self.squares[i], across)
        })
    }

    /// Bounds on `-<a, b> / (|a| |b|)`, with `|b|^2 = squares - 2 across`.
    fn angle(&self, product: f32, depth: f32, squares: f32, across: f32) -> Bounds {
        let step = squares - 2.0 * across;
        // Every term is at most (|x| + |y| + |root|)^2 <= 3 (|x|^2 + |y|^2 + |root|^2).
        let size = 3.0 * (squares + self.root_square);
        let error = 4.0 * self.dot_error * size;
        if step <= 4.0 * error || depth * depth <= 4.0 * error {
            return Bounds { low: -1.0, high: 1.0 };
        }
        let cosine = product / (depth * step.sqrt());
        let slack = error / (depth * step.sqrt()) + error / step + error / (depth * depth) + SCORE_ERROR;
        Bounds::around(-cosine, slack)
    }
}

impl Scan for Chords {
    fn probe<'a>(&'a self, query: &'a [f32], ranking: Ranking) -> Option<Probe<'a>> {
        Some(match ranking {
            Ranking::Inner => self.inner(query),
            Ranking::Similarity if self.spherical => self.inner(query),
            Ranking::Distance if self.spherical => self.arc(query),
            Ranking::Distance | Ranking::Similarity => self.distance(query),
            Ranking::Angle(Direction::Down) => self.down(query),
            Ranking::Gated(_) | Ranking::Depth(_) => return None,
            Ranking::Angle(Direction::Up) => self.up(query),
        })
    }
}

fn distance(x: &[f32], y: &[f32]) -> f32 {
    sums(x, y, |a, b| [(a - b) * (a - b)])[0].sqrt()
}
