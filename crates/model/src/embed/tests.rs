#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use conifer_data::Picture;

use super::*;
use crate::checkpoint::TextFeed;
use crate::encoders::layers::ActivationFn;
use crate::encoders::{TextTransformerConfig, TextualConfig, VisualConfig, VitConfig};
use crate::head::{Head, HeadConfig};
use crate::model::{ModelConfig, PixelStatistics};
use crate::params::Init;

const TEXTS: [&str; 5] =
    ["a red cone", "tree", "", "a red cone", "a very long text about a tall tree and its many small brown cones"];

fn tokenizer() -> Tokenizer {
    Tokenizer::train(TEXTS, 520).unwrap()
}

fn parts(space: &ManifoldSpec) -> (Model, Manifest) {
    let device = Device::flex().autodiff();
    let config = ModelConfig {
        visual: VisualConfig::Vit(VitConfig { image_size: 8, patch: 4, width: 8, depth: 2, heads: 2 }),
        textual: TextualConfig::TextTransformer(TextTransformerConfig {
            vocabulary: 520,
            context: 12,
            width: 8,
            depth: 2,
            heads: 2,
            mlp_ratio: 4.0,
            activation: ActivationFn::Gelu,
        }),
        pixels: PixelStatistics::default(),
        visual_adapter: None,
        textual_adapter: None,
        visual_lora: None,
        textual_lora: None,
    };
    let head_config = HeadConfig::default();
    let head = Head::new(space, &head_config, &device).unwrap();
    let model = Model::new(&config, head, &mut Init::seeded(4, &device)).unwrap();
    let texts = TextFeed { tokenizer: None, end_of_text: tokenizer().end_of_text(), padding: 0 };
    let manifest = Manifest::new(&model, &head_config, "meru", texts);
    (model, manifest)
}

fn embedder(space: &ManifoldSpec) -> Embedder {
    let (model, manifest) = parts(space);
    Embedder::new("test", &model, manifest, tokenizer()).unwrap()
}

fn picture(seed: u8, width: u32, height: u32) -> ImageRef {
    let rgb = (0..3 * width * height).map(|i| seed.wrapping_mul(31).wrapping_add((i * i % 251) as u8)).collect();
    ImageRef::Pixels(Arc::new(Picture::new(width, height, rgb).unwrap()))
}

fn close(a: &[f32], b: &[f32]) -> bool {
    let scale = b.iter().fold(1e-30_f32, |m, x| m.max(x.abs()));
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-5 * scale)
}

#[test]
fn text_points_keep_the_input_order_for_any_batch_size() {
    let space = ManifoldSpec::lorentz(8, 1.0);
    let mut calls = Vec::new();
    let together = embedder(&space).texts(&TEXTS, &mut |done, total| calls.push((done, total))).unwrap();
    assert_eq!(calls, [(5, 5)], "four different texts in one batch");
    let (rows, alone) = (together.chunks(8), embedder(&space).with_batch(1));
    for (text, row) in TEXTS.iter().zip(rows) {
        assert!(close(row, &alone.texts(&[text], &mut |_, _| {}).unwrap()), "{text}");
    }
    assert_eq!(together[..8], together[24..32], "equal texts, equal points");
    assert_ne!(together[..8], together[8..16]);
    assert!(embedder(&space).texts::<&str>(&[], &mut |_, _| {}).unwrap().is_empty());
}

#[test]
fn image_points_keep_the_input_order_for_any_batch_size() {
    let space = ManifoldSpec::lorentz(8, 1.0);
    let images = [picture(1, 9, 9), picture(2, 20, 10), picture(3, 8, 30)];
    let mut calls = Vec::new();
    let pairs = embedder(&space)
        .with_batch(2)
        .images(&images, EvalCrop::Center, &mut |done, total| calls.push((done, total)))
        .unwrap();
    assert_eq!(calls, [(2, 3), (3, 3)]);
    let together = embedder(&space).images(&images, EvalCrop::Center, &mut |_, _| {}).unwrap();
    assert!(close(&pairs, &together));
    let squeezed = embedder(&space).images(&images, EvalCrop::Squeeze, &mut |_, _| {}).unwrap();
    assert!(close(&squeezed[..8], &together[..8]), "a square image is the same under both crops");
    assert!(!close(&squeezed[8..16], &together[8..16]), "the crop is used");
}

#[test]
fn float_pixels_are_bytes_divided_by_255() {
    let model = embedder(&ManifoldSpec::lorentz(8, 1.0));
    let images = [picture(1, 9, 9), picture(2, 20, 10)];
    let rows: Vec<_> = images.iter().map(|it| model.image_input(it, EvalCrop::Center).unwrap()).collect();
    let values: Vec<f32> = rows.concat().iter().map(|&byte| f32::from(byte) / 255.0).collect();
    assert!(close(&model.float_pixels(values.clone()).unwrap(), &model.image_batch(&rows).unwrap()));
    assert!(model.float_pixels(Vec::new()).unwrap().is_empty());
    for (wrong, text) in [(vec![0.5; 100], "a multiple of 3 x 8 x 8"), (vec![f32::NAN; 192], "a number from 0 to 1")] {
        let message = model.float_pixels(wrong).unwrap_err().to_string();
        assert!(message.contains(text), "{message}");
    }
}

