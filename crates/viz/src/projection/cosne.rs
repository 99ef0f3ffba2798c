//! CO-SNE (Guo, Guo, Yu 2022, "CO-SNE: Dimensionality Reduction and Visualization for Hyperbolic Data", arXiv
//! 2111.15037), from the formulas of the paper, into the Poincare disc.
//!
//! Similarities of the rows: `p_(j|i) ~ exp(-d(x_i, x_j)^2 / (2 sigma_i^2))` with `sigma_i` such that the perplexity
//! `exp(entropy)` is the given one, and `p_ij = (p_(j|i) + p_(i|j)) / (2 N)`. Similarities of the points of the disc:
//! `q_ij = w_ij / sum_(k != l) w_kl` with the hyperbolic Cauchy kernel `w = gamma / (d^2 + gamma^2)` of the distance
//! `d`. Objective: `sum p_ij ln(p_ij / q_ij) + norm_weight mean_i (|x_i|^2 - |y_i|^2)^2`, with norms in the Poincare
//! ball.
//!
//! It is minimised by Riemannian gradient descent with momentum: the gradient in the disc is scaled by the inverse
//! metric, and a point moves by the exponential map. In the first iterations the `p_ij` are multiplied by
//! `exaggeration`. Distances are those at curvature -1, and the centre of the disc is the root.

use conifer_geometry::random::SplitMix;
use conifer_geometry::safe::projection::{ENTROPY_SETTLED, PLAIN_LOGARITHM, RIM, SHORT_SINH};
use rayon::prelude::*;

use super::StepObserver;
use super::hyperbolic_rows::{HyperbolicRows, to_ball};
use crate::{Error, Result};

/// Maximum number of rows N. The table of similarities takes `4 N^2 / 2` bytes, here 200 MB.
pub const MAX_COSNE_ROWS: usize = 10_000;
/// Minimum number of rows. With fewer rows, every other row is a neighbour.
const MIN_ROWS: usize = 4;
/// Number of partial sums of the gradient. It is fixed, so that the result does not depend on the number of threads.
const PARTS: usize = 16;
/// Longest move of a point in an iteration, at curvature -1.
const LONGEST_STEP: f64 = 0.2;
/// Standard deviation of the start positions in the disc.
const START_SPREAD: f64 = 1e-2;

/// The kernel of the distances in the disc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CosneKernel {
    /// `gamma / (d^2 + gamma^2)` of the distance `d`, the hyperbolic Cauchy distribution of the paper.
    Paper,
    /// `gamma / (d + gamma^2)` of the distance `d`, as in TorchDR.
    TorchDr,
}

/// Settings of CO-SNE.
#[derive(Clone, Debug, PartialEq)]
pub struct CosneSettings {
    /// Effective number of neighbours; `None`: 30, or a third of the other rows if that is less.
    pub perplexity: Option<f64>,
    /// Form of the kernel.
    pub kernel: CosneKernel,
    /// Scale of the kernel, more than 0.
    pub gamma: f64,
    /// Weight of the norm-preserving term.
    pub norm_weight: f64,
    /// Number of iterations.
    pub iterations: usize,
    /// Number of iterations with exaggeration, at the start.
    pub exaggerated: usize,
    /// Factor on the similarities in the first `exaggerated` iterations.
    pub exaggeration: f64,
    /// Seed of the start positions.
    pub seed: u64,
}

/// The positions that CO-SNE found.
#[derive(Clone, Debug)]
pub struct Cosne {
    /// Positions in the Poincare disc, `[N, 2]`.
    pub positions: Vec<f64>,
    /// Objective at the start positions.
    pub start_loss: f64,
    /// Objective at the end.
    pub loss: f64,
    /// Part of `loss` that is the Kullback-Leibler divergence.
    pub divergence: f64,
    /// The perplexity used.
    pub perplexity: f64,
}

