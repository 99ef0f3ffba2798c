//! Layers of the explorer's map that the server computes, and what it saves and marks in a layer.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use conifer_embeddings::{EmbeddingSet, Modality, Provenance};
use conifer_geometry::{ManifoldSpec, Root};
use serde_json::{Value, json};

use super::explorer::{ExplorerServer, array, set, set_of};
use super::{command, good};

/// Number of rows for which UMAP takes seconds.
const MANY: usize = 6000;

/// Rows in spirals around the origin.
fn many_rows(folder: &Path) {
    let spec = ManifoldSpec::lorentz(5, 0.7);
    let ids = (0..MANY).map(|row| format!("r{row}")).collect();
    let points =
        (0..MANY * 5).map(|at| 0.0005 * (at / 5) as f32 * ((at * 7 + at / 5) as f32).sin()).collect::<Vec<f32>>();
    let set = EmbeddingSet::new(spec, Root::Origin, ids, vec![Modality::Image; MANY], points, Provenance::default());
    set.unwrap().save(&folder.join("set")).unwrap();
}

/// The job when it has one of these states, at most a minute later.
fn when(server: &ExplorerServer, states: &[&str]) -> Value {
    let begun = Instant::now();
    loop {
        let job = server.json("/api/map/layers")["job"].clone();
        if states.iter().any(|state| job["state"] == *state) {
            return job;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{job}");
        std::thread::sleep(Duration::from_millis(30));
    }
}

fn compute(server: &ExplorerServer, body: &Value) -> Value {
    let (status, started) = server.post("/api/map/layers", body);
    assert_eq!(status, 200, "{started}");
    assert_eq!((&started["by"], &started["sample"]), (&body["by"], &body["sample"]));
    when(server, &["done", "failed", "cancelled"])
}

fn delete(server: &ExplorerServer, path: &str) -> (u16, Value) {
    let (status, _, body) =
        server.ask(&format!("DELETE {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"));
    (status, serde_json::from_str(&body).unwrap())
}

fn refused(server: &ExplorerServer, path: &str, body: &Value, expected: u16, word: &str) {
    let (status, answer) = server.post(path, body);
    let message = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(status == expected && message.contains(word), "{body}: {status} {answer}");
}

#[test]
fn computed_layers_are_those_of_project_and_stay_with_the_set() {
    let folder = tempfile::tempdir().unwrap();
    set(folder.path());
    let server = ExplorerServer::start(folder.path(), &[]);
    let before = server.json("/api/map/layers");
    assert!(before.get("job").is_none() && before.get("refused").is_none(), "{before}");
    let methods: Vec<&str> =
        before["methods"].as_array().unwrap().iter().map(|it| it["by"].as_str().unwrap()).collect();
    assert_eq!(methods, ["umap", "horopca", "cosne", "tangent-pca", "depth"]);
    for (body, name) in [
        (json!({ "by": "umap" }), "umap"),
        (json!({ "by": "horopca", "factor": 1 }), "horopca-factor-1"),
        (json!({ "by": "tangent-pca", "name": "flat" }), "flat"),
    ] {
        let job = compute(&server, &body);
        assert_eq!((&job["state"], &job["name"], job.get("message")), (&json!("done"), &json!(name), None), "{job}");
        let (by, factor) = (body["by"].as_str().unwrap(), body["factor"].as_u64().map(|it| it.to_string()));
        let mut args = vec!["project", "set", "--by", by, "--out", name];
        args.extend(factor.iter().flat_map(|it| ["--factor", it]));
        good(folder.path(), &args);
        for file in ["points.csv", "map.html", "map.json", "projection.json"] {
            let read = |home: &str| std::fs::read(folder.path().join(home).join(name).join(file)).unwrap();
            assert!(read("set/maps") == read("."), "{name}/{file}");
        }
        refused(&server, "/api/map/layers", &body, 409, "exists; give another `name`");
    }
    let layers = server.json("/api/map/layers")["layers"].clone();
    assert_eq!(
        layers[2],
        json!({ "name": "horopca-factor-1", "title": "horopca-factor-1 · horopca, factor 1", "rows": 4, "disc": true })
    );
    let points = server.points("?layer=flat");
    drop(server);
    let server = ExplorerServer::start(folder.path(), &[]);
    assert_eq!(server.points("?layer=flat"), points);
    let again = server.json("/api/map/layers");
    // The maps of a folder are listed by name.
    let sorted = |layers: &Value| {
        let mut all: Vec<String> = layers.as_array().unwrap().iter().map(Value::to_string).collect();
        all.sort();
        all
    };
    assert_eq!(sorted(&again["layers"]), sorted(&layers));
    assert!(again.get("job").is_none());
}

#[test]
fn wrong_requests_for_layers_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    set(folder.path());
    std::fs::create_dir_all(folder.path().join("set/maps/taken")).unwrap();
    let server = ExplorerServer::start(folder.path(), &[]);
    for (body, status, word) in [
        (json!({}), 422, "missing field `by`"),
        (json!([1]), 422, "expected an object"),
        (
            json!({ "by": "pca" }),
            422,
            "`by` is `pca`; expected one of `umap`, `horopca`, `cosne`, `tangent-pca`, `depth`",
        ),
        (json!({ "by": "umap", "samples": 5 }), 422, "did you mean `sample`?"),
        (json!({ "by": "umap", "sample": 0 }), 422, "`sample` is 0; expected at least 1"),
        (json!({ "by": "umap", "sample": 3 }), 422, "expected at least 4 for `umap`"),
        (json!({ "by": "umap", "factor": 2 }), 422, "`factor` is 2; expected a number from 0 to 1"),
        (json!({ "by": "cosne" }), 422, "without `factor`; expected a factor from 0 to 1"),
        (json!({ "by": "umap", "name": "../umap" }), 422, "`name` is `../umap`"),
        (json!({ "by": "umap", "name": "taken" }), 422, "a folder `maps/taken` that is not shown as a layer"),
        (json!({ "by": "umap", "name": "disc" }), 409, "a layer `disc` exists"),
    ] {
        refused(&server, "/api/map/layers", &body, status, word);
    }
    let (status, answer) = delete(&server, "/api/map/layers/umap");
    assert!(status == 404 && answer.to_string().contains("no layer `umap` is being computed"), "{answer}");
    // A request of a page of another site.
    let (status, _, answer) = server.ask(
        "POST /api/map/layers HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\nConnection: close\r\n\
         Content-Length: 13\r\n\r\n{\"by\":\"umap\"}",
    );
    assert!(status == 403 && answer.contains("cross-site"), "{answer}");
    assert!(server.json("/api/map/layers").get("job").is_none());
    // A projection that cannot be computed says why, and the next one can be.
    let job = compute(&server, &json!({ "by": "cosne", "factor": 0, "sample": 1 }));
    assert!(job["state"] == "failed" && job["message"].as_str().unwrap().contains("expected"), "{job}");
    assert_eq!(compute(&server, &json!({ "by": "umap" }))["state"], "done");
    drop(server);
    let shard = ExplorerServer::start(folder.path(), &["--shard", "0/2"]);
    refused(&shard, "/api/map/layers", &json!({ "by": "umap", "name": "more" }), 403, "a shard computes no layers");
    assert!(shard.json("/api/map/layers")["refused"].as_str().unwrap().contains("a shard"));
    drop(shard);
    let open = ExplorerServer::start(folder.path(), &["--host", "0.0.0.0", "--allow-anyone"]);
    refused(&open, "/api/map/layers", &json!({ "by": "umap", "name": "more" }), 403, "--allow-anyone");
    assert!(!folder.path().join("set/maps/more").exists());
}

