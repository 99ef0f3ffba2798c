//! Runs every example and checks its output.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs an example. Cargo builds the examples together with the tests, into `examples/` of the target folder.
fn run(name: &str, args: &[&Path]) -> String {
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().and_then(Path::parent).unwrap();
    let program: PathBuf = profile.join("examples").join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    let output = Command::new(&program).args(args).output();
    let output = output.unwrap_or_else(|error| panic!("{}: {error}", program.display()));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{name}: {}\n{text}{}", output.status, String::from_utf8_lossy(&output.stderr));
    text
}

#[test]
fn search_finds_the_rows_of_each_ranking() {
    let text = run("search", &[]);
    let section = |title: &str| {
        let rest = text.split(title).nth(1).unwrap_or_else(|| panic!("no `{title}` in {text}"));
        let lines = rest.lines().skip(1).take_while(|line| !line.is_empty());
        lines.map(|line| line.split_whitespace().next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(section("nearest to \"dog\"")[0], "dog");
    let mut animals = section("photos narrower than \"animal\"");
    animals.sort();
    assert_eq!(animals, ["cat/1.jpg", "cat/2.jpg", "dog/1.jpg", "dog/2.jpg"]);
    assert!(section("texts broader than \"dog/1.jpg\"")[..2].contains(&"dog".to_owned()));
    assert_eq!(section("from general to specific below \"animal\"")[0], "animal");
    let mut cats = section("animals that are no dogs");
    cats.retain(|id| id != "animal");
    assert!(!cats.is_empty() && cats.iter().all(|id| id.starts_with("cat")), "{cats:?}");
    assert!(section("reviewed rows nearest to \"vehicle\"").contains(&"bus/2.jpg".to_owned()));
}

#[test]
fn a_walk_names_the_class_before_the_general_word() {
    let text = run("walk_to_root", &[]);
    assert!(text.contains("dog/1.jpg: dog -> animal -> (root)"), "{text}");
    assert!(text.contains("bus/1.jpg: bus -> vehicle -> (root)"), "{text}");
}

/// Photos 1 to 3 are nearest to their captions. The cosine of photo 4 is .77 with caption 2, but .68 with its own
/// (computed by hand).
#[test]
fn arrays_are_evaluated() {
    let text = run("evaluate_arrays", &[]);
    assert!(text.contains("recall@1 0.75") && text.contains("by chance 0.25"), "{text}");
}

#[test]
fn a_model_is_trained_fine_tuned_and_used() {
    let folder = tempfile::tempdir().unwrap();
    let out = |name: &str| folder.path().join(name);
    let text = run("train_toy", &[&out("toy"), Path::new("4")]);
    assert!(text.contains("an animal:") && text.contains("from the root"), "{text}");
    let text = run("fine_tune", &[&out("toy"), &out("tuned")]);
    assert!(text.contains("step 20 loss") && text.contains("lorentz(dim 32"), "{text}");
    let text = run("embed_photos", &[]);
    assert!(text.starts_with("8 rows in"), "{text}");
}

#[test]
fn a_method_and_a_space_from_another_crate_train_and_search() {
    let folder = tempfile::tempdir().unwrap();
    assert!(run("own_method", &[&folder.path().join("method")]).contains("step 10 loss"));
    let text = run("own_space", &[&folder.path().join("space")]);
    assert!(text.contains("step 10 loss") && text.contains("a red dog"), "{text}");
}
