//! What the tensor engine lacks.
//!
//! * [`LargeBlockAllocator`]: a global allocator that keeps large blocks instead of giving them back to the system.
//! * [`pairwise_distance`]: hyperbolic distances of all pairs, in one space or a product, fused, with its slow twin
//!   [`pairwise_distance_plain`].
//! * [`info_nce`] and [`multi_positive_nce`]: contrastive losses of a table of similarities, fused, with their slow twins.
//! * [`unit_rows`]: rows divided by their length, fused, with its slow twin.
//! * [`gelu`](fn@gelu): with the exact slope on every device.

pub mod alloc;
mod array;
pub mod distance;
pub mod gelu;
mod lanes;
pub mod nce;
pub mod unit;

pub use alloc::{AllocStats, LargeBlockAllocator};
pub use distance::{DistanceRule, Norm, pairwise_distance, pairwise_distance_plain};
pub use gelu::{gelu, gelu_plain};
pub use nce::{Asking, NceRule, info_nce, info_nce_plain, multi_positive_nce, multi_positive_nce_plain};
pub use unit::{unit_rows, unit_rows_plain};
