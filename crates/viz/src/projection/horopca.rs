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

use conifer_geometry::safe::projection::{DEPENDENT, GRADIENT_SETTLED, HULL};
use conifer_geometry::safe::ratio;
use conifer_geometry::slices::{dot, norm};
use macerator::{AutoArch, Simd, WithSimd};
use rayon::prelude::*;

use super::fit_state::{FitProgress, FitState, Unsaved};
use super::hyperbolic_rows::{HyperbolicRows, time_of, to_ball, unit_dist};
use super::pair_sample::PairRun;
use super::tangent_pca::principal_tangents;
use super::wide::{dist_and_slope, positive};
use super::{PairSample, ProjectionQuality, StepObserver, check_dim};
use crate::disc::spread;
use crate::{Error, Result};

/// Longest step along a great circle, radians.
const LONGEST_STEP: f64 = 0.5;
/// Number of rows whose directions are tried as the start of a component.
const ROW_STARTS: usize = 16;
/// Number of principal tangent directions that are tried, in both signs, as the start of a component.
const AXIS_STARTS: usize = 4;
/// Number of consecutive rows whose sums over the pairs are computed together.
const BLOCK: usize = 256;

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

impl HoroSettings {
    /// Largest number of gradient steps of all components.
    fn total_steps(&self) -> usize {
        self.dim.saturating_mul(self.steps)
    }
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
        Self::fit_resumable(rows, settings, pairs, &mut Unsaved(observer))
    }

    /// As [`HoroPca::fit`], from a state that an earlier call with the same arguments passed to `progress`.
    ///
    /// # Errors
    /// Those of [`HoroPca::fit`]; the state is that of another fit.
    pub fn fit_resumable(
        rows: &HyperbolicRows,
        settings: &HoroSettings,
        pairs: &PairSample,
        progress: &mut dyn FitProgress,
    ) -> Result<Self> {
        check_dim(settings.dim, rows.dim())?;
        if let Some(start) = &settings.start
            && !(start.len() == settings.dim && start.iter().all(|it| it.len() == rows.dim()))
        {
            let expected = format!("{} directions of {} numbers", settings.dim, rows.dim());
            return Err(Error::invalid("start", format!("{} directions", start.len()), expected));
        }
        let mut objective = HoroObjective::new(rows, pairs);
        let mut ascent = match progress.restored() {
            Some(state) => HoroAscent::of_state(state, rows.dim(), settings.dim)?,
            None => HoroAscent::default(),
        };
        ascent.directions.iter().for_each(|direction| objective.fix(direction));
        let mut axes = None;
        while ascent.directions.len() < settings.dim {
            if ascent.direction.is_empty() {
                let candidates = match &settings.start {
                    Some(start) => vec![start[ascent.directions.len()].clone()],
                    None => {
                        let count = (settings.dim + AXIS_STARTS).min(rows.dim());
                        let axes = axes.get_or_insert_with(|| principal_tangents(rows, count).0);
                        starts(rows, axes, &ascent.directions)
                    }
                };
                ascent.direction = objective.best_start(candidates, &ascent.directions);
                ascent.angle = LONGEST_STEP / 2.0;
            }
            objective.ascend(&mut ascent, settings, progress)?;
            objective.fix(&ascent.direction);
            ascent.finish_component();
        }
        let total = settings.total_steps();
        if !progress.step(total, total, &|| ascent.state()) {
            return Err(Error::Stopped);
        }
        let HoroAscent { directions, taken, .. } = ascent;
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

/// The components found so far and the ascent of the next one.
#[derive(Default)]
struct HoroAscent {
    /// Finished directions.
    directions: Vec<Vec<f64>>,
    /// Gradient steps of the finished components.
    taken: usize,
    /// Direction of the next component; empty before its start is chosen.
    direction: Vec<f64>,
    /// Gradient steps of the next component, rejected ones included.
    step: usize,
    /// Length of its next step, radians.
    angle: f64,
}

impl HoroAscent {
    fn finish_component(&mut self) {
        self.directions.push(std::mem::take(&mut self.direction));
        self.taken = self.taken.saturating_add(std::mem::take(&mut self.step));
    }

    fn state(&self) -> FitState {
        FitState {
            integers: vec![self.directions.len() as u64, self.taken as u64, self.step as u64],
            numbers: [self.angle].into_iter().chain(self.directions.concat()).chain(self.direction.clone()).collect(),
        }
    }

    fn of_state(state: FitState, dim: usize, count: usize) -> Result<Self> {
        let finished = state.integers.first().map_or(0, |it| usize::try_from(*it).unwrap_or(usize::MAX));
        if finished > count {
            let found = format!("{finished} finished components, the state of another fit");
            return Err(Error::invalid("unfinished HoroPCA", found, format!("at most {count}; start the fit again")));
        }
        // The state between two components has no unfinished direction.
        let is_between = state.numbers.len() == 1 + finished * dim;
        let state = state.checked("HoroPCA", 3, 1 + (finished + usize::from(!is_between)) * dim)?;
        let [_, taken, step] = [0, 1, 2].map(|at| state.integers[at] as usize);
        let (directions, direction) = state.numbers[1..].split_at(finished * dim);
        let directions = directions.chunks_exact(dim).map(<[f64]>::to_vec).collect();
        Ok(HoroAscent { directions, taken, direction: direction.to_vec(), step, angle: state.numbers[0] })
    }
}

/// The projected points of all rows, for the objective, in the notation of the module documentation. Each quantity has
/// a separate list, so that consecutive rows share a vector register.
struct ProjectedPoints {
    /// `t(y)`.
    time: Vec<f64>,
    /// `t(y) - sum_k h_k`.
    rest: Vec<f64>,
    /// `s` of the module documentation.
    root: Vec<f64>,
    /// `h`, `[K, N]`.
    along: Vec<Vec<f64>>,
}

impl ProjectedPoints {
    /// `busemann` holds the `a_k` of all rows, `[K, N]`.
    fn new(busemann: &[&[f64]]) -> Self {
        let len = busemann[0].len();
        let (mut sum, mut square) = (vec![0.0; len], vec![0.0; len]);
        for list in busemann {
            for ((sum, square), a) in sum.iter_mut().zip(&mut square).zip(*list) {
                (*sum, *square) = (*sum + a, *square + a * a);
            }
        }
        let others = busemann.len() as f64 - 1.0;
        let (time, root): (Vec<f64>, Vec<f64>) =
            sum.iter().zip(&square).map(|(sum, square)| time_and_root(*sum, *square, others)).unzip();
        let along: Vec<Vec<f64>> =
            busemann.iter().map(|list| list.iter().zip(&time).map(|(a, time)| time - a).collect()).collect();
        let mut rest = time.clone();
        along.iter().for_each(|list| rest.iter_mut().zip(list).for_each(|(rest, h)| *rest -= h));
        ProjectedPoints { time, rest, root, along }
    }
}

/// For consecutive rows `i`: the sums over their partners `j` of `d^2`, of `rest_j d(d^2)/du` and of
/// `h_j d(d^2)/du` for the last direction, with `u = cosh(d) - 1`.
struct PartnerSums<'a> {
    points: &'a ProjectedPoints,
    pairs: &'a PairSample,
    first: usize,
    count: usize,
}

