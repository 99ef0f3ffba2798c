#![allow(clippy::unwrap_used)]

use burn::module::Module;
use burn::tensor::{Device, Distribution, Gradients, Int, Tensor, TensorData};

use super::layers::ActivationFn;
use super::*;
use crate::params::{Init, ParamInfo, ParamKind, ParamVisitor, visit_params};

fn vit_config() -> VitConfig {
    VitConfig { image_size: 12, patch: 4, width: 16, depth: 2, heads: 2 }
}

fn text_config() -> TextTransformerConfig {
    TextTransformerConfig {
        mlp_ratio: 4.0,
        vocabulary: 30,
        context: 9,
        width: 12,
        depth: 2,
        heads: 3,
        activation: ActivationFn::Gelu,
    }
}

/// Adds noise to all parameters, because the initial values of the class token and the norms would hide errors.
fn perturbed<M: Module>(module: M, device: &Device) -> M {
    struct Perturb<'a>(&'a Device, u64);
    impl crate::params::ParamMapper for Perturb<'_> {
        fn map<const D: usize>(&mut self, _: &ParamInfo<'_>, value: Tensor<D>) -> Tensor<D> {
            let count = value.shape().num_elements();
            let noise = (0..count)
                .map(|i| ((self.1 + i as u64) * 2_654_435_761 % 1000) as f32 / 4000.0 - 0.125)
                .collect::<Vec<_>>();
            self.1 += count as u64;
            let noise = Tensor::from_data(TensorData::new(noise, value.dims()), self.0);
            value + noise
        }
    }
    crate::params::map_params(module, &mut Perturb(device, 7))
}

fn pixels(batch: usize, size: usize, device: &Device) -> Tensor<4> {
    Tensor::random([batch, 3, size, size], Distribution::Normal(0.0, 1.0), device)
}

fn tokens(rows: &[&[i32]], end: i32, device: &Device) -> Tokens {
    let length = rows.iter().map(|row| row.len()).max().unwrap();
    let padded: Vec<i32> =
        rows.iter().flat_map(|row| row.iter().copied().chain(std::iter::repeat(0)).take(length)).collect();
    let ends: Vec<i32> = rows.iter().map(|row| row.iter().position(|&id| id == end).unwrap() as i32).collect();
    Tokens {
        ids: Tensor::from_data(TensorData::new(padded, [rows.len(), length]), device),
        end: Tensor::from_data(TensorData::new(ends, [rows.len()]), device),
    }
}

fn floats<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().iter::<f32>().collect()
}

/// Largest difference, relative to the largest value.
fn difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    let scale = b.iter().fold(0.0_f32, |m, x| m.max(x.abs()));
    a.iter().zip(b).fold(0.0_f32, |m, (a, b)| m.max((a - b).abs())) / scale
}

#[test]
fn presets_are_valid_and_found_by_name() {
    for entry in ENCODERS {
        for name in (entry.presets)() {
            match entry.tower {
                Tower::Image => {
                    let reads = VisualConfig::preset(name).unwrap().reads();
                    assert!(reads.image_size >= 32, "{name}");
                }
                Tower::Text => {
                    let reads = TextualConfig::preset(name).unwrap().reads();
                    assert!(reads.context >= 8 && reads.vocabulary >= 512, "{name}");
                }
            }
        }
    }
    let small = vit(VisualConfig::preset("vit_s16").unwrap());
    // MERU's released ViT-S has twelve heads, not timm's six.
    assert_eq!((small.width, small.depth, small.heads, small.tokens()), (384, 12, 12, 197));
}

#[test]
fn the_published_vit_s_has_its_number_of_parameters() {
    // 12 blocks of (2 norms, qkv, proj, fc1, fc2), final norm, patches, class token; positions are stored and not
    // trained.
    let d = 384;
    let block = 2 * 2 * d + (3 * d * d + 3 * d) + (d * d + d) + (4 * d * d + 4 * d) + (4 * d * d + d);
    let trained = 12 * block + 2 * d + (768 * d + d) + d;
    assert_eq!(trained, 21_590_016);
    let vit = VisualConfig::preset("vit_s16").unwrap().build(&mut Init::blank(&Device::flex())).unwrap();
    assert_eq!(vit.num_params(), trained + 197 * d);
}

