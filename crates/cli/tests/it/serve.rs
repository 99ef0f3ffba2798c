//! Tests of `serve` and `front` over loopback: responses, rejected requests, and availability afterwards.

mod api;
mod hierarchy;
mod hostile;
mod shards;
mod slow;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use conifer_embeddings::{EmbeddingSet, Modality};
use conifer_index::{Direction, Filter, FlatIndex, Gate, Query, Ranking};
use serde_json::{Value, json};

use crate::{command, good, refused, root};

const DATA: [&str; 6] = ["--data", "toy", "--data-option", "size=40", "--data-option", "resolution=64"];

/// A folder with a small model, a set that it embedded, and a class tree. Created once.
fn folder() -> &'static Path {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        let config = root().join("configs/toy_hycoclip.toml");
        good(at, &["train", config.to_str().unwrap(), "--smoke", "--out", "run"]);
        let views = ["--views", "image,text,box-image,box-text", "--out", "set"];
        good(at, &[&["embed", "run"], &DATA[..], &views].concat());
        let set = EmbeddingSet::load(&at.join("set")).unwrap();
        // Labels before "m" are children of `early`, the others of `late`.
        let mut labels = set.columns["label"].clone();
        labels.sort();
        labels.dedup();
        labels.retain(|it| !it.is_empty());
        let edge = |label: &String| format!("{}\t{label}\n", if label.as_str() < "m" { "early" } else { "late" });
        let edges: String = labels.iter().map(edge).collect();
        std::fs::write(at.join("tree.tsv"), format!("all\tearly\nall\tlate\n{edges}")).unwrap();
        folder
    });
    folder.path()
}

/// A running server, killed on drop.
pub(crate) struct ServerProcess {
    child: Child,
    pub(crate) address: String,
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

fn start(args: &[&str]) -> ServerProcess {
    drained(launch(args))
}

/// Drains the log, because a full pipe would block the server.
fn drained((running, logs): (ServerProcess, BufReader<ChildStdout>)) -> ServerProcess {
    std::thread::spawn(move || logs.lines().for_each(drop));
    running
}

/// Starts a server; returns it with its log.
fn launch(args: &[&str]) -> (ServerProcess, BufReader<ChildStdout>) {
    let args = [args, &["--port", "0", "--json"]].concat();
    spawn(command(folder(), &args))
}

fn spawn(mut program: Command) -> (ServerProcess, BufReader<ChildStdout>) {
    let mut child = program.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut logs = BufReader::new(child.stdout.take().unwrap());
    let mut first = String::new();
    if logs.read_line(&mut first).unwrap() == 0 {
        let mut message = String::new();
        child.stderr.take().unwrap().read_to_string(&mut message).unwrap();
        panic!("{program:?}: {message}");
    }
    let first: Value = serde_json::from_str(&first).unwrap();
    let address = first["listening"].as_str().unwrap().strip_prefix("http://").unwrap().to_owned();
    let mut stderr = child.stderr.take().unwrap();
    std::thread::spawn(move || _ = stderr.read_to_end(&mut Vec::new()));
    (ServerProcess { child, address }, logs)
}

/// A server with a model, photos and a class tree.
fn whole() -> ServerProcess {
    let more = ["--checkpoint", "run", "--tree", "tree.tsv", "--max-upload", "1048576"];
    start(&[&["serve", "set"], &DATA[..], &more].concat())
}

/// Status, head and body of a response.
pub(crate) struct HttpReply {
    pub(crate) status: u16,
    head: String,
    body: Vec<u8>,
}

impl HttpReply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&self.body)))
    }
}

impl ServerProcess {
    /// Starts `program`, whose arguments contain `--port 0 --json`.
    pub(crate) fn start(program: Command) -> Self {
        drained(spawn(program))
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream
    }

    pub(crate) fn send(&self, method: &str, path: &str, more: &str, body: &[u8]) -> HttpReply {
        let mut stream = self.connect();
        let length = if body.is_empty() { String::new() } else { format!("content-length: {}\r\n", body.len()) };
        let head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{length}{more}\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        // The server may close the connection before it has read the whole body.
        _ = stream.write_all(body);
        answer(stream)
    }

