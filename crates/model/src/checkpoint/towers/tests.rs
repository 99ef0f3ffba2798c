//! Image layouts and both towers of SigLIP, compared with tiny models that their libraries have written
//! (`fixtures/towers`, see RECIPE.md there).
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use burn::module::Module;
use burn::tensor::{Gradients, Tensor, TensorData};
use conifer_data::transform::EvalCrop;
use safetensors::{Dtype, SafeTensors};

use super::*;
use crate::encoders::Tokens;
use crate::params::{ParamInfo, ParamVisitor, visit_params};
use crate::weight_array::WeightArray;

const TOWERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/towers");

pub(super) fn folder(name: &str) -> PathBuf {
    PathBuf::from(TOWERS).join(name)
}

/// Inputs, outputs and gradients of the library.
pub(super) struct TowerGolden(BTreeMap<String, (Vec<usize>, Vec<f32>)>);

impl TowerGolden {
    pub(super) fn read(path: &Path) -> Self {
        let bytes = fs::read(path).unwrap();
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

    fn pixels(&self) -> Tensor<4> {
        let (shape, values) = &self.0["in.pixel_values"];
        let shape: [usize; 4] = shape.as_slice().try_into().unwrap();
        Tensor::from_data(TensorData::new(values.clone(), shape), &Device::flex())
    }

    /// The texts, cut after the longest one. Ids after the end of a text are replaced by 7, which must not affect the
    /// features.
    fn tokens(&self, end_of_text: u32) -> Tokens {
        let (shape, values) = &self.0["in.input_ids"];
        let rows: Vec<Vec<i32>> =
            values.chunks(shape[1]).map(|row| row.iter().map(|&id| id as i32).collect()).collect();
        let end = |row: &Vec<i32>| row.iter().position(|&id| id == end_of_text as i32).unwrap();
        let ends: Vec<usize> = rows.iter().map(end).collect();
        let length = ends.iter().max().unwrap() + 1;
        let mut ids = Vec::new();
        for (row, &end) in rows.iter().zip(&ends) {
            ids.extend((0..length).map(|i| if i > end { 7 } else { row[i] }));
        }
        let (count, ends) = (ends.len(), ends.into_iter().map(|end| end as i32).collect::<Vec<_>>());
        Tokens {
            ids: Tensor::from_data(TensorData::new(ids, [count, length]), &Device::flex()),
            end: Tensor::from_data(TensorData::new(ends, [count]), &Device::flex()),
        }
    }

    /// The tokens of each text, without padding.
    pub(super) fn token_rows(&self) -> Vec<Vec<u32>> {
        let (shape, ids) = &self.0["in.input_ids"];
        let (_, mask) = &self.0["in.attention_mask"];
        let kept = |(ids, mask): (&[f32], &[f32])| {
            ids.iter().zip(mask).filter(|(_, mask)| **mask != 0.0).map(|(id, _)| *id as u32).collect()
        };
        ids.chunks(shape[1]).zip(mask.chunks(shape[1])).map(kept).collect()
    }

    /// The sum whose gradients are stored: features times `in.loss_weights`, or the squares of the features.
    fn loss(&self, features: Tensor<2>) -> Tensor<1> {
        match self.0.get("in.loss_weights") {
            None => features.powf_scalar(2.0).sum(),
            Some((shape, values)) => {
                let data = TensorData::new(values.clone(), shape.clone());
                let weights = Tensor::<2>::from_data(data, &features.device());
                (features * weights).sum()
            }
        }
    }

    /// `|found - expected| / |expected|` over all elements.
    fn error(&self, name: &str, found: &[f32]) -> f64 {
        let expected = &self.0[name].1;
        assert_eq!(found.len(), expected.len(), "{name}");
        let square = |x: f32| f64::from(x).powi(2);
        let difference: f64 = found.iter().zip(expected).map(|(a, b)| square(a - b)).sum();
        (difference / expected.iter().map(|&b| square(b)).sum::<f64>()).sqrt()
    }

    /// Compares the features with and without autodiff, and every stored gradient.
    pub(super) fn check<E: Module>(&self, name: &str, read: impl Fn(&Device) -> E, forward: impl Fn(&E) -> Tensor<2>) {
        let floats = |tensor: Tensor<2>| tensor.into_data().iter::<f32>().collect::<Vec<_>>();
        let plain = self.error("out.features", &floats(forward(&read(&Device::flex()))));
        let encoder = read(&Device::flex().autodiff());
        let features = forward(&encoder);
        let trained = self.error("out.features", &floats(features.clone()));
        assert!(plain < 1e-5 && trained < 1e-5, "{name}: {plain:e}, {trained:e}");
        let mut finder = GradientFinder { gradients: self.loss(features).backward(), found: BTreeMap::new() };
        visit_params(&encoder, &mut finder);
        let keys: Vec<&String> = self.0.keys().filter(|key| key.starts_with("grad.")).collect();
        assert!(!keys.is_empty(), "{name} has no gradient");
        for key in keys {
            let gradient = self.error(key, &finder.found[key]);
            eprintln!("{name}: relative error {plain:.1e}, with autodiff {trained:.1e}, {key} {gradient:.1e}");
            assert!(gradient < 1e-4, "{name}: {key} is off by {gradient:e}");
        }
    }

    fn check_images(&self, name: &str, read: impl Fn(&Device) -> Result<ImageTower>) -> ImageTower {
        let forward = |encoder: &VisualEncoder| encoder.forward(self.pixels()).unwrap();
        self.check(name, |device| read(device).unwrap().encoder, forward);
        let tower = read(&Device::flex()).unwrap();
        // The config is complete: a checkpoint of conifer stores it as a table.
        let table = toml::Table::try_from(&tower.config).unwrap();
        assert_eq!(VisualConfig::try_from(table).unwrap(), tower.config);
        tower
    }
}

/// Gradients of all parameters in PyTorch's layout, by their names in a golden.
struct GradientFinder {
    gradients: Gradients,
    found: BTreeMap<String, Vec<f32>>,
}

impl ParamVisitor for GradientFinder {
    fn visit<const D: usize>(&mut self, param: &ParamInfo<'_>, value: &Tensor<D>) {
        if let Some(gradient) = value.grad(&self.gradients) {
            let gradient = if param.transposed { gradient.swap_dims(0, 1) } else { gradient };
            self.found.insert(format!("grad.{}", param.name), gradient.into_data().iter::<f32>().collect());
        }
    }
}

type ImageReader = fn(StateDict, &Path, &Device) -> Result<ImageTower>;

/// Folder, weights, layout, the marks of the layout, and the crop of the photographs.
const IMAGES: &[(&str, &str, ImageReader, &[&str], EvalCrop)] = &[
    ("resnet_basic", "model.pth", torchvision_resnet::read, torchvision_resnet::MARKS, EvalCrop::Center),
    ("resnet_bottleneck", "model.pth", torchvision_resnet::read, torchvision_resnet::MARKS, EvalCrop::Center),
    ("timm_resnet_basic", "model.safetensors", torchvision_resnet::read, torchvision_resnet::MARKS, EvalCrop::Center),
    (
        "timm_resnet_bottleneck",
        "model.safetensors",
        torchvision_resnet::read,
        torchvision_resnet::MARKS,
        EvalCrop::Center,
    ),
    ("timm_vit_dino", "model.pth", timm_vit::read, timm_vit::MARKS, EvalCrop::Center),
    ("timm_vit", "model.safetensors", timm_vit::read, timm_vit::MARKS, EvalCrop::Center),
    ("timm_vit", "mae.pth", timm_vit::read, timm_vit::MARKS, EvalCrop::Center),
    ("timm_vit_mean", "model.safetensors", timm_vit::read, timm_vit::MARKS, EvalCrop::Center),
    ("timm_vit_registers", "model.safetensors", timm_vit::read, timm_vit::MARKS, EvalCrop::Center),
    ("timm_convnext", "model.safetensors", timm_convnext::read, timm_convnext::MARKS, EvalCrop::Center),
    ("timm_convnext_conv_mlp", "model.safetensors", timm_convnext::read, timm_convnext::MARKS, EvalCrop::Center),
    ("hf_vit", "model.safetensors", hf_vit::read, hf_vit::MARKS, EvalCrop::Squeeze),
    ("hf_dinov2", "model.safetensors", hf_dinov2::read, hf_dinov2::MARKS, EvalCrop::Center),
    ("hf_dinov3", "model.safetensors", hf_dinov3::read, hf_dinov3::MARKS, EvalCrop::Squeeze),
    ("hf_dinov2_registers", "model.safetensors", hf_dinov2::read, hf_dinov2::MARKS, EvalCrop::Center),
];

#[test]
fn image_towers_reproduce_features_and_gradients() {
    for &(name, file, read, marks, crop) in IMAGES {
        let folder = folder(name);
        let stored = || StateDict::read(&folder.join(file)).unwrap();
        assert!(stored().has(marks), "{name}: no tensor has a name of its layout");
        let golden = TowerGolden::read(&folder.join("io.safetensors"));
        let tower = golden.check_images(&format!("{name}/{file}"), |device| read(stored(), &folder, device));
        let expected = match name {
            "hf_vit" => PixelStatistics { mean: [0.5; 3], std: [0.5; 3] },
            _ => PixelStatistics { mean: [0.5, 0.4, 0.3], std: [0.2, 0.25, 0.3] },
        };
        assert_eq!((tower.pixels, tower.images.crop), (expected, crop), "{name}");
    }
}

/// The marks of a layout are in no other layout, so they identify a file.
#[test]
fn marks_identify_their_layout() {
    for &(name, file, _, own, _) in IMAGES {
        let stored = StateDict::read(&folder(name).join(file)).unwrap();
        for &(_, _, _, marks, _) in IMAGES {
            assert_eq!(stored.has(marks), marks == own, "{name}: {marks:?}");
        }
        assert!(!stored.has(hf_siglip::IMAGE_MARKS) && !stored.has(hf_siglip::TEXT_MARKS), "{name}");
    }
}

#[test]
fn both_towers_of_siglip_reproduce_features_and_gradients() {
    let folder = folder("hf_siglip");
    let stored = || StateDict::read(&folder.join("model.safetensors")).unwrap();
    assert!(stored().has(hf_siglip::IMAGE_MARKS) && stored().has(hf_siglip::TEXT_MARKS));
    let golden = TowerGolden::read(&folder.join("io_images.safetensors"));
    let tower = golden.check_images("hf_siglip images", |device| hf_siglip::read(stored(), &folder, device));
    assert_eq!(tower.pixels, PixelStatistics { mean: [0.5; 3], std: [0.5; 3] });
    assert_eq!(tower.images.crop, EvalCrop::Squeeze);

    let golden = TowerGolden::read(&folder.join("io_texts.safetensors"));
    let read = |device: &Device| hf_siglip::read_texts(stored(), &folder, device).unwrap();
    let end = read(&Device::flex()).end_of_text.unwrap();
    assert_eq!(end, 1);
    let forward = |encoder: &TextualEncoder| encoder.forward(golden.tokens(end)).unwrap();
    golden.check("hf_siglip texts", |device| read(device).encoder, forward);
}

/// The message of a reader for a copy of a folder after changes to one of its JSON files and to its tensors.
fn damaged(
    name: &str,
    read: ImageReader,
    json: (&str, &dyn Fn(&mut serde_json::Value)),
    tensors: &dyn Fn(&mut StateDict),
) -> String {
    let copy = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(folder(name)).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    let path = copy.path().join(json.0);
    let mut value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    json.1(&mut value);
    fs::write(&path, value.to_string()).unwrap();
    let mut stored = StateDict::read(&copy.path().join("model.safetensors")).unwrap();
    tensors(&mut stored);
    read(stored, copy.path(), &Device::flex()).unwrap_err().to_string()
}

#[test]
fn unsupported_models_are_refused_with_the_reason() {
    let config = "config.json";
    let same = |_: &mut serde_json::Value| {};
    let keep = |_: &mut StateDict| {};
    let add = |name: &'static str| {
        move |stored: &mut StateDict| {
            stored.weights.insert(name.into(), WeightArray::f32([1], vec![1.0]));
        }
    };
    for (message, expected) in [
        (
            damaged("hf_dinov2", hf_dinov2::read, (config, &|it| it["use_swiglu_ffn"] = true.into()), &keep),
            "`use_swiglu_ffn` is true; expected false: gated feed-forward layers",
        ),
        (
            damaged("hf_dinov2", hf_dinov2::read, (config, &|it| it["num_attention_heads"] = 5.into()), &keep),
            "`visual.width` is 24; expected a multiple of heads = 5",
        ),
        (
            damaged(
                "hf_dinov2",
                hf_dinov2::read,
                ("preprocessor_config.json", &|it| it["crop_size"]["height"] = 48.into()),
                &keep,
            ),
            "`crop_size` is",
        ),
        (
            damaged(
                "hf_dinov2",
                hf_dinov2::read,
                ("preprocessor_config.json", &|it| it["crop_size"] = 1_000_000.into()),
                &keep,
            ),
            "125000 patches along one side; expected 1 to 512",
        ),
        (
            damaged("hf_siglip", hf_siglip::read, (config, &|it| it["model_type"] = "siglip2".into()), &keep),
            "`model_type` is siglip2; expected siglip or siglip_vision_model",
        ),
        (
            damaged("timm_vit", timm_vit::read, (config, &|it| it["model_args"] = serde_json::json!({})), &keep),
            "has tokens of width 24, with an unknown number of attention heads",
        ),
        (
            damaged("timm_vit", timm_vit::read, (config, &same), &add("attn_pool.latent")),
            "holds `attn_pool` tensors; expected a model pooled at the class token",
        ),
        (
            damaged("timm_vit", timm_vit::read, (config, &same), &add("norm_pre.weight")),
            "unexpected `norm_pre.weight` [1]",
        ),
        (
            damaged("timm_convnext", timm_convnext::read, (config, &same), &add("stages.0.blocks.0.mlp.grn.bias")),
            "holds `mlp.grn` tensors (ConvNeXt V2)",
        ),
        (
            damaged(
                "timm_convnext",
                timm_convnext::read,
                (config, &|it| it["pretrained_cfg"]["input_size"] = serde_json::json!([3, 40, 40])),
                &keep,
            ),
            "`visual.image_size` is 40; expected a multiple of 32",
        ),
        (
            damaged("hf_vit", hf_vit::read, (config, &same), &|stored| {
                stored.weights.remove("vit.encoder.layer.1.attention.attention.key.bias");
            }),
            "missing `encoder.layer.1.attention.attention.key.bias` [24]",
        ),
    ] {
        assert!(message.contains(expected), "{expected} in {message}");
    }
}

