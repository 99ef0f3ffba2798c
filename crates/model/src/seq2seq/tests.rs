//! T5 against tiny models that transformers has written (`fixtures/sequences`, see RECIPE.md there), and its folders.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use burn::tensor::{Gradients, TensorData};
use safetensors::{Dtype, SafeTensors};
use serde_json::{Value, json};

use super::*;
use crate::checkpoint::{Weights, bart_folder, load_weights, module_weights, save_weights, t5_folder};
use crate::params::{ParamInfo, ParamVisitor, visit_params};
use crate::weight_array::WeightArray;

const MODELS: [&str; 2] = ["t5_relu_tied", "t5_gated_untied"];

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/sequences").join(name)
}

/// Inputs, outputs and gradients of transformers.
struct SequenceGolden(BTreeMap<String, (Vec<usize>, Vec<f32>)>);

impl SequenceGolden {
    fn read(folder: &Path) -> Self {
        let bytes = fs::read(folder.join("io.safetensors")).unwrap();
        let file = SafeTensors::deserialize(&bytes).unwrap();
        let tensors = file.tensors().into_iter().map(|(name, view)| {
            let data = view.data();
            let values: Vec<f32> = match view.dtype() {
                Dtype::I64 => data.chunks_exact(8).map(|b| i64::from_le_bytes(b.try_into().unwrap()) as f32).collect(),
                _ => data.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect(),
            };
            (name, (view.shape().to_vec(), values))
        });
        Self(tensors.collect())
    }

    fn rows(&self, name: &str) -> Vec<Vec<i32>> {
        let (shape, values) = &self.0[name];
        values.chunks(shape[1]).map(|row| row.iter().map(|&id| id as i32).collect()).collect()
    }

    /// The sequences `name`. Ids after the length of a row are replaced by 7, which is never read.
    fn tokens(&self, name: &str, lengths: &[usize]) -> Tokens {
        let rows = self.rows(name);
        let length = rows[0].len();
        let row = |(row, &end): (&Vec<i32>, &usize)| {
            (0..length).map(|at| if at < end { row[at] } else { 7 }).collect::<Vec<_>>()
        };
        let ids: Vec<i32> = rows.iter().zip(lengths).flat_map(row).collect();
        let ends: Vec<i32> = lengths.iter().map(|&length| length as i32 - 1).collect();
        Tokens {
            ids: Tensor::from_data(TensorData::new(ids, [rows.len(), length]), &Device::flex()),
            end: Tensor::from_data(TensorData::new(ends, [rows.len()]), &Device::flex()),
        }
    }

    /// Lengths of the inputs; all tokens of a golden without them.
    fn input_lengths(&self) -> Vec<usize> {
        let shape = &self.0["in.input_ids"].0;
        self.0.get("in.lengths").map_or(vec![shape[1]; shape[0]], |it| it.1.iter().map(|&n| n as usize).collect())
    }

    /// Lengths of the labels: ignored ids are negative.
    fn label_lengths(&self) -> Vec<usize> {
        self.rows("in.labels").iter().map(|row| row.iter().filter(|&&id| id >= 0).count()).collect()
    }

    fn inputs(&self) -> Tokens {
        self.tokens("in.input_ids", &self.input_lengths())
    }

    fn labels(&self) -> Tokens {
        self.tokens("in.labels", &self.label_lengths())
    }

    /// `|found - expected| / |expected|`.
    fn error(&self, name: &str, found: &[f32]) -> f64 {
        relative_error(found, &self.0[name].1)
    }
}

fn relative_error(found: &[f32], expected: &[f32]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let square = |x: f32| f64::from(x).powi(2);
    let difference: f64 = found.iter().zip(expected).map(|(a, b)| square(a - b)).sum();
    (difference / expected.iter().map(|&b| square(b)).sum::<f64>()).sqrt()
}

fn floats<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().iter::<f32>().collect()
}

