//! The endpoints of the explorer page.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};

use conifer_embeddings::{EmbeddingSet, Modality, Provenance};
use conifer_geometry::{ManifoldSpec, Root};
use serde_json::{Value, json};

use super::command;

/// A running server, killed on drop.
struct ExplorerServer {
    program: Child,
    address: String,
}

impl Drop for ExplorerServer {
    fn drop(&mut self) {
        // The server may have ended already.
        _ = self.program.kill();
        _ = self.program.wait();
    }
}

impl ExplorerServer {
    fn start(folder: &Path, more: &[&str]) -> Self {
        let mut program = command(folder, &["serve", "set", "--port", "0"]);
        let mut program = program.args(more).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(program.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().rsplit_once("http://").unwrap().1.to_owned();
        ExplorerServer { program, address }
    }

    /// Status, head and body of the response to a GET request.
    fn get(&self, path: &str) -> (u16, String, String) {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"))
    }

    /// The sorted row numbers that a search returns.
    fn found(&self, body: &Value) -> Vec<u64> {
        let (body, head) = (body.to_string(), "POST /api/search HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
        let (status, _, answer) = self.ask(&format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()));
        assert_eq!(status, 200, "{body}: {answer}");
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let mut rows: Vec<u64> =
            answer["hits"].as_array().unwrap().iter().map(|it| it["row"].as_u64().unwrap()).collect();
        rows.sort_unstable();
        rows
    }

    fn ask(&self, request: &str) -> (u16, String, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), head.to_lowercase(), body.to_owned())
    }

    fn json(&self, path: &str) -> Value {
        let (status, _, body) = self.get(path);
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str(&body).unwrap()
    }

    fn refused(&self, path: &str, expected: u16, word: &str) {
        let (status, _, body) = self.get(path);
        let error: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((status, &error["error"]["status"]), (expected, &expected.into()), "{path}: {body}");
        assert!(error["error"]["message"].as_str().unwrap().contains(word), "{path}: {body}");
    }
}

/// Four rows in a product of two hyperbolic planes with c = 1 and 4.
fn set(folder: &Path) {
    let modality = vec![Modality::Image, Modality::Text, Modality::Image, Modality::BoxText];
    set_of(folder, modality, &[("label", ["dog", "cat", "dog", ""])]);
}

/// The same four points with other modalities and columns.
fn set_of(folder: &Path, modality: Vec<Modality>, columns: &[(&str, [&str; 4])]) {
    let spec = ManifoldSpec::product_l1(2, 2, vec![1.0, 4.0]);
    let points = vec![0.3, 0.4, 0.0, 0.0, 3.0, 4.0, 0.0, 0.0, 0.0, 0.0, 1.5, 2.0, -0.3, 0.4, 0.3, -0.4];
    let ids = ["a", "b", "c", "d"].map(String::from).to_vec();
    let mut set = EmbeddingSet::new(spec, Root::Origin, ids, modality, points, Provenance::default()).unwrap();
    for (name, values) in columns {
        set.columns.insert((*name).to_owned(), values.map(String::from).to_vec());
    }
    set.save(&folder.join("set")).unwrap();
}

#[test]
fn page_and_assets_have_a_strict_content_policy() {
    let folder = tempfile::tempdir().unwrap();
    set(folder.path());
    let server = ExplorerServer::start(folder.path(), &[]);
    let (status, head, page) = server.get("/");
    assert!(status == 200 && head.contains("text/html") && page.contains("conifer"), "{head}");
    assert!(head.contains("content-security-policy: default-src 'self';") && !head.contains("unsafe"), "{head}");
    let (status, head, script) = server.get("/assets/main.js");
    assert!(status == 200 && head.contains("text/javascript") && script.contains("import"), "{head}");
    server.refused("/assets/secret.js", 404, "secret.js");
    server.refused("/assets/..%2fmain.js", 404, "main.js");
}

