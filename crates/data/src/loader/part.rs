//! Batches whose rows are read by several processes. Each process reads a part of the rows, and receives the other rows
//! without their pixels.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::row::LoaderRow;
use crate::error::{Error, Result};
use crate::sample::Broken;

/// Part `number` of `count` parts of a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct BatchPart {
    pub(super) number: usize,
    pub(super) count: usize,
}

/// Result for one position: the broken samples found first, then a row, or `None` if all candidates were broken.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RowAttempt {
    pub(super) broken: Vec<Broken>,
    pub(super) row: Option<LoaderRow>,
}

impl BatchPart {
    /// The range of this part in a batch of `rows` rows.
    pub(super) fn of(self, rows: usize) -> Range<usize> {
        rows * self.number / self.count..rows * (self.number + 1) / self.count
    }

    /// Exchanges rows with the other processes and returns the rows of all parts. `gather` sends the bytes of this part
    /// and returns the bytes of every part, in order of their numbers.
    ///
    /// # Errors
    /// The bytes of a part cannot be parsed as rows.
    pub(super) fn exchange(
        self,
        mine: Vec<RowAttempt>,
        gather: &mut dyn FnMut(&[u8]) -> Vec<Vec<u8>>,
    ) -> Result<Vec<RowAttempt>> {
        let wrong = |error: serde_json::Error| {
            Error::format("rows of another process", error.to_string(), "rows of the same version of this program")
        };
        // Pixels are not serialised.
        let parts = gather(&serde_json::to_vec(&mine).map_err(wrong)?);
        let mut all = Vec::new();
        let mut mine = Some(mine);
        for (number, part) in parts.iter().enumerate() {
            match mine.take_if(|_| number == self.number) {
                Some(mine) => all.extend(mine),
                None => all.extend(serde_json::from_slice::<Vec<RowAttempt>>(part).map_err(wrong)?),
            }
        }
        Ok(all)
    }
}
