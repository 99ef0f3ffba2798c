//! The program as its users meet it. The only integration binary of the workspace.
#![allow(clippy::unwrap_used)]

mod bad_input;
mod configs;
mod data;
mod documents;
mod embed;
mod explorer;
mod first_hour;
mod goldens;
mod journey;
mod serve;
mod store;
mod suite;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs `conifer` in `folder`, where the hub's cache is, too; no model is fetched.
fn conifer(folder: &Path, args: &[&str]) -> Output {
    command(folder, args).output().unwrap()
}

/// The same, not yet begun.
fn command(folder: &Path, args: &[&str]) -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_conifer"));
    program
        .env("HF_HUB_OFFLINE", "1")
        .env("HF_HUB_CACHE", folder.join("hub"))
        .env("XDG_CACHE_HOME", folder.join("cache"));
    program.current_dir(folder).args(args);
    program
}

/// Runs it and expects success; returns stdout.
fn good(folder: &Path, args: &[&str]) -> String {
    let output = conifer(folder, args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "conifer {}: {stderr}", args.join(" "));
    String::from_utf8(output.stdout).unwrap()
}

/// Runs it and expects exit code 1, no panic, and every one of `words` in the message.
fn refused(folder: &Path, args: &[&str], words: &[&str]) {
    let output = conifer(folder, args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "conifer {}: {stderr}", args.join(" "));
    assert!(!stderr.contains("panicked"), "{stderr}");
    for word in words {
        assert!(stderr.contains(word), "conifer {}: `{word}` is not in: {stderr}", args.join(" "));
    }
}
