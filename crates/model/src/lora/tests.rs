#![allow(clippy::unwrap_used)]
use std::collections::BTreeMap;

use burn::tensor::{Device, Int, TensorData};

use super::*;
use crate::encoders::{ENCODERS, TextualConfig, TextualEncoder, Tokens, VisualConfig, VisualEncoder};
use crate::head::Tower;
use crate::params::{ParamMapper, map_params, set_trainable};

/// A tower of any kind with a fixed input.
enum AnyTower {
    Image(Box<VisualEncoder>, usize),
    Text(Box<TextualEncoder>, usize),
}

impl AnyTower {
    fn preset(tower: Tower, preset: &str, device: &Device) -> Self {
        let init = &mut Init::seeded(3, device);
        let built = match tower {
            Tower::Image => {
                let config = VisualConfig::preset(preset).unwrap();
                Self::Image(Box::new(config.build(init).unwrap()), config.reads().image_size)
            }
            Tower::Text => {
                let config = TextualConfig::preset(preset).unwrap();
                Self::Text(Box::new(config.build(init).unwrap()), config.reads().vocabulary)
            }
        };
        built.map(&mut FullScale)
    }

    fn with_lora(self, config: &LoraConfig, device: &Device) -> Result<Self> {
        let init = &mut Init::seeded(5, device);
        Ok(match self {
            Self::Image(tower, size) => {
                Self::Image(Box::new(tower.with_lora("model.visual_lora", config, init)?), size)
            }
            Self::Text(tower, ids) => Self::Text(Box::new(tower.with_lora("model.textual_lora", config, init)?), ids),
        })
    }

    fn map(self, mapper: &mut impl ParamMapper) -> Self {
        match self {
            Self::Image(tower, size) => Self::Image(Box::new(map_params(*tower, mapper)), size),
            Self::Text(tower, ids) => Self::Text(Box::new(map_params(*tower, mapper)), ids),
        }
    }

    fn merged(self) -> Self {
        match self {
            Self::Image(tower, size) => Self::Image(Box::new(tower.materialize()), size),
            Self::Text(tower, ids) => Self::Text(Box::new(tower.materialize()), ids),
        }
    }

    fn visit(&self, visitor: &mut impl ParamVisitor) {
        match self {
            Self::Image(tower, _) => visit_params(&**tower, visitor),
            Self::Text(tower, _) => visit_params(&**tower, visitor),
        }
    }

    /// Features of two rows.
    fn features(&self, device: &Device) -> Tensor<2> {
        let device = device.clone().without_autodiff();
        match self {
            Self::Image(tower, size) => {
                let count = 2 * 3 * size * size;
                let values: Vec<f32> = (0..count).map(|i| ((i * 37 % 101) as f32 / 50.0) - 1.0).collect();
                tower.forward(Tensor::from_data(TensorData::new(values, [2, 3, *size, *size]), &device)).unwrap()
            }
            Self::Text(tower, ids) => {
                let row = |k: usize| (0..8).map(move |i| ((i * 17 + k * 5) % ids) as i32);
                let values: Vec<i32> = row(1).chain(row(2)).collect();
                let end = Tensor::<1, Int>::from_data(TensorData::new(vec![7, 5], [2]), &device);
                let ids = Tensor::<2, Int>::from_data(TensorData::new(values, [2, 8]), &device);
                tower.forward(Tokens { ids, end }).unwrap()
            }
        }
    }
}

fn floats<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().iter::<f32>().collect()
}

/// Sets the channel scales (`gamma`) to 1. Their initial values of 1e-5 or 1e-6 would hide the blocks.
struct FullScale;

impl ParamMapper for FullScale {
    fn map<const D: usize>(&mut self, param: &ParamInfo<'_>, value: Tensor<D>) -> Tensor<D> {
        if param.name.ends_with("gamma") { value.ones_like() } else { value }
    }
}

