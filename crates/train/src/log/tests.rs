#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use serde_json::json;

use super::tensorboard::masked_crc;
use super::*;

fn record(step: u64) -> StepRecord {
    let map = |value: serde_json::Value| value.as_object().unwrap().clone();
    StepRecord {
        step,
        epoch: 1,
        lr: 1e-4,
        beta1: None,
        loss: 2.5,
        terms: map(json!({"contrastive": 2.0, "entailment": 0.5})),
        scalars: map(json!({"curv": [0.5, 1.0, 3.0], "temperature": 0.07})),
        gradient_norm: 0.25,
        samples: 8 * step,
        samples_per_second: 100.0,
        eta_seconds: 3.0,
        broken: 2,
        missing_ranks: map(json!({"phylum": 3})),
        peak_rss_mb: Some(512.5),
        eval: map(json!({"depth_order/all/share": 0.75})),
    }
}

#[test]
fn a_resumed_run_drops_later_records_and_a_torn_line() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = MetricsFile::open(folder.path(), 0).unwrap();
    for step in 1..=5 {
        log.append(&record(step)).unwrap();
    }
    drop(log);
    let path = folder.path().join(METRICS_FILE);
    let mut text = fs::read_to_string(&path).unwrap();
    text.push_str("{\"step\":6,\"epo");
    fs::write(&path, text).unwrap();

    let mut log = MetricsFile::open(folder.path(), 3).unwrap();
    log.append(&record(4)).unwrap();
    let expected: Vec<_> = (1..=4).map(record).collect();
    assert_eq!(read_metrics(&path).unwrap(), expected);
}

#[test]
fn invalid_lines_are_reported_by_number() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(METRICS_FILE);
    fs::write(&path, "{\"step\":1}\n").unwrap();
    let message = MetricsFile::open(folder.path(), 1).unwrap_err().to_string();
    assert!(message.contains("metrics.jsonl") && message.contains("line 1"), "{message}");
}

/// The check value of CRC-32C (RFC 3720 B.4: 32 bytes of zero) is 0x8a9136aa; masked by hand:
/// rotate_right(0x8a9136aa, 15) = 0x6d551522, plus 0xa282ead8 = 0x0fd7fffa (modulo 2^32).
#[test]
fn the_checksum_is_masked_as_tensorflow_does() {
    assert_eq!(masked_crc(&[0; 32]), 0x0fd7_fffa);
}

#[test]
fn an_event_file_reads_back_field_by_field() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = RunLog::open(folder.path(), 300).unwrap();
    log.write(&record(301)).unwrap();
    let events = read_events(&only_event_file(folder.path()));

    assert_eq!(events.len(), 3);
    assert_eq!(events[0].text(3), "brain.Event:2");
    assert_eq!(events[1].number(2), 301, "a session start drops this step and later ones");
    assert_eq!(events[1].inner(7).number(1), 1);
    assert_eq!(events[2].number(2), 301);
    let summary = events[2].inner(5);
    let values: Vec<(String, f32)> = summary
        .0
        .iter()
        .map(|(field, value)| {
            assert_eq!(*field, 1);
            let entry = ProtoFields::parse(value);
            let bits: [u8; 4] = entry.get(2).try_into().unwrap();
            (entry.text(1), f32::from_le_bytes(bits))
        })
        .collect();
    let of = |tag: &str| values.iter().find(|(name, _)| name == tag).unwrap_or_else(|| panic!("no {tag}")).1;
    assert_eq!(of("loss/total"), 2.5);
    assert_eq!(of("loss/entailment"), 0.5);
    assert_eq!(of("data/missing_rank/phylum"), 3.0);
    assert_eq!(of("scalar/temperature"), 0.07);
    assert_eq!(of("memory/peak_rss_mb"), 512.5);
    assert_eq!((of("scalar/curv/min"), of("scalar/curv/mean"), of("scalar/curv/max")), (0.5, 1.5, 3.0));
}

#[test]
fn two_runs_in_one_second_write_two_files() {
    let folder = tempfile::tempdir().unwrap();
    let _first = EventFile::create(folder.path(), 0).unwrap();
    let _second = EventFile::create(folder.path(), 0).unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
}

fn only_event_file(folder: &Path) -> Vec<u8> {
    let mut entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let path = entries.find(|path| path.to_string_lossy().contains("tfevents")).unwrap();
    fs::read(path).unwrap()
}

/// Splits the records, verifies their checksums and splits the messages into fields. Only the checksum function is
/// shared with the writer; another test checks it.
fn read_events(mut bytes: &[u8]) -> Vec<ProtoFields> {
    let mut events = Vec::new();
    while !bytes.is_empty() {
        let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        assert_eq!(word(8), masked_crc(&bytes[..8]));
        let payload = &bytes[12..12 + length];
        assert_eq!(word(12 + length), masked_crc(payload));
        events.push(ProtoFields::parse(payload));
        bytes = &bytes[16 + length..];
    }
    events
}

/// The fields of a protobuf message as (number, bytes); a varint is stored as eight little-endian bytes.
struct ProtoFields(Vec<(u64, Vec<u8>)>);

impl ProtoFields {
    fn parse(mut bytes: &[u8]) -> Self {
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let key = varint(&mut bytes);
            let value = match key & 7 {
                0 => varint(&mut bytes).to_le_bytes().to_vec(),
                1 => take(&mut bytes, 8),
                2 => {
                    let length = varint(&mut bytes) as usize;
                    take(&mut bytes, length)
                }
                5 => take(&mut bytes, 4),
                wire => panic!("wire type {wire}"),
            };
            fields.push((key >> 3, value));
        }
        Self(fields)
    }

    fn get(&self, field: u64) -> &[u8] {
        &self.0.iter().find(|(number, _)| *number == field).unwrap().1
    }

    fn text(&self, field: u64) -> String {
        String::from_utf8(self.get(field).to_vec()).unwrap()
    }

    fn number(&self, field: u64) -> u64 {
        u64::from_le_bytes(self.get(field).try_into().unwrap())
    }

    fn inner(&self, field: u64) -> Self {
        Self::parse(self.get(field))
    }
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let byte = take(bytes, 1)[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    value
}

fn take(bytes: &mut &[u8], n: usize) -> Vec<u8> {
    let (head, tail) = bytes.split_at(n);
    *bytes = tail;
    head.to_vec()
}
