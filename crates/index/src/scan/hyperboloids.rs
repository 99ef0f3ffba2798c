//! One hyperboloid, or a product of them: the same arithmetic with one factor or with many.

use std::f32::consts::PI;

use conifer_space::safe::TINY_F32;
use conifer_space::slices::{dot, norm};
use conifer_space::spaces::lorentz::time_excess;
use conifer_space::{ManifoldSpec, Root};

use super::{Probe, Scan, dot_error};
use crate::query::{Direction, Ranking};
use crate::select::Bounds;

/// Rounding of the exact distance, relative: its budget up to norm 10, with a factor of four in hand.
const DIST_ERROR: f32 = 2e-6;
/// Rounding of an exact angle, radians: its budget up to norm 10, with a factor of two in hand.
const ANGLE_ERROR: f32 = 4e-5;

/// Absolute error of [`ln`], and of adding 1 to a small number before it.
const LN_ERROR: f32 = 5e-7;

/// Rows with what the rankings need besides the dot products with the query.
pub(super) struct Hyperboloids {
    curv: Vec<f32>,
    /// Components per factor.
    dim: usize,
    /// Whether factor distances aggregate by their squares.
    squared: bool,
    at_origin: bool,
    /// Relative error of a dot product in one factor.
    rounding: f32,
    rows: Places,
}

/// Where points lie in their factors: one number per point and factor.
struct Places {
    /// `|x|`.
    norm: Vec<f32>,
    /// `sqrt(c) t(x) - 1`.
    excess: Vec<f32>,
}

/// Where one point lies in one factor.
#[derive(Clone, Copy)]
struct Place {
    norm: f32,
    excess: f32,
}

/// One factor of the query and the same factor of a row.
struct Pair {
    curv: f32,
    dot: f32,
    query: Place,
    row: Place,
    /// Error of a dot product relative to the product of the lengths; of squared norms too.
    rounding: f32,
}

impl Hyperboloids {
    pub(super) fn new(spec: &ManifoldSpec, root: &Root, points: &[f32]) -> Self {
        let curv: Vec<f32> = spec.curv.iter().map(|c| *c as f32).collect();
        let dim = spec.factor_dim();
        Hyperboloids {
            dim,
            squared: spec.kind == "product_l2",
            at_origin: matches!(root, Root::Origin),
            rounding: dot_error(dim),
            rows: Places::of(points, dim, &curv),
            curv,
        }
    }

    /// A probe that adds up the bounds of the factors (sums rank as means do).
    fn summed<'a>(&'a self, query: &'a [f32], bounds: impl Fn(&Pair) -> Bounds + Sync + 'a) -> Probe<'a> {
        let places = Places::of(query, self.dim, &self.curv);
        let count = self.curv.len();
        Box::new(move |i, row| {
            let mut sum = Bounds { low: 0.0, high: 0.0 };
            for factor in 0..count {
                let at = factor * self.dim..(factor + 1) * self.dim;
                let pair = Pair {
                    curv: self.curv[factor],
                    dot: dot(&query[at.clone()], &row[at]),
                    query: places.at(factor),
                    row: self.rows.at(i * count + factor),
                    rounding: self.rounding,
                };
                let Bounds { low, high } = bounds(&pair);
                sum = Bounds { low: sum.low + low, high: sum.high + high };
            }
            // Room for the rounding of a sum over factors, here and in the exact score.
            let room = 64.0 * f32::EPSILON * sum.low.abs().max(sum.high.abs());
            Bounds { low: sum.low - room, high: sum.high + room }.or_unknown()
        })
    }
}

impl Scan for Hyperboloids {
    fn probe<'a>(&'a self, query: &'a [f32], ranking: Ranking) -> Option<Probe<'a>> {
        Some(match ranking {
            // One factor needs no logarithm: the distance grows with u.
            Ranking::Distance | Ranking::Similarity if self.curv.len() == 1 => self.summed(query, Pair::cosh_excess),
            // Sums of squares rank as the root of their mean does.
            Ranking::Distance | Ranking::Similarity if self.squared => self.summed(query, |pair| {
                let Bounds { low, high } = pair.dist();
                Bounds { low: low * low, high: high * high }
            }),
            Ranking::Distance | Ranking::Similarity => self.summed(query, Pair::dist),
            Ranking::Inner => self.summed(query, Pair::minus_inner),
            // Seen from elsewhere, angles need more than the dot product.
            Ranking::Angle(_) if !self.at_origin => return None,
            Ranking::Angle(Direction::Down) => self.summed(query, |pair| pair.angle(pair.query, pair.row)),
            Ranking::Gated(_) | Ranking::Depth(_) => return None,
            Ranking::Angle(Direction::Up) => self.summed(query, |pair| pair.angle(pair.row, pair.query)),
        })
    }
}

impl Places {
    fn of(points: &[f32], dim: usize, curv: &[f32]) -> Self {
        let factors = || points.chunks_exact(dim).zip(curv.iter().cycle());
        Places {
            norm: factors().map(|(part, _)| norm(part)).collect(),
            excess: factors().map(|(part, curv)| time_excess(dot(part, part), *curv)).collect(),
        }
    }

    fn at(&self, i: usize) -> Place {
        Place { norm: self.norm[i], excess: self.excess[i] }
    }
}

