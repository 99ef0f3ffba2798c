//! Checks of the numbers of samples in a batch and of rows in a micro-batch.

use super::Config;
use crate::error::{Error, Result};

impl Config {
    /// Checks that the samples fill at least one batch if `data.drop_last` drops smaller ones.
    ///
    /// # Errors
    /// [`Error::Invalid`]. If there are at least two samples, the message suggests a valid batch size.
    pub fn check_samples(&self, samples: usize) -> Result<()> {
        let batch = self.train.batch_size;
        if !self.data.drop_last || batch <= samples {
            return Ok(());
        }
        let expected = match samples {
            0 | 1 => "data of two samples or more".to_owned(),
            _ => {
                // Suggest a power of two, the usual kind of batch size.
                let fitting = 1_usize << samples.ilog2();
                format!("at most {samples}, the number of samples, such as --set train.batch_size={fitting}")
            }
        };
        Err(Error::invalid("train.batch_size", batch, expected))
    }

    /// Checks that a micro-batch has a row and is not larger than the batch.
    pub(super) fn check_micro_batch(&self) -> Result<()> {
        let batch = self.train.batch_size;
        match self.train.micro_batch {
            Some(rows) if !(1..=batch).contains(&rows) => {
                let expected = format!("1 to train.batch_size = {batch}, or no value: one call for each view");
                Err(Error::invalid("train.micro_batch", rows, expected))
            }
            _ => Ok(()),
        }
    }
}