#[test]
fn map_keeps_the_depth_of_rows() {
    let folder = tempfile::tempdir().unwrap();
    set(folder.path());
    let server = ExplorerServer::start(folder.path(), &[]);
    let map = server.json("/api/map");
    assert_eq!((&map["rows"], &map["modality"]), (&json!([0, 1, 2, 3]), &"itip".into()));
    // Depth is the mean over the factors of asinh(sqrt(c) |x|) / sqrt(c). The mean curvature is 2.5.
    let depths = [
        0.5_f64.asinh() / 2.0,
        5.0_f64.asinh() / 2.0,
        5.0_f64.asinh() / 4.0,
        (0.5_f64.asinh() + 1.0_f64.asinh() / 2.0) / 2.0,
    ];
    for (row, expected) in depths.iter().enumerate() {
        let at = |name: &str| map[name][row].as_f64().unwrap();
        assert!((at("depth") - expected).abs() < 1e-6, "row {row}: {}", at("depth"));
        let radius = (2.5_f64.sqrt() * expected / 2.0).tanh();
        assert!((at("x").hypot(at("y")) - radius).abs() < 1e-6, "row {row}");
    }
    let one = server.json("/api/map/row/1");
    for name in ["x", "y"] {
        assert!((one[name].as_f64().unwrap() - map[name][1].as_f64().unwrap()).abs() < 1e-6);
    }
    // The half aperture is asin(2K / sinh(sqrt(c) d)) with K = 0.1. In the first factor sinh(sqrt(c) d) = 5. In the
    // second factor the row is at the root, where the half aperture is pi/2.
    let aperture = ((0.2_f64 / 5.0).asin() + std::f64::consts::FRAC_PI_2) / 2.0;
    assert!((one["aperture"].as_f64().unwrap() - aperture).abs() < 1e-5, "{one}");
    assert_eq!(server.json("/api/map?limit=2")["rows"], json!([1, 3]));
    server.refused("/api/map?limit=0", 422, "limit");
    server.refused("/api/map?limits=2", 422, "limits");
    server.refused("/api/map/row/4", 404, "below 4");
    server.refused("/api/map/row/x", 422, "digits");
}

#[test]
fn factors_and_classes_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    set(folder.path());
    let server = ExplorerServer::start(folder.path(), &[]);
    let factors = server.json("/api/factors");
    assert_eq!(factors["factors"].as_array().unwrap().len(), 2);
    let largest = |i: usize| factors["factors"][i]["max"].as_f64().unwrap();
    assert!((largest(0) - 5.0_f64.asinh()).abs() < 1e-5 && (largest(1) - 5.0_f64.asinh() / 2.0).abs() < 1e-5);
    let rows = |path: &str| -> Vec<u64> {
        let hits = server.json(path);
        hits["hits"].as_array().unwrap().iter().map(|it| it["row"].as_u64().unwrap()).collect()
    };
    assert_eq!(rows("/api/factors/0?k=2"), [1, 0]);
    assert_eq!(rows("/api/factors/1?modality=image"), [2, 0]);
    server.refused("/api/factors/2", 404, "0 to 1");
    server.refused("/api/factors/0?k=0", 422, "`k`");
    server.refused("/api/factors/0?modality=smell", 422, "smell");

    let tree = server.json("/api/tree");
    assert_eq!(tree["node"], json!({ "name": "all", "count": 3, "children": 2 }));
    assert_eq!(tree["children"][1], json!({ "name": "dog", "count": 2, "children": 0 }));
    server.refused("/api/tree?node=cow", 404, "`cow`");
    drop(server);
    std::fs::write(folder.path().join("tree.txt"), "thing animal\nanimal dog\nthing car\n").unwrap();
    let server = ExplorerServer::start(folder.path(), &["--tree", "tree.txt"]);
    let animal = server.json("/api/tree?node=animal");
    assert_eq!(animal["path"], json!(["thing", "animal"]));
    assert_eq!((&animal["node"]["count"], &animal["outside"]), (&2.into(), &1.into()));
}

