/// 1-D Wasserstein distance of order 1 between two weighted samples, as `scipy.stats.wasserstein_distance` defines it:
/// `integral |U - V|` over the line, `U` and `V` being the cumulative distributions. In the unit of the values.
///
/// Weights are normalised; `None` weighs all alike. NaN where a sample is empty or weighs nothing. Weights are as many as values.
pub fn wasserstein(u: &[f64], v: &[f64], u_weights: Option<&[f64]>, v_weights: Option<&[f64]>) -> f64 {
    // (value, step of U - V)
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

/// Distance between two label distributions (Wang et al., Eq. 11), in the two senses that the text allows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LabelDistance {
    /// What App. B.2 literally says, SciPy's function of the two histograms: their entries are taken for *samples*, so the distance is
    /// between sorted shares. At most `2 / labels`, where the paper prints 5 to 25; the order of the labels plays no part.
    pub values: f64,
    /// Mass is moved between labels, which stand one apart in class order: the unit is a place in that order. At most the number of labels
    /// less one, which the printed numbers fit (61.5 labels a photo on average).
    pub transport: f64,
}

impl LabelDistance {
    /// Of two histograms over the same labels, in class order, the class "others" last; each sums to 1.
    pub fn between(truth: &[f64], found: &[f64]) -> Self {
        let places: Vec<f64> = (0..truth.len()).map(|i| i as f64).collect();
        Self {
            values: wasserstein(truth, found, None, None),
            transport: wasserstein(&places, &places, Some(truth), Some(found)),
        }
    }
}
