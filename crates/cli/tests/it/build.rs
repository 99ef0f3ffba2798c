//! `conifer build hierarchies`: by rules, by a language model behind a loopback server, and with bad input.

use std::collections::HashSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::{conifer, good, refused, root};

/// Captions of which one has too few words, one is in German, and one is a repetition.
const CAPTIONS: &str = "image,caption
1.jpg,A black dog is running through the deep snow near a wooden fence .
2.jpg,Two men in red shirts are riding their bikes down a busy street .
3.jpg,A dog in snow .
4.jpg,Ein Hund rennt mit einem Ball auf der Wiese und ist sehr schnell .
5.jpg,a black dog is running through the deep snow near a wooden fence
6.jpg,A young woman wearing a white dress is sitting on a bench in the park .
";

fn captions(folder: &Path) {
    fs::write(folder.join("captions.csv"), CAPTIONS).unwrap();
}

fn lines(path: &Path) -> Vec<Value> {
    fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn rules_build_hierarchies_that_training_reads() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    captions(here);
    let build = ["build", "hierarchies", "--data", "captions.csv", "--out", "h.jsonl", "--out", "h.csv"];
    let printed = good(here, &build);
    assert!(printed.contains("1 too_short, 1 not_english, 1 duplicate"), "{printed}");
    assert!(printed.contains("wrote h.jsonl: 3 hierarchies"), "{printed}");
    let rows = lines(&here.join("h.jsonl"));
    assert_eq!(rows[0]["tiers"]["positive"][0], "animal");
    assert_eq!(rows[0]["tiers"]["positive"][1], "dog");
    assert_eq!(rows[0]["tiers"]["negative"].as_array().unwrap().len(), 4);
    assert_eq!(rows[0]["image"], "1.jpg");
    assert_eq!(rows[0]["meta"]["provenance"][0]["by"], "rules");
    let checked = good(here, &["--json", "data", "check", "--data", "h.jsonl"]);
    assert!(checked.contains("\"tiers\":3"), "{checked}");
    good(here, &["data", "import", "hierarcaps", "--input", "table=h.csv", "--out", "again.jsonl"]);
    assert_eq!(lines(&here.join("again.jsonl"))[0]["tiers"], rows[0]["tiers"]);

    // The same inputs give the same file, and finished stages are not repeated.
    let first = fs::read(here.join("h.jsonl")).unwrap();
    refused(here, &build, &["h.jsonl exists", "--overwrite"]);
    let printed = good(here, &[&build[..], &["--overwrite"]].concat());
    assert!(printed.contains("reused"), "{printed}");
    assert_eq!(fs::read(here.join("h.jsonl")).unwrap(), first);
    let report = fs::read_to_string(here.join("h.jsonl.work/report.html")).unwrap();
    assert!(report.contains("Ein Hund rennt"), "the report shows dropped captions");
}

#[test]
fn decisions_of_a_person_are_honoured() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    captions(here);
    let build = ["build", "hierarchies", "--data", "captions.csv", "--out", "h.jsonl", "--overwrite"];
    good(here, &build);
    let table = fs::read_to_string(here.join("h.jsonl.work/review.csv")).unwrap();
    assert!(table.starts_with("id,decision,tier1,tier2,tier3,tier4\n") && table.lines().count() == 4, "{table}");
    let ids: Vec<String> =
        lines(&here.join("h.jsonl")).iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect();
    let review = format!(
        "id,decision,tier1,tier2,tier3,tier4\n{},edit,animal,dog,dog running,A black dog is running .\n{},reject,,,,\n",
        ids[0], ids[1]
    );
    fs::write(here.join("review.csv"), review).unwrap();
    let printed = good(here, &[&build[..], &["--review", "review.csv"]].concat());
    assert!(printed.contains("1 rejected"), "{printed}");
    let rows = lines(&here.join("h.jsonl"));
    assert_eq!(rows[0]["tiers"]["positive"][2], "dog running");
    assert_eq!(rows[0]["meta"]["provenance"][0]["by"], "review");
    assert!(rows.iter().all(|row| row["id"].as_str() != Some(&*ids[1])));
}

