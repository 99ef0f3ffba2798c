//! A front with several shard servers.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use conifer_embeddings::{EmbeddingSet, Modality};
use conifer_geometry::{ManifoldSpec, Root};
use serde_json::{Value, json};

use super::{HttpReply, ServerProcess, answer, folder, start, whole};

/// Changes the JSON response of a shard, given the path of the request.
type ResponseEdit = Box<dyn Fn(&str, &mut Value) + Send>;

/// A proxy with a fixed address in front of a shard. Tests can replace the shard and change its responses.
struct ShardRelay {
    url: String,
    behind: Arc<Mutex<String>>,
    edit: Arc<Mutex<Option<ResponseEdit>>>,
    /// Paths of the requests so far.
    requests: Arc<Mutex<Vec<String>>>,
}

impl ShardRelay {
    fn to(shard: &ServerProcess) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let relay = ShardRelay {
            url: format!("http://{}", listener.local_addr().unwrap()),
            behind: Arc::new(Mutex::new(shard.address.clone())),
            edit: Arc::default(),
            requests: Arc::default(),
        };
        let (behind, edit, requests) =
            (Arc::clone(&relay.behind), Arc::clone(&relay.edit), Arc::clone(&relay.requests));
        // The thread ends with the test process.
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (behind, edit, requests) =
                    (behind.lock().unwrap().clone(), Arc::clone(&edit), Arc::clone(&requests));
                std::thread::spawn(move || forward(client.unwrap(), &behind, &edit, &requests));
            }
        });
        relay
    }

    fn set_edit(&self, edit: impl Fn(&str, &mut Value) + Send + 'static) {
        *self.edit.lock().unwrap() = Some(Box::new(edit));
    }
}

/// Forwards one request and its response.
fn forward(mut client: TcpStream, behind: &str, edit: &Mutex<Option<ResponseEdit>>, requests: &Mutex<Vec<String>>) {
    let mut reader = BufReader::new(client.try_clone().unwrap());
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line == "\r\n" {
            break;
        }
        head += &line;
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let path = head.split(' ').nth(1).unwrap().to_owned();
    requests.lock().unwrap().push(path.clone());
    let mut shard = TcpStream::connect(behind).unwrap();
    shard.write_all(format!("{head}connection: close\r\n\r\n").as_bytes()).unwrap();
    shard.write_all(&body).unwrap();
    let HttpReply { head, mut body, .. } = answer(shard);
    let head = head.replacen("http", "HTTP", 1);
    if let Some(edit) = &*edit.lock().unwrap()
        && let Ok(mut value) = serde_json::from_slice(&body)
    {
        edit(&path, &mut value);
        body = value.to_string().into_bytes();
    }
    let lines = head.lines().filter(|it| !it.starts_with("content-length:") && !it.starts_with("connection:"));
    let head: String = lines.map(|it| format!("{it}\r\n")).collect();
    let head = format!("{head}content-length: {}\r\nconnection: close\r\n\r\n", body.len());
    // The front may close the connection before it has read the whole response.
    _ = client.write_all(head.as_bytes());
    _ = client.write_all(&body);
}

/// Points in a plane. Rows `i` and `i + 999` have the same point, and belong to different shards of two.
fn plane(rows: usize) -> EmbeddingSet {
    let points = (0..rows).flat_map(|i| [(i % 999) as f32 * 1e-3, (i % 3) as f32 * 0.1]).collect();
    let ids = (0..rows).map(|i| format!("id{i}")).collect();
    let modality = (0..rows).map(|i| if i % 2 == 0 { Modality::Image } else { Modality::Text }).collect();
    let spec = ManifoldSpec::lorentz(2, 1.0);
    EmbeddingSet::new(spec, Root::Origin, ids, modality, points, Default::default()).unwrap()
}

fn front(urls: &[&str]) -> Vec<String> {
    let mut args = vec!["front".to_owned()];
    urls.iter().for_each(|url| args.extend(["--shard".to_owned(), (*url).to_owned()]));
    args
}

fn start_front(urls: &[&str]) -> ServerProcess {
    start(&front(urls).iter().map(String::as_str).collect::<Vec<_>>())
}

fn front_refused(urls: &[&str], words: &[&str]) {
    let args = front(urls);
    let args: Vec<&str> = args.iter().map(String::as_str).chain(["--port", "0"]).collect();
    crate::refused(folder(), &args, words);
}

