//! `conifer`: train, evaluate, search and explore hierarchical vision-language embeddings.

mod arguments;
mod cache;
mod commands;
mod device;
mod embedder;
mod invocation;
mod job;
mod old_spelling;
mod output;
mod parquet_columns;
mod pictures;
mod progress;
mod query_resolver;
mod request;
mod set_model;
mod signal;
mod triviality;
mod true_chain;

use std::process::ExitCode;

use clap::Parser;

/// Number of bytes of freed blocks that the allocator may always keep for reuse.
const SPARE_BYTES: usize = 1 << 30;

// Page faults on large blocks dominated the engine's time; see the docs of `conifer-kernels`.
#[global_allocator]
static ALLOCATOR: conifer_kernels::LargeBlockAllocator = conifer_kernels::LargeBlockAllocator::new(SPARE_BYTES);

fn main() -> ExitCode {
    let (words, renamed) = old_spelling::translate(std::env::args_os().collect());
    let cli = arguments::Cli::parse_from(words);
    if let Some(renamed) = renamed {
        output::note(&invocation::with_program(&renamed));
    }
    match commands::run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if job::is_reported_by_rank_0(&error) => ExitCode::FAILURE,
        Err(error) => {
            output::note(&format!("error: {}", invocation::with_program(&message(&error))));
            ExitCode::FAILURE
        }
    }
}

/// The error and its causes. A cause that the text already contains is left out: conifer's own errors often quote
/// theirs.
fn message(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}
