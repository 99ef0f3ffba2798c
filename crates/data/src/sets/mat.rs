//! MATLAB's MAT-files of version 5 (MathWorks, "MAT-File Format", level 5), as far as annotation files use them:
//! numbers, texts, cells and structs, compressed or not, of either byte order.

use std::fs;
use std::io::Read;
use std::path::Path;

use flate2::read::ZlibDecoder;

use crate::error::{Error, Result};

/// An array. Elements run down the columns first, as in the file.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    /// Of any numeric class.
    Numbers(Vec<f64>),
    /// A row of characters.
    Text(String),
    /// Arrays of any kind.
    Cells(Vec<Value>),
    /// The names of the fields, and the structs one after another, each with its fields in that order.
    Structs(Vec<String>, Vec<Value>),
    /// Sparse arrays, objects, functions.
    Other,
}

/// The array called `name` of a file.
///
/// # Errors
/// The file cannot be read, is of another format (version 7.3 is HDF5), ends early, or has no such array.
pub(super) fn read(path: &Path, name: &str) -> Result<Value> {
    let bytes = fs::read(path).map_err(Error::io("read", path))?;
    let place = || format!("`{}`", path.display());
    let arrays = parse(&bytes).map_err(|found| Error::format(place(), found, "a MAT-file of version 5"))?;
    let known = arrays.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
    match arrays.into_iter().find(|(found, _)| found == name) {
        Some((_, value)) => Ok(value),
        None => Err(Error::format(place(), format!("arrays {known}"), format!("an array `{name}`"))),
    }
}

impl Value {
    /// Its only number, where it has one.
    pub(super) fn number(&self) -> Option<f64> {
        match self {
            Self::Numbers(numbers) => numbers.first().copied().filter(|_| numbers.len() == 1),
            _ => None,
        }
    }

    /// Its text, where it is one.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

const COMPRESSED: u32 = 15;
const MATRIX: u32 = 14;

/// Arrays inside each other; annotation files have two levels.
const MAX_DEPTH: usize = 16;

type Named = (String, Value);

fn parse(bytes: &[u8]) -> Result<Vec<Named>, String> {
    let swapped = match bytes.get(126..128) {
        Some(b"IM") => false,
        Some(b"MI") => true,
        _ => return Err("no byte order mark at byte 126".to_owned()),
    };
    let mut input = Input { rest: bytes.get(128..).unwrap_or_default(), swapped };
    let mut arrays = Vec::new();
    while !input.rest.is_empty() {
        let (kind, data) = input.element()?;
        match kind {
            MATRIX => arrays.push(matrix(Input { rest: data, swapped }, 0)?),
            COMPRESSED => {
                let mut unpacked = Vec::new();
                ZlibDecoder::new(data).read_to_end(&mut unpacked).map_err(|error| error.to_string())?;
                let (kind, data) = Input { rest: &unpacked, swapped }.element()?;
                if kind == MATRIX {
                    arrays.push(matrix(Input { rest: data, swapped }, 0)?);
                }
            }
            // Data between the arrays has no name to ask for.
            _ => {}
        }
    }
    Ok(arrays)
}

fn matrix(mut input: Input<'_>, depth: usize) -> Result<Named, String> {
    if input.rest.is_empty() {
        return Ok((String::new(), Value::Numbers(Vec::new())));
    }
    if depth > MAX_DEPTH {
        return Err(format!("arrays nested more than {MAX_DEPTH} deep"));
    }
    let flags = input.numbers()?;
    let class = flags.first().map_or(0, |&flags| flags as u64 & 0xff);
    let count = input.numbers()?.iter().product::<f64>() as usize;
    let name = latin(input.element()?.1);
    let value = match class {
        1 => Value::Cells((0..count).map(|_| input.array(depth)).collect::<Result<_, _>>()?),
        2 => {
            let width = input.numbers()?.first().map_or(0, |&width| width as usize);
            let (_, names) = input.element()?;
            if width == 0 {
                return Err(format!("struct `{name}` with field names of length 0"));
            }
            let fields: Vec<_> = names.chunks(width).map(latin).collect();
            let values =
                (0..count.saturating_mul(fields.len())).map(|_| input.array(depth)).collect::<Result<_, _>>()?;
            Value::Structs(fields, values)
        }
        4 => Value::Text(input.text()?),
        6..=15 => Value::Numbers(input.numbers()?),
        _ => Value::Other,
    };
    Ok((name, value))
}

/// What is still to be read.
struct Input<'a> {
    rest: &'a [u8],
    swapped: bool,
}

impl<'a> Input<'a> {
    /// An array inside another.
    fn array(&mut self, depth: usize) -> Result<Value, String> {
        match self.element()? {
            (MATRIX, data) => Ok(matrix(Input { rest: data, swapped: self.swapped }, depth + 1)?.1),
            (kind, _) => Err(format!("data of type {kind} where an array was due")),
        }
    }

    /// Type and content of the next element: a tag of 8 bytes and data padded to 8, or both in 8 bytes.
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
        let (word, rest) = self.rest.split_first_chunk().ok_or("the end inside an element")?;
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
            _ => Err(format!("data of type {kind} where numbers were due")),
        }
    }

    /// Characters are bytes (UTF-8) or numbers (UTF-16, UTF-32).
    fn text(&mut self) -> Result<String, String> {
        let (kind, data) = Input { rest: self.rest, swapped: self.swapped }.element()?;
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
            _ => Err(format!("data of type {kind} where characters were due")),
        }
    }
}

/// A name: ASCII, filled up with zeros.
fn latin(bytes: &[u8]) -> String {
    bytes.iter().take_while(|&&byte| byte != 0).map(|&byte| char::from(byte)).collect()
}
