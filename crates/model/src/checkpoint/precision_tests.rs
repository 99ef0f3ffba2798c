//! Tests of the error that rounded weights cause.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;

use burn::module::Module;
use burn::tensor::{Device, Gradients, Int, Tensor, TensorData};
use conifer_geometry::ManifoldSpec;

use super::*;
use crate::encoders::layers::ActivationFn;
use crate::encoders::{TextTransformerConfig, TextualConfig, Tokens, VisualConfig, VitConfig};
use crate::head::{Head, HeadConfig};
use crate::model::PixelStatistics;
use crate::params::{Init, ParamInfo, ParamVisitor, visit_params};

/// Largest relative error of rounding to 8 significant bits: half a step of 2^-7.
const ROUNDING: f32 = 0.003_906_25;

fn model(device: &Device) -> (Model, Manifest) {
    let config = ModelConfig {
        visual: VisualConfig::Vit(VitConfig { image_size: 16, patch: 4, width: 32, depth: 2, heads: 2 }),
        textual: TextualConfig::TextTransformer(TextTransformerConfig {
            vocabulary: 50,
            context: 8,
            width: 32,
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
    let head = Head::new(&ManifoldSpec::lorentz(8, 0.7), &head_config, device).unwrap();
    let model = Model::new(&config, head, &mut Init::seeded(5, device)).unwrap();
    let texts = TextFeed { tokenizer: None, end_of_text: 49, padding: 0 };
    let manifest = Manifest::new(&model, &head_config, "meru", texts);
    (model, manifest)
}

/// Points of two photos and two texts, `[4, 8]`.
fn points(model: &Model, device: &Device) -> Tensor<2> {
    let count = 2 * 3 * 16 * 16;
    let pixels: Vec<f32> = (0..count).map(|i| ((i * i) % 255) as f32 / 255.0).collect();
    let pixels = Tensor::from_data(TensorData::new(pixels, [2, 3, 16, 16]), device);
    let ids: Tensor<2, Int> = Tensor::from_data([[48, 3, 7, 11, 49], [48, 30, 2, 49, 0]], device);
    let tokens = Tokens { ids, end: Tensor::from_data([4, 3], device) };
    Tensor::cat(vec![model.embed_images(pixels).unwrap(), model.embed_texts(tokens).unwrap()], 0)
}

/// Sum of |gradient| |value| over all parameters with a gradient.
struct RoundingSensitivity<'a> {
    gradients: &'a Gradients,
    sum: f32,
}

impl ParamVisitor for RoundingSensitivity<'_> {
    fn visit<const D: usize>(&mut self, _param: &ParamInfo<'_>, value: &Tensor<D>) {
        if let Some(gradient) = value.grad(self.gradients) {
            let weight = value.clone().without_autodiff();
            self.sum += (gradient * weight).abs().sum().into_scalar::<f32>();
        }
    }
}

#[test]
fn bf16_weights_are_smaller_and_point_errors_stay_within_the_first_order_bound() {
    let folder = tempfile::tempdir().unwrap();
    let device = Device::flex().autodiff();
    let (model, manifest) = model(&device);
    let (full, half) = (folder.path().join("full"), folder.path().join("half"));
    save(&full, &model, &manifest, None).unwrap();
    save_as(&half, &model, &manifest, None, Precision::Bf16).unwrap();
    let size = |dir: &Path| fs::metadata(dir.join(WEIGHTS)).unwrap().len() as f64;
    // Norms and biases stay `f32`: in a block of width 32 they are 13 numbers for every 12 * 32 weights. The header
    // keeps its size, too.
    assert!(size(&half) < 0.65 * size(&full), "{} {}", size(&half), size(&full));

    let (exact, rounded): (BTreeMap<_, _>, BTreeMap<_, _>) =
        (weights::load(&full.join(WEIGHTS)).unwrap(), weights::load(&half.join(WEIGHTS)).unwrap());
    assert_eq!(exact.keys().collect::<Vec<_>>(), rounded.keys().collect::<Vec<_>>());
    let mut moved = 0;
    for (name, exact) in &exact {
        let (Some(a), Some(b)) = (exact.floats(), rounded[name].floats()) else { continue };
        for (a, b) in a.iter().zip(b) {
            assert!(a == b || (a - b).abs() <= ROUNDING * a.abs(), "{name}: {a} {b}");
            moved += usize::from(a != b);
        }
        let long = exact.shape.iter().filter(|&&side| side > 1).count();
        assert!(long > 1 || a == b, "{name} {:?} has one dimension", exact.shape);
    }
    assert!(moved > 1000);

    // To first order a component of a point changes by at most the sum of |gradient| |weight| 2^-8 over all weights.
    let (after, back) = load(&half, &Device::flex()).unwrap();
    assert_eq!(back, load(&full, &Device::flex()).unwrap().1);
    let after: Vec<f32> = points(&after, &Device::flex()).into_data().iter::<f32>().collect();
    let mut max_fraction = 0.0_f32;
    for (at, after) in after.iter().enumerate() {
        // A backward pass drops its graph, so the points are computed again for each component.
        let component = points(&model, &device).slice([at / 8..at / 8 + 1, at % 8..at % 8 + 1]).sum();
        let value = component.clone().into_scalar::<f32>();
        let gradients = component.backward();
        let mut sensitivity = RoundingSensitivity { gradients: &gradients, sum: 0.0 };
        visit_params(&model, &mut sensitivity);
        let bound = ROUNDING * sensitivity.sum;
        assert!((after - value).abs() <= bound, "component {at}: {value} became {after}, bound {bound}");
        max_fraction = max_fraction.max((after - value).abs() / bound);
    }
    assert!(max_fraction > 0.0, "rounding changed no component");
    eprintln!("largest fraction of the bound: {max_fraction}");
}

#[test]
fn rounding_a_rounded_checkpoint_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (model, manifest) = model(&Device::flex());
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    save_as(&first, &model, &manifest, None, Precision::Bf16).unwrap();
    let (again, manifest) = load(&first, &Device::flex()).unwrap();
    assert_eq!(again.num_params(), model.num_params());
    save_as(&second, &again, &manifest, None, Precision::Bf16).unwrap();
    let bytes = |dir: &Path| fs::read(dir.join(WEIGHTS)).unwrap();
    assert!(bytes(&first) == bytes(&second));
}
