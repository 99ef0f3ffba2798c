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
//!
//! With [`CosneMethod::Tree`], `p_(j|i)` is zero except for the nearest rows of row `i`, and the sums over all pairs of
//! points come from a tree of the disc (`cosne_tree`).

use conifer_geometry::random::SplitMix;
use conifer_geometry::safe::projection::RIM;

use super::cosne_terms::{DenseTerms, DiscPoints, KernelShape, PairTerms};
use super::cosne_tree::TreeTerms;
use super::fit_state::{FitProgress, FitState, Unsaved};
use super::hyperbolic_rows::{HyperbolicRows, to_ball};
use super::umap::mobius;
use super::{NeighbourTable, StepObserver};
use crate::{Error, Result};

/// Maximum number of rows N of [`CosneMethod::Exact`]. Its table of similarities takes `4 N^2 / 2` bytes, here 200 MB; 600 MB while
/// it is built.
pub const MAX_COSNE_ROWS: usize = 10_000;
/// Minimum number of rows. With fewer rows, every other row is a neighbour.
const MIN_ROWS: usize = 4;
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

/// How the sums over all pairs are computed.
#[derive(Clone, Copy, Debug)]
pub enum CosneMethod<'a> {
    /// Over all pairs: time and memory grow with the square of the number of rows.
    Exact,
    /// The similarities over the nearest rows, and the repulsion by a tree of the disc.
    Tree {
        /// The nearest rows of each row, about ten times the perplexity.
        neighbours: &'a NeighbourTable,
        /// Largest radius of a group of points, relative to its distance, that counts as one place; 0 to below 1. The
        /// distance of each pair is then off by at most this share.
        theta: f64,
    },
}

/// Settings of CO-SNE.
#[derive(Clone, Debug, PartialEq)]
pub struct CosneSettings {
    /// Effective number of neighbours; `None`: 30, or a third of the other rows if that is less.
    pub perplexity: Option<f64>,
    /// Form of the kernel.
    pub kernel: CosneKernel,
    /// Scale of the kernel, 1e-6 to 1e6.
    pub gamma: f64,
    /// Weight of the norm-preserving term, 0 to 1e6.
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
        Self::fit_resumable(rows, CosneMethod::Exact, settings, &mut Unsaved(observer))
    }

    /// As [`Cosne::fit`] with any method, from a state that an earlier call with the same arguments passed to `progress`.
    ///
    /// # Errors
    /// Those of [`Cosne::fit`], where only [`CosneMethod::Exact`] has a maximum number of rows; the neighbours are those of
    /// another number of rows or fewer than the perplexity; `theta` is out of range; the state is that of another fit.
    pub fn fit_resumable(
        rows: &HyperbolicRows,
        method: CosneMethod<'_>,
        settings: &CosneSettings,
        progress: &mut dyn FitProgress,
    ) -> Result<Self> {
        let len = rows.len();
        let most = if matches!(method, CosneMethod::Exact) { MAX_COSNE_ROWS } else { usize::MAX };
        if !(MIN_ROWS..=most).contains(&len) {
            let expected = match method {
                CosneMethod::Exact => format!(
                    "{MIN_ROWS} to {MAX_COSNE_ROWS} for exact cosne; a tree (--theta) or a sample (--sample N) takes a larger set"
                ),
                CosneMethod::Tree { .. } => format!("at least {MIN_ROWS} for cosne"),
            };
            return Err(Error::invalid("rows", len, expected));
        }
        let perplexity = settings.checked_perplexity(len)?;
        let mut objective = CosneObjective::new(rows, method, perplexity, settings)?;
        let mut descent = match progress.restored() {
            Some(state) => CosneDescent::of_state(state, len)?,
            None => {
                let positions = start(len, settings.seed);
                let start_loss = objective.evaluate(&positions, true).loss;
                CosneDescent { iteration: 0, start_loss, positions, speed: vec![0.0; 2 * len] }
            }
        };
        // The gradient of a point is of the order of 1 / N, and the kernel changes on the scale of `gamma`.
        let rate = len as f64 * (2.0 * settings.gamma * settings.gamma).min(0.5);
        while descent.iteration < settings.iterations {
            if !progress.step(descent.iteration, settings.iterations, &|| descent.state()) {
                return Err(Error::Stopped);
            }
            let early = descent.iteration < settings.exaggerated;
            objective.exaggeration = if early { settings.exaggeration } else { 1.0 };
            let gradient = objective.evaluate(&descent.positions, false).gradient;
            let momentum = if early { 0.5 } else { 0.8 };
            let rate = rate / objective.exaggeration;
            descend(&mut descent.positions, &mut descent.speed, &gradient, rate, momentum);
            descent.iteration += 1;
        }
        objective.exaggeration = 1.0;
        let end = objective.evaluate(&descent.positions, true);
        if !progress.step(settings.iterations, settings.iterations, &|| descent.state()) {
            return Err(Error::Stopped);
        }
        let CosneDescent { start_loss, positions, .. } = descent;
        Ok(Cosne { start_loss, loss: end.loss, divergence: end.divergence, perplexity, positions })
    }
}