#[test]
fn bad_requests_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    captions(here);
    let build = |more: &[&'static str]| [&["build", "hierarchies", "--data", "captions.csv"], more].concat();
    refused(here, &build(&["--work", "w"]), &["expected --out FILE.jsonl"]);
    refused(here, &build(&["--out", "h.txt"]), &["h.txt: unknown format"]);
    refused(here, &build(&["--out", "absent/h.csv"]), &["its folder does not exist"]);
    refused(here, &build(&["--work", "w", "--stage", "seeds"]), &["--stage seeds: no language model", "--llm URL"]);
    refused(
        here,
        &build(&["--work", "w", "--stage", "negatives"]),
        &["stage complete has not run", "`--stage complete` first"],
    );
    refused(here, &build(&["--out", "h.csv", "--wordnet", "absent"]), &["absent/data.noun"]);
    refused(here, &build(&["--out", "h.csv", "--review", "captions.csv"]), &["expected id, decision, tier1"]);
    let llm = ["--out", "h.csv", "--llm", "https://127.0.0.1", "--llm-model", "m"];
    refused(here, &build(&llm), &["--llm https://127.0.0.1", "expected http://HOST:PORT"]);
}

#[test]
fn texts_that_are_no_captions_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let long = "a dog in the park ".repeat(2000);
    let middle = "a dog in the park ".repeat(40);
    fs::write(here.join("captions.csv"), format!("image,caption\n1.jpg,\n2.jpg,{long}\n3.jpg,{middle}\n")).unwrap();
    let printed = good(here, &["build", "hierarchies", "--data", "captions.csv", "--out", "h.jsonl"]);
    assert!(printed.contains("2 broken_sample, 1 too_long"), "{printed}");
    assert!(printed.contains("h.jsonl: 0 hierarchies"), "{printed}");
}

/// A loopback endpoint. It answers request number n with `answer(n, prompt)`: a status and a text, or a body if the
/// text starts with `!`.
struct FakeEndpoint {
    url: String,
    asked: Arc<AtomicUsize>,
    repeated: Arc<AtomicUsize>,
}

impl FakeEndpoint {
    fn start(answer: impl Fn(usize, &str) -> (u16, String) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let (asked, repeated) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (counter, repeats, seen) =
            (Arc::clone(&asked), Arc::clone(&repeated), Arc::new(Mutex::new(HashSet::new())));
        let answer = Arc::new(answer);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let number = counter.fetch_add(1, Ordering::SeqCst);
                let (answer, seen, repeats) = (Arc::clone(&answer), Arc::clone(&seen), Arc::clone(&repeats));
                std::thread::spawn(move || respond(stream, number, &*answer, &seen, &repeats));
            }
        });
        Self { url, asked, repeated }
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

fn respond(
    mut stream: TcpStream,
    number: usize,
    answer: &(dyn Fn(usize, &str) -> (u16, String) + Send + Sync),
    seen: &Mutex<HashSet<String>>,
    repeats: &AtomicUsize,
) {
    let (mut request, mut piece) = (Vec::new(), [0; 8192]);
    let body = loop {
        let read = stream.read(&mut piece).unwrap_or(0);
        request.extend_from_slice(&piece[..read]);
        let text = String::from_utf8_lossy(&request).into_owned();
        if let Some((_, body)) = text.split_once("\r\n\r\n")
            && serde_json::from_str::<Value>(body).is_ok()
        {
            break body.to_owned();
        }
        if read == 0 {
            return;
        }
    };
    if !seen.lock().unwrap().insert(body.clone()) {
        repeats.fetch_add(1, Ordering::SeqCst);
    }
    let request: Value = serde_json::from_str(&body).unwrap();
    let prompt = request["prompt"].as_str().or(request["messages"][0]["content"].as_str()).unwrap_or_default();
    let (status, text) = answer(number, prompt);
    let body = match text.strip_prefix('!') {
        Some(raw) => raw.to_owned(),
        None => serde_json::json!({
            "choices": [{"text": text, "message": {"content": text}}],
            "usage": {"prompt_tokens": 10, "completion_tokens": 2},
        })
        .to_string(),
    };
    let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
    _ = stream.write_all((head + &body).as_bytes());
}

