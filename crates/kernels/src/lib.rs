//! What the tensor engine lacks.
//!
//! * [`LargeBlockAllocator`]: a global allocator that keeps large blocks instead of giving them back to the system.
//! * [`weighted_rapidity`]: hyperbolic distances of all pairs over many factors, fused, with its slow twin
//!   [`weighted_rapidity_plain`].

pub mod alloc;
pub mod rapidity;

pub use alloc::{AllocStats, LargeBlockAllocator};
pub use rapidity::{Power, weighted_rapidity, weighted_rapidity_plain};
