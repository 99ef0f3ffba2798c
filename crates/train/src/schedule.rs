//! The learning rate as a pure function of the step: linear warm-up, then a decay chosen by name. A decay can also set
//! the decay rate of the first moment (beta1).

use crate::error::{Error, Result};

/// A decay after the warm-up. In its functions, `step` is the number of updates made since the end of the warm-up, and
/// `steps` (at least 1) the number of updates from the end of the warm-up to the end of the run.
#[derive(Clone, Copy, Debug)]
pub struct ScheduleEntry {
    /// Name in the configuration (`optim.schedule`).
    pub name: &'static str,
    /// One line for listings.
    pub summary: &'static str,
    /// Factor on the peak learning rate, in [0, 1].
    pub factor: fn(step: u64, steps: u64) -> f64,
    /// beta1 of the optimiser; `None`: `optim.betas` sets it.
    pub beta1: Option<fn(step: u64, steps: u64) -> f64>,
}

/// All decays that `optim.schedule` accepts.
pub const SCHEDULES: &[ScheduleEntry] = &[
    ScheduleEntry {
        name: "cosine",
        summary: "half a cosine from the peak to 0 (MERU, HyCoCLIP, PHyCLIP)",
        factor: |step, steps| half_cosine(progress(step, steps)),
        beta1: None,
    },
    ScheduleEntry {
        name: "linear",
        summary: "a straight line from the peak to 0",
        factor: |step, steps| 1.0 - progress(step, steps),
        beta1: None,
    },
    ScheduleEntry {
        name: "one_cycle",
        summary: "half cosines: up from 1/25 of the peak during the first 30 %, then down to 1/10,000 of that start; beta1 from 0.95 to 0.85 and back (PyTorch's OneCycleLR; RCME)",
        factor: |step, steps| one_cycle(step, steps, [LOW, 1.0, LOW * 1e-4]),
        beta1: Some(|step, steps| one_cycle(step, steps, [0.95, 0.85, 0.95])),
    },
    ScheduleEntry { name: "constant", summary: "constant at the peak", factor: |_, _| 1.0, beta1: None },
];

/// The learning rate of every step of a run.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    peak: f64,
    warmup: u64,
    steps: u64,
    starts_at_zero: bool,
    decay: &'static ScheduleEntry,
}

impl Schedule {
    /// A schedule that rises linearly to `peak` over `warmup` steps and then follows the decay `name` until `steps`.
    ///
    /// With `reference` the first step has learning rate 0, as in the released MERU family: `peak * step / warmup` (0
    /// to warmup - 1). Without `reference` the ramp is shifted by one step, `peak * (step + 1) / warmup`, so no step
    /// has learning rate 0.
    ///
    /// # Errors
    /// [`Error::Unknown`] if there is no decay `name`.
    pub fn new(name: &str, peak: f64, warmup: u64, steps: u64, reference: bool) -> Result<Self> {
        let decay = SCHEDULES.iter().find(|entry| entry.name == name).ok_or_else(|| Error::Unknown {
            kind: "schedule",
            name: name.to_owned(),
            known: names(),
        })?;
        Ok(Self { peak, warmup, steps, starts_at_zero: reference, decay })
    }

    /// Learning rate of the update after `step` updates (the first update has `step` = 0).
    pub fn lr(&self, step: u64) -> f64 {
        if step < self.warmup {
            let risen = if self.starts_at_zero { step } else { step + 1 };
            return self.peak * risen as f64 / self.warmup as f64;
        }
        self.peak * (self.decay.factor)(step - self.warmup, self.span())
    }

    /// beta1 of the update after `step` updates, if the schedule sets it. During the warm-up it has the value of the
    /// first update after the warm-up.
    pub fn beta1(&self, step: u64) -> Option<f64> {
        self.decay.beta1.map(|beta1| beta1(step.saturating_sub(self.warmup), self.span()))
    }

    /// Number of updates after the warm-up.
    fn span(&self) -> u64 {
        self.steps.saturating_sub(self.warmup).max(1)
    }
}

/// Names of all schedules (values of `optim.schedule`), separated by commas.
pub fn names() -> String {
    let names: Vec<_> = SCHEDULES.iter().map(|entry| entry.name).collect();
    names.join(", ")
}

/// First learning rate of [`one_cycle`], relative to the peak.
const LOW: f64 = 1.0 / 25.0;

