//! Tests with the models of `fixtures/onnx`. They need the ONNX Runtime library, and print a message if they are
//! skipped.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use burn::tensor::{Device, Int};
use serde_json::Value;

use super::*;
use crate::onnx::runtime_for_tests;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/onnx").join(name)
}

fn expected() -> Value {
    serde_json::from_str(&std::fs::read_to_string(fixture("expected.json")).unwrap()).unwrap()
}

fn list(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}

fn floats(tensor: Tensor<2>) -> Vec<f64> {
    tensor.into_data().iter::<f64>().collect()
}

/// Length of the difference, relative to the expected vector.
fn error(found: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let length = |values: &mut dyn Iterator<Item = f64>| values.map(|x| x * x).sum::<f64>().sqrt();
    length(&mut found.iter().zip(expected).map(|(f, e)| f - e)) / length(&mut expected.iter().copied())
}

fn image(file: &str, change: impl FnOnce(&mut OnnxImageConfig)) -> Result<OnnxImageEncoder> {
    let mut config = OnnxImageConfig {
        file: fixture(file),
        input: None,
        output: (file == "conv.onnx").then(|| "features".to_owned()),
        image_size: 12,
        layout: PixelLayout::Nchw,
    };
    change(&mut config);
    OnnxImageEncoder::new(&config, &mut Init::blank(&Device::flex()))
}

fn text(file: &str, change: impl FnOnce(&mut OnnxTextConfig)) -> Result<OnnxTextEncoder> {
    let mut config = OnnxTextConfig {
        file: fixture(file),
        inputs: OnnxTextInputs::default(),
        output: None,
        pooling: Some(TokenPooling::Mean),
        normalize: false,
        context: 16,
        vocabulary: 30,
    };
    change(&mut config);
    OnnxTextEncoder::new(&config, &mut Init::blank(&Device::flex()))
}

/// The test images `[3, 3, 12, 12]` of `fixtures/onnx/make.py`: element i is `sin(0.7 i)`.
fn pixels() -> Tensor<4> {
    let values: Vec<f32> = (0..3 * 3 * 12 * 12).map(|i| (i as f32 * 0.7).sin()).collect();
    Tensor::from_data(TensorData::new(values, [3, 3, 12, 12]), &Device::flex())
}

fn texts(expected: &Value) -> Tokens {
    let ids: Vec<i32> = list(&expected["ids"]).iter().map(|id| *id as i32).collect();
    let ends: Vec<i32> = list(&expected["lengths"]).iter().map(|length| *length as i32 - 1).collect();
    let device = Device::flex();
    Tokens {
        ids: Tensor::<2, Int>::from_data(TensorData::new(ids, [3, 7]), &device),
        end: Tensor::<1, Int>::from_data(TensorData::new(ends, [3]), &device),
    }
}

#[test]
fn photos_agree_with_pytorch() {
    if !runtime_for_tests() {
        return;
    }
    let encoder = image("conv.onnx", |_| {}).unwrap();
    assert_eq!((encoder.width(), encoder.num_params()), (5, 0));
    let found = floats(encoder.forward(pixels()).unwrap());
    assert!(error(&found, &list(&expected()["conv"])) < 1e-5);
    // The batch size is dynamic.
    let first = floats(encoder.forward(pixels().narrow(0, 0, 1)).unwrap());
    assert!(error(&first, &found[..5]) < 1e-6);
    let other = Tensor::zeros([1, 3, 8, 8], &Device::flex());
    assert!(matches!(encoder.forward(other), Err(Error::Shape { .. })));
}

#[test]
fn channels_may_be_the_last_axis() {
    if !runtime_for_tests() {
        return;
    }
    let encoder = image("nhwc.onnx", |config| config.layout = PixelLayout::Nhwc).unwrap();
    let found = floats(encoder.forward(pixels()).unwrap());
    let means = pixels().reshape([9, 144]).mean_dim(1).reshape([3, 3]);
    assert!(error(&found, &floats(means)) < 1e-4, "the means of the channels are {found:?}");
}

