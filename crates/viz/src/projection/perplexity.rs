use conifer_geometry::safe::projection::ENTROPY_SETTLED;

/// Maximum number of steps of the search for a precision. 100 bisections exhaust the digits of a double.
const STEPS: usize = 100;

/// `p_j ~ exp(-precision d_j^2)` over all given squared distances, with the precision at which the entropy of `p`, in
/// nats, is the given one. Newton's method on the logarithm of the precision, and bisection where it leaves the bracket.
/// Coinciding rows have the largest entropy at every precision.
pub(super) fn similarities(squares: &[f64], entropy: f64) -> Vec<f64> {
    let nearest = squares.iter().copied().fold(f64::INFINITY, f64::min);
    let mean = squares.iter().sum::<f64>() / squares.len() as f64;
    let (mut low, mut high) = (0.0, f64::INFINITY);
    let mut precision = if mean > 0.0 { 1.0 / mean } else { 1.0 };
    for _ in 0..STEPS {
        let (mut sum, mut moment, mut second) = (0.0, 0.0, 0.0);
        for square in squares {
            let above = square - nearest;
            let weight = (-precision * above).exp();
            sum += weight;
            moment += weight * above;
            second += weight * above * above;
        }
        let found = sum.ln() + precision * moment / sum;
        if (found - entropy).abs() < ENTROPY_SETTLED {
            break;
        }
        if found > entropy {
            low = precision;
        } else {
            high = precision;
        }
        let middle = if high.is_finite() { (low + high) / 2.0 } else { precision * 2.0 };
        // The derivative of the entropy by the logarithm of the precision is -precision^2 times the variance.
        let variance = second / sum - (moment / sum).powi(2);
        let newton = precision * ((found - entropy) / (precision * precision * variance)).exp();
        let is_inside = newton.is_finite() && newton > low && newton < high.min(4.0 * precision);
        precision = if is_inside { newton } else { middle };
        if !precision.is_finite() {
            precision = low;
            break;
        }
    }
    let weights: Vec<f64> = squares.iter().map(|square| (-precision * (square - nearest)).exp()).collect();
    let sum: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entropy_is_the_wanted_one() {
        for scale in [1e-8, 1.0, 1e6] {
            let squares: Vec<f64> = (0..60).map(|i| scale * (1.0 + f64::from(i * i) / 7.0)).collect();
            for perplexity in [1.5_f64, 5.0, 30.0, 59.0] {
                let found = similarities(&squares, perplexity.ln());
                let entropy: f64 = -found.iter().filter(|p| **p > 0.0).map(|p| p * p.ln()).sum::<f64>();
                assert!((entropy - perplexity.ln()).abs() < 1e-8, "{scale} {perplexity}: {entropy}");
                assert!((found.iter().sum::<f64>() - 1.0).abs() < 1e-12 && found.is_sorted_by(|a, b| a >= b));
            }
        }
        assert_eq!(similarities(&[3.0; 4], 2.0_f64.ln()), [0.25; 4]);
        // Two nearest rows at the same distance have at least ln 2 of entropy; the precision grows until only they count.
        let tied = similarities(&[1.0, 1.0, 2.0], 1.2_f64.ln());
        assert!((tied[0] - 0.5).abs() < 1e-9 && tied[2] < 1e-9, "{tied:?}");
    }
}
