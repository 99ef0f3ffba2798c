//! Reads the tensors of a file that another system wrote: safetensors, or a pickle of `torch.save`.
//!
//! **Safety.** A `.pth` file is a pickle, which is a program for Python. It is never run here: `pytorch-reader`
//! interprets only the instructions that rebuild tensors and containers, checks the declared length of every storage
//! against the file, and keeps only the *name* of any other object. This module rejects a file that names such an
//! object, because Python would call it when loading the file. It also checks the total size of all tensors, and turns
//! a panic of the reader into an error.

use std::fs;
use std::path::{Path, PathBuf};

use burn::tensor::DType;
use conifer_data::guard;
use pytorch_reader::{DType as StoredType, PickleValue, PytorchReader};

use super::archive;
use super::weights;
use crate::weight_array::{WeightArray, Weights};
use crate::{Error, Result};

/// The state dict of one published file.
#[derive(Debug)]
pub(super) struct StateDict {
    /// Path of the file.
    pub(super) path: PathBuf,
    /// Tensors by their name in the state dict.
    pub(super) weights: Weights,
    /// Mean of all training embeddings, which CLIP checkpoints of the MERU family store beside the state dict.
    pub(super) root: Option<Vec<f64>>,
}

impl StateDict {
    /// Reads every tensor of the state dict in `path` except integer counters, as f32 or boolean.
    ///
    /// # Errors
    /// [`Error::Io`] if the file cannot be read; [`Error::Format`] for a file that is truncated, damaged, would run
    /// code, or holds an unsupported tensor type.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let mut weights = match path.extension().is_some_and(|extension| extension == "safetensors") {
            false => read_pickle(path)?,
            true => {
                let stored = weights::load_where(path, |name| !is_counter(name))?;
                let container = container(stored.keys());
                let own = |(name, array): (String, WeightArray)| Some((own_name(&name, container)?.to_owned(), array));
                stored.into_iter().filter_map(own).collect()
            }
        };
        let root = weights.remove(ROOT).and_then(|root| Some(root.floats()?.iter().map(|&x| f64::from(x)).collect()));
        Ok(Self { path: path.to_owned(), weights, root })
    }

    /// True if a tensor name begins with one of `marks`.
    pub(super) fn has(&self, marks: &[&str]) -> bool {
        self.weights.keys().any(|name| marks.iter().any(|mark| name.starts_with(mark)))
    }

    /// Looks up a tensor whose shape determines the architecture.
    ///
    /// # Errors
    /// [`Error::Format`] if it is missing.
    pub(super) fn get(&self, name: &str) -> Result<&WeightArray> {
        let expected = "expected it, because its shape determines the architecture";
        self.weights.get(name).ok_or_else(|| Error::format(&self.path, format!("holds no tensor `{name}`; {expected}")))
    }

    /// The shape of a tensor with `N` dimensions, none of them 0.
    ///
    /// # Errors
    /// The errors of [`StateDict::get`]; [`Error::Format`] for another number of dimensions, or a dimension of 0.
    pub(super) fn dims<const N: usize>(&self, name: &str) -> Result<[usize; N]> {
        let shape = self.get(name)?.shape.as_slice();
        match shape.try_into() {
            Ok(dims) if !shape.contains(&0) => Ok(dims),
            _ => Err(Error::format(&self.path, format!("`{name}` is {shape:?}; expected {N} dimensions"))),
        }
    }

    /// The number of blocks: one more than the largest index that follows `prefix` in a tensor name. At most the number
    /// of tensors, so that a huge index in a name is harmless.
    pub(super) fn depth(&self, prefix: &str) -> usize {
        let index = |name: &String| name.strip_prefix(prefix)?.split('.').next()?.parse::<usize>().ok();
        self.weights.keys().filter_map(index).max().map_or(0, |last| last.saturating_add(1).min(self.weights.len()))
    }

    /// Number of patches along one side, computed from the number of tokens in the position table `name`.
    ///
    /// # Errors
    /// [`Error::Format`] if the number of patches is not a square.
    pub(super) fn grid(&self, name: &str, tokens: usize) -> Result<usize> {
        let grid = tokens.saturating_sub(1).isqrt();
        if grid > 0 && grid * grid + 1 == tokens {
            return Ok(grid);
        }
        let detail = format!("`{name}` has {tokens} tokens; expected a square number plus 1 (the class token)");
        Err(Error::format(&self.path, detail))
    }
}

/// Prefixes of the model's state dict in a trainer's file, which also holds optimiser and scheduler: MERU's prefix, and
/// the prefix of open_clip and MoCo.
const CONTAINERS: [&str; 2] = ["model.", "state_dict."];

const ROOT: &str = "root";

