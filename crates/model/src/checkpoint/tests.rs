//! Tests of round trips, of damaged files, and of the outputs of the published systems. The outputs are in
//! `../shared/goldens/checkpoints` (see the README there).
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};
use conifer_geometry::ManifoldSpec;
use safetensors::SafeTensors;

use super::published::{self, ImportOptions};
use super::*;
use crate::encoders::{TextTransformerConfig, TextualConfig, Tokens, VisualConfig, VitConfig};
use crate::head::{Head, HeadConfig, Tower};
use crate::model::{ModelConfig, PixelStatistics};
use crate::params::Init;

const GOLDENS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/goldens/checkpoints");
const MODELS: [&str; 4] = ["clip", "meru", "hycoclip", "phyclip"];

pub(super) fn golden(file: &str) -> Option<PathBuf> {
    let path = PathBuf::from(GOLDENS).join(file);
    if !path.exists() {
        eprintln!("skipped: ../shared/goldens/checkpoints/{file} not found");
        return None;
    }
    Some(path)
}

/// Both towers have four heads (README of the goldens). The tensors do not determine this number.
pub(super) fn options(method: &str) -> ImportOptions {
    ImportOptions {
        method: Some(method.to_owned()),
        visual_heads: Some(4),
        textual_heads: Some(4),
        ..ImportOptions::default()
    }
}

/// Inputs of the released model, and the outputs that it computed.
struct MeruGolden {
    tensors: BTreeMap<String, (Vec<usize>, Vec<f32>)>,
}

impl MeruGolden {
    fn read(path: &Path) -> Self {
        let bytes = fs::read(path).unwrap();
        let file = SafeTensors::deserialize(&bytes).unwrap();
        let tensors = file.tensors().into_iter().map(|(name, view)| {
            let values = match view.dtype() {
                safetensors::Dtype::I64 => {
                    view.data().chunks_exact(8).map(|b| i64::from_le_bytes(b.try_into().unwrap()) as f32).collect()
                }
                _ => view.data().chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect(),
            };
            (name, (view.shape().to_vec(), values))
        });
        Self { tensors: tensors.collect() }
    }

    fn get(&self, name: &str) -> &[f32] {
        &self.tensors[name].1
    }

    fn pixels(&self, name: &str) -> Tensor<4> {
        let (shape, values) = &self.tensors[name];
        let shape: [usize; 4] = shape.as_slice().try_into().unwrap();
        Tensor::from_data(TensorData::new(values.clone(), shape), &Device::flex())
    }

    /// The released model pools each text at the first position of its largest id, the end of text (599).
    fn tokens(&self, name: &str) -> Tokens {
        let (shape, values) = &self.tensors[name];
        let end = values
            .chunks(shape[1])
            .map(|row| row.iter().position(|&id| id == 599.0).unwrap() as i32)
            .collect::<Vec<_>>();
        let ids = values.iter().map(|&id| id as i32).collect::<Vec<_>>();
        Tokens {
            ids: Tensor::from_data(TensorData::new(ids, [shape[0], shape[1]]), &Device::flex()),
            end: Tensor::from_data(TensorData::new(end, [shape[0]]), &Device::flex()),
        }
    }
}

fn floats<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().iter::<f32>().collect()
}

/// `|a - b| / |b|`, over all elements.
fn relative(found: &[f32], expected: &[f32]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let square = |x: f64| x * x;
    let difference: f64 = found.iter().zip(expected).map(|(a, b)| square(f64::from(a - b))).sum();
    let size: f64 = expected.iter().map(|&b| square(f64::from(b))).sum();
    (difference / size).sqrt()
}

