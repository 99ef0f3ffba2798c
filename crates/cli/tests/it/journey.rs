//! The complete workflow on the toy world, from data to search.

use serde_json::Value;

use crate::{good, refused, root};

#[test]
fn toy_world_to_search_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let config = root().join("configs/toy_hycoclip.toml");
    let config = config.to_str().unwrap();

    good(folder.path(), &["data", "toy", "--out", "toy", "--size", "16", "--resolution", "32"]);
    let checked: Value = serde_json::from_str(&good(
        folder.path(),
        &["--json", "data", "check", "--data", "toy/scenes.jsonl", "--pixels"],
    ))
    .unwrap();
    assert!(checked["samples"].as_u64().unwrap() >= 16 && checked["boxes"].as_u64().unwrap() > 0, "{checked}");

    good(folder.path(), &["train", config, "--smoke", "--out", "run"]);
    for file in ["config.toml", "metrics.jsonl"] {
        assert!(folder.path().join("run").join(file).is_file(), "{file}");
    }
    // A run is never overwritten, and resuming a finished run changes nothing.
    refused(folder.path(), &["train", config, "--smoke", "--out", "run"], &["run"]);
    good(folder.path(), &["train", "--resume", "run"]);

    good(
        folder.path(),
        &[
            "embed",
            "run",
            "--data",
            "toy/scenes.jsonl",
            "--split",
            "test",
            "--views",
            "image,text,box-text",
            "--out",
            "set",
        ],
    );
    let search = |query: &[&str]| -> Vec<Value> {
        let args = [&["--json", "search", "set", "--checkpoint", "run", "-k", "3"], query].concat();
        serde_json::from_str(&good(folder.path(), &args)).unwrap()
    };
    assert_eq!(search(&["--text", "a red car"]).len(), 3);
    let first = search(&["--text", "a red car", "--modality", "image", "--by", "narrower"]).remove(0);
    assert_eq!(first["modality"], "image");
    // A model with other weights cannot be used to query the set.
    good(folder.path(), &["train", config, "--smoke", "--out", "other", "--set", "seed=1"]);
    let other = ["search", "set", "--checkpoint", "other", "--text", "a red car"];
    refused(folder.path(), &other, &["other weights", "use the checkpoint that made the set"]);
    let id = first["id"].as_str().unwrap();
    assert_eq!(search(&["--id", id])[0]["id"], id);
    let path: Vec<Value> =
        serde_json::from_str(&good(folder.path(), &["--json", "traverse", "set", "--id", id])).unwrap();
    assert_eq!(path.last().unwrap()["root"], true);
    // Between two points: to a row, to a text and to a photo.
    let every = ["--modality", "image,text,box-text"];
    let between = |more: &[&str]| -> Vec<Value> {
        let args = [&["--json", "traverse", "set", "--checkpoint", "run", "--id", id], &every[..], more].concat();
        serde_json::from_str(&good(folder.path(), &args)).unwrap()
    };
    let scenes = std::fs::read_to_string(folder.path().join("toy/scenes.jsonl")).unwrap();
    let scene: Value = serde_json::from_str(scenes.lines().next().unwrap()).unwrap();
    let photo = format!("toy/{}", scene["image"].as_str().unwrap());
    for to in [["--to", id], ["--to-text", "a blue boat"], ["--to-image", photo.as_str()]] {
        let stops = between(&to);
        assert_eq!((&stops[0]["id"], &stops[0]["at"]), (&first["id"], &Value::from(0.0)), "{to:?}");
        assert!(stops.iter().all(|it| it["root"].is_null()), "{to:?}: {stops:?}");
        // The defaults are the tangent line, 100 points and no cones.
        let defaults = ["--path", "tangent", "--steps", "100", "--no-filter"];
        assert_eq!(stops, between(&[&to[..], &defaults].concat()), "{to:?}");
        between(&[&to[..], &["--cones"]].concat());
        assert!(!between(&[&to[..], &["--path", "geodesic"]].concat()).is_empty(), "{to:?}");
    }
    let both = ["traverse", "set", "--id", id, "--to", id, "--to-text", "a dog"];
    let usage = crate::conifer(folder.path(), &both);
    let message = String::from_utf8_lossy(&usage.stderr).into_owned();
    assert_eq!(usage.status.code(), Some(2), "{message}");
    assert!(message.contains("'--to <ID>' cannot be used with '--to-text <TEXT>'"), "{message}");

    // Filters by column, depth and cone, and the ranking from general to specific.
    let label = first["columns"]["label"].as_str().unwrap();
    let one_label = search(&["--id", id, "--where", &format!("label={label}")]);
    assert!(!one_label.is_empty() && one_label.iter().all(|it| it["columns"]["label"] == label), "{one_label:?}");
    // Filter by a subtree, and skip rows with --offset.
    std::fs::write(folder.path().join("tree.txt"), format!("all {label}\nall other\n")).unwrap();
    let below =
        |class: &str, more: &[&str]| search(&[&["--id", id, "--tree", "tree.txt", "--subtree", class], more].concat());
    assert_eq!(below(label, &[]), one_label);
    assert_eq!(below("all", &[]), one_label);
    assert!(below("other", &[]).is_empty());
    let after = below(label, &["--offset", "2"]);
    assert_eq!((&after[0], &after[0]["rank"]), (&one_label[2], &Value::from(3)));
    assert!(below(label, &["--offset", &usize::MAX.to_string()]).is_empty());
    let depths = |hits: &[Value]| hits.iter().map(|it| it["score"].as_f64().unwrap()).collect::<Vec<f64>>();
    let general = depths(&search(&["--text", "a red car", "--by", "general", "--within", "100"]));
    assert!(general.len() == 3 && general.is_sorted(), "{general:?}");
    let deeper = (general[2] + 1e-4).to_string();
    let rest = depths(&search(&["--id", id, "--by", "general", "--within", "100", "--depth", &deeper, "1000"]));
    assert!(rest[0] > general[2], "{rest:?} after {general:?}");
    let itself = format!("id:{id}");
    assert!(search(&["--id", id, "--not", &itself]).iter().all(|it| it["id"] != id));
    assert_eq!(search(&["--id", id, "--inside", &itself])[0]["id"], id);
    assert_eq!(search(&["--text", "a dog", "--and", "a car", "--by", "gated-narrower", "--angle", "3.1416"]).len(), 3);
    for (more, words) in [
        (&["--by", "general"][..], &["`general` takes either `--angle`"][..]),
        (&["--angle", "0.5"], &["gated rankings"]),
        (&["--by", "gated_narrower"], &["a gated ranking takes `--angle`"]),
        (&["--by", "gated-narrower", "--angle", "-1"], &["`--angle` is -1; expected radians, 0 to 3.1416"]),
        (&["--by", "general", "--within", "-1"], &["`--within` is -1; expected a distance, 0 or more"]),
        (&["--where", "label"], &["--where is `label`", "label=car"]),
        (&["--where", "colour=red"], &["no column is called `colour`", "label"]),
        (&["--tree", "tree.txt", "--subtree", "nobody"], &["--subtree", "nobody"]),
        (&["--tree", "absent.txt", "--subtree", "all"], &["--tree", "absent.txt"]),
        (&["--depth", "0.4", "0.2"], &["--depth is 0.4 0.2", "the smaller one first"]),
        (&["--inside", "id:nobody"], &["no row has the id `nobody`"]),
    ] {
        refused(folder.path(), &[&["search", "set", "--id", id], more].concat(), words);
    }

    // An empty result prints the reason. -k 0 is rejected.
    let args = ["--json", "search", "set", "--id", id, "--where", "label=zzz", "--modality", "image,box_text"];
    let nothing = crate::conifer(folder.path(), &args);
    let message = String::from_utf8(nothing.stderr).unwrap();
    assert!(nothing.status.success() && nothing.stdout == b"[]\n", "{message}");
    assert!(
        message.contains("nothing found: 0 of ") && message.contains("no row has label=zzz; `label` is one of: "),
        "{message}"
    );
    let none = crate::conifer(folder.path(), &["search", "set", "--id", id, "-k", "0"]);
    assert!(!none.status.success() && String::from_utf8_lossy(&none.stderr).contains("expected 1 or more"));
    refused(
        folder.path(),
        &["search", "nowhere", "--id", id],
        &["nowhere does not exist", "conifer embed", "conifer store create"],
    );

    let records: Vec<Value> = serde_json::from_str(&good(
        folder.path(),
        &[
            "--json",
            "eval",
            "run",
            "run",
            "--data",
            "toy/classes",
            "--tree",
            "toy/tree.txt",
            "--benchmark",
            "zero_shot_classification,hierarchical_classification",
            "--out",
            &at("records.jsonl"),
        ],
    ))
    .unwrap();
    assert!(records.iter().any(|it| it["metric"] == "TIE"));
    let lines = std::fs::read_to_string(at("records.jsonl")).unwrap();
    assert_eq!(lines.lines().count(), records.len());
    assert!(lines.contains("weights_sha256"));

    // Exporting, importing and exporting again gives the same bytes.
    good(folder.path(), &["convert", "run", "a.safetensors"]);
    good(folder.path(), &["convert", "a.safetensors", "again", "--image-heads", "2", "--text-heads", "2"]);
    good(folder.path(), &["convert", "again", "b.safetensors"]);
    assert_eq!(std::fs::read(at("a.safetensors")).unwrap(), std::fs::read(at("b.safetensors")).unwrap());
}