fn read_pickle(path: &Path) -> Result<Weights> {
    let file_bytes = fs::metadata(path).map_err(Error::io(path))?.len();
    let unreadable = |error: String| Error::format(path, format!("not readable as a PyTorch checkpoint: {error}"));
    let unpacked = archive::unpacked_bytes(path).map_err(Error::io(path))?;
    if unpacked > 2 * file_bytes {
        let expected = format!("at most twice the {file_bytes} of the file (torch.save does not compress)");
        return Err(Error::format(path, format!("its compressed entries take {unpacked} bytes; expected {expected}")));
    }
    let content = guarded(|| PytorchReader::read_pickle_data(path, None)).map_err(unreadable)?;
    reject_code(path, &content, "")?;
    let tensors = guarded(|| PytorchReader::new(path)).map_err(unreadable)?.into_tensors();
    let container = container(tensors.keys());
    let own = tensors.iter().filter(|(name, _)| own_name(name, container).is_some());
    check_total(own.map(|(name, tensor)| (name.as_str(), tensor.shape(), tensor.dtype().size())), file_bytes)
        .map_err(|detail| Error::format(path, detail))?;
    let mut weights = Weights::new();
    for (name, tensor) in tensors {
        let Some(key) = own_name(&name, container) else { continue };
        let bytes = guarded(|| tensor.read()).map_err(|error| Error::format(path, error))?;
        let shape = tensor.shape().to_vec();
        let floats = |dtype| WeightArray::f32(shape.clone(), weights::wider(&bytes, dtype));
        let array = match tensor.dtype() {
            StoredType::F32 => floats(DType::F32),
            StoredType::F16 => floats(DType::F16),
            StoredType::BF16 => floats(DType::BF16),
            StoredType::F64 => floats(DType::F64),
            StoredType::Bool => WeightArray::bool(shape, bytes.iter().map(|&byte| byte != 0).collect()),
            other => {
                return Err(Error::format(
                    path,
                    format!("`{name}` holds {other:?}; expected a float or boolean tensor"),
                ));
            }
        };
        weights.insert(key.to_owned(), array);
    }
    Ok(weights)
}

/// Calls the reader and converts its panic into an error.
fn guarded<T, E: std::fmt::Display>(read: impl FnOnce() -> Result<T, E>) -> Result<T, String> {
    guard::catch_panic(read)?.map_err(|error| error.to_string())
}

/// Checks that the size of the tensors (name, shape, bytes per element) is plausible for a file of `file_bytes`, before
/// memory is allocated. A view can name more elements than its storage holds (stride 0), and many tensors can share one
/// storage. Two modules of a checkpoint may share weights, so all tensors together may take twice the size of the file.
fn check_total<'a>(
    tensors: impl Iterator<Item = (&'a str, &'a [usize], usize)>,
    file_bytes: u64,
) -> Result<(), String> {
    let mut total = 0.0;
    for (name, shape, element) in tensors {
        // Computed in f64, which does not overflow.
        let bytes = shape.iter().fold(element as f64, |product, side| product * *side as f64);
        if bytes > file_bytes as f64 {
            return Err(format!(
                "`{name}` is {shape:?}, {bytes:.0} bytes; expected at most the {file_bytes} of the file"
            ));
        }
        total += bytes;
    }
    match total <= 2.0 * file_bytes as f64 {
        true => Ok(()),
        false => Err(format!(
            "its tensors take {total:.0} bytes; expected at most twice the {file_bytes} of the file (a compressed one has to be saved \
             again with torch.save)"
        )),
    }
}

/// Name of a tensor within the state dict. `None` if the tensor is outside it or is an unused counter ([`is_counter`]).
/// `module.` is the prefix of a model that was wrapped for several GPUs.
fn own_name<'a>(name: &'a str, container: Option<&str>) -> Option<&'a str> {
    let key = match container {
        Some(_) if name == ROOT => name,
        Some(container) => name.strip_prefix(container)?,
        None => name,
    };
    let key = key.strip_prefix("module.").unwrap_or(key);
    (!is_counter(key)).then_some(key)
}

fn container<'a>(names: impl Iterator<Item = &'a String> + Clone) -> Option<&'static str> {
    CONTAINERS.into_iter().find(|container| names.clone().any(|name| name.starts_with(container)))
}

/// True for integer tensors that PyTorch stores with a model and conifer does not use: position indices, batch counts
/// of batch norms, and the write position in MoCo's queue.
fn is_counter(name: &str) -> bool {
    ["position_ids", "num_batches_tracked", "queue_ptr"].iter().any(|end| name.ends_with(end))
}

/// Rejects a pickle that contains anything other than tensors, containers and plain values.
fn reject_code(path: &Path, value: &PickleValue, location: &str) -> Result<()> {
    const DATA: &[&str] = &["torch.Tensor", "torch.TypedStorage", "torch.UntypedStorage"];
    let below = |key: &str| if location.is_empty() { key.to_owned() } else { format!("{location}.{key}") };
    match value {
        PickleValue::Unsupported(name) if !DATA.contains(&name.as_str()) => Err(Error::format(
            path,
            format!(
                "refers to the Python object `{name}` at `{location}`; expected tensors and plain values only. Loading it in Python could run \
                 code, so it is refused; nothing was run"
            ),
        )),
        PickleValue::List(items) => {
            items.iter().enumerate().try_for_each(|(i, item)| reject_code(path, item, &below(&i.to_string())))
        }
        PickleValue::Dict(entries) => entries.iter().try_for_each(|(key, entry)| reject_code(path, entry, &below(key))),
        _ => Ok(()),
    }
}