/// Sets every `B`, which starts at zero, to small numbers of both signs.
struct FillB;

impl ParamMapper for FillB {
    fn map<const D: usize>(&mut self, param: &ParamInfo<'_>, value: Tensor<D>) -> Tensor<D> {
        if !param.name.ends_with(".lora.b") {
            return value;
        }
        let values = (0..value.shape().num_elements()).map(|i| ((i * 29 % 23) as f32 - 11.0) / 400.0);
        let data = TensorData::new(values.collect::<Vec<f32>>(), value.shape());
        Tensor::from_data(data, &value.device().without_autodiff())
    }
}

/// The `_nano` presets of every encoder.
fn miniatures() -> Vec<(Tower, &'static str)> {
    let presets = |entry: &crate::encoders::EncoderEntry| {
        let tower = entry.tower;
        (entry.presets)().into_iter().filter(|name| name.ends_with("_nano")).map(move |name| (tower, name))
    };
    ENCODERS.iter().flat_map(presets).collect()
}

fn both() -> LoraConfig {
    let targets = vec![LoraTarget::Attention, LoraTarget::FeedForward];
    LoraConfig { rank: 3, alpha: 6.0, targets, ..LoraConfig::default() }
}

/// The linear weights in the blocks of a tower, and those that have an update.
#[derive(Default)]
struct WeightNames {
    weights: BTreeSet<String>,
    updated: BTreeSet<String>,
}

impl ParamVisitor for WeightNames {
    fn visit<const D: usize>(&mut self, param: &ParamInfo<'_>, _: &Tensor<D>) {
        if let Some(weight) = param.name.strip_suffix(".lora.a") {
            assert!(param.low_rank);
            self.updated.insert(weight.to_owned());
        } else if param.transposed && param.name.split('.').any(|part| part.parse::<usize>().is_ok()) {
            self.weights.insert(param.name.to_owned());
        }
    }
}

/// A new encoder whose parts have other names would silently keep some weights fixed.
#[test]
fn every_linear_weight_in_the_blocks_of_every_encoder_is_a_target() {
    let device = Device::flex();
    let mut adapted = 0;
    for (tower, preset) in miniatures() {
        let before = AnyTower::preset(tower, preset, &device);
        let mut names = WeightNames::default();
        before.visit(&mut names);
        let in_blocks = names.weights;
        match before.with_lora(&both(), &device) {
            Ok(tower) => {
                let mut names = WeightNames::default();
                tower.visit(&mut names);
                assert_eq!(names.updated, in_blocks, "{preset}");
                adapted += 1;
            }
            Err(error) => {
                assert!(in_blocks.is_empty(), "{preset}: {error}");
                assert!(error.to_string().contains("encoder with attention"), "{error}");
            }
        }
    }
    assert!(adapted >= 10, "{adapted} encoders");
}

#[test]
fn training_starts_from_the_same_bits_and_merging_changes_only_rounding() {
    let device = Device::flex();
    for (tower, preset) in miniatures() {
        let base = floats(AnyTower::preset(tower, preset, &device).features(&device));
        let Ok(updated) = AnyTower::preset(tower, preset, &device).with_lora(&both(), &device) else { continue };
        assert_eq!(floats(updated.features(&device)), base, "{preset}");
        let moved = updated.map(&mut FillB);
        let found = floats(moved.features(&device));
        let size = base.iter().fold(0.0_f32, |m, x| m.max(x.abs()));
        let distance = |other: &[f32]| found.iter().zip(other).fold(0.0_f32, |m, (a, b)| m.max((a - b).abs()));
        assert!(distance(&base) > 1e-4 * size, "{preset}: the updates have no effect");
        let merged = moved.merged();
        let mut names = WeightNames::default();
        merged.visit(&mut names);
        assert!(names.updated.is_empty(), "{preset}");
        assert!(distance(&floats(merged.features(&device))) <= 1e-6 * size, "{preset}");
    }
}

