//! `conifer reproduce`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use conifer_train::config::Config;
use serde_json::Value;

use crate::{conifer, good, refused, root};

/// The claims that the program contains, as `reproduce list` prints them.
fn listed() -> Vec<Value> {
    serde_json::from_str(&good(&root(), &["--json", "reproduce", "list"])).unwrap()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

fn strings(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(|it| text(it).to_owned()).collect()
}

#[test]
fn every_claim_file_is_embedded_and_has_valid_configs() {
    let claims = listed();
    let names: BTreeSet<String> = claims.iter().map(|it| text(&it["name"]).to_owned()).collect();
    let folder = root().join("crates/cli/claims");
    let papers = fs::read_dir(&folder).unwrap().map(|it| it.unwrap().file_name().into_string().unwrap());
    let files = papers.flat_map(|paper| {
        let entries = fs::read_dir(folder.join(&paper)).unwrap();
        entries.map(move |it| {
            let file = it.unwrap().file_name().into_string().unwrap();
            format!("{paper}/{}", file.strip_suffix(".toml").unwrap())
        })
    });
    assert_eq!(files.collect::<BTreeSet<_>>(), names);
    assert!(
        names.len() >= 40 && names.iter().filter_map(|it| it.split('/').next()).collect::<BTreeSet<_>>().len() >= 5
    );
    let quick = claims.iter().filter(|it| it["quick"] == true).count();
    assert!(quick >= 10, "{quick}");
    let mut checked = BTreeSet::new();
    for claim in &claims {
        let shown_by = &claim["explanation"]["shown_by"];
        assert!(shown_by.is_null() || names.contains(text(shown_by)), "{}: {shown_by}", claim["name"]);
        for run in claim["runs"].as_array().unwrap().iter().filter(|it| it["encoder"].is_null()) {
            let mut sets = strings(&run["set"]);
            if run["init"].is_string() {
                sets.push("model.init=runs/other".into());
            }
            sets.push("seed=2".into());
            let path = root().join("configs").join(text(&run["config"]));
            if checked.insert((path.clone(), sets.clone())) {
                let config = Config::load(&path, &sets);
                assert!(config.is_ok(), "{} {}: {:?}", claim["name"], run["run"], config.err());
            }
        }
    }
    assert!(checked.len() > 30, "{}", checked.len());
}

/// A small file for each kind of data that a claim names. `small.jsonl`: 24 scenes with boxes, four tiers and a taxon of
/// five ranks; the first two tiers have equally many words, and all splits have photos. `coco.jsonl`: the scenes with two
/// classes of boxes. `coco_labels.jsonl`: scenes with a class and the
/// class above it. `hyperlex.jsonl`: graded pairs of words.
/// `sugarcrepe.jsonl`: the scenes with a wrong caption, in seven subsets.
fn small_data(folder: &Path) {
    good(folder, &["data", "toy", "--out", "world", "--size", "24", "--resolution", "32"]);
    let scenes = fs::read_to_string(folder.join("world/scenes.jsonl")).unwrap();
    let [mut lines, mut classes, mut labels, mut wrong, mut pairs] = [const { String::new() }; 5];
    for (i, line) in scenes.lines().enumerate() {
        let mut scene: Value = serde_json::from_str(line).unwrap();
        let thing = ["dog", "cat"][i % 2];
        let tiers =
            ["animal".to_owned(), thing.to_owned(), format!("a {thing} {i}"), format!("a {thing} {i} in a photo")];
        scene["tiers"] = serde_json::json!({ "positive": tiers, "negative": ["food", "cake", "a cake", "a red cake"] });
        let genus = format!("Genus{}", i % 4);
        scene["taxon"] = serde_json::json!([
            format!("Order{}", i % 2),
            "Family",
            genus,
            format!("species{i}"),
            format!("called {i}")
        ]);
        scene["split"] = ["train", "test", "seen", "unseen"][i % 4].into();
        lines += &format!("{scene}\n");
        let mut boxed = scene.clone();
        for (number, phrase) in boxed["phrases"].as_array_mut().unwrap().iter_mut().enumerate() {
            let class = if number % 2 == 0 { "dog" } else { "cat" };
            *phrase = serde_json::json!({ "text": class, "boxes": phrase["boxes"] });
        }
        classes += &format!("{boxed}\n");
        let classified = serde_json::json!({
            "id": format!("{i}"), "image": scene["image"], "label": thing, "taxon": ["animal", thing]
        });
        labels += &format!("{classified}\n");
        let subset = SUBSETS[i % SUBSETS.len()];
        let item = serde_json::json!({
            "id": format!("{subset}/{i}"), "image": scene["image"], "captions": ["a red circle"], "wrong": ["a red square"], "split": subset
        });
        wrong += &format!("{item}\n");
        let pair = serde_json::json!({
            "id": format!("{i}"), "tiers": { "positive": [thing, format!("{thing} {i}")] }, "grade": i % 7, "label": "hyp-1",
            "split": if i % 2 == 0 { "N" } else { "V" }
        });
        pairs += &format!("{pair}\n");
    }
    for (file, text) in
        [("small", lines), ("coco", classes), ("coco_labels", labels), ("sugarcrepe", wrong), ("hyperlex", pairs)]
    {
        fs::write(folder.join(format!("world/{file}.jsonl")), text).unwrap();
    }
}

const SUBSETS: [&str; 7] = ["replace_obj", "replace_att", "replace_rel", "swap_obj", "swap_att", "add_obj", "add_att"];

#[test]
fn every_row_of_the_claims_exists() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    small_data(at);
    let config = root().join("configs/toy_clip.toml");
    let tiny = ["data.options.size=32", "train.steps=2", "train.batch_size=8", "optim.warmup_steps=1"];
    let mut train = vec!["train", config.to_str().unwrap(), "--out", "run"];
    train.extend(tiny.iter().flat_map(|set| ["--set", set]));
    good(at, &train);
    let mut measured: Vec<(Value, Vec<Value>)> = Vec::new();
    let mut count = 0;
    for claim in listed() {
        for row in std::iter::once(&claim["row"]).chain(claim["shown"].as_array().unwrap()) {
            let benchmark = text(&row["benchmark"]);
            let source = serde_json::json!([
                benchmark,
                row["split"],
                row["options"],
                row["all_classes"],
                row["partial"],
                row["data"]
            ]);
            if !measured.iter().any(|it| it.0 == source) {
                let toy = row["data"] == "toy";
                let mut args = vec!["--json", "eval", "run", "run", "--benchmark", benchmark, "--data"];
                args.push(match row["data"].as_str() {
                    Some("toy") => "toy",
                    Some("coco") => "world/coco.jsonl",
                    Some("coco_labels") => "world/coco_labels.jsonl",
                    Some("hyperlex") => "world/hyperlex.jsonl",
                    Some("sugarcrepe") => "world/sugarcrepe.jsonl",
                    _ => "world/small.jsonl",
                });
                if let Some(split) = row["split"].as_str() {
                    args.extend(["--split", split]);
                }
                if row["all_classes"] == true {
                    args.push("--all-classes");
                }
                if row["partial"] == true {
                    args.push("--partial");
                }
                // Use fewer scenes than the claims.
                if toy {
                    args.extend(["--data-option", "size=30"]);
                }
                let records: Vec<Value> = serde_json::from_str(&good(at, &args)).unwrap();
                measured.push((source.clone(), records));
            }
            let (_, records) = measured.iter().find(|it| it.0 == source).unwrap();
            let same = |it: &&Value| {
                let protocol = text(&it["protocol"]).split(", partial: ").next().unwrap();
                it["split"] == row["part"] && protocol == row["protocol"] && it["metric"] == row["metric"]
            };
            assert!(records.iter().any(|it| same(&it)), "{}: no row {row}", claim["name"]);
            count += 1;
        }
    }
    assert!(count > 100 && measured.len() >= 6, "{count} {}", measured.len());
}

