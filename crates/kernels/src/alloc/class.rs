//! Size classes: the size and alignment to which a large block is rounded up.

use std::alloc::Layout;

/// Smallest cached block, as a power of two: 64 KiB, about the size from which the system allocator returns freed
/// memory to the kernel.
const MIN_SHIFT: u32 = 16;
/// Largest cached block, as a power of two: 64 GiB, or 1 GiB on 32-bit systems.
const MAX_SHIFT: u32 = if usize::BITS >= 64 { 36 } else { 30 };
/// Number of sizes per alignment: four per power of two, and the largest.
const SIZES: usize = 4 * (MAX_SHIFT - MIN_SHIFT) as usize + 1;
/// The default alignment of the system allocator. The allocator can zero and grow blocks with this alignment lazily.
/// It suffices for vectors of numbers.
const PLAIN_ALIGN: usize = 16;
/// Alignment for the packing buffers of matrix products, which need cache-line alignment.
const PAGE_ALIGN: usize = 4096;

/// A size class: an index below [`SizeClass::COUNT`]. Classes aligned to [`PAGE_ALIGN`] follow those aligned to
/// [`PLAIN_ALIGN`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SizeClass(usize);

impl SizeClass {
    /// Number of classes.
    pub(super) const COUNT: usize = 2 * SIZES;

    /// The class of blocks with this layout; `None` if such blocks are not cached.
    pub(super) fn of(layout: Layout) -> Option<Self> {
        let size = layout.size();
        if !(1 << MIN_SHIFT..=1 << MAX_SHIFT).contains(&size) || layout.align() > PAGE_ALIGN {
            return None;
        }
        // Round up to a multiple of 2^(ilog2(size) - 2). This may reach the next power of two, so `ilog2` is computed
        // again.
        let rounded = size.next_multiple_of(1 << (size.ilog2() - 2));
        let shift = rounded.ilog2();
        let quarter = (rounded >> (shift - 2)) & 3;
        let index = 4 * (shift - MIN_SHIFT) as usize + quarter;
        Some(Self(if layout.align() > PLAIN_ALIGN { SIZES + index } else { index }))
    }

    /// Index into a table of [`SizeClass::COUNT`] entries.
    pub(super) fn index(self) -> usize {
        self.0
    }

    /// The class with this index.
    pub(super) fn from_index(index: usize) -> Self {
        debug_assert!(index < Self::COUNT);
        Self(index)
    }

    /// Layout of every block of this class.
    pub(super) fn layout(self) -> Layout {
        let (index, align) = if self.0 < SIZES { (self.0, PLAIN_ALIGN) } else { (self.0 - SIZES, PAGE_ALIGN) };
        let size = (4 + index % 4) << (MIN_SHIFT as usize - 2 + index / 4);
        // The size is a multiple of 16 KiB and at most 2^MAX_SHIFT, so this cannot fail.
        Layout::from_size_align(size, align).unwrap_or(Layout::new::<u8>())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn class_size(size: usize, align: usize) -> Option<usize> {
        SizeClass::of(Layout::from_size_align(size, align).unwrap()).map(|c| c.layout().size())
    }

    #[test]
    fn sizes_round_up_to_a_quarter_of_a_power_of_two() {
        const MIB: usize = 1 << 20;
        for (size, expected) in [
            (MIB, MIB),
            (MIB + 1, MIB + MIB / 4),
            (MIB + MIB / 2, MIB + MIB / 2),
            (2 * MIB - 1, 2 * MIB),
            (2 * MIB + 1, 2 * MIB + MIB / 2),
            (9 * MIB, 10 * MIB),
            (1 << MAX_SHIFT, 1 << MAX_SHIFT),
        ] {
            assert_eq!(class_size(size, 4), Some(expected), "size {size}");
            assert_eq!(class_size(size, 64), Some(expected), "size {size}, aligned");
        }
    }

    #[test]
    fn blocks_outside_the_range_have_no_class() {
        assert_eq!(class_size((1 << MIN_SHIFT) - 1, 4), None);
        assert_eq!(class_size((1 << MAX_SHIFT) + 1, 4), None);
        assert_eq!(class_size(1 << MIN_SHIFT, 2 * PAGE_ALIGN), None);
    }

    #[test]
    fn every_class_is_the_class_of_its_own_layout() {
        for index in 0..SizeClass::COUNT {
            let class = SizeClass::from_index(index);
            assert_eq!(SizeClass::of(class.layout()), Some(class));
        }
    }
}
