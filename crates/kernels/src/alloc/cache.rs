//! Free lists of the allocator, one stack of blocks per size class.

use std::alloc::{GlobalAlloc, System};
use std::ptr::{self, NonNull};

use super::AllocStats;
use super::class::SizeClass;

/// Header stored in the first bytes of a cached block.
struct BlockHeader {
    next: *mut BlockHeader,
    class: SizeClass,
}

/// A list of blocks that were removed from the cache and will be returned to the system.
#[must_use = "blocks that are not freed leak"]
pub(super) struct BlockList(*mut BlockHeader);

/// Free lists and counters. The allocator keeps them behind a lock.
pub(super) struct BlockCache {
    pub(super) stats: AllocStats,
    heads: [*mut BlockHeader; SizeClass::COUNT],
    /// Value of `clock` at the last request for each class.
    last_request: [u64; SizeClass::COUNT],
    clock: u64,
}

// SAFETY: the nodes are reachable through this cache only, and no block is tied to the thread that allocated it.
unsafe impl Send for BlockCache {}

impl BlockCache {
    pub(super) const fn new() -> Self {
        let stats = AllocStats { in_use: 0, peak_in_use: 0, cached: 0, hits: 0, misses: 0 };
        Self { stats, heads: [ptr::null_mut(); SizeClass::COUNT], last_request: [0; SizeClass::COUNT], clock: 0 }
    }

    /// Removes a cached block of `class`, which then belongs to the caller.
    pub(super) fn take(&mut self, class: SizeClass) -> Option<*mut u8> {
        self.clock += 1;
        self.last_request[class.index()] = self.clock;
        let node = self.pop(class)?;
        self.stats.hits += 1;
        self.count_in_use(class.layout().size());
        Some(node.as_ptr().cast())
    }

    /// Adds a freed block to the cache. Returns the blocks that must be returned to the system to stay within
    /// [`BlockCache::bound`].
    ///
    /// # Safety
    /// `block` must have the layout of `class`, must come from `System`, and must not be used any more.
    pub(super) unsafe fn put(&mut self, class: SizeClass, block: *mut u8, spare: usize) -> BlockList {
        let size = class.layout().size();
        self.stats.in_use -= size;
        let node: *mut BlockHeader = block.cast();
        if size > self.bound(spare) {
            let mut surplus = BlockList(ptr::null_mut());
            // SAFETY: a block holds at least 64 KiB aligned to 16 bytes, and the caller gave up ownership.
            unsafe { node.write(BlockHeader { next: ptr::null_mut(), class }) };
            surplus.push(node);
            return surplus;
        }
        let surplus = self.trim(self.bound(spare) - size);
        // SAFETY: as above.
        unsafe { node.write(BlockHeader { next: self.heads[class.index()], class }) };
        self.heads[class.index()] = node;
        self.stats.cached += size;
        surplus
    }

    /// Largest number of bytes to cache: `peak_in_use - in_use`, or `spare` if that is more.
    pub(super) fn bound(&self, spare: usize) -> usize {
        spare.max(self.stats.peak_in_use - self.stats.in_use)
    }

    /// Removes blocks until at most `most` bytes are cached, the least recently requested class first.
    pub(super) fn trim(&mut self, most: usize) -> BlockList {
        let mut surplus = BlockList(ptr::null_mut());
        while self.stats.cached > most
            && let Some(victim) = self.oldest().and_then(|c| self.pop(c))
        {
            surplus.push(victim.as_ptr());
        }
        surplus
    }

    /// Removes all cached blocks.
    pub(super) fn take_all(&mut self) -> BlockList {
        let mut all = BlockList(ptr::null_mut());
        for index in 0..SizeClass::COUNT {
            while let Some(node) = self.pop(SizeClass::from_index(index)) {
                all.push(node.as_ptr());
            }
        }
        all
    }

    /// Counts a block that the system allocated.
    pub(super) fn count_fresh(&mut self, class: SizeClass) {
        self.stats.misses += 1;
        self.count_in_use(class.layout().size());
    }

    /// Counts a block in use that the system moved from one class to a larger one.
    pub(super) fn count_resized(&mut self, old: SizeClass, new: SizeClass) {
        self.stats.in_use -= old.layout().size();
        self.count_fresh(new);
    }

    fn count_in_use(&mut self, size: usize) {
        self.stats.in_use += size;
        self.stats.peak_in_use = self.stats.peak_in_use.max(self.stats.in_use);
    }

    fn pop(&mut self, class: SizeClass) -> Option<NonNull<BlockHeader>> {
        let node = NonNull::new(self.heads[class.index()])?;
        // SAFETY: nodes in a list were written by `put` and are not modified while they are cached.
        self.heads[class.index()] = unsafe { node.as_ref() }.next;
        self.stats.cached -= class.layout().size();
        Some(node)
    }

    /// The least recently requested class that has cached blocks.
    fn oldest(&self) -> Option<SizeClass> {
        (0..SizeClass::COUNT)
            .filter(|&i| !self.heads[i].is_null())
            .min_by_key(|&i| self.last_request[i])
            .map(SizeClass::from_index)
    }
}

impl BlockList {
    fn push(&mut self, node: *mut BlockHeader) {
        // SAFETY: the caller just unlinked or wrote this node, so it is valid and exclusively owned.
        unsafe { (*node).next = self.0 };
        self.0 = node;
    }

    /// Returns the blocks to the system.
    ///
    /// # Safety
    /// No other code may reach these blocks.
    pub(super) unsafe fn free(self) {
        let mut node = self.0;
        while !node.is_null() {
            // SAFETY: the list holds valid nodes; each is read before its block is freed.
            let BlockHeader { next, class } = unsafe { node.read() };
            // SAFETY: every block of a class came from `System` with the layout of that class.
            unsafe { System.dealloc(node.cast(), class.layout()) };
            node = next;
        }
    }
}
