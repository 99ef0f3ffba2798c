//! The sums of CO-SNE over pairs of points of the disc.

use conifer_geometry::safe::projection::SHORT_SINH;
use macerator::{AutoArch, Simd, WithSimd};
use rayon::prelude::*;

use super::cosne::CosneKernel;
use super::hyperbolic_rows::HyperbolicRows;
use super::perplexity::similarities;
use super::wide::dist_and_slope;

/// Number of partial sums of the gradient. It is fixed, so that the result does not depend on the number of threads.
const PARTS: usize = 16;
/// Number of points whose terms are computed together.
const TILE: usize = 128;
/// Number of rows whose distances to all rows are computed together.
const DISTANCE_ROWS: usize = 8;

/// Points of the disc, with one list per quantity.
pub(super) struct DiscPoints {
    pub(super) x: Vec<f64>,
    pub(super) y: Vec<f64>,
    /// `1 / (1 - |y|^2)`.
    pub(super) inverse: Vec<f64>,
}

impl DiscPoints {
    pub(super) fn new(positions: &[f64]) -> Self {
        let (points, _) = positions.as_chunks::<2>();
        DiscPoints {
            x: points.iter().map(|it| it[0]).collect(),
            y: points.iter().map(|it| it[1]).collect(),
            inverse: points.iter().map(|[x, y]| 1.0 / (1.0 - x * x - y * y)).collect(),
        }
    }
}

/// Sums over the ordered pairs. `F_ij` is the derivative of `-ln w_ij` by the coordinates of point `i`.
pub(super) struct PairForces {
    /// `sum_j 2 p_ij F_ij` of each point.
    pub(super) attraction: Vec<[f64; 2]>,
    /// `sum_j w_ij F_ij` of each point.
    pub(super) repulsion: Vec<[f64; 2]>,
    /// `sum w_ij`.
    pub(super) kernel_sum: f64,
    /// `sum p_ij ln w_ij`; zero if it was not requested.
    pub(super) log_sum: f64,
}

/// The similarities of the rows and how the sums over the pairs are computed.
pub(super) trait PairTerms: Sync {
    /// `sum p_ij ln p_ij`.
    fn entropy(&self) -> f64;

    /// The sums at the given points. `log_sum` needs a second logarithm per pair.
    fn forces(&self, points: &DiscPoints, shape: KernelShape, with_log: bool) -> PairForces;
}

/// Form and scale of the kernel `w`, without its constant factor.
#[derive(Clone, Copy)]
pub(super) struct KernelShape {
    pub(super) kernel: CosneKernel,
    /// `gamma^2`.
    pub(super) square: f64,
}

impl KernelShape {
    /// `w` and `-d ln(w) / du`, given `u = cosh(d) - 1`.
    #[inline(always)]
    pub(super) fn at(self, u: f64) -> (f64, f64) {
        let (dist, ratio) = dist_and_slope(u);
        match self.kernel {
            CosneKernel::Paper => {
                let kernel = 1.0 / (dist * dist + self.square);
                (kernel, 2.0 * kernel * ratio)
            }
            CosneKernel::TorchDr => {
                let kernel = 1.0 / (dist + self.square);
                // 1 / sinh(d); points at the same place have no direction to each other.
                (kernel, if dist > SHORT_SINH { kernel * ratio / dist } else { 0.0 })
            }
        }
    }
}

/// The similarities of all pairs of rows.
pub(super) struct DenseTerms {
    len: usize,
    /// `2 p_ij` for `i < j`, one list per row.
    similar: Vec<Vec<f32>>,
    entropy: f64,
}

