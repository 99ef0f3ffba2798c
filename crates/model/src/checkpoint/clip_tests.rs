//! Tests of CLIP in the layouts of Hugging Face and open_clip. The reference data is in `../shared/goldens/models`
//! (written by transformers 5.23 and open_clip, float32, random weights; see the README there); without it the tests
//! that need it are skipped.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use burn::tensor::{Device, Tensor, TensorData};
use conifer_data::transform::EvalCrop;
use conifer_geometry::ManifoldSpec;
use safetensors::{Dtype, SafeTensors};
use serde_json::{Value, json};

use super::published::{self, ImportOptions, export_folder, import};
use super::*;
use crate::encoders::layers::ActivationFn;
use crate::encoders::{ClipVitConfig, TextTransformerConfig, TextualConfig, Tokens, VisualConfig};
use crate::head::{Head, HeadConfig};
use crate::model::PixelStatistics;
use crate::params::Init;

const GOLDENS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/goldens/models");

pub(super) fn golden(folder: &str) -> Option<PathBuf> {
    let path = PathBuf::from(GOLDENS).join(folder);
    if !path.exists() {
        eprintln!("skipped: ../shared/goldens/models/{folder} not found");
        return None;
    }
    Some(path)
}

pub(super) struct ClipGolden(BTreeMap<String, (Vec<usize>, Vec<f32>)>);

impl ClipGolden {
    pub(super) fn read(folder: &Path) -> Self {
        let bytes = fs::read(folder.join("io.safetensors")).unwrap();
        let file = SafeTensors::deserialize(&bytes).unwrap();
        let tensors = file.tensors().into_iter().map(|(name, view)| {
            let values = match view.dtype() {
                Dtype::I64 => {
                    view.data().chunks_exact(8).map(|b| i64::from_le_bytes(b.try_into().unwrap()) as f32).collect()
                }
                _ => view.data().chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect(),
            };
            (name, (view.shape().to_vec(), values))
        });
        Self(tensors.collect())
    }

    /// The reference pixels are normalised. The model normalises its input, so this returns the pixels before
    /// normalisation.
    pub(super) fn pixels(&self, PixelStatistics { mean, std }: PixelStatistics) -> Tensor<4> {
        let (shape, values) = &self.0["in.pixel_values"];
        let shape: [usize; 4] = shape.as_slice().try_into().unwrap();
        let area = shape[2] * shape[3];
        let channel = |i: usize| i / area % 3;
        let values: Vec<f32> = values.iter().enumerate().map(|(i, x)| x * std[channel(i)] + mean[channel(i)]).collect();
        Tensor::from_data(TensorData::new(values, shape), &Device::flex())
    }

    pub(super) fn rows(&self, name: &str) -> impl Iterator<Item = &[f32]> {
        let (shape, values) = &self.0[name];
        values.chunks(shape[1])
    }

    fn tokens(&self, end_of_text: u32) -> Tokens {
        let end = |row: &[f32]| row.iter().position(|&id| id == end_of_text as f32).unwrap() as i32;
        self.tokens_ending_at(self.rows("in.input_ids").map(end).collect())
    }

    pub(super) fn tokens_ending_at(&self, ends: Vec<i32>) -> Tokens {
        let (shape, values) = &self.0["in.input_ids"];
        let ids: Vec<i32> = values.iter().map(|&id| id as i32).collect();
        Tokens {
            ids: Tensor::from_data(TensorData::new(ids, [shape[0], shape[1]]), &Device::flex()),
            end: Tensor::from_data(TensorData::new(ends, [shape[0]]), &Device::flex()),
        }
    }

    /// `|found - expected| / |expected|` over all elements.
    pub(super) fn error(&self, name: &str, found: Tensor<2>) -> f64 {
        let expected = &self.0[name].1;
        let found: Vec<f32> = found.into_data().iter::<f32>().collect();
        assert_eq!(found.len(), expected.len(), "{name}");
        let square = |x: f32| f64::from(x).powi(2);
        let difference: f64 = found.iter().zip(expected).map(|(a, b)| square(a - b)).sum();
        (difference / expected.iter().map(|&b| square(b)).sum::<f64>()).sqrt()
    }
}

