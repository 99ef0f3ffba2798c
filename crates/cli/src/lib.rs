//! The commands of the program `conifer` as functions. The program itself is `main.rs`; the Python package calls the
//! same functions.

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
mod point_table;
mod progress;
mod query_resolver;
mod request;
mod set_embedder;
mod set_model;
mod signal;
mod triviality;
mod true_chain;

use std::ffi::OsString;

use anyhow::Context as _;
use clap::Parser;

pub use commands::train::{feature_store, watch as watch_training};

use arguments::{Cli, Command, EvalCommand};

/// Runs a command line, whose first word is the program, and returns the exit status. Results go to stdout, messages
/// to stderr. A command that listens to signals replaces the process's handlers.
pub fn run(words: Vec<OsString>) -> u8 {
    if let Some(program) = words.first() {
        invocation::set_program(program);
    }
    let (words, renamed) = old_spelling::translate(words);
    let cli = match Cli::try_parse_from(words) {
        Ok(cli) => cli,
        Err(error) => {
            // A closed pipe is not an error: `conifer --help | head`.
            _ = error.print();
            return u8::try_from(error.exit_code()).unwrap_or(1);
        }
    };
    if let Some(renamed) = renamed {
        output::note(&invocation::with_program(&renamed));
    }
    match commands::run(cli) {
        Ok(()) => 0,
        Err(error) if job::is_reported_by_rank_0(&error) => 1,
        Err(error) => {
            output::note(&format!("error: {}", invocation::with_program(&message(&error))));
            1
        }
    }
}

/// Runs `conifer eval run` with these arguments. Returns the lines of a result file, one JSON record each, and prints
/// no table.
///
/// # Errors
/// An argument is invalid, the data or the model cannot be opened, or a benchmark fails.
pub fn evaluate(arguments: Vec<OsString>) -> anyhow::Result<String> {
    let cli = parsed(&["eval", "run"], arguments)?;
    let device = cli.device.open();
    match cli.command {
        Command::Eval(EvalCommand::Run(args)) => commands::eval::result_lines(&args, &device),
        _ => unreachable!("the words name `eval run`"),
    }
}

/// Runs `conifer export` with these arguments and prints nothing. Returns the number of rows.
///
/// # Errors
/// An argument is invalid, the set cannot be read, or the folder cannot be written.
pub fn export(arguments: Vec<OsString>) -> anyhow::Result<usize> {
    match parsed(&["export"], arguments)?.command {
        Command::Export(args) => Ok(commands::export::write_folder(&args)?.rows),
        _ => unreachable!("the words name `export`"),
    }
}

fn parsed(command: &[&str], arguments: Vec<OsString>) -> anyhow::Result<Cli> {
    let words = std::iter::once("conifer").chain(command.iter().copied()).map(OsString::from).chain(arguments);
    Cli::try_parse_from(words).with_context(|| format!("conifer {}", command.join(" ")))
}

/// The error and its causes. A cause that the text already contains is left out, because errors of conifer often quote
/// their causes.
pub fn message(error: &anyhow::Error) -> String {
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
