//! `conifer predict` with the built-in encoders on the toy world, and the same predictions over HTTP.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::{command, conifer, good, refused, root};

const SEEN: [&str; 6] =
    ["--data-option", "classes=seen", "--data-option", "per_class=2", "--data-option", "resolution=64"];
const PROMPTS: [&str; 4] = ["--tree", "tree.txt", "--prompts", "prompts.txt"];

/// Writes the class tree of the toy world and prompts. Returns the path of the encoders.
fn toy(folder: &Path) -> String {
    good(folder, &["data", "toy", "--out", "toy", "--size", "1", "--resolution", "64"]);
    fs::rename(folder.join("toy/tree.txt"), folder.join("tree.txt")).unwrap();
    fs::write(folder.join("prompts.txt"), "{}\na {}\na photo of a {}\n").unwrap();
    root().join("crates/cli/assets/toy_towers").to_str().unwrap().to_owned()
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| panic!("{text}"))
}

fn result<'a>(report: &'a Value, method: &str, group: &str) -> &'a Value {
    let results = report["results"].as_array().unwrap();
    results.iter().find(|it| it["method"] == method && it["group"] == group).unwrap_or_else(|| panic!("{report}"))
}

#[test]
fn calibrated_predictions_keep_the_risk_and_can_be_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let towers = toy(here);
    let test = [&["predict", &towers, "--data", "toy", "--split", "test"], &SEEN[..]].concat();
    let calibration = [&["--calibration-split", "val", "--risk", "0.2"], &PROMPTS[..]].concat();

    // Calibrate, then predict, in one command and in two.
    let outputs = ["--out", "a.csv", "--out", "a.json", "--out", "a.html", "--out-threshold", "t.json"];
    let summary = good(here, &[&test[..], &calibration, &outputs].concat());
    for words in ["at most 20 % of the answers are wrong", "no guarantee for unseen classes", "top-1 class"] {
        assert!(summary.contains(words), "{summary}");
    }
    let report = parsed(&fs::read_to_string(here.join("a.json")).unwrap());
    let ours = result(&report, "class tree", "seen");
    let photos = ours["photos"].as_u64().unwrap();
    assert!(photos >= 100 && report["photos"] == photos, "{ours}");
    // The standard deviation of the risk on so many photos is 0.04.
    assert!(ours["risk"].as_f64().unwrap() < 0.35, "{ours}");
    let depth = |method: &str| result(&report, method, "seen")["mean_depth"].as_f64().unwrap();
    assert!(depth("class tree") > 0.5 && depth("class tree") <= depth("top-1 class"), "{report}");
    let risk = |method: &str| result(&report, method, "seen")["risk"].as_f64().unwrap();
    assert!(risk("class tree") <= risk("top-1 class") + 0.05, "{report}");

    let predictions = report["predictions"].as_array().unwrap();
    let threshold = report["threshold"].as_f64().unwrap();
    for it in predictions {
        let path = it["path"].as_array().unwrap();
        let shares: Vec<f64> = path.iter().map(|step| step["probability"].as_f64().unwrap()).collect();
        assert!(shares.is_sorted_by(|a, b| a >= b) && shares[0] == 1.0, "{it}");
        let len = shares.iter().filter(|share| **share > threshold).count().max(1);
        assert_eq!(
            (&it["answer"], &it["probability"]),
            (&path[len - 1]["name"], &path[len - 1]["probability"]),
            "{it}"
        );
    }
    let csv = fs::read_to_string(here.join("a.csv")).unwrap();
    assert_eq!(csv.lines().count() as u64, photos + 1);
    assert!(csv.starts_with("id,answer,depth,probability,path,class,class_probability,label,right\n"), "{csv}");
    let page = fs::read_to_string(here.join("a.html")).unwrap();
    assert!(page.contains("data:image/png;base64,") && page.contains("backing off") && !page.contains("http"));

    let stored = parsed(&good(here, &[&["--json"], &test[..], &["--threshold", "t.json"]].concat()));
    for field in ["predictions", "results", "threshold", "guarantee", "risk"] {
        assert_eq!(stored[field], report[field], "{field}");
    }
    let checked = [&test[..], &["--threshold", "t.json", "--tree", "tree.txt", "--risk", "0.2", "--json"]].concat();
    assert_eq!(parsed(&good(here, &checked)), stored);

    // A threshold belongs to a model, a tree and a risk.
    fs::write(here.join("other.txt"), "all a\nall b\n").unwrap();
    let with = |more: &[&'static str]| [&test[..], &["--threshold", "t.json"], more].concat();
    refused(here, &with(&["--tree", "other.txt"]), &["tree of the threshold", "other.txt (2 edges below `all`)"]);
    refused(here, &with(&["--risk", "0.3"]), &["--risk is 0.3", "expected 0.2"]);
    let text = fs::read_to_string(here.join("t.json")).unwrap();
    let hash = parsed(&text)["weights_sha256"].as_str().unwrap().to_owned();
    fs::write(here.join("foreign.json"), text.replace(&hash, &"0".repeat(64))).unwrap();
    let foreign = [&test[..], &["--threshold", "foreign.json"]].concat();
    refused(here, &foreign, &["for weights 000000000000", "calibrate again"]);
    fs::write(here.join("torn.json"), &text[..text.len() / 2]).unwrap();
    refused(here, &[&test[..], &["--threshold", "torn.json"]].concat(), &["torn.json", "not readable"]);
    // Without --overwrite, no file is replaced.
    refused(here, &[&test[..], &calibration, &outputs].concat(), &["a.csv exists", "--overwrite"]);

    over_http(here, &towers, &stored);
}