#[test]
fn token_is_needed_to_compute_layers() {
    let folder = tempfile::tempdir().unwrap();
    set(folder.path());
    std::fs::write(folder.path().join("token"), "0123456789abcdef").unwrap();
    let server = ExplorerServer::start(folder.path(), &["--host", "0.0.0.0", "--token-file", "token"]);
    let head = "POST /api/map/layers HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 13\r\n";
    let body = r#"{"by":"umap"}"#;
    let (status, _, answer) = server.ask(&format!("{head}\r\n{body}"));
    assert_eq!(status, 401, "{answer}");
    let (status, _, answer) = server.ask(&format!("{head}Authorization: Bearer 0123456789abcdef\r\n\r\n{body}"));
    assert_eq!(status, 200, "{answer}");
}

#[test]
fn long_computations_can_be_watched_cancelled_and_continued() {
    let folder = tempfile::tempdir().unwrap();
    many_rows(folder.path());
    let maps = folder.path().join("set/maps");
    let mut server = ExplorerServer::start(folder.path(), &[]);
    let umap = json!({ "by": "umap" });
    assert_eq!(server.post("/api/map/layers", &umap).0, 200);
    refused(&server, "/api/map/layers", &umap, 409, "`umap` is being computed");
    refused(&server, "/api/map/layers", &json!({ "by": "tangent-pca" }), 409, "DELETE /api/map/layers/umap");
    let begun = Instant::now();
    let job = loop {
        let job = when(&server, &["computing"]);
        if job["stage"] == "epochs" && job["seconds_left"].is_number() {
            break job;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{job}");
        std::thread::sleep(Duration::from_millis(10));
    };
    let (step, steps) = (job["step"].as_u64().unwrap(), job["steps"].as_u64().unwrap());
    assert!(0 < step && step < steps && job["seconds_left"].as_f64().unwrap() > 0.0, "{job}");
    // The server answers meanwhile.
    assert_eq!(server.points("?limit=3").0["points"], 3);
    server.refused("/api/map/points?layer=umap", 422, "expected one of `disc`");
    let (status, answer) = delete(&server, "/api/map/layers/umap");
    assert!(status == 200 && ["stopping", "cancelled"].contains(&answer["state"].as_str().unwrap()), "{answer}");
    assert_eq!(when(&server, &["cancelled", "done", "failed"])["state"], "cancelled");
    assert!(!maps.exists(), "a cancelled layer leaves nothing");
    assert_eq!(delete(&server, "/api/map/layers/umap").0, 404);
    // The end of the server keeps the state, and the next server continues.
    assert_eq!(server.post("/api/map/layers", &umap).0, 200);
    let begun = Instant::now();
    while when(&server, &["computing"])["stage"] != "epochs" {
        assert!(begun.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(10));
    }
    let pid = server.program.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    let begun = Instant::now();
    while server.program.try_wait().unwrap().is_none() {
        assert!(begun.elapsed() < Duration::from_secs(12), "the server does not end");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(maps.join(".umap.unfinished/umap.state").is_file() && !maps.join("umap").exists());
    let server = ExplorerServer::start(folder.path(), &[]);
    assert_eq!(compute(&server, &json!({ "by": "umap" }))["state"], "done");
    assert!(!maps.join(".umap.unfinished").exists());
    good(folder.path(), &["project", "set", "--by", "umap", "--out", "whole"]);
    let read = |path: &Path| std::fs::read(path.join("points.csv")).unwrap();
    assert!(read(&maps.join("umap")) == read(&folder.path().join("whole")), "a continued layer is another one");
}

#[test]
fn set_that_changed_or_cannot_be_written_is_told() {
    let folder = tempfile::tempdir().unwrap();
    set(folder.path());
    std::fs::write(folder.path().join("set/maps"), "in the way").unwrap();
    let server = ExplorerServer::start(folder.path(), &[]);
    let job = compute(&server, &json!({ "by": "umap" }));
    assert!(job["state"] == "done" && job["message"].as_str().unwrap().contains("cannot be written"), "{job}");
    let layers = server.json("/api/map/layers");
    assert_eq!(layers["layers"][1]["title"], "umap · not saved");
    assert_eq!(server.points("?layer=umap").0["points"], 4);
    // The same folder with another label, while the server shows the old one.
    std::fs::remove_dir_all(folder.path().join("set")).unwrap();
    set_of(folder.path(), vec![Modality::Image; 4], &[("label", ["ox", "cat", "dog", ""])]);
    let job = compute(&server, &json!({ "by": "tangent-pca" }));
    assert!(job["state"] == "failed" && job["message"].as_str().unwrap().contains("the set has changed"), "{job}");
    assert!(!job.to_string().contains(&*folder.path().to_string_lossy()), "{job}");
}

/// The data of a saved page.
fn page(server: &ExplorerServer, body: &Value) -> Value {
    let body = body.to_string();
    let head = "POST /api/map/page HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n";
    let (status, head, text) = server.ask(&format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()));
    assert!(
        status == 200 && head.contains("text/html") && head.contains("default-src 'self'"),
        "{body}: {head} {text}"
    );
    assert!(!text.contains("http://") && !text.contains("https://") && !text.contains("src="), "{text}");
    let data = text.split_once("id=\"data\">").unwrap().1.split_once("</script>").unwrap().0;
    serde_json::from_str(data).unwrap()
}

#[test]
fn saved_page_has_the_points_and_their_texts() {
    let folder = tempfile::tempdir().unwrap();
    let columns = [
        ("text", ["a </script> b", "a cat", "", "x"]),
        ("size", ["1", "2.5", "-3", "4"]),
        ("label", ["dog", "cat", "dog", ""]),
    ];
    set_of(folder.path(), vec![Modality::Image, Modality::Text, Modality::Image, Modality::BoxText], &columns);
    let server = ExplorerServer::start(folder.path(), &[]);
    let map = server.json("/api/map");
    let data = page(
        &server,
        &json!({ "rows": [3, 0], "columns": ["label", "size", "depth", "modality"], "seen": 9, "view": [0.1, 0.2, 0.5] }),
    );
    assert_eq!((&data["ids"], &data["labels"]), (&json!(["d", "a"]), &json!(["x", "a </script> b"])));
    assert_eq!(
        (&data["title"], &data["disc"], &data["root"]),
        (&json!("Disc by depth · 2 rows"), &json!(true), &json!([0.0, 0.0]))
    );
    assert_eq!(
        (&data["view"], &data["notes"]),
        (&json!([0.1, 0.2, 0.5]), &json!(["a sample of 2 of the 9 points that were seen"]))
    );
    let names: Vec<&String> = data["columns"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["label", "size", "depth", "modality"]);
    assert_eq!((&data["columns"]["label"], &data["columns"]["size"]), (&json!(["", "dog"]), &json!([4.0, 1.0])));
    assert_eq!(data["columns"]["modality"], json!(["box_text", "image"]));
    // Colours are those of the whole set, numbers have a scale.
    assert_eq!(data["coloured"]["label"], json!(["", "cat", "dog"]));
    assert!(data["coloured"].get("size").is_none());
    for (at, row) in [3, 0].into_iter().enumerate() {
        for name in ["x", "y"] {
            let (found, expected) = (data[name][at].as_f64().unwrap(), map[name][row].as_f64().unwrap());
            assert!((found - expected).abs() < 1e-6, "{name} of row {row}");
        }
        assert!((data["columns"]["depth"][at].as_f64().unwrap() - map["depth"][row].as_f64().unwrap()).abs() < 1e-6);
    }
    let centre = [map["x"][1].as_f64().unwrap(), map["y"][1].as_f64().unwrap()];
    let moved = page(&server, &json!({ "rows": [1], "center": centre }));
    assert!(moved["x"][0].as_f64().unwrap().abs() < 1e-6 && moved["y"][0].as_f64().unwrap().abs() < 1e-6, "{moved}");
    assert!((moved["root"][0].as_f64().unwrap() + centre[0]).abs() < 1e-6, "{moved}");
    assert_eq!(moved["notes"], json!([]));
    let big = json!({ "rows": [0], "columns": vec!["label"; 21] });
    for (body, status, word) in [
        (json!({ "rows": [] }), 422, "`rows` has 0 numbers"),
        (json!({ "rows": [0, 4] }), 422, "`rows[1]` is 4; expected a row of the layer `disc`"),
        (json!({ "rows": [0], "layer": "umap" }), 422, "expected one of `disc`"),
        (json!({ "rows": [0], "columns": ["colour"] }), 422, "`column` is `colour`"),
        (json!({ "rows": [0], "center": [1, 0] }), 422, "inside the unit disc"),
        (json!({ "rows": [0], "view": [0, 0, 0] }), 422, "`view[2]` is 0"),
        (json!({ "rows": [0], "view": [0, 0] }), 422, "`view`"),
        (json!({ "row": [0] }), 422, "did you mean `rows`?"),
        (big, 422, "`columns` has 21 names"),
    ] {
        refused(&server, "/api/map/page", &body, status, word);
    }
}

#[test]
fn cone_of_a_row_is_that_of_the_filter() {
    let folder = tempfile::tempdir().unwrap();
    many_rows(folder.path());
    let server = ExplorerServer::start(folder.path(), &[]);
    let mut sizes = Vec::new();
    for row in [0, 300, 3000] {
        let request = format!("GET /api/map/cone/{row} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        let answer = server.bytes(&request);
        let body = &answer[answer.windows(4).position(|it| it == b"\r\n\r\n").unwrap() + 4..];
        let length = u64::from_le_bytes(body[..8].try_into().unwrap()) as usize;
        let header: Value = serde_json::from_slice(&body[8..8 + length]).unwrap();
        let inside = array(&header, &body[8 + length..], "row");
        let (status, found) =
            server.post("/api/search", &json!({ "query": { "row": row }, "inside": { "row": row }, "k": 1000 }));
        assert_eq!((status, &header["row"]), (200, &json!(row)));
        assert_eq!((&header["points"], &found["rows_passing"]), (&json!(inside.len()), &json!(inside.len())));
        assert_eq!(header["aperture"], server.json(&format!("/api/map/row/{row}"))["aperture"]);
        assert!(inside.windows(2).all(|pair| pair[0] < pair[1]));
        for hit in found["hits"].as_array().unwrap() {
            assert!(inside.contains(&hit["row"].as_f64().unwrap()), "{hit}");
        }
        sizes.push(inside.len());
    }
    assert!(sizes.iter().any(|it| (2..MANY).contains(it)), "{sizes:?}");
    server.refused(&format!("/api/map/cone/{MANY}"), 404, "expected a number below 6000");
    server.refused("/api/map/cone/x", 422, "`x` is not a row number");
}

#[test]
fn old_states_of_other_settings_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    many_rows(folder.path());
    // A command with other settings was stopped at once.
    let args = ["project", "set", "--by", "umap", "--epochs", "3000", "--save-every", "0", "--out", "set/maps/umap"];
    std::fs::create_dir(folder.path().join("set/maps")).unwrap();
    let mut program = command(folder.path(), &args).spawn().unwrap();
    let state = folder.path().join("set/maps/.umap.unfinished/settings.json");
    let begun = Instant::now();
    while !state.is_file() {
        assert!(begun.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(10));
    }
    program.kill().unwrap();
    program.wait().unwrap();
    let server = ExplorerServer::start(folder.path(), &[]);
    let job = compute(&server, &json!({ "by": "umap" }));
    let message = job["message"].as_str().unwrap_or_default();
    assert!(job["state"] == "failed" && message.contains("--epochs `3000`") && message.starts_with("maps/"), "{job}");
    assert_eq!(compute(&server, &json!({ "by": "umap", "name": "other", "sample": 50 }))["state"], "done");
}

/// Another set with the rows c, b, e and a, of which three are also in [`set`].
fn other_set(folder: &Path, ids: [&str; 4], modality: Vec<Modality>) {
    let points = vec![0.1, 0.2, 0.3, 1.0, 0.0, 0.5, -0.4, 0.2, 0.1, 0.0, 0.7, 0.0];
    let ids = ids.map(String::from).to_vec();
    let spec = ManifoldSpec::lorentz(3, 1.0);
    let mut set = EmbeddingSet::new(spec, Root::Origin, ids, modality, points, Provenance::default()).unwrap();
    set.columns.insert("text".to_owned(), ["of c", "of b", "of e", "of a"].map(String::from).to_vec());
    set.save(&folder.join("other")).unwrap();
}

#[test]
fn second_set_has_its_map_and_links() {
    let folder = tempfile::tempdir().unwrap();
    set(folder.path());
    let kinds = || vec![Modality::Image, Modality::Text, Modality::Text, Modality::Image];
    other_set(folder.path(), ["c", "b", "e", "a"], kinds());
    std::fs::create_dir(folder.path().join("other/maps")).unwrap();
    good(folder.path(), &["project", "other", "--by", "tangent-pca", "--out", "other/maps/flat"]);
    let server = ExplorerServer::start(folder.path(), &["--beside", "other"]);
    let layers = server.json("/api/map/layers");
    assert_eq!(layers["beside"], json!({ "title": "other", "rows": 4, "shared_ids": 3, "linked_rows": 3 }));
    assert_eq!(layers["layers"].as_array().unwrap().len(), 1);
    let layers = server.json("/api/map/layers?beside=true");
    assert_eq!((&layers["layers"][1]["name"], layers.get("beside")), (&json!("flat"), None));
    let answer = server.bytes("GET /api/map/links HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let body = &answer[answer.windows(4).position(|it| it == b"\r\n\r\n").unwrap() + 4..];
    let length = u64::from_le_bytes(body[..8].try_into().unwrap()) as usize;
    let header: Value = serde_json::from_slice(&body[8..8 + length]).unwrap();
    let pairs = |name: &str| array(&header, &body[8 + length..], name);
    assert_eq!((pairs("row"), pairs("beside")), (vec![0.0, 1.0, 2.0], vec![3.0, 1.0, 0.0]));
    let (header, bytes) = server.points("?beside=true");
    let depth = array(&header, &bytes, "depth");
    // asinh |x| of the second row.
    assert!((depth[1] - 1.25_f64.sqrt().asinh()).abs() < 1e-6, "{depth:?}");
    assert_eq!(server.points("?beside=true&layer=flat").0["points"], 4);
    assert_eq!(server.json("/api/map/labels?beside=true")["labels"].as_array().unwrap().len(), 2);
    server.refused("/api/map/points?beside=true&column=label", 422, "expected a column of the set: `text`");
    server.refused("/api/map/points?beside=yes", 422, "`beside` is \"yes\"; expected true or false");
    drop(server);
    let server = ExplorerServer::start(folder.path(), &[]);
    for path in
        ["/api/map/links", "/api/map/points?beside=true", "/api/map/labels?beside=true", "/api/map/layers?beside=true"]
    {
        server.refused(path, 404, "no second set; start it with --beside OTHER");
    }
    drop(server);
    let told = |ids: [&str; 4], kinds: Vec<Modality>, word: &str| {
        std::fs::remove_dir_all(folder.path().join("other")).unwrap();
        other_set(folder.path(), ids, kinds);
        let output = command(folder.path(), &["serve", "set", "--port", "0", "--beside", "other"]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains("--beside other") && said.contains(word), "{said}");
    };
    told(["v", "w", "x", "y"], kinds(), "no id of the served set (it begins with `v`, the served set with `a`)");
    told(
        ["a", "b", "c", "y"],
        vec![Modality::BoxImage; 4],
        "3 ids of the served set, but only at rows of another kind",
    );
    let output = command(folder.path(), &["serve", "set", "--beside", "other", "--shard", "0/2"]).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot be used with"));
    let output = command(folder.path(), &["serve", "set", "--port", "0", "--beside", "absent"]).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("absent does not exist"));
}
