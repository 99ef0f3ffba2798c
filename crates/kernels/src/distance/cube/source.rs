//! The kernels in CubeCL, which compiles them to SPIR-V, WGSL, CUDA or Metal.
//!
//! A group of `TILE x TILE` threads computes a tile of pairs, one pair per thread. Coordinates pass through shared
//! memory in stages. There are no atomic sums and every loop has a fixed order, so a device always gives the same bits.
//! No thread accesses memory out of bounds, and every thread of a group reaches every barrier.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

/// Points along each side of a tile of pairs.
pub(super) const TILE: usize = 16;
/// Coordinates per stage in shared memory.
pub(super) const STAGE: usize = 32;
/// Threads per group in the kernels [`sum_rows`] and [`time_excess`].
pub(super) const ADDERS: usize = 256;
/// Distance between the rows of a coordinate tile in shared memory; odd, so that rows start in different banks.
const PITCH: usize = STAGE + 1;
/// Distance between the rows of a tile with one number per pair.
const PAIR_PITCH: usize = TILE + 1;

const ONE: u32 = 1.0_f32.to_bits();
const ROOT_HALF: u32 = std::f32::consts::FRAC_1_SQRT_2.to_bits();
const LN_2: f32 = std::f32::consts::LN_2;

/// Computes `sqrt(c) t - 1` of every point in every factor: `points` `[B, D]` and `curv` `[K]` to `excess` `[B, K]`.
#[cube(launch)]
pub(super) fn time_excess(points: &Tensor<f32>, curv: &Tensor<f32>, excess: &mut Tensor<f32>) {
    if ABSOLUTE_POS < excess.len() {
        let width = points.shape(1) / curv.len();
        let start = ABSOLUTE_POS * width;
        let mut square = 0.0f32;
        for c in 0..width {
            let v = points[start + c];
            square += v * v;
        }
        let s = square * curv[ABSOLUTE_POS % curv.len()];
        excess[ABSOLUTE_POS] = s / ((s + 1.0f32).sqrt() + 1.0f32);
    }
}

/// Computes `sign` times the distances of all pairs: `x` `[M, D]`, `y` `[N, D]` with their `excess`, to `out` `[M, N]`.
///
/// The loop runs over the coordinates of all factors, and adds the distance of a factor at the end of the factor.
#[cube(launch)]
pub(super) fn distances(
    x: &Tensor<f32>,
    y: &Tensor<f32>,
    x_excess: &Tensor<f32>,
    y_excess: &Tensor<f32>,
    curv: &Tensor<f32>,
    out: &mut Tensor<f32>,
    floor: f32,
    sign: f32,
    #[comptime] squares: bool,
) {
    let (m, n, dim, factors) = (x.shape(0), y.shape(0), x.shape(1), curv.len());
    let (first_row, first_column) = (CUBE_POS_Y as usize * TILE, CUBE_POS_X as usize * TILE);
    let (ty, tx) = (UNIT_POS_Y as usize, UNIT_POS_X as usize);
    let (row, column) = (first_row + ty, first_column + tx);
    let inside = row < m && column < n;
    let width = dim / factors;
    let mut x_tile = Shared::<[f32]>::new_slice(TILE * PITCH);
    let mut y_tile = Shared::<[f32]>::new_slice(TILE * PITCH);

    let mut sum = 0.0f32;
    let mut dot = 0.0f32;
    let mut factor = 0usize;
    let mut seen = 0usize;
    for stage in 0..dim.div_ceil(STAGE) {
        let start = stage * STAGE;
        let count = min(STAGE, dim - start);
        load(x, &mut x_tile, first_row, start, count);
        load(y, &mut y_tile, first_column, start, count);
        sync_cube();
        for c in 0..count {
            dot += x_tile[ty * PITCH + c] * y_tile[tx * PITCH + c];
            seen += 1;
            if seen == width {
                if inside {
                    let (a, b) = (x_excess[row * factors + factor], y_excess[column * factors + factor]);
                    let rapidity = acosh_1p(excess_of_pair(a, b, curv[factor], dot), floor);
                    if comptime![squares] {
                        sum += rapidity * rapidity / curv[factor];
                    } else {
                        sum += rapidity / curv[factor].sqrt();
                    }
                }
                dot = 0.0f32;
                seen = 0usize;
                factor += 1;
            }
        }
        sync_cube();
    }
    if inside {
        let mean = sum / f32::cast_from(factors as u32);
        if comptime![squares] {
            out[row * n + column] = sign * mean.sqrt();
        } else {
            out[row * n + column] = sign * mean;
        }
    }
}