/// The projected vector and the point of every view; the file has them as `out.<view>.euclidean` and
/// `out.<view>.embedding`.
fn views(model: &Model, io: &MeruGolden) -> Vec<(&'static str, Tensor<2>, Tensor<2>)> {
    let image = |view, name| {
        let vector = model.encode_images(io.pixels(name)).unwrap();
        (view, vector.clone(), model.head.lift(vector, Tower::Image).unwrap())
    };
    let text = |view, name| {
        let vector = model.encode_texts(io.tokens(name)).unwrap();
        (view, vector.clone(), model.head.lift(vector, Tower::Text).unwrap())
    };
    vec![
        image("image", "in.pixels"),
        text("text", "in.tokens"),
        image("box_image", "in.box_pixels"),
        text("box_text", "in.box_tokens"),
    ]
}

fn check_views(model: &Model, io: &MeruGolden, what: &str) {
    for (view, vector, point) in views(model, io) {
        for (kind, found) in [("euclidean", vector), ("embedding", point)] {
            let error = relative(&floats(found), io.get(&format!("out.{view}.{kind}")));
            assert!(error < 1e-5, "{what}: {view}.{kind} is off by {error:e}");
        }
    }
}

#[test]
fn released_checkpoints_reproduce_their_outputs() {
    for name in MODELS {
        let (Some(pth), Some(io)) =
            (golden(&format!("{name}_nano.pth")), golden(&format!("{name}_nano.io.safetensors")))
        else {
            return;
        };
        let io = MeruGolden::read(&io);
        for device in [Device::flex(), Device::flex().autodiff()] {
            let (model, manifest) = published::import(&pth, &options(name), &device).unwrap();
            check_views(&model, &io, name);
            // The released HyCoCLIP subtracts the standard deviation instead of the mean, so its buffer for the mean
            // holds the standard deviations.
            let PixelStatistics { mean, std } = PixelStatistics::default();
            let mean = if name == "hycoclip" { std } else { mean };
            assert_eq!(manifest.model.pixels, PixelStatistics { mean, std }, "{name}");
            assert_eq!((manifest.texts.end_of_text, manifest.texts.padding), (599, 0));
            let space = match name {
                "clip" => ("sphere", 64, 1),
                "phyclip" => ("product_l1", 64, 8),
                _ => ("lorentz", 64, 1),
            };
            assert_eq!((manifest.manifold.kind.name(), manifest.manifold.dim, manifest.manifold.factors), space);
        }
    }
}

#[test]
fn fixed_positions_are_those_of_the_released_model() {
    let Some(pth) = golden("meru_nano.pth") else { return };
    let (model, _) = published::import(&pth, &options("meru"), &Device::flex()).unwrap();
    let fresh = Model::new(model.config(), model.head.clone(), &mut Init::seeded(0, &Device::flex())).unwrap();
    let (stored, computed) = (export(&model), export(&fresh));
    let error = relative(computed["visual.pos_embed"].floats().unwrap(), stored["visual.pos_embed"].floats().unwrap());
    assert!(error < 1e-6, "{error:e}");
    // Constant buffers follow from the architecture too.
    for buffer in ["textual.attn_mask", "pixel_mean", "pixel_std"] {
        assert_eq!(stored[buffer], computed[buffer], "{buffer}");
    }
}