impl Cosne {
    /// Places rows whose centre is the root ([`HyperbolicRows::centred`]) in the disc.
    ///
    /// # Errors
    /// Fewer than 4 or more than [`MAX_COSNE_ROWS`] rows; a setting out of range; the observer stops the iteration.
    pub fn fit(rows: &HyperbolicRows, settings: &CosneSettings, observer: &mut StepObserver<'_>) -> Result<Self> {
        let len = rows.len();
        if !(MIN_ROWS..=MAX_COSNE_ROWS).contains(&len) {
            let expected =
                format!("{MIN_ROWS} to {MAX_COSNE_ROWS} for cosne; draw a sample of a larger set (--sample N)");
            return Err(Error::invalid("rows", len, expected));
        }
        let perplexity = settings.checked(len)?;
        let mut objective = CosneObjective::new(rows, perplexity, settings);
        let mut positions = start(len, settings.seed);
        let start_loss = objective.evaluate(&positions, true).loss;
        let mut speed = vec![0.0; 2 * len];
        // The gradient of a point is of the order of 1 / N, and the kernel changes on the scale of `gamma`.
        let rate = len as f64 * (2.0 * settings.gamma * settings.gamma).min(0.5);
        for iteration in 0..settings.iterations {
            if !observer(iteration, settings.iterations) {
                return Err(Error::Stopped);
            }
            let early = iteration < settings.exaggerated;
            objective.exaggeration = if early { settings.exaggeration } else { 1.0 };
            let gradient = objective.evaluate(&positions, false).gradient;
            let momentum = if early { 0.5 } else { 0.8 };
            descend(&mut positions, &mut speed, &gradient, rate / objective.exaggeration, momentum);
        }
        objective.exaggeration = 1.0;
        let end = objective.evaluate(&positions, true);
        if !observer(settings.iterations, settings.iterations) {
            return Err(Error::Stopped);
        }
        Ok(Cosne { start_loss, loss: end.loss, divergence: end.divergence, perplexity, positions })
    }
}

impl CosneSettings {
    /// Checks the settings, and returns the perplexity for `len` rows.
    fn checked(&self, len: usize) -> Result<f64> {
        let positive = |name: &str, value: f64| {
            let is_right = value.is_finite() && value > 0.0;
            if is_right { Ok(()) } else { Err(Error::invalid(name, value, "a positive number")) }
        };
        positive("gamma", self.gamma)?;
        positive("exaggeration", self.exaggeration)?;
        if !(self.norm_weight.is_finite() && self.norm_weight >= 0.0) {
            return Err(Error::invalid("norm weight", self.norm_weight, "zero or a positive number"));
        }
        let others = (len - 1) as f64;
        let perplexity = self.perplexity.unwrap_or((others / 3.0).min(30.0));
        if !(perplexity >= 1.0 && perplexity < others) {
            let expected = format!("1 to below {others}, the number of other rows");
            return Err(Error::invalid("perplexity", perplexity, expected));
        }
        Ok(perplexity)
    }
}

/// The objective for given positions.
pub(super) struct CosneObjective {
    len: usize,
    /// `2 p_ij` for `i < j`, one list per row.
    similar: Vec<Vec<f32>>,
    /// `sum p_ij ln p_ij` over ordered pairs.
    entropy: f64,
    /// `|x_i|^2` in the Poincare ball.
    norms: Vec<f64>,
    kernel: CosneKernel,
    gamma: f64,
    norm_weight: f64,
    pub(super) exaggeration: f64,
}

/// Value and gradient of the objective.
pub(super) struct CosneValue {
    pub(super) loss: f64,
    divergence: f64,
    pub(super) gradient: Vec<f64>,
}

/// Sums over the pairs of one part.
struct PartialSums {
    /// Per point: the gradient of the similarities, then that of the kernel sum.
    forces: Vec<[f64; 4]>,
    kernel_sum: f64,
    log_sum: f64,
}

impl CosneObjective {
    pub(super) fn new(rows: &HyperbolicRows, perplexity: f64, settings: &CosneSettings) -> Self {
        let len = rows.len();
        let conditional: Vec<Vec<f32>> =
            (0..len).into_par_iter().map(|i| conditional_row(rows, i, perplexity.ln())).collect();
        let joint =
            |i: usize| (i + 1..len).map(|j| (conditional[i][j] + conditional[j][i]) / len as f32).collect::<Vec<f32>>();
        let similar: Vec<Vec<f32>> = (0..len).into_par_iter().map(joint).collect();
        let of_row = |row: &Vec<f32>| {
            row.iter().map(|p| f64::from(*p)).filter(|p| *p > 0.0).map(|p| p * (p / 2.0).ln()).sum::<f64>()
        };
        let entropy = similar.par_iter().map(of_row).collect::<Vec<f64>>().iter().sum();
        let mut ball = vec![0.0; rows.dim()];
        let norms = (0..len)
            .map(|i| {
                to_ball(rows.row(i), &mut ball);
                ball.iter().map(|v| v * v).sum()
            })
            .collect();
        CosneObjective {
            len,
            similar,
            entropy,
            norms,
            kernel: settings.kernel,
            gamma: settings.gamma,
            norm_weight: settings.norm_weight,
            exaggeration: 1.0,
        }
    }

