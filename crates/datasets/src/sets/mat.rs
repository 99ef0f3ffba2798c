//! Reader of MATLAB MAT-files, version 5 (MathWorks, "MAT-File Format", level 5). Supports what annotation files use:
//! numbers, text, cells and structs, compressed or not, in either byte order.

use std::fs;
use std::io::Read;
use std::path::Path;

use conifer_data::{Error, Result};
use flate2::read::ZlibDecoder;

/// An array, in column-major order.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum MatValue {
    /// A numeric array, converted to `f64`.
    Numbers(Vec<f64>),
    /// A character array.
    Text(String),
    /// A cell array.
    Cells(Vec<MatValue>),
    /// The field names, and the field values of all structs: struct by struct, in the order of the names.
    Structs(Vec<String>, Vec<MatValue>),
    /// Unsupported classes: sparse arrays, objects, functions.
    Other,
}

/// Reads the array `name` of a file.
///
/// # Errors
/// The file cannot be read, has another format (version 7.3 is HDF5), is truncated, or has no such array.
pub(super) fn read(path: &Path, name: &str) -> Result<MatValue> {
    let bytes = fs::read(path).map_err(Error::io("read", path))?;
    let place = || format!("`{}`", path.display());
    let arrays = parse(&bytes).map_err(|found| Error::format(place(), found, "a MAT-file of version 5"))?;
    let known = arrays.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
    match arrays.into_iter().find(|(found, _)| found == name) {
        Some((_, value)) => Ok(value),
        None => Err(Error::format(place(), format!("arrays {known}"), format!("an array `{name}`"))),
    }
}

impl MatValue {
    /// The number, if this is a single number.
    pub(super) fn number(&self) -> Option<f64> {
        match self {
            Self::Numbers(numbers) => numbers.first().copied().filter(|_| numbers.len() == 1),
            _ => None,
        }
    }

    /// The text, if this is a character array.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

const COMPRESSED: u32 = 15;
const MATRIX: u32 = 14;

/// Limit of the nesting depth. Annotation files have two levels.
const MAX_DEPTH: usize = 16;

type NamedArray = (String, MatValue);

fn parse(bytes: &[u8]) -> Result<Vec<NamedArray>, String> {
    let swapped = match bytes.get(126..128) {
        Some(b"IM") => false,
        Some(b"MI") => true,
        _ => return Err("no byte order mark at byte 126".to_owned()),
    };
    let mut input = MatReader { rest: bytes.get(128..).unwrap_or_default(), swapped };
    let mut arrays = Vec::new();
    while !input.rest.is_empty() {
        let (kind, data) = input.element()?;
        match kind {
            MATRIX => arrays.push(matrix(MatReader { rest: data, swapped }, 0)?),
            COMPRESSED => {
                let mut unpacked = Vec::new();
                ZlibDecoder::new(data).read_to_end(&mut unpacked).map_err(|error| error.to_string())?;
                let (kind, data) = MatReader { rest: &unpacked, swapped }.element()?;
                if kind == MATRIX {
                    arrays.push(matrix(MatReader { rest: data, swapped }, 0)?);
                }
            }
            // Elements of other types are not named arrays.
            _ => {}
        }
    }
    Ok(arrays)
}

fn matrix(mut input: MatReader<'_>, depth: usize) -> Result<NamedArray, String> {
    if input.rest.is_empty() {
        return Ok((String::new(), MatValue::Numbers(Vec::new())));
    }
    if depth > MAX_DEPTH {
        return Err(format!("arrays nested more than {MAX_DEPTH} deep"));
    }
    let flags = input.numbers()?;
    let class = flags.first().map_or(0, |&flags| flags as u64 & 0xff);
    let count = input.numbers()?.iter().product::<f64>() as usize;
    let name = latin(input.element()?.1);
    let value = match class {
        1 => MatValue::Cells((0..count).map(|_| input.array(depth)).collect::<Result<_, _>>()?),
        2 => {
            let width = input.numbers()?.first().map_or(0, |&width| width as usize);
            let (_, names) = input.element()?;
            if width == 0 {
                return Err(format!("struct `{name}` with field names of length 0"));
            }
            let fields: Vec<_> = names.chunks(width).map(latin).collect();
            let values =
                (0..count.saturating_mul(fields.len())).map(|_| input.array(depth)).collect::<Result<_, _>>()?;
            MatValue::Structs(fields, values)
        }
        4 => MatValue::Text(input.text()?),
        6..=15 => MatValue::Numbers(input.numbers()?),
        _ => MatValue::Other,
    };
    Ok((name, value))
}

/// The unread rest of the data.
struct MatReader<'a> {
    rest: &'a [u8],
    swapped: bool,
}