/// A claim about the toy world that takes seconds.
fn toy_claim(better: &str, set: &str) -> String {
    let tiny = r#""data.options.size=32", "train.steps=3", "train.batch_size=8", "optim.warmup_steps=1", "train.checkpoint_every=1", "train.keep=5""#;
    format!(
        r#"
paper = "Toy"
sentence = "{better} finds photos."
place = "nowhere"
numbers = [{{ what = "R@1", claimed = 0.5, other = 0.4 }}]

[run.one]
config = "toy_{better}.toml"
set = [{tiny}{set}]

[run.two]
config = "toy_clip.toml"
set = [{tiny}]

[test]
claimed = "one"
than = "two"

[test.row]
split = "test"
options = ["size=12"]
benchmark = "cross_modal_retrieval"
part = "text_to_image"
protocol = "similarity"
metric = "recall@5"

[[show]]
split = "test"
options = ["size=12"]
benchmark = "depth_order"
part = "text < image"
protocol = "first grounded phrase"
metric = "parent is shallower"
"#
    )
}

fn report(folder: &Path) -> Vec<Vec<u8>> {
    ["claims.json", "claims.html", "claims.md", "forest-Toy.svg"]
        .map(|it| fs::read(folder.join("out").join(it)).unwrap())
        .to_vec()
}