/// Relative errors of the image and the text output.
fn errors(folder: &Path, model: &Model, manifest: &Manifest) -> [(&'static str, f64); 2] {
    let io = ClipGolden::read(folder);
    let (pixels, tokens) = (io.pixels(model.config().pixels), io.tokens(manifest.texts.end_of_text));
    if io.0.contains_key("out.image") {
        // open_clip's reference outputs are not normalised.
        let image = model.encode_images(pixels).unwrap();
        let text = model.encode_texts(tokens).unwrap();
        return [("image", io.error("out.image", image)), ("text", io.error("out.text", text))];
    }
    let (image, text) = (model.embed_images(pixels).unwrap(), model.embed_texts(tokens).unwrap());
    let scale = model.head.space().unwrap().logit_scale;
    let logits = image.clone().matmul(text.clone().transpose()) * scale.reshape([1, 1]);
    let error = io.error("out.logits_per_image", logits);
    assert!(error < 1e-5, "the logits are off by {error:e}");
    [("image", io.error("out.image_embeds_normalized", image)), ("text", io.error("out.text_embeds_normalized", text))]
}

/// Test checkpoints: folder, file in the folder (empty: the folder itself), number of attention heads to pass.
const CLIPS: [(&str, &str, Option<usize>); 4] = [
    ("hf_clip_quick_gelu", "", None),
    ("hf_clip_gelu", "", None),
    ("open_clip_vit", "", None),
    ("open_clip_vit", "epoch_3.pt", None),
];

#[test]
fn published_clip_checkpoints_match_reference_outputs() {
    for (name, file, heads) in CLIPS {
        let Some(folder) = golden(name) else { return };
        let options = ImportOptions { visual_heads: heads, textual_heads: heads, ..ImportOptions::default() };
        let path = if file.is_empty() { folder.clone() } else { folder.join(file) };
        for device in [Device::flex(), Device::flex().autodiff()] {
            let (model, manifest) = import(&path, &options, &device).unwrap();
            for (side, error) in errors(&folder, &model, &manifest) {
                eprintln!("{name}/{file} {side}: relative error {error:.1e}");
                assert!(error < 1e-5, "{name}/{file}: {side} is off by {error:e}");
            }
            let padding = if name.starts_with("hf") { 1 } else { 0 };
            assert_eq!((manifest.texts.end_of_text, manifest.texts.padding), (199, padding), "{name}");
            assert_eq!((manifest.method.as_str(), &manifest.manifold), ("clip", &ManifoldSpec::sphere(32)), "{name}");
        }
    }
}

/// Imports a trainer's checkpoint without its config. Sizes come from the tensors; the numbers of heads must be given.
#[test]
fn a_trainers_checkpoint_needs_no_config() {
    let Some(folder) = golden("open_clip_vit") else { return };
    let alone = tempfile::tempdir().unwrap();
    let path = alone.path().join("epoch_3.pt");
    fs::copy(folder.join("epoch_3.pt"), &path).unwrap();
    let message = import(&path, &ImportOptions::default(), &Device::flex()).unwrap_err().to_string();
    assert!(message.contains("`textual_heads` is not given for width 48"), "{message}");
    let options = ImportOptions { visual_heads: Some(4), textual_heads: Some(4), ..ImportOptions::default() };
    let (model, manifest) = import(&path, &options, &Device::flex()).unwrap();
    let (with, _) = import(&folder, &options, &Device::flex()).unwrap();
    assert_eq!(model.config(), with.config());
    assert_eq!(export(&model), export(&with));
    assert!(errors(&folder, &model, &manifest).iter().all(|(_, error)| *error < 1e-5));
    // Another activation function gives other outputs.
    let quick = ImportOptions { activation: ActivationFn::QuickGelu, ..options };
    let (model, manifest) = import(&path, &quick, &Device::flex()).unwrap();
    assert!(errors(&folder, &model, &manifest).iter().all(|(_, error)| *error > 1e-4));
}

/// A small CLIP whose sizes, activation, pixel statistics, crop and root differ from the defaults.
fn small() -> (Model, Manifest) {
    let config = ModelConfig {
        visual: VisualConfig::ClipVit(ClipVitConfig {
            image_size: 12,
            patch: 4,
            width: 14,
            depth: 2,
            heads: 7,
            mlp_ratio: 23.0 / 14.0,
            activation: ActivationFn::QuickGelu,
        }),
        textual: TextualConfig::TextTransformer(TextTransformerConfig {
            vocabulary: 30,
            context: 6,
            width: 12,
            depth: 3,
            heads: 2,
            mlp_ratio: 3.0,
            activation: ActivationFn::QuickGelu,
        }),
        pixels: PixelStatistics { mean: [0.1, 0.2, 0.3], std: [0.7, 0.8, 0.9] },
        visual_adapter: None,
        textual_adapter: None,
        visual_lora: None,
        textual_lora: None,
    };
    let device = Device::flex();
    let head_config = HeadConfig::default();
    let head = Head::new(&ManifoldSpec::sphere(10), &head_config, &device).unwrap();
    let model = Model::new(&config, head, &mut Init::seeded(1, &device)).unwrap();
    let texts = TextFeed { tokenizer: None, end_of_text: 29, padding: 3 };
    let mut manifest = Manifest::new(&model, &head_config, "radial", texts);
    manifest.images.crop = EvalCrop::Squeeze;
    manifest.root = Some((0..10).map(f64::from).collect());
    (model, manifest)
}

#[test]
fn export_and_import_round_trip() {
    let folder = tempfile::tempdir().unwrap();
    for layout in ["hf-clip", "open-clip"] {
        let path = folder.path().join(layout);
        let (model, manifest) = small();
        export_folder(layout, &model, &manifest, None, &path).unwrap();
        assert!(published::is_published(&path));
        let (again, read) = import(&path, &ImportOptions::default(), &Device::flex()).unwrap();
        assert_eq!(export(&again), export(&model), "{layout}");
        assert_eq!(read, manifest, "{layout}");
        assert_eq!(again.config(), model.config(), "{layout}");
    }
}

/// Import and export in the same layout preserve every tensor bit by bit.
#[test]
fn import_and_export_preserve_published_weights() {
    let folder = tempfile::tempdir().unwrap();
    for (name, layout, file) in [
        ("hf_clip_quick_gelu", "hf-clip", "model.safetensors"),
        ("hf_clip_gelu", "hf-clip", "model.safetensors"),
        ("open_clip_vit", "open-clip", "open_clip_model.safetensors"),
    ] {
        let Some(original) = golden(name) else { return };
        let path = folder.path().join(name);
        let (model, manifest) = import(&original, &ImportOptions::default(), &Device::flex()).unwrap();
        export_folder(layout, &model, &manifest, None, &path).unwrap();
        let tensors = |folder: &Path| weights::load(&folder.join(file)).unwrap();
        assert_eq!(tensors(&path), tensors(&original), "{name}");
    }
}

#[test]
fn unsupported_models_are_not_exported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out");
    let refused = |layout: &str, model: &Model, manifest: &Manifest| {
        let message = export_folder(layout, model, manifest, None, &path).unwrap_err().to_string();
        assert!(!path.exists(), "{message}");
        message
    };
    let device = Device::flex();
    let (model, manifest) = small();
    let changed = |change: &dyn Fn(&mut ModelConfig), space: ManifoldSpec| {
        let mut config = model.config().clone();
        change(&mut config);
        let head = Head::new(&space, &HeadConfig::default(), &device).unwrap();
        Model::new(&config, head, &mut Init::blank(&device)).unwrap()
    };
    let hyperbolic = changed(&|_| {}, ManifoldSpec::lorentz(10, 1.0));
    let vit = changed(&|it| it.visual = VisualConfig::preset("vit_nano").unwrap(), ManifoldSpec::sphere(10));
    let mixed = changed(&|it| it.textual = it.textual.with("activation", "gelu").unwrap(), ManifoldSpec::sphere(10));
    let mut other_end = manifest.clone();
    other_end.texts.end_of_text = 2;
    for (message, expected) in [
        (refused("hf-clip", &hyperbolic, &manifest), "`manifold.kind` is lorentz; expected sphere"),
        (refused("open-clip", &vit, &manifest), "is vit, text_transformer; expected clip_vit and text_transformer"),
        (refused("open-clip", &mixed, &manifest), "is QuickGelu and Gelu; expected the same in both"),
        (refused("open-clip", &model, &other_end), "`texts.end_of_text` is 2; expected 29"),
        (refused("hf-clip", &model, &other_end), "`texts.end_of_text` is 2; expected any other id"),
        (refused("onnx", &model, &manifest), "unknown layout `onnx`; known: hf-clip, open-clip"),
    ] {
        assert!(message.contains(expected), "{expected} in {message}");
    }
}