/// The server predicts the same as `conifer predict` for the same photos.
fn over_http(here: &Path, towers: &str, expected: &Value) {
    let data = [&["--data", "toy", "--split", "test"], &SEEN[..]].concat();
    good(here, &[&["embed", towers], &data[..], &["--views", "image", "--out", "set"]].concat());
    let serve = ["serve", "set", "--checkpoint", towers, "--threshold", "t.json", "--port", "0"];
    let mut program = command(here, &serve).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(program.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().rsplit_once("http://").unwrap().1.to_owned();
    let ask = |head: &str, body: &str| {
        let mut stream = TcpStream::connect(&address).unwrap();
        let length = body.len();
        write!(
            stream,
            "{head} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().to_owned(), parsed(body))
    };
    let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        assert_eq!(ask("GET /api/info", "").1["can"]["predict"], true);
        for row in [0, 5] {
            let (status, answer) = ask("POST /api/predict", &json!({ "query": { "row": row } }).to_string());
            let photo = &expected["predictions"][row];
            assert_eq!((status.as_str(), &answer["answer"]), ("200", &photo["answer"]), "{answer}, expected {photo}");
            assert_eq!(answer["guarantee"], expected["guarantee"]);
            let difference = answer["probability"].as_f64().unwrap() - photo["probability"].as_f64().unwrap();
            assert!(difference.abs() < 1e-3, "{answer}, expected {photo}");
            let answered = answer["path"].as_array().unwrap().iter().filter(|it| it["answered"] == true).count();
            assert_eq!(answer["path"][answered - 1]["name"], answer["answer"]);
        }
        assert_eq!(ask("POST /api/predict", "{\"query\":{}}").0, "422");
        assert_eq!(ask("POST /api/predict", "{\"query\":{\"row\":100000}}").0, "404");
    }));
    _ = program.kill();
    _ = program.wait();
    found.unwrap();
    refused(here, &["serve", "set", "--threshold", "t.json", "--port", "0"], &["--threshold t.json", "--checkpoint"]);
}

