//! Text encoders with their tokenizers against tiny models of their libraries (`fixtures/towers/make_texts.py`), and
//! bad folders.
#![allow(clippy::unwrap_used)]

use std::fs;

use burn::tensor::Device;
use serde_json::{Value, json};

use super::super::weights;
use super::tests::{TowerGolden, folder};
use super::*;
use crate::weight_array::{WeightArray, Weights};

/// Folder, width of the features, longest text.
const TEXT_TOWERS: [(&str, usize, usize); 5] = [
    ("sentence_mpnet", 24, 24),
    ("sentence_xlm_roberta", 10, 24),
    ("sentence_t5", 10, 24),
    ("t5_gated", 24, 24),
    ("hf_siglip2", 20, 24),
];

#[test]
fn text_towers_reproduce_tokens_features_and_gradients() {
    for (name, width, context) in TEXT_TOWERS {
        let path = folder(name);
        let golden = TowerGolden::read(&path.join("io.safetensors"));
        let texts: Vec<String> = serde_json::from_str(&fs::read_to_string(path.join("texts.json")).unwrap()).unwrap();
        let tower = open_text(&path, &Device::flex()).unwrap();
        assert_eq!((tower.encoder.width(), tower.config.reads().context), (width, context), "{name}");
        let batch = tower.tokenizer.encode_batch(&texts, context).unwrap();
        let rows = batch.ids.chunks(batch.len).zip(&batch.end).map(|(row, &end)| row[..=end as usize].to_vec());
        assert_eq!(rows.collect::<Vec<_>>(), golden.token_rows(), "{name}: tokens");
        let read = |device: &Device| open_text(&path, device).unwrap().encoder;
        let forward =
            |encoder: &TextualEncoder| encoder.forward(crate::model::tokens(&batch, &Device::flex())).unwrap();
        golden.check(name, read, forward);
        // The config is complete: a checkpoint of conifer stores it as a table.
        let table = toml::Table::try_from(&tower.config).unwrap();
        assert_eq!(TextualConfig::try_from(table).unwrap(), tower.config, "{name}");
    }
}

/// The config of SigLIP 2 names another padding id than its tokenizer writes.
#[test]
fn the_padding_of_siglip2_comes_from_its_tokenizer() {
    let tower = open_text(&folder("hf_siglip2"), &Device::flex()).unwrap();
    let TextualConfig::SiglipText(config) = tower.config else { panic!("another encoder") };
    assert_eq!(config.padding, 0);
}

/// The token limit in a folder's files becomes the context length; the encoder of T5 itself has no limit.
#[test]
fn the_folder_limits_the_length_of_texts() {
    let copy = TowerCopy::new("t5_gated");
    copy.json("tokenizer_config.json", |it| it["model_max_length"] = json!(7));
    assert_eq!(open_text(copy.path(), &Device::flex()).unwrap().config.reads().context, 7);
    copy.json("tokenizer_config.json", |it| it["model_max_length"] = json!(1e30));
    assert_eq!(open_text(copy.path(), &Device::flex()).unwrap().config.reads().context, 24);
}

/// Files of `transformers` hold the word embeddings of T5 under the name of the table that encoder and decoder share,
/// under its name in the encoder, or under both.
#[test]
fn either_name_of_the_words_of_t5_is_read() {
    let expected = open_text(&folder("t5_gated"), &Device::flex()).unwrap();
    for both in [true, false] {
        let copy = TowerCopy::new("t5_gated");
        copy.tensors(|it| {
            let words = if both { it[SHARED].clone() } else { it.remove(SHARED).unwrap() };
            it.insert("encoder.embed_tokens.weight".into(), words);
        });
        let tower = open_text(copy.path(), &Device::flex()).unwrap();
        let weights = |tower: &TextTower| crate::checkpoint::module_weights(&tower.encoder);
        assert_eq!(weights(&tower), weights(&expected));
    }
}

const SHARED: &str = "shared.weight";
const BIAS: &str = "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight";

