//! What a number of a set takes on disk, and the header of the file of points.

use half::{bf16, f16};
use safetensors::tensor::Dtype;

use super::Manifest;

/// How a component is stored. In memory it is always `f32`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Element {
    /// 4 bytes, exactly what was computed.
    #[default]
    F32,
    /// 2 bytes with 11 significant bits, from 6.1e-5 to 65,504: off by at most 2^-11 = 0.05 % of the number (by 3e-8 below that range).
    F16,
    /// 2 bytes with 8 significant bits and the range of `f32`: off by at most 2^-8 = 0.4 % of the number.
    BF16,
}

/// Bytes of length and header together: one size for every number of rows, so that the header of a file in the making can be written
/// last; a multiple of 64, so that the numbers are aligned in a file that is mapped.
pub(super) const HEADER: usize = 256;

impl Element {
    /// Every kind, with its name in files.
    pub(super) const ALL: [(Element, Dtype, &str); 3] =
        [(Element::F32, Dtype::F32, "F32"), (Element::F16, Dtype::F16, "F16"), (Element::BF16, Dtype::BF16, "BF16")];

    /// The kind of a stored tensor, if points may have it.
    pub(super) fn of(dtype: Dtype) -> Option<Self> {
        Self::ALL.iter().find(|(_, known, _)| *known == dtype).map(|(element, ..)| *element)
    }

    /// Bytes of a number.
    pub fn size(self) -> usize {
        match self {
            Element::F32 => 4,
            Element::F16 | Element::BF16 => 2,
        }
    }

    /// As in the header of a safetensors file: `F32`, `F16`, `BF16`.
    pub fn name(self) -> &'static str {
        match self {
            Element::F32 => "F32",
            Element::F16 => "F16",
            Element::BF16 => "BF16",
        }
    }

    /// Appends numbers as they are stored: little endian, rounded to the nearest, ties to even.
    pub(super) fn encode(self, values: &[f32], out: &mut Vec<u8>) {
        match self {
            Element::F32 => out.extend(values.iter().flat_map(|v| v.to_le_bytes())),
            Element::F16 => out.extend(values.iter().flat_map(|v| f16::from_f32(*v).to_le_bytes())),
            Element::BF16 => out.extend(values.iter().flat_map(|v| bf16::from_f32(*v).to_le_bytes())),
        }
    }

    /// Appends the numbers of whole stored elements; every stored number is an `f32` too.
    pub(super) fn decode(self, bytes: &[u8], out: &mut Vec<f32>) {
        match self {
            Element::F32 => out.extend(bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b))),
            Element::F16 => out.extend(bytes.as_chunks::<2>().0.iter().map(|b| f16::from_le_bytes(*b).to_f32())),
            Element::BF16 => out.extend(bytes.as_chunks::<2>().0.iter().map(|b| bf16::from_le_bytes(*b).to_f32())),
        }
    }

    /// Length and header of a file with one tensor of `rows` rows of `dim` numbers; spaces fill it up to [`HEADER`] bytes.
    pub(super) fn header(self, rows: usize, dim: usize) -> Vec<u8> {
        let bytes = rows * dim * self.size();
        let (tensor, name) = (Manifest::TENSOR, self.name());
        let json =
            format!("{{\"{tensor}\":{{\"dtype\":\"{name}\",\"shape\":[{rows},{dim}],\"data_offsets\":[0,{bytes}]}}}}");
        let mut header = ((HEADER - 8) as u64).to_le_bytes().to_vec();
        header.extend_from_slice(json.as_bytes());
        header.resize(HEADER, b' ');
        header
    }
}