impl DenseTerms {
    pub(super) fn new(rows: &HyperbolicRows, perplexity: f64) -> Self {
        let len = rows.len();
        let times = rows.times();
        let block = |block: usize| {
            let first = block * DISTANCE_ROWS;
            let count = DISTANCE_ROWS.min(len - first);
            let squares = rows.square_distances(&times, first, count);
            let of_row = |(at, squares): (usize, &[f64])| {
                let i = first + at;
                let others = [&squares[..i], &squares[i + 1..]].concat();
                let mut found: Vec<f32> = similarities(&others, perplexity.ln()).iter().map(|p| *p as f32).collect();
                found.insert(i, 0.0);
                found
            };
            squares.chunks_exact(len).enumerate().map(of_row).collect::<Vec<Vec<f32>>>()
        };
        let blocks: Vec<Vec<Vec<f32>>> = (0..len.div_ceil(DISTANCE_ROWS)).into_par_iter().map(block).collect();
        let conditional: Vec<Vec<f32>> = blocks.into_iter().flatten().collect();
        let joint =
            |i: usize| (i + 1..len).map(|j| (conditional[i][j] + conditional[j][i]) / len as f32).collect::<Vec<f32>>();
        let similar: Vec<Vec<f32>> = (0..len).into_par_iter().map(joint).collect();
        let of_row = |row: &Vec<f32>| {
            row.iter().map(|p| f64::from(*p)).filter(|p| *p > 0.0).map(|p| p * (p / 2.0).ln()).sum::<f64>()
        };
        let entropy = similar.par_iter().map(of_row).collect::<Vec<f64>>().iter().sum();
        DenseTerms { len, similar, entropy }
    }
}

impl PairTerms for DenseTerms {
    fn entropy(&self) -> f64 {
        self.entropy
    }

    fn forces(&self, points: &DiscPoints, shape: KernelShape, with_log: bool) -> PairForces {
        let work = |part: usize| AutoArch::new().dispatch(DensePart { terms: self, points, shape, with_log, part });
        let parts: Vec<DenseSums> = (0..PARTS).into_par_iter().map(work).collect();
        let total = |k: usize, i: usize| parts.iter().map(|part| part.forces[k][i]).sum::<f64>();
        PairForces {
            attraction: (0..self.len).map(|i| [total(0, i), total(1, i)]).collect(),
            repulsion: (0..self.len).map(|i| [total(2, i), total(3, i)]).collect(),
            kernel_sum: 2.0 * parts.iter().map(|it| it.kernel_sum).sum::<f64>(),
            log_sum: parts.iter().map(|it| it.log_sum).sum(),
        }
    }
}

/// Sums over the pairs of one part.
struct DenseSums {
    /// The two coordinates of the attraction, then of the repulsion.
    forces: [Vec<f64>; 4],
    kernel_sum: f64,
    log_sum: f64,
}

/// The pairs `i < j` of every [`PARTS`]th row `i`, starting with row `part`.
struct DensePart<'a> {
    terms: &'a DenseTerms,
    points: &'a DiscPoints,
    shape: KernelShape,
    with_log: bool,
    part: usize,
}

impl WithSimd for DensePart<'_> {
    type Output = DenseSums;

    #[inline(always)]
    fn with_simd<S: Simd>(self) -> DenseSums {
        // The form of the kernel is a constant in each loop.
        match self.shape.kernel {
            CosneKernel::Paper => self.sums(KernelShape { kernel: CosneKernel::Paper, ..self.shape }),
            CosneKernel::TorchDr => self.sums(KernelShape { kernel: CosneKernel::TorchDr, ..self.shape }),
        }
    }
}