/// Gradients of all parameters in PyTorch's layout, by their names.
struct NamedGradients {
    gradients: Gradients,
    found: BTreeMap<String, Vec<f32>>,
}

impl ParamVisitor for NamedGradients {
    fn visit<const D: usize>(&mut self, param: &ParamInfo<'_>, value: &Tensor<D>) {
        let gradient = value.grad(&self.gradients).expect(param.name);
        let gradient = if param.transposed { gradient.swap_dims(0, 1) } else { gradient };
        self.found.insert(param.name.to_owned(), floats(gradient));
    }
}

/// Logits of the labels, without those after the end of a text.
fn label_logits(golden: &SequenceGolden, logits: &[f32], width: usize) -> Vec<f32> {
    let length = golden.0["in.labels"].0[1];
    let lengths = golden.label_lengths();
    let kept = |row: usize| row % length < lengths[row / length];
    logits.chunks(width).enumerate().filter(|(row, _)| kept(*row)).flat_map(|(_, it)| it.to_vec()).collect()
}

/// Compares logits, loss, gradients and greedy decoding.
fn check(name: &str, folder: &Path) {
    let golden = SequenceGolden::read(folder);
    let model = t5_folder::open_model(folder, &Device::flex().autodiff()).unwrap();
    let width = model.config().vocabulary;
    let kept = |logits: &[f32]| label_logits(&golden, logits, width);
    let logits = floats(model.logits(golden.inputs(), &golden.labels()).unwrap());
    let error = relative_error(&kept(&logits), &kept(&golden.0["out.logits"].1));
    let loss = model.loss(golden.inputs(), golden.labels()).unwrap();
    let off = golden.error("out.loss", &floats(loss.clone()));
    eprintln!("{name}: relative error of logits {error:.1e}, of the loss {off:.1e}");
    assert!(error < 1e-5 && off < 1e-6, "{name}: {error:e}, {off:e}");
    let mut finder = NamedGradients { gradients: loss.backward(), found: BTreeMap::new() };
    visit_params(&model, &mut finder);
    let own = |key: &str| match key {
        "grad.decoder.block.1.layer.1.EncDecAttention.q.weight" => "decoder.block.1.cross.q.weight".to_owned(),
        _ => key["grad.".len()..].to_owned(),
    };
    let keys: Vec<&String> = golden.0.keys().filter(|key| key.starts_with("grad.")).collect();
    assert!(keys.len() >= 2, "{name} has gradients");
    for key in keys {
        let error = golden.error(key, &finder.found[&own(key)]);
        eprintln!("{name}: relative error of {key} {error:.1e}");
        assert!(error < 1e-5, "{name}: {key} is off by {error:e}");
    }
    let plain = t5_folder::open_model(folder, &Device::flex()).unwrap();
    let expected = golden.rows("out.greedy");
    let longest = expected[0].len() - 1;
    let draws: Vec<_> = (0..expected.len()).map(|input| DrawRequest { input, seed: [0; 32] }).collect();
    let greedy = SamplingSettings { temperature: 0.0, longest, stop: Vec::new() };
    let found = plain.generate(golden.inputs(), &draws, &greedy).unwrap();
    for (found, expected) in found.iter().zip(expected) {
        // transformers fills the rest of a row with padding after the end.
        let end = model.config().end as i32;
        let expected: Vec<u32> = expected[1..].iter().take_while(|&&id| id != end).map(|&id| id as u32).collect();
        assert_eq!(found.ids, expected, "{name}");
    }
}

#[test]
fn transformers_models_are_reproduced() {
    for name in MODELS {
        check(name, &fixture(name));
    }
}

/// The golden of a T5 1.1 as transformers 5 saves it: one table, not scaled.
#[test]
fn the_shared_golden_of_t5_is_reproduced() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/goldens/models/hf_t5_gated");
    if !folder.exists() {
        eprintln!("skipped: ../shared/goldens/models/hf_t5_gated not found");
        return;
    }
    check("hf_t5_gated", &folder);
}

