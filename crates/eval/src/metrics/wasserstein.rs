/// 1-D Wasserstein distance of order 1 between two weighted samples, as `scipy.stats.wasserstein_distance` defines it:
/// `integral |U - V|` over the real line, with the cumulative distributions `U` and `V`. In the unit of the values.
///
/// Weights are normalised; `None` means equal weights. There is one weight per value. NaN if a sample is empty or its
/// total weight is 0.
pub fn wasserstein(u: &[f64], v: &[f64], u_weights: Option<&[f64]>, v_weights: Option<&[f64]>) -> f64 {
    // Each entry is (value, step of U - V).
    let steps = |values: &[f64], weights: Option<&[f64]>, sign: f64| {
        let weight = |i: usize| weights.map_or(1.0, |it| it[i]);
        let total: f64 = (0..values.len()).map(weight).sum();
        values.iter().enumerate().map(|(i, &value)| (value, sign * weight(i) / total)).collect::<Vec<_>>()
    };
    let mut line = steps(u, u_weights, 1.0);
    let mut difference = if line.is_empty() || v.is_empty() { f64::NAN } else { 0.0 };
    line.extend(steps(v, v_weights, -1.0));
    line.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut distance = difference;
    for pair in line.windows(2) {
        difference += pair[0].1;
        distance += difference.abs() * (pair[1].0 - pair[0].0);
    }
    distance
}

/// Distance between two label distributions (Wang et al., Eq. 11), in two interpretations of the paper's text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LabelDistance {
    /// Literal interpretation of App. B.2: SciPy's function of the two histograms. It treats their entries as
    /// *samples*, so the result is a distance between sorted fractions, whatever the order of the labels. It is at most
    /// `2 / labels`; the paper prints 5 to 25.
    pub values: f64,
    /// Cost of moving mass between labels, where neighbours in class order are at distance 1. It is at most the number
    /// of labels minus one, which is consistent with the printed numbers (61.5 labels per photo on average).
    pub transport: f64,
}

impl LabelDistance {
    /// Distance between two histograms over the same labels in class order, with the class "others" last. Each
    /// histogram sums to 1.
    pub fn between(truth: &[f64], found: &[f64]) -> Self {
        let positions: Vec<f64> = (0..truth.len()).map(|i| i as f64).collect();
        Self {
            values: wasserstein(truth, found, None, None),
            transport: wasserstein(&positions, &positions, Some(truth), Some(found)),
        }
    }
}
