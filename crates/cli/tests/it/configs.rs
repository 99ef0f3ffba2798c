use crate::{good, refused, root};

/// All experiments. `configs/base` is left out, because it holds only parts of experiments.
fn configs() -> Vec<String> {
    let below = |folder: &str| {
        let entries = std::fs::read_dir(root().join(folder)).unwrap();
        let names = entries.map(|entry| format!("{folder}/{}", entry.unwrap().file_name().to_string_lossy()));
        names.filter(|name| name.ends_with(".toml")).collect::<Vec<_>>()
    };
    let mut names = [below("configs"), below("configs/papers")].concat();
    names.sort();
    names
}

#[test]
fn every_config_checks_and_starts_with_its_command() {
    for name in configs() {
        good(&root(), &["config", "check", &name]);
        let text = std::fs::read_to_string(root().join(&name)).unwrap();
        assert!(text.starts_with("# conifer "), "{name} must begin with the command that runs it");
    }
}

#[test]
fn every_config_runs_under_smoke() {
    let folder = tempfile::tempdir().unwrap();
    let names = configs();
    let run = |name: &String| {
        let out = folder.path().join(name.replace('/', "_"));
        let mut args = vec!["--json", "train", name, "--smoke", "--out", out.to_str().unwrap()];
        if name.contains("papers/") {
            // Ablations differ from the other papers' configs only in a weight or a loss term, so a few steps are
            // enough.
            args.extend(["--set", "train.steps=4", "--set", "optim.warmup_steps=1"]);
        }
        let printed = good(&root(), &args);
        let result: serde_json::Value = serde_json::from_str(&printed).unwrap();
        assert!(result["loss"].as_f64().unwrap().is_finite(), "{name}: {printed}");
    };
    // A run this small uses one core, so two run in parallel.
    std::thread::scope(|scope| {
        for half in 0..2 {
            let (names, run) = (&names, &run);
            scope.spawn(move || names.iter().skip(half).step_by(2).for_each(run));
        }
    });
}

#[test]
fn a_resolved_config_is_a_config() {
    let folder = tempfile::tempdir().unwrap();
    let resolved = good(&root(), &["config", "print", "configs/toy_phyclip.toml", "--set", "train.steps=77"]);
    assert!(resolved.contains("steps = 77"), "{resolved}");
    let path = folder.path().join("resolved.toml");
    std::fs::write(&path, &resolved).unwrap();
    assert_eq!(good(&root(), &["config", "print", path.to_str().unwrap()]), resolved);
}

#[test]
fn wrong_keys_and_values_are_refused_by_name() {
    let config = "configs/toy_clip.toml";
    refused(&root(), &["config", "print", config, "--set", "train.step=3"], &["train.step", "steps"]);
    refused(&root(), &["config", "print", config, "--set", "train.steps=many"], &["train.steps"]);
    refused(&root(), &["config", "print", config, "--set", "method.kind=clop"], &["clop", "phyclip"]);
    refused(&root(), &["config", "print", "configs/absent.toml"], &["absent.toml"]);
}