/// Computes the gradient of the points `mine` `[A, D]`. `grad` holds the gradients of their distances to `other` `[B,
/// D]`.
///
/// `grad` and, for the root mean square, `table` (the distances, of either sign) are read at
/// `a * mine_step + b * other_step`. A workgroup processes `TILE` points (x) and `TILE * blocks` coordinates (z) of
/// one factor (y), and recomputes `u`. With `q` the gradient of `u`, the gradient of a point is
/// `c (sum_b q_b (1 + b_b) / (1 + a) x - sum_b q_b y_b)`.
///
/// With `for_curv`, `curv_parts` `[A, K]` gets the contribution of each point's pairs to the gradients of the
/// curvatures.
#[cube(launch)]
pub(super) fn point_gradients(
    mine: &Tensor<f32>,
    other: &Tensor<f32>,
    mine_excess: &Tensor<f32>,
    other_excess: &Tensor<f32>,
    curv: &Tensor<f32>,
    grad: &Tensor<f32>,
    table: &Tensor<f32>,
    found: &mut Tensor<f32>,
    curv_parts: &mut Tensor<f32>,
    mine_step: u32,
    other_step: u32,
    floor: f32,
    sign: f32,
    #[comptime] squares: bool,
    #[comptime] for_curv: bool,
    #[comptime] blocks: usize,
) {
    let (m, n, dim, factors) = (mine.shape(0), other.shape(0), mine.shape(1), curv.len());
    let first_row = CUBE_POS_X as usize * TILE;
    let factor = CUBE_POS_Y as usize;
    let first_block = CUBE_POS_Z as usize * blocks;
    let (ty, tx) = (UNIT_POS_Y as usize, UNIT_POS_X as usize);
    let row = first_row + ty;
    let width = dim / factors;
    let base = factor * width;
    let c = curv[factor];
    let mut my_tile = Shared::<[f32]>::new_slice(TILE * PITCH);
    let mut other_tile = Shared::<[f32]>::new_slice(TILE * PITCH);
    let mut pairs = Shared::<[f32]>::new_slice(TILE * PAIR_PITCH);

    let mut a = 0.0f32;
    if row < m {
        a = mine_excess[row * factors + factor];
    }
    let mut times = 0.0f32;
    let mut for_c = 0.0f32;
    let mut sums = Array::<f32>::new(blocks);
    #[unroll]
    for block in 0..blocks {
        sums[block] = 0.0f32;
    }

    for tile in 0..n.div_ceil(TILE) {
        let first_other = tile * TILE;
        let column = first_other + tx;
        let mut dot = 0.0f32;
        for stage in 0..width.div_ceil(STAGE) {
            let start = stage * STAGE;
            let count = min(STAGE, width - start);
            load(mine, &mut my_tile, first_row, base + start, count);
            load(other, &mut other_tile, first_other, base + start, count);
            sync_cube();
            for i in 0..count {
                dot += my_tile[ty * PITCH + i] * other_tile[tx * PITCH + i];
            }
            sync_cube();
        }

        let mut q = 0.0f32;
        if row < m && column < n {
            let b = other_excess[column * factors + factor];
            let at = row * mine_step as usize + column * other_step as usize;
            let upstream = sign * grad[at] / f32::cast_from(factors as u32);
            let u = excess_of_pair(a, b, c, dot);
            let derivative = acosh_derivative(u, floor);
            // `weight` is the gradient of the rapidity; `own` is minus the part of the gradient of c that does not
            // flow through u, so it is subtracted below.
            let mut weight = upstream / c.sqrt();
            let mut own = 0.0f32;
            if comptime![squares || for_curv] {
                let rapidity = acosh_1p(u, floor);
                if comptime![squares] {
                    weight = upstream * rapidity / (c * table[at].abs());
                }
                own = weight * rapidity / (2.0f32 * c);
            }
            q = weight * derivative;
            times += q * (1.0f32 + b);
            if comptime![for_curv] {
                let x_square = a * (a + 2.0f32) / c;
                let y_square = b * (b + 2.0f32) / c;
                let ratio = (1.0f32 + b) / (1.0f32 + a);
                for_c += q * ((x_square * ratio + y_square / ratio) * 0.5f32 - dot) - own;
            }
        }
        pairs[ty * PAIR_PITCH + tx] = q;
        sync_cube();
        let count = min(TILE, n - first_other);
        #[unroll]
        for block in 0..blocks {
            let coordinate = (first_block + block) * TILE + tx;
            if coordinate < width {
                for other_row in 0..count {
                    let value = other[(first_other + other_row) * dim + base + coordinate];
                    sums[block] += pairs[ty * PAIR_PITCH + other_row] * value;
                }
            }
        }
        sync_cube();
    }

    let time = row_sum(&mut pairs, times);
    if row < m {
        #[unroll]
        for block in 0..blocks {
            let coordinate = (first_block + block) * TILE + tx;
            if coordinate < width {
                let at = row * dim + base + coordinate;
                found[at] = c * (time / (1.0f32 + a) * mine[at] - sums[block]);
            }
        }
    }
    if comptime![for_curv] {
        let part = row_sum(&mut pairs, for_c);
        if row < m && tx == 0 && first_block == 0 {
            curv_parts[row * factors + factor] = part;
        }
    }
}