/// Asserts that the response is 503 and that its message names the shard and contains `words`.
fn assert_shard_error(reply: &HttpReply, url: &str, words: &[&str]) {
    let message = reply.json()["error"]["message"].as_str().unwrap_or_default().to_owned();
    assert_eq!(reply.status, 503, "{}", reply.json());
    for word in [&[url], words].concat() {
        assert!(message.contains(word), "`{word}` is not in: {message}");
    }
}

fn url(shard: &ServerProcess) -> String {
    format!("http://{}", shard.address)
}

/// The response without `took_ms`.
fn without_took_ms(server: &ServerProcess, path: &str, body: &Value) -> Value {
    let mut answer = server.good(path, body);
    if let Some(fields) = answer.as_object_mut() {
        fields.shift_remove("took_ms");
    }
    answer
}

#[test]
fn front_equals_one_index() {
    let one = whole();
    let mut shards: Vec<ServerProcess> = ["0/3", "1/3", "2/3"]
        .iter()
        .map(|part| {
            let more = ["--shard", part, "--checkpoint", "run", "--tree", "tree.tsv"];
            start(&[&["serve", "set"], &super::DATA[..], &more].concat())
        })
        .collect();
    let urls: Vec<String> = shards.iter().map(|it| format!("http://{}", it.address)).collect();
    let front_server = start_front(&urls.iter().map(String::as_str).collect::<Vec<_>>());

    let queries = [
        json!({ "row": 4 }),
        json!({ "text": "a red cake" }),
        json!({ "all": [{ "row": 1 }, { "text": "a dog" }] }),
        json!({ "id": one.good("/api/rows/8", &Value::Null)["id"] }),
    ];
    let rankings = [
        json!({ "by": "distance" }),
        json!({ "by": "similarity" }),
        json!({ "by": "inner" }),
        json!({ "by": "narrower" }),
        json!({ "by": "broader" }),
        json!({ "by": "gated_narrower", "angle": 2.0 }),
        json!({ "by": "gated_broader", "angle": 2.0 }),
        json!({ "by": "general", "angle": 2.0 }),
        json!({ "by": "general", "within": 0.7 }),
    ];
    let label = one.good("/api/rows/4", &Value::Null)["columns"]["label"].clone();
    let filters = [
        json!({}),
        json!({ "modality": ["text", "box_text"] }),
        json!({ "columns": { "label": [label] } }),
        json!({ "depth": [0.0, 1.5] }),
        json!({ "inside": { "row": 5 } }),
        json!({ "not": [{ "row": 5 }, { "text": "a red cake" }] }),
        json!({ "subtree": "early", "offset": 3, "k": 7 }),
    ];
    let mut hits = 0;
    for query in &queries {
        for ranking in &rankings {
            for filter in &filters {
                let mut body = json!({ "query": query });
                for more in [ranking, filter] {
                    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
                }
                let expected = without_took_ms(&one, "/api/search", &body);
                assert_eq!(without_took_ms(&front_server, "/api/search", &body), expected, "{body}");
                hits += expected["hits"].as_array().unwrap().len();
            }
        }
    }
    assert!(hits > 1000, "{hits}");
    // More rows than one page of a shard has.
    let all = json!({ "query": { "row": 4 }, "k": 1000, "offset": 20 });
    assert_eq!(without_took_ms(&front_server, "/api/search", &all), without_took_ms(&one, "/api/search", &all));
    for more in [
        json!({}),
        json!({ "cone": false }),
        json!({ "cone": false, "each": true, "steps": 7 }),
        json!({ "cone": false, "to": { "text": "a dog" }, "modality": ["text", "box_text"], "steps": 200 }),
        json!({ "to": { "row": 9 }, "not": [{ "row": 5 }] }),
        json!({ "cone": false, "to": { "row": 9 }, "path": "tangent", "steps": 100 }),
    ] {
        let mut body = json!({ "from": { "row": 4 } });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        assert_eq!(front_server.good("/api/traverse", &body), one.good("/api/traverse", &body), "{body}");
    }
    let photo = one.get("/api/rows/0/thumbnail?size=64").body;
    let token = front_server.send("POST", "/api/photos", "", &photo).json();
    assert_eq!(
        front_server.good("/api/search", &json!({ "query": { "photo": token["photo"] } }))["hits"]
            .as_array()
            .unwrap()
            .len(),
        10
    );
    for path in ["/api/rows/7", "/api/rows/7/neighbours?k=4", "/api/rows/7/neighbours?k=4&modality=text"] {
        assert_eq!(
            without_took_ms(&front_server, path, &Value::Null),
            without_took_ms(&one, path, &Value::Null),
            "{path}"
        );
    }
    assert_eq!(front_server.get("/api/rows/0/thumbnail?size=32").body, one.get("/api/rows/0/thumbnail?size=32").body);
    let (info, expected) = (front_server.good("/api/info", &Value::Null), one.good("/api/info", &Value::Null));
    for name in ["rows", "space", "root", "model", "modalities", "by"] {
        assert_eq!(info[name], expected[name], "{name}");
    }
    let reply = front_server.post("/api/search", &json!({ "query": { "row": 999_999 } }));
    let absent = one.post("/api/search", &json!({ "query": { "row": 999_999 } }));
    assert_eq!((reply.status, reply.json()), (404, absent.json()));
    assert_eq!(front_server.post("/api/search", &json!({ "query": { "row": 0 }, "k": 0 })).status, 422);

    // In another order the URLs do not match the shard numbers.
    front_refused(&[&urls[1], &urls[0], &urls[2]], &["expected a server started with --shard 0/3", &urls[1]]);

    // If a shard is down, the front returns an error and no partial result.
    drop(shards.remove(1));
    let reply = front_server.post("/api/search", &json!({ "query": { "row": 0 } }));
    assert_shard_error(&reply, &urls[1], &["does not answer"]);
}

