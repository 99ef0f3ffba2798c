/// Precision and recall of one query over a range of thresholds: counts how many candidates, and how many right ones,
/// pass at each threshold.
///
/// Memory is proportional to the number of thresholds and does not depend on the number of candidates.
#[derive(Clone, Debug)]
pub struct ThresholdCurve {
    /// Index 0 is the strictest threshold.
    right: Vec<u32>,
    all: Vec<u32>,
    /// Number of right candidates, including those that pass no threshold.
    positives: u32,
}

impl ThresholdCurve {
    /// Creates a curve with `steps` equally spaced thresholds after the strictest one.
    pub fn new(steps: usize) -> Self {
        Self { right: vec![0; steps + 1], all: vec![0; steps + 1], positives: 0 }
    }

    /// Adds a candidate that passes every threshold that is at least `at`. Thresholds go from 0, the strictest, to 1. A
    /// candidate beyond 1, or NaN, never passes.
    pub fn add(&mut self, at: f32, right: bool) {
        self.positives += u32::from(right);
        let last = self.all.len() - 1;
        let step = (at.max(0.0) * last as f32).ceil();
        if step <= last as f32 && !at.is_nan() {
            let step = step as usize;
            self.all[step] += 1;
            self.right[step] += u32::from(right);
        }
    }

    /// `sum (R_n - R_{n-1}) P_n` over the thresholds: [`super::average_precision`] of the candidates with their scores
    /// rounded to the thresholds. Candidates that never pass are not retrieved, but the right ones among them count in
    /// the recall. NaN if no candidate is right.
    pub fn average_precision(&self) -> f64 {
        let positives = f64::from(self.positives);
        let steps = self.running().zip(&self.right).filter(|(_, new)| **new > 0);
        let sum: f64 = steps.map(|((right, all), &new)| f64::from(new) / positives * (right / all)).sum();
        if self.positives > 0 { sum } else { f64::NAN }
    }

    /// Precision at the first threshold whose recall is at least `recall`: 0 if no threshold reaches this recall, NaN
    /// if no candidate is right.
    pub fn precision_at(&self, recall: f64) -> f64 {
        let positives = f64::from(self.positives);
        let reached = self.running().find(|(right, _)| right / positives >= recall);
        if self.positives > 0 { reached.map_or(0.0, |(right, all)| right / all) } else { f64::NAN }
    }

    /// Number of right candidates, including those that pass no threshold.
    pub fn positives(&self) -> u32 {
        self.positives
    }

    /// Numbers of right candidates and of all candidates that pass each threshold, the strictest first.
    pub fn counts(&self) -> impl Iterator<Item = [u32; 2]> {
        self.right.iter().zip(&self.all).scan([0, 0], |[right, all], (&r, &a)| {
            *right += r;
            *all += a;
            Some([*right, *all])
        })
    }

    /// [`Self::counts`] as (right, all) in f64.
    fn running(&self) -> impl Iterator<Item = (f64, f64)> {
        self.counts().map(|[right, all]| (f64::from(right), f64::from(all)))
    }
}