#[test]
fn classes_come_from_labels_and_ranks_without_a_tree() {
    let folder = tempfile::tempdir().unwrap();
    let images = vec![Modality::Image; 4];
    let one = |name: &str, count: u64, children: u64| json!({ "name": name, "count": count, "children": children });

    // From labels alone, the tree has one level, and a search can be limited to one class.
    set(folder.path());
    let server = ExplorerServer::start(folder.path(), &[]);
    assert_eq!(server.json("/api/info")["can"]["tree"], true);
    assert_eq!(server.json("/api/tree")["children"], json!([one("cat", 1, 0), one("dog", 2, 0)]));
    assert_eq!(server.found(&json!({ "query": { "row": 0 }, "subtree": "dog" })), [0, 2]);
    drop(server);

    let folder = tempfile::tempdir().unwrap();
    // A column with the path of ranks; the label is the full name of the last rank. Two birds with the same epithet are
    // distinct classes.
    let birds = ("label", ["Papasula abbotti", "Sula abbotti", "", "Canis lupus"]);
    let path = ["Aves > Papasula > abbotti", "Aves > Sula > abbotti", "Aves > Sula", "Mammalia > Canis > lupus"];
    set_of(folder.path(), images.clone(), &[birds, ("taxon", path)]);
    let server = ExplorerServer::start(folder.path(), &[]);
    let top = server.json("/api/tree");
    assert_eq!(top["children"], json!([one("Aves", 3, 2), one("Mammalia", 1, 1)]));
    let sula = server.json("/api/tree?node=Sula");
    assert_eq!((&sula["node"]["count"], &sula["path"]), (&2.into(), &json!(["all", "Aves", "Sula"])));
    assert_eq!(sula["children"], json!([one("Sula abbotti", 1, 0)]));
    assert_eq!(server.found(&json!({ "query": { "row": 3 }, "subtree": "Aves" })), [0, 1, 2]);
    drop(server);

    let folder = tempfile::tempdir().unwrap();
    // One column per rank.
    let ranks = [
        ("kingdom", ["Animalia"; 4]),
        ("class", ["Aves", "Aves", "Aves", "Mammalia"]),
        ("genus", ["Papasula", "Sula", "Sula", "Canis"]),
        ("species", ["abbotti", "abbotti", "", "lupus"]),
    ];
    set_of(folder.path(), images, &[&[birds][..], &ranks[..]].concat());
    let server = ExplorerServer::start(folder.path(), &[]);
    let aves = server.json("/api/tree?node=Aves");
    assert_eq!(aves["path"], json!(["all", "Animalia", "Aves"]));
    assert_eq!(aves["children"], json!([one("Papasula", 1, 1), one("Sula", 2, 1)]));
    drop(server);

    // --tree takes precedence over labels and ranks.
    std::fs::write(folder.path().join("tree.txt"), "thing\tCanis lupus\nthing\tbird\n").unwrap();
    let server = ExplorerServer::start(folder.path(), &["--tree", "tree.txt"]);
    assert_eq!(server.json("/api/tree")["children"], json!([one("Canis lupus", 1, 0), one("bird", 0, 0)]));
}

#[test]
fn boxes_of_a_photo_are_listed_once_with_all_phrases() {
    let folder = tempfile::tempdir().unwrap();
    let modality = vec![Modality::BoxImage, Modality::Image, Modality::BoxImage, Modality::BoxImage];
    let columns = [
        ("sample", ["a", "a", "a", "b"]),
        ("box", ["0.1,0.2,0.3,0.4", "", "0.1,0.2,0.3,0.4", "0.5,0.5,0.5,0.5"]),
        ("text", ["a red car", "a street", "a car", "a dog"]),
    ];
    set_of(folder.path(), modality, &columns);
    let server = ExplorerServer::start(folder.path(), &[]);
    let boxes = server.json("/api/rows/1/boxes");
    assert_eq!((&boxes["photo"], boxes["boxes"].as_array().unwrap().len()), (&1.into(), 1));
    let first = &boxes["boxes"][0];
    assert_eq!((&first["rows"], &first["texts"]), (&json!([0, 2]), &json!(["a red car", "a car"])));
    for (i, expected) in [0.1, 0.2, 0.3, 0.4].into_iter().enumerate() {
        assert!((first["box"][i].as_f64().unwrap() - expected).abs() < 1e-6, "{first}");
    }
    assert_eq!(server.json("/api/rows/2/boxes"), boxes);
    let other = server.json("/api/rows/3/boxes");
    assert_eq!((&other["photo"], &other["boxes"][0]["rows"]), (&Value::Null, &json!([3])));
    server.refused("/api/rows/4/boxes", 404, "below 4");
    drop(server);
    let folder = tempfile::tempdir().unwrap();
    // A set without the column `sample` has no boxes.
    set(folder.path());
    let server = ExplorerServer::start(folder.path(), &[]);
    assert_eq!(server.json("/api/rows/0/boxes"), json!({ "boxes": [] }));
}
