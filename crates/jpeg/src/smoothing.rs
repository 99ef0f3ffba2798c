//! Estimates low AC coefficients that a progressive JPEG does not send in full, from the DC coefficients of the
//! surrounding blocks.
//!
//! The method follows T.81, K.8, extended to 5 x 5 blocks as in libjpeg-turbo. Without the estimates, the pixels would
//! differ from Pillow's.

use super::scans::{JpegCoefficients, UNKNOWN};

/// Weights of the DC coefficients of 5 x 5 blocks.
type SmoothingKernel = [[i64; 5]; 5];

/// Number of coefficients, in zigzag order and including DC, for which there are weights. All of them are estimated if
/// none of the AC coefficients 1 to 9 is known, otherwise only 1 to 5.
const ESTIMATED: usize = 10;

/// Weights of one row or column, for coefficients 1 to 5 of components with some known AC coefficients.
const GRADIENT: [i64; 5] = [-7, 50, 0, -50, 7];
const CURVE: [i64; 5] = [-1, 13, -24, 13, -1];
const TWIST: SmoothingKernel = [[0, -1, 0, 1, 0], [-1, 10, 0, -10, 1], [0; 5], [1, -10, 0, 10, -1], [0, 1, 0, -1, 0]];

/// Weights for components of which only DC is known, for coefficients 0 to 9.
const WIDE: [SmoothingKernel; ESTIMATED] = {
    let gradient: SmoothingKernel =
        [[-1, -1, 0, 1, 1], [-3, 13, 0, -13, 3], [-3, 38, 0, -38, 3], [-3, 13, 0, -13, 3], [-1, -1, 0, 1, 1]];
    let curve: SmoothingKernel = [[0; 5], [0, 2, -5, 2, 0], [1, 7, -14, 7, 1], [0, 2, -5, 2, 0], [0; 5]];
    let third: SmoothingKernel = [[0; 5], [0, 1, 0, -1, 0], [0, 2, 0, -2, 0], [0, 1, 0, -1, 0], [0; 5]];
    let mixed: SmoothingKernel = [[0; 5], [0, 1, -3, 1, 0], [0; 5], [0, -1, 3, -1, 0], [0; 5]];
    [
        [[-2, -6, -8, -6, -2], [-6, 6, 42, 6, -6], [-8, 42, 152, 42, -8], [-6, 6, 42, 6, -6], [-2, -6, -8, -6, -2]],
        gradient,
        transposed(gradient),
        transposed(curve),
        [[-1, 0, 0, 0, 1], [0, 9, 0, -9, 0], [0; 5], [0, -9, 0, 9, 0], [1, 0, 0, 0, -1]],
        curve,
        third,
        mixed,
        transposed(mixed),
        transposed(third),
    ]
};

const NARROW: [SmoothingKernel; 6] = {
    let (mut gradient, mut curve) = ([[0; 5]; 5], [[0; 5]; 5]);
    (gradient[2], curve[2]) = (GRADIENT, CURVE);
    [[[0; 5]; 5], gradient, transposed(gradient), transposed(curve), TWIST, curve]
};

const fn transposed(kernel: SmoothingKernel) -> SmoothingKernel {
    let mut result = [[0; 5]; 5];
    let mut i = 0;
    while i < 25 {
        result[i % 5][i / 5] = kernel[i / 5][i % 5];
        i += 1;
    }
    result
}

/// Estimates coefficients that are zero and not fully known, under the same conditions as libjpeg-turbo.
pub(super) fn smooth(components: &mut [JpegCoefficients], sampling_down: &[usize]) {
    let is_safe = |it: &JpegCoefficients| {
        let quantiser = it.quantiser.unwrap_or([0; 64]);
        it.lowest_bits[0] >= 0 && quantiser[..ESTIMATED].iter().all(|&factor| factor > 0)
    };
    let is_useful = |it: &JpegCoefficients| it.lowest_bits[1..ESTIMATED].iter().any(|&low| low != 0);
    if components.iter().all(is_safe) && components.iter().any(is_useful) {
        for (component, &down) in components.iter_mut().zip(sampling_down) {
            smooth_component(component, down);
        }
    }
}

fn smooth_component(component: &mut JpegCoefficients, down: usize) {
    let Some(quantiser) = component.quantiser else { return };
    let lowest = component.lowest_bits;
    let only_dc = lowest[1..ESTIMATED].iter().all(|&low| low == UNKNOWN);
    if !only_dc && lowest[1..6].iter().all(|&low| low == 0) {
        return;
    }
    // Copy the DC values first: estimates use DC as it was sent, and the loop overwrites it.
    let (columns, padded) = (component.columns, component.rows.next_multiple_of(down));
    let dc: Vec<i64> = (0..padded * columns).map(|i| component.dc(i / columns, i % columns).into()).collect();
    for row in 0..component.rows {
        let rows = rows_around(row, component.rows, down);
        for column in 0..columns {
            let around = rows.map(|row| {
                [0, 1, 2, 3, 4].map(|x| dc[row * columns + (column + x).saturating_sub(2).min(columns - 1)])
            });
            let estimate = |kernel: &SmoothingKernel, k: usize| {
                let weighted = kernel.iter().flatten().zip(around.iter().flatten());
                let sum = i64::from(quantiser[0]) * weighted.map(|(weight, dc)| weight * dc).sum::<i64>();
                let factor = i64::from(quantiser[k]);
                let size = ((factor << 7) + sum.abs()) / (factor << 8);
                // The sent bits of this coefficient are zero, so its magnitude is below `1 << lowest[k]`.
                let most = if k > 0 && lowest[k] > 0 { (1 << lowest[k]) - 1 } else { i64::MAX };
                (size.min(most) * sum.signum()) as i16
            };
            let kernels: &[SmoothingKernel] = if only_dc { &WIDE } else { &NARROW };
            let block = component.block_mut(row, column);
            for (k, kernel) in kernels.iter().enumerate().skip(1) {
                if lowest[k] != 0 && block[k] == 0 {
                    block[k] = estimate(kernel, k);
                }
            }
            if only_dc {
                block[0] = estimate(&WIDE[0], 0);
            }
        }
    }
}

/// Indices of the five rows of blocks around `row`, repeated at the borders. libjpeg-turbo counts rows in MCUs of
/// `down` rows. In the last MCU it computes positions as if every MCU had only as many rows as the last MCU. This
/// function does the same.
fn rows_around(row: usize, rows: usize, down: usize) -> [usize; 5] {
    let mcus = rows.div_ceil(down);
    let (mcu, within) = (row / down, row % down);
    let height = if mcu + 1 < mcus || rows.is_multiple_of(down) { down } else { rows % down };
    let (counted, total) = (mcu * height + within, mcus * height);
    let before = if counted > 0 { row - 1 } else { row };
    let before_that = if counted > 1 { row - 2 } else { before };
    let after = if counted + 1 < total { row + 1 } else { row };
    let after_that = if counted + 2 < total { row + 2 } else { after };
    [before_that, before, row, after, after_that]
}