/// The import error of a small model in `layout` after changes to its config and its tensors.
fn damaged(layout: &str, change: &dyn Fn(&mut Value), weights: &dyn Fn(&mut Weights)) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model");
    let (model, manifest) = small();
    export_folder(layout, &model, &manifest, None, &path).unwrap();
    let [config, file] = match layout {
        "hf-clip" => ["config.json", "model.safetensors"].map(|name| path.join(name)),
        _ => ["open_clip_config.json", "open_clip_model.safetensors"].map(|name| path.join(name)),
    };
    let mut value: Value = serde_json::from_str(&fs::read_to_string(&config).unwrap()).unwrap();
    change(&mut value);
    fs::write(&config, value.to_string()).unwrap();
    let mut tensors = super::weights::load(&file).unwrap();
    weights(&mut tensors);
    super::weights::save(&tensors, &file).unwrap();
    import(&path, &ImportOptions::default(), &Device::flex()).unwrap_err().to_string()
}

#[test]
fn huge_dimensions_are_rejected() {
    for dim in [1_u64 << 31, 1 << 62] {
        let message = damaged("hf-clip", &|it| it["projection_dim"] = dim.into(), &|_| {});
        assert!(message.contains("config.json") && message.contains(&format!("`dim` is {dim}")), "{message}");
        let message = damaged("open-clip", &|it| it["model_cfg"]["embed_dim"] = dim.into(), &|_| {});
        assert!(message.contains("open_clip_config.json") && message.contains(&format!("`dim` is {dim}")), "{message}");
    }
}

