//! The probability that a phrase belongs to its photo, from the similarity of its best box.

use serde::{Deserialize, Serialize};

/// Minimum number of phrases for a calibration.
const MIN_PHRASES: usize = 40;
/// Maximum number of Newton steps. The fit of two numbers converges in fewer than ten.
const STEPS: usize = 50;
/// Weight of the penalty on the slope, which bounds it if the classes can be separated.
const PENALTY: f64 = 1e-3;
/// Newton step at which the fit ends. Scores are standardised, so slope and intercept are of the order of 1, and the
/// probabilities have at least nine correct digits.
const SETTLED: f64 = 1e-10;
/// Number of bins of the checked probabilities.
const BINS: usize = 5;

/// Logistic regression (Platt scaling) that separates the scores of phrases with their own photo from those with
/// another photo: `p = 1 / (1 + exp(-(slope * (score - centre) / scale + intercept)))`. Both cases count as equally
/// probable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// Mean of the scores.
    pub centre: f64,
    /// Standard deviation of the scores.
    pub scale: f64,
    /// Slope, per standard deviation.
    pub slope: f64,
    /// Intercept.
    pub intercept: f64,
    /// Phrases with their own photos that the fit used.
    pub phrases: usize,
    /// Mean absolute difference between probability and observed share over the bins, weighted by their counts, on
    /// photos that the fit did not use (expected calibration error); 0 without such photos.
    pub error: f64,
    /// The bins of the photos that the fit did not use.
    pub bins: Vec<CalibrationBin>,
}

/// Scores whose probabilities are in the same range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CalibrationBin {
    /// Number of scores, weighted so that own and foreign phrases count the same.
    pub count: f64,
    /// Mean probability.
    pub predicted: f64,
    /// Share of scores of phrases with their own photos.
    pub observed: f64,
}

/// Scores of phrases with their own photos, and of phrases with other photos.
#[derive(Clone, Debug, Default)]
pub(super) struct ScorePairs {
    pub(super) own: Vec<f32>,
    pub(super) foreign: Vec<f32>,
}

impl Calibration {
    /// Fits on `fitted` and checks on `checked`; `None` if there are too few scores.
    pub(super) fn fit(fitted: &ScorePairs, checked: &ScorePairs) -> Option<Self> {
        if fitted.own.len() < MIN_PHRASES || fitted.foreign.len() < MIN_PHRASES {
            return None;
        }
        let all = || fitted.weighted();
        let total: f64 = all().map(|(_, _, weight)| weight).sum();
        let centre = all().map(|(score, _, weight)| score * weight).sum::<f64>() / total;
        let variance = all().map(|(score, _, weight)| weight * (score - centre).powi(2)).sum::<f64>() / total;
        // If all scores are equal, their deviation is zero. Any positive scale then gives the same result.
        let scale = variance.sqrt().max(f64::MIN_POSITIVE);
        let (mut slope, mut intercept) = (0.0, 0.0);
        for _ in 0..STEPS {
            // Newton's method on the mean negative log likelihood plus PENALTY / 2 * slope^2.
            let mut gradient = [PENALTY * slope, 0.0];
            let mut hessian = [PENALTY, 0.0, 0.0];
            for (score, is_own, weight) in all() {
                let x = (score - centre) / scale;
                let p = sigmoid(slope * x + intercept);
                let (error, curvature) = (p - f64::from(u8::from(is_own)), p * (1.0 - p));
                let share = weight / total;
                gradient[0] += share * error * x;
                gradient[1] += share * error;
                hessian[0] += share * curvature * x * x;
                hessian[1] += share * curvature * x;
                hessian[2] += share * curvature;
            }
            let determinant = hessian[0] * hessian[2] - hessian[1] * hessian[1];
            if determinant.is_nan() || determinant <= 0.0 {
                break;
            }
            let step = [
                (hessian[2] * gradient[0] - hessian[1] * gradient[1]) / determinant,
                (hessian[0] * gradient[1] - hessian[1] * gradient[0]) / determinant,
            ];
            slope -= step[0];
            intercept -= step[1];
            if step[0].abs() + step[1].abs() < SETTLED {
                break;
            }
        }
        let phrases = fitted.own.len();
        let mut fit = Self { centre, scale, slope, intercept, phrases, error: 0.0, bins: Vec::new() };
        fit.check(checked);
        Some(fit)
    }