/// Checks the nano and micro presets, and the first preset of an encoder without a nano: features have the expected
/// shape, every parameter that is not fixed has a gradient, the same seed gives the same weights, rows are independent,
/// and inputs of another shape are errors.
#[test]
fn every_encoder_conforms() {
    struct MissingGradients(Gradients, Vec<String>);
    impl ParamVisitor for MissingGradients {
        fn visit<const D: usize>(&mut self, param: &ParamInfo<'_>, value: &Tensor<D>) {
            let moved = value.grad(&self.0).is_some_and(|grad| {
                let grad = floats(grad);
                grad.iter().all(|x| x.is_finite()) && grad.iter().any(|x| *x != 0.0)
            });
            if param.kind != ParamKind::Fixed && !moved {
                self.1.push(param.name.to_owned());
            }
        }
    }
    fn check<M: Module, I: Clone>(
        name: &str,
        encoders: [M; 2],
        width: usize,
        input: I,
        forward: impl Fn(&M, I) -> Tensor<2>,
    ) {
        let features = forward(&encoders[0], input.clone());
        assert_eq!(features.dims(), [2, width], "{name}");
        assert!(floats(features.clone()).iter().all(|x| x.is_finite()), "{name}");
        let again = floats(forward(&encoders[1], input));
        assert_eq!(floats(features.clone()), again, "{name}: the same seed makes the same encoder");
        // A weighted sum, because the plain sum is constant after a normalisation.
        let weights = (0..2 * width).map(|i| ((i * i) as f32 * 0.37).sin()).collect::<Vec<_>>();
        let weights = Tensor::from_data(TensorData::new(weights, [2, width]), &features.device());
        let mut missing = MissingGradients((features * weights).sum().backward(), Vec::new());
        visit_params(&encoders[0], &mut missing);
        assert!(missing.1.is_empty(), "{name}: no gradient for {:?}", missing.1);
    }
    let device = Device::flex().autodiff();
    for entry in ENCODERS {
        let presets = (entry.presets)();
        let small = presets.iter().filter(|name| name.contains("nano") || name.contains("micro"));
        let first = if presets.iter().any(|name| name.contains("nano")) { None } else { presets.first() };
        for name in small.chain(first) {
            match entry.tower {
                Tower::Image => {
                    let config = VisualConfig::preset(name).unwrap();
                    let [one, two] = [(); 2].map(|()| config.build(&mut Init::seeded(1, &device)).unwrap());
                    let size = config.reads().image_size;
                    let photos = pixels(2, size, &device);
                    let apart = photos.clone().chunk(2, 0).into_iter().map(|photo| floats(one.forward(photo).unwrap()));
                    let (apart, together) =
                        (apart.flatten().collect::<Vec<_>>(), floats(one.forward(photos.clone()).unwrap()));
                    assert!(difference(&together, &apart) < 1e-5, "{name}: a row depends on its neighbours");
                    assert!(one.forward(pixels(2, size + 1, &device)).is_err(), "{name} takes another size");
                    let width = one.width();
                    check(name, [one, two], width, photos, |encoder, photos| encoder.forward(photos).unwrap());
                }
                Tower::Text => {
                    let config = TextualConfig::preset(name).unwrap();
                    let [one, two] = [(); 2].map(|()| config.build(&mut Init::seeded(1, &device)).unwrap());
                    // The first text is as long as the context, so that every position is used.
                    let long: Vec<i32> = (0..config.reads().context as i32 - 1).map(|i| 10 + i).chain([9]).collect();
                    let texts = || tokens(&[&long, &[5, 9]], 9, &device);
                    let short = floats(one.forward(tokens(&[&[5, 9]], 9, &device)).unwrap());
                    let together = floats(one.forward(texts()).unwrap());
                    let width = one.width();
                    assert!(difference(&together[width..], &short) < 1e-5, "{name}: padding is seen");
                    let longer: Vec<i32> = long.iter().copied().chain([9]).collect();
                    assert!(one.forward(tokens(&[&longer], 9, &device)).is_err(), "{name} takes a longer text");
                    check(name, [one, two], width, (), |encoder, ()| encoder.forward(texts()).unwrap());
                }
            }
        }
    }
}

fn vit(config: VisualConfig) -> VitConfig {
    match config {
        VisualConfig::Vit(config) => config,
        #[allow(unreachable_patterns, reason = "as long as there is one image encoder")]
        other => panic!("expected a vit, found {other:?}"),
    }
}

