//! Runs the commands, one module per command. Results go to stdout, progress and warnings to stderr.

mod build;
mod config;
mod convert;
mod data;
mod embed;
pub(crate) mod eval;
#[cfg(feature = "serve")]
mod explore;
pub(crate) mod export;
mod factors;
mod features;
mod figure;
mod hierarchy;
mod lists;
mod place;
mod predict;
mod project;
mod quickstart;
mod reproduce;
mod search;
#[cfg(feature = "serve")]
mod serve;
mod store;
mod towers;
pub(crate) mod train;
mod traverse;

use clap::CommandFactory;

use crate::arguments::{Cli, Command};
use crate::output::print;

/// Runs the command of a parsed command line.
pub(crate) fn run(cli: Cli) -> anyhow::Result<()> {
    let json = cli.json;
    let device = cli.device.open();
    match cli.command {
        Command::Quickstart(args) => quickstart::run(args, json, &device),
        #[cfg(feature = "serve")]
        Command::Explore(args) => explore::run(*args, json, &device),
        Command::Data(args) => data::run(args, json),
        Command::Build(command) => build::run(command, json, &device),
        Command::Train(args) => train::run(args, json, &device),
        Command::Features(args) => features::run(args, json, &device),
        Command::Embed(args) => embed::run(args, json, &device),
        Command::Eval(args) => eval::run(args, json, &device),
        Command::Predict(args) => predict::run(*args, json, &device),
        Command::Reproduce(args) => reproduce::run(&args, json, &device),
        Command::Search(args) => search::run(args, json, &device),
        Command::Store(command) => store::run(command, json),
        Command::Export(args) => export::run(args, json),
        Command::Project(args) => project::run(*args, json),
        Command::Place(args) => place::run(&args, json, &device),
        Command::Factors(args) => factors::run(&args, json, &device),
        Command::Figure(args) => figure::run(&args, json, &device),
        Command::Traverse(args) => traverse::run(args, json, &device),
        Command::Hierarchy(args) => hierarchy::run(*args, json, &device),
        #[cfg(feature = "serve")]
        Command::Serve(args) => serve::serve(*args, json, &device),
        #[cfg(feature = "serve")]
        Command::Front(args) => serve::front(args, json),
        Command::Convert(args) => convert::run(args, json),
        Command::Methods => lists::methods(json),
        Command::Benchmarks => lists::benchmarks(json),
        Command::Encoders { long } => lists::encoders(long, json),
        Command::Spaces => lists::spaces(json),
        Command::Config(args) => config::run(args, json),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "conifer", &mut script);
            print(&String::from_utf8_lossy(&script))
        }
    }
}
