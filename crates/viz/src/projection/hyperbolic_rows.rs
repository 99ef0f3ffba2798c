use std::borrow::Cow;

use conifer_geometry::safe::projection::MEAN_SETTLED;
use conifer_geometry::safe::{asinhc, sinhc};
use conifer_geometry::slices::{dot, norm, sums};
use conifer_geometry::{ManifoldSpec, Root};
use macerator::{AutoArch, Simd, WithSimd};
use rayon::prelude::*;

use super::wide::{dist_and_slope, positive};
use crate::disc::boosted;
use crate::{Error, Result};

/// Maximum number of coordinates (rows times dimension) in memory, which take 1.6 GB.
const MAX_NUMBERS: usize = 200_000_000;

/// Maximum number of steps of the iteration for the Frechet mean. It converges linearly, usually in a few dozen steps.
const MEAN_STEPS: usize = 300;

/// Rows of one hyperboloid, scaled to curvature -1 and moved so that the centre of the projection is the origin.
///
/// A row is stored by its space components `x`, multiplied by `sqrt(c)`. Its time component is `sqrt(1 + |x|^2)`.
#[derive(Clone, Debug)]
pub struct HyperbolicRows {
    dim: usize,
    points: Vec<f64>,
    /// Position of the root, in the same coordinates.
    root: Vec<f64>,
    /// `sqrt(c)` of the space of the rows.
    scale: f64,
    /// The point that [`HyperbolicRows::centred`] moved to the origin, in coordinates with the root at the origin.
    center: Vec<f64>,
}

/// The point of the space that a projection puts at the centre.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProjectionCenter {
    /// The Frechet mean of the rows: the point with the least sum of squared distances (HoroPCA Sec. 4).
    Mean,
    /// The root of the set.
    Root,
}