impl<'a> MatReader<'a> {
    fn array(&mut self, depth: usize) -> Result<MatValue, String> {
        match self.element()? {
            (MATRIX, data) => Ok(matrix(MatReader { rest: data, swapped: self.swapped }, depth + 1)?.1),
            (kind, _) => Err(format!("data of type {kind} instead of an array")),
        }
    }

    /// Reads the type and content of the next element: a tag of 8 bytes and data padded to 8 bytes, or both in 8 bytes.
    fn element(&mut self) -> Result<(u32, &'a [u8]), String> {
        let tag = self.word()?;
        let (kind, len, small) = match tag >> 16 {
            0 => (tag, self.word()? as usize, false),
            len => (tag & 0xffff, len as usize, true),
        };
        let padded = match (small, kind) {
            (true, _) => 4,
            (false, COMPRESSED) => len,
            (false, _) => len.next_multiple_of(8),
        };
        let have = self.rest.len();
        let data = self.rest.get(..len).filter(|_| !small || len <= 4);
        let data = data.ok_or_else(|| format!("{have} bytes at an element of {len}"))?;
        self.rest = &self.rest[padded.min(have)..];
        Ok((kind, data))
    }

    fn word(&mut self) -> Result<u32, String> {
        let (word, rest) = self.rest.split_first_chunk().ok_or("the file ends inside an element")?;
        self.rest = rest;
        Ok(if self.swapped { u32::from_be_bytes(*word) } else { u32::from_le_bytes(*word) })
    }

    fn numbers(&mut self) -> Result<Vec<f64>, String> {
        let swapped = self.swapped;
        let (kind, data) = self.element()?;
        macro_rules! read {
            ($type:ty) => {{
                let (items, _) = data.as_chunks::<{ size_of::<$type>() }>();
                let one = |it: &[u8; size_of::<$type>()]| {
                    (if swapped { <$type>::from_be_bytes(*it) } else { <$type>::from_le_bytes(*it) }) as f64
                };
                Ok(items.iter().map(one).collect())
            }};
        }
        match kind {
            1 => read!(i8),
            2 => read!(u8),
            3 => read!(i16),
            4 => read!(u16),
            5 => read!(i32),
            6 => read!(u32),
            7 => read!(f32),
            9 => read!(f64),
            12 => read!(i64),
            13 => read!(u64),
            _ => Err(format!("data of type {kind} instead of numbers")),
        }
    }

    /// Reads characters, stored as bytes (UTF-8) or 16-bit units (UTF-16).
    fn text(&mut self) -> Result<String, String> {
        let (kind, data) = MatReader { rest: self.rest, swapped: self.swapped }.element()?;
        match kind {
            1 | 2 | 16 => {
                self.element()?;
                Ok(String::from_utf8_lossy(data).into_owned())
            }
            4 | 17 => {
                let (units, _) = data.as_chunks::<2>();
                let unit = |it: &[u8; 2]| if self.swapped { u16::from_be_bytes(*it) } else { u16::from_le_bytes(*it) };
                let text = char::decode_utf16(units.iter().map(unit)).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER));
                let text = text.collect();
                self.element()?;
                Ok(text)
            }
            _ => Err(format!("data of type {kind} instead of characters")),
        }
    }
}

/// A name: ASCII, padded with zeros.
fn latin(bytes: &[u8]) -> String {
    bytes.iter().take_while(|&&byte| byte != 0).map(|&byte| char::from(byte)).collect()
}
