//! `conifer figure` and `conifer factors`: files, inputs of every kind, and bad input.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::{conifer, good, refused, root};

/// Draws a figure and returns its CSV. Asserts that two runs write equal files, and that drawing the CSV gives the same
/// figure.
fn drawn(at: &Path, name: &str, inputs: &[&str], more: &[&str]) -> String {
    let draw = |inputs: &[&str], out: &str| {
        let args = [&["--json", "figure", name], inputs, more, &["--out", out]].concat();
        let report: Value = serde_json::from_str(&good(at, &args)).unwrap();
        assert_eq!(report["figure"], name);
    };
    let [first, second, third] = ["1", "2", "3"].map(|number| format!("{name}-{number}"));
    for out in [&first, &second, &third] {
        _ = fs::remove_dir_all(at.join(out));
    }
    draw(inputs, &first);
    draw(inputs, &second);
    draw(&[&format!("{first}/{name}.csv")], &third);
    for extension in ["svg", "png", "csv"] {
        let bytes = |out: &str| fs::read(at.join(out).join(format!("{name}.{extension}"))).unwrap();
        assert!(!bytes(&first).is_empty());
        assert!(bytes(&first) == bytes(&second), "{name}.{extension} differs between two runs");
        assert!(bytes(&first) == bytes(&third), "{name}.{extension} of its own data differs");
    }
    fs::read_to_string(at.join(&first).join(format!("{name}.csv"))).unwrap()
}

fn lines_with(csv: &str, start: &str) -> usize {
    csv.lines().filter(|line| line.starts_with(start)).count()
}