#[test]
fn a_config_is_a_preset_with_changes_or_all_values() {
    let read = |text: &str| toml::from_str::<toml::Table>(text).map(VisualConfig::try_from).unwrap();
    let changed = vit(read("preset = 'vit_s16'\nimage_size = 96").unwrap());
    assert_eq!((changed.image_size, changed.width), (96, 384));
    let explicit = read("kind = 'vit'\nimage_size = 96\npatch = 16\nwidth = 384\ndepth = 12\nheads = 12").unwrap();
    assert_eq!(explicit, VisualConfig::Vit(changed));
    // The stored form names every value and reads back as the same config.
    assert_eq!(read(&toml::to_string(&explicit).unwrap()).unwrap(), explicit);
    let deeper = vit(explicit.with("depth", 3).unwrap());
    assert_eq!(deeper.depth, 3);

    for (text, expected) in [
        ("preset = 'vit_xxl'", "unknown encoder preset `vit_xxl`; known: vit_s16, vit_b16"),
        ("kind = 'perceptron'", "unknown encoder `perceptron`; known: vit, clip_vit"),
        ("image_size = 3", "(no `kind` and no `preset`)"),
        ("preset = 'vit_nano'\npach = 4", "unknown field `pach`"),
        ("preset = 'vit_nano'\npatch = 'four'", "invalid type: string"),
    ] {
        let message = read(text).unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn impossible_architectures_are_refused_by_name() {
    let device = Device::flex();
    let vit = |change: fn(&mut VitConfig)| {
        let mut config = vit_config();
        change(&mut config);
        Vit::new(&config, &mut Init::blank(&device)).unwrap_err().to_string()
    };
    for (message, expected) in [
        (vit(|c| c.patch = 5), "`visual.image_size` is 12; expected a multiple of patch = 5"),
        (vit(|c| c.heads = 3), "`visual.width` is 16; expected a multiple of 4 and of heads = 3"),
        (vit(|c| c.depth = 0), "`visual.depth` is 0; expected 1 to 1024"),
    ] {
        assert!(message.contains(expected), "{message}");
    }
    let config = TextTransformerConfig { heads: 5, ..text_config() };
    let message = TextTransformer::new(&config, &mut Init::blank(&device)).unwrap_err().to_string();
    assert!(message.contains("`textual.width` is 12; expected a multiple of heads = 5"), "{message}");
}

#[test]
fn inputs_of_another_shape_are_errors() {
    let device = Device::flex();
    let vit = Vit::new(&vit_config(), &mut Init::seeded(1, &device)).unwrap();
    let message = vit.forward(pixels(2, 16, &device)).unwrap_err().to_string();
    assert!(message.contains("`pixels` has shape [2, 3, 16, 16]; expected [B, 3, 12, 12]"), "{message}");
    let text = TextTransformer::new(&text_config(), &mut Init::seeded(1, &device)).unwrap();
    let long = [1, 2, 3, 4, 5, 6, 7, 8, 9, 29];
    let message = text.forward(tokens(&[&long], 29, &device)).unwrap_err().to_string();
    assert!(message.contains("1 <= L <= 9"), "{message}");
}

/// The last block computes only the row that is used. The reference has the same weights and one more block that
/// changes nothing (zero output maps), so that its second-to-last block runs on all rows.
#[test]
fn the_shortened_last_block_equals_the_full_one() {
    struct ParamCopy {
        from: BTreeMap<String, Tensor<1>>,
    }
    impl ParamVisitor for ParamCopy {
        fn visit<const D: usize>(&mut self, param: &ParamInfo<'_>, value: &Tensor<D>) {
            let count = value.shape().num_elements();
            self.from.insert(param.name.to_owned(), value.clone().reshape([count]));
        }
    }
    impl crate::params::ParamMapper for ParamCopy {
        fn map<const D: usize>(&mut self, param: &ParamInfo<'_>, value: Tensor<D>) -> Tensor<D> {
            match self.from.get(param.name) {
                Some(known) => known.clone().reshape(value.dims()),
                None => value.zeros_like(),
            }
        }
    }
    use std::collections::BTreeMap;
    let device = Device::flex();

    let vit = perturbed(Vit::new(&vit_config(), &mut Init::seeded(3, &device)).unwrap(), &device);
    let mut copy = ParamCopy { from: BTreeMap::new() };
    visit_params(&vit, &mut copy);
    let deeper = VitConfig { depth: 3, ..vit_config() };
    let slow = crate::params::map_params(Vit::new(&deeper, &mut Init::blank(&device)).unwrap(), &mut copy);
    let x = pixels(3, 12, &device);
    assert!(difference(&floats(vit.forward(x.clone()).unwrap()), &floats(slow.forward(x).unwrap())) < 2e-6);

    let text = perturbed(TextTransformer::new(&text_config(), &mut Init::seeded(3, &device)).unwrap(), &device);
    let mut copy = ParamCopy { from: BTreeMap::new() };
    visit_params(&text, &mut copy);
    let deeper = TextTransformerConfig { depth: 3, ..text_config() };
    let slow = crate::params::map_params(TextTransformer::new(&deeper, &mut Init::blank(&device)).unwrap(), &mut copy);
    let x = tokens(&[&[4, 8, 15, 16, 29], &[4, 29], &[4, 23, 29]], 29, &device);
    assert!(difference(&floats(text.forward(x.clone()).unwrap()), &floats(slow.forward(x).unwrap())) < 2e-6);
}

#[test]
fn tokens_after_the_end_have_no_effect() {
    let device = Device::flex();
    for device in [device.clone(), device.autodiff()] {
        let text = perturbed(TextTransformer::new(&text_config(), &mut Init::seeded(5, &device)).unwrap(), &device);
        let alone = floats(text.forward(tokens(&[&[4, 8, 29]], 29, &device)).unwrap());
        let padded = floats(text.forward(tokens(&[&[4, 8, 29], &[4, 9, 9, 9, 9, 29]], 29, &device)).unwrap());
        let rubbish = floats(text.forward(tokens(&[&[4, 8, 29, 11, 29, 3]], 29, &device)).unwrap());
        assert!(difference(&padded[..12], &alone) < 2e-6);
        assert!(difference(&rubbish, &alone) < 2e-6);
        // The tokens before the end change the features.
        let other = floats(text.forward(tokens(&[&[5, 8, 29]], 29, &device)).unwrap());
        assert!(difference(&other, &alone) > 1e-3);
    }
}

/// Forward passes with and without an autodiff graph give the same features.
#[test]
fn features_with_and_without_a_graph_agree() {
    let plain = Device::flex();
    let x = pixels(2, 12, &plain);
    let y = tokens(&[&[4, 8, 15, 29], &[4, 29]], 29, &plain);
    let vit = perturbed(Vit::new(&vit_config(), &mut Init::seeded(3, &plain.clone().autodiff())).unwrap(), &plain);
    let text = perturbed(
        TextTransformer::new(&text_config(), &mut Init::seeded(3, &plain.clone().autodiff())).unwrap(),
        &plain,
    );
    let with_graph = vit.forward(x.clone()).unwrap();
    assert!(with_graph.is_autodiff());
    let without_graph = vit.valid().forward(x).unwrap();
    assert!(!without_graph.is_autodiff());
    assert!(difference(&floats(with_graph), &floats(without_graph)) < 2e-6);
    let with_graph = text.forward(y.clone()).unwrap();
    assert!(difference(&floats(with_graph), &floats(text.valid().forward(y).unwrap())) < 2e-6);
}

/// Name, kind, published shape and gradient norm of every parameter of a module.
#[derive(Default)]
struct ParamCensus<'a> {
    gradients: Option<&'a burn::tensor::Gradients>,
    rows: Vec<(String, ParamKind, Vec<usize>, Option<f32>)>,
}

impl ParamVisitor for ParamCensus<'_> {
    fn visit<const D: usize>(&mut self, param: &ParamInfo<'_>, value: &Tensor<D>) {
        let mut shape = value.dims().to_vec();
        if param.transposed {
            shape.reverse();
        }
        let norm = self.gradients.and_then(|gradients| value.grad(gradients)).map(|gradient| {
            let squares = floats(gradient).iter().map(|x| x * x).sum::<f32>();
            squares.sqrt()
        });
        self.rows.push((param.name.to_owned(), param.kind, shape, norm));
    }
}

