//! Tensors by their published names: exports from and imports into a model, and reads and writes safetensors files.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use burn::module::Module;
use burn::tensor::{Tensor, TensorData};
use conifer_data::guard;
use conifer_geometry::ManifoldKind;
use half::bf16;
use safetensors::tensor::{Dtype, SafeTensors, View};

use super::safetensors_file;
use crate::head::Head;
use crate::model::Model;
use crate::params::{ParamInfo, ParamMapper, ParamVisitor, map_params, visit_params};
use crate::weight_array::{WeightArray, WeightValues, Weights};
use crate::{Error, Result};

/// Number of elements in all tensors.
pub(super) fn count(weights: &Weights) -> usize {
    weights.values().map(|array| array.shape.iter().product::<usize>()).sum()
}

/// Stored precision of the weights of a checkpoint. In memory they are always `f32`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// 4 bytes per number, exact.
    #[default]
    F32,
    /// 2 bytes per number for every matrix and kernel, rounded to 8 significant bits (relative error at most 2^-8).
    /// Tensors with at most one dimension above 1 (norms, biases, scalars, pixel statistics) stay `f32`: they are
    /// small, and a curvature must not change.
    Bf16,
}

impl Precision {
    /// True if this tensor is rounded.
    fn rounds(self, array: &WeightArray) -> bool {
        let long = array.shape.iter().filter(|&&side| side > 1).count();
        self == Precision::Bf16 && long > 1 && array.floats().is_some()
    }
}

/// A tensor to write and the precision of the checkpoint.
struct WeightArrayView<'a>(&'a WeightArray, Precision);

impl View for WeightArrayView<'_> {
    fn dtype(&self) -> Dtype {
        match self.0.values {
            WeightValues::F32(_) if self.1.rounds(self.0) => Dtype::BF16,
            WeightValues::F32(_) => Dtype::F32,
            WeightValues::Bool(_) => Dtype::BOOL,
        }
    }

    fn shape(&self) -> &[usize] {
        &self.0.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        match &self.0.values {
            WeightValues::F32(values) if self.1.rounds(self.0) => {
                values.iter().flat_map(|&value| bf16::from_f32(value).to_le_bytes()).collect()
            }
            _ => self.0.to_le_bytes().into(),
        }
    }

    fn data_len(&self) -> usize {
        match &self.0.values {
            WeightValues::F32(values) if self.1.rounds(self.0) => 2 * values.len(),
            WeightValues::F32(values) => 4 * values.len(),
            WeightValues::Bool(values) => values.len(),
        }
    }
}

/// All tensors of a published checkpoint of this architecture: parameters, the scalars of the head, and the constant
/// buffers that PyTorch's strict loading requires (`constants`).
pub fn export(model: &Model) -> Weights {
    let mut exporter = WeightExporter { weights: constants(model) };
    visit_params(model, &mut exporter);
    for scalar in model.head.scalars() {
        for (name, log) in scalar.names().iter().zip(scalar.log_values()) {
            exporter.weights.insert(name.clone(), WeightArray::f32([], vec![log]));
        }
    }
    exporter.weights
}

/// Parameters and statistics of any module, by name.
pub(crate) fn module_weights(module: &impl Module) -> Weights {
    let mut exporter = WeightExporter { weights: Weights::new() };
    visit_params(module, &mut exporter);
    exporter.weights
}

/// Names and published shapes of all tensors that [`import`] requires.
pub(super) fn shapes(model: &Model) -> Vec<(String, Vec<usize>)> {
    let mut shapes = shapes_of(model);
    let scalars = model.head.scalars().into_iter().flat_map(|scalar| scalar.names().to_vec());
    shapes.extend(scalars.map(|name| (name, Vec::new())));
    shapes
}

/// Names and published shapes of the parameters of any module.
pub(super) fn shapes_of(module: &impl Module) -> Vec<(String, Vec<usize>)> {
    struct ParamShapes(Vec<(String, Vec<usize>)>);
    impl ParamVisitor for ParamShapes {
        fn visit<const D: usize>(&mut self, param: &ParamInfo<'_>, value: &Tensor<D>) {
            if !is_head(param.name) {
                let mut shape = value.dims().to_vec();
                if param.transposed {
                    shape.reverse();
                }
                self.0.push((param.name.to_owned(), shape));
            }
        }
    }
    let mut shapes = ParamShapes(Vec::new());
    visit_params(module, &mut shapes);
    shapes.0
}

/// Imports stored values into any module. The caller has checked that they are finite and that no tensor is unexpected.
///
/// # Errors
/// [`Error::Weights`] listing every tensor that is missing or of another shape.
pub(super) fn import_module<M: Module>(module: M, mut weights: Weights, path: &Path) -> Result<M> {
    let mut importer = WeightImporter { weights: &mut weights, problems: Vec::new() };
    let module = map_params(module, &mut importer);
    match importer.problems {
        problems if problems.is_empty() => Ok(module),
        problems => Err(Error::Weights { path: path.to_owned(), problems }),
    }
}

