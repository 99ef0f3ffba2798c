//! Transformers with layer norms after the residual sums (BERT and its relatives) for inference on the CPU:
//! [`PostNormEncoder`].
//!
//! Activations are stored as `[channels / 16, token, 16]`, the layout of the products in `pointwise`. Texts have
//! no padding: a batch is a list of rows and the number of rows of each text. Every thread computes some whole texts
//! through all layers, so that threads wait for each other only at the end.
//!
//! ```
//! use conifer_kernels::{AffineWeights, NormWeights, PostNormEncoder, PostNormLayer, RowPooling};
//!
//! let map = |inputs: usize, outputs| AffineWeights { weight: vec![0.1; inputs * outputs], bias: vec![0.0; outputs] };
//! let norm = || NormWeights { gain: vec![1.0; 8], bias: vec![0.0; 8] };
//! let layer = PostNormLayer {
//!     qkv: map(8, 24),
//!     output: map(8, 8),
//!     attention_norm: norm(),
//!     up: map(8, 32),
//!     down: map(32, 8),
//!     output_norm: norm(),
//! };
//! let net = PostNormEncoder::new(&norm(), &[layer], 2, 1e-12);
//! // Two texts of three and two tokens.
//! let features = net.forward(&[0.5; 5 * 8], &[3, 2], RowPooling::Mean);
//! assert_eq!(features.len(), 2 * 8);
//! ```

mod attention;
mod network;
mod rows;
#[cfg(test)]
mod tests;

pub use network::PostNormEncoder;

/// The affine map `x W + b`.
#[derive(Clone, Debug, PartialEq)]
pub struct AffineWeights {
    /// `W`, `[inputs, outputs]`.
    pub weight: Vec<f32>,
    /// `b`, `[outputs]`.
    pub bias: Vec<f32>,
}

/// A layer norm: `(x - mean) / sqrt(variance + epsilon) * gain + bias`.
#[derive(Clone, Debug, PartialEq)]
pub struct NormWeights {
    /// One factor per channel.
    pub gain: Vec<f32>,
    /// One summand per channel.
    pub bias: Vec<f32>,
}

/// A layer: `x = norm(x + output(attention(qkv(x))))`, then `x = norm(x + down(gelu(up(x))))`, with the exact GELU.
#[derive(Clone, Debug, PartialEq)]
pub struct PostNormLayer {
    /// Queries, keys and values, `[width, 3 width]`. Each third is divided into the heads.
    pub qkv: AffineWeights,
    /// `[width, width]`.
    pub output: AffineWeights,
    /// The norm after the attention.
    pub attention_norm: NormWeights,
    /// `[width, hidden]`.
    pub up: AffineWeights,
    /// `[hidden, width]`.
    pub down: AffineWeights,
    /// The norm after the feed-forward part.
    pub output_norm: NormWeights,
}

/// Pooling of the rows of a text into one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowPooling {
    /// The first row.
    First,
    /// The mean.
    Mean,
    /// The largest number of each channel.
    Max,
}
