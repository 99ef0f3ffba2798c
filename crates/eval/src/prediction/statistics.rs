use serde::Serialize;

use super::{PredictionTree, TruePosition};
use crate::metrics::{BootstrapUnits, bootstrap_units, wilson_interval};

/// An answer with the true class of its photo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JudgedAnswer {
    /// The answered node.
    pub answer: usize,
    /// The true class.
    pub truth: TruePosition,
}

/// Statistics of answers whose true classes are known.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AnswerStatistics {
    /// Number of photos.
    pub photos: usize,
    /// Number of wrong answers: nodes that are neither the true class nor above it.
    pub wrong: usize,
    /// Share of wrong answers.
    pub risk: f64,
    /// 95 % interval of the risk. `None` if it cannot be computed.
    pub risk_interval: Option<[f64; 2]>,
    /// Mean depth of the answers in edges, counted from the lowest common ancestor of all classes.
    pub mean_depth: f64,
    /// Share of answers that are right and below the lowest common ancestor of all classes.
    pub right_branch: f64,
}

/// Statistics of `answers`. `None` if there are none.
///
/// `clusters` has the cluster of each answer, such as the genus, if photos of a cluster depend on each other; the
/// interval is then a bootstrap over clusters (`None` for fewer than two). Otherwise it is the Wilson interval.
pub fn answer_statistics(
    classes: &PredictionTree,
    answers: &[JudgedAnswer],
    clusters: Option<&[u32]>,
    seed: u64,
) -> Option<AnswerStatistics> {
    if answers.is_empty() {
        return None;
    }
    let n = answers.len() as f64;
    let is_right = |it: &JudgedAnswer| classes.is_right(it.answer, it.truth.node);
    let losses: Vec<f64> = answers.iter().map(|it| f64::from(u8::from(!is_right(it)))).collect();
    let wrong = answers.iter().filter(|it| !is_right(it)).count();
    let risk_interval = match clusters {
        Some(clusters) => bootstrap_units(&BootstrapUnits::clusters(clusters), seed, |rows| {
            rows.iter().map(|&row| losses[row]).sum::<f64>() / rows.len() as f64
        }),
        None => wilson_interval(wrong, answers.len()),
    };
    let right_branch = answers.iter().filter(|it| is_right(it) && classes.depth(it.answer) > 0).count();
    Some(AnswerStatistics {
        photos: answers.len(),
        wrong,
        risk: wrong as f64 / n,
        risk_interval,
        mean_depth: answers.iter().map(|it| classes.depth(it.answer) as f64).sum::<f64>() / n,
        right_branch: right_branch as f64 / n,
    })
}
