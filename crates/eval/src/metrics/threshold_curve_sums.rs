use super::ThresholdCurve;
use crate::curve::{CurveAverage, CurvePoint};

/// Sums of the [`ThresholdCurve`]s of many queries.
///
/// The sums are integers, so they do not depend on the order in which threads add the queries.
#[derive(Clone, Debug, Default)]
pub struct ThresholdCurveSums {
    /// Index 0 is the strictest threshold. Empty before the first query.
    steps: Vec<StepSums>,
    positives: u64,
    queries: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct StepSums {
    right: u64,
    all: u64,
    /// Fixed-point sum of the recalls; see [`ONE`].
    recall: u64,
    /// Fixed-point sum of the precisions of the queries that retrieve a candidate.
    precision: u64,
    /// Number of queries that retrieve a candidate.
    retrieving: u64,
}

/// The number 1 in fixed point. Sums of 2^31 queries fit in a u64, and each addend has an error of about 1e-10.
const ONE: f64 = (1_u64 << 32) as f64;

impl ThresholdCurveSums {
    /// Adds a query. All queries must have the same number of thresholds. A query without a right candidate has no
    /// recall and is left out.
    pub fn add(&mut self, curve: &ThresholdCurve) {
        let positives = curve.positives();
        if positives == 0 {
            return;
        }
        self.positives += u64::from(positives);
        self.queries += 1;
        let share = |part: u32, whole: u32| (f64::from(part) / f64::from(whole) * ONE).round() as u64;
        for (step, [right, all]) in curve.counts().enumerate() {
            if step == self.steps.len() {
                self.steps.push(StepSums::default());
            }
            let sums = &mut self.steps[step];
            sums.right += u64::from(right);
            sums.all += u64::from(all);
            sums.recall += share(right, positives);
            if all > 0 {
                sums.precision += share(right, all);
                sums.retrieving += 1;
            }
        }
    }

    /// Precision and recall at each threshold. Thresholds ascend from 0 (the strictest) to 1. Empty without queries.
    pub fn points(&self, average: CurveAverage) -> impl Iterator<Item = CurvePoint> {
        let last = self.steps.len().saturating_sub(1).max(1) as f64;
        self.steps.iter().enumerate().map(move |(step, sums)| {
            let (recall, precision) = match average {
                CurveAverage::Mean => (
                    sums.recall as f64 / ONE / self.queries as f64,
                    sums.precision as f64 / ONE / sums.retrieving as f64,
                ),
                CurveAverage::Pooled => {
                    (sums.right as f64 / self.positives as f64, sums.right as f64 / sums.all as f64)
                }
            };
            CurvePoint {
                threshold: step as f64 / last,
                recall,
                precision: (sums.retrieving > 0).then_some(precision),
                queries: sums.retrieving,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(candidates: &[(f32, bool)]) -> ThresholdCurve {
        let mut curve = ThresholdCurve::new(2);
        candidates.iter().for_each(|&(at, right)| curve.add(at, right));
        curve
    }

    /// The thresholds are 0, 0.5 and 1. Query a has right candidates that pass from 0 and from 1 on, and wrong
    /// candidates that pass from 0.5 and from 1 on. Query b has one right candidate that passes from 0.5 on, and one
    /// that never passes. Query c has no right candidate.
    #[test]
    fn two_queries_by_hand() {
        let mut sums = ThresholdCurveSums::default();
        assert_eq!(sums.points(CurveAverage::Mean).count(), 0);
        sums.add(&curve(&[(0.0, true), (1.0, true), (0.5, false), (0.9, false)]));
        sums.add(&curve(&[(0.4, true), (1.5, true)]));
        sums.add(&curve(&[(0.0, false)]));
        let points = |average| sums.points(average).map(|it| (it.threshold, it.recall, it.precision, it.queries));
        // Query a has the recalls 1/2, 1/2, 1 and the precisions 1, 1/2, 1/2. Query b has the recalls 0, 1/2, 1/2 and
        // the precisions none, 1, 1.
        let mean = [(0.0, 0.25, Some(1.0), 1), (0.5, 0.5, Some(0.75), 2), (1.0, 0.75, Some(0.75), 2)];
        assert!(points(CurveAverage::Mean).eq(mean), "{:?}", points(CurveAverage::Mean).collect::<Vec<_>>());
        // At the three thresholds 1, 3 and 5 candidates pass; 1, 2 and 3 of them are right, of four right candidates.
        let pooled = [(0.0, 0.25, Some(1.0), 1), (0.5, 0.5, Some(2.0 / 3.0), 2), (1.0, 0.75, Some(0.6), 2)];
        assert!(points(CurveAverage::Pooled).eq(pooled), "{:?}", points(CurveAverage::Pooled).collect::<Vec<_>>());
    }

    #[test]
    fn a_threshold_that_nothing_passes_has_no_precision() {
        let mut sums = ThresholdCurveSums::default();
        sums.add(&curve(&[(1.0, true)]));
        let precisions: Vec<_> = sums.points(CurveAverage::Pooled).map(|it| it.precision).collect();
        assert_eq!(precisions, [None, None, Some(1.0)]);
    }

    /// Sums of thirds are not exact in floating point.
    #[test]
    fn the_order_of_the_queries_does_not_matter() {
        let curves = [1, 2, 4, 6].map(|wrong| {
            let wrong = std::iter::repeat_n((0.0, false), wrong);
            curve(&wrong.chain([(0.0, true), (0.5, true), (1.0, true)]).collect::<Vec<_>>())
        });
        let points = |order: [usize; 4]| {
            let mut sums = ThresholdCurveSums::default();
            order.into_iter().for_each(|it| sums.add(&curves[it]));
            sums.points(CurveAverage::Mean).collect::<Vec<_>>()
        };
        assert_eq!(points([0, 1, 2, 3]), points([3, 1, 0, 2]));
        let exact = (1.0 / 2.0 + 1.0 / 3.0 + 1.0 / 5.0 + 1.0 / 7.0) / 4.0;
        assert!((points([0, 1, 2, 3])[0].precision.unwrap_or(f64::NAN) - exact).abs() < 1e-9);
    }
}
