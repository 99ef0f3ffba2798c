//! Mean lengths of the tiers, and those of the published hierarchies.

use serde::Serialize;

use super::{HierarchyRow, TIERS};
use crate::Result;
use crate::text::word_count;

/// Mean number of words by tier of the 23,479 positive hierarchies of HierarCaps' expanded test table, counted by
/// [`word_count`] (example `entailment_table`).
pub const PUBLISHED_WORDS: [f64; TIERS] = [1.24, 1.56, 6.13, 10.49];

/// Mean number of words by tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct TierLengths {
    /// Positive tiers.
    pub positive: [f64; TIERS],
    /// Negative tiers.
    pub negative: [f64; TIERS],
}

impl TierLengths {
    /// Computes the mean lengths over the hierarchies of `rows`.
    ///
    /// # Errors
    /// A row cannot be read.
    pub fn of(rows: impl Iterator<Item = Result<HierarchyRow>>) -> Result<Self> {
        let mut sums = Self::default();
        let mut count = 0.0;
        for row in rows {
            let row = row?;
            count += 1.0;
            for tier in 0..TIERS {
                sums.positive[tier] += word_count(&row.positive[tier]) as f64;
                sums.negative[tier] += row.negative.as_ref().map_or(0, |it| word_count(&it[tier])) as f64;
            }
        }
        let mean = |sums: [f64; TIERS]| sums.map(|sum| if count > 0.0 { sum / count } else { 0.0 });
        Ok(Self { positive: mean(sums.positive), negative: mean(sums.negative) })
    }
}