#[test]
fn held_out_classes_are_calibrated_by_genus() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let towers = toy(here);
    // The seen and the held-out classes are disjoint.
    let all = good(here, &["--json", "data", "check", "--data", "toy", "--data-option", "per_class=1"]);
    assert!(parsed(&all)["samples"].as_u64().unwrap() > 20, "{all}");
    let class_names = |choice: &str| -> Vec<String> {
        let option = format!("classes={choice}");
        let out = format!("{choice}.jsonl");
        let data = ["--data", "toy", "--data-option", &option, "--data-option", "per_class=1"];
        good(here, &[&["data", "export"], &data[..], &["--out", &out]].concat());
        let lines = fs::read_to_string(here.join(out)).unwrap();
        lines.lines().map(|line| parsed(line)["label"].as_str().unwrap().to_owned()).collect()
    };
    let (seen, held_out) = (class_names("seen"), class_names("held_out"));
    assert!(held_out.len() >= 4 && held_out.iter().all(|it| !seen.contains(it)), "{held_out:?}");
    fs::write(here.join("seen.txt"), seen.join("\n")).unwrap();

    let data = ["--data", "toy", "--split", "test", "--data-option", "per_class=3"];
    let calibration =
        ["--calibration-split", "val", "--calibration-option", "classes=seen", "--calibration-option", "per_class=3"];
    let unseen = ["--unseen-option", "classes=held_out", "--unseen-option", "per_class=3"];
    let classes = ["--classes", "seen.txt", "--risk", "0.3", "--json"];
    let args = [&["predict", &towers], &data[..], &PROMPTS, &calibration, &unseen, &classes].concat();
    let report = parsed(&good(here, &args));
    let counts = &report["calibration"]["unseen"];
    assert_eq!(counts["photos"], 3 * held_out.len(), "{counts}");
    assert!(counts["genera"].as_u64().unwrap() > 1, "{counts}");
    let larger =
        counts["threshold"].as_f64().unwrap().max(report["calibration"]["seen"]["threshold"].as_f64().unwrap());
    assert_eq!(report["threshold"], larger);
    assert!(report["guarantee"][1].as_str().unwrap().contains("the same holds for unseen classes"), "{report}");
    let [ours, top] = ["class tree", "top-1 class"].map(|method| result(&report, method, "unseen"));
    assert_eq!((&ours["photos"], &top["risk"], &top["right_branch"]), (&counts["photos"], &1.0.into(), &0.0.into()));
    assert!(ours["risk"].as_f64().unwrap() < 1.0, "{ours}");
    result(&report, "class tree", "all");

    // Photos of the classes are rejected as photos of held-out genera.
    let wrong = ["--unseen-option", "classes=seen", "--unseen-option", "per_class=1", "--unseen-split", "train"];
    let args = [&["predict", &towers], &data[..], &PROMPTS, &calibration, &wrong, &classes].concat();
    refused(here, &args, &["--unseen-calibration", "one of the classes"]);
}

/// Without --tree, the class tree is built from the ranks of all splits, so a class of the predicted photos need not
/// have a calibration photo.
#[test]
fn ranks_of_all_splits_make_the_tree() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let towers = toy(here);
    good(here, &["data", "toy", "--out", "photos", "--size", "8", "--resolution", "64"]);
    let mut lines = String::new();
    let mut classes: Vec<_> = fs::read_dir(here.join("photos/classes")).unwrap().map(|it| it.unwrap().path()).collect();
    classes.sort();
    for (number, class) in classes.iter().enumerate() {
        let label = class.file_name().unwrap().to_str().unwrap();
        for photo in fs::read_dir(class).unwrap() {
            let name = photo.unwrap().file_name().into_string().unwrap();
            let image = format!("photos/classes/{label}/{name}");
            let split = ["calibration", "test"][number % 2];
            let taxon = ["thing", label];
            lines += &format!("{}\n", json!({ "image": image, "label": label, "taxon": taxon, "split": split }));
        }
    }
    fs::write(here.join("ranks.jsonl"), lines).unwrap();
    let args = ["--json", "predict", &towers, "--data", "ranks.jsonl", "--split", "test"];
    let calibration = ["--calibration-split", "calibration", "--risk", "0.9", "--temperature", "0.1"];
    let report = parsed(&good(here, &[&args[..], &calibration].concat()));
    assert_eq!(result(&report, "class tree", "seen")["photos"], report["photos"], "{report}");
}

