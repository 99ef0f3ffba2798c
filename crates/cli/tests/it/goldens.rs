//! Converts and embeds tiny checkpoints of the published systems, and converts them back
//! (`../shared/goldens/checkpoints`: PyTorch 2.15, float32, CPU, random weights). Skipped if that folder does not
//! exist.

use std::path::PathBuf;

use conifer_data::{Picture, encode_png};
use conifer_embeddings::{EmbeddingSet, Modality};
use safetensors::SafeTensors;
use serde_json::json;

use crate::{good, refused, root};

const MODELS: [&str; 4] = ["clip", "meru", "hycoclip", "phyclip"];

fn golden(file: &str) -> Option<PathBuf> {
    let path = root().join("../shared/goldens/checkpoints").join(file);
    if !path.exists() {
        eprintln!("skipped: ../shared/goldens/checkpoints/{file} not found");
        return None;
    }
    Some(path)
}

#[test]
fn released_checkpoints_embed_and_round_trip() {
    for model in MODELS {
        let (Some(pth), Some(io)) =
            (golden(&format!("{model}_nano.pth")), golden(&format!("{model}_nano.io.safetensors")))
        else {
            return;
        };
        let io = std::fs::read(io).unwrap();
        let io = SafeTensors::deserialize(&io).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path();
        write_words(here);
        let samples = write_samples(here, &io);

        let heads = ["--method", model, "--image-heads", "4", "--text-heads", "4"];
        let pth = pth.to_str().unwrap();
        good(here, &[&["convert", pth, "native", "--tokenizer", "words.json"], &heads[..]].concat());
        good(here, &["embed", "native", "--data", "samples.jsonl", "--views", "image,text", "--out", "set"]);
        let set = EmbeddingSet::load(&here.join("set")).unwrap();
        // The token ids are identical, so texts must agree up to rounding. The golden pixels are floats, but photos are
        // stored as 8-bit values, which changes a pixel by at most 1/510. The tests of `conifer-model` check exact
        // pixels.
        for (modality, view, tolerance) in [(Modality::Text, "text", 1e-5), (Modality::Image, "image", 5e-3)] {
            let found: Vec<f32> = (0..set.len())
                .filter(|&row| set.modality[row] == modality)
                .flat_map(|row| set.row(row).to_vec())
                .collect();
            let expected = floats(&io, &format!("out.{view}.embedding"));
            assert_eq!(found.len(), expected.len(), "{model} {view}, {samples} samples");
            let square = |values: &mut dyn Iterator<Item = f32>| values.map(|v| f64::from(v).powi(2)).sum::<f64>();
            let off = square(&mut found.iter().zip(&expected).map(|(f, e)| f - e));
            let error = (off / square(&mut expected.iter().copied())).sqrt();
            eprintln!("{model} {view}: relative error {error:.1e}");
            assert!(error < tolerance, "{model} {view}: off by {error:e}");
        }

        good(here, &["convert", "native", "once.safetensors"]);
        good(here, &[&["convert", "once.safetensors", "again"], &heads[..]].concat());
        good(here, &["convert", "again", "twice.safetensors"]);
        let bytes = |name: &str| std::fs::read(here.join(name)).unwrap();
        assert!(bytes("once.safetensors") == bytes("twice.safetensors"), "{model}");
    }
}

