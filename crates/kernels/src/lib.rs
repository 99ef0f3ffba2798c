//! Tensor operations and a memory allocator that Burn lacks.
//!
//! * [`LargeBlockAllocator`]: a global allocator that caches large blocks instead of returning them to the system.
//! * [`linear`](fn@linear), [`linear_add`], [`feed_forward`](fn@feed_forward), [`attention`](fn@attention),
//!   [`self_attention`], [`layer_norm`](fn@layer_norm), [`gelu`], [`quick_gelu`], [`tanh_gelu`]: the parts of a
//!   transformer, each fused forward and backward on all threads.
//! * [`pairwise_distance`]: hyperbolic distances of all pairs, in one space or a product.
//! * [`info_nce`] and [`multi_positive_nce`]: contrastive losses of a table of similarities.
//! * [`unit_rows`]: rows divided by their length.
//! * [`lift`](fn@lift), [`cone_hinge`], [`pairwise_exterior_angle`] and [`angle_contrast`]: the maps and angles of
//!   hyperbolic heads. Their reference implementations are in `conifer_geometry_tensor` (that of [`angle_contrast`] in
//!   `conifer_train::terms`), which supports more spaces, roots and devices.
//! * [`InvertedResidualNet`]: inference of EfficientNet-Lite and MobileNetV2 on the CPU, on plain arrays.
//! * [`PostNormEncoder`]: inference of BERT on the CPU, on plain arrays.
//!
//! Every other fused operation with gradients has a reference implementation `..._plain`, composed of Burn's
//! operations.
//!
//! ```
//! use burn::tensor::{Device, Tensor};
//!
//! let rows = Tensor::<2>::from_floats([[3.0, 4.0], [0.0, 2.0]], &Device::flex());
//! let unit = conifer_kernels::unit_rows(rows, 1e-12).into_data().to_vec::<f32>()?;
//! assert!(unit.iter().zip([0.6, 0.8, 0.0, 1.0]).all(|(a, b)| (a - b).abs() < 1e-6));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod activation;
pub mod alloc;
pub mod angle;
pub mod attention;
pub mod cone;
pub mod distance;
pub mod feed_forward;
pub mod inverted_residual;
pub mod layer_norm;
pub mod lift;
pub mod linear;
pub mod nce;
pub mod packed;
pub mod post_norm;
pub mod unit;

mod arrays;
mod functions;
mod lanes;
mod pointwise;
mod raw;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod testkit;
mod trigonometry;

pub use activation::{Activation, gelu, gelu_plain, quick_gelu, quick_gelu_plain, tanh_gelu, tanh_gelu_plain};
pub use alloc::{AllocStats, LargeBlockAllocator};
pub use angle::{AngleGeometry, PairLabels, angle_contrast, pairwise_exterior_angle};
pub use attention::{Mask, attention, attention_plain, self_attention, self_attention_plain};
pub use cone::{ConeHinge, cone_hinge};
pub use distance::{DistanceNorm, DistanceRule, pairwise_distance, pairwise_distance_plain};
pub use feed_forward::{feed_forward, feed_forward_plain};
pub use inverted_residual::{ConvPadding, FoldedConv, InvertedResidual, InvertedResidualNet};
pub use layer_norm::{layer_norm, layer_norm_plain};
pub use lift::lift;
pub use linear::{linear, linear_add, linear_add_plain, linear_plain};
pub use nce::{NceRule, QuerySide, info_nce, info_nce_plain, multi_positive_nce, multi_positive_nce_plain};
pub use packed::{PackedCache, WeightStorage};
pub use post_norm::{AffineWeights, NormWeights, PostNormEncoder, PostNormLayer, RowPooling};
pub use unit::{unit_rows, unit_rows_plain};