fn run_folders(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut found: Vec<_> = fs::read_dir(folder.join("out/runs")).unwrap().map(|it| it.unwrap().path()).collect();
    found.sort();
    found
}

#[test]
fn a_claim_is_decided_once_and_resumes() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    fs::write(at.join("small.toml"), toy_claim("meru", "")).unwrap();
    let configs = root().join("configs");
    let args = ["reproduce", "small.toml", "--seeds", "2", "--configs", configs.to_str().unwrap(), "--out", "out"];
    let args = [&args[..], &["--update", "results.md"]].concat();
    let document = at.join("results.md");
    fs::write(&document, "# Results\n\n<!-- claims -->\nold\n<!-- /claims -->\n\nEnd.\n").unwrap();
    let start = || {
        let output = conifer(at, &args);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{stderr}");
        stderr
    };
    let stderr = start();
    // Two runs and two seeds, two benchmarks each.
    assert!(stderr.contains("1 claims: 4 runs, 8 measurements") && stderr.contains("[12/12]"), "{stderr}");
    let first = report(at);
    let all: Value = serde_json::from_slice(&first[0]).unwrap();
    let claim = &all["claims"][0];
    assert!(["holds", "does not hold", "cannot be decided here"].contains(&text(&claim["verdict"])), "{claim}");
    let comparison = &claim["comparison"];
    assert_eq!(comparison["values"].as_array().unwrap().len(), 2);
    assert!(comparison["trivial"]["answer"]["name"] == "chance" && comparison["units"] == 12, "{comparison}");
    assert_eq!((claim["shown"].as_array().unwrap().len(), claim["runs"].as_array().unwrap().len()), (1, 4));
    assert!(text(&claim["runs"][0]["train"]).starts_with("conifer train "), "{claim}");
    let page = String::from_utf8(first[1].clone()).unwrap();
    assert!(page.contains("<svg") && page.contains("meru finds photos.") && page.contains("0.5 against 0.4"), "{page}");

    let written = fs::read_to_string(&document).unwrap();
    assert!(
        written.starts_with("# Results\n\n<!-- claims -->\n\n1 claims, 2 seeds.\n\n### Toy\n\n![Claims of Toy")
            && written.contains("(pictures/forest-Toy.svg)\n\n| claim |"),
        "{written}"
    );
    assert!(fs::read_to_string(at.join("pictures/forest-Toy.svg")).unwrap().contains("<svg"));
    assert!(written.ends_with("|\n\n<!-- /claims -->\n\nEnd.\n") && !written.contains("old"), "{written}");
    fs::write(&document, "# Results\n").unwrap();
    refused(at, &args, &["results.md", "<!-- claims -->"]);
    fs::write(&document, &written).unwrap();

    // All files exist: nothing is trained, and the reports have the same bytes.
    let again = start();
    assert!(!again.contains("train ") && !again.contains("measure "), "{again}");
    assert_eq!(report(at), first);
    assert_eq!(fs::read_to_string(&document).unwrap(), written);

    // A killed run: its last checkpoint and its measurements are missing.
    let run = &run_folders(at)[0];
    fs::remove_dir_all(run.join("checkpoints/step_00000003")).unwrap();
    fs::remove_file(run.join("checkpoints/latest")).unwrap();
    fs::remove_dir_all(at.join("out/results").join(run.file_name().unwrap())).unwrap();
    // A run that was killed before its first checkpoint.
    let second = &run_folders(at)[1];
    fs::remove_dir_all(second.join("checkpoints")).unwrap();
    fs::remove_dir_all(at.join("out/results").join(second.file_name().unwrap())).unwrap();
    let resumed = start();
    assert_eq!(resumed.matches("] train ").count(), 2, "{resumed}");
    assert!(resumed.contains("from step 2") && resumed.contains("from step 0"), "{resumed}");
    assert_eq!(report(at), first);
}

