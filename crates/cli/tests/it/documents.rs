//! Checks that the documents show the recorded numbers, and that their code and links work.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::{Command, Stdio};

use crate::{good, root};

/// A recording in `docs/numbers`: the `# key: value` pairs, and the lines of output.
fn recording(name: &str) -> (BTreeMap<String, String>, Vec<String>) {
    let path = root().join(format!("docs/numbers/{name}.txt"));
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let values = text.lines().filter_map(|line| line.strip_prefix("# ")?.split_once(": "));
    let values = values.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    (values, lines.map(|line| line.trim_end().to_owned()).collect())
}

/// The parts of `text` from `open` to the next `close`, without both markers.
fn between<'a>(text: &'a str, open: &str, close: &str) -> Vec<&'a str> {
    text.split(open).skip(1).map(|it| it.split(close).next().unwrap()).collect()
}

/// Checks the output of `docs/render.py` without Python.
#[test]
fn the_documents_show_the_recorded_numbers() {
    let [in_readme, in_guide] = ["README.md", "docs/guide.md"].map(recorded_numbers);
    assert!(in_readme > 1 && in_guide > 0, "{in_readme} recorded numbers in README.md, {in_guide} in docs/guide.md");
}

/// Checks the recorded numbers of a document and returns how many it shows.
fn recorded_numbers(document: &str) -> usize {
    let text = fs::read_to_string(root().join(document)).unwrap();
    let blocks = between(&text, "<!-- numbers: ", "<!-- /numbers -->");
    let inline = between(&text, "<!-- number: ", "<!-- /number -->");
    let count = blocks.len() + inline.len();
    for block in blocks {
        let (marker, shown) = block.split_once(" -->\n").unwrap();
        let (name, words) = marker.split_once(": ").unwrap_or((marker, ""));
        let words: Vec<&str> = words.split(',').map(str::trim).filter(|it| !it.is_empty()).collect();
        let (_, lines) = recording(name);
        let wanted = |line: &&String| words.is_empty() || words.iter().any(|word| line.contains(word));
        let rows = lines[..1].iter().chain(lines[1..].iter().filter(wanted));
        let expected: String = rows.map(|line| format!("{line}\n")).collect();
        assert_eq!(
            shown,
            format!("```text\n{expected}```\n"),
            "{document} differs from docs/numbers/{name}.txt: run docs/render.py"
        );
    }
    for value in inline {
        let (marker, shown) = value.split_once(" -->").unwrap();
        let (name, key) = marker.split_once('.').unwrap();
        let (values, _) = recording(name);
        assert_eq!(values.get(key).map(String::as_str), Some(shown), "{document}: {marker}; run docs/render.py");
    }
    count
}