/// A model that knows one hierarchy. It chooses the tiers by the last line of the prompt.
fn model(prompt: &str) -> String {
    let last = prompt.lines().last().unwrap_or_default();
    if prompt.contains("Shortened version:") {
        "dog running through the snow\"".to_owned()
    } else if prompt.contains("fill in the blank") {
        " dog.\"".to_owned()
    } else if prompt.contains("general concept") {
        "animal\"".to_owned()
    } else if last.ends_with("<-") {
        match last.contains("dog") {
            true => " dog running through the snow <- dog <- animal".to_owned(),
            false => " no tiers".to_owned(),
        }
    } else {
        let given = last.split("->").map(str::trim).filter(|tier| !tier.is_empty()).count();
        let lines = [
            "vehicle -> car -> car parked -> A red car is parked on the street .",
            " cat ->",
            " dog sleeping on a couch ->",
            " A white dog is running through the snow .",
        ];
        lines[if prompt.ends_with('\n') { 0 } else { given }].to_owned()
    }
}

const DOG: &str = "image,caption\n1.jpg,A black dog is running through the snow near a fence .\n2.jpg,Two men are riding bikes down the busy street today .\n";

fn with_model<'a>(url: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let build = ["build", "hierarchies", "--data", "captions.csv", "--out", "h.jsonl", "--overwrite"];
    let llm = ["--llm", url, "--llm-model", "fake", "--candidates", "2", "--grow", "2", "--llm-retries", "1"];
    [&build[..], &llm, more].concat()
}

#[test]
fn a_model_builds_hierarchies_and_is_asked_for_nothing_twice() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    fs::write(here.join("captions.csv"), DOG).unwrap();
    let endpoint = FakeEndpoint::start(|_, prompt| (200, model(prompt)));
    let estimate = good(here, &with_model(&endpoint.url, &["--dry-run"]));
    assert!(estimate.contains("negatives") && endpoint.asked() == 0, "{estimate}");
    let printed = good(here, &with_model(&endpoint.url, &[]));
    assert!(printed.contains("wrote h.jsonl: 1 hierarchies"), "{printed}");
    let rows = lines(&here.join("h.jsonl"));
    assert_eq!(rows[0]["tiers"]["positive"][2], "dog running through the snow");
    assert_eq!(rows[0]["meta"]["provenance"][1]["by"], "fake");
    let asked = endpoint.asked();
    // Without the list of finished stages, the stages run again, and all answers come from disk.
    fs::remove_file(here.join("h.jsonl.work/stages.json")).unwrap();
    let report = good(here, &[&["--json"], &with_model(&endpoint.url, &[])[..]].concat());
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!((endpoint.asked(), report["llm"]["asked"].as_u64()), (asked, Some(0)));
    assert_eq!(endpoint.repeated.load(Ordering::SeqCst), 0);
    assert_eq!(lines(&here.join("h.jsonl")), rows);
}

#[test]
fn given_seeds_replace_the_instructions() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    captions(here);
    good(here, &["build", "hierarchies", "--data", "captions.csv", "--out", "seeds.jsonl"]);
    let endpoint = FakeEndpoint::start(|_, prompt| (200, model(prompt)));
    let run =
        |stage: &'static str| good(here, &with_model(&endpoint.url, &["--seeds", "seeds.jsonl", "--stage", stage]));
    run("captions");
    let printed = run("seeds");
    assert!(printed.contains("--seeds") && endpoint.asked() == 0, "{printed}");
    let taken: Vec<Value> =
        lines(&here.join("h.jsonl.work/seeds.jsonl")).iter().map(|it| it["positive"].clone()).collect();
    let given: Vec<Value> = lines(&here.join("seeds.jsonl")).iter().map(|it| it["tiers"]["positive"].clone()).collect();
    assert_eq!((taken.len(), taken), (3, given));
    run("grow");
    assert!(endpoint.asked() > 0);
    let seeds = with_model(&endpoint.url, &["--seeds", "captions.csv", "--stage", "seeds"]);
    refused(here, &seeds, &["--seeds: line 1 of `captions.csv`", "four texts from general to specific"]);
}