/// Shards of different versions of a store, of different sets, or with different trees are rejected.
#[test]
fn shards_of_different_sets_are_rejected() {
    let at = tempfile::tempdir().unwrap();
    let inside = |name: &str| at.path().join(name).to_str().unwrap().to_owned();
    plane(10).save(&at.path().join("set")).unwrap();
    plane(9).save(&at.path().join("smaller")).unwrap();
    let (set, smaller, store) = (inside("set"), inside("smaller"), inside("store"));
    crate::good(at.path(), &["store", "create", "store", "set"]);
    let shard = |of: &str, part: &str| start(&["serve", of, "--shard", part]);
    let first = shard(&store, "0/2");
    let before = shard(&store, "1/2");
    crate::good(at.path(), &["store", "delete", "store", "--id", "id0", "--id", "id2"]);
    let after = shard(&store, "1/2");
    let (first_url, after_url) = (url(&first), url(&after));
    front_refused(&[&first_url, &after_url], &["--shard", &after_url, "\"version\":3", "\"version\":2"]);
    let others = [shard(&set, "1/2"), shard(&smaller, "1/2")];
    for other in &others {
        front_refused(&[&first_url, &url(other)], &[&url(other), "the same set, store version and --tree"]);
    }
    let tree = folder().join("tree.tsv");
    let with_tree = start(&["serve", &set, "--shard", "0/2", "--tree", tree.to_str().unwrap()]);
    front_refused(&[&url(&with_tree), &url(&others[0])], &[&url(&others[0]), "--tree"]);

    // A shard that is exchanged while the front runs is detected in the next response.
    let relay = ShardRelay::to(&before);
    let server = start_front(&[&first_url, &relay.url]);
    let all = json!({ "query": { "row": 1 }, "k": 10 });
    assert_eq!(super::rows(&server.good("/api/search", &all)).len(), 10);
    assert_eq!(server.good("/api/info", &Value::Null)["set"]["rows"], 10);
    for other in [&after, &first, &others[0], &others[1]] {
        *relay.behind.lock().unwrap() = other.address.clone();
        for reply in [
            server.post("/api/search", &all),
            server.post("/api/search", &json!({ "query": { "row": 0 }, "k": 1 })),
            server.post("/api/traverse", &json!({ "from": { "row": 2 } })),
            server.get("/api/rows/1"),
            server.get("/api/rows/1/thumbnail"),
            server.get("/api/rows?id=id1"),
            server.get("/api/info"),
        ] {
            assert_shard_error(&reply, &relay.url, &["expected part 1/2 of the set"]);
        }
    }
    *relay.behind.lock().unwrap() = before.address.clone();
    assert_eq!(super::rows(&server.good("/api/search", &all)).len(), 10);
}

