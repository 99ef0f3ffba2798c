//! Vectors that another program computed: matrices in `.npy`, `.npz`, `.safetensors` and `.parquet` files, and the
//! vectors of texts.

mod npy;
mod npz;
mod parquet;
mod shared;
mod tensors;
#[cfg(test)]
mod tests;
mod texts;

use std::fs::File;
use std::io::{BufReader, ErrorKind, Read};
use std::path::Path;

use half::{bf16, f16};

pub(crate) use self::parquet::read_rows;
#[cfg(test)]
pub(crate) use self::parquet::tests as parquet_fixtures;
pub use self::parquet::{NamedVectors, read_named};
pub use shared::SharedVector;
pub use texts::TextVectors;
pub(crate) use texts::le_bytes;

use crate::error::{Error, Result};
use crate::files::open_regular;

/// Maximum number of values of a vector.
pub const MAX_WIDTH: usize = 1 << 16;

/// Number of bytes that are converted at once.
const CHUNK_BYTES: usize = 1 << 20;

/// Vectors of equal width, one per row. Every value is finite.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VectorMatrix {
    width: usize,
    /// Values of all vectors, row-major.
    values: Vec<f32>,
}

/// Stored number format, little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum VectorElement {
    F16,
    Bf16,
    F32,
    F64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AcceptedShape {
    /// `[rows, width]`.
    Matrix,
    /// `[width]` or `[1, width]`.
    OneVector,
}

impl VectorMatrix {
    /// A matrix of `values`, row-major. `None` if `width` is not in `1..=MAX_WIDTH`, if the number of values is not a
    /// multiple of `width`, or if a value is not finite.
    pub fn new(width: usize, values: Vec<f32>) -> Option<Self> {
        let fits = (1..=MAX_WIDTH).contains(&width) && values.len().is_multiple_of(width);
        (fits && values.iter().all(|value| value.is_finite())).then_some(Self { width, values })
    }

    /// Reads a matrix from a `.npy`, `.npz`, `.safetensors` or `.parquet` file. `name` selects an array or column of a
    /// file that holds several.
    ///
    /// # Errors
    /// The file cannot be read, is truncated or has another format; the array does not have two dimensions, is not of
    /// float16, bfloat16, float32 or float64, or is not in C order; a value is not finite. The message names the row.
    pub fn read(path: &Path, name: Option<&str>) -> Result<Self> {
        read(path, name, AcceptedShape::Matrix)
    }

    /// Reads a single vector from a `.npy`, `.npz` or `.safetensors` file: an array with one dimension, or with one
    /// row.
    ///
    /// # Errors
    /// The errors of [`VectorMatrix::read`].
    pub fn read_one(path: &Path) -> Result<Vec<f32>> {
        Ok(read(path, None, AcceptedShape::OneVector)?.values)
    }

    /// Number of values per vector.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Number of vectors.
    pub fn len(&self) -> usize {
        self.values.len().checked_div(self.width).unwrap_or(0)
    }

    /// True if the matrix has no vectors.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Vector `index`; `None` if `index` is `len()` or more.
    pub fn row(&self, index: usize) -> Option<&[f32]> {
        let start = index.checked_mul(self.width)?;
        self.values.get(start..start.checked_add(self.width)?).filter(|row| !row.is_empty())
    }

    /// The vectors in order.
    pub fn rows(&self) -> impl Iterator<Item = &[f32]> {
        self.values.chunks_exact(self.width.max(1))
    }
}

fn read(path: &Path, name: Option<&str>, accepted: AcceptedShape) -> Result<VectorMatrix> {
    let place = format!("`{}`", path.display());
    let open = || open_regular(path).map_err(Error::io("read", path));
    let extension = path.extension().and_then(|it| it.to_str()).unwrap_or_default().to_ascii_lowercase();
    match extension.as_str() {
        "npy" => {
            if let Some(name) = name {
                let expected = "no name, because a .npy file holds one array";
                return Err(Error::format(place, format!("array `{name}` was selected"), expected));
            }
            npy::read(&place, BufReader::with_capacity(CHUNK_BYTES, open()?), accepted)
        }
        "npz" => npz::read(&place, open()?, name, accepted),
        "safetensors" => tensors::read(&place, open()?, name, accepted),
        "parquet" if accepted == AcceptedShape::Matrix => Ok(read_named(path, name)?.matrix),
        _ => {
            let found = if path.is_dir() { "a folder".to_owned() } else { format!("a file of type `{extension}`") };
            let expected = match accepted {
                AcceptedShape::Matrix => "vectors in a .npy, .npz, .safetensors or .parquet file",
                AcceptedShape::OneVector => "a vector in a .npy, .npz or .safetensors file",
            };
            Err(Error::format(place, found, expected))
        }
    }
}