#[test]
fn mismatched_tensors_are_listed_by_their_names_in_the_file() {
    let keep = |_: &mut Value| {};
    let message = damaged("hf-clip", &keep, &|tensors| {
        tensors.remove("text_model.final_layer_norm.bias");
        tensors.remove("vision_model.encoder.layers.1.self_attn.k_proj.weight");
        tensors.insert("text_projection.weight".into(), WeightArray::f32([10, 13], vec![0.0; 130]));
        tensors.insert("vision_model.post_layernorm.bias".into(), WeightArray::f32([14], vec![f32::NAN; 14]));
        tensors.insert("visual_projection.bias".into(), WeightArray::f32([10], vec![0.0; 10]));
    });
    for part in [
        "model.safetensors: 5 tensors do not fit",
        "missing `text_model.final_layer_norm.bias` [12]",
        "missing `vision_model.encoder.layers.1.self_attn.k_proj.weight` [14, 14]",
        "`text_projection.weight` is [10, 13], expected [10, 12]",
        "`vision_model.post_layernorm.bias` holds NaN, expected finite numbers",
        "unexpected `visual_projection.bias` [10]",
    ] {
        assert!(message.contains(part), "{part} in {message}");
    }
    let message = damaged("open-clip", &keep, &|tensors| {
        tensors.remove("visual.class_embedding");
        tensors.insert("visual.proj".into(), WeightArray::f32([10, 14], vec![0.0; 140]));
        tensors.insert("logit_bias".into(), WeightArray::f32([], vec![0.0]));
    });
    for part in [
        "open_clip_model.safetensors: 3 tensors do not fit",
        "missing `visual.class_embedding` [14]",
        "`visual.proj` is [10, 14], expected [14, 10]",
        "unexpected `logit_bias` []",
    ] {
        assert!(message.contains(part), "{part} in {message}");
    }
}

