//! Storage types of the points on disk, and the header of the points file.

use half::{bf16, f16};
use safetensors::tensor::Dtype;

use crate::manifest::SetManifest;

/// Storage type of a component. In memory, components are always `f32`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Element {
    /// 4 bytes: the exact computed value.
    #[default]
    F32,
    /// 2 bytes with 11 significant bits. The rounding error is at most 2^-11 = 0.05 % for numbers from 6.1e-5 to
    /// 65,504, and at most 3e-8 for smaller numbers.
    F16,
    /// 2 bytes with 8 significant bits and the range of `f32`. The rounding error is at most 2^-8 = 0.4 % of the
    /// number.
    BF16,
}

/// Total bytes of the length field and the header. The size does not depend on the number of rows, so that the header
/// can be written last. It is a multiple of 64, so that the numbers are aligned in a memory-mapped file.
pub(crate) const HEADER: usize = 256;

impl Element {
    /// All types, with their names in files.
    pub(crate) const ALL: [(Element, Dtype, &str); 3] =
        [(Element::F32, Dtype::F32, "F32"), (Element::F16, Dtype::F16, "F16"), (Element::BF16, Dtype::BF16, "BF16")];

    /// Returns the storage type for a tensor type; `None` if points cannot have this type.
    pub(crate) fn of(dtype: Dtype) -> Option<Self> {
        Self::ALL.iter().find(|(_, known, _)| *known == dtype).map(|(element, ..)| *element)
    }

    /// Bytes per number.
    pub fn size(self) -> usize {
        match self {
            Element::F32 => 4,
            Element::F16 | Element::BF16 => 2,
        }
    }

    /// The name in the header of a safetensors file: `F32`, `F16`, `BF16`.
    pub fn name(self) -> &'static str {
        match self {
            Element::F32 => "F32",
            Element::F16 => "F16",
            Element::BF16 => "BF16",
        }
    }

    /// Appends the encoded numbers: little endian, rounded to nearest, ties to even.
    pub fn encode(self, values: &[f32], out: &mut Vec<u8>) {
        match self {
            Element::F32 => out.extend(values.iter().flat_map(|v| v.to_le_bytes())),
            Element::F16 => out.extend(values.iter().flat_map(|v| f16::from_f32(*v).to_le_bytes())),
            Element::BF16 => out.extend(values.iter().flat_map(|v| bf16::from_f32(*v).to_le_bytes())),
        }
    }

    /// Appends the decoded numbers of whole elements. The conversion to `f32` is exact.
    pub fn decode(self, bytes: &[u8], out: &mut Vec<f32>) {
        match self {
            Element::F32 => out.extend(bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b))),
            Element::F16 => out.extend(bytes.as_chunks::<2>().0.iter().map(|b| f16::from_le_bytes(*b).to_f32())),
            Element::BF16 => out.extend(bytes.as_chunks::<2>().0.iter().map(|b| bf16::from_le_bytes(*b).to_f32())),
        }
    }

    /// The length field and header of a file with one tensor of `rows` rows of `dim` numbers, padded with spaces to
    /// [`HEADER`] bytes.
    pub(crate) fn header(self, rows: usize, dim: usize) -> Vec<u8> {
        let bytes = rows * dim * self.size();
        let (tensor, name) = (SetManifest::TENSOR, self.name());
        let json =
            format!("{{\"{tensor}\":{{\"dtype\":\"{name}\",\"shape\":[{rows},{dim}],\"data_offsets\":[0,{bytes}]}}}}");
        let mut header = ((HEADER - 8) as u64).to_le_bytes().to_vec();
        header.extend_from_slice(json.as_bytes());
        header.resize(HEADER, b' ');
        header
    }
}
