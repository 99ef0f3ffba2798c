//! The layout of UMAP (McInnes, Healy, Melville 2018, "UMAP: Uniform Manifold Approximation and Projection for
//! Dimension Reduction", arXiv 1802.03426, Algorithm 5), from the formulas of the paper, in the plane or in the
//! Poincare disc.
//!
//! The similarity of two points at distance `d` is `q(d) = 1 / (1 + a d^(2b))`, with `a` and `b` fitted to a curve that
//! is 1 up to `min_dist` and `exp(min_dist - d)` beyond. The layout minimises the cross entropy of the weights of a
//! [`FuzzyGraph`] and `q`. An edge of weight `w` is drawn `w / max w` times per epoch, evenly spaced. A drawn edge
//! moves both ends towards each other by `2ab d^(2b-1) / (1 + a d^(2b))`, and its first end away from some random
//! points by `2b d / ((0.001 + d^2) (1 + a d^(2b)))`. Moves are at most 4 long and are multiplied by a rate that falls
//! from 1 to 0.
//!
//! In the disc, a point moves along the geodesic, and `d` is the hyperbolic distance times a scale that grows with the
//! number of points. The area of a hyperbolic disc grows exponentially with its radius, so without this scale almost
//! all points of a large set would be at the rim.
//!
//! As in umap-learn, both ends of an edge move (Algorithm 5 moves one). Unlike umap-learn, the caller gives the start
//! positions instead of a spectral embedding. The length of a move is limited instead of each coordinate, so that a
//! rotation of the map changes nothing. Edges are drawn one after the other, so the result does not depend on the
//! number of threads.

use conifer_geometry::random::SplitMix;
use conifer_geometry::safe::projection::{CURVE_SETTLED, MEAN_SETTLED, RIM};
use conifer_geometry::slices::norm;
use rayon::prelude::*;

use super::StepObserver;
use super::fit_state::{FitProgress, FitState, Unsaved};
use super::neighbour_graph::{FuzzyGraph, NeighbourTable};
use crate::disc::spread;
use crate::{Error, Result};

/// Minimum number of rows. With fewer rows, every other row is a neighbour.
const MIN_ROWS: usize = 4;
/// Number of random points from which a drawn edge moves its first end away.
const NEGATIVES: usize = 5;
/// Longest move at rate 1.
const LONGEST_MOVE: f64 = 4.0;
/// Added to a squared distance, so that the repulsion of close points is finite (the paper's implementation).
const CLOSE: f64 = 1e-3;
/// Half the extent of the start positions.
const START_EXTENT: f64 = 5.0;
/// Size of the random part of the start positions, which separates coinciding points.
const START_NOISE: f64 = 1e-4;
/// Default number of epochs, as in umap-learn: `EPOCHS[0]` up to `SMALL` rows, else `EPOCHS[1]`.
const SMALL: usize = 10_000;
const EPOCHS: [usize; 2] = [500, 200];
/// `AREA` is the area per row in units of the layout, `FILLED_RADIUS` the hyperbolic radius that all rows together
/// fill. It is at `tanh(3 / 2)` = 0.91 in the disc.
const AREA: f64 = 0.3;
const FILLED_RADIUS: f64 = 3.0;
/// Number of rows over which [`Umap::neighbours_kept`] is averaged.
const COUNTED_ROWS: usize = 2000;
/// Maximum number of steps of the iteration for the mean of the points.
const CENTRE_STEPS: usize = 200;

/// The surface of the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UmapTarget {
    /// The Euclidean plane.
    Plane,
    /// The Poincare disc, with the Frechet mean of the points at the centre.
    Disc,
}

/// Settings of UMAP.
#[derive(Clone, Debug, PartialEq)]
pub struct UmapSettings {
    /// The surface of the map.
    pub target: UmapTarget,
    /// Distance up to which two points count as equally close, 0 to below 3.
    pub min_dist: f64,
    /// Number of epochs; `None`: 500 up to 10,000 rows, else 200.
    pub epochs: Option<usize>,
    /// Seed of the random points.
    pub seed: u64,
}

