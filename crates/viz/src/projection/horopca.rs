//! HoroPCA (Chami, Gu, Nguyen, Re 2021, "HoroPCA: Hyperbolic Dimensionality Reduction via Horospherical Projections",
//! arXiv 2106.03306), from the formulas of the paper.
//!
//! On the hyperboloid of curvature -1, the Busemann function of an ideal point in the unit direction `p`, normalised
//! at the origin, is `B_p(x) = ln(t(x) - <x, p>)`. For orthonormal directions `p_1 .. p_K`, the horospherical
//! projection of `x` is the point `y` of the K-dimensional geodesic submanifold through the origin and these ideal
//! points that has the same Busemann coordinates. With `a_k = exp(B_k(x))` and `y = sum_k h_k p_k`, this means
//! `t(y) - h_k = a_k` and `t(y)^2 - |h|^2 = 1`. Let `A = sum a_k` and `Q = sum a_k^2`. Then
//!
//! `t(y) = (Q + 1) / (A + s)`, `s = sqrt(A^2 - (K - 1) (Q + 1))`, `h_k = t(y) - a_k`.
//!
//! The quadratic equation has two solutions; this is the one nearer to the origin, as in Sec. 3.2. So a point of the
//! submanifold is its own projection if it lies on the origin's side of the hull of the ideal points, and is reflected
//! at this hull otherwise. Derivatives: `dt(y)/da_k = -h_k / s`.
//!
//! The objective is the generalised variance of the projected points ([`super::ProjectionQuality::variance`]). The
//! directions are found one after the other, each orthogonal to the earlier ones (Sec. 4), by gradient ascent along
//! great circles with Barzilai-Borwein step lengths. A step that lowers the objective is halved.

use conifer_geometry::safe::projection::{DEPENDENT, GRADIENT_SETTLED, HULL, PLAIN_LOGARITHM, SHORT_SINH};
use conifer_geometry::safe::ratio;
use conifer_geometry::slices::{dot, norm};
use rayon::prelude::*;

use super::hyperbolic_rows::{HyperbolicRows, time_of, to_ball, unit_dist};
use super::tangent_pca::principal_tangents;
use super::{PairSample, ProjectionQuality, StepObserver, check_dim};
use crate::disc::spread;
use crate::{Error, Result};

/// Longest step along a great circle, radians.
const LONGEST_STEP: f64 = 0.5;
/// Number of rows whose directions are tried as the start of a component.
const ROW_STARTS: usize = 16;
/// Number of principal tangent directions that are tried, in both signs, as the start of a component.
const AXIS_STARTS: usize = 4;

/// Settings of HoroPCA.
#[derive(Clone, Debug, PartialEq)]
pub struct HoroSettings {
    /// Number of components K.
    pub dim: usize,
    /// Largest number of gradient steps per component.
    pub steps: usize,
    /// Start directions, one per component. `None`: the best of a few principal tangent directions and rows.
    pub start: Option<Vec<Vec<f64>>>,
}

/// Fitted components and the projected rows.
#[derive(Clone, Debug)]
pub struct HoroPca {
    /// Orthonormal directions of the ideal points, one per component.
    pub directions: Vec<Vec<f64>>,
    /// Space components of the projected rows on the hyperboloid of curvature -1, `[N, K]`, along the directions.
    pub coordinates: Vec<f64>,
    /// Variance and distortion, with distances at curvature -1.
    pub quality: ProjectionQuality,
    /// Number of gradient steps over all components.
    pub steps: usize,
}