#[test]
fn one_token_at_a_time_gives_the_logits_of_all_tokens_at_once() {
    for name in MODELS {
        let folder = fixture(name);
        let golden = SequenceGolden::read(&folder);
        let model = t5_folder::open_model(&folder, &Device::flex()).unwrap();
        let (inputs, labels) = (golden.inputs(), golden.labels());
        let [batch, length] = labels.ids.dims();
        let width = model.config().vocabulary;
        let at_once = floats(model.logits(inputs.clone(), &labels).unwrap());
        let config = model.config.stack(model.config.decoder_depth);
        let mut cache = model.decoder.start(&model.encode(inputs.clone()), &inputs.after_end(), &config);
        let ids: Vec<u32> = labels.ids.clone().into_data().iter::<i64>().map(|id| id as u32).collect();
        for position in 0..length {
            let last: Vec<u32> = match position {
                0 => vec![model.config.start; batch],
                _ => (0..batch).map(|row| ids[row * length + position - 1]).collect(),
            };
            let found = floats(model.output(model.decoder.extend(model.words(&last), &mut cache, &config)));
            let expected = (0..batch).flat_map(|row| at_once[(row * length + position) * width..][..width].to_vec());
            let error = relative_error(&found, &expected.collect::<Vec<_>>());
            assert!(error < 1e-6, "{name}, position {position}: {error:e}");
        }
    }
}

#[test]
fn a_drawn_text_depends_on_its_seed_and_not_on_its_batch() {
    let folder = fixture("t5_gated_untied");
    let golden = SequenceGolden::read(&folder);
    let model = t5_folder::open_model(&folder, &Device::flex()).unwrap();
    let draws: Vec<_> =
        (0..24_u8).map(|number| DrawRequest { input: usize::from(number) % 3, seed: [number / 3; 32] }).collect();
    let settings = SamplingSettings { temperature: 1.5, longest: 20, stop: vec![5, 6] };
    let texts = model.generate(golden.inputs(), &draws, &settings).unwrap();
    assert_eq!(model.generate(golden.inputs(), &draws, &settings).unwrap(), texts);
    for (draw, text) in draws.iter().zip(&texts) {
        let alone = model.generate(golden.inputs(), std::slice::from_ref(draw), &settings).unwrap();
        assert_eq!(&alone[0], text);
        assert!(text.ids.iter().all(|id| ![1, 5, 6].contains(id)));
        assert!(text.ended != (text.ids.len() == 20), "{text:?}");
    }
    let of_first_input: std::collections::BTreeSet<_> = texts.iter().step_by(3).map(|text| &text.ids).collect();
    assert!(of_first_input.len() > 4, "{of_first_input:?}");
}

#[test]
fn impossible_requests_are_refused_by_name() {
    let folder = fixture("t5_relu_tied");
    let golden = SequenceGolden::read(&folder);
    let model = t5_folder::open_model(&folder, &Device::flex()).unwrap();
    let message = |temperature: f64, longest: usize, input: usize| {
        let settings = SamplingSettings { temperature, longest, stop: Vec::new() };
        let draws = [DrawRequest { input, seed: [0; 32] }];
        model.generate(golden.inputs(), &draws, &settings).unwrap_err().to_string()
    };
    for (message, expected) in [
        (message(f64::NAN, 5, 0), "`temperature` is NaN; expected 0 to 1000"),
        (message(-1.0, 5, 0), "`temperature` is -1; expected 0 to 1000"),
        (message(1.0, 0, 0), "`longest` is 0; expected at least 1 token"),
        (message(1.0, 5, 3), "`draws.input` is 3; expected less than 3"),
    ] {
        assert!(message.contains(expected), "{message}");
    }
    let labels = golden.tokens("in.labels", &golden.label_lengths());
    let two = Tokens { ids: labels.ids.clone().narrow(0, 0, 2), end: labels.end.clone().narrow(0, 0, 2) };
    let message = model.loss(golden.inputs(), two).unwrap_err().to_string();
    assert!(message.contains("`inputs` has shape [3, 12]; expected 2 rows"), "{message}");
}