#[test]
fn failures_of_the_endpoint_are_counted_by_cause() {
    for (answer, words) in [
        ((429, "!busy".to_owned()), "endpoint_status"),
        ((200, "!{\"choices\": ".to_owned()), "endpoint_answer"),
        ((200, "A dog".to_owned()), "no_quotes"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path();
        fs::write(here.join("captions.csv"), DOG).unwrap();
        let status = answer.0;
        let endpoint = FakeEndpoint::start(move |_, _| answer.clone());
        let seeds = with_model(&endpoint.url, &["--stage", "captions"]);
        good(here, &seeds);
        let output = conifer(here, &with_model(&endpoint.url, &["--stage", "seeds"]));
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(printed.contains(&format!("2 {words}")), "{status}: {printed}");
        let temporary = words != "no_quotes";
        assert_eq!(output.status.code(), Some(i32::from(temporary)), "{words}");
        assert_eq!(String::from_utf8_lossy(&output.stderr).contains("2 texts have no answer"), temporary);
    }
}

#[test]
fn an_endpoint_that_is_down_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    fs::write(here.join("captions.csv"), DOG).unwrap();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", closed.local_addr().unwrap());
    drop(closed);
    good(here, &with_model(&url, &["--stage", "captions"]));
    let output = conifer(here, &with_model(&url, &["--stage", "seeds"]));
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stdout).contains("2 endpoint_down"));
    // The endpoint answers again, so the stage runs again.
    let endpoint = FakeEndpoint::start(|_, prompt| (200, model(prompt)));
    let printed = good(here, &with_model(&endpoint.url, &[]));
    assert!(printed.contains("wrote h.jsonl: 1 hierarchies"), "{printed}");
    let refused = FakeEndpoint::start(|_, _| (401, "!no".to_owned()));
    fs::remove_dir_all(here.join("h.jsonl.work")).unwrap();
    let output = conifer(here, &with_model(&refused.url, &[]));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code() == Some(1) && stderr.contains("status 401") && stderr.contains("--llm-key-env"),
        "{stderr}"
    );
}

/// Three hierarchies that a T5 can learn by heart, and the config of one that starts from random weights.
fn write_distil_files(here: &Path) {
    let hierarchies = [
        [
            "animal",
            "dog",
            "dog running through the snow",
            "A black dog is running through the deep snow near a fence .",
        ],
        ["people", "men", "men riding bikes", "Two men in red shirts are riding their bikes down a busy street ."],
        [
            "person",
            "woman",
            "woman sitting on a bench",
            "A young woman wearing a white dress is sitting on a bench in the park .",
        ],
    ];
    let mut captions = "image,caption\n".to_owned();
    let mut seeds = String::new();
    for (number, tiers) in hierarchies.iter().enumerate() {
        captions += &format!("{number}.jpg,{}\n", tiers[3]);
        seeds += &format!("{}\n", serde_json::json!({ "id": number.to_string(), "tiers": { "positive": tiers } }));
    }
    fs::write(here.join("captions.csv"), captions).unwrap();
    fs::write(here.join("seeds.jsonl"), seeds).unwrap();
    let config = serde_json::json!({
        "model_type": "t5", "vocab_size": 120, "d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 1, "num_heads": 2,
        "feed_forward_proj": "gated-gelu", "tie_word_embeddings": false, "decoder_start_token_id": 0, "n_positions": 128,
    });
    fs::write(here.join("t5.json"), config.to_string()).unwrap();
}

