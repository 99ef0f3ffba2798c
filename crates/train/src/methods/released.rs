//! Compares losses and gradients with those of the published models on their own inputs
//! (`../shared/goldens/checkpoints`, see its README).
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use burn::tensor::{Device, Gradients, Tensor, TensorData};
use conifer_model::checkpoint::published::{self, ImportOptions};
use conifer_model::encoders::Tokens;
use conifer_model::params::{ParamInfo, ParamVisitor, visit_params};
use safetensors::{Dtype, SafeTensors};

use super::{BatchPoints, entry};

const GOLDENS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/goldens/checkpoints");

/// Shape and values of each tensor of a golden file; ids become floats.
type GoldenTensors = BTreeMap<String, (Vec<usize>, Vec<f32>)>;

/// Paths of the checkpoint `name` and of its inputs and outputs. Prints a note and returns `None` if one of them is
/// missing.
#[allow(clippy::print_stderr, reason = "a skipped test says so")]
fn golden(name: &str) -> Option<(PathBuf, PathBuf)> {
    let files = ["pth", "io.safetensors"].map(|ending| Path::new(GOLDENS).join(format!("{name}_nano.{ending}")));
    if let Some(missing) = files.iter().find(|path| !path.exists()) {
        eprintln!("skipped: {} not found", missing.display());
        return None;
    }
    Some(files.into())
}

fn read(path: &Path) -> GoldenTensors {
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
    tensors.collect()
}

fn pixels((shape, values): &(Vec<usize>, Vec<f32>)) -> Tensor<4> {
    let shape: [usize; 4] = shape.as_slice().try_into().unwrap();
    Tensor::from_data(TensorData::new(values.clone(), shape), &Device::flex())
}

/// The released model pools each text at the first position of its largest id, the end of text (599).
fn tokens((shape, values): &(Vec<usize>, Vec<f32>)) -> Tokens {
    let end = values.chunks(shape[1]).map(|row| row.iter().position(|&id| id == 599.0).unwrap() as i32);
    let end: Vec<i32> = end.collect();
    let ids: Vec<i32> = values.iter().map(|&id| id as i32).collect();
    Tokens {
        ids: Tensor::from_data(TensorData::new(ids, [shape[0], shape[1]]), &Device::flex()),
        end: Tensor::from_data(TensorData::new(end, [shape[0]]), &Device::flex()),
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

/// Gradients by published name, in PyTorch's layout.
struct NamedGradients<'a> {
    gradients: &'a Gradients,
    found: BTreeMap<String, Vec<f32>>,
}

impl ParamVisitor for NamedGradients<'_> {
    fn visit<const D: usize>(&mut self, param: &ParamInfo<'_>, value: &Tensor<D>) {
        if let Some(gradient) = value.grad(self.gradients) {
            let gradient = if param.transposed { gradient.swap_dims(0, 1) } else { gradient };
            let name = param.name.strip_prefix("head.").unwrap_or(param.name);
            self.found.insert(name.to_owned(), floats(gradient));
        }
    }
}

#[test]
fn released_checkpoints_reproduce_their_loss_and_gradients() {
    for name in ["clip", "meru", "hycoclip", "phyclip"] {
        let Some((pth, io)) = golden(name) else { return };
        let io = read(&io);
        // Both towers have four heads (README of the goldens). The tensors do not determine this number.
        let options = ImportOptions {
            method: Some(name.to_owned()),
            visual_heads: Some(4),
            textual_heads: Some(4),
            ..ImportOptions::default()
        };
        let (model, _) = published::import(&pth, &options, &Device::flex().autodiff()).unwrap();
        let method = (entry(name).unwrap().from_config)(&toml::from_str("reference = true").unwrap()).unwrap();
        let batch = BatchPoints {
            image: Some(model.embed_images(pixels(&io["in.pixels"])).unwrap()),
            text: Some(model.embed_texts(tokens(&io["in.tokens"])).unwrap()),
            box_image: Some(model.embed_images(pixels(&io["in.box_pixels"])).unwrap()),
            box_text: Some(model.embed_texts(tokens(&io["in.box_tokens"])).unwrap()),
            ..BatchPoints::default()
        };
        let loss = method.loss(&batch, &model.head.space().unwrap()).unwrap();
        let error = relative(&floats(loss.total.clone()), &io["out.loss"].1);
        assert!(error < 1e-5, "{name}: the loss is off by {error:e}");

        let gradients = loss.total.backward();
        let mut collect = NamedGradients { gradients: &gradients, found: BTreeMap::new() };
        visit_params(&model, &mut collect);
        let expected: Vec<_> = io.keys().filter_map(|key| key.strip_prefix("grad.")).collect();
        assert_eq!(expected.len(), 7, "{name}");
        for parameter in expected {
            let error = relative(&collect.found[parameter], &io[&format!("grad.{parameter}")].1);
            assert!(error < 1e-4, "{name}: the gradient of `{parameter}` is off by {error:e}");
        }
    }
}