/// Let `G` be the gradient of `W'`. Then `dA = (alpha / rank) G B^T` and `dB = (alpha / rank) A^T G`, and a trainable
/// base weight receives `G`.
#[test]
fn gradients_of_the_factors_follow_from_that_of_the_weight() {
    /// Shape, values and gradient of a parameter.
    type ParamRow = (Vec<usize>, Vec<f32>, Vec<f32>);
    struct Collect<'a>(&'a burn::tensor::Gradients, BTreeMap<String, ParamRow>);
    impl ParamVisitor for Collect<'_> {
        fn visit<const D: usize>(&mut self, param: &ParamInfo<'_>, value: &Tensor<D>) {
            if param.transposed || param.low_rank {
                let gradient = value.grad(self.0).map(floats).unwrap_or_default();
                let row = (value.dims().to_vec(), floats(value.clone().without_autodiff()), gradient);
                self.1.insert(param.name.to_owned(), row);
            }
        }
    }
    let device = Device::flex().autodiff();
    for (tower, preset) in miniatures() {
        let Ok(updated) = AnyTower::preset(tower, preset, &device).with_lora(&both(), &device) else { continue };
        let updated = updated.map(&mut FillB);
        let features = updated.features(&device);
        let weights: Vec<f32> = (0..features.shape().num_elements()).map(|i| ((i % 7) as f32) - 3.0).collect();
        let weights = TensorData::new(weights, features.dims());
        let plain = device.clone().without_autodiff();
        let gradients = (features * Tensor::from_data(weights, &plain)).sum().backward();
        let mut collect = Collect(&gradients, BTreeMap::new());
        updated.visit(&mut collect);
        let found = collect.1;
        let updates: Vec<_> = found.keys().filter_map(|name| name.strip_suffix(".lora.a")).collect();
        assert!(!updates.is_empty());
        for name in updates {
            let (sides, _, weight) = &found[name];
            let (_, a, grad_a) = &found[&format!("{name}.lora.a")];
            let (_, b, grad_b) = &found[&format!("{name}.lora.b")];
            let [width_in, width_out] = sides.as_slice() else { panic!("{name}: {sides:?}") };
            let (rank, scale) = (3, 2.0);
            // In f64, so that the difference is the rounding of the engine alone.
            let sum = |terms: &mut dyn Iterator<Item = (f32, f32)>| {
                terms.map(|(x, y)| f64::from(x) * f64::from(y)).sum::<f64>() * scale
            };
            let expected_a: Vec<f64> = (0..width_in * rank)
                .map(|it| {
                    let (i, r) = (it / rank, it % rank);
                    sum(&mut (0..*width_out).map(|o| (weight[i * width_out + o], b[r * width_out + o])))
                })
                .collect();
            let expected_b: Vec<f64> = (0..rank * width_out)
                .map(|it| {
                    let (r, o) = (it / width_out, it % width_out);
                    sum(&mut (0..*width_in).map(|i| (a[i * rank + r], weight[i * width_out + o])))
                })
                .collect();
            for (kind, expected, found) in [("a", expected_a, grad_a), ("b", expected_b, grad_b)] {
                let size = expected.iter().fold(0.0_f64, |m, x| m.max(x.abs()));
                assert!(size > 0.0, "{preset}: {name}.{kind} has no gradient");
                assert_eq!(expected.len(), found.len());
                for (e, f) in expected.iter().zip(found) {
                    assert!((e - f64::from(*f)).abs() <= 1e-5 * size, "{preset}: {name}.{kind}: {f} against {e}");
                }
            }
        }
    }
}