/// Invalid responses of a shard give a 503; none reaches the client or causes a panic.
#[test]
fn invalid_shard_responses_are_rejected() {
    let at = tempfile::tempdir().unwrap();
    plane(40).save(&at.path().join("set")).unwrap();
    let set = at.path().join("set").to_str().unwrap().to_owned();
    let shards = [start(&["serve", &set, "--shard", "0/2"]), start(&["serve", &set, "--shard", "1/2"])];
    let relay = ShardRelay::to(&shards[1]);
    let server = start_front(&[&url(&shards[0]), &relay.url]);
    let search = json!({ "query": { "row": 0 }, "by": "similarity", "k": 5 });
    let ask = |path: &str| match path {
        "/api/search" => server.post(path, &search),
        "/api/traverse" => server.post(path, &json!({ "from": { "row": 2 }, "cone": false, "steps": 5 })),
        "/api/point" => server.post(path, &json!({ "query": { "row": 1 } })),
        _ => server.get(path),
    };
    let paths = ["/api/search", "/api/traverse", "/api/point", "/api/info", "/api/rows?id=id1", "/api/rows/1"];
    for path in paths {
        for edit in [json!([1]), json!(1), json!("x"), json!(null), json!({})] {
            relay.set_edit(move |_, value| *value = edit.clone());
            assert_shard_error(&ask(path), &relay.url, &["unexpected response of the shard"]);
        }
        relay.set_edit(|_, _| {});
        assert_eq!(ask(path).status, 200, "{path}");
    }
    type ResponseChange = fn(&mut Value);
    let changes: [(&str, ResponseChange); 15] = [
        ("/api/search", |it| it["hits"][2]["score"] = Value::Null),
        ("/api/search", |it| _ = it["hits"][2].as_object_mut().unwrap().shift_remove("score")),
        ("/api/search", |it| it["hits"][2]["score"] = json!("zzz")),
        ("/api/search", |it| it["hits"][4]["score"] = json!(1e9)),
        ("/api/search", |it| it["hits"] = Value::Null),
        ("/api/search", |it| it["hits"][2] = it["hits"][1].clone()),
        ("/api/search", |it| it["hits"][4]["row"] = it["hits"][0]["row"].clone()),
        ("/api/search", |it| it["hits"][4]["row"] = json!(20)),
        ("/api/search", |it| it["hits"][4]["row"] = json!(1_u64 << 63)),
        ("/api/search", |it| {
            let more = it["hits"][4].clone();
            it["hits"].as_array_mut().unwrap().push(more);
        }),
        ("/api/search", |it| it["rows_passing"] = json!(21)),
        ("/api/traverse", |it| _ = it["stops"].as_array_mut().unwrap().pop()),
        ("/api/traverse", |it| it["stops"][0]["hit"]["row"] = json!(20)),
        ("/api/point", |it| it["point"] = json!([0.5])),
        ("/api/rows/1", |it| it["row"] = json!(1)),
    ];
    for (i, (path, change)) in changes.into_iter().enumerate() {
        relay.set_edit(move |_, value| change(value));
        let reply = ask(path);
        assert_eq!(reply.status, 503, "change {i}: {}", reply.json());
        assert_shard_error(&reply, &relay.url, &["unexpected response of the shard"]);
    }
}

#[test]
fn front_equals_one_index_up_to_its_maximum_offset() {
    let at = tempfile::tempdir().unwrap();
    plane(4000).save(&at.path().join("set")).unwrap();
    let set = at.path().join("set").to_str().unwrap().to_owned();
    let one = start(&["serve", &set]);
    let shards = [start(&["serve", &set, "--shard", "0/2"]), start(&["serve", &set, "--shard", "1/2"])];
    let server = start_front(&[&url(&shards[0]), &url(&shards[1])]);
    for (by, offset, k) in [
        ("distance", 0, 1000),
        ("distance", 2500, 700),
        ("similarity", 1999, 1000),
        ("inner", 3900, 1000),
        ("distance", 10_000, 1),
    ] {
        // From a point around which the rows of the two shards are not evenly distributed.
        let body = json!({ "query": { "point": [1.4, 0.3] }, "by": by, "offset": offset, "k": k });
        assert_eq!(
            without_took_ms(&server, "/api/search", &body),
            without_took_ms(&one, "/api/search", &body),
            "{body}"
        );
    }
    let reply = server.post("/api/search", &json!({ "query": { "row": 0 }, "offset": 10_001 }));
    let message = reply.json()["error"]["message"].as_str().unwrap().to_owned();
    assert_eq!((reply.status, message.as_str()), (422, "`offset` is 10001; expected at most 10000 on a front"));
    let said = server.good("/api/openapi.json", &Value::Null);
    assert_eq!(said["components"]["schemas"]["Search"]["properties"]["offset"]["maximum"], 10_000);
    assert!(said["paths"].get("/api/map").is_none() && said["paths"].get("/api/search").is_some());

    // `neighbours` has the same limits and messages as on a single server.
    for query in ["k=1000", "k=999&modality=text", "k=1&k=2", "k=abc", "k=0", "k=1001", "modality=x", "z=1", ""] {
        let path = format!("/api/rows/7/neighbours?{query}");
        let (ours, theirs) = (server.get(&path), one.get(&path));
        assert_eq!((ours.status, ours.json()), (theirs.status, theirs.json()), "{query}");
    }
    let absent = [server.get("/api/rows/4000"), one.get("/api/rows/4000")].map(|it| (it.status, it.json()));
    assert_eq!(absent[0], absent[1]);
}

