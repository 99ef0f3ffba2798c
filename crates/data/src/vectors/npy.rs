//! NumPy's `.npy` format, versions 1.0 and 2.0.
//! (<https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>)

use std::io::Read;

use super::{AcceptedShape, VectorElement, VectorMatrix, matrix};
use crate::error::{Error, Result};

const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// Maximum length of the header in bytes. The header of an array of numbers has about 100 bytes.
const MAX_HEADER: usize = 1 << 16;
/// Expected content of the file, for messages.
const EXPECTED: &str = "an array of numbers written by numpy.save";

pub(super) fn read(place: &str, mut input: impl Read, accepted: AcceptedShape) -> Result<VectorMatrix> {
    let (element, shape) = header(place, &mut input)?;
    matrix(place, element, &shape, accepted, input)
}

fn header(place: &str, input: &mut impl Read) -> Result<(VectorElement, Vec<usize>)> {
    let mut bytes = |count: usize| -> Result<Vec<u8>> {
        let mut bytes = vec![0; count];
        input.read_exact(&mut bytes).map_err(|error| Error::format(place, error.to_string(), EXPECTED))?;
        Ok(bytes)
    };
    let start = bytes(8)?;
    if !start.starts_with(MAGIC) {
        return Err(Error::format(place, "no .npy header", EXPECTED));
    }
    let length = match (start[6], start[7]) {
        (1, _) => little_endian(&bytes(2)?),
        (2, _) => little_endian(&bytes(4)?),
        (major, minor) => {
            return Err(Error::format(place, format!("version {major}.{minor} of .npy"), "version 1.0 or 2.0"));
        }
    };
    if length > MAX_HEADER {
        return Err(Error::format(place, format!("a header of {length} bytes"), format!("at most {MAX_HEADER}")));
    }
    let header = String::from_utf8_lossy(&bytes(length)?).into_owned();
    let value = |name: &str| {
        let after = header.split_once(&format!("'{name}':")).map(|(_, after)| after.trim_start());
        after.ok_or_else(|| Error::format(place, format!("the header {:?} has no `{name}`", header.trim()), EXPECTED))
    };
    let kind = value("descr")?;
    let element = match kind.strip_prefix('\'').and_then(|it| it.split_once('\'')).map(|(kind, _)| kind) {
        Some("<f2") => VectorElement::F16,
        Some("<f4") => VectorElement::F32,
        Some("<f8") => VectorElement::F64,
        other => {
            let found = other.map_or("an array of records".to_owned(), |kind| format!("numbers of type `{kind}`"));
            let expected = "little-endian floats: `<f4`, `<f2` or `<f8` (numpy: x.astype(\"<f4\"))";
            return Err(Error::format(place, found, expected));
        }
    };
    if !value("fortran_order")?.starts_with("False") {
        let expected = "an array in C order (numpy: numpy.ascontiguousarray(x))";
        return Err(Error::format(place, "an array in Fortran order", expected));
    }
    let sides = value("shape")?.strip_prefix('(').and_then(|it| it.split_once(')')).map(|(sides, _)| sides);
    let sides = sides.unwrap_or_default().split(',').map(str::trim).filter(|side| !side.is_empty());
    let shape = sides.map(|side| side.parse().map_err(|_| Error::format(place, format!("side `{side}`"), EXPECTED)));
    Ok((element, shape.collect::<Result<_>>()?))
}

fn little_endian(bytes: &[u8]) -> usize {
    bytes.iter().rev().fold(0, |sum, &byte| (sum << 8) | usize::from(byte))
}