/// Reads an array of this shape from `input` until its end.
fn matrix(
    place: &str,
    element: VectorElement,
    shape: &[usize],
    accepted: AcceptedShape,
    mut input: impl Read,
) -> Result<VectorMatrix> {
    let shown = shape.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
    let (rows, width) = match (accepted, shape) {
        (AcceptedShape::Matrix, &[rows, width]) => (rows, width),
        (AcceptedShape::OneVector, &[width] | &[1, width]) => (1, width),
        (AcceptedShape::Matrix, _) => {
            let expected = "two dimensions [rows, width], one row per photo or text";
            return Err(Error::format(place, format!("an array of shape [{shown}]"), expected));
        }
        (AcceptedShape::OneVector, _) => {
            return Err(Error::format(
                place,
                format!("an array of shape [{shown}]"),
                "one vector: [width] or [1, width]",
            ));
        }
    };
    if !(1..=MAX_WIDTH).contains(&width) || !(1..=u32::MAX as usize).contains(&rows) {
        let expected = format!("at least one row, and a width of 1 to {MAX_WIDTH}");
        return Err(Error::format(place, format!("an array of shape [{shown}]"), expected));
    }
    let size = element.size();
    let Some(total) = rows.checked_mul(width).and_then(|count| count.checked_mul(size)) else {
        return Err(Error::format(place, format!("an array of shape [{shown}]"), "fewer than 2^63 bytes"));
    };
    // The capacity is bounded, because the header of a damaged file can name any size.
    let mut values: Vec<f32> = Vec::with_capacity((total / size).min(1 << 26));
    let mut bytes = vec![0; CHUNK_BYTES.min(total)];
    let mut done = 0;
    while done < total {
        let chunk = bytes.len().min(total - done);
        let chunk = &mut bytes[..chunk];
        input.read_exact(chunk).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => {
                Error::format(place, "the file ends within the array", format!("{total} bytes for shape [{shown}]"))
            }
            _ => Error::format(place, error.to_string(), "a readable array"),
        })?;
        element.convert(chunk, &mut values);
        done += chunk.len();
    }
    match input.read(&mut [0]) {
        Ok(0) => {}
        Ok(_) => {
            let expected = format!("{total} bytes for shape [{shown}]");
            return Err(Error::format(place, "more bytes after the array", expected));
        }
        Err(error) => return Err(Error::format(place, error.to_string(), "a readable array")),
    }
    finite_matrix(place, width, values)
}

/// Makes a matrix of row-major `values`. The error names the first value that is not finite.
fn finite_matrix(place: &str, width: usize, values: Vec<f32>) -> Result<VectorMatrix> {
    if let Some(at) = values.iter().position(|value| !value.is_finite()) {
        let found = format!("row {}, column {} is {}", at / width, at % width, values[at]);
        return Err(Error::format(place, found, "finite numbers within the range of float32"));
    }
    Ok(VectorMatrix { width, values })
}

impl VectorElement {
    /// Size of a number in bytes, which divides [`CHUNK_BYTES`].
    fn size(self) -> usize {
        match self {
            Self::F16 | Self::Bf16 => 2,
            Self::F32 => 4,
            Self::F64 => 8,
        }
    }

    fn convert(self, bytes: &[u8], values: &mut Vec<f32>) {
        fn each<const N: usize>(bytes: &[u8], values: &mut Vec<f32>, number: impl Fn([u8; N]) -> f32) {
            values.extend(bytes.chunks_exact(N).filter_map(|it| it.try_into().ok()).map(number));
        }
        match self {
            Self::F16 => each(bytes, values, |it| f16::from_le_bytes(it).to_f32()),
            Self::Bf16 => each(bytes, values, |it| bf16::from_le_bytes(it).to_f32()),
            Self::F32 => each(bytes, values, f32::from_le_bytes),
            Self::F64 => each(bytes, values, |it| f64::from_le_bytes(it) as f32),
        }
    }
}

fn whole(place: &str, mut file: File) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(|error| Error::format(place, error.to_string(), "a readable file"))?;
    Ok(bytes)
}
