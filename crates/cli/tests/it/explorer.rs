//! The endpoints of the explorer page.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};

use conifer_embeddings::{EmbeddingSet, Modality, Provenance};
use conifer_geometry::{ManifoldSpec, Root};
use serde_json::{Value, json};

use super::{command, good};

/// A running server, killed on drop.
pub(super) struct ExplorerServer {
    pub(super) program: Child,
    pub(super) address: String,
}

impl Drop for ExplorerServer {
    fn drop(&mut self) {
        // The server may have ended already.
        _ = self.program.kill();
        _ = self.program.wait();
    }
}

impl ExplorerServer {
    pub(super) fn start(folder: &Path, more: &[&str]) -> Self {
        let mut program = command(folder, &["serve", "set", "--port", "0"]);
        let mut program = program.args(more).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(program.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().rsplit_once("http://").unwrap().1.to_owned();
        ExplorerServer { program, address }
    }

    /// Status, head and body of the response to a GET request.
    pub(super) fn get(&self, path: &str) -> (u16, String, String) {
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

    pub(super) fn ask(&self, request: &str) -> (u16, String, String) {
        let answer = String::from_utf8(self.bytes(request)).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), head.to_lowercase(), body.to_owned())
    }

    /// The whole response to a request.
    pub(super) fn bytes(&self, request: &str) -> Vec<u8> {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        answer
    }

    /// The header and the arrays of `/api/map/points`.
    pub(super) fn points(&self, query: &str) -> (Value, Vec<u8>) {
        let request = format!("GET /api/map/points{query} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        let answer = self.bytes(&request);
        let end = answer.windows(4).position(|it| it == b"\r\n\r\n").unwrap() + 4;
        let head = String::from_utf8_lossy(&answer[..end]).to_lowercase();
        assert!(head.contains(" 200 ") && head.contains("application/octet-stream"), "{query}: {head}");
        let body = &answer[end..];
        let length = u64::from_le_bytes(body[..8].try_into().unwrap()) as usize;
        (serde_json::from_slice(&body[8..8 + length]).unwrap(), body[8 + length..].to_vec())
    }

    pub(super) fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let body = body.to_string();
        let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
        let (status, _, answer) = self.ask(&format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()));
        (status, serde_json::from_str(&answer).unwrap())
    }

    pub(super) fn json(&self, path: &str) -> Value {
        let (status, _, body) = self.get(path);
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str(&body).unwrap()
    }

    pub(super) fn refused(&self, path: &str, expected: u16, word: &str) {
        let (status, _, body) = self.get(path);
        let error: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((status, &error["error"]["status"]), (expected, &expected.into()), "{path}: {body}");
        assert!(error["error"]["message"].as_str().unwrap().contains(word), "{path}: {body}");
    }
}

/// Four rows in a product of two hyperbolic planes with c = 1 and 4.
pub(super) fn set(folder: &Path) {
    let modality = vec![Modality::Image, Modality::Text, Modality::Image, Modality::BoxText];
    set_of(folder, modality, &[("label", ["dog", "cat", "dog", ""])]);
}

