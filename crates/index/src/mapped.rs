//! Memory-mapped arrays of numbers.

#![allow(unsafe_code, reason = "memory-mapping a file and reading it as a slice is unsafe")]

use std::fs::File;
use std::io;
use std::marker::PhantomData;

use half::f16;
use memmap2::Mmap;

use crate::kernel::StoredCoordinate;

/// A little-endian array in a file that is never modified. The file may be deleted while it is mapped; it must not be
/// truncated or changed.
pub(crate) struct MappedArray<E> {
    map: Mmap,
    offset: usize,
    count: usize,
    element: PhantomData<E>,
}

/// A number type for which every bit pattern is valid, stored in little-endian order.
///
/// # Safety
/// Every `size_of::<Self>()` aligned bytes must be a valid value.
pub(crate) unsafe trait MappedCoordinate: StoredCoordinate {}

// SAFETY: every four bytes are a valid `f32`.
unsafe impl MappedCoordinate for f32 {}
// SAFETY: `f16` is a transparent wrapper around `u16`.
unsafe impl MappedCoordinate for f16 {}

impl<E: MappedCoordinate> MappedArray<E> {
    /// Maps `count` numbers from byte `offset` on. Returns `None` if the map cannot be read as a slice, because the
    /// machine is big endian or the numbers are not aligned in the file.
    ///
    /// # Errors
    /// Fails if the file is too short or cannot be mapped.
    pub(crate) fn open(file: &File, offset: u64, count: usize) -> io::Result<Option<Self>> {
        // SAFETY: the files of a store are never changed after the rename to their final name. A process that may write
        // to the folder of the store is trusted not to change them. Deleting a file does not unmap it.
        let map = unsafe { Mmap::map(file) }?;
        let bytes =
            count.checked_mul(size_of::<E>()).and_then(|bytes| bytes.checked_add(usize::try_from(offset).ok()?));
        if bytes.is_none_or(|bytes| bytes > map.len()) {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file is too short for its rows"));
        }
        let offset = offset as usize;
        let aligned = (map.as_ptr() as usize + offset).is_multiple_of(align_of::<E>());
        Ok((cfg!(target_endian = "little") && aligned).then_some(MappedArray {
            map,
            offset,
            count,
            element: PhantomData,
        }))
    }

    #[inline(always)]
    pub(crate) fn numbers(&self) -> &[E] {
        // SAFETY: `open` checked that the numbers are within the map and aligned. The map lives as long as the slice.
        // Every bit pattern is a valid `E`. The mapped file is never written to.
        unsafe { std::slice::from_raw_parts(self.map.as_ptr().add(self.offset).cast::<E>(), self.count) }
    }
}