impl HyperbolicRows {
    /// Reads `len` rows of a hyperboloid, or of one factor of a product. `row` returns the coordinates of a row in the
    /// whole space.
    ///
    /// # Errors
    /// The space is invalid, not hyperbolic, or a product and `factor` is `None`; the factor does not exist; there
    /// are no rows, or too many for the memory; a coordinate is not finite.
    pub fn of_factor<'a>(
        spec: &ManifoldSpec,
        root: &Root,
        factor: Option<usize>,
        len: usize,
        row: impl Fn(usize) -> Cow<'a, [f32]> + Sync,
    ) -> Result<Self> {
        spec.check()?;
        let (at, dim) = (chosen_factor(spec, factor)?, spec.factor_dim());
        if len == 0 {
            return Err(Error::invalid("rows", 0, "at least 1"));
        }
        if len.saturating_mul(dim) > MAX_NUMBERS {
            let found = format!("{len} rows of {dim} numbers");
            let expected = format!("at most {} rows; draw a sample (--sample N)", MAX_NUMBERS / dim);
            return Err(Error::invalid("rows", found, expected));
        }
        let scale = spec.curv[at].sqrt();
        let range = at * dim..(at + 1) * dim;
        let mut points = vec![0.0; len * dim];
        let bad = points.par_chunks_exact_mut(dim).enumerate().find_map_first(|(i, out)| {
            let row = row(i);
            out.iter_mut().zip(&row[range.clone()]).for_each(|(o, v)| *o = f64::from(*v) * scale);
            let at = out.iter().position(|v| !v.is_finite())?;
            Some(Error::invalid(format!("row {i}, coordinate {at}"), row[range.start + at], "a finite number"))
        });
        if let Some(error) = bad {
            return Err(error);
        }
        let mut rows = HyperbolicRows { dim, points, root: vec![0.0; dim], scale, center: vec![0.0; dim] };
        if let Root::Point(root) = root {
            let root: Vec<f64> = root[range].iter().map(|v| v * scale).collect();
            rows.recentre(&root);
            rows.root = vec![0.0; dim];
        }
        Ok(rows)
    }

    /// Rows given by their space components on the hyperboloid of curvature -1, with the root at the origin.
    ///
    /// # Errors
    /// `points` is empty or not a multiple of `dim`; a number is not finite.
    pub fn from_unit(dim: usize, points: Vec<f64>) -> Result<Self> {
        if dim == 0 || points.is_empty() || !points.len().is_multiple_of(dim) {
            return Err(Error::invalid("points", points.len(), format!("a positive multiple of dim = {dim}")));
        }
        if let Some(at) = points.iter().position(|v| !v.is_finite()) {
            return Err(Error::invalid(format!("row {}", at / dim), points[at], "finite numbers"));
        }
        Ok(HyperbolicRows { dim, points, root: vec![0.0; dim], scale: 1.0, center: vec![0.0; dim] })
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.points.len() / self.dim
    }

    /// Returns true if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    /// Dimension of the hyperboloid.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Space components of row `i` at curvature -1.
    pub fn row(&self, i: usize) -> &[f64] {
        &self.points[i * self.dim..(i + 1) * self.dim]
    }

    /// Space components of the root at curvature -1.
    pub fn root(&self) -> &[f64] {
        &self.root
    }

    /// `sqrt(c)`. Divide a distance at curvature -1 by this value to get the distance in the space of the rows.
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// Distance of two rows at curvature -1.
    pub fn dist(&self, i: usize, j: usize) -> f64 {
        unit_dist(self.row(i), self.row(j))
    }

    /// Puts the centre at the origin.
    #[must_use]
    pub fn centred(self, center: ProjectionCenter) -> Self {
        match center {
            ProjectionCenter::Mean => {
                let mean = self.frechet_mean();
                self.centred_at(&mean)
            }
            ProjectionCenter::Root => {
                let root = self.root.clone();
                self.centred_at(&root)
            }
        }
    }

    /// Puts a point at the origin. The rows are not centred yet, so its coordinates have the root at the origin.
    pub(super) fn centred_at(mut self, center: &[f64]) -> Self {
        self.recentre(center);
        self.center = center.to_vec();
        self
    }

    /// The point that [`HyperbolicRows::centred`] moved to the origin, in coordinates with the root at the origin.
    pub fn center(&self) -> &[f64] {
        &self.center
    }

    /// The squared distances of the rows `first .. first + count` to all rows, `[count, N]`, at curvature -1.
    pub(super) fn square_distances(&self, times: &[f64], first: usize, count: usize) -> Vec<f64> {
        AutoArch::new().dispatch(SquareDistances { rows: self, times, first, count })
    }

    /// Time components of all rows.
    pub(super) fn times(&self) -> Vec<f64> {
        self.points.par_chunks_exact(self.dim).map(time_of).collect()
    }

    /// The Frechet mean by gradient descent on `sum d(x, m)^2 / 2`, from the centroid of Law et al. 2019. The
    /// eigenvalues of the Hessian of `d^2 / 2` are at most `d coth(d)`, so a step of `1 / mean(d coth(d))` does not
    /// overshoot.
    pub fn frechet_mean(&self) -> Vec<f64> {
        let mut sum = vec![0.0; self.dim];
        let mut time = 0.0;
        for row in self.points.chunks_exact(self.dim) {
            sum.iter_mut().zip(row).for_each(|(s, v)| *s += v);
            time += time_of(row);
        }
        let length = (time * time - dot(&sum, &sum)).sqrt().max(self.len() as f64);
        let mut mean: Vec<f64> = sum.iter().map(|v| v / length).collect();
        for _ in 0..MEAN_STEPS {
            // Blocks of a fixed size, summed in order: the result does not depend on the number of threads.
            let blocks: Vec<(Vec<f64>, f64)> = self
                .points
                .par_chunks(self.dim * 256)
                .map(|block| {
                    let (mut sum, mut stiffness) = (vec![0.0; self.dim], 0.0);
                    for row in block.chunks_exact(self.dim) {
                        let moved = boosted(&mean, row, 1.0);
                        let length = norm(&moved);
                        let scale = asinhc(length);
                        sum.iter_mut().zip(&moved).for_each(|(s, v)| *s += scale * v);
                        // d coth(d), with sinh(d) = |moved|
                        stiffness += scale * (1.0 + length * length).sqrt();
                    }
                    (sum, stiffness)
                })
                .collect();
            let mut step = vec![0.0; self.dim];
            let mut stiffness = 0.0;
            for (sum, part) in blocks {
                step.iter_mut().zip(sum).for_each(|(s, v)| *s += v);
                stiffness += part;
            }
            step.iter_mut().for_each(|v| *v /= stiffness);
            let length = norm(&step);
            let lifted: Vec<f64> = step.iter().map(|v| v * sinhc(length)).collect();
            // The boost by -mean takes the origin back to the mean.
            let back: Vec<f64> = mean.iter().map(|v| -v).collect();
            mean = boosted(&back, &lifted, 1.0);
            if length < MEAN_SETTLED {
                break;
            }
        }
        mean
    }

    /// The hyperboloid boost that takes `target` to the origin, applied to all rows and the root.
    fn recentre(&mut self, target: &[f64]) {
        if target.iter().all(|v| *v == 0.0) {
            return;
        }
        self.points.par_chunks_exact_mut(self.dim).for_each(|row| row.copy_from_slice(&boosted(target, row, 1.0)));
        self.root = boosted(target, &self.root, 1.0);
    }
}