/// Smith and Topin 2017 as in PyTorch's `OneCycleLR`: half cosines from `start` to `top` and on to `end`. The top is at
/// update `0.3 steps - 1`, which can lie between two updates, and the end is the last update.
fn one_cycle(step: u64, steps: u64, [start, top, end]: [f64; 3]) -> f64 {
    let last = (steps - 1) as f64;
    let step = (step as f64).min(last);
    let turn = 0.3 * steps as f64 - 1.0;
    if step <= turn {
        top + (start - top) * half_cosine(step / turn)
    } else {
        end + (top - end) * half_cosine((step - turn) / (last - turn))
    }
}

/// Share of the updates that are done.
fn progress(step: u64, steps: u64) -> f64 {
    (step as f64 / steps as f64).min(1.0)
}

/// cos^2(pi p / 2) = (1 + cos(pi p)) / 2.
fn half_cosine(progress: f64) -> f64 {
    (0.5 * std::f64::consts::PI * progress).cos().powi(2)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn reference_warm_up_starts_at_zero_and_the_default_one_step_higher() {
        let reference = Schedule::new("cosine", 5e-4, 4, 12, true).unwrap();
        let ours = Schedule::new("cosine", 5e-4, 4, 12, false).unwrap();
        // The expected rates are peak * step / 4 and peak * (step + 1) / 4.
        for (step, (r, o)) in
            [(0.0, 1.25e-4), (1.25e-4, 2.5e-4), (2.5e-4, 3.75e-4), (3.75e-4, 5e-4)].into_iter().enumerate()
        {
            assert!((reference.lr(step as u64) - r).abs() < 1e-18);
            assert!((ours.lr(step as u64) - o).abs() < 1e-18);
        }
    }

    #[test]
    fn cosine_passes_through_its_known_points() {
        let schedule = Schedule::new("cosine", 1.0, 4, 12, false).unwrap();
        // The expected factors are (1 + cos(pi p)) / 2 at p = 0, 1/4, 1/2, 3/4, 1 and beyond the end.
        let half_root = std::f64::consts::FRAC_1_SQRT_2 / 2.0;
        for (step, expected) in [(4, 1.0), (6, 0.5 + half_root), (8, 0.5), (10, 0.5 - half_root), (12, 0.0), (99, 0.0)]
        {
            assert!((schedule.lr(step) - expected).abs() < 1e-15, "step {step}");
        }
    }

    #[test]
    fn every_decay_reaches_the_peak_and_never_leaves_the_range() {
        for entry in SCHEDULES {
            let schedule = Schedule::new(entry.name, 2.0, 3, 30, false).unwrap();
            let peak = (3..40).map(|step| schedule.lr(step)).fold(0.0, f64::max);
            assert!(peak > 1.99, "{}: {peak}", entry.name);
            assert!((0..40).all(|step| (0.0..=2.0).contains(&schedule.lr(step))), "{}", entry.name);
        }
    }

    /// Compares with `fixtures/one_cycle.json`, the values of PyTorch's OneCycleLR (fixtures/RECIPE.md).
    #[test]
    fn one_cycle_is_pytorchs() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/one_cycle.json");
        let found: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        for cycle in found["cycles"].as_array().unwrap() {
            let steps = cycle["steps"].as_u64().unwrap();
            let schedule = Schedule::new("one_cycle", 2.0, 3, steps + 3, false).unwrap();
            for step in 0..steps {
                let value = |name: &str| cycle[name][step as usize].as_f64().unwrap();
                let (lr, beta1) = (schedule.lr(step + 3), schedule.beta1(step + 3).unwrap());
                assert!((lr - 2.0 * value("lr")).abs() < 1e-12, "lr of {step} of {steps}: {lr}");
                assert!((beta1 - value("beta1")).abs() < 1e-12, "beta1 of {step} of {steps}: {beta1}");
            }
            // During the warm-up beta1 has its first value, and after the last step the learning rate stays at its
            // last value.
            assert_eq!(schedule.beta1(0), schedule.beta1(3));
            assert_eq!(schedule.lr(steps + 99), schedule.lr(steps + 2));
        }
        assert_eq!(Schedule::new("cosine", 1.0, 0, 10, false).unwrap().beta1(5), None);
    }

    #[test]
    fn no_warm_up_and_a_warm_up_as_long_as_the_run_are_accepted() {
        assert_eq!(Schedule::new("linear", 1.0, 0, 10, true).unwrap().lr(0), 1.0);
        assert_eq!(Schedule::new("cosine", 1.0, 10, 10, true).unwrap().lr(9), 0.9);
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let message = Schedule::new("cosin", 1.0, 0, 1, false).unwrap_err().to_string();
        assert_eq!(message, "train: unknown schedule `cosin`; known: cosine, linear, one_cycle, constant");
    }
}