/// Imports stored values into a model. Constant buffers in `weights` are optional and ignored, except that the pixel
/// statistics must equal those of the model.
///
/// # Errors
/// [`Error::Weights`] listing every tensor that is missing, unexpected, of another shape or not finite, and pixel
/// statistics that differ. `path` is used only in the message.
pub(super) fn import(model: Model, mut weights: Weights, path: &Path) -> Result<Model> {
    let bad =
        |array: &WeightArray| array.floats().and_then(|values| values.iter().copied().find(|value| !value.is_finite()));
    let infinite: Vec<_> = weights.iter().filter_map(|(name, array)| Some((name.clone(), bad(array)?))).collect();
    let constants = constants(&model);
    let mut importer = WeightImporter { weights: &mut weights, problems: Vec::new() };
    let mut model = map_params(model, &mut importer);
    let mut problems = importer.problems;
    model.head = import_head(model.head, &mut weights, &mut problems);
    for (name, array) in weights {
        match constants.get(&name) {
            None => problems.push(format!("unexpected `{name}` {:?}", array.shape)),
            Some(constant) if name.starts_with("pixel_") && *constant != array => {
                problems.push(format!("`{name}` is {:?}, expected {:?} (manifest)", array.values, constant.values));
            }
            Some(_) => {}
        }
    }
    // A scalar of the head that is not finite is already listed.
    for (name, value) in infinite {
        if !problems.iter().any(|problem| problem.contains(&format!("`{name}`"))) {
            problems.push(format!("`{name}` holds {value}, expected finite numbers"));
        }
    }
    match problems.is_empty() {
        true => Ok(model),
        false => Err(Error::Weights { path: path.to_owned(), problems }),
    }
}

/// Tensors of a published state dict that follow from the architecture: the causal mask, the pixel statistics and, for
/// a product space, the scalars that PHyCLIP's model inherits and never reads. A single feature scale is also written
/// once per factor, so that a published model with one scale per factor can load it.
fn constants(model: &Model) -> Weights {
    let mut weights = Weights::new();
    let pixels = model.config().pixels;
    weights.insert("pixel_mean".into(), WeightArray::f32([3, 1, 1], pixels.mean.to_vec()));
    weights.insert("pixel_std".into(), WeightArray::f32([3, 1, 1], pixels.std.to_vec()));
    for (name, array) in model.visual.buffers() {
        weights.insert(format!("visual.{name}"), array);
    }
    for (name, array) in model.textual.buffers() {
        weights.insert(format!("textual.{name}"), array);
    }
    let spec = model.head.spec();
    if matches!(spec.kind, ManifoldKind::ProductL1 | ManifoldKind::ProductL2) {
        let scalar = |log: f32| WeightArray::f32([], vec![log]);
        let initial_scale = -0.5 * (spec.dim as f32).ln();
        weights.insert("curv".into(), scalar(0.0));
        for side in ["visual", "textual"] {
            let single = format!("{side}_alpha");
            let logs = model.head.scalars().into_iter().find(|scalar| scalar.names() == [single.as_str()]);
            let log = logs.map_or(initial_scale, |scalar| scalar.log_values()[0]);
            weights.insert(single, scalar(log));
            for factor in 0..spec.factors {
                weights.insert(format!("{side}_concept_alphas.{factor}"), scalar(log));
            }
        }
    }
    weights
}

/// Writes `weights` as safetensors; the same weights give the same bytes. The file appears as a whole or not at all.
///
/// # Errors
/// [`Error::Io`] or [`Error::Files`] with the path.
pub fn save(weights: &Weights, path: &Path) -> Result<()> {
    save_as(weights, Precision::F32, path)
}

/// Like [`save`], in a given precision.
pub(super) fn save_as(weights: &Weights, precision: Precision, path: &Path) -> Result<()> {
    save_with(weights, precision, None, path)
}

/// Like [`save`], with the note `{"format": "pt"}` in the header, which `transformers` requires.
pub(super) fn save_for_torch(weights: &Weights, path: &Path) -> Result<()> {
    save_with(weights, Precision::F32, Some([("format".to_owned(), "pt".to_owned())].into()), path)
}

fn save_with(
    weights: &Weights,
    precision: Precision,
    note: Option<HashMap<String, String>>,
    path: &Path,
) -> Result<()> {
    let views = weights.iter().map(|(name, array)| (name.clone(), WeightArrayView(array, precision)));
    safetensors_file::write(views.collect(), note, path)
}

/// Reads a safetensors file; half precision and f64 become f32.
///
/// # Errors
/// [`Error::Io`] if the file cannot be read; [`Error::Format`] for a file that is truncated, damaged, or holds an
/// unsupported tensor type.
pub fn load(path: &Path) -> Result<Weights> {
    load_where(path, |_| true)
}