/// The positions that UMAP found.
#[derive(Clone, Debug)]
pub struct Umap {
    /// Positions `[N, 2]`.
    pub positions: Vec<f64>,
    /// Number of epochs.
    pub epochs: usize,
    /// `a` and `b` of the similarity.
    pub curve: [f64; 2],
    /// Mean share of the neighbours of a row that are also among as many nearest points of the map, over evenly spaced
    /// rows.
    pub neighbours_kept: f64,
}

impl Umap {
    /// Computes the UMAP layout of the rows from their nearest neighbours. `start` are start positions `[N, 2]` in any
    /// unit, such as the first two coordinates of a tangent PCA.
    ///
    /// # Errors
    /// Fewer than 4 rows; a wrong number of start positions, or one that is not finite; a setting out of range; the
    /// observer stops the layout.
    pub fn fit(
        neighbours: &NeighbourTable,
        start: &[f64],
        settings: &UmapSettings,
        observer: &mut StepObserver<'_>,
    ) -> Result<Self> {
        Self::fit_resumable(neighbours, start, settings, &mut Unsaved(observer))
    }

    /// As [`Umap::fit`], from a state that an earlier call with the same arguments passed to `progress`.
    ///
    /// # Errors
    /// Those of [`Umap::fit`]; the state is that of another fit.
    pub fn fit_resumable(
        neighbours: &NeighbourTable,
        start: &[f64],
        settings: &UmapSettings,
        progress: &mut dyn FitProgress,
    ) -> Result<Self> {
        let len = neighbours.len();
        if len < MIN_ROWS {
            return Err(Error::invalid("rows", len, format!("at least {MIN_ROWS} for umap")));
        }
        if start.len() != 2 * len || start.iter().any(|v| !v.is_finite()) {
            let found = format!(
                "{} numbers, {} of them not finite",
                start.len(),
                start.iter().filter(|v| !v.is_finite()).count()
            );
            return Err(Error::invalid("start positions", found, format!("{} finite numbers", 2 * len)));
        }
        let curve = fitted_curve(settings.min_dist)?;
        let epochs = settings.epochs.unwrap_or(EPOCHS[usize::from(len > SMALL)]);
        let graph = FuzzyGraph::new(neighbours);
        let layout = Layout { graph: &graph, curve, epochs };
        let mut fit = match progress.restored() {
            Some(state) => UmapLayout::of_state(state, len)?,
            None => {
                let mut random = SplitMix::new(settings.seed);
                let points = match settings.target {
                    UmapTarget::Plane => started(start, START_EXTENT, &mut random),
                    UmapTarget::Disc => {
                        let disc = Disc { scale: disc_scale(len) };
                        // A start at the rim would leave no room for the layout.
                        let reach = START_EXTENT.min(FILLED_RADIUS * disc.scale / 2.0);
                        let flat = started(start, reach, &mut random);
                        flat.into_iter().map(|point| disc.moved([0.0; 2], point)).collect()
                    }
                };
                UmapLayout { epoch: 0, random, points }
            }
        };
        match settings.target {
            UmapTarget::Plane => {
                layout.run(&Plane, &mut fit, progress)?;
                centre(&Plane, &mut fit.points);
            }
            UmapTarget::Disc => {
                let disc = Disc { scale: disc_scale(len) };
                layout.run(&disc, &mut fit, progress)?;
                centre(&disc, &mut fit.points);
            }
        }
        let points = fit.points;
        let neighbours_kept = match settings.target {
            UmapTarget::Plane => kept(&Plane, &points, neighbours),
            UmapTarget::Disc => kept(&Disc { scale: 1.0 }, &points, neighbours),
        };
        Ok(Umap { positions: points.into_flattened(), epochs, curve, neighbours_kept })
    }
}

/// A surface with points `[x, y]`.
trait Surface: Sync {
    /// The tangent vector at `from` that leads to `to`. Its length is the distance.
    fn toward(&self, from: [f64; 2], to: [f64; 2]) -> [f64; 2];

    /// The end of the geodesic that starts with a tangent vector.
    fn moved(&self, from: [f64; 2], by: [f64; 2]) -> [f64; 2];

    /// The largest eigenvalue of the Hessian of half the squared distance from a point at this distance.
    fn stiffness(&self, distance: f64) -> f64;