#[test]
fn a_distilled_model_completes_the_captions_that_it_learned() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    write_distil_files(here);
    let data = ["build", "hierarchies", "--data", "captions.csv", "--out", "h.jsonl", "--overwrite"];
    let distil = ["--seeds", "seeds.jsonl", "--distil", "t5.json", "--distil-epochs", "800", "--distil-lr", "0.003"];
    let output = conifer(here, &[&data[..], &distil].concat());
    let [printed, notes] = [output.stdout, output.stderr].map(|it| String::from_utf8_lossy(&it).into_owned());
    assert!(output.status.success() && notes.contains("distil: epoch 800 of 800: 1 updates"), "{notes}");
    assert!(printed.contains("distil") && printed.contains("t5.json, distilled"), "{printed}");
    let work = here.join("h.jsonl.work");
    let losses: Vec<f64> = lines(&work.join("distil.jsonl")).iter().map(|it| it["loss"].as_f64().unwrap()).collect();
    assert!(losses.len() == 800 && losses[799] < 0.2 && losses[0] > 3.0, "{losses:?}");
    let completed = lines(&work.join("complete.jsonl"));
    let tiers: Vec<&Value> = completed.iter().map(|it| &it["positive"]).collect();
    let given = lines(&here.join("seeds.jsonl"));
    let given: Vec<&Value> = given.iter().map(|it| &it["tiers"]["positive"]).collect();
    assert_eq!(tiers, given, "{printed}");
    assert_eq!(completed[0]["provenance"][0]["by"], "t5.json, distilled");

    // Nothing is repeated; a model that is gone is trained again; the folder alone completes captions, too.
    let printed = good(here, &[&data[..], &distil].concat());
    assert_eq!(printed.matches("reused").count(), 5, "{printed}");
    let only =
        ["build", "hierarchies", "--data", "captions.csv", "--work", "other", "--distilled", "h.jsonl.work/distilled"];
    good(here, &[&only[..], &["--stage", "captions"]].concat());
    good(here, &[&only[..], &["--stage", "complete"]].concat());
    let again = lines(&here.join("other/complete.jsonl"));
    assert_eq!(again.iter().map(|it| &it["positive"]).collect::<Vec<_>>(), tiers);

    // Damaged folders and requests that contradict each other.
    refused(
        here,
        &[&data[..], &["--distil", "t5.json"]].concat(),
        &["--stage seeds: no hierarchies to learn from", "--seeds FILE"],
    );
    refused(here, &[&data[..], &["--distil", "absent"]].concat(), &["--distil absent", "holds no config.json"]);
    for words in [&["--seeds", "seeds.jsonl"][..], &["--distil", "t5.json", "--distil-lr", "0"]] {
        let output = conifer(here, &[&data[..], words].concat());
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && stderr.contains("--distil"), "{stderr}");
    }
    fs::write(here.join("small.json"), fs::read_to_string(here.join("t5.json")).unwrap().replace("120", "20")).unwrap();
    let small = ["--seeds", "seeds.jsonl", "--distil", "small.json"];
    refused(here, &[&data[..], &small].concat(), &["small.json: vocab_size is 20", "expected at least"]);
    let distilled = here.join("h.jsonl.work/distilled");
    let config = fs::read_to_string(distilled.join("config.json")).unwrap();
    fs::write(distilled.join("config.json"), config.replace("\"t5\"", "\"bart\"")).unwrap();
    refused(
        here,
        &[&only[..], &["--stage", "complete"]].concat(),
        &["--distilled", "`model_type` is bart; expected t5"],
    );
}

fn with_judge(judge: &str) -> [&str; 9] {
    ["build", "hierarchies", "--data", "captions.csv", "--out", "h.jsonl", "--overwrite", "--judge", judge]
}

