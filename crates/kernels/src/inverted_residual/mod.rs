//! Networks of inverted residual blocks (MobileNetV2, EfficientNet-Lite) for inference on the CPU:
//! [`InvertedResidualNet`].
//!
//! The loops use neither the tensor engine nor a library for matrix products. Feature maps are stored as
//! `[channels / 16, row, column, 16]`, so that a register holds 16 channels of a pixel. The last block of channels is
//! padded with zeros. A residual block is computed for some expanded channels and some rows at a time: the rows are
//! expanded into a buffer, filtered, and their projection is added to the result. The expanded feature maps, which are
//! up to six times larger than the others, therefore stay in the L2 cache.
//!
//! ```
//! use conifer_kernels::{ConvPadding, FoldedConv, InvertedResidual, InvertedResidualNet};
//!
//! let conv = |inputs, outputs, kernel, per_output: usize| FoldedConv {
//!     weight: vec![0.1; outputs * per_output * kernel * kernel],
//!     bias: vec![0.0; outputs],
//!     inputs,
//!     outputs,
//!     kernel,
//! };
//! let block = InvertedResidual {
//!     expand: Some(conv(8, 48, 1, 8)),
//!     depthwise: conv(48, 48, 3, 1),
//!     project: conv(48, 8, 1, 48),
//!     stride: 1,
//!     residual: true,
//! };
//! let net = InvertedResidualNet::new(&conv(3, 8, 3, 3), &[block], &conv(8, 20, 1, 8), ConvPadding::Same);
//! let features = net.forward(&vec![0.5; 2 * 3 * 32 * 32], 2, 32);
//! assert_eq!(features.len(), 2 * net.width());
//! ```

mod depthwise;
mod geometry;
mod network;
mod stage;
mod stem;
#[cfg(test)]
mod tests;
mod weights;

pub use network::InvertedResidualNet;

/// A convolution without dilation, with the batch norm folded into its weight and bias.
#[derive(Clone, Debug, PartialEq)]
pub struct FoldedConv {
    /// `[outputs, inputs, kernel, kernel]`, or `[outputs, 1, kernel, kernel]` for a depthwise convolution.
    pub weight: Vec<f32>,
    /// One number per output channel.
    pub bias: Vec<f32>,
    /// Input channels.
    pub inputs: usize,
    /// Output channels.
    pub outputs: usize,
    /// Side of the kernel.
    pub kernel: usize,
}

/// An inverted residual block: `project(relu6(depthwise(relu6(expand(x)))))`, plus `x` if it is residual.
#[derive(Clone, Debug, PartialEq)]
pub struct InvertedResidual {
    /// A 1x1 convolution; without it the depthwise convolution reads the input.
    pub expand: Option<FoldedConv>,
    /// One kernel per channel.
    pub depthwise: FoldedConv,
    /// A 1x1 convolution without activation.
    pub project: FoldedConv,
    /// Stride of the depthwise convolution, at most its kernel size.
    pub stride: usize,
    /// True if the input is added to the result.
    pub residual: bool,
}

/// Zeros around the input of a convolution with kernel size `k` and stride `s`. The side of the result is
/// `ceil(side / s)` in both cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConvPadding {
    /// TensorFlow's `SAME`: `max((ceil(side / s) - 1) s + k - side, 0)` zeros, half of them (rounded down) before the
    /// first row and the rest after the last. EfficientNet-Lite was trained with it.
    Same,
    /// `(k - 1) / 2` zeros on each side, as in torchvision's MobileNetV2.
    Symmetric,
}