#[test]
fn texts_agree_with_pytorch() {
    if !runtime_for_tests() {
        return;
    }
    let expected = expected();
    for (key, pooling, normalize) in [
        ("bert_mean", TokenPooling::Mean, false),
        ("bert_first", TokenPooling::First, false),
        ("bert_max", TokenPooling::Max, false),
        ("bert_unit", TokenPooling::Mean, true),
    ] {
        let encoder = text("bert.onnx", |config| {
            config.pooling = Some(pooling);
            config.normalize = normalize;
        });
        let encoder = encoder.unwrap();
        assert_eq!(encoder.width(), 8);
        let found = floats(encoder.forward(texts(&expected)).unwrap());
        assert!(error(&found, &list(&expected[key])) < 1e-5, "{key}: {found:?}");
    }
    // Quantised weights: the expected features were computed by ONNX Runtime, not by PyTorch.
    let encoder = text("bert_int8.onnx", |_| {}).unwrap();
    let found = floats(encoder.forward(texts(&expected)).unwrap());
    assert!(error(&found, &list(&expected["bert_int8_mean"])) < 0.02, "{found:?}");
}

#[test]
fn the_digest_names_the_file_and_the_options_and_not_the_path() {
    if !runtime_for_tests() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy.onnx");
    std::fs::copy(fixture("bert.onnx"), &copy).unwrap();
    let digest = |encoder: Result<OnnxTextEncoder>| encoder.unwrap().digest().unwrap();
    let original = digest(text("bert.onnx", |_| {}));
    assert_eq!(original, digest(text("bert.onnx", |config| config.file = copy.clone())));
    assert_ne!(original, digest(text("bert.onnx", |config| config.pooling = Some(TokenPooling::Max))));
    assert_ne!(original, digest(text("bert_int8.onnx", |_| {})));
}

#[test]
fn unfit_models_are_refused() {
    if !runtime_for_tests() {
        return;
    }
    let name = |name: &str| Some(name.to_owned());
    let cases: [(Result<(), Error>, &str); 10] = [
        (
            image("conv.onnx", |config| config.output = name("embeddings")).map(drop),
            "`model.visual.output` is embeddings; expected one of the names in the ONNX file: features, maps",
        ),
        (
            image("conv.onnx", |config| config.output = None).map(drop),
            "`model.visual.output` is absent; expected a name, because the ONNX file has several: features, maps",
        ),
        (
            image("conv.onnx", |config| config.output = name("maps")).map(drop),
            "output `maps` has shape [1, 5, 6, 6] for a batch of 1; expected [1, width]",
        ),
        (
            image("conv.onnx", |config| config.input = name("x")).map(drop),
            "`model.visual.input` is x; expected one of the names in the ONNX file: pixels",
        ),
        (
            image("conv.onnx", |config| config.image_size = 16).map(drop),
            "input `pixels` is F32 of shape [-1, 3, 12, 12] (-1: any size); expected float32 of shape [any, 3, 16, 16]",
        ),
        (
            image("bert.onnx", |config| config.input = name("input_ids")).map(drop),
            "the model has another input `attention_mask`; expected no inputs besides the configured ones",
        ),
        (
            image("transposed.onnx", |_| {}).map(drop),
            "output `features` has shape [3, 1] for a batch of 1; expected [1, width] with the same width for every batch",
        ),
        (image("unknown_operator.onnx", |_| {}).map(drop), "expected operators and types that this version"),
        (
            text("bert.onnx", |config| config.pooling = None).map(drop),
            "`model.textual.pooling` is unfit for output `hidden` of shape [1, 2, 8]; expected mean, first or max",
        ),
        (
            text("conv.onnx", |config| config.output = name("features")).map(drop),
            "input `pixels` is F32 of shape [-1, 3, 12, 12] (-1: any size); expected int64 or int32 of shape [any, any]",
        ),
    ];
    for (found, expected) in cases {
        let message = found.unwrap_err().to_string();
        assert!(message.contains(expected), "{message}\nexpected: {expected}");
    }
}