/// Sums the rows of `parts` `[M, K]`, with one group of [`ADDERS`] threads per column.
#[cube(launch)]
pub(super) fn sum_rows(parts: &Tensor<f32>, sums: &mut Tensor<f32>) {
    let (rows, columns) = (parts.shape(0), parts.shape(1));
    let (column, unit) = (CUBE_POS_X as usize, UNIT_POS_X as usize);
    let mut shares = Shared::<[f32]>::new_slice(ADDERS);
    let mut share = 0.0f32;
    for i in 0..rows.div_ceil(ADDERS) {
        let row = i * ADDERS + unit;
        if row < rows {
            share += parts[row * columns + column];
        }
    }
    shares[unit] = share;
    sync_cube();
    if unit == 0 {
        let mut sum = 0.0f32;
        for i in 0..ADDERS {
            sum += shares[i];
        }
        sums[column] = sum;
    }
}

/// Loads `count` coordinates, beginning with coordinate `start`, of `TILE` points, beginning with point `first`, to
/// shared memory. The rest of the tile is padded with zeros.
#[cube]
fn load(points: &Tensor<f32>, tile: &mut Shared<[f32]>, first: usize, start: usize, count: usize) {
    let (rows, dim) = (points.shape(0), points.shape(1));
    for i in 0..comptime![TILE * STAGE / (TILE * TILE)] {
        let slot = i * TILE * TILE + UNIT_POS as usize;
        let (row, c) = (slot / STAGE, slot % STAGE);
        let mut value = 0.0f32;
        if first + row < rows && c < count {
            value = points[(first + row) * dim + start + c];
        }
        tile[row * PITCH + c] = value;
    }
}

/// The sum of `own` over the threads of a row of the group, in a fixed order. Every thread of the row gets the sum.
#[cube]
fn row_sum(tile: &mut Shared<[f32]>, own: f32) -> f32 {
    let (ty, tx) = (UNIT_POS_Y as usize, UNIT_POS_X as usize);
    tile[ty * PAIR_PITCH + tx] = own;
    sync_cube();
    let mut sum = 0.0f32;
    for i in 0..TILE {
        sum += tile[ty * PAIR_PITCH + i];
    }
    sync_cube();
    sum
}

/// `u = -c <x, y>_L - 1` from `sqrt(c) t - 1` of both points and `<x, y>`.
#[cube]
fn excess_of_pair(a: f32, b: f32, c: f32, dot: f32) -> f32 {
    a + b + a * b - c * dot
}

/// `acosh(max(u, floor) + 1)`; NaN stays NaN.
#[cube]
fn acosh_1p(u: f32, floor: f32) -> f32 {
    let u = select(u < floor, floor, u);
    ln_1p(u + (u * (u + 2.0f32)).sqrt())
}

/// The derivative `1 / sqrt(u (u + 2))` of [`acosh_1p`]; 0 below `floor`.
#[cube]
fn acosh_derivative(u: f32, floor: f32) -> f32 {
    let low = u < floor;
    let u = select(low, floor, u);
    select(low, 0.0f32, 1.0f32 / (u * (u + 2.0f32)).sqrt())
}

/// `ln(1 + t)` for `t >= 0`, as in `conifer_geometry::vector::ln_1p`. CubeCL's own function takes `ln` of the rounded
/// `1 + t` on graphics cards, which is 0 for `t` below 6e-8. NaN stays NaN.
#[cube]
fn ln_1p(t: f32) -> f32 {
    let shifted = u32::reinterpret(1.0f32 + t) + (ONE - ROOT_HALF);
    let exponent = i32::cast_from(shifted >> 23u32) - 127i32;
    let mantissa = f32::reinterpret((shifted & 0x007f_ffffu32) + ROOT_HALF);
    let f = select(exponent == 0i32, t, mantissa - 1.0f32);
    let s = f / (2.0f32 + f);
    let z = s * s;
    let series = 1.0f32 + z * (1.0f32 / 3.0f32 + z * (0.2f32 + z * (1.0f32 / 7.0f32 + z * (1.0f32 / 9.0f32))));
    let value = f32::cast_from(exponent) * LN_2 + 2.0f32 * s * series;
    select(t <= f32::MAX, value, t)
}