#[test]
fn unsupported_config_values_are_reported_with_their_key() {
    let same = |_: &mut Weights| {};
    for (message, expected) in [
        (damaged("hf-clip", &|it| it["model_type"] = json!("align"), &same), "`model_type` is align; expected clip"),
        (
            damaged("hf-clip", &|it| it["text_config"]["hidden_act"] = json!("relu"), &same),
            "config.json: `text_config.hidden_act` is relu; expected gelu, quick_gelu or gelu_pytorch_tanh",
        ),
        (
            damaged("hf-clip", &|it| it["vision_config"]["layer_norm_eps"] = json!(1e-6), &same),
            "`vision_config.layer_norm_eps` is 0.000001; expected 0.00001",
        ),
        (damaged("hf-clip", &|it| it["vision_config"]["hidden_size"] = json!("x"), &same), "invalid type: string"),
        (damaged("hf-clip", &|it| it["vision_config"]["hidden_size"] = json!(0), &same), "`visual.width` is 0"),
        (damaged("hf-clip", &|it| it["vision_config"]["patch_size"] = json!(0), &same), "`visual.patch` is 0"),
        (
            damaged("hf-clip", &|it| it["text_config"]["hidden_size"] = json!(1 << 19), &same),
            "config.json: describes towers of at least",
        ),
        (
            damaged("open-clip", &|it| it["model_cfg"]["vision_cfg"]["layers"] = json!([3, 4, 6, 3]), &same),
            "`model_cfg.vision_cfg.layers` is [3,4,6,3]; expected a whole number",
        ),
        (
            damaged("open-clip", &|it| it["model_cfg"]["text_cfg"]["pool_type"] = json!("last"), &same),
            "open_clip_config.json: `model_cfg.text_cfg.pool_type` is \"last\"; expected argmax",
        ),
        (
            damaged("open-clip", &|it| it["model_cfg"]["vision_cfg"]["timm_model_name"] = json!("convnext"), &same),
            "`model_cfg.vision_cfg.timm_model_name` is \"convnext\"; expected no such key",
        ),
        (
            damaged("open-clip", &|it| it["preprocess_cfg"]["resize_mode"] = json!("longest"), &same),
            "`preprocess_cfg.resize_mode` is longest; expected shortest or squash",
        ),
        (damaged("open-clip", &|it| it["model_cfg"] = json!(3), &same), "`model_cfg` is 3; expected a table"),
        (damaged("open-clip", &|it| *it = json!({}), &same), "`model_cfg.embed_dim` is absent; expected a number"),
    ] {
        assert!(message.contains(expected), "{expected} in {message}");
    }
    // Absent keys take the defaults of open_clip, and keys used only in training are ignored.
    let (model, manifest) = small();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model");
    export_folder("open-clip", &model, &manifest, None, &path).unwrap();
    let config = path.join("open_clip_config.json");
    let mut value: Value = serde_json::from_str(&fs::read_to_string(&config).unwrap()).unwrap();
    value["model_cfg"]["vision_cfg"]["patch_dropout"] = json!(0.5);
    value["model_cfg"]["vision_cfg"]["pool_type"] = json!("tok");
    value["model_cfg"]["text_cfg"]["hf_model_name"] = Value::Null;
    value.as_object_mut().unwrap().remove("preprocess_cfg");
    fs::write(&config, value.to_string()).unwrap();
    let (_, manifest) = import(&path, &ImportOptions::default(), &Device::flex()).unwrap();
    assert_eq!(manifest.model.pixels, super::layout::CLIP_PIXELS);
    fs::remove_file(&config).unwrap();
    fs::remove_file(path.join("open_clip_model.safetensors")).unwrap();
    let message = import(&path, &ImportOptions::default(), &Device::flex()).unwrap_err().to_string();
    assert!(message.contains("holds no weights; expected one of `model.safetensors`"), "{message}");
    assert!(!published::is_published(&path));
}
