//! One clear message, exit code 1, nothing lost.

use crate::{good, refused, root};

#[test]
fn files_that_are_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    refused(at, &["search", "absent", "--id", "x"], &["absent"]);
    refused(at, &["eval", "absent", "--data", "toy", "--benchmark", "cross_modal_retrieval"], &["absent"]);
    refused(
        at,
        &["eval", "absent", "--data", "toy", "--benchmark", "nonsense"],
        &["nonsense", "cross_modal_retrieval"],
    );
    refused(at, &["data", "check", "--data", "absent.jsonl"], &["absent.jsonl"]);
    refused(at, &["data", "check", "--data", "nothing.xyz"], &["KIND:PATH"]);
    refused(at, &["train", "--resume", "absent"], &["absent"]);
    refused(at, &["convert", "absent.pth", "out"], &["absent.pth"]);
}

#[test]
fn a_pickle_that_would_run_code_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    // GLOBAL posix.system, a string, TUPLE1, REDUCE, STOP: what `pickle.dumps` writes for a call of os.system("touch owned").
    std::fs::write(folder.path().join("evil.pth"), b"\x80\x02cposix\nsystem\nX\x0b\x00\x00\x00touch owned\x85R.")
        .unwrap();
    refused(folder.path(), &["convert", "evil.pth", "out"], &["evil.pth"]);
    assert!(!folder.path().join("owned").exists(), "the pickle ran");
    assert!(!folder.path().join("out").exists(), "half a checkpoint was left behind");
}

#[test]
fn damaged_checkpoints_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let config = root().join("configs/toy_clip.toml");
    good(folder.path(), &["train", config.to_str().unwrap(), "--smoke", "--out", "run"]);
    good(folder.path(), &["convert", "run", "whole.safetensors"]);
    let bytes = std::fs::read(folder.path().join("whole.safetensors")).unwrap();
    std::fs::write(folder.path().join("torn.safetensors"), &bytes[..bytes.len() / 2]).unwrap();
    refused(folder.path(), &["convert", "torn.safetensors", "out"], &["torn.safetensors"]);
    std::fs::write(folder.path().join("noise.safetensors"), [7u8; 100]).unwrap();
    refused(folder.path(), &["convert", "noise.safetensors", "out"], &["noise.safetensors"]);
}

#[test]
fn a_broken_data_set_is_counted_by_cause() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("broken.jpg"), b"this is no photo").unwrap();
    let lines = [
        r#"{"id": "no photo", "image": "absent.jpg", "captions": ["a dog"]}"#,
        r#"{"id": "no picture", "image": "broken.jpg", "captions": ["a dog"]}"#,
        r#"{"id": "torn"#,
    ];
    std::fs::write(folder.path().join("data.jsonl"), lines.join("\n")).unwrap();
    refused(
        folder.path(),
        &["data", "check", "--data", "data.jsonl", "--pixels"],
        &["3 of 3 samples are broken", "broken.jpg", "absent.jpg"],
    );
}
