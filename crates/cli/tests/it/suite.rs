//! A user-defined suite: its report files, and comparing two reports.

use serde_json::Value;

use crate::{conifer, good, refused, root};

const SUITE: &str = r#"
    name = "mine"
    title = "Toy classes"
    reference = "toy"
    [[task]]
    id = "classes"
    data = "classes"
    benchmark = "zero_shot_classification"
    prompts = "photo"
    scores = ["similarity", "inner"]
    paper = "-"
    released = "-"
    [[task]]
    id = "tree"
    data = "classes"
    benchmark = "hierarchical_classification"
    prompts = "photo"
    paper = "-"
    released = "-"
    [[task]]
    id = "away"
    data = "away"
    benchmark = "cross_modal_retrieval"
    paper = "-"
    released = "-"
    [[table]]
    title = "Classes"
    source = "Table 1"
    digits = 1
    factor = 100
    variants = [{ name = "distance", protocol = ["similarity"] }, { name = "inner", protocol = ["inner product"] }]
    columns = [
        { header = "accuracy", task = "classes", metric = "accuracy (macro)" },
        { header = "TIE", task = "tree", metric = "TIE", factor = 1, better = "lower" },
        { header = "R@1", task = "away", split = "text_to_image", metric = "recall@1" },
    ]
    rows = [{ model = "somebody's", values = [12.5, 3.4, nan] }]
"#;

#[test]
fn suite_is_evaluated_reported_and_compared() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    good(at, &["data", "toy", "--out", "toy", "--size", "8", "--resolution", "32"]);
    let config = root().join("configs/toy_meru.toml");
    good(at, &["train", config.to_str().unwrap(), "--smoke", "--out", "run"]);
    std::fs::write(at.join("mine.toml"), SUITE).unwrap();
    std::fs::create_dir_all(at.join("sets/classes")).unwrap();
    let description = "kind = \"image_folder\"\npath = \"../../toy/classes\"\ntree = \"../../toy/tree.txt\"\n";
    std::fs::write(at.join("sets/classes/source.toml"), description).unwrap();

    // A data set is missing: the report is still printed and written, and the exit code is 1.
    let suite = ["eval", "suite", "run", "mine.toml", "--root", "sets"];
    let output = conifer(at, &[&suite[..], &["--out", "a.jsonl"]].concat());
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("1 task has no data, first away"), "{stderr}");
    for words in ["somebody's", "(distance)", "(inner)", "chance / trivial", "missing: away", "source.toml"] {
        assert!(stdout.contains(words), "{words} is not in {stdout}");
    }
    let lines = std::fs::read_to_string(at.join("a.jsonl")).unwrap();
    for line in lines.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        assert!(line["produced_by"]["data_sha256"].is_string() && line["task"]["suite"] == "mine", "{line}");
    }
    let report = good(at, &[&suite[..], &["--partial", "--format", "md"]].concat());
    assert!(report.starts_with("# mine: Toy classes") && report.contains("## Not measured"), "{report}");
    good(at, &[&suite[..], &["--partial", "--out", "a.tex"]].concat());
    assert!(std::fs::read_to_string(at.join("a.tex")).unwrap().contains("\\toprule"));

    // An existing report is replaced only with --overwrite.
    refused(at, &[&suite[..], &["--partial", "--out", "a.tex"]].concat(), &["a.tex exists", "--overwrite"]);
    good(at, &[&suite[..], &["--partial", "--out", "a.tex", "--overwrite"]].concat());
    refused(at, &[&suite[..], &["--name", "a\nb"]].concat(), &["--name", "control"]);

    // One of two benchmarks fails: the records of the other are still printed and appended to `--out`, unless that file
    // holds anything but records.
    let two = [
        "eval",
        "run",
        "run",
        "--data",
        "image_folder:toy/classes",
        "--benchmark",
        "hyperlex,zero_shot_classification",
    ];
    let output = conifer(at, &[&two[..], &["--out", "two.jsonl"]].concat());
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("accuracy (macro)"), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("1 of 2 benchmarks failed: hyperlex"), "{output:?}");
    let appended = std::fs::read_to_string(at.join("two.jsonl")).unwrap();
    let first: Value = serde_json::from_str(appended.lines().next().unwrap()).unwrap();
    assert_eq!(first["produced_by"]["settings"]["prompts"]["name"], "photo");
    refused(at, &[&two[..], &["--out", "a.tex"]].concat(), &["a.tex", "records of conifer"]);

    // Nothing could be measured: the existing file is kept.
    std::fs::create_dir(at.join("empty")).unwrap();
    let nothing =
        ["eval", "suite", "run", "mine.toml", "--root", "empty", "--partial", "--overwrite", "--out", "a.jsonl"];
    refused(at, &nothing, &["nothing was measured"]);
    assert_eq!(std::fs::read_to_string(at.join("a.jsonl")).unwrap(), lines);
    let output = conifer(at, &[&suite[..], &["--partial", "--format", "jsonl"]].concat());
    assert!(String::from_utf8_lossy(&output.stderr).contains("missing: away"), "{output:?}");

    // A file compared with itself: every number is paired, with no difference.
    let compared: Value =
        serde_json::from_str(&good(at, &["--json", "eval", "compare", "a.jsonl", "a.jsonl"])).unwrap();
    let comparisons = compared["comparisons"].as_array().unwrap();
    assert_eq!(comparisons.len(), lines.lines().count());
    assert!(comparisons.iter().all(|it| it["verdict"] == "paired" && it["p"] == 1.0), "{compared}");
    let other = lines.replace("\"data_sha256\":\"", "\"data_sha256\":\"0");
    std::fs::write(at.join("b.jsonl"), other).unwrap();
    refused(at, &["eval", "compare", "a.jsonl", "b.jsonl"], &["no number could be compared"]);
    let output = conifer(at, &["eval", "compare", "a.jsonl", "b.jsonl"]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("other data: data_sha256 is"), "{output:?}");
    let squeezed = lines.replace("\"settings\":{\"crop\":\"center\"", "\"settings\":{\"crop\":\"squeeze\"");
    std::fs::write(at.join("b.jsonl"), squeezed).unwrap();
    let output = conifer(at, &["eval", "compare", "a.jsonl", "b.jsonl"]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("crop is `center` in the first, `squeeze`"), "{output:?}");
    std::fs::write(at.join("torn.jsonl"), lines.lines().next().unwrap().to_owned() + "\n{\"bench").unwrap();
    refused(at, &["eval", "compare", "a.jsonl", "torn.jsonl"], &["torn.jsonl", "line 2"]);
}

