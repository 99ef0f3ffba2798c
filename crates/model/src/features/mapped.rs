//! Rows of a vector file, read from a memory map instead of from the heap.

#![allow(unsafe_code, reason = "memory-mapping a file is unsafe")]

use std::fs::File;
use std::io::{Error, ErrorKind, Result};

use conifer_embeddings::Element;
use memmap2::Mmap;

/// Vectors at a constant distance in a mapped file. The operating system loads and drops their pages as needed.
#[derive(Debug)]
pub(crate) struct MappedVectors {
    map: Mmap,
    /// Byte offset of the first vector.
    first: usize,
    /// Bytes from one vector to the next.
    stride: usize,
    width: usize,
    element: Element,
}

impl MappedVectors {
    /// Maps a file with `rows` vectors.
    ///
    /// # Errors
    /// The file cannot be mapped, or is too short.
    pub(crate) fn open(
        file: &File,
        first: usize,
        stride: usize,
        width: usize,
        element: Element,
        rows: u64,
    ) -> Result<Self> {
        // SAFETY: a row that the header of a file counts is never removed, and is changed only if its checksum is
        // wrong. A process that may write to the folder is trusted not to truncate the file.
        let map = unsafe { Mmap::map(file) }?;
        let end = usize::try_from(rows).ok().and_then(|rows| rows.checked_mul(stride)?.checked_add(first));
        // Only the values of the last vector must be in the file, not the rest of its stride.
        if rows > 0 && end.is_none_or(|end| end - stride + width * element.size() > map.len()) {
            return Err(Error::new(ErrorKind::UnexpectedEof, format!("the file is too short for its {rows} rows")));
        }
        Ok(Self { map, first, stride, width, element })
    }

    /// Appends vector `row` to `out`. The conversion to f32 is exact.
    ///
    /// # Panics
    /// If the map has no such row.
    pub(crate) fn read(&self, row: u64, out: &mut Vec<f32>) {
        let start = self.first + row as usize * self.stride;
        self.element.decode(&self.map[start..][..self.width * self.element.size()], out);
    }
}