#[test]
fn converting_a_released_checkpoint_and_back_changes_no_bit() {
    let folder = tempfile::tempdir().unwrap();
    for name in MODELS {
        let (Some(pth), Some(io)) =
            (golden(&format!("{name}_nano.pth")), golden(&format!("{name}_nano.io.safetensors")))
        else {
            return;
        };
        let (model, manifest) = published::import(&pth, &options(name), &Device::flex()).unwrap();
        let native = folder.path().join(name);
        save(&native, &model, &manifest, None).unwrap();
        let (loaded, read) = load(&native, &Device::flex()).unwrap();
        assert_eq!(read, manifest);
        check_views(&loaded, &MeruGolden::read(&io), name);

        let exported = folder.path().join(format!("{name}.safetensors"));
        published::export(&loaded, &exported, Precision::F32).unwrap();
        let (again, _) = published::import(&exported, &options(name), &Device::flex()).unwrap();
        let twice = folder.path().join(format!("{name}_again.safetensors"));
        published::export(&again, &twice, Precision::F32).unwrap();
        assert!(fs::read(&exported).unwrap() == fs::read(&twice).unwrap(), "{name}");
        assert!(fs::read(&exported).unwrap() == fs::read(native.join(WEIGHTS)).unwrap(), "{name}");

        // The export equals the released state dict: the same names and shapes and, for learned tensors, the same
        // numbers.
        let reader = pytorch_reader::PytorchReader::with_top_level_key(&pth, "model").unwrap();
        let weights = export(&loaded);
        let mut names: Vec<_> = reader.keys();
        names.sort();
        assert_eq!(names, weights.keys().cloned().collect::<Vec<_>>(), "{name}");
        for (key, array) in &weights {
            let stored = reader.get(key).unwrap();
            assert_eq!(stored.shape(), array.shape, "{name}: {key}");
            let inherited = name == "phyclip" && ["curv", "visual_alpha", "textual_alpha"].contains(&key.as_str());
            assert!(inherited || stored.read().unwrap() == array.to_le_bytes(), "{name}: {key}");
        }
    }
}

/// A small model with random weights, in any kind of space.
pub(super) fn small(space: &ManifoldSpec) -> (Model, Manifest) {
    let config = ModelConfig {
        visual: VisualConfig::Vit(VitConfig { image_size: 8, patch: 4, width: 8, depth: 1, heads: 2 }),
        textual: TextualConfig::TextTransformer(TextTransformerConfig {
            vocabulary: 20,
            context: 6,
            width: 8,
            depth: 1,
            heads: 2,
            mlp_ratio: 4.0,
            activation: crate::encoders::layers::ActivationFn::QuickGelu,
        }),
        pixels: PixelStatistics { mean: [0.5, 0.25, 0.125], std: [0.5; 3] },
        visual_adapter: None,
        textual_adapter: None,
        visual_lora: None,
        textual_lora: None,
    };
    let device = Device::flex();
    let head_config = HeadConfig::default();
    let head = Head::new(space, &head_config, &device).unwrap();
    let model = Model::new(&config, head, &mut Init::seeded(1, &device)).unwrap();
    let texts = TextFeed { tokenizer: None, end_of_text: 19, padding: 0 };
    let manifest = Manifest::new(&model, &head_config, "meru", texts);
    (model, manifest)
}

fn spaces() -> Vec<ManifoldSpec> {
    vec![
        ManifoldSpec::sphere(8),
        ManifoldSpec::euclidean(8),
        ManifoldSpec::lorentz(8, 0.7),
        ManifoldSpec::product_l2(2, 4, vec![0.5, 2.0]),
    ]
}

#[test]
fn oversized_manifests_are_rejected_before_allocation() {
    let folder = tempfile::tempdir().unwrap();
    let (model, mut manifest) = small(&ManifoldSpec::sphere(8));
    manifest.model.visual = manifest.model.visual.with("width", 1 << 20).unwrap();
    let path = folder.path().join("giant");
    save(&path, &model, &manifest, None).unwrap();
    let message = load(&path, &Device::flex()).unwrap_err().to_string();
    assert!(message.contains("manifest.toml") && message.contains("e12 numbers"), "{message}");
}

#[test]
fn every_kind_of_space_round_trips() {
    let folder = tempfile::tempdir().unwrap();
    for space in spaces() {
        let (model, mut manifest) = small(&space);
        manifest.root = Some((0..8).map(|i| f64::from(0.1_f32.powi(i))).collect());
        let path = folder.path().join(space.kind.name());
        save(&path, &model, &manifest, None).unwrap();
        for device in [Device::flex(), Device::flex().autodiff()] {
            let (loaded, read) = load(&path, &device).unwrap();
            assert_eq!(export(&loaded), export(&model), "{space:?}");
            assert_eq!(read, manifest);
            assert_eq!(loaded.devices()[0].is_autodiff(), device.is_autodiff());
        }
        // Saving over a checkpoint replaces it and leaves no temporary files.
        save(&path, &model, &manifest, None).unwrap();
    }
    let mut names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["euclidean", "lorentz", "product_l2", "sphere"]);
}