/// Draws the figures of embedding sets, data, runs and paths, with a trained product model and its embeddings of a toy
/// data set. Also runs `conifer factors`.
#[test]
fn figures_of_sets_data_runs_and_paths() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let config = root().join("configs/toy_phyclip.toml");
    good(at, &["train", config.to_str().unwrap(), "--smoke", "--out", "run"]);
    good(at, &["data", "toy", "--out", "toy", "--size", "8", "--resolution", "32"]);
    let data = "toy/scenes.jsonl";
    good(at, &["embed", "run", "--data", data, "--views", "image,text,box-image,box-text", "--out", "set"]);

    let csv = drawn(at, "depths", &["set"], &[]);
    assert!(csv.starts_with("panel,group,from,to,count\n,box_text,"), "{csv}");
    assert_eq!(lines_with(&csv, ",image,"), 40);
    let csv = drawn(at, "depths", &["set", "set"], &["--sample", "9"]);
    assert_eq!(lines_with(&csv, "set,"), csv.lines().count() - 1);
    let csv = drawn(at, "factor-depths", &["set"], &[]);
    assert!(csv.contains("\nfactor 0,image,") && csv.contains("\nfactor 3,text,"), "{csv}");

    // A text is placed in a map by the model that made the set.
    good(at, &["project", "set", "--by", "horopca", "--factor", "0", "--out", "map"]);
    let placed: Value =
        serde_json::from_str(&good(at, &["--json", "place", "set", "--into", "map", "--text", "a red dog"])).unwrap();
    let place: Vec<f64> = placed["coordinates"].as_array().unwrap().iter().map(|it| it.as_f64().unwrap()).collect();
    assert!(place.len() == 2 && place[0].hypot(place[1]) < 1.0 && placed["depth"].as_f64().unwrap() > 0.0, "{placed}");

    let csv = drawn(at, "box-areas", &[data], &[]);
    let counts: f64 = csv.lines().skip(1).map(|line| line.rsplit(',').next().unwrap().parse::<f64>().unwrap()).sum();
    let checked: Value = serde_json::from_str(&good(at, &["--json", "data", "check", "--data", data])).unwrap();
    assert_eq!(Some(counts), checked["boxes"].as_f64());
    let csv = drawn(at, "crop-depths", &[data], &["--model", "run", "--sample", "4"]);
    for kind in ["photo", "box", "blurred box", "tiny crop"] {
        assert_eq!(lines_with(&csv, &format!(",{kind},")), 40, "{csv}");
    }
    refused(at, &["figure", "crop-depths", data, "--out", "x"], &["--model is missing"]);
    refused(at, &["figure", "crop-depths", "toy/classes", "--model", "run", "--out", "x"], &["toy/classes", "boxes"]);
    let csv = drawn(at, "class-frequencies", &["toy/classes"], &[]);
    assert!(csv.lines().count() > 10 && csv.lines().nth(1).unwrap().ends_with(",10"), "{csv}");

    // Two runs that differ only in their seed are one line with a band.
    for (name, seed, loss) in [("tiny-seed0", 0, 1.0), ("tiny-seed1", 1, 2.0)] {
        fs::create_dir(at.join(name)).unwrap();
        let text = fs::read_to_string(at.join("run/config.toml")).unwrap();
        fs::write(at.join(name).join("config.toml"), text.replace("seed = 0\n", &format!("seed = {seed}\n"))).unwrap();
        let log = fs::read_to_string(at.join("run/metrics.jsonl")).unwrap();
        let mut record: Value = serde_json::from_str(log.lines().next().unwrap()).unwrap();
        record["loss"] = json!(loss);
        fs::write(at.join(name).join("metrics.jsonl"), format!("{record}\n")).unwrap();
    }
    let csv = drawn(at, "training", &["tiny-seed0", "tiny-seed1"], &["--only", "loss"]);
    assert_eq!(csv, "panel,line,step,mean,smallest,largest,seeds\nloss,tiny,1,1.5,1,2,2\n");
    let csv = drawn(at, "training", &["run"], &[]);
    assert!(csv.contains("\nloss,run,1,") && csv.contains("\nterm contrastive,run,1,"), "{csv}");

    let ids: Vec<Value> =
        serde_json::from_str(&good(at, &["--json", "search", "set", "--text", "a dog", "--modality", "image"]))
            .unwrap();
    let [from, to] = [0, 1].map(|hit| ids[hit]["id"].as_str().unwrap().to_owned());
    let path = good(at, &["--json", "traverse", "set", "--id", &from, "--to", &to, "--modality", "image"]);
    fs::write(at.join("path.json"), path).unwrap();
    let csv = drawn(at, "interpolation", &["path.json"], &["--photos", data]);
    assert!(csv.contains("interpolation-0.png") && at.join("interpolation-1/interpolation-0.png").is_file(), "{csv}");
    fs::write(at.join("chain.json"), good(at, &["--json", "hierarchy", "set", "--id", &from])).unwrap();
    let csv = drawn(at, "chain", &["chain.json", "path.json"], &[]);
    assert!(lines_with(&csv, "chain,") > 2 && lines_with(&csv, "path,") > 0, "{csv}");

    factors_of(at, data);
    refused(at, &["figure", "depths", "absent", "--out", "x"], &["absent does not exist"]);
    refused(at, &["figure", "box-areas", "toy/classes", "--out", "x"], &["no sample has boxes"]);
    refused(at, &["figure", "training", "toy", "--out", "x"], &["toy", "training run"]);
    refused(at, &["figure", "training", "run", "--only", "zzz", "--out", "x"], &["zzz"]);
    refused(at, &["figure", "depths", "set", "--out", "depths-1"], &["depths.svg exists", "--overwrite"]);
    good(at, &["figure", "depths", "set", "--out", "depths-1", "--overwrite"]);
    refused(at, &["figure", "chain", data, "--out", "x"], &["scenes.jsonl", "traverse"]);
    fs::write(at.join("a.ttf"), "no font").unwrap();
    refused(at, &["figure", "depths", "set", "--font", "a.ttf", "--out", "x"], &["a.ttf", "TrueType"]);
    assert!(!at.join("x").exists());
}

/// `conifer factors` of the model that made the set.
fn factors_of(at: &Path, data: &str) {
    fs::write(at.join("words.txt"), "dog\tanimal\ncat\tanimal\ncar\tvehicle\ntruck\tvehicle\n").unwrap();
    let args = ["--json", "factors", "run", "--words", "words.txt", "--pair", "dog,car", "--permutations", "99"];
    let args = [&args[..], &["--set", "set", "--photos", data]].concat();
    let report: Value = serde_json::from_str(&good(at, &[&args[..], &["--out", "factors"]].concat())).unwrap();
    let found = &report["specialisation"];
    assert_eq!((report["texts"].as_u64(), found["families"][1]["family"].as_str()), (Some(5), Some("vehicle")));
    assert!((0.01..=1.0).contains(&found["p"].as_f64().unwrap()), "{found}");
    let csv = fs::read_to_string(at.join("factors/factors.csv")).unwrap();
    assert_eq!(lines_with(&csv, "a photo of a dog and a car,"), 4);
    let page = fs::read_to_string(at.join("factors/factors.html")).unwrap();
    assert!(page.contains("Do factors specialise?") && page.matches("<img").count() >= 20);
    good(at, &[&args[..], &["--out", "again"]].concat());
    for name in ["factors.html", "factors.csv", "factors.svg", "factors.png", "factors.json"] {
        assert!(
            fs::read(at.join("factors").join(name)).unwrap() == fs::read(at.join("again").join(name)).unwrap(),
            "{name}"
        );
    }
    good(at, &["figure", "factor-norms", "factors/factors.csv", "--out", "norms"]);
    refused(at, &["factors", "run", "--words", "absent.txt", "--out", "y"], &["absent.txt"]);
    refused(at, &["factors", "run", "--words", "words.txt", "--prompt", "none", "--out", "y"], &["--prompt `none`"]);
    assert!(!at.join("y").exists());
}