/// The Python code in `docs/formats.md` writes a set that the program reads, and vectors from which it trains a head.
#[test]
fn a_set_from_numpy_is_searched() {
    let formats = fs::read_to_string(root().join("docs/formats.md")).unwrap();
    let code = between(&formats, "```python\n", "```");
    let [set, vectors] = code[..] else { panic!("docs/formats.md has {} blocks of Python; expected two", code.len()) };
    let quiet = |it: &mut Command| it.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|it| it.success());
    if !quiet(Command::new("python3").args(["-c", "import numpy"])) {
        eprintln!("skipped: there is no python3 with numpy");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for code in [set, vectors] {
        let output = Command::new("python3").args(["-c", code]).current_dir(folder.path()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let config = root().join("configs/own_vectors.toml");
    let few = ["--set", "train.steps=3", "--set", "optim.warmup_steps=1", "--set", "train.batch_size=32"];
    good(folder.path(), &[&["train", config.to_str().unwrap()][..], &few[..]].concat());
    let found = good(folder.path(), &["--json", "search", "numpy-set", "--id", "row7", "-k", "3"]);
    let found: Vec<serde_json::Value> = serde_json::from_str(&found).unwrap();
    assert_eq!((found.len(), &found[0]["id"], &found[0]["columns"]["text"]), (3, &"row7".into(), &"photo 7".into()));
    assert!(
        good(folder.path(), &["store", "create", "store", "numpy-set"]).contains("100"),
        "a store accepts the set too"
    );
}

/// README lists what works on a graphics card, and its second section is about the reader's own photos.
#[test]
fn readme_names_graphics_cards_and_own_photos_early() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    assert!(readme.contains("**Graphics cards.** "));
    assert_eq!(readme.lines().filter(|line| line.starts_with("## ")).nth(1), Some("## Your own photos"));
}

/// Every file and every heading that a document links to exists.
#[test]
fn links_of_the_documents_resolve() {
    let mut documents: Vec<_> = ["", "docs", "docs/methods", "docs/papers", "docs/numbers", "configs", "bench"]
        .into_iter()
        .flat_map(|folder| fs::read_dir(root().join(folder)).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|it| it == "md"))
        .collect();
    documents.sort();
    assert!(documents.len() > 15, "{documents:?}");
    for document in documents {
        let text = fs::read_to_string(&document).unwrap();
        for target in between(&text, "](", ")") {
            if target.starts_with("http") {
                continue;
            }
            let (path, heading) = target.split_once('#').unwrap_or((target, ""));
            let file = if path.is_empty() { document.clone() } else { document.parent().unwrap().join(path) };
            assert!(file.exists(), "{} links to {target}", document.display());
            if !heading.is_empty() {
                let linked = fs::read_to_string(&file).unwrap();
                let headings = linked.lines().filter(|line| line.starts_with('#')).map(anchor);
                assert!(headings.into_iter().any(|it| it == heading), "{} links to {target}", document.display());
            }
        }
    }
}

/// The table of contents of the book names every page of `docs`, `docs/methods` and `docs/papers` once.
#[test]
fn every_page_is_in_the_book() {
    let summary = fs::read_to_string(root().join("docs/SUMMARY.md")).unwrap();
    let mut listed: Vec<String> = between(&summary, "](", ")").into_iter().map(str::to_owned).collect();
    let mut pages = Vec::new();
    for folder in ["", "methods/", "papers/"] {
        for entry in fs::read_dir(root().join("docs").join(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if name.ends_with(".md") && name != "SUMMARY.md" {
                pages.push(format!("{folder}{name}"));
            }
        }
    }
    listed.sort();
    pages.sort();
    assert_eq!(listed, pages);
}

/// The tables of `docs/papers` name only things that exist: configs, methods, benchmarks, suites, commands, and rows of
/// DEVIATIONS.md. Their last lines count the rows of each kind.
#[test]
fn the_tables_of_the_papers_name_what_exists() {
    let names = |list: &str, key: &str| -> BTreeSet<String> {
        let rows: Vec<serde_json::Value> = serde_json::from_str(&good(&root(), &["--json", list])).unwrap();
        rows.iter().map(|row| row[key].as_str().unwrap().to_owned()).collect()
    };
    let (methods, benchmarks) = (names("methods", "name"), names("benchmarks", "name"));
    let help = good(&root(), &["--help"]);
    let deviations = fs::read_to_string(root().join("DEVIATIONS.md")).unwrap();
    let mut papers: Vec<_> =
        fs::read_dir(root().join("docs/papers")).unwrap().map(|entry| entry.unwrap().path()).collect();
    papers.sort();
    assert_eq!(papers.len(), 5, "{papers:?}");
    for paper in papers {
        let text = fs::read_to_string(&paper).unwrap();
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for line in text.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| in the paper")) {
            let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
            let [item, _, kind, place] = cells[..] else { panic!("{}: four columns in {line}", paper.display()) };
            let quoted = between_ticks(place);
            let any = |known: &dyn Fn(&str) -> bool| quoted.iter().any(|name| known(name));
            let right = match kind {
                "config" => {
                    let configs: Vec<_> = quoted.iter().filter(|name| name.ends_with(".toml")).collect();
                    !configs.is_empty() && configs.iter().all(|name| root().join(name).is_file())
                }
                "command" => any(&|name| {
                    let word = name.strip_prefix("conifer ").and_then(|rest| rest.split(' ').next());
                    word.is_some_and(|word| help.lines().any(|line| line.trim_start().starts_with(&format!("{word} "))))
                }),
                "method" => any(&|name| methods.contains(name)),
                "benchmark" => any(&|name| benchmarks.contains(name)),
                "suite" => any(&|name| conifer_eval::Suite::find(name).is_ok()),
                "deviation" => {
                    let row = |name: &str| deviations.lines().any(|line| line.starts_with(&format!("| {name} |")));
                    place.split(|c: char| !c.is_ascii_alphanumeric()).any(row)
                }
                "planned" => ["Fidelity", "Construct", "Atlas", "Claims"]
                    .iter()
                    .any(|issue| place.starts_with(&format!("planned: {issue}"))),
                "text" => !place.is_empty(),
                _ => false,
            };
            assert!(right, "{}: {item}: `{kind}` and `{place}`", paper.display());
            *counts.entry(kind.to_owned()).or_default() += 1;
        }
        assert!(counts.values().sum::<usize>() > 15, "{}: {counts:?}", paper.display());
        let last = text.lines().last().unwrap_or_default();
        let total = format!("; {} in all.", counts.values().sum::<usize>());
        let counted = |(kind, count): (&String, &usize)| {
            [",", ";"].iter().any(|end| last.contains(&format!(" {kind} {count}{end}")))
        };
        let right = last.starts_with("Rows by kind: ") && last.ends_with(&total) && counts.iter().all(counted);
        assert!(right, "{}: the last line is {last:?}; expected {counts:?}{total}", paper.display());
    }
}

