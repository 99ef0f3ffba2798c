//! The learning rate as a pure function of the step: linear warm-up, then a decay chosen by name.

use crate::error::{Error, Result};

/// A decay after the warm-up: maps progress in [0, 1] to a factor in [0, 1].
#[derive(Clone, Copy, Debug)]
pub struct ScheduleEntry {
    /// Name in the configuration (`optim.schedule`).
    pub name: &'static str,
    /// One line for listings.
    pub summary: &'static str,
    /// Factor that multiplies the peak learning rate at `progress` (0 = end of the warm-up, 1 = end of the run).
    pub factor: fn(progress: f64) -> f64,
}

/// Every decay.
pub const SCHEDULES: &[ScheduleEntry] = &[
    ScheduleEntry {
        name: "cosine",
        summary: "half a cosine from the peak to 0 (MERU, HyCoCLIP, PHyCLIP)",
        factor: cosine,
    },
    ScheduleEntry { name: "linear", summary: "a straight line from the peak to 0", factor: |progress| 1.0 - progress },
    ScheduleEntry {
        name: "one_cycle",
        summary: "half cosines: up from 1/25 of the peak during the first 30 %, then down to 1/10,000 of that start (PyTorch's OneCycleLR with constant betas; RCME)",
        factor: one_cycle,
    },
    ScheduleEntry { name: "constant", summary: "constant at the peak", factor: |_| 1.0 },
];

/// The learning rate of every step of a run.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    peak: f64,
    warmup: u64,
    steps: u64,
    starts_at_zero: bool,
    factor: fn(f64) -> f64,
}

impl Schedule {
    /// A schedule that rises linearly to `peak` over `warmup` steps and then follows the decay `name` until `steps`.
    ///
    /// With `reference` the first step has learning rate 0, as in the released MERU family: `peak * step / warmup` (0
    /// to warmup - 1). Without `reference` the ramp is shifted by one step, `peak * (step + 1) / warmup`, so that no
    /// step has learning rate 0.
    ///
    /// # Errors
    /// [`Error::Unknown`] if there is no decay `name`.
    pub fn new(name: &str, peak: f64, warmup: u64, steps: u64, reference: bool) -> Result<Self> {
        let entry = SCHEDULES.iter().find(|entry| entry.name == name).ok_or_else(|| Error::Unknown {
            kind: "schedule",
            name: name.to_owned(),
            known: names(),
        })?;
        Ok(Self { peak, warmup, steps, starts_at_zero: reference, factor: entry.factor })
    }

    /// Learning rate of the update after `step` updates (the first update has `step` = 0).
    pub fn lr(&self, step: u64) -> f64 {
        if step < self.warmup {
            let risen = if self.starts_at_zero { step } else { step + 1 };
            return self.peak * risen as f64 / self.warmup as f64;
        }
        let span = self.steps.saturating_sub(self.warmup).max(1);
        let progress = ((step - self.warmup) as f64 / span as f64).min(1.0);
        self.peak * (self.factor)(progress)
    }
}

/// The known names, separated by commas.
pub fn names() -> String {
    let names: Vec<_> = SCHEDULES.iter().map(|entry| entry.name).collect();
    names.join(", ")
}

/// Smith and Topin 2017 with PyTorch's constants: start 1/25, peak at 0.3, end 1/25 * 1e-4.
fn one_cycle(progress: f64) -> f64 {
    const START: f64 = 1.0 / 25.0;
    const END: f64 = START * 1e-4;
    const PEAK_AT: f64 = 0.3;
    if progress < PEAK_AT {
        1.0 + (START - 1.0) * cosine(progress / PEAK_AT)
    } else {
        END + (1.0 - END) * cosine((progress - PEAK_AT) / (1.0 - PEAK_AT))
    }
}

/// cos^2(pi p / 2) = (1 + cos(pi p)) / 2.
fn cosine(progress: f64) -> f64 {
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
        // peak * step / 4 and peak * (step + 1) / 4, by hand
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
        // (1 + cos(pi p)) / 2 at p = 0, 1/4, 1/2, 3/4, 1 (and beyond the end)
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

    /// torch.optim.lr_scheduler.OneCycleLR(max_lr=1, total_steps=101): 0.04 at step 0, 1 at 30, 4e-6 at 100, and by its
    /// formula 0.04 + 0.96 / 2 half way up, at 15.
    #[test]
    fn one_cycle_passes_through_pytorchs_points() {
        let factor = SCHEDULES.iter().find(|entry| entry.name == "one_cycle").unwrap().factor;
        for (progress, expected) in [(0.0, 0.04), (0.15, 0.52), (0.3, 1.0), (0.65, 0.500_002), (1.0, 4e-6)] {
            assert!((factor(progress) - expected).abs() < 1e-12, "{progress}: {}", factor(progress));
        }
    }

    #[test]
    fn no_warm_up_and_a_warm_up_as_long_as_the_run_are_accepted() {
        assert_eq!(Schedule::new("linear", 1.0, 0, 10, true).unwrap().lr(0), 1.0);
        assert_eq!(Schedule::new("cosine", 1.0, 10, 10, true).unwrap().lr(9), 0.9);
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let message = Schedule::new("cosin", 1.0, 0, 1, false).unwrap_err().to_string();
        assert_eq!(message, "learn: unknown schedule `cosin`; known: cosine, linear, one_cycle, constant");
    }
}
