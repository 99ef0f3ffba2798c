//! The input of text encoders.

use burn::tensor::{Bool, Int, Tensor};

use crate::{Error, Result};

/// Token ids, right-padded to a common length, and the end of each sequence.
#[derive(Clone, Debug)]
pub struct Tokens {
    /// `[B, L]`. Ids after the end of a sequence do not affect its features.
    pub ids: Tensor<2, Int>,
    /// Position of the end-of-text token of each sequence, `[B]`.
    pub end: Tensor<1, Int>,
}

impl Tokens {
    /// Checks that there is one end per text and that the rows are no longer than `context`. Returns `[B, L]`.
    pub(crate) fn check(&self, context: usize) -> Result<[usize; 2]> {
        let [batch, length] = self.ids.dims();
        if batch == 0 || length == 0 || length > context || self.end.dims() != [batch] {
            return Err(Error::Shape {
                name: "tokens".into(),
                found: vec![batch, length, self.end.dims()[0]],
                expected: format!("ids [B, L] with 1 <= L <= {context} and one end per row (shown: B, L, ends)"),
            });
        }
        Ok([batch, length])
    }

    /// `[B, L]`: true for the positions after the end of a text.
    pub(crate) fn after_end(&self) -> Tensor<2, Bool> {
        let [batch, length] = self.ids.dims();
        let positions = Tensor::<1, Int>::arange(0..length as i64, &self.ids.device()).reshape([1, length]);
        let end = self.end.clone().reshape([batch, 1]).expand([batch, length]);
        positions.expand([batch, length]).greater(end)
    }
}