#[test]
fn every_trained_parameter_gets_a_finite_gradient_that_is_not_zero() {
    let device = Device::flex().autodiff();
    let vit = perturbed(Vit::new(&vit_config(), &mut Init::seeded(3, &device)).unwrap(), &device.clone().inner());
    let text = perturbed(
        TextTransformer::new(&text_config(), &mut Init::seeded(3, &device)).unwrap(),
        &device.clone().inner(),
    );
    let weighted = |features: Tensor<2>| {
        let [rows, width] = features.dims();
        let weights = Tensor::<1, Int>::arange(0..(rows * width) as i64, &device.clone().inner()).float().sin();
        (features * weights.reshape([rows, width])).sum()
    };
    let vit_gradients = weighted(vit.forward(pixels(2, 12, &device.clone().inner())).unwrap()).backward();
    let text_gradients = weighted(text.forward(tokens(&[&[4, 8, 15, 29], &[4, 29]], 29, &device)).unwrap()).backward();

    let mut census = ParamCensus { gradients: Some(&vit_gradients), rows: Vec::new() };
    visit_params(&vit, &mut census);
    let mut rows = census.rows;
    let mut census = ParamCensus { gradients: Some(&text_gradients), rows: Vec::new() };
    visit_params(&text, &mut census);
    rows.append(&mut census.rows);
    assert_eq!(rows.len(), 2 * (4 + 12 * 2 + 2) - 2, "both encoders, each with two blocks of twelve");
    for (name, kind, _, gradient) in rows {
        match kind {
            ParamKind::Fixed => assert_eq!(gradient, None, "{name}"),
            _ => {
                let gradient = gradient.unwrap_or_else(|| panic!("`{name}` has no gradient"));
                assert!(gradient.is_finite() && gradient > 1e-9, "`{name}`: {gradient}");
            }
        }
    }
}