/// A line of a result file.
fn record(benchmark: &str, split: &str, metric: &str, value: f64) -> String {
    let record = json!({
        "benchmark": benchmark, "split": split, "protocol": "p, q", "metric": metric, "value": value,
        "interval": [value - 0.05, value + 0.05], "n": 100, "baseline": { "name": "chance", "value": 0.5 },
        "produced_by": { "data_sha256": "a" },
    });
    format!("{record}\n")
}

#[test]
fn figures_of_results() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    for (model, value) in [("clip", 0.6), ("phyclip", 0.7)] {
        let splits = ["Location/center", "Size/small", "all"].map(|it| record("vl_checklist", it, "accuracy", value));
        let pairs =
            ["open_crouched", "all"].map(|it| record("vg_attribution", it, "accuracy of the attribute pair", value));
        fs::write(at.join(format!("{model}.jsonl")), [splits.concat(), pairs.concat()].concat()).unwrap();
    }
    let inputs = ["clip.jsonl", "phyclip.jsonl"];
    let csv = drawn(at, "checklist", &inputs, &[]);
    let expected = "\"p, q\",clip,Location/center,0.6,0.5499999999999999,0.65,0.5\n";
    assert!(csv.contains(expected) && csv.lines().count() == 5 && !csv.contains(",all,"), "{csv}");
    let csv = drawn(at, "attribution", &inputs, &[]);
    assert!(csv.contains("\"p, q\",phyclip,\"open, crouched\",0.7,"), "{csv}");
    let csv = drawn(at, "ablation", &inputs, &["--only", "vl_checklist / all"]);
    assert!(csv.contains("vl_checklist all: accuracy (p, q)") && csv.lines().count() == 3, "{csv}");
    let claim =
        |name: &str, comparison: Value| json!({ "name": name, "paper": "P", "margin": 0.0, "comparison": comparison });
    let claims = [claim("a", json!({ "difference": 0.1, "interval": [0.0, 0.2] })), claim("b", Value::Null)];
    fs::write(at.join("claims.json"), json!({ "claims": claims }).to_string()).unwrap();
    let csv = drawn(at, "ablation", &["claims.json"], &[]);
    assert!(csv.lines().count() == 2 && csv.contains(",a,0.1,0,0.2,0\n"), "{csv}");
    let curve = "benchmark,split,protocol,average,threshold,recall,precision,queries\n\
        part_retrieval,s,\"a, labels x\",mean,1,0,,2\npart_retrieval,s,\"a, labels x\",mean,0.5,0.25,0.75,2\n";
    fs::write(at.join("curves.csv"), curve).unwrap();
    assert_eq!(drawn(at, "pr-curves", &["curves.csv"], &[]), curve);

    let list = good(at, &["figure", "list"]);
    let known: Vec<Value> = serde_json::from_str(&good(at, &["--json", "figure", "list"])).unwrap();
    assert!(known.len() > 10 && known.iter().all(|it| list.contains(it["name"].as_str().unwrap())), "{list}");
    refused(at, &["figure", "pie", "a", "--out", "x"], &["figure `pie` is unknown", "depths"]);
    refused(at, &["figure", "checklist", "clip.jsonl", "--only", "zzz", "--out", "x"], &["vl_checklist", "zzz"]);
    refused(at, &["figure", "pr-curves", "clip.jsonl", "--out", "x"], &["clip.jsonl", "recall"]);
    fs::write(at.join("nan.csv"), curve.replace("0.25", "NaN")).unwrap();
    refused(at, &["figure", "pr-curves", "nan.csv", "--out", "x"], &["nan.csv", "column recall", "finite"]);
    let up = "path,at,text,picture\np,0,t,../secret.png\n";
    fs::write(at.join("up.csv"), up).unwrap();
    refused(at, &["figure", "interpolation", "up.csv", "--out", "x"], &["../secret.png", "folder of the CSV"]);
    let output = conifer(at, &["figure", "depths"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("--out"), "{output:?}");
}