#[test]
fn data_formats_convert_to_each_other() {
    let folder = tempfile::tempdir().unwrap();
    good(folder.path(), &["data", "toy", "--out", "toy", "--size", "16", "--resolution", "96"]);
    let export = ["--json", "data", "export", "--data", "toy/scenes.jsonl", "--split", "train", "--to"];
    for (form, kind) in [("pairs", "image_text_shards"), ("boxes", "grit_processed")] {
        let more = [form, "--out", form, "--shard-samples", "10", "--side", "32"];
        let report: Value = serde_json::from_str(&good(folder.path(), &[&export[..], &more].concat())).unwrap();
        // A scene without a box larger than 32 x 32 pixels is skipped in the format with boxes.
        let written = report["written"].as_u64().unwrap();
        assert!(written == 16 || form == "boxes" && written > 0, "{report}");
        assert_eq!(report["files"].as_array().unwrap().len() as u64, written.div_ceil(10), "{report}");
        let data = format!("{kind}:{form}/*.tar");
        let found = good(folder.path(), &["--json", "data", "check", "--data", &data, "--pixels"]);
        assert_eq!(serde_json::from_str::<Value>(&found).unwrap()["samples"], written, "{found}");
    }
    let again = [&export[..], &["pairs", "--out", "pairs"]].concat();
    refused(folder.path(), &again, &["shards; expected a folder without"]);
    let on_a_file = [&export[..], &["boxes", "--out", "toy/tree.txt"]].concat();
    refused(folder.path(), &on_a_file, &["tree.txt", "expected a folder"]);
    let onto_itself = [&export[..], &["grounded", "--out", "toy/scenes.jsonl"]].concat();
    refused(folder.path(), &onto_itself, &["scenes.jsonl", "is the data set itself"]);
}