#[test]
fn claims_that_cannot_run_are_reported_and_the_others_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let write = |name: &str, text: &str| fs::write(at.join(name), text).unwrap();
    write("good.toml", &toy_claim("meru", ""));
    write("typo.toml", &toy_claim("meru", ", \"train.step=3\""));
    write("key.toml", &toy_claim("meru", "").replace("place =", "plaec ="));
    write("data.toml", &toy_claim("meru", "").replace("[run.two]", "[run.two]\ndata = \"absent\""));
    // Photos that do not exist: the run starts and fails.
    write("broken.jsonl", &"{\"id\":\"a\",\"image\":\"absent.png\",\"captions\":[\"a dog\"]}\n".repeat(200));
    let broken = toy_claim("meru", "").replacen("\"data.options.size=32\", ", "", 1);
    let broken = broken.replace("[run.one]", "[run.one]\ndata = \"broken\"");
    write("broken.toml", &broken.replace("split = \"test\"", "data = \"toy\"\nsplit = \"test\""));
    write("row.toml", &toy_claim("meru", "").replace("recall@5", "recall@7"));
    write("both.toml", &toy_claim("meru", "").replace("[run.two]", "[run.two]\nencoder = \"tower.pth\""));
    let pretrained = toy_claim("meru", "");
    let (start, end) = (pretrained.find("[run.two]").unwrap(), pretrained.find("[test]").unwrap());
    write(
        "encoder.toml",
        &[&pretrained[..start], "[run.two]\nencoder = \"weights/absent.pth\"\n\n", &pretrained[end..]].concat(),
    );
    let configs = root().join("configs");
    let names = ["typo", "key", "good", "data", "broken", "row", "both", "encoder"].map(|it| format!("{it}.toml"));
    let mut args = vec!["reproduce", "--seeds", "1", "--data", "broken=broken.jsonl", "--out", "out", "--configs"];
    args.push(configs.to_str().unwrap());
    args.extend(names.iter().map(String::as_str));
    let output = conifer(at, &args);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    let all: Value = serde_json::from_slice(&fs::read(at.join("out/claims.json")).unwrap()).unwrap();
    for (claim, words) in all["claims"].as_array().unwrap().iter().zip([
        &["train.step", "steps"][..],
        &["plaec", "place"],
        &[],
        &["`absent`", "--data absent=FILE"],
        &["absent.png"],
        &["recall@7", "recall@5"],
        &["run.two has a config and an encoder"],
        &["weights/absent.pth does not exist", "pip install"],
    ]) {
        let (name, reason) = (text(&claim["name"]), text(&claim["reason"]));
        assert_eq!(claim["verdict"] == "not run", name != "good", "{claim}");
        for word in words {
            assert!(reason.contains(word), "{name}: `{word}` is not in {reason}");
            assert!(stderr.contains(word), "{name}: `{word}` is not in {stderr}");
        }
    }
    assert!(stderr.contains("7 of 8 claims were not run"), "{stderr}");
    assert!(fs::read_to_string(at.join("out/claims.md")).unwrap().contains("not run: "));
    // One run of MERU, one of CLIP, one that failed: the claims share them.
    assert_eq!(run_folders(at).len(), 3);
}

#[test]
fn invalid_arguments_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    refused(at, &["reproduce", "nonsense"], &["`nonsense`", "reproduce list", "hycoclip"]);
    refused(at, &["reproduce", "paper:nonsense"], &["paper:nonsense", "rcme"]);
    refused(at, &["reproduce", "all", "--data", "flickr8k"], &["flickr8k", "NAME=PATH"]);
    refused(at, &["reproduce", "all", "--data", "a=x", "--data", "a=y"], &["given twice"]);
    fs::write(at.join("a.toml"), toy_claim("meru", "").replace("than = \"two\"", "than = \"three\"")).unwrap();
    refused(at, &["reproduce", "a.toml", "--out", "out"], &["test.than is `three`", "one, two, or trivial"]);
    fs::write(at.join("a.toml"), toy_claim("meru", "").replace("[run.two]", "[run.two]\ninit = \"two\"")).unwrap();
    refused(at, &["reproduce", "a.toml", "--out", "out"], &["run.two.init leads back"]);
    fs::write(at.join("a.toml"), toy_claim("meru", "")).unwrap();
    refused(at, &["reproduce", "a.toml", "--quick"], &["--quick leaves none"]);
}
