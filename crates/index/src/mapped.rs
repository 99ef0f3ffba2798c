//! Numbers in a file, read where they stand.

#![allow(unsafe_code, reason = "a mapped file is memory that safe code cannot vouch for")]

use std::fs::File;
use std::io;
use std::marker::PhantomData;

use half::f16;
use memmap2::Mmap;

use crate::kernel::Stored;

/// Little-endian numbers of a file that is never written to again. The file may be removed meanwhile; it must not be cut or changed.
pub(crate) struct Mapped<E> {
    map: Mmap,
    offset: usize,
    count: usize,
    element: PhantomData<E>,
}

/// A number of which every pattern of bits is one, stored little endian.
///
/// # Safety
/// Every `size_of::<Self>()` bytes, aligned for it, must be a value.
pub(crate) unsafe trait Plain: Stored {}

// SAFETY: every four bytes are an `f32`.
unsafe impl Plain for f32 {}
// SAFETY: an `f16` is a transparent `u16`.
unsafe impl Plain for f16 {}

impl<E: Plain> Mapped<E> {
    /// Maps `count` numbers from byte `offset` on; `None` where they cannot be read as they stand: the machine is big endian, or they are
    /// not aligned in the file.
    ///
    /// # Errors
    /// The file is shorter; the system refuses.
    pub(crate) fn open(file: &File, offset: u64, count: usize) -> io::Result<Option<Self>> {
        // SAFETY: files of a store are never changed once they have their name, and whoever may write to its folder is trusted with
        // that, as with the program itself; removing a file leaves what is mapped.
        let map = unsafe { Mmap::map(file) }?;
        let bytes =
            count.checked_mul(size_of::<E>()).and_then(|bytes| bytes.checked_add(usize::try_from(offset).ok()?));
        if bytes.is_none_or(|bytes| bytes > map.len()) {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file is too short for its rows"));
        }
        let offset = offset as usize;
        let aligned = (map.as_ptr() as usize + offset).is_multiple_of(align_of::<E>());
        Ok((cfg!(target_endian = "little") && aligned).then_some(Mapped { map, offset, count, element: PhantomData }))
    }

    #[inline(always)]
    pub(crate) fn numbers(&self) -> &[E] {
        // SAFETY: `open` found the numbers within the map, and aligned; the map lives as long as the slice; of an `E` every pattern of
        // bits is a value; nobody writes to the map.
        unsafe { std::slice::from_raw_parts(self.map.as_ptr().add(self.offset).cast::<E>(), self.count) }
    }
}