/// Like [`load`], for the tensors whose name `select` accepts.
pub(super) fn load_where(path: &Path, select: impl Fn(&str) -> bool) -> Result<Weights> {
    let bytes = fs::read(path).map_err(Error::io(path))?;
    let unreadable = |error: String| {
        Error::format(path, format!("not a complete safetensors file ({} bytes): {error}", bytes.len()))
    };
    let file = guard::catch_panic(|| SafeTensors::deserialize(&bytes))
        .map_err(unreadable)?
        .map_err(|error| unreadable(error.to_string()))?;
    file.iter()
        .filter(|(name, _)| select(name))
        .map(|(name, view)| {
            let shape = view.shape().to_vec();
            let array = match view.dtype() {
                Dtype::F32 => WeightArray::f32(shape, view.data().chunks_exact(4).map(le_f32).collect()),
                Dtype::BOOL => WeightArray::bool(shape, view.data().iter().map(|&byte| byte != 0).collect()),
                Dtype::F16 => WeightArray::f32(shape, wider(view.data(), burn::tensor::DType::F16)),
                Dtype::BF16 => WeightArray::f32(shape, wider(view.data(), burn::tensor::DType::BF16)),
                Dtype::F64 => WeightArray::f32(shape, wider(view.data(), burn::tensor::DType::F64)),
                other => {
                    return Err(Error::format(
                        path,
                        format!("`{name}` holds {other}; expected F32, F16, BF16, F64 or BOOL"),
                    ));
                }
            };
            Ok((name.to_owned(), array))
        })
        .collect()
}

fn le_f32(bytes: &[u8]) -> f32 {
    f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

/// Converts elements of float type `dtype` to f32.
pub(super) fn wider(bytes: &[u8], dtype: burn::tensor::DType) -> Vec<f32> {
    let count = bytes.len() / dtype.size();
    TensorData::from_bytes_vec(bytes.to_vec(), [count], dtype).iter::<f32>().collect()
}

/// True for parameters of the head, which are stored under their published names instead of their module paths.
fn is_head(name: &str) -> bool {
    name.starts_with("head.")
}

struct WeightExporter {
    weights: Weights,
}

impl ParamVisitor for WeightExporter {
    fn visit<const D: usize>(&mut self, param: &ParamInfo<'_>, value: &Tensor<D>) {
        if is_head(param.name) {
            return;
        }
        let shape = value.dims().to_vec();
        let floats: Vec<f32> = value.to_data().iter::<f32>().collect();
        let array = match param.transposed {
            true => WeightArray::f32([shape[1], shape[0]], transpose(&floats, shape[0], shape[1])),
            false => WeightArray::f32(shape, floats),
        };
        self.weights.insert(param.name.to_owned(), array);
    }
}

struct WeightImporter<'a> {
    weights: &'a mut Weights,
    problems: Vec<String>,
}

impl ParamMapper for WeightImporter<'_> {
    fn map<const D: usize>(&mut self, param: &ParamInfo<'_>, value: Tensor<D>) -> Tensor<D> {
        if is_head(param.name) {
            return value;
        }
        let mut expected = value.dims().to_vec();
        if param.transposed {
            expected.reverse();
        }
        let Some(array) = self.weights.remove(param.name) else {
            self.problems.push(format!("missing `{}` {expected:?}", param.name));
            return value;
        };
        let WeightValues::F32(floats) = array.values else {
            self.problems.push(format!("`{}` is boolean, expected f32", param.name));
            return value;
        };
        if array.shape != expected {
            self.problems.push(format!("`{}` is {:?}, expected {expected:?}", param.name, array.shape));
            return value;
        }
        let floats = match param.transposed {
            true => transpose(&floats, expected[0], expected[1]),
            false => floats,
        };
        Tensor::from_data(TensorData::new(floats, value.dims()), (&value.device(), value.dtype()))
    }
}

fn import_head(head: Head, weights: &mut Weights, problems: &mut Vec<String>) -> Head {
    let names: Vec<String> = head.scalars().into_iter().flat_map(|scalar| scalar.names().to_vec()).collect();
    let before = problems.len();
    let mut logs = BTreeMap::new();
    for name in names {
        match weights.remove(&name) {
            None => problems.push(format!("missing `{name}` []")),
            Some(array) => match array.floats() {
                // Some exporters store a scalar with one dimension.
                Some(&[log]) if array.shape.len() <= 1 && log.is_finite() => {
                    logs.insert(name, log);
                }
                _ => problems
                    .push(format!("`{name}` is {:?} {:?}, expected one finite number", array.shape, array.values)),
            },
        }
    }
    if problems.len() > before {
        return head;
    }
    let unchanged = head.clone();
    head.with_log_values(|name| Ok(logs[name])).unwrap_or_else(|error| {
        problems.push(error.to_string());
        unchanged
    })
}

/// Transposes `[rows, columns]` to `[columns, rows]`, block by block for the cache.
pub(super) fn transpose(values: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    const BLOCK: usize = 32;
    let mut out = vec![0.0; values.len()];
    for row_block in (0..rows).step_by(BLOCK) {
        for column_block in (0..columns).step_by(BLOCK) {
            for row in row_block..(row_block + BLOCK).min(rows) {
                for column in column_block..(column_block + BLOCK).min(columns) {
                    out[column * rows + row] = values[row * columns + column];
                }
            }
        }
    }
    out
}