#[test]
fn training_evaluates_on_held_out_data() {
    let folder = tempfile::tempdir().unwrap();
    let config = root().join("configs/toy_meru.toml");
    let sets = [
        "train.steps=4",
        "train.batch_size=4",
        "optim.warmup_steps=1",
        "data.options.size=16",
        "data.options.resolution=32",
        "model.visual.image_size=32",
        "tokenizer.kind=train",
        "tokenizer.vocab_size=600",
        "eval.every=2",
        "eval.split=test",
        "eval.options.size=8",
    ];
    let train = |out: &str, more: &[&'static str]| -> Vec<String> {
        let mut args =
            vec!["train".to_owned(), config.to_str().unwrap().to_owned(), "--out".to_owned(), out.to_owned()];
        args.extend(sets.iter().chain(more).flat_map(|set| ["--set".to_owned(), (*set).to_owned()]));
        args
    };
    let refuse = |more: &[&'static str], words: &[&str]| {
        let args = train("refused", more);
        refused(folder.path(), &args.iter().map(String::as_str).collect::<Vec<_>>(), words);
        assert!(!folder.path().join("refused").exists(), "a run was started although its evaluation is invalid");
    };
    refuse(&["eval.benchmarks=['cross_model_retrieval']"], &["eval.benchmarks", "cross_modal_retrieval"]);
    refuse(&["eval.benchmarks=['hierarchical_classification']"], &["eval.tree"]);
    refuse(&["eval.kind=jsonl", "eval.path=absent.jsonl"], &["[eval]", "options of source jsonl", "size"]);
    refuse(&["eval.split=tset"], &["[eval]", "tset"]);

    let args = train("run", &["eval.benchmarks=['cross_modal_retrieval','depth_order']"]);
    good(folder.path(), &args.iter().map(String::as_str).collect::<Vec<_>>());
    let metrics = std::fs::read_to_string(folder.path().join("run/metrics.jsonl")).unwrap();
    let measured: Vec<(u64, f64)> = metrics
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter_map(|it| {
            let recall = it["eval"]["cross_modal_retrieval/text_to_image/recall@1"].as_f64()?;
            Some((it["step"].as_u64().unwrap(), recall))
        })
        .collect();
    assert_eq!(measured.iter().map(|it| it.0).collect::<Vec<_>>(), [2, 4], "{metrics}");
    assert!(measured.iter().all(|it| (0.0..=1.0).contains(&it.1)), "{metrics}");
}