impl WithSimd for PartnerSums<'_> {
    type Output = [[f64; BLOCK]; 3];

    #[inline(always)]
    fn with_simd<S: Simd>(self) -> Self::Output {
        let PartnerSums { points, pairs, first, count } = self;
        let mut sums = [[0.0; BLOCK]; 3];
        // Several loops over a block, each of which the compiler vectorises.
        let (mut apart, mut square, mut slope) = ([0.0; BLOCK], [0.0; BLOCK], [0.0; BLOCK]);
        for PairRun { row, partner, count } in pairs.runs(first, count) {
            let (i, j) = (row..row + count, partner..partner + count);
            apart[..count].fill(0.0);
            for along in &points.along {
                for ((apart, x), y) in apart[..count].iter_mut().zip(&along[i.clone()]).zip(&along[j.clone()]) {
                    *apart += (x - y) * (x - y);
                }
            }
            for ((apart, x), y) in apart[..count].iter_mut().zip(&points.time[i]).zip(&points.time[j.clone()]) {
                *apart = positive(*apart - (x - y) * (x - y)) / 2.0;
            }
            for ((u, square), slope) in apart[..count].iter().zip(&mut square).zip(&mut slope) {
                let (dist, ratio) = dist_and_slope(*u);
                (*square, *slope) = (dist * dist, 2.0 * ratio);
            }
            let at = row - first;
            let last = &points.along[points.along.len() - 1][j.clone()];
            let [squares, rests, alongs] = &mut sums;
            let of_block = |list: &mut [f64; BLOCK], other: Option<&[f64]>| {
                let list = &mut list[at..at + count];
                match other {
                    None => list.iter_mut().zip(&square).for_each(|(sum, v)| *sum += v),
                    Some(other) => {
                        list.iter_mut().zip(&slope).zip(other).for_each(|((sum, slope), v)| *sum += slope * v)
                    }
                }
            };
            of_block(squares, None);
            of_block(rests, Some(&points.rest[j]));
            of_block(alongs, Some(last));
        }
        sums
    }
}

