//! End-to-end tests that run the `conifer` program.
#![allow(clippy::unwrap_used)]

mod bad_input;
mod build;
mod chains;
mod claims;
mod configs;
mod data;
mod documents;
mod embed;
mod explorer;
mod features;
mod figure;
mod first_hour;
mod goldens;
mod grounding;
mod journey;
mod map_layers;
mod mpi;
mod onnx;
mod predict;
mod profile;
mod project;
mod serve;
mod store;
mod suite;
mod vectors;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Root folder of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs `conifer` in `folder`. The Hugging Face cache is inside it, and downloads are disabled.
fn conifer(folder: &Path, args: &[&str]) -> Output {
    command(folder, args).output().unwrap()
}

/// The command that [`conifer`] runs, not yet started.
fn command(folder: &Path, args: &[&str]) -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_conifer"));
    program
        .env("HF_HUB_OFFLINE", "1")
        .env("HF_HUB_CACHE", folder.join("hub"))
        .env("XDG_CACHE_HOME", folder.join("cache"));
    program.current_dir(folder).args(args);
    program
}

/// Runs `conifer`, asserts that it succeeds and returns stdout.
fn good(folder: &Path, args: &[&str]) -> String {
    let output = conifer(folder, args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "conifer {}: {stderr}", args.join(" "));
    String::from_utf8(output.stdout).unwrap()
}

/// Runs `conifer` and asserts exit code 1, no panic, and every one of `words` in stderr.
fn refused(folder: &Path, args: &[&str], words: &[&str]) {
    let output = conifer(folder, args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "conifer {}: {stderr}", args.join(" "));
    assert!(!stderr.contains("panicked"), "{stderr}");
    for word in words {
        assert!(stderr.contains(word), "conifer {}: `{word}` is not in: {stderr}", args.join(" "));
    }
}