#[test]
fn invalid_predictions_give_one_message() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let towers = toy(here);
    let few = ["--data-option", "per_class=1", "--data-option", "size=4"];
    let base = [&["predict", &towers, "--data", "toy", "--split", "test"], &few[..]].concat();
    let with = |more: &[&'static str]| [&base[..], more].concat();
    let calibration = &["--calibration-split", "val", "--tree", "tree.txt"][..];
    refused(here, &base, &["no threshold", "--calibration DATA", "--threshold FILE"]);
    for risk in ["0", "1", "1.5", "-0.1", "NaN"] {
        refused(here, &with(&["--calibration-split", "val", &format!("--risk={risk}").leak()[..]]), &["--risk is"]);
    }
    refused(here, &with(&[calibration, &["--temperature=0"]].concat()), &["--temperature is 0", "a positive number"]);
    refused(here, &with(&["--calibration-split", "test"]), &["--calibration-split is the split of --data"]);
    refused(here, &with(&["--calibration-split", "val"]), &["class tree is missing", "--tree FILE"]);
    refused(here, &with(&["--unseen-split", "val"]), &["--unseen-split is given without --calibration"]);
    refused(here, &with(&[calibration, &["--out", "a.xlsx"]].concat()), &["a.xlsx", ".csv, .json or .html"]);
    refused(here, &with(&[calibration, &["--classes", "none.txt"]].concat()), &["--classes none.txt"]);
    fs::write(here.join("classes.txt"), "duck\nunicorn\n").unwrap();
    refused(here, &with(&[calibration, &["--classes", "classes.txt"]].concat()), &["`unicorn`", "class tree"]);
    fs::write(here.join("small.txt"), "all duck\nall owl\n").unwrap();
    let foreign = ["--calibration-split", "val", "--tree", "small.txt"];
    refused(here, &with(&foreign), &["calibration photos: label `", "in the class tree", "one of its 3 nodes"]);
    fs::write(here.join("empty.jsonl"), "{\"id\":\"a\",\"captions\":[\"a dog\"]}\n").unwrap();
    let empty = ["--calibration", "empty.jsonl", "--tree", "tree.txt"];
    refused(here, &with(&empty), &["no photo in 1 samples", "sample `a` has no photo"]);

    // Too few calibration photos: only the root is answered, and the message says how many are needed.
    let few = with(&[calibration, &["--risk", "0.001", "--json"]].concat());
    let output = conifer(here, &few);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && message.contains("expected at least 999"), "{message}");
    let report = parsed(&String::from_utf8(output.stdout).unwrap());
    assert_eq!((&report["threshold"], report["answers_by_depth"].as_array().unwrap().len()), (&Value::Null, 1));
    assert_eq!(result(&report, "class tree", "seen")["risk"], 0.0);

    // A folder whose names are no classes is predicted without judging the answers; unreadable photos are left out.
    good(
        here,
        &[
            "predict",
            &towers,
            "--calibration",
            "toy",
            "--calibration-split",
            "val",
            "--tree",
            "tree.txt",
            "--calibration-option",
            "per_class=1",
            "--out-threshold",
            "t.json",
        ],
    );
    fs::create_dir_all(here.join("photos/holiday")).unwrap();
    let picture = fs::read_dir(here.join("toy/classes/duck")).unwrap().next().unwrap().unwrap().path();
    fs::copy(picture, here.join("photos/holiday/1.png")).unwrap();
    fs::write(here.join("photos/holiday/2.png"), "no picture").unwrap();
    let output = conifer(here, &["--json", "predict", &towers, "--data", "photos", "--threshold", "t.json"]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    for words in ["1 photos left out, first: `holiday/2.png`", "none of the 1 labels is in the class tree"] {
        assert!(message.contains(words), "{message}");
    }
    let report = parsed(&String::from_utf8(output.stdout).unwrap());
    assert_eq!((&report["photos"], &report["left_out"], &report["results"]), (&1.into(), &1.into(), &json!([])));
    // If some labels are classes and others are not, the command fails.
    fs::create_dir_all(here.join("photos/duck")).unwrap();
    fs::copy(here.join("photos/holiday/1.png"), here.join("photos/duck/1.png")).unwrap();
    fs::remove_file(here.join("photos/holiday/2.png")).unwrap();
    let mixed = ["predict", &towers, "--data", "photos", "--threshold", "t.json"];
    refused(here, &mixed, &["--data: label `holiday`", "--ignore-labels"]);
    good(here, &[&mixed[..], &["--ignore-labels"]].concat());
    // Predicting the calibration photos themselves is allowed with a stored threshold, but not with --calibration.
    good(here, &["predict", &towers, "--data", "toy/classes", "--threshold", "t.json", "--ignore-labels"]);
    let same = ["predict", &towers, "--data", "toy/classes", "--calibration", "toy/classes", "--tree", "tree.txt"];
    refused(here, &same, &["are calibration photos, too"]);
}