    /// The objective and its gradient with respect to the coordinates in the disc. The loss is computed only if
    /// `with_loss`, because it needs a second logarithm per pair.
    pub(super) fn evaluate(&self, positions: &[f64], with_loss: bool) -> CosneValue {
        let inverse: Vec<f64> = positions.as_chunks::<2>().0.iter().map(|[x, y]| 1.0 / (1.0 - x * x - y * y)).collect();
        let parts: Vec<PartialSums> =
            (0..PARTS).into_par_iter().map(|part| self.part(part, positions, &inverse, with_loss)).collect();
        let kernel_sum: f64 = 2.0 * parts.iter().map(|it| it.kernel_sum).sum::<f64>();
        let log_sum: f64 = parts.iter().map(|it| it.log_sum).sum();
        let mut gradient = vec![0.0; 2 * self.len];
        let mut norm_loss = 0.0;
        for i in 0..self.len {
            let mut total = [0.0; 4];
            parts.iter().for_each(|part| total.iter_mut().zip(part.forces[i]).for_each(|(t, f)| *t += f));
            let [x, y] = [positions[2 * i], positions[2 * i + 1]];
            let excess = x * x + y * y - self.norms[i];
            norm_loss += excess * excess / self.len as f64;
            let pull = 4.0 * self.norm_weight * excess / self.len as f64;
            gradient[2 * i] = self.exaggeration * total[0] - 2.0 * total[2] / kernel_sum + pull * x;
            gradient[2 * i + 1] = self.exaggeration * total[1] - 2.0 * total[3] / kernel_sum + pull * y;
        }
        // sum p ln(p / q) = sum p ln p - sum p ln w + ln(sum w), because the p add up to 1
        let divergence = self.entropy - log_sum + kernel_sum.ln();
        CosneValue { loss: divergence + self.norm_weight * norm_loss, divergence, gradient }
    }

    /// Sums over the pairs `i < j` of every [`PARTS`]th row `i`, starting with row `part`.
    fn part(&self, part: usize, positions: &[f64], inverse: &[f64], with_loss: bool) -> PartialSums {
        let mut sums = PartialSums { forces: vec![[0.0; 4]; self.len], kernel_sum: 0.0, log_sum: 0.0 };
        let square = self.gamma * self.gamma;
        let (points, _) = positions.as_chunks::<2>();
        // Two passes over a row, because the compiler vectorises the first and the logarithm is a function call.
        let mut reach = vec![[0.0; 3]; self.len];
        for i in (part..self.len).step_by(PARTS) {
            let [xi, yi] = points[i];
            for ((out, [x, y]), inv) in reach.iter_mut().zip(&points[i + 1..]).zip(&inverse[i + 1..]) {
                let chord = (xi - x) * (xi - x) + (yi - y) * (yi - y);
                let u = 2.0 * chord * inverse[i] * inv; // cosh(d) - 1
                *out = [chord, u, (u * (u + 2.0)).sqrt()];
            }
            let mut own = [0.0; 4];
            for (at, p) in self.similar[i].iter().enumerate() {
                let j = i + 1 + at;
                let [chord, u, sinh] = reach[at];
                let dist = if u > PLAIN_LOGARITHM { (1.0 + u + sinh).ln() } else { (u + sinh).ln_1p() };
                // The kernel without its constant factor, and -dln(w)/dd / sinh(d)
                let (kernel, slope) = match self.kernel {
                    CosneKernel::Paper => {
                        let kernel = 1.0 / (dist * dist + square);
                        (kernel, 2.0 * kernel * if sinh > SHORT_SINH { dist / sinh } else { 1.0 })
                    }
                    CosneKernel::TorchDr => {
                        let kernel = 1.0 / (dist + square);
                        (kernel, if sinh > SHORT_SINH { kernel / sinh } else { 0.0 })
                    }
                };
                sums.kernel_sum += kernel;
                let p = f64::from(*p);
                if with_loss {
                    sums.log_sum += p * kernel.ln();
                }
                // du/dx_i = 4 inv_i inv_j (x_i - x_j + chord inv_i x_i)
                let scale = 4.0 * inverse[i] * inverse[j] * slope;
                let [x, y] = points[j];
                let (dx, dy, ci, cj) = (xi - x, yi - y, chord * inverse[i], chord * inverse[j]);
                let (ix, iy) = (scale * (dx + ci * xi), scale * (dy + ci * yi));
                let (jx, jy) = (scale * (cj * x - dx), scale * (cj * y - dy));
                own = [own[0] + p * ix, own[1] + p * iy, own[2] + kernel * ix, own[3] + kernel * iy];
                let other = &mut sums.forces[j];
                *other = [other[0] + p * jx, other[1] + p * jy, other[2] + kernel * jx, other[3] + kernel * jy];
            }
            sums.forces[i].iter_mut().zip(own).for_each(|(f, o)| *f += o);
        }
        sums
    }
}