impl HoroPca {
    /// Fits the components to rows whose centre is the origin ([`HyperbolicRows::centred`]). `pairs` are the pairs of
    /// the objective and of the quality.
    ///
    /// # Errors
    /// `dim` is zero or above the dimension of the rows; the start has another shape; the observer stops the fit.
    pub fn fit(
        rows: &HyperbolicRows,
        settings: &HoroSettings,
        pairs: &PairSample,
        observer: &mut StepObserver<'_>,
    ) -> Result<Self> {
        check_dim(settings.dim, rows.dim())?;
        let axes = match &settings.start {
            Some(start) if start.len() == settings.dim && start.iter().all(|it| it.len() == rows.dim()) => Vec::new(),
            Some(start) => {
                let expected = format!("{} directions of {} numbers", settings.dim, rows.dim());
                return Err(Error::invalid("start", format!("{} directions", start.len()), expected));
            }
            None => principal_tangents(rows, (settings.dim + AXIS_STARTS).min(rows.dim())).0,
        };
        let total = settings.dim * settings.steps;
        let mut objective = HoroObjective { rows, pairs, fixed: vec![Vec::new(); rows.len()] };
        let mut directions: Vec<Vec<f64>> = Vec::new();
        let mut taken = 0;
        for component in 0..settings.dim {
            let candidates = match &settings.start {
                Some(start) => vec![start[component].clone()],
                None => starts(rows, &axes),
            };
            let start = objective.best_start(candidates, &directions);
            let mut step = |done: usize| observer((component * settings.steps + done).min(total), total);
            let (direction, used) = objective.ascend(start, &directions, settings.steps, &mut step)?;
            objective.fix(&direction);
            directions.push(direction);
            taken += used;
        }
        if !observer(total, total) {
            return Err(Error::Stopped);
        }
        let coordinates = horospherical(rows, &directions);
        let dim = settings.dim;
        let at = |i: usize| &coordinates[i * dim..(i + 1) * dim];
        let quality = pairs.quality(|i, j| rows.dist(i, j), |i, j| unit_dist(at(i), at(j)));
        Ok(HoroPca { directions, coordinates, quality, steps: taken })
    }

    /// Space components, `K` numbers, of the horospherical projection of a point given by its space components.
    pub fn project(&self, point: &[f64]) -> Vec<f64> {
        let mut out = vec![0.0; self.directions.len()];
        project(point, &self.directions, &mut out);
        out
    }

    /// Coordinates of the rows in the Poincare ball, `[N, K]`.
    pub fn ball(&self) -> Vec<f64> {
        let dim = self.directions.len();
        let mut out = vec![0.0; self.coordinates.len()];
        for (from, to) in self.coordinates.chunks_exact(dim).zip(out.chunks_exact_mut(dim)) {
            to_ball(from, to);
        }
        out
    }
}

/// The projected points of all rows, for the objective, in the notation of the module documentation. Each quantity has
/// a separate list, so a cache line holds it for several consecutive rows.
struct ProjectedPoints {
    /// Number of directions.
    dim: usize,
    /// `t(y)`.
    time: Vec<f64>,
    /// `t(y) - sum_k h_k`.
    rest: Vec<f64>,
    /// `s` of the module documentation.
    root: Vec<f64>,
    /// `h`, `[N, dim]`.
    along: Vec<f64>,
}

impl ProjectedPoints {
    /// `busemann` holds the `a_k` of all rows, `[N, dim]`.
    fn new(busemann: &[f64], dim: usize) -> Self {
        let (time, root): (Vec<f64>, Vec<f64>) = busemann.chunks_exact(dim).map(time_and_root).unzip();
        let along: Vec<f64> =
            busemann.chunks_exact(dim).zip(&time).flat_map(|(a, time)| a.iter().map(move |a| time - a)).collect();
        let rest = along.chunks_exact(dim).zip(&time).map(|(along, time)| time - along.iter().sum::<f64>()).collect();
        ProjectedPoints { dim, time, rest, root, along }
    }

    fn along(&self, i: usize) -> &[f64] {
        &self.along[i * self.dim..(i + 1) * self.dim]
    }
}

/// The variance as a function of the next direction, with the earlier directions fixed.
pub(super) struct HoroObjective<'a> {
    pub(super) rows: &'a HyperbolicRows,
    pub(super) pairs: &'a PairSample,
    /// `a_k` of each row for the earlier directions.
    pub(super) fixed: Vec<Vec<f64>>,
}

