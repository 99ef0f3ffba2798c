use rayon::prelude::*;

use crate::{Error, Result};

/// Bounds of 1 / temperature. Scores differ by at most a few hundred, so outside these bounds every probability is
/// practically 0, 1 or 1 / classes.
const INVERSE: [f64; 2] = [1e-4, 1e5];
/// Steps of the golden-section search. The last interval is about 4e-9 of the first one, on the logarithmic scale.
const STEPS: usize = 40;

/// The temperature that maximises the mean log-likelihood of the true classes (temperature scaling; Guo et al. 2017).
///
/// `scores` `[photos, classes]` is row-major and `truth` has the class of each photo. The negative log-likelihood is
/// convex in 1 / temperature, so it has one minimum, which a golden-section search over log(1 / temperature) finds.
///
/// # Errors
/// There is no photo or no class, the number of scores is wrong, a class number is out of range, or a score is not
/// finite.
pub fn fit_temperature(scores: &[f32], classes: usize, truth: &[usize]) -> Result<f64> {
    let expected = |found: String, expected: &str| Error::Invalid {
        name: "temperature fit".into(),
        found,
        expected: expected.into(),
    };
    if truth.is_empty() || classes == 0 {
        return Err(expected("no photo of a class".into(), "at least one labelled photo"));
    }
    if scores.len() != truth.len() * classes || truth.iter().any(|&class| class >= classes) {
        let found = format!("{} scores of {} photos and {classes} classes", scores.len(), truth.len());
        return Err(expected(found, "a score for each photo and class"));
    }
    if let Some(bad) = scores.iter().find(|score| !score.is_finite()) {
        return Err(expected(format!("the score {bad}"), "finite scores"));
    }
    let loss = |log_inverse: f64| -> f64 {
        let inverse = log_inverse.exp();
        let rows: Vec<f64> = scores
            .par_chunks(classes)
            .zip(truth)
            .map(|(row, &class)| {
                let max = f64::from(row.iter().copied().fold(f32::NEG_INFINITY, f32::max));
                let sum: f64 = row.iter().map(|&score| ((f64::from(score) - max) * inverse).exp()).sum();
                sum.ln() - (f64::from(row[class]) - max) * inverse
            })
            .collect();
        // Sum in order, because the result must not depend on the number of threads.
        rows.iter().sum()
    };
    let golden = (5.0_f64.sqrt() - 1.0) / 2.0;
    let [mut low, mut high] = INVERSE.map(f64::ln);
    let (mut left, mut right) = (high - golden * (high - low), low + golden * (high - low));
    let (mut at_left, mut at_right) = (loss(left), loss(right));
    for _ in 0..STEPS {
        // On a plateau of the likelihood the larger temperature is taken.
        if at_left <= at_right {
            (high, right, at_right) = (right, left, at_left);
            left = high - golden * (high - low);
            at_left = loss(left);
        } else {
            (low, left, at_left) = (left, right, at_right);
            right = low + golden * (high - low);
            at_right = loss(right);
        }
    }
    Ok((-f64::midpoint(low, high)).exp())
}
