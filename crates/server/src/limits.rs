//! Limits of connections, CPU-bound work and responses: permits, idle timeout, response buffer.

pub(crate) mod activity;
pub(crate) mod framing;
pub(crate) mod listen;
pub(crate) mod permits;
pub(crate) mod response_buffer;
