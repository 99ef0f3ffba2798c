//! Maps the tokens of a text to one row of features: pooling, `Dense` and `Normalize` of sentence-transformers.

use burn::tensor::{Bool, Int, Tensor};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::layers::Linear;

/// How a text encoder combines the tokens of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TokenPooling {
    /// The first token (`[CLS]`).
    #[default]
    First,
    /// The mean over all tokens of the text, start and end tokens included.
    Mean,
    /// The maximum of each feature over all tokens of the text.
    Max,
}

impl TokenPooling {
    pub(super) fn is_first(&self) -> bool {
        *self == Self::First
    }
}

/// The steps after the last block.
pub(super) struct SentenceOutput<'a> {
    pub(super) pooling: TokenPooling,
    /// Affine map of the pooled row.
    pub(super) projection: Option<&'a Linear>,
    /// Apply tanh after the affine map.
    pub(super) tanh: bool,
    /// Divide the result by its Euclidean norm.
    pub(super) normalize: bool,
}

impl SentenceOutput<'_> {
    /// Tokens `[B*L, width]` to features `[B, out]`; `hidden` `[B, L]` is true after the end of a text.
    pub(super) fn forward(&self, x: Tensor<2>, hidden: &Tensor<2, Bool>) -> Tensor<2> {
        self.map(self.pool(x, hidden))
    }

    /// Pooled rows `[B, width]` to features `[B, out]`.
    pub(super) fn map(&self, mut pooled: Tensor<2>) -> Tensor<2> {
        if let Some(projection) = self.projection {
            pooled = projection.forward(pooled);
            if self.tanh {
                pooled = pooled.tanh();
            }
        }
        if self.normalize {
            // PyTorch's `normalize` divides by at least 1e-12.
            let norm = pooled.clone().powi_scalar(2).sum_dim(1).sqrt().clamp_min(1e-12);
            pooled = pooled / norm;
        }
        pooled
    }

    /// Tokens `[B*L, width]` to one row for each text, `[B, width]`.
    pub(super) fn pool(&self, x: Tensor<2>, hidden: &Tensor<2, Bool>) -> Tensor<2> {
        let [batch, length] = hidden.dims();
        let [_, width] = x.dims();
        match self.pooling {
            TokenPooling::First => {
                let first = Tensor::<1, Int>::arange(0..batch as i64, &x.device()) * length as i64;
                x.select(0, first)
            }
            TokenPooling::Mean => {
                let kept = hidden.clone().bool_not().float().cast(x.dtype());
                let counts = kept.clone().sum_dim(1);
                let sum = (x.reshape([batch, length, width]) * kept.unsqueeze_dim::<3>(2)).sum_dim(1);
                sum.reshape([batch, width]) / counts
            }
            TokenPooling::Max => {
                let hidden = hidden.clone().unsqueeze_dim::<3>(2).expand([batch, length, width]);
                let x = x.reshape([batch, length, width]).mask_fill(hidden, f32::NEG_INFINITY);
                x.max_dim(1).reshape([batch, width])
            }
        }
    }
}
