//! Sums over slices in a fixed order that the compiler can vectorise.

use crate::real::Real;

/// Number of partial sums, which the compiler can add in vector registers. They also reduce the worst-case rounding
/// error of long sums about eightfold.
const LANES: usize = 8;

/// `sum_i f(x_i, y_i)` for N quantities in one pass. The order of additions depends only on the length.
pub fn sums<T: Real, const N: usize>(x: &[T], y: &[T], f: impl Fn(T, T) -> [T; N]) -> [T; N] {
    debug_assert_eq!(x.len(), y.len(), "two points of one space");
    let mut lanes = [[T::ZERO; LANES]; N];
    let (x_blocks, x_rest) = x.as_chunks::<LANES>();
    let (y_blocks, y_rest) = y.as_chunks::<LANES>();
    for (a, b) in x_blocks.iter().zip(y_blocks) {
        for lane in 0..LANES {
            let terms = f(a[lane], b[lane]);
            for (sum, term) in lanes.iter_mut().zip(terms) {
                sum[lane] += term;
            }
        }
    }
    let mut total = [T::ZERO; N];
    for (sum, lane) in total.iter_mut().zip(&lanes) {
        let [a, b, c, d, e, f, g, h] = *lane;
        *sum = ((a + e) + (c + g)) + ((b + f) + (d + h)); // pairwise: shorter dependency chain than adding in sequence
    }
    for (a, b) in x_rest.iter().zip(y_rest) {
        for (sum, term) in total.iter_mut().zip(f(*a, *b)) {
            *sum += term;
        }
    }
    total
}

/// Dot product `<x, y>`.
pub fn dot<T: Real>(x: &[T], y: &[T]) -> T {
    sums(x, y, |a, b| [a * b])[0]
}

/// Euclidean norm `|x|`.
pub fn norm<T: Real>(x: &[T]) -> T {
    dot(x, x).sqrt()
}

/// Writes `factor * x` to `out`.
pub fn scaled<T: Real>(x: &[T], factor: T, out: &mut [T]) {
    for (o, v) in out.iter_mut().zip(x) {
        *o = factor * *v;
    }
}

/// Writes `a * x + b * y` to `out`.
pub fn combined<T: Real>(a: T, x: &[T], b: T, y: &[T], out: &mut [T]) {
    for ((o, x), y) in out.iter_mut().zip(x).zip(y) {
        *o = a * *x + b * *y;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lengths around the block size. The terms are integers, so every order of additions gives the same value.
    #[test]
    fn sums_cover_blocks_and_rest() {
        for n in [0_usize, 1, 7, 8, 9, 16, 19] {
            let x: Vec<f32> = (0..n).map(|i| i as f32).collect();
            let y: Vec<f32> = (0..n).map(|i| 2.0 - i as f32).collect();
            let expected: f32 = (0..n).map(|i| i as f32 * (2.0 - i as f32)).sum();
            assert_eq!(dot(&x, &y), expected, "length {n}");
            let [count, total] = sums(&x, &y, |a, b| [1.0, a + b]);
            assert_eq!((count, total), (n as f32, 2.0 * n as f32));
        }
    }

    #[test]
    fn elementwise() {
        let mut out = [0.0_f64; 2];
        scaled(&[1.0, -2.0], 3.0, &mut out);
        assert_eq!(out, [3.0, -6.0]);
        combined(2.0, &[1.0, 0.0], -1.0, &[1.0, 5.0], &mut out);
        assert_eq!(out, [1.0, -5.0]);
        assert_eq!(norm(&[3.0, 4.0]), 5.0);
    }
}