impl Pair {
    /// `u = cosh(sqrt(c) d) - 1`, up to its own error and that of the exact distance: with `a = sqrt(c) d`, a relative
    /// error in `a` becomes `a sinh(a) <= (2 + a) u` times as much in `u`, and `a <= 1 + ln(1 + u)`.
    fn cosh_excess(&self) -> Bounds {
        let (u, slack) = self.cosh_excess_and_error();
        let at_most = u.max(0.0) + slack;
        Bounds::around(u, slack + DIST_ERROR * (4.0 + ln(1.0 + at_most)) * at_most)
    }

    /// The distance, `acosh(1 + u) / sqrt(c)`. The slope of `acosh(1 + u)` is below `1 / sqrt(2 u)`, so that an error of
    /// `s` in `u` moves it by at most `sqrt(2 (u + s)) - sqrt(2 (u - s)) <= 2 s / sqrt(max(u, s))`.
    fn dist(&self) -> Bounds {
        let (u, s) = self.cosh_excess_and_error();
        let (u, radius) = (u.max(0.0), 1.0 / self.curv.sqrt());
        let dist = radius * ln(1.0 + u + (u * (u + 2.0)).sqrt());
        let slack = radius * (2.0 * s / u.max(s).max(f32::MIN_POSITIVE).sqrt() + LN_ERROR) + DIST_ERROR * dist;
        Bounds { low: (dist - slack).max(0.0), high: dist + slack }
    }

    fn cosh_excess_and_error(&self) -> (f32, f32) {
        let (a, b) = (self.query.excess, self.row.excess);
        let terms = a + b + a * b;
        let size = terms + self.curv * self.query.norm * self.row.norm;
        (terms - self.curv * self.dot, (self.rounding + 4.0 * f32::EPSILON) * size)
    }

    /// `-<x, y>_L = t(x) t(y) - <x, y>`.
    fn minus_inner(&self) -> Bounds {
        let times = (1.0 + self.query.excess) * (1.0 + self.row.excess) / self.curv;
        Bounds::around(times - self.dot, 4.0 * (self.rounding + f32::EPSILON) * times)
    }

    /// The exterior angle at `parent`, see `Space::exterior_angle`: `atan2(across, along)` with `y` the child's component
    /// along the parent, `across^2 = |child|^2 - y^2` and `along = sqrt(c) t(parent) y - sqrt(c) t(child) |parent|`.
    fn angle(&self, parent: Place, child: Place) -> Bounds {
        let anything = Bounds { low: 0.0, high: PI };
        if parent.norm <= 2.0 * TINY_F32 {
            return anything;
        }
        let rounding = self.rounding + 4.0 * f32::EPSILON;
        let y = self.dot / parent.norm;
        let y_error = rounding * child.norm;
        let (ahead, behind) = ((1.0 + parent.excess) * y, (1.0 + child.excess) * parent.norm);
        let along = ahead - behind;
        let along_error = (1.0 + parent.excess) * y_error + rounding * (ahead.abs() + behind);
        let square = child.norm * child.norm - y * y;
        let square_error = 2.0 * (y.abs() + y_error) * y_error + rounding * child.norm * child.norm;
        let (low, high) = ((square - square_error).max(0.0).sqrt(), (square + square_error).max(0.0).sqrt());
        let across = square.max(0.0).sqrt();
        let error = along_error + (high - low);
        let length = (across * across + along * along).sqrt();
        if length <= 2.0 * error {
            return anything;
        }
        // The direction of a vector of length l turns by at most asin(e / l) <= 1.6 e / l when it moves by e.
        let slack = 1.6 * error / length + ANGLE_ERROR;
        let angle = across.atan2(along);
        Bounds { low: (angle - slack).max(0.0), high: (angle + slack).min(PI) }
    }
}

/// `ln(x)` for a normal `x >= 1`, to within [`LN_ERROR`] for results up to 4 and relative rounding beyond, several times
/// faster than the exact one: `x = 2^e m` with `m` in [sqrt(1/2), sqrt(2)), and `ln(m) = 2 atanh(s)` with
/// `s = (m - 1) / (m + 1)`, `|s| < 0.172`, by the first four terms of its series (the fifth is below 3e-8).
fn ln(x: f32) -> f32 {
    let half = std::f32::consts::FRAC_1_SQRT_2.to_bits() as i32;
    let exponent = (x.to_bits() as i32 - half) >> 23;
    let m = f32::from_bits((x.to_bits() as i32 - (exponent << 23)) as u32);
    let s = (m - 1.0) / (m + 1.0);
    let square = s * s;
    let series = 1.0 + square * (1.0 / 3.0 + square * (1.0 / 5.0 + square / 7.0));
    exponent as f32 * std::f32::consts::LN_2 + 2.0 * s * series
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against the standard library over 1 to e^40, finely near 1.
    #[test]
    fn ln_keeps_its_error() {
        for step in 0..200_000 {
            let x = (step as f64 * 2e-4).exp() as f32;
            let expected = f64::from(x).ln();
            let error = (f64::from(ln(x)) - expected).abs();
            assert!(error <= 3e-7 + 2e-7 * expected, "ln({x}) is off by {error:e}");
        }
    }
}