#[test]
fn a_single_feature_scale_is_exported_for_each_factor() {
    let space = ManifoldSpec::product_l1(2, 4, vec![1.0, 1.0]);
    let (model, _) = small(&space);
    let config = HeadConfig { feature_scale_per_factor: false, feature_scale: Some(0.25), ..HeadConfig::default() };
    let head = Head::new(&space, &config, &Device::flex()).unwrap();
    let model = Model::new(model.config(), head, &mut Init::seeded(1, &Device::flex())).unwrap();
    let weights = export(&model);
    for name in ["visual_alpha", "visual_concept_alphas.0", "visual_concept_alphas.1", "textual_concept_alphas.1"] {
        assert_eq!(weights[name], WeightArray::f32([], vec![0.25_f32.ln()]), "{name}");
    }
    // The tensors added for PyTorch are accepted on import.
    weights::import(model, weights, Path::new("x")).unwrap();
}

#[test]
fn three_temperatures_round_trip() {
    let folder = tempfile::tempdir().unwrap();
    let (model, manifest) = small(&ManifoldSpec::lorentz(8, 0.7));
    let head_config = HeadConfig { temperatures: vec![0.07, 0.05, 0.06], ..HeadConfig::default() };
    let head = Head::new(&manifest.manifold, &head_config, &Device::flex()).unwrap();
    let model = Model::new(model.config(), head, &mut Init::seeded(1, &Device::flex())).unwrap();
    let manifest = Manifest::new(&model, &head_config, "uncha", manifest.texts);
    let weights = export(&model);
    assert!(weights.contains_key("local_logit_scale") && !weights.contains_key("logit_scale"));

    let path = folder.path().join("model");
    save(&path, &model, &manifest, None).unwrap();
    let (loaded, read) = load(&path, &Device::flex()).unwrap();
    assert_eq!((export(&loaded), read), (export(&model), manifest));

    let path = folder.path().join("published.safetensors");
    published::export(&model, &path, Precision::F32).unwrap();
    let heads = ImportOptions { visual_heads: Some(2), textual_heads: Some(2), ..ImportOptions::default() };
    let (loaded, read) = published::import(&path, &heads, &Device::flex()).unwrap();
    assert_eq!((export(&loaded), read.method.as_str()), (weights, "uncha"));
}

#[test]
fn all_mismatched_weights_are_listed_in_one_message() {
    let (model, _) = small(&ManifoldSpec::lorentz(8, 1.0));
    let mut weights = export(&model);
    weights.remove("visual.norm.bias");
    weights.remove("curv");
    weights.insert("visual_proj.weight".into(), WeightArray::f32([8, 9], vec![0.0; 72]));
    weights.insert("logit_scale".into(), WeightArray::f32([], vec![f32::NAN]));
    weights.insert("visual.head.weight".into(), WeightArray::f32([1], vec![0.0]));
    weights.insert("pixel_mean".into(), WeightArray::f32([3, 1, 1], vec![0.0; 3]));
    let message = weights::import(model, weights, Path::new("some/file")).unwrap_err().to_string();
    for part in [
        "some/file: 6 tensors do not fit",
        "missing `visual.norm.bias` [8]",
        "missing `curv` []",
        "`visual_proj.weight` is [8, 9], expected [8, 8]",
        "`logit_scale` is [] F32([NaN]), expected one finite number",
        "unexpected `visual.head.weight` [1]",
        "`pixel_mean` is F32([0.0, 0.0, 0.0]), expected F32([0.5, 0.25, 0.125]) (manifest)",
    ] {
        assert!(message.contains(part), "{part} in {message}");
    }
}