    fn get(&self, path: &str) -> HttpReply {
        self.send("GET", path, "", b"")
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> HttpReply {
        self.send("POST", path, "", body.to_string().as_bytes())
    }

    /// Asserts status 200 and returns the JSON body. Sends a GET request if `body` is null.
    pub(crate) fn good(&self, path: &str, body: &Value) -> Value {
        let reply = if body.is_null() { self.get(path) } else { self.post(path, body) };
        assert_eq!(reply.status, 200, "{path} {body}: {}", String::from_utf8_lossy(&reply.body));
        reply.json()
    }

    /// The value of a metric.
    fn count(&self, name: &str) -> usize {
        let metrics = String::from_utf8(self.get("/metrics").body).unwrap();
        let line = metrics.lines().find_map(|it| it.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{name} is not in\n{metrics}")).parse().unwrap()
    }

    pub(crate) fn is_well(&self) {
        assert_eq!(self.good("/health", &Value::Null)["status"], "ok");
    }
}

/// Reads a response until the connection closes.
fn answer(mut stream: TcpStream) -> HttpReply {
    let mut bytes = Vec::new();
    // A connection reset after the response is not an error.
    _ = stream.read_to_end(&mut bytes);
    let end = bytes.windows(4).position(|it| it == b"\r\n\r\n").unwrap_or_else(|| panic!("no head: {bytes:?}"));
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap().to_lowercase();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    HttpReply { status, head, body: bytes[end + 4..].to_vec() }
}

fn rows(answer: &Value) -> Vec<usize> {
    answer["hits"].as_array().unwrap().iter().map(|it| it["row"].as_u64().unwrap() as usize).collect()
}

#[test]
fn searches_match_the_index() {
    let server = whole();
    let set = EmbeddingSet::load(&folder().join("set")).unwrap();
    let index = FlatIndex::new(&set).unwrap();
    let expected = |ranking, filter: &Filter<'_>| -> Vec<usize> {
        index.top_k(&Query::row(&set, 3), ranking, 20, filter).unwrap()[0].iter().map(|it| it.row).collect()
    };
    let ask = |more: Value| {
        let mut body = json!({ "query": { "row": 3 }, "k": 20 });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        server.good("/api/search", &body)
    };
    for (name, ranking) in [
        ("distance", Ranking::Distance),
        ("similarity", Ranking::Similarity),
        ("inner", Ranking::Inner),
        ("narrower", Ranking::Angle(Direction::Down)),
        ("broader", Ranking::Angle(Direction::Up)),
    ] {
        assert_eq!(rows(&ask(json!({ "by": name }))), expected(ranking, &Filter::All), "{name}");
    }
    let gate = Gate::Angle(Direction::Down, 2.0);
    for (more, ranking) in [
        (json!({ "by": "gated_narrower", "angle": 2.0 }), Ranking::Gated(gate)),
        (json!({ "by": "gated_broader", "angle": 2.0 }), Ranking::Gated(Gate::Angle(Direction::Up, 2.0))),
        (json!({ "by": "general", "angle": 2.0 }), Ranking::Depth(gate)),
        (json!({ "by": "general", "within": 0.5 }), Ranking::Depth(Gate::Distance(0.5))),
    ] {
        let found = rows(&ask(more.clone()));
        assert_eq!(found, expected(ranking, &Filter::All), "{more}");
    }
    let texts = [Modality::Text, Modality::BoxText];
    let found = ask(json!({ "modality": ["text", "box_text"] }));
    assert_eq!(rows(&found), expected(Ranking::Distance, &Filter::Modality(&texts)));
    assert_eq!(found["rows_passing"], set.modality.iter().filter(|it| texts.contains(it)).count());
    let label = &set.columns["label"];
    let early = |row: usize| (1..).contains(&label[row].len()) && label[row].as_str() < "m";
    assert_eq!(rows(&ask(json!({ "subtree": "early" }))), expected(Ranking::Distance, &Filter::Rows(&early)));
    let wanted = [label[3].as_str()];
    let column = Filter::Column { column: label, wanted: &wanted };
    assert_eq!(rows(&ask(json!({ "columns": { "label": wanted } }))), expected(Ranking::Distance, &column));
    let cone = Filter::Inside(Query::row(&set, 7), conifer_index::Cone::default());
    let outside = Filter::Not(&cone);
    assert_eq!(rows(&ask(json!({ "inside": { "row": 7 } }))), expected(Ranking::Distance, &cone));
    assert_eq!(rows(&ask(json!({ "not": [{ "row": 7 }] }))), expected(Ranking::Distance, &outside));
    let second: Vec<usize> = rows(&ask(json!({ "k": 5, "offset": 5 })));
    assert_eq!(second, expected(Ranking::Distance, &Filter::All)[5..10]);
    // Query the same row by its id and by its coordinates.
    let by_id = server.good("/api/search", &json!({ "query": { "id": set.ids[3] }, "k": 20 }));
    let by_point = server.good("/api/search", &json!({ "query": { "point": set.row(3) }, "k": 20 }));
    assert_eq!(by_id["hits"], by_point["hits"]);
    assert_eq!(rows(&by_id), expected(Ranking::Distance, &Filter::All));
}

#[test]
fn cell_index_matches_the_flat_index() {
    let (flat, cells) = (start(&["serve", "set"]), start(&["serve", "set", "--cells"]));
    for by in ["distance", "inner", "narrower", "broader"] {
        let body = json!({ "query": { "row": 11 }, "by": by, "k": 50, "depth": [0.0, 1.6] });
        assert_eq!(flat.good("/api/search", &body)["hits"], cells.good("/api/search", &body)["hits"], "{by}");
    }
}

#[test]
fn texts_photos_rows_and_pictures() {
    let server = whole();
    let at = folder();
    let hits = good(at, &["--json", "search", "set", "--checkpoint", "run", "--text", "a red cake", "-k", "5"]);
    let hits: Value = serde_json::from_str(&hits).unwrap();
    let hits: Vec<usize> = hits.as_array().unwrap().iter().map(|it| it["row"].as_u64().unwrap() as usize).collect();
    let found = server.good("/api/search", &json!({ "query": { "text": "a red cake" }, "k": 5 }));
    assert_eq!(rows(&found), hits);
    let both = json!({ "query": { "all": [{ "text": "a red cake" }, { "row": 2 }] }, "k": 5 });
    assert_eq!(rows(&server.good("/api/search", &both)).len(), 5);

    let info = server.good("/api/info", &Value::Null);
    assert_eq!(info["can"], json!({ "text": true, "photo": true, "thumbnails": true, "tree": true, "predict": false }));
    let set = EmbeddingSet::load(&at.join("set")).unwrap();
    assert_eq!(info["rows"], set.len());

    // The thumbnail of a row at the size of its photo: uploaded as a query, it must find the row.
    let photo = set.modality.iter().position(|it| *it == Modality::Image).unwrap();
    let picture = server.get(&format!("/api/rows/{photo}/thumbnail?size=64"));
    assert_eq!((picture.status, &picture.body[..3]), (200, &[0xff, 0xd8, 0xff][..]), "a JPEG");
    assert!(picture.head.contains("content-type: image/jpeg"), "{}", picture.head);
    let sent = server.send("POST", "/api/photos", "", &picture.body);
    let token = sent.json();
    assert_eq!((sent.status, &token["width"], &token["height"]), (200, &json!(64), &json!(64)), "{token}");
    let near =
        server.good("/api/search", &json!({ "query": { "photo": token["photo"] }, "k": 200, "modality": ["image"] }));
    assert!(rows(&near).contains(&photo));
    let of_box = set.modality.iter().position(|it| *it == Modality::BoxImage).unwrap();
    let row = server.good(&format!("/api/rows/{of_box}"), &Value::Null);
    assert_eq!((row["box"].as_array().unwrap().len(), &row["thumbnail"]), (4, &json!(true)));
    assert_eq!(server.get(&format!("/api/rows/{of_box}/thumbnail?size=32")).status, 200);
    // `whole` returns the photo that contains the box.
    let sample = &set.columns["sample"];
    let around =
        (0..set.len()).find(|it| set.modality[*it] == Modality::Image && sample[*it] == sample[of_box]).unwrap();
    let photo_around = server.get(&format!("/api/rows/{around}/thumbnail?size=64")).body;
    assert_eq!(server.get(&format!("/api/rows/{of_box}/thumbnail?size=64&whole=true")).body, photo_around);
    assert_ne!(server.get(&format!("/api/rows/{of_box}/thumbnail?size=64")).body, photo_around);
    let boxes = server.good(&format!("/api/rows/{around}/boxes"), &Value::Null);
    let rows_of_boxes = boxes["boxes"].as_array().unwrap().iter().flat_map(|it| it["rows"].as_array().unwrap().clone());
    assert!(rows_of_boxes.into_iter().any(|it| it == of_box), "{boxes}");
    let text = set.modality.iter().position(|it| *it == Modality::Text).unwrap();
    assert_eq!(server.get(&format!("/api/rows/{text}/thumbnail")).status, 404);

    let id = set.ids[of_box].replace('#', "%23");
    assert_eq!(server.good(&format!("/api/rows?id={id}"), &Value::Null)[0]["row"], of_box);
    let around = server.good(&format!("/api/rows/{photo}/neighbours?k=3&modality=text"), &Value::Null);
    for side in ["broader", "narrower", "near"] {
        let side = around[side].as_array().unwrap();
        assert!(side.len() == 3 && side.iter().all(|it| it["modality"] == "text"), "{side:?}");
    }
    let walk = server.good("/api/traverse", &json!({ "from": { "row": photo }, "steps": 20, "cone": false }));
    let stops = walk["stops"].as_array().unwrap();
    assert!(stops.len() > 1 && stops.last().unwrap()["root"] == true, "{walk}");
    let metrics = String::from_utf8(server.get("/metrics").body).unwrap();
    assert!(metrics.contains(r#"conifer_requests_total{route="/api/search",status="200"} 3"#), "{metrics}");
    assert!(server.get("/").head.contains("content-security-policy"));
}

#[test]
fn unauthorised_requests_are_rejected() {
    let at = folder();
    std::fs::write(at.join("token"), "0123456789abcdef\n").unwrap();
    std::fs::write(at.join("short"), "secret\n").unwrap();
    let server = start(&["serve", "set", "--token-file", "token"]);
    assert_eq!(server.get("/api/info").status, 401);
    let with = |given: &str| server.send("GET", "/api/info", &format!("authorization: {given}\r\n"), b"").status;
    assert_eq!(with("Bearer 0123456789abcdef"), 200);
    assert_eq!(with("Bearer 0123456789abcdee"), 401);
    assert_eq!((with("bearer 0123456789abcdef"), with("BEARER  0123456789abcdef")), (200, 200));
    assert_eq!(with("bearer0123456789abcdef"), 401);
    assert_eq!(with("Basic 0123456789abcdef"), 401);
    assert_eq!(with("Bearer "), 401);
    server.is_well();
    let mut stream = server.connect();
    stream.write_all(b"GET /health HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n").unwrap();
    assert_eq!(answer(stream).status, 403);
    let mut stream = server.connect();
    stream
        .write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\nhost: evil.example\r\nconnection: close\r\n\r\n")
        .unwrap();
    assert_eq!(answer(stream).status, 400);

    // Other sites may link to the explorer, but may not send API requests.
    let open = start(&["serve", "set"]);
    let search = json!({ "query": { "row": 0 } }).to_string();
    let from = |more: &str| open.send("POST", "/api/search", more, search.as_bytes()).status;
    assert_eq!(from("content-type: text/plain\r\norigin: https://evil.example\r\n"), 403);
    assert_eq!(from("sec-fetch-site: cross-site\r\n"), 403);
    assert_eq!(from("origin: http://localhost\r\n"), 200);
    assert_eq!(from("sec-fetch-site: same-origin\r\norigin: http://localhost\r\n"), 200);
    let linked = open.send("GET", "/", "sec-fetch-site: cross-site\r\n", b"");
    assert_eq!(linked.status, 200);
    assert!(linked.head.contains("cross-origin-resource-policy: same-origin"), "{}", linked.head);

    #[cfg(target_os = "linux")]
    {
        let other = start(&["serve", "set", "--host", "127.0.0.2"]);
        let mut stream = other.connect();
        let head = format!("GET /health HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", other.address);
        stream.write_all(head.as_bytes()).unwrap();
        assert_eq!(answer(stream).status, 200);
    }

    refused(
        at,
        &["serve", "set", "--host", "0.0.0.0", "--port", "0"],
        &["--host 0.0.0.0", "--token-file", "--allow-anyone"],
    );
    refused(at, &["serve", "set", "--token-file", "short", "--port", "0"], &["--token-file short", "at least 16"]);
    refused(at, &["serve", "absent", "--port", "0"], &["absent"]);
    refused(at, &["serve", "set", "--tree", "absent.tsv", "--port", "0"], &["absent.tsv"]);
    // Other data with the same ids: the note names the data of the set.
    let other = ["serve", "set", "--data", "toy", "--data-option", "size=30", "--tree", "absent.tsv", "--port", "0"];
    refused(
        at,
        &other,
        &["its records are not those of set", "--data toy --data-option size=40 --data-option resolution=64"],
    );
    let port = server.address.rsplit_once(':').unwrap().1;
    refused(at, &["serve", "set", "--port", port], &["--port", port]);
}

#[cfg(unix)]
#[test]
fn server_shuts_down_on_a_signal() {
    let mut server = start(&["serve", "set"]);
    // An idle connection must not delay the shutdown.
    let _idle = server.connect();
    server.is_well();
    let status = std::process::Command::new("kill").args(["-TERM", &server.child.id().to_string()]).status().unwrap();
    assert!(status.success());
    assert!(server.child.wait().unwrap().success());
}
