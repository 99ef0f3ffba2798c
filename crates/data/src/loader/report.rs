//! Statistics of broken samples.

use std::collections::BTreeMap;
use std::fmt;

use crate::error::Error;
use crate::sample::{Broken, Cause, MissingRank};

/// Numbers of requested and broken samples since the loader was created. A broken sample counts each time it is
/// requested, which can be more than once per epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BrokenReport {
    /// Number of samples requested.
    pub seen: u64,
    /// Number of broken samples, by cause.
    pub counts: BTreeMap<Cause, u64>,
    /// The first few broken samples, without repetition.
    pub examples: Vec<Broken>,
    /// Number of used samples whose taxon lacks a rank, by rank. These samples are not broken.
    pub missing_ranks: BTreeMap<MissingRank, u64>,
}

/// Minimum number of requested samples before the fraction of broken samples is checked.
const MIN_SEEN: u64 = 100;

const MAX_EXAMPLES: usize = 3;

impl BrokenReport {
    /// Total number of broken samples.
    pub fn broken(&self) -> u64 {
        self.counts.values().sum()
    }

    pub(super) fn add(&mut self, broken: Broken) {
        *self.counts.entry(broken.cause).or_default() += 1;
        let new = self.examples.iter().all(|example| example.sample != broken.sample);
        if new && self.examples.len() < MAX_EXAMPLES {
            self.examples.push(broken);
        }
    }

    pub(super) fn add_missing_ranks(&mut self, ranks: &[MissingRank]) {
        for rank in ranks {
            match self.missing_ranks.get_mut(rank) {
                Some(count) => *count += 1,
                None => _ = self.missing_ranks.insert(rank.clone(), 1),
            }
        }
    }

    /// Returns an error if at least [`MIN_SEEN`] samples were requested and more than the fraction `allowed` of them
    /// was broken.
    pub(super) fn check(&self, allowed: f64) -> Result<(), Error> {
        let too_many = self.broken() as f64 > allowed * self.seen as f64;
        if too_many && self.seen >= MIN_SEEN {
            return Err(self.error(allowed));
        }
        Ok(())
    }

    pub(super) fn error(&self, allowed: f64) -> Error {
        Error::TooManyBroken {
            broken: self.broken(),
            seen: self.seen,
            allowed,
            causes: self.causes(),
            first: self.examples.iter().map(Broken::to_string).collect::<Vec<_>>().join("; "),
        }
    }

    fn causes(&self) -> String {
        let causes: Vec<_> = self.counts.iter().map(|(cause, n)| format!("{cause} {n}")).collect();
        causes.join(", ")
    }
}

/// Example: "12 of 4800 samples were broken (missing_file 10, no_box 2)".
impl fmt::Display for BrokenReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} samples were broken", self.broken(), self.seen)?;
        if self.counts.is_empty() {
            return Ok(());
        }
        write!(f, " ({})", self.causes())
    }
}
