#![allow(clippy::unwrap_used)]
//! Tests with tiny models that the original libraries wrote (`fixtures/towers/RECIPE.md`).

use std::path::PathBuf;

use burn::tensor::{Gradients, Tensor, TensorData};
use conifer_geometry::{ManifoldSpec, Root};

use super::super::{save, weights};
use super::*;
use crate::embed::Embedder;
use crate::encoders::Tokens;
use crate::params::{ParamInfo, ParamVisitor, visit_params};
use crate::weight_array::Weights;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/towers").join(name)
}

/// The weights file. The folder also contains `io.safetensors`, with the inputs and outputs.
fn weights(name: &str) -> PathBuf {
    let file = fixture(name).join("model.safetensors");
    if file.is_file() { file } else { fixture(name).join("model.pth") }
}

fn io(name: &str) -> Weights {
    weights::load(&fixture(name).join("io.safetensors")).unwrap()
}

fn rows<const D: usize>(io: &Weights, name: &str, device: &Device) -> Tensor<D> {
    let array = &io[name];
    Tensor::from_data(TensorData::new(array.floats().unwrap().to_vec(), array.shape.clone()), device)
}

/// `|found - expected| / |expected|`.
fn error<const D: usize>(io: &Weights, name: &str, found: Tensor<D>) -> f64 {
    let expected = io[name].floats().unwrap();
    let found: Vec<f32> = found.into_data().iter::<f32>().collect();
    assert_eq!(found.len(), expected.len(), "{name}");
    let square = |x: f32| f64::from(x).powi(2);
    let difference: f64 = found.iter().zip(expected).map(|(a, b)| square(a - b)).sum();
    (difference / expected.iter().map(|&b| square(b)).sum::<f64>()).sqrt()
}

/// The image size of the miniatures is not that of a published network, so it is set here.
fn lite(name: &str, device: &Device) -> (crate::encoders::EfficientNet, crate::encoders::EfficientNetConfig) {
    let tower = open_image(&weights(name), 0, device).unwrap();
    let VisualConfig::EfficientNet(config) = tower.config else { panic!("an EfficientNet") };
    let VisualEncoder::EfficientNet(encoder) = tower.encoder else { panic!("an EfficientNet") };
    let config = crate::encoders::EfficientNetConfig { image_size: 72, ..config };
    (encoder.with_image_size(72).unwrap(), config)
}

#[test]
fn efficientnet_lite_matches_both_libraries() {
    use crate::encoders::Encoder as _;
    for name in ["efficientnet_lite", "timm_efficientnet_lite"] {
        let io = io(name);
        for device in [Device::flex(), Device::flex().autodiff()] {
            let (encoder, config) = lite(name, &device);
            assert_eq!((config.last, config.repeats), (48, [1, 1, 1, 1, 1, 2, 1]), "{name}");
            let features = encoder.forward(rows(&io, "in.pixel_values", &device)).unwrap();
            let relative = error(&io, "out.features", features.clone());
            eprintln!("{name}: relative error {relative:.1e}");
            assert!(relative < 1e-5, "{name} is off by {relative:e}");
            if device == Device::flex() {
                continue;
            }
            let gradients = features.powi_scalar(2).sum().backward();
            let stem = encoder.stem_kernels().grad(&gradients).unwrap();
            let relative = error(&io, "grad", stem);
            assert!(relative < 1e-4, "the gradient of {name} is off by {relative:e}");
        }
    }
}

