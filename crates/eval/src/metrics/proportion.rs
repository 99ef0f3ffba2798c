/// 97.5 % quantile of the standard normal distribution.
const Z: f64 = 1.959_963_984_540_054;

/// 95 % Wilson score interval of a proportion with `hits` of `n` independent trials (Wilson 1927):
/// `(p + z^2 / 2n -+ z sqrt(p (1 - p) / n + z^2 / 4n^2)) / (1 + z^2 / n)`.
///
/// For 0 or `n` hits it still has a width, unlike a bootstrap interval. `None` for `n = 0`.
pub fn wilson_interval(hits: usize, n: usize) -> Option<[f64; 2]> {
    if n == 0 {
        return None;
    }
    let (p, n) = (hits as f64 / n as f64, n as f64);
    let scale = 1.0 + Z * Z / n;
    let centre = (p + Z * Z / (2.0 * n)) / scale;
    let half = Z * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt() / scale;
    Some([(centre - half).max(0.0), (centre + half).min(1.0)])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected values come from the formula of [`wilson_interval`], computed in Python with `math.sqrt`. The value
    /// for 0 of 10 was checked by hand: z^2 / (n + z^2) = 3.8415 / 13.8415.
    #[test]
    fn wilson_interval_follows_the_formula() {
        let near = |found: Option<[f64; 2]>, expected: [f64; 2]| {
            let found = found.unwrap_or_default();
            (0..2).for_each(|i| assert!((found[i] - expected[i]).abs() < 1e-4, "{found:?}, expected {expected:?}"));
        };
        near(wilson_interval(0, 10), [0.0, 0.27753]);
        near(wilson_interval(10, 10), [0.72247, 1.0]);
        near(wilson_interval(5, 10), [0.23659, 0.76341]);
        assert_eq!(wilson_interval(0, 0), None);
    }
}