/// The parts of `text` between back ticks.
fn between_ticks(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// The anchor of a heading in Markdown: lower case, hyphens for spaces, no punctuation.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    text.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c)).collect::<String>().replace(' ', "-")
}

/// `pip install ./python` builds with `--locked`, so a new dependency of a crate has to be in the lock file of the
/// Python package. `cargo metadata --manifest-path python/Cargo.toml` adds it.
#[test]
fn the_lock_file_of_the_python_package_is_complete() {
    let toml = |path: &str| -> toml::Table { fs::read_to_string(root().join(path)).unwrap().parse().unwrap() };
    let names = |value: Option<&toml::Value>| -> BTreeSet<String> {
        let word = |it: &toml::Value| it.as_str().unwrap().split(' ').next().unwrap().to_owned();
        value.map_or_else(BTreeSet::new, |it| it.as_array().unwrap().iter().map(word).collect())
    };
    let lock = toml("python/Cargo.lock");
    let mut crates = 0;
    for package in lock["package"].as_array().unwrap() {
        let name = package["name"].as_str().unwrap();
        let folder = format!("crates/{}", name.trim_start_matches("conifer-"));
        if !name.starts_with("conifer") || !root().join(&folder).exists() {
            continue;
        }
        crates += 1;
        let manifest = toml(&format!("{folder}/Cargo.toml"));
        // The lock file has optional dependencies only if the package uses them.
        let optional = |it: &toml::Value| it.get("optional").is_some_and(|it| it.as_bool() == Some(true));
        let needed = manifest.get("dependencies").and_then(toml::Value::as_table).into_iter().flatten();
        let needed: BTreeSet<String> = needed.filter(|it| !optional(it.1)).map(|it| it.0.clone()).collect();
        let missing: Vec<_> = needed.difference(&names(package.get("dependencies"))).cloned().collect();
        assert!(missing.is_empty(), "python/Cargo.lock: {name} lacks {missing:?}");
    }
    assert!(crates > 10, "{crates} crates of the workspace are in python/Cargo.lock");
}