#[test]
fn judges_are_rules_folders_or_endpoints() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    fs::write(here.join("captions.csv"), DOG).unwrap();
    let silent = FakeEndpoint::start(|_, _| (200, "!absent".to_owned()));
    refused(
        here,
        &with_judge(&silent.url.replace("/v1", "")),
        &["--judge http://127.0.0.1", "no list of labels and scores"],
    );
    let scores =
        serde_json::json!([{ "label": "ENTAILMENT", "score": 0.2 }, { "label": "CONTRADICTION", "score": 0.7 }]);
    let stubborn = FakeEndpoint::start(move |_, _| (200, format!("!{scores}")));
    let printed = good(here, &with_judge(&stubborn.url.replace("/v1", "")));
    assert!(printed.contains("not_entailed") && stubborn.asked() > 0, "{printed}");
    let nameless = FakeEndpoint::start(|_, _| (200, r#"![{"label": "LABEL_0", "score": 1.0}]"#.to_owned()));
    refused(
        here,
        &with_judge(&nameless.url.replace("/v1", "")),
        &["the labels LABEL_0; expected a probability of `entailment`"],
    );
    refused(here, &with_judge("https://127.0.0.1"), &["--judge https://127.0.0.1", "expected http://HOST:PORT"]);
    refused(here, &with_judge("absent"), &["--judge absent", "holds no config.json"]);
    let bart = root().join("fixtures/sequences/bart_mnli");
    refused(here, &with_judge(bart.to_str().unwrap()), &["holds no tokenizer.json"]);
}

/// A server of a real model, from `fixtures/llm_server.mjs`.
struct LlmServer {
    process: std::process::Child,
    url: String,
}

impl LlmServer {
    fn start(modules: &str, model: &str, log: &Path) -> Self {
        let script = root().join("fixtures/llm_server.mjs");
        let mut process = std::process::Command::new("node")
            .arg(script)
            .args(["--modules", modules, "--model", model, "--port", "0", "--threads", "1", "--parallel", "1"])
            .arg("--log")
            .arg(log)
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { process, url: line.trim().to_owned() }
    }
}

impl Drop for LlmServer {
    fn drop(&mut self) {
        _ = self.process.kill();
        _ = self.process.wait();
    }
}

/// A real model seldom finds valid tiers, so the counts are checked and not the texts.
#[test]
fn a_real_model_is_asked_for_nothing_twice() {
    let (Ok(modules), Ok(model)) = (std::env::var("CONIFER_LLM_MODULES"), std::env::var("CONIFER_LLM_MODEL")) else {
        eprintln!(
            "skipped: CONIFER_LLM_MODULES (node_modules with node-llama-cpp) and CONIFER_LLM_MODEL (a GGUF file) are not set"
        );
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    captions(here);
    let log = here.join("log.jsonl");
    let server = LlmServer::start(&modules, &model, &log);
    assert!(server.url.starts_with("http://127.0.0.1:"), "{}", server.url);
    let received = || lines(&log).into_iter().filter(|it| it["event"] == "received").collect::<Vec<_>>();
    for api in ["completions", "chat"] {
        let build = ["--json", "build", "hierarchies", "--data", "captions.csv", "--work", api, "--llm-api", api];
        let llm = ["--llm", &server.url, "--llm-model", "small", "--llm-concurrency", "2", "--llm-max-tokens", "40"];
        let run = |stage: &str| -> Value {
            serde_json::from_str(&good(here, &[&build[..], &llm, &["--stage", stage]].concat())).unwrap()
        };
        run("captions");
        let report = run("seeds");
        let seeds = &report["stages"][0];
        let dropped = seeds["dropped"].as_object().unwrap().values().map(|it| it["count"].as_u64().unwrap());
        assert_eq!(seeds["entered"].as_u64(), Some(3), "{report:#}");
        assert_eq!(seeds["left"].as_u64().unwrap() + dropped.sum::<u64>(), 3, "{report:#}");
        assert!(report["llm"]["asked"].as_u64() >= Some(3), "{report:#}");
        assert!(report["llm"]["answer_tokens"].as_u64() > Some(0), "{report:#}");
        // Without the list of finished stages, all answers come from disk.
        fs::remove_file(here.join(api).join("stages.json")).unwrap();
        run("captions");
        assert_eq!(run("seeds")["llm"]["asked"].as_u64(), Some(0));
    }
    let received = received();
    let different: HashSet<String> = received.iter().map(|it| it["id"].to_string()).collect();
    assert_eq!(different.len(), received.len(), "{received:?}");
}