/// The parameter names of MERU's released checkpoints, with the kind of each.
#[test]
fn names_shapes_and_kinds_are_the_published_ones() {
    use ParamKind::{Bias, Fixed, Norm, Weight};
    let device = Device::flex();
    let mut census = ParamCensus::default();
    visit_params(&Vit::new(&VitConfig { depth: 1, ..vit_config() }, &mut Init::blank(&device)).unwrap(), &mut census);
    let expected: &[(&str, ParamKind, &[usize])] = &[
        ("cls_token", Weight, &[1, 1, 16]),
        ("pos_embed", Fixed, &[1, 10, 16]),
        ("patch_embed.proj.weight", Weight, &[16, 3, 4, 4]),
        ("patch_embed.proj.bias", Bias, &[16]),
        ("blocks.0.norm1.weight", Norm, &[16]),
        ("blocks.0.norm1.bias", Norm, &[16]),
        ("blocks.0.attn.qkv.weight", Weight, &[48, 16]),
        ("blocks.0.attn.qkv.bias", Bias, &[48]),
        ("blocks.0.attn.proj.weight", Weight, &[16, 16]),
        ("blocks.0.attn.proj.bias", Bias, &[16]),
        ("blocks.0.norm2.weight", Norm, &[16]),
        ("blocks.0.norm2.bias", Norm, &[16]),
        ("blocks.0.mlp.fc1.weight", Weight, &[64, 16]),
        ("blocks.0.mlp.fc1.bias", Bias, &[64]),
        ("blocks.0.mlp.fc2.weight", Weight, &[16, 64]),
        ("blocks.0.mlp.fc2.bias", Bias, &[16]),
        ("norm.weight", Norm, &[16]),
        ("norm.bias", Norm, &[16]),
    ];
    check_census(census, expected);

    let mut census = ParamCensus::default();
    visit_params(
        &TextTransformer::new(&TextTransformerConfig { depth: 1, ..text_config() }, &mut Init::blank(&device)).unwrap(),
        &mut census,
    );
    let expected: &[(&str, ParamKind, &[usize])] = &[
        ("token_embed.weight", Weight, &[30, 12]),
        ("posit_embed", Weight, &[9, 12]),
        ("resblocks.0.attn.in_proj_weight", Weight, &[36, 12]),
        ("resblocks.0.attn.in_proj_bias", Bias, &[36]),
        ("resblocks.0.attn.out_proj.weight", Weight, &[12, 12]),
        ("resblocks.0.attn.out_proj.bias", Bias, &[12]),
        ("resblocks.0.ln_1.weight", Norm, &[12]),
        ("resblocks.0.ln_1.bias", Norm, &[12]),
        ("resblocks.0.mlp.c_fc.weight", Weight, &[48, 12]),
        ("resblocks.0.mlp.c_fc.bias", Bias, &[48]),
        ("resblocks.0.mlp.c_proj.weight", Weight, &[12, 48]),
        ("resblocks.0.mlp.c_proj.bias", Bias, &[12]),
        ("resblocks.0.ln_2.weight", Norm, &[12]),
        ("resblocks.0.ln_2.bias", Norm, &[12]),
        ("ln_final.weight", Norm, &[12]),
        ("ln_final.bias", Norm, &[12]),
    ];
    check_census(census, expected);
}