    /// A number that grows with the distance.
    fn order(&self, x: [f64; 2], y: [f64; 2]) -> f64;
}

struct Plane;

impl Surface for Plane {
    fn toward(&self, from: [f64; 2], to: [f64; 2]) -> [f64; 2] {
        [to[0] - from[0], to[1] - from[1]]
    }

    fn moved(&self, from: [f64; 2], by: [f64; 2]) -> [f64; 2] {
        [from[0] + by[0], from[1] + by[1]]
    }

    fn stiffness(&self, _: f64) -> f64 {
        1.0
    }

    fn order(&self, x: [f64; 2], y: [f64; 2]) -> f64 {
        square(self.toward(x, y))
    }
}

/// The Poincare disc with distances multiplied by `scale`.
struct Disc {
    scale: f64,
}

impl Surface for Disc {
    fn toward(&self, from: [f64; 2], to: [f64; 2]) -> [f64; 2] {
        let apart = mobius(from.map(|v| -v), to);
        let length = norm(&apart);
        // d = 2 artanh |(-x) + y|
        let part = if length > 0.0 { self.scale * 2.0 * length.min(RIM).atanh() / length } else { 0.0 };
        apart.map(|v| v * part)
    }

    fn moved(&self, from: [f64; 2], by: [f64; 2]) -> [f64; 2] {
        let length = norm(&by);
        let part = if length > 0.0 { (length / (2.0 * self.scale)).tanh() / length } else { 0.0 };
        let end = mobius(from, by.map(|v| v * part));
        let radius = norm(&end);
        if radius > RIM { end.map(|v| v * RIM / radius) } else { end }
    }

    fn stiffness(&self, distance: f64) -> f64 {
        let distance = distance / self.scale;
        if distance > 0.0 { distance / distance.tanh() } else { 1.0 }
    }

    fn order(&self, [a, b]: [f64; 2], [c, d]: [f64; 2]) -> f64 {
        square([a - c, b - d]) / ((1.0 - a * a - b * b) * (1.0 - c * c - d * d))
    }
}

/// Moebius addition as a quotient of complex numbers: `(x + y) / (1 + conj(x) y)`.
pub(super) fn mobius([a, b]: [f64; 2], [c, d]: [f64; 2]) -> [f64; 2] {
    let (re, im) = (1.0 + a * c + b * d, a * d - b * c);
    let below = re * re + im * im;
    let (x, y) = (a + c, b + d);
    [(x * re + y * im) / below, (y * re - x * im) / below]
}

fn square([x, y]: [f64; 2]) -> f64 {
    x * x + y * y
}

/// The points after some epochs.
struct UmapLayout {
    epoch: usize,
    random: SplitMix,
    points: Vec<[f64; 2]>,
}

impl UmapLayout {
    fn state(&self) -> FitState {
        let integers = vec![self.epoch as u64, self.random.state()];
        FitState { integers, numbers: self.points.as_flattened().to_vec() }
    }

    fn of_state(state: FitState, len: usize) -> Result<Self> {
        let state = state.checked("UMAP", 2, 2 * len)?;
        let random = SplitMix::new(state.integers[1]);
        Ok(UmapLayout { epoch: state.integers[0] as usize, random, points: state.numbers.as_chunks::<2>().0.to_vec() })
    }
}

/// The epochs of the layout.
struct Layout<'a> {
    graph: &'a FuzzyGraph,
    curve: [f64; 2],
    epochs: usize,
}