/// A Hugging Face model folder is accepted as a checkpoint, by its path and by its name in the hub cache.
#[test]
fn published_models_need_no_conversion() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let config = root().join("configs/toy_clip.toml");
    let sets = [
        "train.steps=2",
        "train.batch_size=4",
        "optim.warmup_steps=1",
        "data.options.size=16",
        "data.options.resolution=32",
        "tokenizer.kind=train",
        "tokenizer.vocab_size=600",
        "model.embed_dim=16",
        "model.visual={kind='clip_vit',image_size=32,patch=8,width=16,depth=1,heads=2,activation='gelu'}",
        "model.textual={kind='text_transformer',context=24,width=16,depth=1,heads=2,activation='gelu'}",
    ];
    let mut args = vec!["train", config.to_str().unwrap(), "--out", "run"];
    args.extend(sets.iter().flat_map(|set| ["--set", set]));
    good(here, &args);
    let snapshot = "hub/models--owner--clip/snapshots/0123";
    std::fs::create_dir_all(here.join(snapshot).parent().unwrap()).unwrap();
    good(here, &["convert", "run", snapshot, "--to", "hf-clip"]);

    let data = ["--data", "toy", "--split", "test", "--data-option", "size=8", "--data-option", "resolution=32"];
    let points = |model: &str, out: &str| {
        good(here, &[&["embed", model], &data[..], &["--views", "image,text", "--out", out]].concat());
        conifer_embeddings::EmbeddingSet::load(&here.join(out)).unwrap()
    };
    let (ours, path, name) = (points("run", "ours"), points(snapshot, "path"), points("owner/clip", "name"));
    assert_eq!(path.ids, ours.ids);
    for row in 0..ours.len() {
        assert_eq!(path.row(row), name.row(row));
        assert_eq!(ours.row(row), path.row(row));
    }
    let benchmark = [&["eval", "run", "owner/clip"], &data[..], &["--benchmark", "depth_order"]].concat();
    assert!(good(here, &benchmark).contains("depth_order"));
    std::fs::remove_file(here.join(snapshot).join("tokenizer.json")).unwrap();
    let embed = [&["embed", "owner/clip"], &data[..], &["--out", "none"]].concat();
    refused(here, &embed, &["tokenizer.json", "--tokenizer"]);
    refused(
        here,
        &["eval", "run", "owner/other", "--data", "toy", "--benchmark", "depth_order"],
        &["owner/other", "hf download owner/other"],
    );
}