/// The work of [`HyperbolicRows::square_distances`].
struct SquareDistances<'a> {
    rows: &'a HyperbolicRows,
    times: &'a [f64],
    first: usize,
    count: usize,
}

impl WithSimd for SquareDistances<'_> {
    type Output = Vec<f64>;

    #[inline(always)]
    fn with_simd<S: Simd>(self) -> Vec<f64> {
        let SquareDistances { rows, times, first, count } = self;
        let len = rows.len();
        let mut out = vec![0.0; count * len];
        for (j, time) in times.iter().enumerate() {
            let y = rows.row(j);
            for i in first..first + count {
                let late = times[i] - time;
                out[(i - first) * len + j] = positive(square_apart(rows.row(i), y) - late * late) / 2.0;
            }
        }
        for u in &mut out {
            let (dist, _) = dist_and_slope(*u);
            *u = dist * dist;
        }
        out
    }
}

/// `|x - y|^2`, with sixteen partial sums.
#[inline(always)]
fn square_apart(x: &[f64], y: &[f64]) -> f64 {
    let ((x, x_rest), (y, y_rest)) = (x.as_chunks::<16>(), y.as_chunks::<16>());
    let mut sums = [0.0; 16];
    for (x, y) in x.iter().zip(y) {
        for lane in 0..16 {
            let apart = x[lane] - y[lane];
            sums[lane] += apart * apart;
        }
    }
    let mut total = 0.0;
    for (x, y) in x_rest.iter().zip(y_rest) {
        total += (x - y) * (x - y);
    }
    for sum in sums {
        total += sum;
    }
    total
}

/// Distance on the hyperboloid of curvature -1: `2 asinh(sqrt(q) / 2)` with `q = |x - y|^2 - (t(x) - t(y))^2`. The
/// difference of the times is `<x - y, x + y> / (t(x) + t(y))`, which does not cancel for close points.
pub(super) fn unit_dist(x: &[f64], y: &[f64]) -> f64 {
    let [xx, yy, apart, across] = sums(x, y, |a, b| [a * a, b * b, (a - b) * (a - b), (a - b) * (a + b)]);
    let time = across / ((1.0 + xx).sqrt() + (1.0 + yy).sqrt());
    2.0 * ((apart - time * time).max(0.0).sqrt() / 2.0).asinh()
}

/// Time component of a point of the hyperboloid of curvature -1.
pub(super) fn time_of(x: &[f64]) -> f64 {
    (1.0 + dot(x, x)).sqrt()
}

/// Coordinates in the Poincare ball: `x / (1 + t)`.
pub(super) fn to_ball(x: &[f64], out: &mut [f64]) {
    let scale = 1.0 / (1.0 + time_of(x));
    out.iter_mut().zip(x).for_each(|(o, v)| *o = v * scale);
}

/// Number of the hyperboloid to project: the only one of a space, or the given one of a product.
fn chosen_factor(spec: &ManifoldSpec, factor: Option<usize>) -> Result<usize> {
    match (spec.curv.len(), factor) {
        (0, _) => {
            let expected = "a hyperbolic space; tangent-pca, depth and umap accept every space";
            Err(Error::invalid("space", spec, expected))
        }
        (1, None) => Ok(0),
        (count, Some(at)) if at < count => Ok(at),
        (count, Some(found)) => {
            let expected = format!("a number below {count}, the number of factors of {spec}");
            Err(Error::invalid("factor", found, expected))
        }
        (count, None) => {
            let expected = format!("one hyperboloid; choose a factor of the product (--factor 0 to {})", count - 1);
            Err(Error::invalid("space", spec, expected))
        }
    }
}