impl HoroObjective<'_> {
    /// The variance and its gradient in the ambient space of the direction.
    pub(super) fn evaluate(&self, direction: &[f64]) -> (f64, Vec<f64>) {
        let last = self.fixed.first().map_or(0, Vec::len);
        let of_row = |i: usize| {
            let row = self.rows.row(i);
            self.fixed[i].iter().copied().chain([time_of(row) - dot(row, direction)]).collect::<Vec<f64>>()
        };
        let busemann: Vec<Vec<f64>> = (0..self.rows.len()).into_par_iter().map(of_row).collect();
        let points = ProjectedPoints::new(&busemann.concat(), last + 1);
        let of_row = |i: usize| {
            let (x, time) = (points.along(i), points.time[i]);
            let (mut sum, mut rest, mut along) = (0.0, 0.0, 0.0);
            self.pairs.partners(i, |j| {
                let y = points.along(j);
                let apart: f64 = x.iter().zip(y).map(|(a, b)| (a - b) * (a - b)).sum();
                let late = time - points.time[j];
                let u = (apart - late * late).max(0.0) / 2.0; // cosh(d) - 1
                let sinh = (u * (u + 2.0)).sqrt();
                let dist = if u > PLAIN_LOGARITHM { (1.0 + u + sinh).ln() } else { (u + sinh).ln_1p() };
                sum += dist * dist;
                // d(d^2)/du = 2 d / sinh(d)
                let slope = if sinh > SHORT_SINH { 2.0 * dist / sinh } else { 2.0 };
                rest += slope * points.rest[j];
                along += slope * y[last];
            });
            (sum, along - rest * x[last] / points.root[i])
        };
        let found: Vec<(f64, f64)> = (0..self.rows.len()).into_par_iter().map(of_row).collect();
        let weight = self.pairs.weight();
        let value = found.iter().map(|it| it.0).sum::<f64>() * weight;
        // Each pair is in the sums of both its rows, hence the 2. da/dp = -x.
        let blocks: Vec<Vec<f64>> = found
            .par_chunks(256)
            .enumerate()
            .map(|(block, found)| {
                let mut part = vec![0.0; self.rows.dim()];
                for (i, (_, slope)) in found.iter().enumerate() {
                    let row = self.rows.row(block * 256 + i);
                    part.iter_mut().zip(row).for_each(|(p, x)| *p -= 2.0 * weight * slope * x);
                }
                part
            })
            .collect();
        let mut gradient = vec![0.0; self.rows.dim()];
        blocks.iter().for_each(|part| gradient.iter_mut().zip(part).for_each(|(g, p)| *g += p));
        (value, gradient)
    }

    /// Returns the candidate with the largest objective, made orthonormal to the earlier directions. If every candidate
    /// is linearly dependent on them, returns a coordinate axis that is not.
    fn best_start(&self, mut candidates: Vec<Vec<f64>>, earlier: &[Vec<f64>]) -> Vec<f64> {
        candidates.retain_mut(|it| orthonormalised(it, earlier));
        if candidates.is_empty() {
            let axis = |at: usize| {
                let mut axis = vec![0.0; self.rows.dim()];
                axis[at] = 1.0;
                axis
            };
            candidates = (0..self.rows.dim())
                .map(axis)
                .filter_map(|mut it| orthonormalised(&mut it, earlier).then_some(it))
                .take(1)
                .collect();
        }
        let mut best: Option<(f64, Vec<f64>)> = None;
        let single = candidates.len() == 1;
        for candidate in candidates {
            let value = if single { 0.0 } else { self.evaluate(&candidate).0 };
            if best.as_ref().is_none_or(|(found, _)| value > *found) {
                best = Some((value, candidate));
            }
        }
        best.map_or_else(Vec::new, |(_, direction)| direction)
    }

    /// Gradient ascent; returns the direction and the number of steps.
    fn ascend(
        &self,
        start: Vec<f64>,
        earlier: &[Vec<f64>],
        steps: usize,
        observer: &mut dyn FnMut(usize) -> bool,
    ) -> Result<(Vec<f64>, usize)> {
        let mut direction = start;
        let (mut value, mut gradient) = self.evaluate_tangent(&direction, earlier);
        let mut angle = LONGEST_STEP / 2.0;
        for step in 0..steps {
            if !observer(step) {
                return Err(Error::Stopped);
            }
            let slope = norm(&gradient);
            if slope <= GRADIENT_SETTLED * value {
                return Ok((direction, step));
            }
            let mut moved = moved(&direction, &gradient, slope, angle);
            orthonormalised(&mut moved, earlier);
            let (next_value, next_gradient) = self.evaluate_tangent(&moved, earlier);
            if next_value < value {
                angle /= 2.0;
                if angle < f64::EPSILON {
                    return Ok((direction, step));
                }
                continue;
            }
            let shift: Vec<f64> = moved.iter().zip(&direction).map(|(a, b)| a - b).collect();
            let fall: Vec<f64> = gradient.iter().zip(&next_gradient).map(|(a, b)| a - b).collect();
            let curvature = dot(&shift, &fall);
            let next_slope = norm(&next_gradient);
            angle = if curvature > 0.0 { next_slope * dot(&shift, &shift) / curvature } else { 2.0 * angle };
            angle = angle.min(LONGEST_STEP);
            (direction, value, gradient) = (moved, next_value, next_gradient);
        }
        Ok((direction, steps))
    }

    /// The variance, and its gradient along directions orthogonal to this one and to the earlier ones.
    fn evaluate_tangent(&self, direction: &[f64], earlier: &[Vec<f64>]) -> (f64, Vec<f64>) {
        let (value, mut gradient) = self.evaluate(direction);
        for other in earlier.iter().map(Vec::as_slice).chain([direction]) {
            let along = dot(&gradient, other);
            gradient.iter_mut().zip(other).for_each(|(g, o)| *g -= along * o);
        }
        (value, gradient)
    }

    fn fix(&mut self, direction: &[f64]) {
        for (i, fixed) in self.fixed.iter_mut().enumerate() {
            let row = self.rows.row(i);
            fixed.push(time_of(row) - dot(row, direction));
        }
    }
}