#[test]
fn health_of_the_shards_is_cached() {
    let shards = [start(&["serve", "set", "--shard", "0/2"]), start(&["serve", "set", "--shard", "1/2"])];
    let relay = ShardRelay::to(&shards[1]);
    let server = start_front(&[&url(&shards[0]), &relay.url]);
    let started = Instant::now();
    (0..40).for_each(|_| server.is_well());
    let requests = relay.requests.lock().unwrap().iter().filter(|it| *it == "/health").count();
    let most = started.elapsed().as_secs_f64() + 1.0;
    assert!(requests >= 1 && requests as f64 <= most, "{requests} times in {most} s");
}

/// Without --tree the classes come from the labels. A shard also knows the labels of rows that it does not hold.
#[test]
fn shards_have_the_classes_of_the_whole_set() {
    let one = start(&["serve", "set"]);
    // A class has at least a photo and its five captions, so one of seven shards may have none of its rows.
    let shards = [0, 1, 2, 3, 4, 5, 6].map(|part| start(&["serve", "set", "--shard", &format!("{part}/7")]));
    let urls = shards.each_ref().map(url);
    let front_server = start_front(&urls.each_ref().map(String::as_str));
    let top = one.good("/api/tree", &Value::Null);
    let classes = top["children"].as_array().unwrap();
    let mut rare = 0;
    for class in classes {
        let body = json!({ "query": { "row": 4 }, "subtree": class["name"], "k": 1000 });
        let found = without_took_ms(&front_server, "/api/search", &body);
        assert_eq!(found, without_took_ms(&one, "/api/search", &body), "{class}");
        assert_eq!(found["rows_passing"], class["count"]);
        rare += usize::from(class["count"].as_u64().unwrap() < 7);
    }
    assert!(rare > 0, "every class has a row on every shard: {top}");
}

#[test]
fn flat_rankings_are_reported() {
    let at = tempfile::tempdir().unwrap();
    // A circle around the origin, and one row outside it.
    let circle = (0..1199).flat_map(|i| [(i as f32).cos(), (i as f32).sin()]);
    let points: Vec<f32> = circle.chain([3.0, 0.0]).collect();
    let ids = (0..1200).map(|i| i.to_string()).collect();
    let set = EmbeddingSet::new(
        ManifoldSpec::lorentz(2, 1.0),
        Root::Origin,
        ids,
        vec![Modality::Image; 1200],
        points,
        Default::default(),
    );
    set.unwrap().save(&at.path().join("set")).unwrap();
    let set = at.path().join("set").to_str().unwrap().to_owned();
    let one = start(&["serve", &set]);
    let shards = [start(&["serve", &set, "--shard", "0/2"]), start(&["serve", &set, "--shard", "1/2"])];
    let server = start_front(&[&url(&shards[0]), &url(&shards[1])]);
    let ask = |body: Value| {
        let found = without_took_ms(&one, "/api/search", &body);
        assert_eq!(without_took_ms(&server, "/api/search", &body), found, "{body}");
        found
    };
    let flat = |found: &Value| found["flat"].as_str().is_some_and(|it| it.contains("the ranking is flat: the "));
    let centre = json!({ "point": [0.0, 0.0] });
    let found = ask(json!({ "query": centre }));
    assert!(flat(&found) && found["scores"]["rows"] == 400, "{found}");
    assert!(flat(&ask(json!({ "query": centre, "offset": 30 }))));
    // The best row is far better than the rest, although it is not in the sample.
    let similar = ask(json!({ "query": { "point": [9.0, 0.0] } }));
    assert!(!flat(&similar) && similar["scores"]["best"].as_f64() < similar["scores"]["low"].as_f64(), "{similar}");
    // A query by row reports the best score, too.
    let among = ask(json!({ "query": { "row": 1199 }, "by": "broader" }));
    assert!(among["scores"]["best"].is_number(), "{among}");
    // Gated rankings and few rows are not judged.
    let gated = ask(json!({ "query": centre, "by": "general", "within": 1.0 }));
    assert_eq!((&gated["flat"], &gated["scores"]), (&Value::Null, &Value::Null));
    let few = ask(json!({ "query": centre, "depth": [1.0, 9.0] }));
    assert_eq!((&few["flat"], &few["rows_passing"]), (&Value::Null, &1.into()));
}