/// Without a config, sizes come from the tensors, and pixels are normalised with the statistics of ImageNet.
#[test]
fn files_of_torchvision_and_mae_need_no_config() {
    let empty = tempfile::tempdir().unwrap();
    let stored = StateDict::read(&folder("resnet_basic").join("model.pth")).unwrap();
    let tower = torchvision_resnet::read(stored, empty.path(), &Device::flex()).unwrap();
    assert_eq!((tower.config.reads().image_size, tower.pixels), (224, PixelStatistics::default()));
    // 24 is no published width, so the number of heads is unknown.
    let stored = StateDict::read(&folder("timm_vit").join("mae.pth")).unwrap();
    let message = timm_vit::read(stored, empty.path(), &Device::flex()).unwrap_err().to_string();
    assert!(message.contains("`model_args.num_heads` in config.json beside it"), "{message}");
}

/// The image tower of SigLIP 2; `text_tests` has its text tower.
#[test]
fn the_image_tower_of_siglip2_reproduces_features_and_gradients() {
    let folder = folder("hf_siglip2");
    let stored = || StateDict::read(&folder.join("model.safetensors")).unwrap();
    let golden = TowerGolden::read(&folder.join("io_images.safetensors"));
    let tower = golden.check_images("hf_siglip2 images", |device| hf_siglip::read(stored(), &folder, device));
    assert_eq!(
        (tower.pixels, tower.images.crop),
        (PixelStatistics { mean: [0.5; 3], std: [0.5; 3] }, EvalCrop::Squeeze)
    );
}

/// The config of the tokenizer takes precedence over the model's config, as SigLIP 2 needs.
#[test]
fn the_tokenizer_config_sets_padding_and_end() {
    let copy = tempfile::tempdir().unwrap();
    fs::copy(folder("hf_siglip").join("config.json"), copy.path().join("config.json")).unwrap();
    let tokenizer = serde_json::json!({
        "added_tokens_decoder": {"0": {"content": "<pad>"}, "1": {"content": "<eos>"}},
        "pad_token": "<pad>",
        "eos_token": {"content": "<eos>"},
    });
    fs::write(copy.path().join("tokenizer_config.json"), tokenizer.to_string()).unwrap();
    let stored = StateDict::read(&folder("hf_siglip").join("model.safetensors")).unwrap();
    let tower = hf_siglip::read_texts(stored, copy.path(), &Device::flex()).unwrap();
    let TextualConfig::SiglipText(config) = tower.config else { panic!("another encoder") };
    assert_eq!((config.padding, tower.end_of_text), (0, Some(1)));
}
