//! Inverse cosine transform: from the dequantised coefficients of a block to its samples.

/// Inverse cosine transform of a block `[row][column]`, clamped to 0..=255. It uses the integer arithmetic and
/// rounding of libjpeg's accurate transform (Loeffler, Ligtenberg and Moschytz 1989, 13 fraction bits), so the
/// samples equal those of Pillow and torchvision.
#[inline(always)]
pub(super) fn inverse(block: &[i32; 64]) -> [[u8; 8]; 8] {
    // First pass, over columns; the results keep 2 fraction bits. These are plain loops, because the compiler does not
    // inline a closure of this size.
    let mut columns = [[0; 8]; 8];
    for x in 0..8 {
        let column = inverse_1d([
            block[x],
            block[8 + x],
            block[16 + x],
            block[24 + x],
            block[32 + x],
            block[40 + x],
            block[48 + x],
            block[56 + x],
        ]);
        for y in 0..8 {
            columns[y][x] = column[y].wrapping_add(1 << 10) >> 11;
        }
    }
    // Second pass, over rows, as sums of coefficient times basis row. The results equal those of `inverse_1d`, and the
    // loop over a row vectorises without a transpose.
    let mut samples = [[0; 8]; 8];
    for y in 0..8 {
        let mut sums = [(128 << 18) + (1 << 17); 8];
        for u in 0..8 {
            for x in 0..8 {
                sums[x] = columns[y][u].wrapping_mul(BASIS_ROWS[u][x]).wrapping_add(sums[x]);
            }
        }
        for x in 0..8 {
            samples[y][x] = (sums[x] >> 18).clamp(0, 255) as u8;
        }
    }
    samples
}

/// The value of every sample of a block whose only non-zero coefficient is DC.
#[inline(always)]
pub(super) fn flat(mean: i32) -> u8 {
    (mean.wrapping_add((128 << 3) + 4) >> 3).clamp(0, 255) as u8
}

/// `BASIS_ROWS[k]` is the inverse transform of a row whose only non-zero coefficient is number `k`, with value 1.
const BASIS_ROWS: [[i32; 8]; 8] = {
    let mut rows = [[0; 8]; 8];
    let mut k = 0;
    while k < 8 {
        let mut one = [0; 8];
        one[k] = 1;
        rows[k] = inverse_1d(one);
        k += 1;
    }
    rows
};

/// Product with the constant `n / 2^13`; the result has 13 fraction bits.
const fn times(value: i32, n: i32) -> i32 {
    value.wrapping_mul(n)
}

/// Inverse transform of eight coefficients, multiplied by `2^13 * sqrt(8)`.
#[inline(always)]
const fn inverse_1d(c: [i32; 8]) -> [i32; 8] {
    // Even coefficients: a rotation by 3 pi / 8 and a butterfly.
    let rotation = times(c[2].wrapping_add(c[6]), 4_433);
    let (t2, t3) = (rotation.wrapping_add(times(c[6], -15_137)), rotation.wrapping_add(times(c[2], 6_270)));
    let (t0, t1) = (times(c[0].wrapping_add(c[4]), 8_192), times(c[0].wrapping_sub(c[4]), 8_192));
    let even = [t0.wrapping_add(t3), t1.wrapping_add(t2), t1.wrapping_sub(t2), t0.wrapping_sub(t3)];
    // Odd coefficients: twelve products instead of sixteen.
    let (a, b) = (times(c[7].wrapping_add(c[1]), -7_373), times(c[5].wrapping_add(c[3]), -20_995));
    let (d, e) = (c[7].wrapping_add(c[3]), c[5].wrapping_add(c[1]));
    let all = times(d.wrapping_add(e), 9_633);
    let (d, e) = (all.wrapping_add(times(d, -16_069)), all.wrapping_add(times(e, -3_196)));
    let odd = [
        times(c[1], 12_299).wrapping_add(a).wrapping_add(e),
        times(c[3], 25_172).wrapping_add(b).wrapping_add(d),
        times(c[5], 16_819).wrapping_add(b).wrapping_add(e),
        times(c[7], 2_446).wrapping_add(a).wrapping_add(d),
    ];
    [
        even[0].wrapping_add(odd[0]),
        even[1].wrapping_add(odd[1]),
        even[2].wrapping_add(odd[2]),
        even[3].wrapping_add(odd[3]),
        even[3].wrapping_sub(odd[3]),
        even[2].wrapping_sub(odd[2]),
        even[1].wrapping_sub(odd[1]),
        even[0].wrapping_sub(odd[0]),
    ]
}