/// Central differences with respect to the element of each factor that has the largest gradient.
#[test]
fn gradients_are_the_derivatives_of_the_value() {
    /// Adds a number to one element of the parameter with this name.
    struct Nudge<'a>(&'a str, usize, f32);
    impl ParamMapper for Nudge<'_> {
        fn map<const D: usize>(&mut self, param: &ParamInfo<'_>, value: Tensor<D>) -> Tensor<D> {
            if param.name != self.0 {
                return value;
            }
            let (shape, device) = (value.shape(), value.device().without_autodiff());
            let mut values = floats(value.without_autodiff());
            values[self.1] += self.2;
            Tensor::from_data(TensorData::new(values, shape), &device)
        }
    }
    struct Gradient<'a>(&'a str, &'a burn::tensor::Gradients, Vec<f32>);
    impl ParamVisitor for Gradient<'_> {
        fn visit<const D: usize>(&mut self, param: &ParamInfo<'_>, value: &Tensor<D>) {
            if param.name == self.0 {
                self.2 = floats(value.grad(self.1).unwrap());
            }
        }
    }
    let device = Device::flex().autodiff();
    let tower = |device: &Device| {
        AnyTower::preset(Tower::Text, "text_nano", device).with_lora(&both(), device).unwrap().map(&mut FillB)
    };
    let weight = |i: usize| (i % 7) as f32 - 3.0;
    for name in ["resblocks.2.attn.in_proj_weight.lora.a", "resblocks.0.mlp.c_proj.weight.lora.b"] {
        let here = tower(&device);
        let features = here.features(&device);
        let weights: Vec<f32> = (0..features.shape().num_elements()).map(weight).collect();
        let weights = TensorData::new(weights, features.dims());
        let gradients = (features * Tensor::from_data(weights, &Device::flex())).sum().backward();
        let mut gradient = Gradient(name, &gradients, Vec::new());
        here.visit(&mut gradient);
        let largest = |a: &(usize, f32), b: &(usize, f32)| a.1.abs().total_cmp(&b.1.abs());
        let (at, found) = gradient.2.into_iter().enumerate().max_by(largest).unwrap();
        let step = 0.01;
        let value = |by: f32| {
            let features = floats(tower(&Device::flex()).map(&mut Nudge(name, at, by)).features(&Device::flex()));
            features.iter().enumerate().map(|(i, x)| f64::from(weight(i)) * f64::from(*x)).sum::<f64>()
        };
        let expected = (value(step) - value(-step)) / (2.0 * f64::from(step));
        // 256 features with a rounding of 1e-6 each, weighted by at most 3: 5e-5 over a step of .02.
        let tolerance = 3e-3 + 0.02 * expected.abs();
        assert!(expected.abs() > 0.05, "{name}: {expected}");
        assert!((f64::from(found) - expected).abs() < tolerance, "{name}: {found} against {expected}");
    }
}

#[test]
fn only_the_chosen_blocks_and_parts_are_updated() {
    let device = Device::flex();
    let updated = |config: LoraConfig| {
        let tower = AnyTower::preset(Tower::Text, "bert_nano", &device).with_lora(&config, &device).unwrap();
        let mut names = WeightNames::default();
        tower.visit(&mut names);
        names.updated.into_iter().collect::<Vec<_>>()
    };
    let last = updated(LoraConfig { blocks: LoraBlocks::Last(1), ..LoraConfig::default() });
    assert_eq!(last, ["encoder.layer.3.attention.output.dense.weight", "encoder.layer.3.attention.qkv.weight"]);
    let listed = LoraConfig {
        blocks: LoraBlocks::Listed(vec![2, 0]),
        targets: vec![LoraTarget::FeedForward],
        ..LoraConfig::default()
    };
    let expected = [0, 2]
        .map(|block| ["intermediate.dense", "output.dense"].map(|part| format!("encoder.layer.{block}.{part}.weight")));
    assert_eq!(updated(listed), expected.concat());
}

