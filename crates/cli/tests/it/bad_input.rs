//! Invalid input gives one clear message and exit code 1, and loses no data.

use crate::{conifer, good, refused, root};

#[test]
fn missing_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    refused(at, &["search", "absent", "--id", "x"], &["absent"]);
    refused(at, &["eval", "run", "absent", "--data", "toy", "--benchmark", "cross_modal_retrieval"], &["absent"]);
    refused(
        at,
        &["eval", "run", "absent", "--data", "toy", "--benchmark", "nonsense"],
        &["nonsense", "cross_modal_retrieval"],
    );
    refused(at, &["data", "check", "--data", "absent.jsonl"], &["absent.jsonl"]);
    refused(at, &["data", "check", "--data", "nothing.xyz"], &["KIND:PATH"]);
    refused(at, &["train", "--resume", "absent"], &["absent"]);
    refused(at, &["convert", "absent.pth", "out"], &["absent.pth"]);
}

/// Repeated ids are allowed, but reported, because a search by id finds only the first row.
#[test]
fn repeated_ids_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let row = |id: u32| format!("{{\"id\":\"{id}\",\"captions\":[\"a dog\"]}}\n");
    std::fs::write(folder.path().join("d.jsonl"), [4, 5, 4].map(row).concat()).unwrap();
    let output = conifer(folder.path(), &["--json", "data", "check", "--data", "d.jsonl"]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("\"repeated_ids\":1"), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("repeated ids: 1 (first: `4`)"), "{output:?}");
}

#[test]
fn pickle_that_runs_code_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    // GLOBAL posix.system, a string, TUPLE1, REDUCE, STOP: the pickle of a call of os.system("touch owned").
    std::fs::write(folder.path().join("evil.pth"), b"\x80\x02cposix\nsystem\nX\x0b\x00\x00\x00touch owned\x85R.")
        .unwrap();
    refused(folder.path(), &["convert", "evil.pth", "out"], &["evil.pth"]);
    assert!(!folder.path().join("owned").exists(), "the pickle ran");
    assert!(!folder.path().join("out").exists(), "an incomplete checkpoint was left behind");
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

    // A NaN would win every comparison. The first tensor starts after the 8 bytes of the header length and the header.
    let first = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let nan = [&bytes[..first], &f32::NAN.to_le_bytes(), &bytes[first + 4..]].concat();
    let weights = newest_weights(folder.path());
    let kept = std::fs::read(&weights).unwrap();
    std::fs::write(&weights, &nan).unwrap();
    let eval =
        ["eval", "run", "run", "--data", "toy", "--data-option", "size=4", "--benchmark", "cross_modal_retrieval"];
    refused(folder.path(), &eval, &["weights.safetensors", "NaN", "finite number"]);
    std::fs::write(&weights, kept).unwrap();

    // Dimensions that would need a tebibyte, or more than the address space.
    let manifest = weights.with_file_name("manifest.toml");
    let kept = std::fs::read_to_string(&manifest).unwrap();
    for dim in ["2147483648", "4611686018427387904"] {
        assert!(kept.contains("\ndim = 32\n"), "{kept}");
        std::fs::write(&manifest, kept.replace("\ndim = 32\n", &format!("\ndim = {dim}\n"))).unwrap();
        refused(folder.path(), &eval, &["manifest.toml", "`dim`", dim, "1 to 65536"]);
    }
    std::fs::write(&manifest, kept).unwrap();

    // Existing files are never replaced, and --method must be a known method.
    refused(folder.path(), &["convert", "run", "whole.safetensors"], &["whole.safetensors exists"]);
    refused(folder.path(), &["convert", "whole.safetensors", "run"], &["run exists"]);
    refused(folder.path(), &["convert", "whole.safetensors", "out", "--method", "banana"], &["banana", "phyclip"]);
}

fn newest_weights(at: &std::path::Path) -> std::path::PathBuf {
    let checkpoints = at.join("run/checkpoints");
    let latest = std::fs::read_to_string(checkpoints.join("latest")).unwrap();
    checkpoints.join(latest.trim()).join("weights.safetensors")
}

#[test]
fn existing_files_are_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    std::fs::create_dir_all(at.join("site/checkpoints")).unwrap();
    std::fs::write(at.join("site/config.toml"), "title = 'mine'").unwrap();
    std::fs::write(at.join("site/thesis.md"), "years of work").unwrap();
    refused(at, &["quickstart", "--fresh", "--out", "site"], &["thesis.md"]);
    refused(at, &["quickstart", "--fresh", "--out", "site", "--steps", "0"], &["train.steps"]);

    let config = std::fs::read_to_string(root().join("configs/toy_clip.toml")).unwrap();
    std::fs::create_dir(at.join("experiment")).unwrap();
    std::fs::write(at.join("experiment/config.toml"), &config).unwrap();
    let train = ["train", "experiment/config.toml", "--smoke", "--out", "experiment"];
    refused(at, &train, &["experiment", "another folder"]);
    assert_eq!(std::fs::read_to_string(at.join("experiment/config.toml")).unwrap(), config);

    // No sample can be read: the existing files are kept.
    let line = r#"{"id": "a", "image": "absent.jpg", "captions": ["a dog"]}"#;
    std::fs::write(at.join("broken.jsonl"), line).unwrap();
    std::fs::write(at.join("good.jsonl"), "kept").unwrap();
    refused(at, &["data", "export", "--data", "broken.jsonl", "--to", "pairs", "--out", "shards"], &["absent.jpg"]);
    std::fs::write(at.join("none.jsonl"), r#"{"id": "a", "captions": [""]}"#).unwrap();
    refused(at, &["data", "export", "--data", "none.jsonl", "--out", "good.jsonl"], &["no_caption"]);
    assert_eq!(std::fs::read_to_string(at.join("good.jsonl")).unwrap(), "kept");
}

#[test]
fn a_text_with_a_comma_needs_quotes() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("t.csv"), "image,caption\na.png,\"a dog, on a mat\"\nb.png,a dog, on a mat\n")
        .unwrap();
    let words = ["1 of 2 samples are broken", "row 3", "3 fields; expected 2", "needs quotes"];
    let args = ["data", "check", "--data", "t.csv", "--data-option", "image=image", "--data-option", "caption=caption"];
    refused(folder.path(), &args, &words);
}

/// A closed pipe (`| head`) or a full disk behind stderr does not end the program.
#[test]
fn closed_pipe_is_not_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let conifer = env!("CARGO_BIN_EXE_conifer");
    let config = root().join("configs/toy_clip.toml");
    let config = config.display();
    for command in [
        format!("{conifer} train {config} --smoke --out run 2>/dev/full"),
        format!("set -o pipefail; {conifer} completions bash | head -n 1"),
    ] {
        let status = std::process::Command::new("bash").args(["-c", &command]).current_dir(folder.path()).output();
        let status = status.unwrap().status;
        assert_eq!(status.code(), Some(0), "{command}");
    }
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
