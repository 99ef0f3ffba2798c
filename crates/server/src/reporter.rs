//! Reports of a server to the program that runs it.

use std::net::SocketAddr;

/// Receives the reports of a server. The default methods ignore them.
pub trait Reporter: Send + Sync {
    /// A line for the operator, for example about a picture that cannot be read.
    fn note(&self, line: &str) {
        _ = line;
    }

    /// `done` of `total` samples of the source are read; the last call has `done == total`.
    fn progress(&self, done: usize, total: usize) {
        _ = (done, total);
    }

    /// The server accepts connections. `what` describes the served rows.
    ///
    /// # Errors
    /// The report cannot be written; the server then stops.
    fn listening(&self, what: &str, address: SocketAddr) -> std::io::Result<()> {
        _ = (what, address);
        Ok(())
    }
}