/// The positions after some iterations.
struct CosneDescent {
    iteration: usize,
    start_loss: f64,
    positions: Vec<f64>,
    speed: Vec<f64>,
}

impl CosneDescent {
    fn state(&self) -> FitState {
        let numbers = [&[self.start_loss][..], &self.positions, &self.speed].concat();
        FitState { integers: vec![self.iteration as u64], numbers }
    }

    fn of_state(state: FitState, len: usize) -> Result<Self> {
        let state = state.checked("CO-SNE", 1, 1 + 4 * len)?;
        let (positions, speed) = state.numbers[1..].split_at(2 * len);
        Ok(CosneDescent {
            iteration: state.integers[0] as usize,
            start_loss: state.numbers[0],
            positions: positions.to_vec(),
            speed: speed.to_vec(),
        })
    }
}

impl CosneSettings {
    /// Checks the settings, and returns the perplexity for `len` rows.
    ///
    /// # Errors
    /// Fewer than 4 rows; a setting is out of range.
    pub fn checked_perplexity(&self, len: usize) -> Result<f64> {
        if len < MIN_ROWS {
            return Err(Error::invalid("rows", len, format!("at least {MIN_ROWS} for cosne")));
        }
        // Squares and products of larger or smaller numbers would leave the range of `f64`.
        if !(1e-6..=1e6).contains(&self.gamma) {
            return Err(Error::invalid("gamma", self.gamma, "1e-6 to 1e6"));
        }
        if !(1e-6..=1e6).contains(&self.exaggeration) {
            return Err(Error::invalid("exaggeration", self.exaggeration, "1e-6 to 1e6"));
        }
        if !(0.0..=1e6).contains(&self.norm_weight) {
            return Err(Error::invalid("norm weight", self.norm_weight, "0 to 1e6"));
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
    terms: Box<dyn PairTerms>,
    shape: KernelShape,
    /// `|x_i|^2` in the Poincare ball.
    norms: Vec<f64>,
    norm_weight: f64,
    pub(super) exaggeration: f64,
}

/// Value and gradient of the objective.
pub(super) struct CosneValue {
    pub(super) loss: f64,
    divergence: f64,
    pub(super) gradient: Vec<f64>,
}

impl CosneObjective {
    pub(super) fn new(
        rows: &HyperbolicRows,
        method: CosneMethod<'_>,
        perplexity: f64,
        settings: &CosneSettings,
    ) -> Result<Self> {
        let terms: Box<dyn PairTerms> = match method {
            CosneMethod::Exact => Box::new(DenseTerms::new(rows, perplexity)),
            CosneMethod::Tree { neighbours, theta } => {
                if neighbours.len() != rows.len() {
                    return Err(Error::invalid(
                        "neighbours",
                        neighbours.len(),
                        format!("those of {} rows", rows.len()),
                    ));
                }
                Box::new(TreeTerms::new(neighbours, perplexity, theta)?)
            }
        };
        let mut ball = vec![0.0; rows.dim()];
        let norms = (0..rows.len())
            .map(|i| {
                to_ball(rows.row(i), &mut ball);
                ball.iter().map(|v| v * v).sum()
            })
            .collect();
        let shape = KernelShape { kernel: settings.kernel, square: settings.gamma * settings.gamma };
        Ok(CosneObjective { terms, shape, norms, norm_weight: settings.norm_weight, exaggeration: 1.0 })
    }

    /// The objective and its gradient with respect to the coordinates in the disc. The loss is computed only if
    /// `with_loss`.
    pub(super) fn evaluate(&self, positions: &[f64], with_loss: bool) -> CosneValue {
        let found = self.terms.forces(&DiscPoints::new(positions), self.shape, with_loss);
        let len = self.norms.len();
        let mut gradient = vec![0.0; 2 * len];
        let mut norm_loss = 0.0;
        for i in 0..len {
            let [x, y] = [positions[2 * i], positions[2 * i + 1]];
            let excess = x * x + y * y - self.norms[i];
            norm_loss += excess * excess / len as f64;
            let pull = 4.0 * self.norm_weight * excess / len as f64;
            let ([ax, ay], [rx, ry]) = (found.attraction[i], found.repulsion[i]);
            gradient[2 * i] = self.exaggeration * ax - 2.0 * rx / found.kernel_sum + pull * x;
            gradient[2 * i + 1] = self.exaggeration * ay - 2.0 * ry / found.kernel_sum + pull * y;
        }
        // sum p ln(p / q) = sum p ln p - sum p ln w + ln(sum w), because the p add up to 1
        let divergence = self.terms.entropy() - found.log_sum + found.kernel_sum.ln();
        CosneValue { loss: divergence + self.norm_weight * norm_loss, divergence, gradient }
    }
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
            *point = mobius(*point, speed.map(|v| v * scale));
        }
        let radius = point[0].hypot(point[1]);
        if radius > RIM {
            *point = point.map(|v| v * RIM / radius);
        }
    }
}
