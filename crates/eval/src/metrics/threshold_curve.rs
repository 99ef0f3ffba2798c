/// Precision and recall of one query while a threshold opens: how many candidates, and how many right ones, each step lets in.
///
/// Needs memory for the steps alone, whatever the number of candidates.
#[derive(Clone, Debug)]
pub struct ThresholdCurve {
    /// Step 0 is the strictest threshold.
    right: Vec<u32>,
    all: Vec<u32>,
    /// Right candidates that no threshold lets in count here only.
    positives: u32,
}

impl ThresholdCurve {
    /// `steps` thresholds after the strictest one, equally spaced.
    pub fn new(steps: usize) -> Self {
        Self { right: vec![0; steps + 1], all: vec![0; steps + 1], positives: 0 }
    }

    /// Adds a candidate that passes from threshold `at` on: 0 the strictest, 1 the last. One beyond 1, or not a number, never passes.
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

    /// `sum (R_n - R_{n-1}) P_n` over the thresholds: [`super::average_precision`] of the candidates in as many levels as there are
    /// thresholds; what never passes adds nothing. NaN where nothing is right.
    pub fn average_precision(&self) -> f64 {
        let positives = f64::from(self.positives);
        let steps = self.running().zip(&self.right).filter(|(_, new)| **new > 0);
        let sum: f64 = steps.map(|((right, all), &new)| f64::from(new) / positives * (right / all)).sum();
        if self.positives > 0 { sum } else { f64::NAN }
    }

    /// Precision at the first threshold whose recall is at least `recall`; 0 where none is, NaN where nothing is right.
    pub fn precision_at(&self, recall: f64) -> f64 {
        let positives = f64::from(self.positives);
        let reached = self.running().find(|(right, _)| right / positives >= recall);
        if self.positives > 0 { reached.map_or(0.0, |(right, all)| right / all) } else { f64::NAN }
    }

    /// (right, all) so far, at each threshold.
    fn running(&self) -> impl Iterator<Item = (f64, f64)> {
        self.right.iter().zip(&self.all).scan((0.0, 0.0), |(right, all), (&r, &a)| {
            *right += f64::from(r);
            *all += f64::from(a);
            Some((*right, *all))
        })
    }
}
