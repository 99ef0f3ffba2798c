use crate::{Error, Result};

/// A threshold computed by conformal risk control.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConformalThreshold {
    /// The smallest threshold at which the bound on the risk holds. `None` if there are too few units; then the
    /// prediction is always the root, which is never wrong.
    pub threshold: Option<f64>,
    /// Number of calibration units.
    pub units: usize,
    /// Mean loss of the calibration units at the threshold.
    pub calibration_risk: f64,
}

/// The smallest threshold `t >= 0` with `n / (n + 1) * R(t) + 1 / (n + 1) <= risk`, where `R(t)` is the mean loss of
/// the `n` calibration units (Angelopoulos et al., Conformal Risk Control, 2022, equation 4 with B = 1).
///
/// If the units and a new unit are exchangeable, the expected loss of the new unit is at most `risk`. The expectation
/// is over the calibration units, too: for a given calibration set the risk may be larger or smaller.
///
/// A unit is a list of photos, each given by [`crate::prediction::ScoredPath::critical`]. The loss of a photo is 1 for
/// `t < critical`, else 0; the loss of a unit is the mean over its photos. Use one unit per photo if photos are
/// exchangeable, and one unit per genus if only genera are.
///
/// # Errors
/// `risk` is not in (0, 1), a unit is empty, or a critical value is NaN or negative.
pub fn conformal_threshold(units: &[Vec<Option<f64>>], risk: f64) -> Result<ConformalThreshold> {
    check_risk(risk)?;
    if units.iter().any(Vec::is_empty) {
        return Err(argument("a calibration unit", "empty", "at least one photo per unit"));
    }
    // Each entry is (critical value of a photo, weight of the photo in its unit).
    let mut losses: Vec<(f64, f64)> = Vec::new();
    for unit in units {
        losses.extend(unit.iter().flatten().map(|&critical| (critical, 1.0 / unit.len() as f64)));
    }
    if let Some((bad, _)) = losses.iter().find(|(critical, _)| critical.is_nan() || *critical < 0.0) {
        return Err(argument("a critical confidence", &bad.to_string(), "a number of 0 or more"));
    }
    losses.sort_by(|a, b| b.0.total_cmp(&a.0));
    let n = units.len();
    // The largest sum of losses for which the bound on the risk holds.
    let allowed = risk * (n + 1) as f64 - 1.0;
    if allowed < 0.0 {
        return Ok(ConformalThreshold { threshold: None, units: n, calibration_risk: 0.0 });
    }
    // At a threshold, the photos with larger critical values are wrong. Lower the threshold from one critical value to
    // the next until the sum of their losses is too large.
    let (mut threshold, mut sum, mut next) = (0.0, 0.0, 0);
    while next < losses.len() {
        let here = losses[next].0;
        let end = next + losses[next..].iter().take_while(|(critical, _)| *critical == here).count();
        let with_ties = sum + losses[next..end].iter().map(|(_, share)| share).sum::<f64>();
        if with_ties > allowed {
            threshold = here;
            break;
        }
        (sum, next) = (with_ties, end);
    }
    Ok(ConformalThreshold { threshold: Some(threshold), units: n, calibration_risk: sum / n as f64 })
}

/// The smallest number of calibration units with which [`conformal_threshold`] finds a threshold: `n >= 1 / risk - 1`.
///
/// # Errors
/// `risk` is not in (0, 1).
pub fn needed_units(risk: f64) -> Result<usize> {
    check_risk(risk)?;
    let mut n = (1.0 / risk - 1.0).floor().max(0.0) as usize;
    // The rounding of `risk * (n + 1)` must be the same as in `conformal_threshold`.
    while risk * (n + 1) as f64 - 1.0 < 0.0 && n < usize::MAX / 2 {
        n += 1;
    }
    Ok(n)
}

fn check_risk(risk: f64) -> Result<()> {
    if risk > 0.0 && risk < 1.0 {
        return Ok(());
    }
    Err(argument("the risk", &risk.to_string(), "the share of answers that may be wrong, between 0 and 1"))
}

fn argument(name: &str, found: &str, expected: &str) -> Error {
    Error::Invalid { name: name.into(), found: found.into(), expected: expected.into() }
}