/// The variance as a function of the next direction, with the earlier directions fixed.
pub(super) struct HoroObjective<'a> {
    rows: &'a HyperbolicRows,
    pairs: &'a PairSample,
    /// Time components of the rows.
    times: Vec<f64>,
    /// `a_k` of all rows for each earlier direction.
    fixed: Vec<Vec<f64>>,
}

impl<'a> HoroObjective<'a> {
    pub(super) fn new(rows: &'a HyperbolicRows, pairs: &'a PairSample) -> Self {
        HoroObjective { rows, pairs, times: rows.times(), fixed: Vec::new() }
    }

    /// The variance and its gradient in the ambient space of the direction.
    pub(super) fn evaluate(&self, direction: &[f64]) -> (f64, Vec<f64>) {
        let own = self.busemann(direction);
        let busemann: Vec<&[f64]> = self.fixed.iter().chain([&own]).map(Vec::as_slice).collect();
        let points = ProjectedPoints::new(&busemann);
        let last = &points.along[points.along.len() - 1];
        let (len, dim, weight) = (self.rows.len(), self.rows.dim(), self.pairs.weight());
        // Blocks of a fixed size, summed in order: the result does not depend on the number of threads.
        let block = |block: usize| {
            let first = block * BLOCK;
            let count = BLOCK.min(len - first);
            let arch = AutoArch::new();
            let [squares, rests, alongs] =
                arch.dispatch(PartnerSums { points: &points, pairs: self.pairs, first, count });
            let mut part = vec![0.0; dim];
            for at in 0..count {
                let i = first + at;
                let slope = alongs[at] - rests[at] * last[i] / points.root[i];
                // Each pair is in the sums of both its rows, hence the 2. da/dp = -x.
                let factor = -2.0 * weight * slope;
                part.iter_mut().zip(self.rows.row(i)).for_each(|(p, x)| *p += factor * x);
            }
            (squares[..count].iter().sum::<f64>(), part)
        };
        let found: Vec<(f64, Vec<f64>)> = (0..len.div_ceil(BLOCK)).into_par_iter().map(block).collect();
        let mut gradient = vec![0.0; dim];
        found.iter().for_each(|(_, part)| gradient.iter_mut().zip(part).for_each(|(g, p)| *g += p));
        (found.iter().map(|it| it.0).sum::<f64>() * weight, gradient)
    }

