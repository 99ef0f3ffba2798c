//! Training in several processes. `conifer-train` tests ranks on threads; these tests run real processes. They need
//! `mpirun` and a program built with the feature `mpi`, and are skipped with a message otherwise.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::{command, good, refused};

fn skipped() -> bool {
    let found = Command::new("mpirun").arg("--version").output().is_ok_and(|output| output.status.success());
    let reason = match (cfg!(feature = "mpi"), found) {
        (true, true) => return false,
        (false, _) => "the program was built without the feature `mpi`",
        (true, false) => "there is no mpirun",
    };
    eprintln!("skipped: {reason}");
    true
}

/// `conifer` with `args` in each of `size` processes. The arguments of the last process are followed by `last`.
fn mpirun(folder: &Path, size: usize, args: &[&str], last: &[&str]) -> Command {
    let conifer = command(folder, &[]);
    let mut program = Command::new("mpirun");
    program.current_dir(folder).env("RAYON_NUM_THREADS", "1");
    program.envs(conifer.get_envs().filter_map(|(name, value)| Some((name, value?))));
    // Both MPI libraries; Open MPI refuses to start as root, or more processes than cores.
    program.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    program
        .env("OMPI_MCA_rmaps_base_oversubscribe", "1")
        .env("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe");
    let name = conifer.get_program();
    program.args(["-n", &(size - 1).to_string()]).arg(name).args(args);
    program.args([":", "-n", "1"]).arg(name).args(args).args(last);
    program
}

fn run(folder: &Path, size: usize, args: &[&str], last: &[&str]) -> (Output, String) {
    let output = mpirun(folder, size, args, last).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, stderr)
}

/// Writes toy data and the config of a small experiment that logs the loss of every step.
fn write_config(folder: &Path) {
    good(folder, &["data", "toy", "--out", "toy", "--size", "40", "--resolution", "16"]);
    let text = "seed = 3
         [data]
         kind = 'jsonl'
         path = 'toy/scenes.jsonl'
         min_box_pixels = 1
         [tokenizer]
         kind = 'train'
         vocab_size = 540
         [model]
         embed_dim = 16
         visual = { kind = 'vit', image_size = 16, patch = 8, width = 16, depth = 2, heads = 2 }
         textual = { kind = 'text_transformer', vocabulary = 540, context = 16, width = 16, depth = 2, heads = 2 }
         [method]
         kind = 'hycoclip'
         [optim]
         lr = 1e-3
         warmup_steps = 2
         [train]
         steps = 10
         batch_size = 9
         log_every = 1
         checkpoint_every = 2";
    fs::write(folder.join("c.toml"), text).unwrap();
}

fn losses(run: &Path) -> Vec<f64> {
    let text = fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    let records = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    records.map(|record| record["loss"].as_f64().unwrap()).collect()
}

/// A build without MPI refuses to start as one of four processes, but starts as a single process of a launcher.
#[test]
#[cfg(not(feature = "mpi"))]
fn several_processes_without_mpi_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    write_config(folder.path());
    let start = |rank: &str, size: &str| {
        let args = ["train", "c.toml", "--out", "run", "--set", "train.steps=1", "--set", "optim.warmup_steps=0"];
        let mut program = command(folder.path(), &args);
        program.env("OMPI_COMM_WORLD_RANK", rank).env("OMPI_COMM_WORLD_SIZE", size).output().unwrap()
    };
    for (rank, reports) in [("0", true), ("1", false)] {
        let output = start(rank, "4");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert_eq!(stderr.contains("training in 4 processes: this build of conifer has no MPI"), reports, "{stderr}");
        assert_eq!(stderr.contains("--features mpi"), reports, "{stderr}");
    }
    assert!(!folder.path().join("run").exists());
    assert!(start("0", "1").status.success());
}

#[test]
fn processes_train_as_one_and_resume_on_another_number() {
    if skipped() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    write_config(at);
    good(at, &["train", "c.toml", "--out", "one"]);
    let expected = losses(&at.join("one"));
    for size in [2, 4] {
        let out = format!("on{size}");
        let (output, stderr) = run(at, size, &["train", "c.toml", "--out", &out], &[]);
        assert!(output.status.success(), "{stderr}");
        let printed = String::from_utf8_lossy(&output.stdout);
        assert_eq!(printed.matches("finished: 10 steps").count(), 1, "{printed}");
        assert_eq!(stderr.matches(&format!("{size} ranks train together")).count(), 1, "{stderr}");
        close(&losses(&at.join(&out)), &expected);
    }
    // Each process computes its rows of the loss.
    let args = ["train", "c.toml", "--out", "own", "--set", "train.loss_rows=own"];
    let (output, stderr) = run(at, 4, &args, &[]);
    assert!(output.status.success(), "{stderr}");
    close(&losses(&at.join("own")), &expected);
    let first = ["train", "c.toml", "--out", "moved"];
    let mut child = mpirun(at, 4, &first, &[]).stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    wait_for(&at.join("moved/checkpoints/step_00000002"));
    assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
    child.wait().unwrap();
    let (output, stderr) = run(at, 2, &["train", "--resume", "moved"], &[]);
    assert!(output.status.success(), "{stderr}");
    close(&losses(&at.join("moved")), &expected);
}