/// A copy of a fixture that a test may change.
struct FolderCopy(tempfile::TempDir);

impl FolderCopy {
    fn new(name: &str) -> Self {
        let copy = Self(tempfile::tempdir().unwrap());
        for file in ["config.json", "model.safetensors", "tokenizer.json"] {
            fs::copy(fixture(name).join(file), copy.0.path().join(file)).unwrap();
        }
        copy
    }

    fn config(&self, change: impl FnOnce(&mut Value)) {
        let path = self.0.path().join("config.json");
        let mut value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        change(&mut value);
        fs::write(path, value.to_string()).unwrap();
    }

    fn tensors(&self, change: impl FnOnce(&mut Weights)) {
        let path = self.0.path().join("model.safetensors");
        let mut tensors = load_weights(&path).unwrap();
        change(&mut tensors);
        save_weights(&tensors, &path).unwrap();
    }

    fn open(&self) -> Result<T5Model> {
        t5_folder::open(self.0.path(), &Device::flex()).map(|it| it.model)
    }

    fn refused(&self) -> String {
        self.open().unwrap_err().to_string()
    }
}

#[test]
fn a_saved_folder_has_the_same_tensors_and_names() {
    for name in MODELS {
        let opened = t5_folder::open(&fixture(name), &Device::flex()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("saved");
        t5_folder::save(&path, &opened.model, &opened.tokenizer).unwrap();
        let file = |folder: &Path| load_weights(&folder.join("model.safetensors")).unwrap();
        assert_eq!(file(&path), file(&fixture(name)), "{name}");
        let again = t5_folder::open(&path, &Device::flex()).unwrap();
        assert_eq!(again.model.config(), opened.model.config());
        assert_eq!(module_weights(&again.model), module_weights(&opened.model));
        assert_eq!(again.tokenizer.to_json().unwrap(), opened.tokenizer.to_json().unwrap());
        // A T5 is replaced, other folders are not.
        t5_folder::save(&path, &opened.model, &opened.tokenizer).unwrap();
        fs::remove_file(path.join("config.json")).unwrap();
        let error = t5_folder::save(&path, &opened.model, &opened.tokenizer).unwrap_err().to_string();
        assert!(error.contains("expected an unused name, an empty folder or a T5 to replace"), "{error}");
    }
}

/// The first files of T5 hold a table of relative positions for the attention to the input, which no version uses.
#[test]
fn the_unused_table_of_the_first_files_is_ignored() {
    let copy = FolderCopy::new("t5_relu_tied");
    copy.tensors(|it| {
        let name = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight";
        it.insert(name.into(), WeightArray::f32([8, 3], vec![1.0; 24]));
    });
    let plain = t5_folder::open_model(&fixture("t5_relu_tied"), &Device::flex()).unwrap();
    assert_eq!(module_weights(&copy.open().unwrap()), module_weights(&plain));
}

/// transformers 5 writes `tie_word_embeddings = true` for every T5.
#[test]
fn output_maps_are_read_as_transformers_4_and_5_write_them() {
    let tied = |name: &str, change: fn(&mut Value)| {
        let copy = FolderCopy::new(name);
        copy.config(change);
        let config = copy.open().unwrap().config().clone();
        (config.tied, config.scaled)
    };
    let five = |it: &mut Value| {
        it["tie_word_embeddings"] = json!(true);
        it["scale_decoder_outputs"] = json!(false);
    };
    assert_eq!(tied("t5_relu_tied", |_| ()), (true, true));
    assert_eq!(tied("t5_relu_tied", five), (true, false));
    assert_eq!(tied("t5_gated_untied", |_| ()), (false, false));
    assert_eq!(tied("t5_gated_untied", five), (false, false));
    // transformers 4 ties the map, whatever the file holds.
    assert_eq!(tied("t5_gated_untied", |it| it["tie_word_embeddings"] = json!(true)), (true, true));
}

#[test]
fn damaged_folders_are_refused_with_the_reason() {
    let json = |key: &'static str, value: Value| {
        let copy = FolderCopy::new("t5_gated_untied");
        copy.config(|it| it[key] = value);
        copy.refused()
    };
    let without = |file: &str| {
        let copy = FolderCopy::new("t5_gated_untied");
        fs::remove_file(copy.0.path().join(file)).unwrap();
        copy.refused()
    };
    let tensors = |change: &dyn Fn(&mut Weights)| {
        let copy = FolderCopy::new("t5_gated_untied");
        copy.tensors(change);
        copy.refused()
    };
    let name = "decoder.block.1.layer.1.EncDecAttention.k.weight";
    let no_end = || {
        let copy = FolderCopy::new("t5_gated_untied");
        let path = copy.0.path().join("tokenizer.json");
        let mut value: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        value["post_processor"] = Value::Null;
        fs::write(path, value.to_string()).unwrap();
        copy.refused()
    };
    for (message, expected) in [
        (without("config.json"), "holds no config.json; expected a folder with config.json, model.safetensors"),
        (without("model.safetensors"), "holds no weights; expected model.safetensors or pytorch_model.bin"),
        (without("tokenizer.json"), "holds no tokenizer.json; expected the tokenizer of its model"),
        (no_end(), "adds 0 tokens before and 0 after a text; expected a tokenizer that ends each text with one token"),
        (json("model_type", json!("bart")), "config.json: `model_type` is bart; expected t5"),
        (
            json("feed_forward_proj", json!("gated-silu")),
            "`feed_forward_proj` is gated-silu; expected relu or gated-gelu",
        ),
        (json("num_heads", json!(0)), "config.json: `textual.heads` is 0; expected 1 to"),
        (json("num_decoder_layers", json!(0)), "config.json: `textual.decoder_depth` is 0; expected 1 to"),
        (json("decoder_start_token_id", json!(33)), "`textual.start` is 33; expected less than 33"),
        (json("eos_token_id", json!(2)), "tokenizer.json: ends texts with id 1; expected 2, the end id of config.json"),
        (json("d_model", json!("wide")), "config.json: invalid type: string \"wide\""),
        (json("d_model", json!(1 << 19)), "`model` is an architecture of at least"),
        (json("num_decoder_layers", json!(3)), "missing `decoder.block.2.layer.0.layer_norm.weight` [16]"),
        (
            json("d_ff", json!(25)),
            "`encoder.block.0.layer.1.DenseReluDense.wi_0.weight` is [24, 16], expected [25, 16]",
        ),
        (
            tensors(&|it| {
                it.remove(name);
            }),
            "missing `decoder.block.1.layer.1.EncDecAttention.k.weight` [15, 16]",
        ),
        (
            tensors(&|it| {
                it.insert(name.into(), WeightArray::f32([15, 16], vec![f32::NAN; 240]));
            }),
            "EncDecAttention.k.weight` holds NaN, expected finite numbers",
        ),
        (
            tensors(&|it| {
                it.insert("other.weight".into(), WeightArray::f32([1], vec![0.0]));
            }),
            "unexpected `other.weight` [1]",
        ),
        (
            tensors(&|it| {
                it.remove("lm_head.weight");
            }),
            "missing `lm_head.weight` [33, 16]",
        ),
    ] {
        assert!(message.contains(expected), "{expected} in {message}");
    }
}

