//! Malicious and malformed requests.

use std::io::{ErrorKind, Read as _, Write as _};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{ServerProcess, answer, folder, rows, start, whole};
use crate::good;

/// Asserts an error response in the API's format whose message contains all of `words`. Returns the status.
fn error_status(server: &ServerProcess, method: &str, path: &str, body: &[u8], words: &[&str]) -> u16 {
    let reply = server.send(method, path, "", body);
    let error = reply.json();
    assert_eq!(error["error"]["status"], reply.status, "{path}: {error}");
    let message = error["error"]["message"].as_str().unwrap();
    for word in words {
        assert!(message.contains(word), "{path}: `{word}` is not in: {message}");
    }
    server.is_well();
    reply.status
}

#[test]
fn invalid_requests_get_the_right_status() {
    let server = whole();
    let dim = server.good("/api/info", &Value::Null)["space"]["dim"].as_u64().unwrap() as usize;
    let search = |body: &str, words: &[&str]| error_status(&server, "POST", "/api/search", body.as_bytes(), words);
    // Invalid JSON.
    for body in ["", "{", r#"{"query""#, "\u{0}", r#"{"query":{"point":[NaN]}}"#, r#"{"query":{"row":0}} x"#] {
        assert_eq!(search(body, &["the body"]), 400, "{body}");
    }
    assert_eq!(error_status(&server, "POST", "/api/search", b"\xff\xfe", &[]), 400);
    // Valid JSON with invalid content.
    let point = |coordinate: &str| format!(r#"{{"query":{{"point":[{}]}}}}"#, [coordinate].repeat(dim).join(","));
    for (body, words) in [
        ("[]", &["expected an object"][..]),
        (r#"{"k":1}"#, &["missing field `query`"]),
        (r#"{"query":{}}"#, &["exactly one of"]),
        (r#"{"query":{"row":0,"text":"a"}}"#, &["exactly one of"]),
        (r#"{"query":{"row":0},"foo":1}"#, &["unknown field `foo`"]),
        (r#"{"query":{"row":0},"k":1,"k":2}"#, &["`k` is given twice"]),
        (r#"{"query":{"row":0,"row":1}}"#, &["`row` is given twice"]),
        (r#"{"query":{"row":0,"foo":1}}"#, &["unknown field `foo`"]),
        (r#"{"query":{"row":-1}}"#, &["-1"]),
        (r#"{"query":{"row":0},"by":"nearest"}"#, &["nearest", "distance"]),
        (r#"{"query":{"row":0},"k":0}"#, &["`k` is 0", "1 to 1000"]),
        (r#"{"query":{"row":0},"k":1001}"#, &["`k` is 1001"]),
        (r#"{"query":{"row":0},"k":99999999999999999999}"#, &[]),
        (r#"{"query":{"row":0},"offset":1000001}"#, &["`offset`"]),
        (r#"{"query":{"point":[1.0]}}"#, &["`point` is a list of 1", "`dim`"]),
        (r#"{"query":{"point":[null]}}"#, &["null"]),
        (&point("1e400"), &["out of range"]),
        (&point("1e30"), &["`point` has norm", "at most 10000"]),
        (&point("1e39"), &["`query.point[0]` is 1e+39", "finite"]),
        (r#"{"query":{"all":[{"row":0}]}}"#, &["2 to 8"]),
        (r#"{"query":{"all":[{"all":[]},{"row":0}]}}"#, &["within another"]),
        (r#"{"query":{"row":0},"by":"gated_narrower"}"#, &["`angle`"]),
        (r#"{"query":{"row":0},"by":"distance","angle":1.0}"#, &["gated rankings"]),
        (r#"{"query":{"row":0},"by":"general"}"#, &["`angle`", "`within`"]),
        (r#"{"query":{"row":0},"depth":[2,1]}"#, &["`depth` is [2, 1]"]),
        (r#"{"query":{"row":0},"columns":{"colour":["red"]}}"#, &["`colour`", "label"]),
        (r#"{"query":{"row":0},"subtree":"nowhere"}"#, &["`nowhere`"]),
        (r#"{"query":{"row":0},"modality":["sound"]}"#, &["`modality[0]` is \"sound\"", "box_image"]),
    ] {
        assert_eq!(search(body, words), 422, "{body}");
    }
    let values: Vec<String> = (0..1001).map(|it| it.to_string()).collect();
    let body = json!({ "query": { "row": 0 }, "columns": { "label": values } }).to_string();
    assert_eq!(search(&body, &["1001 values", "at most 1000"]), 422);
    let body = json!({ "query": { "row": 0 }, "modality": vec!["image"; 50_000], "k": 5 });
    assert_eq!(rows(&server.good("/api/search", &body)).len(), 5);
    let many: Vec<Value> = (0..40).map(|row| json!({ "row": row })).collect();
    assert_eq!(search(&json!({ "query": { "row": 0 }, "not": many }).to_string(), &["41 points", "at most 32"]), 422);
    assert_eq!(search(&json!({ "query": { "text": "a".repeat(10_001) } }).to_string(), &["10000"]), 422);
    assert_eq!(search(&json!({ "query": { "row": 99_999_999 } }).to_string(), &["row 99999999"]), 404);
    assert_eq!(search(&json!({ "query": { "id": "../../etc/passwd" } }).to_string(), &["../../etc/passwd"]), 404);
    assert_eq!(search(&json!({ "query": { "photo": "../token" } }).to_string(), &["../token"]), 404);
    let steps = |steps: u64| json!({ "from": { "row": 0 }, "steps": steps }).to_string();
    for wrong in [0, 1, 201, u64::MAX] {
        let body = steps(wrong);
        assert_eq!(error_status(&server, "POST", "/api/traverse", body.as_bytes(), &["`steps`", "2 to 200"]), 422);
    }
    for (path, status) in [
        ("/api/rows/99999999", 404),
        ("/api/rows/-1", 422),
        ("/api/rows/+1", 422),
        ("/api/factors/+1", 404),
        ("/api/rows/..%2f..%2fetc%2fpasswd", 422),
        ("/api/rows/%00", 422),
        ("/api/rows/%ff", 400),
        ("/api/rows/../../etc/passwd", 404),
        ("/api/rows/0/thumbnail?size=0", 422),
        ("/api/rows/0/thumbnail?size=999999", 422),
        ("/api/rows/0/thumbnail?path=/etc/passwd", 422),
        ("/api/rows/99999999/thumbnail", 404),
        ("/api/rows/0/neighbours?k=0", 422),
        ("/api/rows/0/neighbours?modality=sound", 422),
        ("/api/rows", 422),
        ("/assets/../../etc/passwd", 404),
        ("/assets/%ff", 400),
        ("/nowhere", 404),
        ("//", 404),
    ] {
        assert_eq!(error_status(&server, "GET", path, b"", &[]), status, "{path}");
    }
    assert_eq!(error_status(&server, "GET", "/api/search", b"", &["does not accept GET"]), 405);
    assert_eq!(error_status(&server, "DELETE", "/api/rows/0", b"", &["does not accept DELETE"]), 405);
    assert_eq!(error_status(&server, "POST", "/api/search", &vec![b' '; (1 << 20) + 1], &["1048576"]), 413);
    // Deep nesting: a recursive parser must limit its depth.
    let deep = format!("{}{}", r#"{"query":{"all":["#.repeat(10_000), "0");
    assert_eq!(error_status(&server, "POST", "/api/search", deep.as_bytes(), &["recursion limit"]), 400);

    // Without a model or a class tree, the error names the missing option. Without photos, a thumbnail request gets
    // 404.
    let bare = start(&["serve", "set"]);
    for (path, body) in [("/api/search", r#"{"query":{"text":"a"}}"#), ("/api/photos", "x")] {
        assert_eq!(error_status(&bare, "POST", path, body.as_bytes(), &["--checkpoint"]), 422);
    }
    assert_eq!(
        error_status(&bare, "POST", "/api/search", br#"{"query":{"row":0},"subtree":"early"}"#, &["`early`", "--tree"]),
        422
    );
    assert_eq!(error_status(&bare, "GET", "/api/rows/0/thumbnail", b"", &["no picture"]), 404);
}

/// A PNG header that claims this width and height, without image data.
fn png(width: u32, height: u32) -> Vec<u8> {
    let mut chunk = b"IHDR".to_vec();
    chunk.extend(width.to_be_bytes());
    chunk.extend(height.to_be_bytes());
    chunk.extend([8, 2, 0, 0, 0]);
    let mut crc = u32::MAX;
    for byte in &chunk {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
        }
    }
    [&b"\x89PNG\r\n\x1a\n\0\0\0\x0d"[..], &chunk, &(!crc).to_be_bytes(), b"\0\0\0\0IDAT\x35\xaf\x06\x1e"].concat()
}

#[test]
fn invalid_and_oversized_photos_are_rejected() {
    let server = whole();
    let photo = |bytes: &[u8], words: &[&str]| error_status(&server, "POST", "/api/photos", bytes, words);
    assert_eq!(photo(b"no photo", &["the photo"]), 422);
    assert_eq!(photo(b"", &["the photo"]), 422);
    assert_eq!(photo(&png(60_000, 60_000), &["60000", "pixels"]), 413);
    assert_eq!(photo(&png(7_000, 6_000), &["7000", "at most 40000000"]), 413);
    assert_eq!(photo(&png(u32::MAX, u32::MAX), &["the photo"]) / 100, 4);
    assert_eq!(photo(&png(10_000, 2), &["the photo"]), 422);
    assert_eq!(photo(&png(64, 64), &["the photo"]), 422);
    assert_eq!(photo(&vec![0; (1 << 20) + 1], &["1048576"]), 413);

    // An upload of 1 GiB is rejected early, with and without `content-length`.
    for head in ["content-length: 1073741824", "transfer-encoding: chunked"] {
        let mut stream = server.connect();
        stream.set_write_timeout(Some(Duration::from_secs(10))).unwrap();
        stream.write_all(format!("POST /api/photos HTTP/1.1\r\nhost: localhost\r\n{head}\r\n\r\n").as_bytes()).unwrap();
        let mut reader = stream.try_clone().unwrap();
        let reply = std::thread::spawn(move || {
            let mut start = [0; 12];
            reader.read_exact(&mut start).map(|()| start)
        });
        let mut chunk = b"100000\r\n".to_vec();
        chunk.extend(vec![7; 1 << 20]);
        chunk.extend(b"\r\n");
        let sent = (0..1024).take_while(|_| stream.write_all(&chunk).is_ok()).count();
        assert!(sent < 64, "{head}: {sent} MiB were accepted");
        assert_eq!(&reply.join().unwrap().unwrap(), b"HTTP/1.1 413", "{head}");
        server.is_well();
    }
}

/// A request with two body lengths allows request smuggling, because a proxy may use the other length (RFC 9112, 6.1).
#[test]
fn two_body_lengths_are_rejected() {
    let server = start(&["serve", "set"]);
    let body = r#"{"query":{"row":0},"k":1}"#;
    let chunked = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    for fields in [
        format!("content-length: {}\r\ntransfer-encoding: chunked", chunked.len()),
        "Transfer-Encoding: chunked\r\nContent-Length: 4".to_owned(),
    ] {
        let mut stream = server.connect();
        // Sent on the same connection after a valid request.
        stream.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
        let head = format!("POST /api/search HTTP/1.1\r\nhost: localhost\r\n{fields}\r\n\r\n");
        stream.write_all(format!("{head}{chunked}").as_bytes()).unwrap();
        let mut received = Vec::new();
        let mut piece = [0; 4096];
        while !String::from_utf8_lossy(&received).contains("expected one of them") {
            match stream.read(&mut piece) {
                Ok(0) | Err(_) => break,
                Ok(read) => received.extend_from_slice(&piece[..read]),
            }
        }
        // This request would be smuggled if the connection stayed open. It is sent late, because a server that closes a
        // socket with unread bytes resets the connection, and a reset can discard the response.
        _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n");
        _ = stream.read_to_end(&mut received);
        let received = String::from_utf8_lossy(&received);
        // Each response starts directly after the body of the previous one.
        let statuses: Vec<&str> = received.split("HTTP/1.1 ").skip(1).map(|it| &it[..3]).collect();
        assert_eq!(statuses, ["200", "400"], "{received}");
        assert!(received.contains("both `Content-Length` and `Transfer-Encoding`; expected one of them"), "{received}");
    }
    // A chunked body without `content-length` is accepted.
    let mut stream = server.connect();
    let head =
        "POST /api/search HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n";
    stream.write_all(format!("{head}{chunked}").as_bytes()).unwrap();
    assert_eq!(answer(stream).status, 200);
    server.is_well();
}

#[test]
fn idle_connections_do_not_block_new_ones() {
    let server = start(&["serve", "set", "--connections", "64"]);
    // Fewer than the common limit of 1,024 open files.
    let idle: Vec<_> = (0..900).map(|_| server.connect()).collect();
    // A connection is not closed in favour of a new one during its first half second.
    std::thread::sleep(Duration::from_secs(2));
    server.is_well();
    let open = server.count("conifer_connections");
    assert!(open <= 64, "{open}");
    // The other connections were rejected with 503, or closed in favour of a new one.
    let mut counts = [0; 3];
    for mut stream in idle {
        stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        let mut start = [0; 12];
        counts[match stream.read(&mut start) {
            Ok(12) if &start == b"HTTP/1.1 503" => 0,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => 1,
            Ok(0) | Err(_) => 2,
            Ok(_) => panic!("{start:?}"),
        }] += 1;
    }
    let [turned_away, still_open, closed] = counts;
    assert!(turned_away + closed >= 900 - 64 && still_open <= 64, "{counts:?}");
    server.is_well();
}

#[test]
fn endless_request_heads_are_closed() {
    let server = start(&["serve", "set"]);
    let mut slow = server.connect();
    slow.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\nx-a: ").unwrap();
    let started = Instant::now();
    // Send one byte at a time until the server closes the connection.
    let ended = loop {
        std::thread::sleep(Duration::from_millis(250));
        if slow.write_all(b"a").is_err() {
            break started.elapsed();
        }
        assert!(started.elapsed() < Duration::from_secs(25), "still open");
    };
    assert!(ended > Duration::from_secs(8), "{ended:?}");
    server.is_well();
    // An oversized head, and bytes that are not HTTP.
    let mut long = server.connect();
    _ = long.write_all(format!("GET / HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n", "a".repeat(1 << 20)).as_bytes());
    let mut start = Vec::new();
    _ = long.read_to_end(&mut start);
    assert!(start.is_empty() || start.starts_with(b"HTTP/1.1 4"), "{}", String::from_utf8_lossy(&start));
    let mut none = server.connect();
    none.write_all(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n").unwrap();
    assert_eq!(answer(none).status, 400);
    server.is_well();
}

/// A photo that changes while the server runs, and a record that names a file outside the allowed folders.
#[test]
fn responses_reveal_no_paths_or_file_contents() {
    let at = folder();
    good(at, &["data", "toy", "--out", "changing", "--size", "3", "--resolution", "32"]);
    let scenes = std::fs::read_to_string(at.join("changing/scenes.jsonl")).unwrap();
    let record = |number: usize| serde_json::from_str::<Value>(scenes.lines().nth(number).unwrap()).unwrap();
    let photos = at.join("changing");
    let path = |record: &Value| photos.join(record["image"].as_str().unwrap());
    let records = [record(0), record(1)];
    let data = |records: &[Value]| {
        let lines: Vec<String> = records.iter().map(Value::to_string).collect();
        std::fs::write(photos.join("d.jsonl"), lines.join("\n")).unwrap();
    };
    data(&records);
    good(at, &["embed", "run", "--data", "changing/d.jsonl", "--views", "image", "--out", "changing-set"]);
    // After the embedding run, a record is changed to name a photo elsewhere.
    let elsewhere = at.join("elsewhere.png");
    std::fs::copy(path(&records[1]), &elsewhere).unwrap();
    let mut other = records[1].clone();
    other["image"] = elsewhere.to_str().unwrap().into();
    data(&[records[0].clone(), other]);
    let server = start(&["serve", "changing-set", "--data", "changing/d.jsonl"]);
    assert_eq!(server.get("/api/rows/0/thumbnail").status, 200);
    assert_eq!(server.get("/api/rows/1/thumbnail").status, 404);
    std::fs::write(path(&records[0]), "hunter2, the password").unwrap();
    let reply = server.get("/api/rows/0/thumbnail");
    let text = String::from_utf8(reply.body).unwrap();
    assert_eq!(reply.status, 404);
    assert!(text.contains("the picture of row 0 cannot be read any more"), "{text}");
    for secret in ["hunter2", "68 75 6e", "changing", ".png", at.to_str().unwrap()] {
        assert!(!text.contains(secret), "{text}");
    }
    // The row does not show the path of its photo either.
    let row = server.get("/api/rows/0");
    assert!(!String::from_utf8(row.body).unwrap().contains("photos"));
    server.is_well();
}