#[test]
fn sentence_encoders_match_sentence_transformers() {
    for (name, width) in [("sentence_mean", 24), ("sentence_cls_dense", 10), ("sentence_roberta_max", 24)] {
        let io = io(name);
        let texts: Vec<String> =
            serde_json::from_str(&fs::read_to_string(fixture(name).join("texts.json")).unwrap()).unwrap();
        for device in [Device::flex(), Device::flex().autodiff()] {
            let tower = open_text(&fixture(name), &device).unwrap();
            assert_eq!((tower.encoder.width(), tower.config.reads().context), (width, 16), "{name}");
            let batch = tower.tokenizer.encode_batch(&texts, 16).unwrap();
            let expected: Vec<u32> = io["in.input_ids"].floats().unwrap().iter().map(|&id| id as u32).collect();
            assert_eq!(batch.ids, expected, "{name}: tokens");
            let tokens: Tokens = crate::model::tokens(&batch, &device);
            let features = tower.encoder.forward(tokens).unwrap();
            let relative = error(&io, "out.features", features.clone());
            eprintln!("{name}: relative error {relative:.1e}");
            assert!(relative < 1e-5, "{name} is off by {relative:e}");
            if device == Device::flex() {
                continue;
            }
            let weights = (0..features.dims()[0] * width).map(|i| (i as f32).sin()).collect::<Vec<_>>();
            let weights = Tensor::<2>::from_data(TensorData::new(weights, features.dims()), &device);
            let gradients = (features * weights).sum().backward();
            let mut words = WordGradient { gradients: &gradients, found: None };
            visit_params(&tower.encoder, &mut words);
            let relative = error(&io, "grad", words.found.unwrap());
            assert!(relative < 1e-4, "the gradient of {name} is off by {relative:e}");
        }
    }
}

/// Finds the gradient of the word embedding matrix.
struct WordGradient<'a> {
    gradients: &'a Gradients,
    found: Option<Tensor<1>>,
}

impl ParamVisitor for WordGradient<'_> {
    fn visit<const D: usize>(&mut self, param: &ParamInfo<'_>, value: &Tensor<D>) {
        if param.name == "embeddings.word_embeddings.weight" {
            let gradient = value.grad(self.gradients).unwrap();
            let count = gradient.shape().num_elements();
            self.found = Some(gradient.reshape([count]));
        }
    }
}

/// Every folder of the fixtures is recognised by its tensor names alone.
#[test]
fn every_fixture_is_recognised() {
    let device = Device::flex();
    for entry in fs::read_dir(fixture("")).unwrap() {
        let folder = entry.unwrap().path();
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        if !folder.is_dir() {
            continue;
        }
        if folder.join(TOKENIZER).is_file() {
            open_text(&folder, &device).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        // A folder with texts and without the preprocessing of photographs has no image tower. SigLIP 2 has both
        // towers.
        if folder.join("texts.json").is_file() && !folder.join("preprocessor_config.json").is_file() {
            continue;
        }
        open_image(&weights(&name), 64, &device).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    let message = open_text(&fixture("timm_vit"), &device).unwrap_err().to_string();
    assert!(message.contains("expected a text encoder"), "{message}");
    // This file has both towers, but its folder has no tokenizer.json.
    let message = open_text(&fixture("hf_siglip"), &device).unwrap_err().to_string();
    assert!(message.contains("no tokenizer.json"), "{message}");
}

#[test]
fn wrong_towers_are_refused_by_name() {
    let device = Device::flex();
    let message = open_image(&fixture("sentence_mean"), 0, &device).unwrap_err().to_string();
    assert!(message.contains("expected an image encoder"), "{message}");
    let message = open_text(&fixture("efficientnet_lite").join("model.pth"), &device).unwrap_err().to_string();
    assert!(message.contains("expected a text encoder"), "{message}");

    let folder = tempfile::tempdir().unwrap();
    for name in ["model.safetensors", "config.json"] {
        fs::copy(fixture("sentence_mean").join(name), folder.path().join(name)).unwrap();
    }
    let message = open_text(folder.path(), &device).unwrap_err().to_string();
    assert!(message.contains("no tokenizer.json in") && message.contains("model.textual.init"), "{message}");

    let copy = |name: &str, from: &str, to: &str| {
        let text = fs::read_to_string(fixture("sentence_mean").join(name)).unwrap();
        assert!(text.contains(from), "{text}");
        fs::write(folder.path().join(name), text.replace(from, to)).unwrap();
    };
    for name in ["1_Pooling", "2_Normalize"] {
        fs::create_dir(folder.path().join(name)).unwrap();
    }
    for name in ["tokenizer.json", "1_Pooling/config.json"] {
        fs::copy(fixture("sentence_mean").join(name), folder.path().join(name)).unwrap();
    }
    let refused = || open_text(folder.path(), &device).unwrap_err().to_string();
    copy("config.json", "\"bert\"", "\"deberta\"");
    assert!(refused().contains("`model_type` is deberta; expected bert, roberta"), "{}", refused());
    copy("config.json", "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 4000");
    assert!(refused().contains("expected at most"), "{}", refused());
    copy("config.json", "\"hidden_size\": 24", "\"hidden_size\": 0");
    assert!(refused().contains("`hidden_size` is 0"), "{}", refused());
    copy("config.json", "\"vocab_size\": 15", "\"vocab_size\": 15");
    copy("modules.json", "modules.normalize.Normalize", "modules.lstm.LSTM");
    assert!(refused().contains("`type` is LSTM; expected Transformer, Pooling"), "{}", refused());
    copy("modules.json", "\"1_Pooling\"", "\"../1_Pooling\"");
    assert!(refused().contains("expected a folder beside modules.json"), "{}", refused());
}

#[test]
fn a_folder_with_two_weights_files_is_ambiguous() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a.pth", "b.pth"] {
        fs::copy(fixture("efficientnet_lite/model.pth"), folder.path().join(name)).unwrap();
    }
    let message = open_image(folder.path(), 0, &Device::flex()).unwrap_err().to_string();
    assert!(message.contains("holds 2 weights files; expected model.safetensors"), "{message}");
}