/// The same four points with other modalities and columns.
pub(super) fn set_of(folder: &Path, modality: Vec<Modality>, columns: &[(&str, [&str; 4])]) {
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

/// The numbers of an array of `/api/map/points`.
pub(super) fn array(header: &Value, bytes: &[u8], name: &str) -> Vec<f64> {
    let place = &header["arrays"][name];
    let (start, count) = (place["offset"].as_u64().unwrap() as usize, header["points"].as_u64().unwrap() as usize);
    let four = |at: usize| -> [u8; 4] { bytes[start + 4 * at..start + 4 * at + 4].try_into().unwrap() };
    let number = |at: usize| match place["type"].as_str().unwrap() {
        "u8" => f64::from(bytes[start + at]),
        "u32" => f64::from(u32::from_le_bytes(four(at))),
        "f32" => f64::from(f32::from_le_bytes(four(at))),
        other => panic!("unknown type {other}"),
    };
    (0..count).map(number).collect()
}

#[test]
fn points_are_arrays_of_the_same_map() {
    let folder = tempfile::tempdir().unwrap();
    set(folder.path());
    let server = ExplorerServer::start(folder.path(), &[]);
    let map = server.json("/api/map");
    let (header, bytes) = server.points("?column=label");
    assert_eq!((&header["layer"], &header["disc"], &header["points"]), (&json!("disc"), &json!(true), &json!(4)));
    assert_eq!((&header["rows_of_layer"], &header["root"]), (&json!(4), &json!([0.0, 0.0])));
    assert_eq!(array(&header, &bytes, "row"), [0.0, 1.0, 2.0, 3.0]);
    assert_eq!(array(&header, &bytes, "modality"), [0.0, 1.0, 0.0, 3.0]);
    for name in ["x", "y", "depth"] {
        for (row, value) in array(&header, &bytes, name).into_iter().enumerate() {
            assert!((value - map[name][row].as_f64().unwrap()).abs() < 1e-6, "{name} of row {row}: {value}");
        }
    }
    // The labels are dog, cat, dog and nothing; codes follow the sorted names.
    assert_eq!(header["colour"], json!({ "column": "label", "names": ["", "cat", "dog"], "min": null, "max": null }));
    assert_eq!(array(&header, &bytes, "code"), [2.0, 1.0, 2.0, 0.0]);
    let (header, bytes) = server.points("?column=label&only=codes&limit=2");
    assert_eq!(array(&header, &bytes, "code"), [1.0, 0.0]);
    assert_eq!((header["arrays"].as_object().unwrap().len(), bytes.len()), (1, 4));
    let (header, bytes) = server.points("?limit=2&layer=disc");
    assert_eq!((array(&header, &bytes, "row"), &header["rows_of_layer"]), (vec![1.0, 3.0], &json!(4)));
    assert!(header.get("colour").is_none() && header["arrays"].get("code").is_none());
    for (query, word) in [
        ("?limit=0", "`limit` is 0; expected 1 to 10000000"),
        ("?limit=all", "`limit` is \"all\"; expected a whole number"),
        ("?layer=umap", "`layer` is `umap`; expected one of `disc`"),
        ("?column=colour", "`column` is `colour`; expected a column of the set: `label`"),
        ("?only=codes", "`only` is `codes` without `column`"),
        ("?only=x&column=label", "`only` is \"x\"; expected `codes`"),
        ("?columns=label", "did you mean `column`?"),
    ] {
        server.refused(&format!("/api/map/points{query}"), 422, word);
    }
    server.refused("/api/map/labels?layer=x", 422, "expected one of `disc`");
}

#[test]
fn maps_of_the_set_are_layers() {
    let folder = tempfile::tempdir().unwrap();
    set(folder.path());
    let write = |name: &str, points: &str, report: &str| {
        let map = folder.path().join(name);
        std::fs::create_dir_all(&map).unwrap();
        std::fs::write(map.join("points.csv"), points).unwrap();
        std::fs::write(map.join("projection.json"), report).unwrap();
    };
    write("set/maps/flat", "row,id,x0,x1\n3,d,-2,1\n1,b,5.5,7\n", r#"{"by":"umap","disc":false,"root":null}"#);
    write("set/maps/stale", "row,id,x0,x1\n0,other,0,0\n", r#"{"disc":false}"#);
    write("ball", "row,id,x0,x1\n0,a,0.5,-0.5\n", r#"{"by":"horopca","factor":1,"disc":true,"root":[0.1,0]}"#);
    let server = ExplorerServer::start(folder.path(), &["--map", "ball"]);
    let layer = |name: &str, title: &str, rows: usize, disc: bool| json!({ "name": name, "title": title, "rows": rows, "disc": disc });
    let expected = [
        layer("disc", "Disc by depth", 4, true),
        layer("ball", "ball · horopca, factor 1", 1, true),
        layer("flat", "flat · umap", 2, false),
    ];
    assert_eq!(server.json("/api/map/layers")["layers"], json!(expected));
    let (header, bytes) = server.points("?layer=flat&column=label");
    let array = |name: &str| array(&header, &bytes, name);
    assert_eq!((array("row"), array("x"), array("y")), (vec![1.0, 3.0], vec![5.5, -2.0], vec![7.0, 1.0]));
    // The codes are those of the whole set: cat is 1 although no dog is in this map.
    assert_eq!((array("code"), &header["root"]), (vec![1.0, 0.0], &Value::Null));
    assert_eq!(server.points("?layer=ball").0["root"], json!([0.1, 0.0]));
    // One class has rows in this map. The text of row 3 is no label, because the set has no column `text`.
    let labels = server.json("/api/map/labels?layer=flat");
    let label = &labels["labels"][0];
    assert_eq!(
        (&label["text"], &label["row"], &label["x"], &label["rows"]),
        (&json!("cat"), &json!(1), &json!(5.5), &json!(1))
    );
    assert_eq!(labels["labels"].as_array().unwrap().len(), 1, "{labels}");
    let shard = ExplorerServer::start(folder.path(), &["--shard", "1/2"]);
    let (header, bytes) = shard.points("?layer=flat");
    assert_eq!(
        (self::array(&header, &bytes, "row"), self::array(&header, &bytes, "x")),
        (vec![0.0, 1.0], vec![5.5, -2.0])
    );
    let output = command(folder.path(), &["serve", "set", "--port", "0", "--map", "set/maps/stale"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("--map") && said.contains("row 0 has the id `other`"), "{said}");
}

/// `project --by depth` has the formula of the built-in disc. Its Parquet file is read before its CSV file.
#[test]
fn projected_map_is_a_layer_with_the_same_points() {
    let folder = tempfile::tempdir().unwrap();
    set(folder.path());
    std::fs::create_dir(folder.path().join("set/maps")).unwrap();
    good(folder.path(), &["project", "set", "--by", "depth", "--out", "set/maps/again"]);
    std::fs::write(folder.path().join("set/maps/again/points.csv"), "not read").unwrap();
    let server = ExplorerServer::start(folder.path(), &[]);
    let layers = server.json("/api/map/layers");
    assert_eq!(layers["layers"][1], json!({ "name": "again", "title": "again · depth", "rows": 4, "disc": true }));
    let ((built_in, first), (projected, second)) = (server.points(""), server.points("?layer=again"));
    assert_eq!((&projected["disc"], &projected["root"]), (&json!(true), &json!([0.0, 0.0])));
    for name in ["row", "x", "y", "depth", "modality"] {
        let (one, two) = (array(&built_in, &first, name), array(&projected, &second, name));
        assert!(one.len() == 4 && one.iter().zip(&two).all(|(a, b)| (a - b).abs() < 1e-6), "{name}: {one:?} {two:?}");
    }
}

#[test]
fn labels_are_general_before_specific() {
    let folder = tempfile::tempdir().unwrap();
    let modality = vec![Modality::Image, Modality::Text, Modality::Image, Modality::BoxText];
    set_of(
        folder.path(),
        modality,
        &[
            ("taxon", ["Aves > Sula", "Aves > Sula", "Aves > Pica", ""]),
            ("text", ["x.jpg", "Sula", "y.jpg", "a small dog"]),
        ],
    );
    let server = ExplorerServer::start(folder.path(), &[]);
    let labels = server.json("/api/map/labels");
    let seen: Vec<(&str, u64, u64, bool)> = labels["labels"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| {
            let number = |name: &str| it[name].as_u64().unwrap();
            (it["text"].as_str().unwrap(), number("level"), number("rows"), it["inner"].as_bool().unwrap())
        })
        .collect();
    // The text `Sula` is the name of a class, and texts of photos are not shown.
    assert_eq!(
        seen,
        [("Aves", 1, 3, true), ("Sula", 2, 2, false), ("Pica", 2, 1, false), ("a small dog", 1, 1, false)],
        "{labels}"
    );
    let map = server.json("/api/map");
    let last = &labels["labels"][3];
    assert!((last["x"].as_f64().unwrap() - map["x"][3].as_f64().unwrap()).abs() < 1e-6 && last["reach"] == 0.0);
    assert!(labels["labels"][1]["reach"].as_f64().unwrap() > 0.0, "{labels}");
}

#[test]
fn listed_rows_come_in_their_order() {
    let folder = tempfile::tempdir().unwrap();
    set(folder.path());
    let server = ExplorerServer::start(folder.path(), &[]);
    let (status, found) = server.post("/api/rows/list", &json!({ "rows": [2, 0, 2] }));
    let ids: Vec<&Value> = found.as_array().unwrap().iter().map(|it| &it["id"]).collect();
    assert_eq!((status, ids), (200, vec![&json!("c"), &json!("a"), &json!("c")]));
    for (body, expected, word) in [
        (json!({ "rows": [] }), 422, "`rows` has 0 numbers; expected 1 to 1000"),
        (json!({ "rows": vec![0; 1001] }), 422, "`rows` has 1001 numbers"),
        (json!({ "rows": [0, 4] }), 404, "below 4"),
        (json!({ "rows": [-1] }), 422, "`rows[0]` is -1; expected a whole number"),
        (json!({ "row": [1] }), 422, "did you mean `rows`?"),
        (json!([1]), 422, "expected an object"),
    ] {
        let (status, answer) = server.post("/api/rows/list", &body);
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(status == expected && message.contains(word), "{status}: {message}");
    }
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