/// Converts CLIPs of Hugging Face and open_clip (`../shared/goldens/models`) to a checkpoint folder, to the other
/// library's layout and back. The tests of `conifer-model` (`checkpoint/clip_tests.rs`) check the embeddings; this test
/// checks that no tensor changes.
#[test]
fn clip_models_of_other_libraries_round_trip() {
    for (model, layout, other, file) in [
        ("hf_clip_quick_gelu", "hf-clip", "open-clip", "model.safetensors"),
        ("hf_clip_gelu", "hf-clip", "open-clip", "model.safetensors"),
        ("open_clip_vit", "open-clip", "hf-clip", "open_clip_model.safetensors"),
    ] {
        let path = root().join("../shared/goldens/models").join(model);
        if !path.exists() {
            eprintln!("skipped: ../shared/goldens/models/{model} not found");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path();
        good(here, &["convert", path.to_str().unwrap(), "native"]);
        good(here, &["convert", "native", "other", "--to", other]);
        good(here, &["convert", "other", "again"]);
        good(here, &["convert", "again", "back", "--to", layout]);
        // Also directly from one layout to the other.
        good(here, &["convert", "other", "direct", "--to", layout]);
        for back in ["back", "direct"] {
            let [original, found] = [path.join(file), here.join(back).join(file)].map(|it| std::fs::read(it).unwrap());
            let [original, found] = [&original, &found].map(|it| SafeTensors::deserialize(it).unwrap());
            assert_eq!(found.len(), original.len(), "{model}");
            for (name, tensor) in original.tensors() {
                let found = found.tensor(&name).unwrap();
                assert!(found.shape() == tensor.shape() && found.data() == tensor.data(), "{model}, {back}: {name}");
            }
        }
        refused(here, &["convert", "native", "x", "--to", "onnx"], &["unknown layout `onnx`", "hf-clip, open-clip"]);
        refused(here, &["convert", "native", "x"], &["a model folder with --to"]);
    }
}

/// Writes a `tokenizer.json` in which the word `w17` is token 17, with the goldens' start (598) and end (599) tokens.
fn write_words(here: &std::path::Path) {
    let vocabulary: serde_json::Map<_, _> = (0..598).map(|id| (format!("w{id}"), json!(id))).collect();
    let special = |id: u32, content: &str| json!({ "id": id, "content": content, "special": true, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false });
    let marks = [("<start>", 598), ("<end>", 599)];
    let around = json!({
        "type": "TemplateProcessing",
        "single": [{ "SpecialToken": { "id": "<start>", "type_id": 0 } }, { "Sequence": { "id": "A", "type_id": 0 } }, { "SpecialToken": { "id": "<end>", "type_id": 0 } }],
        "pair": [{ "Sequence": { "id": "A", "type_id": 0 } }, { "Sequence": { "id": "B", "type_id": 1 } }],
        "special_tokens": marks.iter().map(|(name, id)| ((*name).to_owned(), json!({ "id": name, "ids": [id], "tokens": [name] }))).collect::<serde_json::Map<_, _>>(),
    });
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "normalizer": null, "decoder": null,
        "added_tokens": marks.map(|(name, id)| special(id, name)),
        "pre_tokenizer": { "type": "WhitespaceSplit" },
        "post_processor": around,
        "model": { "type": "WordLevel", "vocab": vocabulary, "unk_token": "w0" },
    });
    std::fs::write(here.join("words.json"), tokenizer.to_string()).unwrap();
}

/// Writes the golden pixels as PNG files and the golden tokens as words. Returns the number of samples.
fn write_samples(here: &std::path::Path, io: &SafeTensors<'_>) -> usize {
    let tokens = io.tensor("in.tokens").unwrap();
    let context = tokens.shape()[1];
    let ids: Vec<i64> = tokens.data().chunks(8).map(|it| i64::from_le_bytes(it.try_into().unwrap())).collect();
    let pixels = floats(io, "in.pixels");
    let side = io.tensor("in.pixels").unwrap().shape()[2];
    let mut lines = String::new();
    for (i, (row, image)) in ids.chunks(context).zip(pixels.chunks(3 * side * side)).enumerate() {
        let words = row[1..].iter().take_while(|&&id| id != 599).map(|id| format!("w{id}"));
        let caption = words.collect::<Vec<_>>().join(" ");
        let rgb = (0..side * side).flat_map(|at| [0, 1, 2].map(|channel| image[channel * side * side + at]));
        let rgb = rgb.map(|value| (value * 255.0).round() as u8).collect();
        let picture = Picture { width: side as u32, height: side as u32, rgb };
        std::fs::write(here.join(format!("{i}.png")), encode_png(&picture).unwrap()).unwrap();
        lines += &format!("{}\n", json!({ "id": i.to_string(), "image": format!("{i}.png"), "captions": [caption] }));
    }
    std::fs::write(here.join("samples.jsonl"), lines).unwrap();
    ids.len() / context
}

fn floats(io: &SafeTensors<'_>, name: &str) -> Vec<f32> {
    let data = io.tensor(name).unwrap();
    data.data().chunks(4).map(|it| f32::from_le_bytes(it.try_into().unwrap())).collect()
}
