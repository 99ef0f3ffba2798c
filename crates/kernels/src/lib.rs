//! What the tensor engine lacks.
//!
//! * [`LargeBlockAllocator`]: a global allocator that keeps large blocks instead of giving them back to the system.
//! * [`linear`](fn@linear), [`linear_add`], [`feed_forward`](fn@feed_forward), [`attention`](fn@attention), [`self_attention`],
//!   [`layer_norm`](fn@layer_norm), [`gelu`], [`quick_gelu`]: the parts of a transformer, each forward and backward in one operation
//!   on all threads.
//! * [`pairwise_distance`]: hyperbolic distances of all pairs, in one space or a product.
//! * [`info_nce`] and [`multi_positive_nce`]: contrastive losses of a table of similarities.
//! * [`unit_rows`]: rows divided by their length.
//! * [`lift`](fn@lift), [`cone_hinge`], [`pairwise_exterior_angle`] and [`angle_contrast`]: the maps and angles of hyperbolic heads.
//!   Their slow twins are the compositions of `conifer_geometry`, which works with more spaces, roots and devices.
//!
//! Every other fused operation has a slow twin, `..._plain`, composed of the engine's operations.

pub mod activation;
pub mod alloc;
pub mod angle;
pub mod attention;
pub mod cone;
pub mod distance;
pub mod feed_forward;
pub mod layer_norm;
pub mod lift;
pub mod linear;
pub mod nce;
pub mod unit;

mod arrays;
mod functions;
mod lanes;
mod raw;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod testkit;
mod trigonometry;

pub use activation::{Activation, gelu, gelu_plain, quick_gelu, quick_gelu_plain};
pub use alloc::{AllocStats, LargeBlockAllocator};
pub use angle::{Answers, Bend, angle_contrast, pairwise_exterior_angle};
pub use attention::{Mask, attention, attention_plain, self_attention, self_attention_plain};
pub use cone::{Cone, cone_hinge};
pub use distance::{DistanceRule, Norm, pairwise_distance, pairwise_distance_plain};
pub use feed_forward::{feed_forward, feed_forward_plain};
pub use layer_norm::{layer_norm, layer_norm_plain};
pub use lift::lift;
pub use linear::{linear, linear_add, linear_add_plain, linear_plain};
pub use nce::{Asking, NceRule, info_nce, info_nce_plain, multi_positive_nce, multi_positive_nce_plain};
pub use unit::{unit_rows, unit_rows_plain};