/// `p_(j|i)` for all `j`, by bisection of the precision `1 / (2 sigma^2)`.
fn conditional_row(rows: &HyperbolicRows, i: usize, entropy: f64) -> Vec<f32> {
    let squares: Vec<f64> = (0..rows.len()).map(|j| rows.dist(i, j).powi(2)).collect();
    let others = || squares.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, d)| *d);
    let nearest = others().fold(f64::INFINITY, f64::min);
    let mean = others().sum::<f64>() / (rows.len() - 1) as f64;
    let (mut low, mut high) = (0.0, f64::INFINITY);
    let mut precision = if mean > 0.0 { 1.0 / mean } else { 1.0 };
    // 100 bisections exhaust the digits of a double. Coinciding rows have the largest entropy at every precision.
    for _ in 0..100 {
        let (mut sum, mut moment) = (0.0, 0.0);
        for square in others() {
            let weight = (-precision * (square - nearest)).exp();
            sum += weight;
            moment += weight * (square - nearest);
        }
        let found = sum.ln() + precision * moment / sum;
        if (found - entropy).abs() < ENTROPY_SETTLED {
            break;
        }
        if found > entropy {
            low = precision;
            precision = if high.is_finite() { (low + high) / 2.0 } else { precision * 2.0 };
        } else {
            high = precision;
            precision = (low + high) / 2.0;
        }
        if !precision.is_finite() {
            precision = low;
            break;
        }
    }
    let weight = |(j, square): (usize, &f64)| if j == i { 0.0 } else { (-precision * (square - nearest)).exp() };
    let weights: Vec<f64> = squares.iter().enumerate().map(weight).collect();
    let sum: f64 = weights.iter().sum();
    weights.iter().map(|w| (w / sum) as f32).collect()
}

/// Normally distributed positions around the centre.
fn start(len: usize, seed: u64) -> Vec<f64> {
    let mut random = SplitMix::new(seed);
    let mut normal = || {
        let radius = (-2.0 * random.uniform().min(1.0).ln()).sqrt();
        radius * (std::f64::consts::TAU * random.uniform()).cos()
    };
    (0..2 * len).map(|_| START_SPREAD * normal()).collect()
}

/// Moves each point by the exponential map. `speed` is measured in the orthonormal frame `2 / (1 - |y|^2)`.
fn descend(positions: &mut [f64], speed: &mut [f64], gradient: &[f64], rate: f64, momentum: f64) {
    let (points, _) = positions.as_chunks_mut::<2>();
    let (speeds, _) = speed.as_chunks_mut::<2>();
    let (gradients, _) = gradient.as_chunks::<2>();
    for ((point, speed), gradient) in points.iter_mut().zip(speeds).zip(gradients) {
        let metric = 2.0 / (1.0 - point[0] * point[0] - point[1] * point[1]);
        *speed = [0, 1].map(|k| momentum * speed[k] - rate * gradient[k] / metric);
        let length = speed[0].hypot(speed[1]);
        if length > LONGEST_STEP {
            *speed = speed.map(|v| v * LONGEST_STEP / length);
        }
        let length = length.min(LONGEST_STEP);
        if length > 0.0 {
            let scale = (length / 2.0).tanh() / length;
            *point = mobius_sum(*point, speed.map(|v| v * scale));
        }
        let radius = point[0].hypot(point[1]);
        if radius > RIM {
            *point = point.map(|v| v * RIM / radius);
        }
    }
}

/// Moebius addition in the disc: `((1 + 2 <x, y> + |y|^2) x + (1 - |x|^2) y) / (1 + 2 <x, y> + |x|^2 |y|^2)`.
fn mobius_sum(x: [f64; 2], y: [f64; 2]) -> [f64; 2] {
    let (xy, xx, yy) = (x[0] * y[0] + x[1] * y[1], x[0] * x[0] + x[1] * x[1], y[0] * y[0] + y[1] * y[1]);
    let below = 1.0 + 2.0 * xy + xx * yy;
    [0, 1].map(|k| ((1.0 + 2.0 * xy + yy) * x[k] + (1.0 - xx) * y[k]) / below)
}