/// Embedding with several MPI ranks writes the same files as with one, and training with several ranks gives the same
/// evaluation results. Ranks with different arguments fail.
#[test]
fn processes_embed_and_evaluate_as_one() {
    if skipped() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    write_config(at);
    let evaluation = ["--set", "eval.every=5", "--set", "eval.benchmarks=['cross_modal_retrieval']"];
    let train = |out| [&["train", "c.toml", "--out", out], &evaluation[..]].concat();
    good(at, &train("one"));
    let (output, stderr) = run(at, 3, &train("three"), &[]);
    assert!(output.status.success(), "{stderr}");
    let measured = |run: &str| {
        let text = fs::read_to_string(at.join(run).join("metrics.jsonl")).unwrap();
        let records = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        records.map(|record| record["eval"].clone()).filter(|eval| !eval.is_null()).collect::<Vec<_>>()
    };
    // The weights of both runs differ by rounding, which does not change the ranking of these 40 photos.
    assert_eq!(measured("one").len(), 2);
    assert_eq!(measured("one"), measured("three"));

    // 40 samples are two chunks of photos, so one of three processes has none; texts have several rounds.
    good(at, &embed_args("set1"));
    for size in [2, 3] {
        let out = format!("set{size}");
        let (output, stderr) = run(at, size, &embed_args(&out), &[]);
        assert!(output.status.success(), "{stderr}");
        assert_eq!(String::from_utf8_lossy(&output.stdout).matches("rows -> ").count(), 1);
        for file in fs::read_dir(at.join("set1")).unwrap() {
            let name = file.unwrap().file_name();
            let [one, several] = ["set1", &out].map(|set| fs::read(at.join(set).join(&name)).unwrap());
            assert!(one == several, "{} differs on {size} processes", name.display());
        }
        let (output, stderr) = run(at, size, &embed_args(&out), &[]);
        assert!(output.status.success(), "{stderr}");
        assert_eq!(String::from_utf8_lossy(&output.stdout).matches("already complete").count(), 1);
    }
    let (output, stderr) = run(at, 2, &embed_args("other"), &["--dtype", "f16"]);
    assert!(!output.status.success());
    assert_eq!(stderr.matches("`embedding job` differs between the ranks").count(), 1, "{stderr}");
    assert!(!at.join("other").exists());
}

fn embed_args(out: &str) -> Vec<&str> {
    let views = "image,text,box-image,box-text";
    let data = ["embed", "one", "--data", "toy/scenes.jsonl", "--views", views];
    data.into_iter().chain(["--batch-size", "4", "--out", out]).collect()
}

#[track_caller]
fn close(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() <= 1e-5 * b.abs()), "{found:?} against {expected:?}");
}

fn wait_for(path: &Path) {
    let start = Instant::now();
    while !path.exists() {
        assert!(start.elapsed() < Duration::from_secs(60), "{} does not appear", path.display());
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn an_error_of_one_process_ends_all_and_is_printed_once() {
    if skipped() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    write_config(at);
    let once = |stderr: &str, words: &str| assert_eq!(stderr.matches(words).count(), 1, "`{words}` in {stderr}");
    let train = ["train", "c.toml", "--out", "run"];
    let (output, stderr) = run(at, 3, &train, &["--set", "optim.lr=2e-3"]);
    assert!(!output.status.success());
    once(&stderr, "`config` differs between the ranks (ranks 0, 1 of 3: ");
    let (output, stderr) = run(at, 3, &train, &["--set", "data.path=missing.jsonl"]);
    assert!(!output.status.success());
    once(&stderr, "error: rank 2 of 3: ");
    once(&stderr, "missing.jsonl");
    let (output, stderr) = run(at, 3, &train, &["--set", "optim.lrr=1"]);
    assert!(!output.status.success());
    once(&stderr, "error: rank 2 of 3: ");
    assert!(!at.join("run/checkpoints/latest").exists());
    refused(at, &["train", "--resume", "run"], &["run"]);
}

/// After a process is killed, the job must end within ten seconds, and the last checkpoint must be complete.
#[test]
fn a_killed_process_ends_the_job_and_the_run_resumes() {
    if skipped() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    write_config(at);
    let args = ["train", "c.toml", "--out", "run", "--set", "train.steps=100000", "--set", "train.checkpoint_every=5"];
    let child = mpirun(at, 4, &args, &[]).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    wait_for(&at.join("run/checkpoints/step_00000010"));
    let ranks = processes(at);
    assert_eq!(ranks.len(), 4, "{ranks:?}");
    let killed = Instant::now();
    assert!(Command::new("kill").args(["-9", &ranks[2]]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert!(killed.elapsed() < Duration::from_secs(10), "{:?}", killed.elapsed());
    assert!(!output.status.success());
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("train --resume run"), "the command to go on is named: {stderr}");
    assert!(processes(at).is_empty());
    let before = losses(&at.join("run"));
    // The checkpoint is complete: the run resumes from it and trains three more steps.
    let latest = fs::read_to_string(at.join("run/checkpoints/latest")).unwrap();
    let config = at.join("run/checkpoints").join(latest.trim()).join("config.toml");
    let step: usize = latest.trim().trim_start_matches("step_").parse().unwrap();
    let text = fs::read_to_string(&config).unwrap().replace("steps = 100000", &format!("steps = {}", step + 3));
    fs::write(&config, text).unwrap();
    let (output, stderr) = run(at, 2, &["train", "--resume", "run"], &[]);
    assert!(output.status.success(), "{stderr}");
    let after = losses(&at.join("run"));
    assert_eq!(after.len(), step + 3);
    assert_eq!(after[..step], before[..step]);
}

/// Ids of the processes of the program whose working folder is `folder`, without the launcher.
fn processes(folder: &Path) -> Vec<String> {
    let folder = fs::canonicalize(folder).unwrap();
    let program = fs::canonicalize(env!("CARGO_BIN_EXE_conifer")).unwrap();
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let ours = entries.filter(|entry| {
        let link = |name: &str| fs::read_link(entry.path().join(name)).ok();
        link("cwd").is_some_and(|it| it == folder) && link("exe").is_some_and(|it| it == program)
    });
    ours.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}