    /// `a` of all rows for a direction.
    fn busemann(&self, direction: &[f64]) -> Vec<f64> {
        (0..self.rows.len()).into_par_iter().map(|i| self.times[i] - dot(self.rows.row(i), direction)).collect()
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

    /// Gradient ascent of the next component.
    fn ascend(&self, ascent: &mut HoroAscent, settings: &HoroSettings, progress: &mut dyn FitProgress) -> Result<()> {
        let (mut value, mut gradient) = self.evaluate_tangent(&ascent.direction, &ascent.directions);
        while ascent.step < settings.steps {
            let done = ascent.directions.len().saturating_mul(settings.steps).saturating_add(ascent.step);
            if !progress.step(done, settings.total_steps(), &|| ascent.state()) {
                return Err(Error::Stopped);
            }
            let slope = norm(&gradient);
            if slope <= GRADIENT_SETTLED * value {
                return Ok(());
            }
            let mut moved = moved(&ascent.direction, &gradient, slope, ascent.angle);
            orthonormalised(&mut moved, &ascent.directions);
            let (next_value, next_gradient) = self.evaluate_tangent(&moved, &ascent.directions);
            ascent.step += 1;
            if next_value < value {
                ascent.angle /= 2.0;
                if ascent.angle < f64::EPSILON {
                    return Ok(());
                }
                continue;
            }
            let shift: Vec<f64> = moved.iter().zip(&ascent.direction).map(|(a, b)| a - b).collect();
            let fall: Vec<f64> = gradient.iter().zip(&next_gradient).map(|(a, b)| a - b).collect();
            let curvature = dot(&shift, &fall);
            let next_slope = norm(&next_gradient);
            let angle = if curvature > 0.0 { next_slope * dot(&shift, &shift) / curvature } else { 2.0 * ascent.angle };
            ascent.angle = angle.min(LONGEST_STEP);
            (ascent.direction, value, gradient) = (moved, next_value, next_gradient);
        }
        Ok(())
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

    pub(super) fn fix(&mut self, direction: &[f64]) {
        self.fixed.push(self.busemann(direction));
    }
}

/// The point at `angle` on the great circle from `direction` along `gradient`, whose length is `slope`.
fn moved(direction: &[f64], gradient: &[f64], slope: f64, angle: f64) -> Vec<f64> {
    let (sin, cos) = angle.sin_cos();
    direction.iter().zip(gradient).map(|(d, g)| cos * d + sin * g / slope).collect()
}

/// Directions that are tried as starts: the first principal tangent directions that are not mostly in the span of the
/// earlier directions, in both signs, and evenly spaced rows.
fn starts(rows: &HyperbolicRows, axes: &[Vec<f64>], earlier: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let is_new = |axis: &&Vec<f64>| earlier.iter().map(|it| dot(it, axis).powi(2)).sum::<f64>() < 0.5;
    let mut found: Vec<Vec<f64>> = Vec::new();
    for axis in axes.iter().filter(is_new).take(AXIS_STARTS) {
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

/// `t(y)` and `s` of the module documentation, given `A`, `Q` and `K - 1`.
fn time_and_root(sum: f64, square: f64, others: f64) -> (f64, f64) {
    // The radicand is zero for a point on the hull of the ideal points, where the projection has a kink. Rounding can
    // make it negative.
    let root = (sum * sum - others * (square + 1.0)).max(HULL * sum * sum).sqrt();
    ((square + 1.0) / (sum + root), root)
}

pub(super) fn project(point: &[f64], directions: &[Vec<f64>], out: &mut [f64]) {
    let time = time_of(point);
    let busemann: Vec<f64> = directions.iter().map(|direction| time - dot(point, direction)).collect();
    let (sum, square) = busemann.iter().fold((0.0, 0.0), |(sum, square), a| (sum + a, square + a * a));
    let (time, _) = time_and_root(sum, square, directions.len() as f64 - 1.0);
    out.iter_mut().zip(&busemann).for_each(|(o, a)| *o = time - a);
}

/// Space components of the horospherical projections of all rows.
pub(super) fn horospherical(rows: &HyperbolicRows, directions: &[Vec<f64>]) -> Vec<f64> {
    let dim = directions.len();
    let mut out = vec![0.0; rows.len() * dim];
    out.par_chunks_exact_mut(dim).enumerate().for_each(|(i, out)| project(rows.row(i), directions, out));
    out
}