#[test]
fn missing_eval_arguments_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    for (words, named) in [
        (&["eval"][..], &["run", "suite", "compare"][..]),
        (&["eval", "run"], &["--data", "--benchmark", "<CHECKPOINT>"]),
        (&["eval", "run", "m", "--data", "toy"], &["--benchmark"]),
        (&["eval", "run", "m", "--data", "toy", "--benchmark", "hyperlex", "--format", "md"], &["--format"]),
        (&["eval", "suite", "m", "paper:rcme"], &["--root"]),
        (&["eval", "suite", "m", "--root", "."], &["<SUITE>"]),
        (&["eval", "compare", "a.jsonl"], &["<SECOND>"]),
    ] {
        let output = conifer(at, words);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {stderr}");
        assert!(named.iter().all(|name| stderr.contains(name)), "{words:?}: {stderr}");
    }
    refused(at, &["eval", "suite", "m", "paper:clip", "--root", "."], &["paper:clip", "paper:rcme"]);
    refused(at, &["eval", "suite", "m", "paper:rcme", "--root", "absent"], &["absent is not a folder"]);
}

#[test]
fn earlier_spellings_of_eval_work_and_name_the_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    for (old, new) in [
        (&["eval", "m", "--suite", "paper:clip", "--root", "."][..], "eval suite m --root . paper:clip"),
        (&["eval", "--compare", "a.jsonl", "b.jsonl"], "eval compare a.jsonl b.jsonl"),
        (&["eval", "m", "--data", "toy", "--benchmark", "hyperlex"], "eval run m --data toy --benchmark hyperlex"),
    ] {
        refused(at, old, &["this command is now:", new]);
    }
}