    /// The probability of a score.
    pub fn probability(&self, score: f32) -> f64 {
        sigmoid(self.slope * (f64::from(score) - self.centre) / self.scale + self.intercept)
    }

    fn check(&mut self, checked: &ScorePairs) {
        let mut bins = [CalibrationBin::default(); BINS];
        for (score, is_own, weight) in checked.weighted() {
            let p = self.probability(score as f32);
            let bin = &mut bins[((p * BINS as f64) as usize).min(BINS - 1)];
            bin.count += weight;
            bin.predicted += p * weight;
            bin.observed += weight * f64::from(u8::from(is_own));
        }
        let total: f64 = bins.iter().map(|bin| bin.count).sum();
        self.bins = bins
            .into_iter()
            .filter(|bin| bin.count > 0.0)
            .map(|bin| CalibrationBin {
                predicted: bin.predicted / bin.count,
                observed: bin.observed / bin.count,
                ..bin
            })
            .collect();
        self.error = self.bins.iter().map(|bin| bin.count / total * (bin.predicted - bin.observed).abs()).sum();
    }
}

impl ScorePairs {
    /// Yields `(score, is_own, weight)`; `is_own` is true if the phrase was scored against its own photo. The weights
    /// give both groups the same total.
    fn weighted(&self) -> impl Iterator<Item = (f64, bool, f64)> {
        let ratio = self.own.len() as f64 / self.foreign.len().max(1) as f64;
        let own = self.own.iter().map(|score| (f64::from(*score), true, 1.0));
        own.chain(self.foreign.iter().map(move |score| (f64::from(*score), false, ratio)))
    }
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Scores whose true probability is known: own with density exp(s), foreign with exp(-s) on [-2, 2].
    fn pairs(count: usize, offset: f64) -> ScorePairs {
        // Quantiles: F(s) = (exp(s) - exp(-2)) / (exp(2) - exp(-2)).
        let (low, high) = ((-2.0_f64).exp(), 2.0_f64.exp());
        let own: Vec<f32> = (0..count)
            .map(|number| (low + (high - low) * (number as f64 + offset) / count as f64).ln() as f32)
            .collect();
        ScorePairs { foreign: own.iter().map(|score| -score).collect(), own }
    }

    #[test]
    fn known_probabilities_are_found() {
        let fit = Calibration::fit(&pairs(4000, 0.5), &pairs(3999, 0.3)).unwrap();
        // p(own | s) = exp(s) / (exp(s) + exp(-s)) = sigmoid(2 s). The penalty and the grid change it by less than .01.
        for score in [-1.5_f32, -0.3, 0.0, 0.8] {
            let expected = sigmoid(2.0 * f64::from(score));
            assert!((fit.probability(score) - expected).abs() < 0.01, "{score}: {}", fit.probability(score));
        }
        assert!(fit.error < 0.01, "{fit:?}");
        assert_eq!(fit.bins.len(), BINS);
    }

    #[test]
    fn few_or_equal_scores() {
        assert_eq!(Calibration::fit(&pairs(MIN_PHRASES - 1, 0.5), &pairs(10, 0.5)), None);
        let equal = ScorePairs { own: vec![0.5; 50], foreign: vec![0.5; 50] };
        let fit = Calibration::fit(&equal, &ScorePairs::default()).unwrap();
        assert!((fit.probability(0.5) - 0.5).abs() < 1e-9 && fit.error == 0.0, "{fit:?}");
    }
}