#[test]
fn impossible_updates_are_refused() {
    let device = Device::flex();
    let message = |tower, preset, config: LoraConfig| {
        AnyTower::preset(tower, preset, &device).with_lora(&config, &device).err().unwrap().to_string()
    };
    let text = |config| message(Tower::Text, "text_nano", config);
    let plain = LoraConfig::default;
    for (found, expected) in [
        (text(LoraConfig { rank: 0, ..plain() }), "`model.textual_lora.rank` is 0; expected at least 1"),
        (text(LoraConfig { rank: 129, ..plain() }), "`model.textual_lora.rank` is 129; expected at most 128"),
        (text(LoraConfig { alpha: 0.0, ..plain() }), "`model.textual_lora.alpha` is 0; expected more than 0"),
        (text(LoraConfig { alpha: f64::NAN, ..plain() }), "`model.textual_lora.alpha` is NaN"),
        (text(LoraConfig { targets: Vec::new(), ..plain() }), "`model.textual_lora.targets` is empty"),
        (text(LoraConfig { blocks: LoraBlocks::Last(0), ..plain() }), "`model.textual_lora.blocks` is 0"),
        (text(LoraConfig { blocks: LoraBlocks::Last(5), ..plain() }), "is 5; expected at most 4, the number of"),
        (text(LoraConfig { blocks: LoraBlocks::Listed(Vec::new()), ..plain() }), "blocks` is empty; expected at"),
        (text(LoraConfig { blocks: LoraBlocks::Listed(vec![1, 4]), ..plain() }), "is 4; expected numbers below 4"),
        (message(Tower::Image, "resnet_nano", plain()), "`model.visual_lora` is set for an encoder without such"),
        (message(Tower::Image, "convnext_nano", plain()), "expected an encoder with attention"),
    ] {
        assert!(found.contains(expected), "{found}");
    }
    let feed_forward = LoraConfig { targets: vec![LoraTarget::FeedForward], ..plain() };
    let found = message(Tower::Image, "efficientnet_nano", feed_forward);
    assert!(found.contains("expected an encoder with feed-forward parts"), "{found}");
}

#[test]
fn the_choice_of_blocks_is_read_from_a_config() {
    let read = |text: &str| toml::from_str::<LoraConfig>(text);
    assert_eq!(read("").unwrap(), LoraConfig::default());
    assert_eq!(read("blocks = 'all'").unwrap(), LoraConfig::default());
    assert_eq!(read("blocks = 3").unwrap().blocks, LoraBlocks::Last(3));
    assert_eq!(read("blocks = [0, 2]").unwrap().blocks, LoraBlocks::Listed(vec![0, 2]));
    let message = read("blocks = 'last'").unwrap_err().to_string();
    assert!(message.contains("\"all\", a number of last blocks, or a list of block numbers"), "{message}");
    let config = LoraConfig { blocks: LoraBlocks::Listed(vec![1]), ..both() };
    assert_eq!(read(&toml::to_string(&config).unwrap()).unwrap(), config);
}

#[test]
fn the_trained_parameters_of_a_tower_are_the_factors() {
    #[derive(Default)]
    struct Trained(Vec<(bool, bool)>);
    impl ParamVisitor for Trained {
        fn visit<const D: usize>(&mut self, param: &ParamInfo<'_>, value: &Tensor<D>) {
            self.0.push((param.low_rank, value.is_require_grad()));
        }
    }
    let device = Device::flex().autodiff();
    let vit = VisualConfig::preset("vit_nano").unwrap().build(&mut Init::seeded(1, &device)).unwrap();
    let vit = vit.with_lora("model.visual_lora", &both(), &mut Init::seeded(2, &device)).unwrap();
    let mut trained = Trained::default();
    visit_params(&set_trainable(vit, |param| param.low_rank), &mut trained);
    assert!(trained.0.iter().all(|(low_rank, trains)| low_rank == trains));
    // There are four blocks with four weights each, and each weight has two factors.
    assert_eq!(trained.0.iter().filter(|(_, trains)| *trains).count(), 32);
}
