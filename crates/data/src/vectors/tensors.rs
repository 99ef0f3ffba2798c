//! Matrices in safetensors files.

use std::fs::File;

use safetensors::{Dtype, SafeTensors};

use super::{AcceptedShape, VectorElement, VectorMatrix, matrix, whole};
use crate::error::{Error, Result};
use crate::guard;

/// Reads the tensor `name`, or the only tensor if `name` is `None`.
pub(super) fn read(place: &str, file: File, name: Option<&str>, accepted: AcceptedShape) -> Result<VectorMatrix> {
    let bytes = whole(place, file)?;
    let invalid = |error: String| Error::format(place, error, "a complete safetensors file");
    let tensors = guard::catch_panic(|| SafeTensors::deserialize(&bytes))
        .map_err(invalid)?
        .map_err(|error| invalid(error.to_string()))?;
    let mut names = tensors.names();
    names.sort_unstable();
    let selected = match (name, &names[..]) {
        (Some(name), names) => names.contains(&name).then_some(name),
        (None, &[name]) => Some(name),
        (None, _) => None,
    };
    let Some(selected) = selected else {
        let found =
            name.map_or(format!("{} tensors, none selected", names.len()), |name| format!("no tensor `{name}`"));
        return Err(Error::format(place, found, format!("the name of one of: {}", names.join(", "))));
    };
    let place = format!("tensor `{selected}` of {place}");
    let tensor = tensors.tensor(selected).map_err(|error| invalid(error.to_string()))?;
    let element = match tensor.dtype() {
        Dtype::F16 => VectorElement::F16,
        Dtype::BF16 => VectorElement::Bf16,
        Dtype::F32 => VectorElement::F32,
        Dtype::F64 => VectorElement::F64,
        other => return Err(Error::format(&place, format!("numbers of type {other:?}"), "F16, BF16, F32 or F64")),
    };
    matrix(&place, element, tensor.shape(), accepted, tensor.data())
}
