//! The program `conifer`. Its commands are in the library of this crate.

use std::process::ExitCode;

/// Number of bytes of freed blocks that the allocator may always keep for reuse.
const SPARE_BYTES: usize = 1 << 30;

// Page faults on large blocks dominated the run time of the tensor engine; see the docs of `conifer-kernels`.
#[global_allocator]
static ALLOCATOR: conifer_kernels::LargeBlockAllocator = conifer_kernels::LargeBlockAllocator::new(SPARE_BYTES);

fn main() -> ExitCode {
    conifer_cli::run(std::env::args_os().collect()).into()
}