/// The point at `angle` on the great circle from `direction` along `gradient`, whose length is `slope`.
fn moved(direction: &[f64], gradient: &[f64], slope: f64, angle: f64) -> Vec<f64> {
    let (sin, cos) = angle.sin_cos();
    direction.iter().zip(gradient).map(|(d, g)| cos * d + sin * g / slope).collect()
}

/// Directions that are tried as starts: principal tangent directions in both signs, and evenly spaced rows.
fn starts(rows: &HyperbolicRows, axes: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let mut found: Vec<Vec<f64>> = Vec::new();
    for axis in axes {
        found.push(axis.clone());
        found.push(axis.iter().map(|v| -v).collect());
    }
    found.extend(spread(rows.len(), ROW_STARTS).into_iter().map(|i| rows.row(i).to_vec()));
    found
}

/// Makes a vector orthonormal to the earlier ones. Returns false if it is linearly dependent on them.
fn orthonormalised(vector: &mut [f64], earlier: &[Vec<f64>]) -> bool {
    let before = norm(vector);
    // The second pass removes the rounding error of the first.
    for _ in 0..2 {
        for other in earlier {
            let along = dot(vector, other);
            vector.iter_mut().zip(other).for_each(|(v, o)| *v -= along * o);
        }
    }
    let left = norm(vector);
    let scale = ratio(1.0, left);
    vector.iter_mut().for_each(|v| *v *= scale);
    left > before * DEPENDENT
}

/// `t(y)` and `s` of the module documentation.
fn time_and_root(busemann: &[f64]) -> (f64, f64) {
    let (sum, square) = busemann.iter().fold((0.0, 0.0), |(sum, square), a| (sum + a, square + a * a));
    let others = busemann.len() as f64 - 1.0;
    // The radicand is zero for a point on the hull of the ideal points, where the projection has a kink. Rounding can
    // make it negative.
    let root = (sum * sum - others * (square + 1.0)).max(HULL * sum * sum).sqrt();
    ((square + 1.0) / (sum + root), root)
}

fn project(point: &[f64], directions: &[Vec<f64>], out: &mut [f64]) {
    let time = time_of(point);
    let busemann: Vec<f64> = directions.iter().map(|direction| time - dot(point, direction)).collect();
    let (time, _) = time_and_root(&busemann);
    out.iter_mut().zip(&busemann).for_each(|(o, a)| *o = time - a);
}

/// Space components of the horospherical projections of all rows.
pub(super) fn horospherical(rows: &HyperbolicRows, directions: &[Vec<f64>]) -> Vec<f64> {
    let dim = directions.len();
    let mut out = vec![0.0; rows.len() * dim];
    out.par_chunks_exact_mut(dim).enumerate().for_each(|(i, out)| project(rows.row(i), directions, out));
    out
}