impl DensePart<'_> {
    #[inline(always)]
    fn sums(&self, shape: KernelShape) -> DenseSums {
        let DiscPoints { x, y, inverse } = self.points;
        let len = self.terms.len;
        let mut forces = [0; 4].map(|_| vec![0.0; len]);
        let (mut kernel_sum, mut log_sum) = (0.0, 0.0);
        let mut tile = DenseTile::default();
        for i in (self.part..len).step_by(PARTS) {
            let mut lanes = [[0.0; 8]; 5];
            for first in (i + 1..len).step_by(TILE) {
                let tiled = first..(first + TILE).min(len);
                let similar = &self.terms.similar[i][first - i - 1..tiled.end - i - 1];
                tile.fill(
                    [x[i], y[i], inverse[i]],
                    [&x[tiled.clone()], &y[tiled.clone()], &inverse[tiled.clone()]],
                    shape,
                );
                tile.similar.iter_mut().zip(similar).for_each(|(to, p)| *to = f64::from(*p));
                // The forces beyond the last point are those of an earlier tile; their weights are zero.
                tile.similar[similar.len()..].fill(0.0);
                tile.kernel[similar.len()..].fill(0.0);
                let [ax, ay, rx, ry] = &mut forces;
                add_product(&mut ax[tiled.clone()], &tile.similar, &tile.to_other[0]);
                add_product(&mut ay[tiled.clone()], &tile.similar, &tile.to_other[1]);
                add_product(&mut rx[tiled.clone()], &tile.kernel, &tile.to_other[0]);
                add_product(&mut ry[tiled], &tile.kernel, &tile.to_other[1]);
                tile.add_own(&mut lanes);
                if self.with_log {
                    log_sum += similar.iter().zip(&tile.kernel).map(|(p, w)| f64::from(*p) * w.ln()).sum::<f64>();
                }
            }
            let own = lanes.map(|lanes| lanes.iter().sum::<f64>());
            forces.iter_mut().zip(own).for_each(|(force, own)| force[i] += own);
            kernel_sum += own[4];
        }
        DenseSums { forces, kernel_sum, log_sum }
    }
}

/// Terms of one point with up to [`TILE`] others. Unused entries have the weight zero.
struct DenseTile {
    kernel: [f64; TILE],
    similar: [f64; TILE],
    /// `F_ij`.
    to_own: [[f64; TILE]; 2],
    /// `F_ji`.
    to_other: [[f64; TILE]; 2],
}

impl Default for DenseTile {
    fn default() -> Self {
        let zero = [0.0; TILE];
        DenseTile { kernel: zero, similar: zero, to_own: [zero; 2], to_other: [zero; 2] }
    }
}

impl DenseTile {
    #[inline(always)]
    fn fill(&mut self, [xi, yi, inv_i]: [f64; 3], [x, y, inverse]: [&[f64]; 3], shape: KernelShape) {
        let count = x.len();
        let (y, inverse) = (&y[..count], &inverse[..count]);
        let DenseTile { kernel, to_own: [own_x, own_y], to_other: [other_x, other_y], .. } = self;
        for j in 0..count.min(TILE) {
            let (dx, dy) = (xi - x[j], yi - y[j]);
            let chord = dx * dx + dy * dy;
            let u = 2.0 * chord * inv_i * inverse[j]; // cosh(d) - 1
            let (w, slope) = shape.at(u);
            // du/dx_i = 4 inv_i inv_j (x_i - x_j + chord inv_i x_i)
            let scale = 4.0 * inv_i * inverse[j] * slope;
            let (ci, cj) = (chord * inv_i, chord * inverse[j]);
            kernel[j] = w;
            own_x[j] = scale * (dx + ci * xi);
            own_y[j] = scale * (dy + ci * yi);
            other_x[j] = scale * (cj * x[j] - dx);
            other_y[j] = scale * (cj * y[j] - dy);
        }
    }

    /// Adds the forces on the point itself and the kernel.
    #[inline(always)]
    fn add_own(&self, lanes: &mut [[f64; 8]; 5]) {
        let [own_x, own_y] = &self.to_own;
        let [ax, ay, rx, ry, total] = lanes;
        for first in (0..TILE).step_by(8) {
            for lane in 0..8 {
                let at = first + lane;
                let (p, w) = (self.similar[at], self.kernel[at]);
                ax[lane] += p * own_x[at];
                ay[lane] += p * own_y[at];
                rx[lane] += w * own_x[at];
                ry[lane] += w * own_y[at];
                total[lane] += w;
            }
        }
    }
}

#[inline(always)]
fn add_product(to: &mut [f64], factor: &[f64; TILE], list: &[f64; TILE]) {
    to.iter_mut().zip(factor).zip(list).for_each(|((to, factor), v)| *to += factor * v);
}
