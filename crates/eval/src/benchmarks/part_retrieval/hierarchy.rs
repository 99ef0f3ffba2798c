//! Hierarchical retrieval: how well a photo retrieves boxes of its labels and their descendants (Wang et al., Sec.
//! 3.3, App. B.2, Tables 2 and 3, Fig. 4), and how well a box retrieves photos that contain its label or an ancestor
//! of it (App. A).
//!
//! A query without a correct candidate has neither recall nor a label distribution. It is left out and not counted in
//! `n`.

use std::f32::consts::PI;
use std::sync::{Mutex, PoisonError};

use super::RetrievalMetrics;
use super::labels::LabelNumbers;
use super::ranking::{RankingCriterion, RankingProtocol, ScoredCandidate};
use crate::PrecisionRecallCurve;
use crate::metrics::{LabelDistance, ThresholdCurve, ThresholdCurveSums};
use crate::record::RecordKey;

/// Values of k in percent of the candidates, because the published k belong to a test set of unknown size.
const PERCENTAGES: [usize; 3] = [25, 50, 75];
/// Published values of k: three for LVIS, then three for HierOpenImages.
const PUBLISHED: [usize; 6] = [10_000, 20_000, 30_000, 150_000, 200_000, 250_000];

/// Recall and label distribution at large k.
///
/// Recall is the fraction of all correct candidates that are among the first k. The distance compares the label
/// distribution of the first k with that of all correct boxes. Labels outside the hierarchy count as one last class
/// "others" (Eq. 11). Both interpretations of [`LabelDistance`] are recorded.
///
/// Baselines: a random ranking of N candidates has the recall k / N, and the distribution of its labels is that of all
/// candidates.
pub(super) struct HierarchicalRecall<'a> {
    ranking: RankingProtocol,
    labels: &'a LabelNumbers,
    cutoffs: Vec<RankCutoff>,
    /// A prefix of [`RECALL_METRICS`]: the metrics that are defined for this kind of candidates.
    metrics: &'static [(&'static str, &'static str)],
}

/// Number of candidates at the top of the ranking, absolute or in percent.
#[derive(Clone, Copy)]
enum RankCutoff {
    PerCent(usize),
    Boxes(usize),
}

impl RankCutoff {
    fn of(self, candidates: usize) -> usize {
        match self {
            Self::PerCent(share) => (share * candidates).div_ceil(100),
            Self::Boxes(k) => k.min(candidates),
        }
    }

    fn name(self) -> String {
        match self {
            Self::PerCent(share) => format!("top {share} %"),
            Self::Boxes(k) => format!("top {}k", k / 1000),
        }
    }
}

impl<'a> HierarchicalRecall<'a> {
    /// Metrics for candidates that are boxes. Published values of k are used only up to the number of `boxes`.
    pub(super) fn of_boxes(ranking: RankingProtocol, labels: &'a LabelNumbers, boxes: usize) -> Self {
        Self { ranking, labels, cutoffs: cutoffs(boxes), metrics: &RECALL_METRICS }
    }

    /// Metrics for candidates that are photos. A photo has several labels, so there is no label distribution. Published
    /// values of k are not used, because they are numbers of boxes.
    pub(super) fn of_photos(ranking: RankingProtocol, labels: &'a LabelNumbers) -> Self {
        Self { ranking, labels, cutoffs: cutoffs(0), metrics: &RECALL_METRICS[..1] }
    }
}

fn cutoffs(boxes: usize) -> Vec<RankCutoff> {
    let published = PUBLISHED.into_iter().filter(|&k| k <= boxes).map(RankCutoff::Boxes);
    PERCENTAGES.map(RankCutoff::PerCent).into_iter().chain(published).collect()
}

static RECALL_METRICS: [(&str, &str); 3] =
    [("hierarchical recall", "chance"), ("OT values", "all candidates"), ("OT transport", "all candidates")];

impl RetrievalMetrics for HierarchicalRecall<'_> {
    fn protocol(&self) -> String {
        format!("{}, {}", self.ranking.protocol(), self.labels.described)
    }

    fn metrics(&self) -> Vec<(String, &'static str)> {
        let at = |cutoff: &RankCutoff| {
            let name = cutoff.name();
            self.metrics.iter().map(move |(metric, trivial)| (format!("{metric}, {name}"), *trivial))
        };
        self.cutoffs.iter().flat_map(at).collect()
    }

    fn values(&self, below: &[u32], scored: &[ScoredCandidate]) -> Vec<Option<[f64; 2]>> {
        let mut candidates = self.ranking.candidates(scored);
        let all = candidates.len();
        let positives = candidates.iter().filter(|it| it.below).count();
        if positives == 0 {
            return vec![None; self.metrics.len() * self.cutoffs.len()];
        }
        let everything = histogram(below, &candidates);
        let mut truth = everything.clone();
        truth[below.len()] = 0.0;
        truth.iter_mut().for_each(|it| *it *= all as f64 / positives as f64);
        let trivial = LabelDistance::between(&truth, &everything);

        // Evaluate the largest k first. Each smaller k is selected within the previous prefix, so no sort is needed.
        let mut order: Vec<usize> = (0..self.cutoffs.len()).collect();
        order.sort_by_key(|&i| std::cmp::Reverse(self.cutoffs[i].of(all)));
        let mut all_values = vec![None; self.metrics.len() * self.cutoffs.len()];
        let by_rank = self.ranking.order(|it| it.below);
        let mut rest = &mut candidates[..];
        for i in order {
            let k = self.cutoffs[i].of(all);
            if k < rest.len() {
                rest.select_nth_unstable_by(k - 1, &by_rank);
                rest = &mut rest[..k];
            }
            let found = rest.iter().filter(|it| it.below).count();
            let distance = LabelDistance::between(&truth, &histogram(below, rest));
            let values = [
                [found as f64 / positives as f64, k as f64 / all as f64],
                [distance.values, trivial.values],
                [distance.transport, trivial.transport],
            ];
            let slots = all_values[i * self.metrics.len()..][..self.metrics.len()].iter_mut();
            slots.zip(values).for_each(|(slot, value)| *slot = Some(value));
        }
        all_values
    }
}

