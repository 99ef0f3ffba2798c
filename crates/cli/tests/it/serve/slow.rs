//! Slow clients, and clients that never finish.

use std::io::{BufRead as _, ErrorKind, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{answer, launch, start, whole};

/// Sends the head of a request without its body.
fn send_head(stream: &mut TcpStream, path: &str, length: usize) {
    let head = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
}

#[test]
fn pending_bodies_do_not_block_others() {
    let server = start(&["serve", "set", "--concurrency", "1"]);
    let mut slow: Vec<_> = (0..20).map(|_| server.connect()).collect();
    for stream in &mut slow {
        send_head(stream, "/api/search", 20);
        stream.write_all(b"{").unwrap();
    }
    let search = json!({ "query": { "row": 0 } });
    for _ in 0..20 {
        assert_eq!(server.post("/api/search", &search).status, 200);
    }
    for stream in slow {
        assert_eq!(answer(stream).status, 408);
    }
    assert_eq!(server.post("/api/search", &search).status, 200);
}

#[test]
fn pending_uploads_do_not_block_others() {
    let server = whole();
    let mut slow: Vec<_> = (0..20).map(|_| server.connect()).collect();
    for stream in &mut slow {
        send_head(stream, "/api/photos", 1 << 20);
        stream.write_all(b"a").unwrap();
    }
    // An invalid photo is rejected immediately, while the slow uploads are still pending.
    assert_eq!(server.send("POST", "/api/photos", "", b"no photo").status, 422);
    let first = slow.remove(0);
    first.set_nonblocking(true).unwrap();
    assert_eq!(first.peek(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);

    // Received bytes count towards the upload buffer, which has room for eight photos of the maximum size.
    let most = vec![b'a'; (1 << 20) - 1];
    let mut large: Vec<_> = (0..12).map(|_| server.connect()).collect();
    for stream in &mut large {
        send_head(stream, "/api/photos", 1 << 20);
        // The write may fail, because the server closes the connections of uploads that do not fit.
        _ = stream.write_all(&most);
    }
    let statuses: Vec<u16> = large.into_iter().map(|it| answer(it).status).collect();
    let count = |status: u16| statuses.iter().filter(|it| **it == status).count();
    assert!(count(429) >= 4 && count(429) + count(408) == 12, "{statuses:?}");
    assert_eq!(server.send("POST", "/api/photos", "", b"no photo").status, 422);
}

#[test]
fn requests_over_the_concurrency_limit_are_rejected() {
    let server = start(&["serve", "set", "--concurrency", "1"]);
    let (busy, started) = (AtomicBool::new(false), Instant::now());
    let search = json!({ "query": { "row": 0 }, "k": 1000 });
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while !busy.load(Ordering::Relaxed) {
                    let reply = server.post("/api/search", &search);
                    if reply.status == 429 {
                        assert!(reply.head.contains("retry-after: 1"), "{}", reply.head);
                        busy.store(true, Ordering::Relaxed);
                    }
                    assert!(started.elapsed() < Duration::from_secs(60), "it was never busy");
                }
            });
        }
    });
    assert_eq!(server.post("/api/search", &search).status, 200);
}

#[test]
fn unread_log_does_not_block_the_server() {
    let (server, _log) = launch(&["serve", "set"]);
    let mut stream = server.connect();
    let reader = stream.try_clone().unwrap();
    let requests = b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(5_000);
    let answers = std::thread::spawn(move || answer(reader).status);
    stream.write_all(&requests).unwrap();
    stream.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
    assert_eq!(answers.join().unwrap(), 200);
    server.is_well();
    assert!(server.count("conifer_log_lines_dropped_total") > 0);
}

/// A client that sends requests and never reads a response.
#[test]
fn connection_with_unread_responses_is_closed() {
    let server = start(&["serve", "set"]);
    let mut stream = server.connect();
    stream.set_write_timeout(Some(Duration::from_secs(2))).unwrap();
    let requests = b"GET /api/map HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(1000);
    // Write until the buffers of both sides are full.
    while stream.write_all(&requests).is_ok() {}
    let started = Instant::now();
    // The connection of the metrics request itself counts too.
    while server.count("conifer_connections") > 1 {
        assert!(started.elapsed() < Duration::from_secs(90), "it is still open");
        std::thread::sleep(Duration::from_secs(1));
    }
}

#[test]
fn requests_are_logged_as_json_or_text() {
    let line_of = |options: &[&str]| {
        let (server, mut log) = launch(&[&["serve", "set"][..], options].concat());
        server.is_well();
        let mut line = String::new();
        log.read_line(&mut line).unwrap();
        line
    };
    let line: Value = serde_json::from_str(&line_of(&[])).unwrap();
    assert_eq!((&line["method"], &line["route"], &line["status"]), (&json!("GET"), &json!("/health"), &json!(200)));
    assert!(line["took_ms"].is_number() && line["timestamp"].is_string() && line["level"] == "INFO", "{line}");
    let text = line_of(&["--log-format", "text"]);
    for part in ["INFO", "GET", "/health", "status=200", "took_ms="] {
        assert!(text.contains(part), "`{part}` is not in: {text}");
    }
}