#[test]
fn unsupported_text_towers_are_refused_with_the_reason() {
    let json = |name: &str, key: &'static str, value: Value| {
        let copy = TowerCopy::new(name);
        copy.json("config.json", |it| it[key] = value);
        copy.refused()
    };
    let dense = |key: &'static str, value: Value| {
        let copy = TowerCopy::new("sentence_t5");
        copy.json("2_Dense/config.json", |it| it[key] = value);
        copy.refused()
    };
    let without = |name: &str, file: &str| {
        let copy = TowerCopy::new(name);
        fs::remove_file(copy.path().join(file)).unwrap();
        copy.refused()
    };
    let tensors = |name: &str, change: &dyn Fn(&mut Weights)| {
        let copy = TowerCopy::new(name);
        copy.tensors(change);
        copy.refused()
    };
    let ones = |shape: [usize; 2]| WeightArray::f32(shape, vec![1.0; shape[0] * shape[1]]);
    for (message, expected) in [
        (json("sentence_t5", "model_type", json!("umt5")), "config.json: `model_type` is umt5; expected t5"),
        (
            json("sentence_t5", "feed_forward_proj", json!("gated-silu")),
            "`feed_forward_proj` is gated-silu; expected relu or gated-gelu",
        ),
        (
            json("sentence_t5", "relative_attention_max_distance", json!(2)),
            "config.json: `textual.max_distance` is 2; expected more than 2",
        ),
        (json("sentence_t5", "eos_token_id", json!(5)), "ends texts with id 5; expected 1, as its tokenizer.json"),
        // The file has one feed-forward map, but the changed config requires two.
        (
            json("sentence_t5", "feed_forward_proj", json!("gated-gelu")),
            "missing `encoder.block.0.layer.1.DenseReluDense.wi_0.weight` [40, 24]",
        ),
        (dense("out_features", json!(1_u64 << 60)), "`linear.weight` is [10, 24]; expected [1152921504606846976, 24]"),
        (dense("in_features", json!(23)), "`in_features` is 23, `out_features` 10; expected 24 inputs"),
        (
            dense("activation_function", json!("torch.nn.modules.activation.ReLU")),
            "`activation_function` is ReLU; expected Tanh or Identity",
        ),
        (json("sentence_mpnet", "hidden_act", json!("relu")), "`hidden_act` is relu; expected gelu"),
        (
            json("sentence_mpnet", "relative_attention_num_buckets", json!(64)),
            "`relative_attention_num_buckets` is 64; expected 32",
        ),
        (
            json("sentence_xlm_roberta", "position_embedding_type", json!("relative_key")),
            "`position_embedding_type` is relative_key; expected absolute",
        ),
        (json("sentence_xlm_roberta", "type_vocab_size", json!(0)), "`type_vocab_size` is 0; expected at least 1"),
        (
            json("sentence_xlm_roberta", "max_position_embeddings", json!(2)),
            "`max_position_embeddings` is 2; expected more than pad_token_id + 1",
        ),
        (without("sentence_t5", "tokenizer.json"), "no tokenizer.json in"),
        (without("sentence_t5", "config.json"), "config.json: No such file"),
        (without("sentence_t5", "2_Dense/model.safetensors"), "holds 0 weights files"),
        (
            tensors("sentence_t5", &|it| {
                it.remove("encoder.block.1.layer.0.SelfAttention.k.weight");
            }),
            "missing `encoder.block.1.layer.0.SelfAttention.k.weight` [15, 24]",
        ),
        (
            tensors("sentence_t5", &|it| {
                it.insert("encoder.block.1.layer.0.SelfAttention.k.weight".into(), ones([15, 20]));
            }),
            "`encoder.block.1.layer.0.SelfAttention.k.weight` is [15, 20], expected [15, 24]",
        ),
        (
            tensors("sentence_t5", &|it| {
                it.remove(BIAS);
            }),
            "holds no tensor `encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight`",
        ),
        (
            tensors("sentence_t5", &|it| {
                it.insert(BIAS.into(), ones([8, 4]));
            }),
            "has queries of width 15 and 4 heads",
        ),
        (
            tensors("sentence_t5", &|it| {
                it.insert(SHARED.into(), ones([20, 24]));
            }),
            "has a vocabulary of 20; expected at least 30, the ids of its tokenizer.json",
        ),
        (
            tensors("sentence_mpnet", &|it| {
                it.remove("encoder.relative_attention_bias.weight");
            }),
            "missing `encoder.relative_attention_bias.weight` [32, 3]",
        ),
        (
            tensors("sentence_mpnet", &|it| {
                it.insert("encoder.layer.0.attention.attn.q.weight".into(), ones([24, 8]));
            }),
            "`encoder.layer.0.attention.attn.q.weight` is [24, 8], expected [24, 24]",
        ),
    ] {
        assert!(message.contains(expected), "{expected} in {message}");
    }
}

/// A copy of a fixture that a test may damage.
struct TowerCopy(tempfile::TempDir);

impl TowerCopy {
    fn new(name: &str) -> Self {
        let copy = Self(tempfile::tempdir().unwrap());
        let mut folders = vec![(folder(name), copy.path().to_owned())];
        while let Some((from, to)) = folders.pop() {
            for entry in fs::read_dir(from).unwrap() {
                let (from, to) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
                match from.is_dir() {
                    true => {
                        fs::create_dir(&to).unwrap();
                        folders.push((from, to));
                    }
                    false => {
                        fs::copy(from, to).unwrap();
                    }
                }
            }
        }
        // The library does not write this file. Without it, the folder has one safetensors file, the weights.
        fs::remove_file(copy.path().join("io.safetensors")).unwrap();
        copy
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn json(&self, file: &str, change: impl FnOnce(&mut Value)) {
        let path = self.path().join(file);
        let mut value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        change(&mut value);
        fs::write(path, value.to_string()).unwrap();
    }

    fn tensors(&self, change: impl FnOnce(&mut Weights)) {
        let path = self.path().join("model.safetensors");
        let mut tensors = weights::load(&path).unwrap();
        change(&mut tensors);
        weights::save(&tensors, &path).unwrap();
    }

    fn refused(&self) -> String {
        open_text(self.path(), &Device::flex()).unwrap_err().to_string()
    }
}