/// Prints a published tree and a subtree, and writes its edges to a file that `--tree` reads.
#[test]
fn trees_of_classes_are_printed_and_written() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("class_hierarchy.txt", "n1 n2\nn1 n3\nn2 n4\nn2 n5\n");
    write("node_names.txt", "n1\tentity\nn2\tdog, domestic dog\nn4\tpug\nn5\tpug\n");
    fn tree<'a>(more: &[&'a str]) -> Vec<&'a str> {
        [&["data", "tree"], more].concat()
    }
    assert_eq!(good(folder.path(), &tree(&["breeds:."])), "entity\n  dog\n    pug (n4)\n    pug (n5)\n  n3\n");
    assert_eq!(good(folder.path(), &tree(&["breeds:.", "--depth", "1"])), "entity\n  dog  (2 leaves)\n  n3\n");
    good(folder.path(), &tree(&["breeds:.", "--below", "domestic dog", "--ids", "--out", "dogs.tsv"]));
    assert_eq!(std::fs::read_to_string(folder.path().join("dogs.tsv")).unwrap(), "n2\tn4\nn2\tn5\n");
    assert_eq!(good(folder.path(), &tree(&["edges:dogs.tsv"])), "n2\n  n4\n  n5\n");
    let listing: Value = serde_json::from_str(&good(folder.path(), &tree(&["edges:dogs.tsv", "--json"]))).unwrap();
    assert_eq!(
        listing,
        serde_json::json!({"root": "n2", "nodes": 3, "leaves": 2, "edges": [["n2", "n4"], ["n2", "n5"]]})
    );
    good(folder.path(), &tree(&["breeds:.", "--out", "tree.svg"]));
    assert_eq!(std::fs::read_to_string(folder.path().join("tree.svg")).unwrap().matches("<path").count(), 4);
    refused(folder.path(), &tree(&["breeds:.", "--below", "pug"]), &["2 nodes called `pug`: `n4`, `n5`"]);
    refused(folder.path(), &tree(&["breeds:.", "--below", "cat"]), &["no node `cat`"]);
    refused(folder.path(), &tree(&["breed:."]), &["unknown tree `breed`", "wordnet, breeds, open_images, edges"]);
    refused(folder.path(), &tree(&["dogs.tsv"]), &["expected KIND:PATH"]);
    refused(folder.path(), &tree(&["edges:absent"]), &["absent"]);
}

#[test]
fn registries_are_printed() {
    let methods: Vec<Value> = serde_json::from_str(&good(&root(), &["--json", "methods"])).unwrap();
    assert!(methods.iter().any(|it| it["name"] == "phyclip" && it["manifold"] == "product_l1"), "{methods:?}");
    assert!(good(&root(), &["benchmarks"]).contains("hierarcaps"));
    assert!(good(&root(), &["encoders"]).contains("clip_vit_b32"));
    let spaces: Vec<Value> = serde_json::from_str(&good(&root(), &["--json", "spaces"])).unwrap();
    assert!(spaces.iter().any(|it| it["name"] == "lorentz" && it["curved"] == true), "{spaces:?}");
    assert!(good(&root(), &["data", "list"]).contains("jsonl"));
    assert!(good(&root(), &["config", "schema"]).contains("optim.weight_decay"));
    assert!(good(&root(), &["completions", "bash"]).contains("conifer"));
}