/// Logits of pairs of texts against transformers.
fn check_pairs(name: &str, folder: &Path) {
    let golden = SequenceGolden::read(folder);
    let lengths = match golden.0.get("in.attention_mask") {
        Some(_) => golden.rows("in.attention_mask").iter().map(|row| row.iter().sum::<i32>() as usize).collect(),
        None => golden.input_lengths(),
    };
    let opened = bart_folder::open(folder, &Device::flex()).unwrap();
    assert_eq!(opened.labels, ["contradiction", "neutral", "entailment"]);
    let logits = floats(opened.model.logits(golden.tokens("in.input_ids", &lengths)).unwrap());
    let error = golden.error("out.logits", &logits);
    eprintln!("{name}: relative error of logits {error:.1e}");
    assert!(error < 1e-5, "{name}: {error:e}");
}

#[test]
fn pairs_are_classified_as_by_transformers() {
    check_pairs("bart_mnli", &fixture("bart_mnli"));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/goldens/models/hf_bart_mnli");
    match folder.exists() {
        true => check_pairs("hf_bart_mnli", &folder),
        false => eprintln!("skipped: ../shared/goldens/models/hf_bart_mnli not found"),
    }
}

#[test]
fn damaged_classifiers_are_refused_with_the_reason() {
    let open = |change: &dyn Fn(&Path)| {
        let folder = tempfile::tempdir().unwrap();
        for file in ["config.json", "model.safetensors"] {
            fs::copy(fixture("bart_mnli").join(file), folder.path().join(file)).unwrap();
        }
        change(folder.path());
        bart_folder::open(folder.path(), &Device::flex())
    };
    let json = |key: &'static str, value: Value| {
        let change = |folder: &Path| {
            let path = folder.join("config.json");
            let mut config: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
            config[key] = value.clone();
            fs::write(path, config.to_string()).unwrap();
        };
        open(&change).map(|_| ()).unwrap_err().to_string()
    };
    let without =
        |file: &'static str| open(&|folder| fs::remove_file(folder.join(file)).unwrap()).unwrap_err().to_string();
    for (message, expected) in [
        (without("config.json"), "holds no config.json; expected a folder"),
        (without("model.safetensors"), "holds no weights; expected model.safetensors"),
        (json("model_type", json!("t5")), "config.json: `model_type` is t5; expected bart"),
        (json("activation_function", json!("relu")), "`activation_function` is relu; expected gelu"),
        (json("decoder_start_token_id", json!(40)), "`bart.start` is 40; expected less than 40"),
        (json("id2label", json!({"1": "a"})), "`id2label` is {1}; expected the names of the classes 0, 1, ..."),
        (json("encoder_attention_heads", json!(3)), "`bart.heads` is 3; expected a divisor of 16"),
        (json("decoder_layers", json!(2)), "missing `model.decoder.layers.1.self_attn.q_proj.weight` [16, 16]"),
        (
            json("max_position_embeddings", json!(30)),
            "`model.encoder.embed_positions.weight` is [22, 16], expected [32, 16]",
        ),
    ] {
        assert!(message.contains(expected), "{expected} in {message}");
    }
    let opened = open(&|_| ()).unwrap();
    assert_eq!(opened.class("entailment").unwrap(), 2);
    let message = opened.class("neither").unwrap_err().to_string();
    assert!(
        message.contains("has the classes contradiction, neutral, entailment (id2label); expected one named neither")
    );
    let message = opened.tokenizer().unwrap_err().to_string();
    assert!(message.contains("holds no tokenizer.json"), "{message}");
}

#[test]
fn a_published_architecture_has_the_published_number_of_parameters() {
    // google/flan-t5-small with decoder and output map.
    let config = T5ModelConfig {
        vocabulary: 32_128,
        context: 512,
        width: 512,
        depth: 8,
        decoder_depth: 8,
        heads: 6,
        head_width: 64,
        hidden: 1024,
        feed_forward: T5Activation::GatedGelu,
        buckets: 32,
        max_distance: 128,
        epsilon: 1e-6,
        tied: false,
        scaled: false,
        start: 0,
        end: 1,
    };
    let model = T5Model::new(&config, &mut Init::blank(&Device::flex())).unwrap();
    assert_eq!(model.num_params(), 76_961_152);
}