impl Layout<'_> {
    fn run<S: Surface>(&self, surface: &S, fit: &mut UmapLayout, progress: &mut dyn FitProgress) -> Result<()> {
        let largest = self.graph.largest_weight();
        let len = fit.points.len();
        while fit.epoch < self.epochs {
            if !progress.step(fit.epoch, self.epochs, &|| fit.state()) {
                return Err(Error::Stopped);
            }
            let epoch = fit.epoch;
            let UmapLayout { points, random, .. } = &mut *fit;
            let rate = 1.0 - epoch as f64 / self.epochs as f64;
            let is_drawn = |weight: f64| {
                let per_epoch = weight / largest;
                ((epoch + 1) as f64 * per_epoch).floor() > (epoch as f64 * per_epoch).floor()
            };
            for i in 0..len {
                for (j, _) in self.graph.edges(i).filter(|(_, weight)| is_drawn(*weight)) {
                    let [x, y] = [points[i], points[j]];
                    let (there, back) = (surface.toward(x, y), surface.toward(y, x));
                    let part = rate * attraction(square(there), self.curve);
                    points[i] = surface.moved(x, there.map(|v| part * v));
                    points[j] = surface.moved(y, back.map(|v| part * v));
                    for _ in 0..NEGATIVES {
                        let other = ((random.uniform() * len as f64) as usize).min(len - 1);
                        if other == i {
                            continue;
                        }
                        let there = surface.toward(points[i], points[other]);
                        let part = rate * repulsion(square(there), self.curve);
                        points[i] = surface.moved(points[i], there.map(|v| -part * v));
                    }
                }
            }
            fit.epoch += 1;
        }
        if progress.step(self.epochs, self.epochs, &|| fit.state()) { Ok(()) } else { Err(Error::Stopped) }
    }
}

/// The move towards a point as a fraction of the distance, given the squared distance.
pub(super) fn attraction(square: f64, [a, b]: [f64; 2]) -> f64 {
    if square <= 0.0 {
        return 0.0;
    }
    let power = a * square.powf(b);
    bounded(2.0 * b * power / (square * (1.0 + power)), square)
}

/// The move away from a point as a fraction of the distance, given the squared distance.
pub(super) fn repulsion(square: f64, [a, b]: [f64; 2]) -> f64 {
    if square <= 0.0 {
        return 0.0;
    }
    bounded(2.0 * b / ((CLOSE + square) * (1.0 + a * square.powf(b))), square)
}

/// Limits the length of a move to [`LONGEST_MOVE`].
fn bounded(part: f64, square: f64) -> f64 {
    if part * part * square > LONGEST_MOVE * LONGEST_MOVE { LONGEST_MOVE / square.sqrt() } else { part }
}

/// `a` and `b` of the similarity by least squares (Gauss-Newton) at 300 distances from 0 to 3.
pub(super) fn fitted_curve(min_dist: f64) -> Result<[f64; 2]> {
    if !(0.0..3.0).contains(&min_dist) {
        return Err(Error::invalid("min_dist", min_dist, "0 to below 3"));
    }
    let wanted = |x: f64| if x < min_dist { 1.0 } else { (min_dist - x).exp() };
    let error = |[a, b]: [f64; 2]| -> f64 {
        distances().map(|x| (1.0 / (1.0 + a * x.powf(2.0 * b)) - wanted(x)).powi(2)).sum()
    };
    let mut found = [1.0, 1.0];
    for _ in 0..100 {
        let [a, b] = found;
        // Normal equations of the linearised problem.
        let (mut aa, mut ab, mut bb, mut ar, mut br) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for x in distances().filter(|x| *x > 0.0) {
            let power = x.powf(2.0 * b);
            let value = 1.0 / (1.0 + a * power);
            let by_a = -power * value * value;
            let by_b = 2.0 * a * x.ln() * by_a;
            let rest = wanted(x) - value;
            (aa, ab, bb) = (aa + by_a * by_a, ab + by_a * by_b, bb + by_b * by_b);
            (ar, br) = (ar + by_a * rest, br + by_b * rest);
        }
        let below = aa * bb - ab * ab;
        let mut step = [(bb * ar - ab * br) / below, (aa * br - ab * ar) / below];
        let next = |step: [f64; 2]| [a + step[0], b + step[1]];
        while next(step).iter().any(|v| *v <= 0.0) || error(next(step)) > error(found) {
            step = step.map(|v| v / 2.0);
            if step.iter().all(|v| v.abs() < CURVE_SETTLED) {
                break;
            }
        }
        if step.iter().all(|v| v.abs() < CURVE_SETTLED) {
            break;
        }
        found = next(step);
    }
    Ok(found)
}

fn distances() -> impl Iterator<Item = f64> {
    (0..300).map(|i| 3.0 * f64::from(i) / 299.0)
}