#[test]
fn a_photograph_that_cannot_be_read_is_an_error() {
    let images = [picture(1, 9, 9), ImageRef::Encoded(b"no photograph".as_slice().into())];
    let message =
        embedder(&ManifoldSpec::sphere(8)).images(&images, EvalCrop::Center, &mut |_, _| {}).unwrap_err().to_string();
    assert!(message.contains("1 of 2 photographs cannot be read; first: "), "{message}");
}

#[test]
fn sets_carry_space_root_and_a_hash_of_model_and_input() {
    let space = ManifoldSpec::product_l1(2, 4, vec![0.5, 2.0]);
    let embedder = embedder(&space);
    let ids = |n: usize| (0..n).map(|i| i.to_string()).collect::<Vec<_>>();
    let set = |texts: &[&str]| {
        embedder.text_set(ids(texts.len()), texts, Modality::BoxText, "captions", &mut |_, _| {}).unwrap()
    };
    let first = set(&TEXTS);
    first.check().unwrap();
    assert_eq!((first.len(), &first.root, first.modality[0]), (5, &Root::Origin, Modality::BoxText));
    assert_eq!((first.source.model.as_str(), first.source.data.as_str()), ("test", "captions"));
    for (found, expected) in first.spec.curv.iter().zip(&space.curv) {
        assert!((found / expected - 1.0).abs() < 1e-6, "stored as a logarithm in f32");
    }
    assert_eq!(first.source.hash, set(&TEXTS).source.hash);
    assert_ne!(first.source.hash, set(&TEXTS[1..]).source.hash);

    let images = [picture(1, 9, 9), picture(2, 20, 10)];
    let hash = |images: &[ImageRef], crop| {
        embedder
            .image_set(ids(images.len()), images, crop, Modality::Image, "photos", &mut |_, _| {})
            .unwrap()
            .source
            .hash
    };
    assert_eq!(hash(&images, EvalCrop::Center), hash(&images, EvalCrop::Center));
    assert_ne!(hash(&images, EvalCrop::Center), hash(&images, EvalCrop::Squeeze));
    let wrong = embedder.text_set(ids(4), &TEXTS, Modality::Text, "captions", &mut |_, _| {}).unwrap_err().to_string();
    assert!(wrong.contains('4') || wrong.contains('5'), "{wrong}");
}

#[test]
fn the_root_of_a_sphere_is_a_point_on_it() {
    let (model, mut manifest) = parts(&ManifoldSpec::sphere(8));
    let plain = Embedder::new("test", &model, manifest.clone(), tokenizer()).unwrap();
    let Root::Point(empty) = plain.root().unwrap() else { panic!("a sphere has no origin") };
    let embedded = plain.texts(&[""], &mut |_, _| {}).unwrap();
    assert!(close(&empty.iter().map(|&x| x as f32).collect::<Vec<_>>(), &embedded));

    manifest.root = Some(vec![3.0, 4.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    let given = Embedder::new("test", &model, manifest, tokenizer()).unwrap();
    assert_eq!(given.root().unwrap(), Root::Point(vec![0.6, 0.8, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]));
    assert_eq!(embedder(&ManifoldSpec::lorentz(8, 1.0)).root().unwrap(), Root::Origin);
}

#[test]
fn a_tokenizer_of_another_model_is_refused() {
    let (model, mut manifest) = parts(&ManifoldSpec::sphere(8));
    let large = Tokenizer::train(TEXTS, 540).unwrap();
    let message = Embedder::new("test", &model, manifest.clone(), large).unwrap_err().to_string();
    assert!(message.contains("at most 520"), "{message}");
    manifest.texts.end_of_text = 7;
    let message = Embedder::new("test", &model, manifest, tokenizer()).unwrap_err().to_string();
    assert!(message.contains("expected 7 (manifest)"), "{message}");
}

#[test]
fn a_saved_model_embeds_as_before() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model");
    let (model, manifest) = parts(&ManifoldSpec::lorentz(8, 1.0));
    let before = Embedder::new("test", &model, manifest.clone(), tokenizer()).unwrap();
    checkpoint::save(&path, &model, &manifest, Some(&tokenizer())).unwrap();
    let after = Embedder::open(&path, &Device::flex().autodiff()).unwrap();
    let points = |embedder: &Embedder| embedder.texts(&TEXTS, &mut |_, _| {}).unwrap();
    assert_eq!(points(&before), points(&after));
    assert_eq!(before.fingerprint(), after.fingerprint());
}