/// Fraction of boxes with each of the (sorted) `labels`, followed by the fraction of boxes with other labels.
fn histogram(labels: &[u32], boxes: &[&ScoredCandidate]) -> Vec<f64> {
    let mut counts = vec![0usize; labels.len() + 1];
    boxes.iter().for_each(|it| counts[labels.binary_search(&it.label).unwrap_or(labels.len())] += 1);
    counts.into_iter().map(|count| count as f64 / boxes.len() as f64).collect()
}

/// Precision and recall over a range of thresholds, as in Fig. 4.
///
/// The threshold on the angle rises from 0 (the whole lies on the line from the root to the part) to pi, and the
/// threshold on the cosine falls from 1 to 0, both in 100 steps. A candidate with a cosine below 0 is never retrieved.
pub(super) struct ThresholdPrecision<'a> {
    pub(super) score: ThresholdScore,
    /// The set of candidates, and the ranking by `score`, which is named in the protocol.
    pub(super) ranking: RankingProtocol,
    pub(super) labels: &'a LabelNumbers,
    /// The curves of all queries.
    pub(super) sums: Mutex<ThresholdCurveSums>,
}

#[derive(Clone, Copy)]
pub(super) enum ThresholdScore {
    Cosine,
    Angle,
}

impl ThresholdScore {
    pub(super) fn criterion(self) -> RankingCriterion {
        match self {
            ThresholdScore::Cosine => RankingCriterion::Cosine,
            ThresholdScore::Angle => RankingCriterion::Angle,
        }
    }
}

const STEPS: usize = 100;
const RECALLS: [f64; 3] = [0.25, 0.5, 0.75];

impl RetrievalMetrics for ThresholdPrecision<'_> {
    fn protocol(&self) -> String {
        format!("{}, {}", self.ranking.protocol(), self.labels.described)
    }

    fn metrics(&self) -> Vec<(String, &'static str)> {
        let precisions = RECALLS.iter().map(|recall| format!("hierarchical precision at recall {recall}"));
        let metrics = std::iter::once("hierarchical AP over thresholds".to_owned()).chain(precisions);
        metrics.map(|metric| (metric, "chance")).collect()
    }

    fn values(&self, _: &[u32], scored: &[ScoredCandidate]) -> Vec<Option<[f64; 2]>> {
        let candidates = self.ranking.candidates(scored);
        let positives = candidates.iter().filter(|it| it.below).count();
        if positives == 0 {
            return vec![None; RECALLS.len() + 1];
        }
        let mut curve = ThresholdCurve::new(STEPS);
        for it in &candidates {
            let at = match self.score {
                ThresholdScore::Cosine => 1.0 - it.cosine,
                ThresholdScore::Angle => (PI - it.angle) / PI,
            };
            curve.add(at, it.below);
        }
        self.sums.lock().unwrap_or_else(PoisonError::into_inner).add(&curve);
        let chance = positives as f64 / candidates.len() as f64;
        let precisions = RECALLS.iter().map(|&recall| curve.precision_at(recall));
        std::iter::once(curve.average_precision()).chain(precisions).map(|it| Some([it, chance])).collect()
    }

    /// Converts the thresholds to cosines or to angles in radians. Angle 0 means that the whole lies between the root
    /// and the part.
    fn curves(&self, key: RecordKey<'_>) -> Vec<PrecisionRecallCurve> {
        let threshold = |at: f64| match self.score {
            ThresholdScore::Cosine => 1.0 - at,
            ThresholdScore::Angle => std::f64::consts::PI * at,
        };
        let sums = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
        PrecisionRecallCurve::both(key, &sums, threshold).into()
    }
}

#[cfg(test)]
mod tests {
    use super::cutoffs;

    #[test]
    fn published_k_need_as_many_boxes() {
        let names = |boxes| cutoffs(boxes).iter().map(|it| it.name()).collect::<Vec<_>>();
        assert_eq!(names(9_999), ["top 25 %", "top 50 %", "top 75 %"]);
        assert_eq!(names(200_000)[3..], ["top 10k", "top 20k", "top 30k", "top 150k", "top 200k"]);
        // 25 % of 10 is 2.5, rounded up to 3. If the boxes of its own photo are excluded, a query may have fewer than k
        // candidates.
        let ks = |candidates| cutoffs(10_000).iter().map(|it| it.of(candidates)).collect::<Vec<_>>();
        assert_eq!((ks(10), ks(9_997)), (vec![3, 5, 8, 10], vec![2500, 4999, 7498, 9997]));
    }
}