/// Centred start positions; half the larger range is `reach`.
fn started(start: &[f64], reach: f64, random: &mut SplitMix) -> Vec<[f64; 2]> {
    let (points, _) = start.as_chunks::<2>();
    let range = |k: usize| points.iter().fold((f64::MAX, f64::MIN), |(lo, hi), p| (lo.min(p[k]), hi.max(p[k])));
    let ranges = [range(0), range(1)];
    // Halved before the difference, which could overflow.
    let extent = ranges.iter().map(|(lo, hi)| hi / 2.0 - lo / 2.0).fold(0.0, f64::max);
    let scale = if extent > 0.0 { reach / extent } else { 0.0 };
    let mut placed = |value: f64, (lo, hi): (f64, f64)| {
        scale * (value - (lo / 2.0 + hi / 2.0)) + START_NOISE * (2.0 * random.uniform() - 1.0)
    };
    points.iter().map(|[x, y]| [placed(*x, ranges[0]), placed(*y, ranges[1])]).collect()
}

/// The scale with which `len` rows fill the disc up to [`FILLED_RADIUS`], at least 1: the area of a disc of hyperbolic
/// radius r is `2 pi (cosh r - 1)`.
pub(super) fn disc_scale(len: usize) -> f64 {
    (AREA * len as f64 / (std::f64::consts::TAU * (FILLED_RADIUS.cosh() - 1.0))).sqrt().max(1.0)
}

/// The Frechet mean of weighted points, by gradient descent from the origin. The step `1 / mean stiffness` does not
/// overshoot.
fn weighted_mean<S: Surface>(surface: &S, points: &[[f64; 2]], weights: &[f64]) -> [f64; 2] {
    let mut mean = [0.0; 2];
    for _ in 0..CENTRE_STEPS {
        let (mut step, mut stiffness) = ([0.0; 2], 0.0);
        for (point, weight) in points.iter().zip(weights) {
            let there = surface.toward(mean, *point);
            step = [step[0] + weight * there[0], step[1] + weight * there[1]];
            stiffness += weight * surface.stiffness(norm(&there));
        }
        let step = step.map(|v| v / stiffness);
        mean = surface.moved(mean, step);
        if norm(&step) < MEAN_SETTLED {
            break;
        }
    }
    mean
}

/// The Frechet mean of weighted points of a surface.
pub(super) fn mean_of(target: UmapTarget, points: &[[f64; 2]], weights: &[f64]) -> [f64; 2] {
    match target {
        UmapTarget::Plane => weighted_mean(&Plane, points, weights),
        UmapTarget::Disc => weighted_mean(&Disc { scale: 1.0 }, points, weights),
    }
}

/// Moves the mean of the points to the origin.
fn centre<S: Surface>(surface: &S, points: &mut [[f64; 2]]) {
    let mean = weighted_mean(surface, points, &vec![1.0; points.len()]);
    for point in points {
        *point = surface.moved([0.0; 2], surface.toward(mean, *point));
    }
}

/// Computes [`Umap::neighbours_kept`].
fn kept<S: Surface>(surface: &S, points: &[[f64; 2]], neighbours: &NeighbourTable) -> f64 {
    let rows = spread(points.len(), COUNTED_ROWS);
    let count = neighbours.count();
    let of_row = |i: &usize| {
        let mut near: Vec<(f64, u32)> = points
            .iter()
            .enumerate()
            .filter(|(j, _)| j != i)
            .map(|(j, point)| (surface.order(points[*i], *point), j as u32))
            .collect();
        near.select_nth_unstable_by(count - 1, |a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        near[..count].iter().filter(|(_, j)| neighbours.of(*i).contains(j)).count()
    };
    let found: Vec<usize> = rows.par_iter().map(of_row).collect();
    found.iter().sum::<usize>() as f64 / (count * rows.len()) as f64
}

/// For two points of the disc: their distance, the gap between `y` and the end of the geodesic from `x` to `y`, and
/// [`Surface::order`].
#[cfg(test)]
pub(super) fn surface_laws(scale: f64, x: [f64; 2], y: [f64; 2]) -> [f64; 3] {
    let disc = Disc { scale };
    let there = disc.toward(x, y);
    let end = disc.moved(x, there);
    [norm(&there), (end[0] - y[0]).hypot(end[1] - y[1]), disc.order(x, y)]
}
