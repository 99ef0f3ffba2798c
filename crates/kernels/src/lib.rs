//! What the tensor engine lacks.
//!
//! * [`LargeBlockAllocator`]: a global allocator that keeps large blocks instead of giving them back to the system.
//! * [`weighted_rapidity`]: hyperbolic distances of all pairs over many factors, fused, with its slow twin
//!   [`weighted_rapidity_plain`].
//! * [`gelu`](fn@gelu): with the exact slope on every device.

pub mod alloc;
pub mod gelu;
pub mod rapidity;

pub use alloc::{AllocStats, LargeBlockAllocator};
pub use gelu::{gelu, gelu_plain};
pub use rapidity::{Power, weighted_rapidity, weighted_rapidity_plain};
