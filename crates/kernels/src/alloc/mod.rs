//! A global allocator that caches large freed blocks for reuse instead of returning them to the operating system.
//!
//! Every tensor operation allocates its result. The system allocator maps a large block and unmaps it when it is freed,
//! so the operating system faults in and zeroes each page again and again. [`LargeBlockAllocator`] keeps a freed block
//! in the list of its size class, and the next tensor of that size class gets the same pages, which are already mapped.
//!
//! Blocks below 64 KiB, above 64 GiB, or aligned to more than 4 KiB go straight to the system allocator.

#![expect(unsafe_code, reason = "a global allocator hands out raw memory")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

mod cache;
mod class;
#[cfg(test)]
mod tests;

use cache::BlockCache;
use class::SizeClass;

/// A global allocator that caches blocks of 64 KiB and more in size classes.
///
/// ```
/// use conifer_kernels::LargeBlockAllocator;
///
/// #[global_allocator]
/// static ALLOCATOR: LargeBlockAllocator = LargeBlockAllocator::new(1 << 30);
/// ```
///
/// A block is rounded up to one of four sizes per power of two, so the unused part is less than a quarter of the
/// requested size. The cache holds at most `peak_in_use - in_use` bytes, or `spare` bytes if that is more. So a
/// training step can reuse the blocks of the previous step, and cached and used blocks together exceed the peak by at
/// most `spare`. Above that bound, blocks of the least recently requested size class are returned to the system first.
/// Operations on large blocks hold a lock for a short time; operations on small blocks take no lock.
pub struct LargeBlockAllocator {
    spare: usize,
    cache: Mutex<BlockCache>,
}

/// Counters of a [`LargeBlockAllocator`]. They count large blocks only, in bytes of their size class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllocStats {
    /// Bytes handed out and not yet freed.
    pub in_use: usize,
    /// Largest value of [`AllocStats::in_use`] so far.
    pub peak_in_use: usize,
    /// Bytes in the cache. `cached + in_use` never exceeds the larger of `peak_in_use` and `in_use + spare`.
    pub cached: usize,
    /// Requests served from the cache.
    pub hits: u64,
    /// Requests served by the system.
    pub misses: u64,
}

impl LargeBlockAllocator {
    /// Creates an allocator. The cache may hold `spare` bytes, or `peak_in_use - in_use` if that is more.
    pub const fn new(spare: usize) -> Self {
        Self { spare, cache: Mutex::new(BlockCache::new()) }
    }

    /// The current counters.
    pub fn stats(&self) -> AllocStats {
        self.lock().stats
    }

    /// Returns all cached blocks to the system, for example between two phases of a program.
    pub fn release(&self) {
        let blocks = self.lock().take_all();
        // SAFETY: `take_all` unlinked these blocks from the cache, so no other code can reach them.
        unsafe { blocks.free() };
    }

    fn lock(&self) -> MutexGuard<'_, BlockCache> {
        // No code under the lock can panic in the middle of a change, so a poisoned cache is consistent.
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a block of `class` from the cache, or else from `fresh`. If the system is out of memory, all cached
    /// blocks are returned to it before a second attempt. The second value is true for a block from the cache, which
    /// holds old content.
    fn obtain(&self, class: SizeClass, fresh: impl Fn(Layout) -> *mut u8) -> (*mut u8, bool) {
        if let Some(block) = self.lock().take(class) {
            return (block, true);
        }
        let mut block = fresh(class.layout());
        if block.is_null() {
            self.release();
            block = fresh(class.layout());
        }
        if !block.is_null() {
            self.count(|cache| cache.count_fresh(class));
        }
        (block, false)
    }

    /// Updates the counters of the memory in use, then returns cached blocks above the bound to the system.
    fn count(&self, count: impl FnOnce(&mut BlockCache)) {
        let surplus = {
            let mut cache = self.lock();
            count(&mut cache);
            let bound = cache.bound(self.spare);
            cache.trim(bound)
        };
        // SAFETY: `trim` unlinked these blocks, so no other code can reach them.
        unsafe { surplus.free() };
    }
}

impl Drop for LargeBlockAllocator {
    fn drop(&mut self) {
        self.release();
    }
}

// SAFETY: every block comes from `System`, either with the layout of the caller (no class) or with the layout of its
// class, which is at least as large and as aligned. `SizeClass::of` is a pure function of the layout, so `dealloc` and
// `realloc` find the class with which a block was allocated. A block is either in the cache or owned by the caller,
// because every transfer takes the lock. Nothing here unwinds.
unsafe impl GlobalAlloc for LargeBlockAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match SizeClass::of(layout) {
            // SAFETY: the caller guarantees a layout of non-zero size; a class layout is never empty.
            Some(class) => self.obtain(class, |l| unsafe { System.alloc(l) }).0,
            // SAFETY: the caller guarantees a layout of non-zero size.
            None => unsafe { System.alloc(layout) },
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let Some(class) = SizeClass::of(layout) else {
            // SAFETY: the caller guarantees a layout of non-zero size.
            return unsafe { System.alloc_zeroed(layout) };
        };
        // SAFETY: a class layout is never empty.
        let (block, used_before) = self.obtain(class, |l| unsafe { System.alloc_zeroed(l) });
        if used_before {
            // SAFETY: the block holds at least `layout.size()` bytes and is owned by this call alone.
            unsafe { ptr::write_bytes(block, 0, layout.size()) };
        }
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let Some(class) = SizeClass::of(layout) else {
            // SAFETY: a layout without a class was allocated by `System` with the same layout.
            return unsafe { System.dealloc(block, layout) };
        };
        // SAFETY: the block has the layout of `class`, and the caller gives up ownership.
        let surplus = unsafe { self.lock().put(class, block, self.spare) };
        // SAFETY: `put` unlinked these blocks, so no other code can reach them. The lock is released first, because
        // returning pages to the system is slow.
        unsafe { surplus.free() };
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller guarantees that `new_size`, rounded up to the alignment, does not overflow `isize`.
        let new_layout = unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) };
        match (SizeClass::of(layout), SizeClass::of(new_layout)) {
            // SAFETY: the block was allocated by `System` with `layout`.
            (None, None) => unsafe { System.realloc(block, layout, new_size) },
            (Some(old), Some(new)) if old == new => block,
            (old, new) => {
                if let (Some(old), Some(new)) = (old, new)
                    && old.layout().align() == new.layout().align()
                    && new > old
                {
                    // The system can grow a block by remapping its pages without a copy.
                    // SAFETY: the block was allocated by `System` with the layout of `old`.
                    let grown = unsafe { System.realloc(block, old.layout(), new.layout().size()) };
                    if !grown.is_null() {
                        self.count(|cache| cache.count_resized(old, new));
                    }
                    return grown;
                }
                // SAFETY: `new_layout` is not empty; the two blocks are distinct and both hold the smaller size.
                unsafe {
                    let moved = self.alloc(new_layout);
                    if !moved.is_null() {
                        ptr::copy_nonoverlapping(block, moved, layout.size().min(new_size));
                        self.dealloc(block, layout);
                    }
                    moved
                }
            }
        }
    }
}
