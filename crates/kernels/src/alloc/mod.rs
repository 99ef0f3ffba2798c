//! [`LargeBlockAllocator`]: large blocks are kept for reuse instead of going back to the operating system.
//!
//! Every tensor operation allocates its result, up to 150 MB at a time. The system allocator maps such a block afresh
//! and unmaps it when it is freed, so each page is faulted in and zeroed by the kernel again and again; on the CPU this
//! was the largest single cost of a training step. Here a freed block waits in a list of its size class and the next
//! tensor of that size gets the same, already mapped, pages.
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

use cache::Cache;
use class::Class;

/// A global allocator that caches blocks of 64 KiB and more in size classes.
///
/// ```
/// use conifer_kernels::LargeBlockAllocator;
///
/// #[global_allocator]
/// static ALLOCATOR: LargeBlockAllocator = LargeBlockAllocator::new(1 << 30);
/// ```
///
/// A block is rounded up to one of four sizes per power of two, so at most a quarter of a power of two is unused.
/// As many bytes may wait for reuse as were in use at once before and are not now, so that a training step finds all
/// its blocks where the last one left them, and the process never holds more than its peak; a few more where `spare`
/// says so. Beyond that the size class that was asked for longest ago gives its blocks back first. Operations on large
/// blocks take one short lock; small blocks never do.
pub struct LargeBlockAllocator {
    spare: usize,
    cache: Mutex<Cache>,
}

/// Counters of a [`LargeBlockAllocator`]; large blocks only, in bytes of their size class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllocStats {
    /// Bytes handed out and not yet freed.
    pub in_use: usize,
    /// Largest value of [`AllocStats::in_use`] so far.
    pub peak_in_use: usize,
    /// Bytes waiting for reuse: with those in use never above the larger of `peak_in_use` and `in_use` + `spare`.
    pub cached: usize,
    /// Requests served from a waiting block.
    pub hits: u64,
    /// Requests that went to the system.
    pub misses: u64,
}

impl LargeBlockAllocator {
    /// An allocator that keeps what was in use at once before, and at least `spare` bytes, for reuse.
    pub const fn new(spare: usize) -> Self {
        Self { spare, cache: Mutex::new(Cache::new()) }
    }

    /// The counters now.
    pub fn stats(&self) -> AllocStats {
        self.lock().stats
    }

    /// Gives every waiting block back to the system, for example between two phases of a program.
    pub fn release(&self) {
        let blocks = self.lock().take_all();
        // SAFETY: `take_all` unlinked these blocks from the cache, so nobody else can reach them.
        unsafe { blocks.free() };
    }

    fn lock(&self) -> MutexGuard<'_, Cache> {
        // No code under the lock can panic half-way, so a poisoned cache is still whole.
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A block of `class`: a waiting one if there is one, else from `fresh`, after giving all waiting memory back if
    /// the system has none left. The second value tells whether the block was used before.
    fn obtain(&self, class: Class, fresh: impl Fn(Layout) -> *mut u8) -> (*mut u8, bool) {
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

    /// Counts more memory in use; what waits beyond the bound then goes back to the system.
    fn count(&self, count: impl FnOnce(&mut Cache)) {
        let surplus = {
            let mut cache = self.lock();
            count(&mut cache);
            let bound = cache.bound(self.spare);
            cache.trim(bound)
        };
        // SAFETY: `trim` unlinked these blocks, so nobody else can reach them.
        unsafe { surplus.free() };
    }
}

impl Drop for LargeBlockAllocator {
    fn drop(&mut self) {
        self.release();
    }
}

// SAFETY: every block comes from `System`, either with the caller's own layout (no class) or with the layout of its
// class, which is at least as large and as aligned. `Class::of` is a pure function of the layout, so `dealloc` and
// `realloc` find the class a block was allocated with. A block is in the cache or with the caller, never both, because
// moving it takes the lock. Nothing here unwinds.
unsafe impl GlobalAlloc for LargeBlockAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match Class::of(layout) {
            // SAFETY: the caller promises a layout of non-zero size; a class layout is never empty.
            Some(class) => self.obtain(class, |l| unsafe { System.alloc(l) }).0,
            // SAFETY: as promised by the caller.
            None => unsafe { System.alloc(layout) },
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let Some(class) = Class::of(layout) else {
            // SAFETY: as promised by the caller.
            return unsafe { System.alloc_zeroed(layout) };
        };
        // SAFETY: a class layout is never empty.
        let (block, used_before) = self.obtain(class, |l| unsafe { System.alloc_zeroed(l) });
        if used_before {
            // SAFETY: the block holds at least `layout.size()` bytes and belongs to this call alone.
            unsafe { ptr::write_bytes(block, 0, layout.size()) };
        }
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let Some(class) = Class::of(layout) else {
            // SAFETY: a layout without a class was allocated by `System` with the same layout.
            return unsafe { System.dealloc(block, layout) };
        };
        // SAFETY: the block has the layout of `class` and the caller gives it up.
        let surplus = unsafe { self.lock().put(class, block, self.spare) };
        // SAFETY: `put` unlinked these blocks, so nobody else can reach them. The lock is no longer held: giving pages
        // back takes long.
        unsafe { surplus.free() };
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller promises that `new_size`, rounded up to the alignment, does not overflow `isize`.
        let new_layout = unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) };
        match (Class::of(layout), Class::of(new_layout)) {
            // SAFETY: the block was allocated by `System` with `layout`.
            (None, None) => unsafe { System.realloc(block, layout, new_size) },
            (Some(old), Some(new)) if old == new => block,
            (old, new) => {
                if let (Some(old), Some(new)) = (old, new)
                    && old.layout().align() == new.layout().align()
                    && new > old
                {
                    // The system moves pages of a growing block without copying them.
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