/// The names below `visual` in OpenAI's and open_clip's state dicts, with kinds.
#[test]
fn names_of_clip_vit_are_the_published_ones() {
    use ParamKind::{Bias, Norm, Weight};
    let config = VisualConfig::preset("clip_vit_nano").unwrap();
    let config = config.with("depth", 1).unwrap().with("mlp_ratio", 1.5).unwrap();
    let mut census = ParamCensus::default();
    visit_params(&config.build(&mut Init::blank(&Device::flex())).unwrap(), &mut census);
    let block = "transformer.resblocks.0.";
    let names: Vec<String> = ["attn.in_proj_weight", "attn.in_proj_bias", "attn.out_proj.weight", "attn.out_proj.bias"]
        .iter()
        .chain(&[
            "ln_1.weight",
            "ln_1.bias",
            "mlp.c_fc.weight",
            "mlp.c_fc.bias",
            "mlp.c_proj.weight",
            "mlp.c_proj.bias",
        ])
        .chain(&["ln_2.weight", "ln_2.bias"])
        .map(|name| format!("{block}{name}"))
        .collect();
    let kinds: [(ParamKind, &[usize]); 12] = [
        (Weight, &[384, 128]),
        (Bias, &[384]),
        (Weight, &[128, 128]),
        (Bias, &[128]),
        (Norm, &[128]),
        (Norm, &[128]),
        (Weight, &[192, 128]),
        (Bias, &[192]),
        (Weight, &[128, 192]),
        (Bias, &[128]),
        (Norm, &[128]),
        (Norm, &[128]),
    ];
    let mut expected: Vec<(&str, ParamKind, &[usize])> = vec![
        ("class_embedding", Weight, &[128]),
        ("positional_embedding", Weight, &[65, 128]),
        ("conv1.weight", Weight, &[128, 3, 8, 8]),
        ("ln_pre.weight", Norm, &[128]),
        ("ln_pre.bias", Norm, &[128]),
    ];
    expected.extend(names.iter().zip(kinds).map(|(name, (kind, shape))| (name.as_str(), kind, shape)));
    expected.extend([("ln_post.weight", Norm, &[128][..]), ("ln_post.bias", Norm, &[128])]);
    check_census(census, &expected);

    for (key, value, message) in [
        ("mlp_ratio", toml::Value::from(0.0), "`visual.mlp_ratio` is 0; expected above 0, at most 64"),
        ("mlp_ratio", f64::NAN.into(), "`visual.mlp_ratio` is NaN"),
        ("patch", 9.into(), "`visual.image_size` is 64; expected a multiple of patch = 9"),
        ("heads", 3.into(), "`visual.width` is 128; expected a multiple of heads = 3"),
    ] {
        let impossible = config.with(key, value).unwrap();
        let found = impossible.build(&mut Init::blank(&Device::flex())).unwrap_err().to_string();
        assert!(found.contains(message), "{message} in {found}");
    }
}

fn check_census(census: ParamCensus<'_>, expected: &[(&str, ParamKind, &[usize])]) {
    let found: Vec<_> =
        census.rows.iter().map(|(name, kind, shape, _)| (name.as_str(), *kind, shape.as_slice())).collect();
    assert_eq!(found, expected);
}