#[test]
fn half_precision_is_widened() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("half.safetensors");
    // These are the bytes of 1.0, -2.0 and 0.5 as IEEE half and as bfloat16.
    let (half, brain) = ([0x00, 0x3c, 0x00, 0xc0, 0x00, 0x38], [0x80, 0x3f, 0x00, 0xc0, 0x00, 0x3f]);
    let view = |dtype, bytes| safetensors::tensor::TensorView::new(dtype, vec![3], bytes).unwrap();
    let views = [("f16", view(safetensors::Dtype::F16, &half)), ("bf16", view(safetensors::Dtype::BF16, &brain))];
    safetensors::serialize_to_file(views, None, &path).unwrap();
    for (name, array) in weights::load(&path).unwrap() {
        assert_eq!(array.floats().unwrap(), [1.0, -2.0, 0.5], "{name}");
    }
}

#[test]
fn damaged_checkpoints_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model");
    let (model, manifest) = small(&ManifoldSpec::lorentz(8, 1.0));
    let message = |change: &dyn Fn()| {
        let _ = fs::remove_dir_all(&path);
        save(&path, &model, &manifest, None).unwrap();
        change();
        load(&path, &Device::flex()).unwrap_err().to_string()
    };
    let edit = |from: &str, to: &str| {
        let file = path.join(MANIFEST);
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.contains(from), "{text}");
        fs::write(&file, text.replacen(from, to, 1)).unwrap();
    };
    let weights = path.join(WEIGHTS);
    for (message, expected) in [
        (message(&|| fs::remove_file(&weights).unwrap()), "weights.safetensors: No such file"),
        (
            message(&|| fs::write(&weights, &fs::read(&weights).unwrap()[..700]).unwrap()),
            "not a complete safetensors file (700 bytes)",
        ),
        (message(&|| fs::write(&weights, b"garbage").unwrap()), "not a complete safetensors file (7 bytes)"),
        (message(&|| fs::remove_file(path.join(MANIFEST)).unwrap()), "manifest.toml: No such file"),
        (message(&|| edit("format = 1", "format = 2")), "`format` is 2; expected 1"),
        (message(&|| edit("format = 1\n", "")), "`format` is absent; expected 1"),
        (message(&|| edit("method = ", "methode = ")), "unknown field `methode`"),
        (message(&|| edit("end_of_text = 19", "end_of_text = 'x'")), "invalid type: string"),
        (message(&|| edit("width = 8", "width = 12")), "`visual.cls_token` is [1, 1, 8], expected [1, 1, 12]"),
        (message(&|| edit("kind = \"lorentz\"", "kind = \"klein\"")), "klein"),
    ] {
        assert!(message.contains(expected), "{expected} in {message}");
    }
    let (_, manifest) = small(&ManifoldSpec::lorentz(8, 1.0));
    assert!(load_tokenizer(&path, &manifest).unwrap_err().to_string().contains("`texts.tokenizer` is absent"));
}

#[test]
fn a_failed_save_keeps_the_old_checkpoint_and_no_temporary_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model");
    let (model, manifest) = small(&ManifoldSpec::lorentz(8, 1.0));
    save(&path, &model, &manifest, None).unwrap();
    let before = fs::read(path.join(WEIGHTS)).unwrap();
    let full = |folder: &Path| {
        write(folder, &model, &manifest, None)?;
        Err(crate::Error::io(folder)(std::io::Error::from(std::io::ErrorKind::StorageFull)))
    };
    let message = replace_folder(&path, full).unwrap_err().to_string();
    assert!(message.contains("no storage space"), "{message}");
    assert_eq!(fs::read(path.join(WEIGHTS)).unwrap(), before);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_folder_that_is_no_checkpoint_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("photos");
    fs::create_dir(&path).unwrap();
    let (model, manifest) = small(&ManifoldSpec::lorentz(8, 1.0));
    fs::write(path.join("cat.jpg"), b"x").unwrap();
    let message = save(&path, &model, &manifest, None).unwrap_err().to_string();
    assert!(message.contains("expected an unused name, an empty folder or a checkpoint"), "{message}");
    fs::remove_file(path.join("cat.jpg")).unwrap();
    save(&path, &model, &manifest, None).unwrap();
}