/// The method table of the guide has the row that `conifer methods` prints for each documented method.
#[test]
fn the_guide_lists_the_methods_of_the_registry() {
    let guide = std::fs::read_to_string(root().join("docs/guide.md")).unwrap();
    let methods: Vec<Value> = serde_json::from_str(&good(&root(), &["--json", "methods"])).unwrap();
    for method in methods {
        let text = |key: &str| method[key].as_str().unwrap().to_owned();
        let views: Vec<_> = method["views"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
        let name = text("name");
        let row = format!(
            "| `{name}` | {} | {} | {} | {} |",
            views.join(", "),
            text("manifold"),
            text("summary"),
            text("reference")
        );
        let documented = root().join(format!("docs/methods/{name}.md")).is_file();
        assert!(!documented || guide.lines().any(|line| line == row), "docs/guide.md lacks the line\n{row}");
    }
}

/// Builds a class graph from boxes, and again with other thresholds. A missing column is named.
#[test]
fn boxes_to_a_tree_of_parts() {
    let folder = tempfile::tempdir().unwrap();
    let header = "ImageID,LabelName,XMin,XMax,YMin,YMax,IsGroupOf\n";
    let photo = |n: u32| format!("{n},/m/1,0.1,0.9,0.1,0.9,0\n{n},/m/2,0.1,0.4,0.5,0.8,0\n");
    let rows: String = (0..60).map(photo).collect();
    std::fs::write(folder.path().join("boxes.csv"), format!("{header}{rows}x,/m/1,nan,1,0,1,0\n")).unwrap();
    std::fs::write(folder.path().join("names.csv"), "/m/1,Bicycle\n").unwrap();
    let args = ["data", "parts", "--boxes", "boxes.csv", "--names", "names.csv", "--out", "parts"];
    assert_eq!(good(folder.path(), &args), "Bicycle\n  /m/2  100.0 % 60\n");
    let drawn = std::fs::read_to_string(folder.path().join("parts/tree.svg")).unwrap();
    assert!(drawn.contains(">Bicycle</text>") && drawn.contains(">100 %</tspan>"), "{drawn}");
    let args = [&args[..], &["--min-count", "61", "--json"]].concat();
    let graph: Value = serde_json::from_str(&good(folder.path(), &args)).unwrap();
    assert_eq!(
        (&graph["boxes"], &graph["broken"]["bad_box"], &graph["edges"]),
        (&120.into(), &1.into(), &serde_json::json!([]))
    );
    std::fs::write(folder.path().join("bad.csv"), header.replace("LabelName", "Label")).unwrap();
    refused(
        folder.path(),
        &["data", "parts", "--boxes", "bad.csv", "--out", "other"],
        &["bad.csv", "no column LabelName"],
    );
}

#[test]
fn a_short_quickstart_measures_embeds_and_suggests_a_query() {
    let folder = tempfile::tempdir().unwrap();
    let output = good(folder.path(), &["--json", "quickstart", "--out", "quick", "--steps", "2"]);
    let output: Value = serde_json::from_str(&output).unwrap();
    let quick = folder.path().join("quick");
    for file in ["config.toml", "metrics.jsonl", "report.html", "towers/weights.safetensors", "embeddings"] {
        assert!(quick.join(file).exists(), "{file}");
    }
    // The built-in encoders know the classes before training, and each metric is reported before and after training.
    let value = |when: &str, split: &str, metric: &str| {
        let rows = output[when].as_array().unwrap();
        let row = rows.iter().find(|it| it["split"] == split && it["metric"] == metric);
        row.unwrap_or_else(|| panic!("{when} {split} {metric}"))["value"].as_f64().unwrap()
    };
    assert_eq!(output["untrained"].as_array().unwrap().len(), output["trained"].as_array().unwrap().len());
    // Chance is 1/80.
    assert!(value("untrained", "seen", "accuracy (macro)") > 0.4);
    assert!(value("untrained", "held_out_combinations", "accuracy (macro)") > 0.1);
    for metric in ["stations that are true", "walks that pass a class of the photo"] {
        assert!((0.0..=1.0).contains(&value("trained", "walks", metric)), "{metric}");
    }
    let page = std::fs::read_to_string(quick.join("report.html")).unwrap();
    assert!(page.find("In short").unwrap() < page.find("Numbers").unwrap());

    // The suggested query finds photos, and the class names are rows for walks.
    let text = output["suggested"]["text"].as_str().unwrap();
    let search =
        ["--json", "search", "quick/embeddings", "--checkpoint", "quick", "--text", text, "--modality", "image"];
    let hits: Vec<Value> = serde_json::from_str(&good(folder.path(), &search)).unwrap();
    assert!(hits.len() >= 5 && hits.iter().all(|it| it["modality"] == "image"), "{hits:?}");
    let id = hits[0]["id"].as_str().unwrap();
    let walk = ["--json", "traverse", "quick/embeddings", "--id", id, "--where", "sample=class words"];
    let stops: Vec<Value> = serde_json::from_str(&good(folder.path(), &walk)).unwrap();
    let (last, stations) = stops.split_last().unwrap();
    assert_eq!(last["root"], true);
    assert!(stations.iter().all(|it| it["columns"]["sample"] == "class words"), "{stations:?}");

    // The run is replaced only with --fresh.
    refused(folder.path(), &["quickstart", "--out", "quick"], &["quick is not empty", "--fresh"]);
}