#[test]
fn initial_values_have_the_published_standard_deviations() {
    struct ParamSpread(std::collections::BTreeMap<String, (f64, f64)>);
    impl ParamVisitor for ParamSpread {
        fn visit<const D: usize>(&mut self, param: &ParamInfo<'_>, value: &Tensor<D>) {
            let values = floats(value.clone());
            let count = values.len() as f64;
            let variance = values.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / count;
            self.0.insert(param.name.to_owned(), (variance.sqrt(), (2.0 * count).powf(-0.5)));
        }
    }
    let device = Device::flex();
    let mut spread = ParamSpread(Default::default());
    let vit = VitConfig { image_size: 16, patch: 4, width: 64, depth: 2, heads: 2 };
    visit_params(&Vit::new(&vit, &mut Init::seeded(11, &device)).unwrap(), &mut spread);
    let text = TextTransformerConfig { vocabulary: 300, context: 40, width: 64, ..text_config() };
    let text = TextTransformerConfig { heads: 4, ..text };
    visit_params(&TextTransformer::new(&text, &mut Init::seeded(11, &device)).unwrap(), &mut spread);
    // timm: N(0, 0.02^2) linear, N(0, 1e-6^2) class token; convolution U(+-1/sqrt(fan in)), of standard deviation bound
    // / sqrt(3). CLIP: as its released text transformer is initialised, with W = 64 and L = 2.
    let (w, l) = (64_f64, 2_f64);
    for (name, std) in [
        ("cls_token", 1e-6),
        ("patch_embed.proj.weight", 48_f64.powf(-0.5) / 3_f64.sqrt()),
        ("blocks.1.attn.qkv.weight", 0.02),
        ("blocks.1.mlp.fc2.weight", 0.02),
        ("token_embed.weight", 0.02),
        ("posit_embed", 0.01),
        ("resblocks.1.attn.in_proj_weight", w.powf(-0.5)),
        ("resblocks.1.attn.out_proj.weight", (2.0 * w * l).powf(-0.5)),
        ("resblocks.1.mlp.c_proj.weight", (2.0 * w * l).powf(-0.5)),
        ("resblocks.1.mlp.c_fc.weight", (2.0 * w).powf(-0.5)),
        ("resblocks.1.mlp.c_fc.bias", w.powf(-0.5) / 3_f64.sqrt()),
    ] {
        let (found, error) = spread.0[name];
        // The tolerance is four standard errors of a standard deviation.
        assert!((found / std - 1.0).abs() < 4.0 * error, "`{name}`: {found}, expected {std}");
    }
    for name in
        ["blocks.0.attn.qkv.bias", "resblocks.0.attn.in_proj_bias", "resblocks.0.attn.out_proj.bias", "norm.bias"]
    {
        assert_eq!(spread.0[name].0, 0.0, "{name}");
    }
}

#[test]
fn the_seed_determines_every_initial_value() {
    let device = Device::flex();
    let first = |seed| {
        let text = TextTransformer::new(&text_config(), &mut Init::seeded(seed, &device)).unwrap();
        floats(text.forward(tokens(&[&[4, 8, 29]], 29, &device)).unwrap())
    };
    assert_eq!(first(1), first(1));
    assert_ne!(first(1), first(2));
}

#[test]
fn quick_gelu_is_its_formula() {
    let device = Device::flex();
    let x = [-3.0_f32, -1.0, -0.1, 0.0, 0.5, 2.0];
    let tensor = Tensor::<2>::from_data(TensorData::new(x.to_vec(), [1, 6]), &device);
    let quick = floats(conifer_kernels::quick_gelu(tensor.clone()));
    let exact = floats(conifer_kernels::gelu(tensor));
    for (i, &x) in x.iter().enumerate() {
        let expected = f64::from(x) / (1.0 + (-1.702 * f64::from(x)).exp());
        assert!((f64::from(quick[i]) - expected).abs() < 1e-6);
        // The two functions differ by up to 0.02, so the tolerance of 1e-6 for the first distinguishes them.
        assert!((f64::from(exact[i]) - expected).abs() < 0.03);
    }
    // 2 Phi(2) = 2 * 0.977249868 (a table of the normal distribution).
    assert!((exact[5] - 1.954_499_7).abs() < 1e-6);
}

#[test]
fn gradient_checkpointing_changes_no_gradient() {
    let config = vit_config();
    let x = pixels(2, 12, &Device::flex());
    let gradients = |device: Device| {
        let vit = Vit::new(&config, &mut Init::seeded(3, &device)).unwrap();
        let vit = perturbed(vit, &Device::flex());
        let loss = vit.forward(x.clone()).unwrap().powf_scalar(2.0).sum();
        let gradients = loss.backward();
        let mut census = ParamCensus { gradients: Some(&gradients), rows: Vec::new() };
        visit_params(&vit, &mut census);
        census.rows.into_iter().map(|(name, _, _, gradient)| (name, gradient)).collect::<Vec<_>>()
    };
    let kept = gradients(Device::flex().autodiff());
    let recomputed = gradients(Device::flex().autodiff().gradient_checkpointing());
    assert_eq!(kept, recomputed);
}