/// Points are the features of the encoder on the unit sphere. A saved copy gives the same points.
#[test]
fn an_image_encoder_alone_is_a_model_without_texts() {
    let device = Device::flex();
    let path = weights("timm_resnet_bottleneck");
    let pixels: Tensor<4> = rows(&io("timm_resnet_bottleneck"), "in.pixel_values", &device);
    let tower = open_image(&path, 0, &device).unwrap();
    let features = tower.encoder.forward(pixels.clone()).unwrap();
    let (model, manifest) = published::import(&path, &ImportOptions::default(), &device).unwrap();
    assert_eq!((manifest.manifold.clone(), &manifest.images), (ManifoldSpec::sphere(128), &tower.images));
    let values = |tensor: Tensor<2>| tensor.into_data().iter::<f32>().collect::<Vec<_>>();
    let points = |model: &crate::model::Model| {
        let features = model.visual.forward(pixels.clone()).unwrap();
        values(model.embed_features(features, Tower::Image, None).unwrap())
    };
    let found = points(&model);
    for (point, feature) in found.chunks(128).zip(values(features).chunks(128)) {
        let norm = feature.iter().map(|x| x * x).sum::<f32>().sqrt();
        assert!(point.iter().zip(feature).all(|(x, y)| (x - y / norm).abs() < 1e-6), "{point:?} and {feature:?}");
    }
    let folder = tempfile::tempdir().unwrap();
    let saved = folder.path().join("saved");
    save(&saved, &model, &manifest, None).unwrap();
    let opened = super::super::open(&saved, &ImportOptions::default(), &device).unwrap();
    assert_eq!(points(&opened.model), found);
    for reference in [&path, &saved] {
        let embedder = Embedder::open(reference, &device).unwrap();
        assert_eq!(embedder.root().unwrap(), Root::Origin);
        let message = embedder.texts(&["a dog"], &mut |_, _| {}).unwrap_err().to_string();
        assert!(message.contains("has no text encoder"), "{message}");
    }
    // A text encoder alone is no model.
    let message = published::import(&weights("sentence_mean"), &ImportOptions::default(), &device).unwrap_err();
    assert!(message.to_string().contains("has no known layout"), "{message}");
}

#[test]
fn convolutional_towers_read_another_size() {
    let device = Device::flex();
    let open = |name: &str| open_image(&weights(name), 0, &device).unwrap();
    let tower = open("efficientnet_lite").with_image_size(72).unwrap();
    assert_eq!(tower.config.reads().image_size, 72);
    let io = io("efficientnet_lite");
    let found = tower.encoder.forward(rows(&io, "in.pixel_values", &device)).unwrap();
    assert!(error(&io, "out.features", found) < 1e-5);

    for (name, size, expected) in [
        ("efficientnet_lite", 0, "visual.image_size` is 0"),
        ("timm_convnext", 40, "a multiple of 32"),
        ("hf_dinov2", 96, "only efficientnet, resnet and convnext"),
    ] {
        let message = open(name).with_image_size(size).unwrap_err().to_string();
        assert!(message.contains(expected), "{name}: {message}");
    }
}
