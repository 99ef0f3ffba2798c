//! What the tensor engine lacks.
//!
//! * [`LargeBlockAllocator`]: a global allocator that keeps large blocks instead of giving them back to the system.
//! * [`weighted_rapidity`]: hyperbolic distances of all pairs over many factors, fused, with its slow twin
//!   [`weighted_rapidity_plain`].
//! * [`lift`](fn@lift), [`cone_hinge`] and [`pairwise_exterior_angle`]: the maps and angles of hyperbolic heads, fused. Their slow twins
//!   are the compositions of `conifer_geometry`, which works with more spaces, roots and devices.
//! * [`gelu`](fn@gelu): with the exact slope on every device.

pub mod alloc;
pub mod angle;
mod arrays;
pub mod cone;
pub mod gelu;
mod lanes;
pub mod lift;
pub mod rapidity;
#[cfg(test)]
mod testkit;

pub use alloc::{AllocStats, LargeBlockAllocator};
pub use angle::{Bend, pairwise_exterior_angle};
pub use cone::{Cone, cone_hinge};
pub use gelu::{gelu, gelu_plain};
pub use lift::lift;
pub use rapidity::{Power, weighted_rapidity, weighted_rapidity_plain};
