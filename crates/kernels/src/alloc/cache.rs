//! Free lists of the allocator, one stack of blocks per size class.

use std::alloc::{GlobalAlloc, System};
use std::ptr::{self, NonNull};

use super::AllocStats;
use super::class::Class;

/// Header stored in the first bytes of a cached block.
struct Node {
    next: *mut Node,
    class: Class,
}

/// A list of blocks that were removed from the cache and will be returned to the system.
#[must_use = "blocks that are not freed leak"]
pub(super) struct Chain(*mut Node);

/// Free lists and counters. The allocator keeps them behind a lock.
pub(super) struct Cache {
    pub(super) stats: AllocStats,
    heads: [*mut Node; Class::COUNT],
    /// Value of `clock` at the last request for each class.
    asked: [u64; Class::COUNT],
    clock: u64,
}

// SAFETY: the nodes are reachable through this cache only, and no block is tied to the thread that allocated it.
unsafe impl Send for Cache {}

impl Cache {
    pub(super) const fn new() -> Self {
        let stats = AllocStats { in_use: 0, peak_in_use: 0, cached: 0, hits: 0, misses: 0 };
        Self { stats, heads: [ptr::null_mut(); Class::COUNT], asked: [0; Class::COUNT], clock: 0 }
    }

    /// Removes a cached block of `class`, which then belongs to the caller.
    pub(super) fn take(&mut self, class: Class) -> Option<*mut u8> {
        self.clock += 1;
        self.asked[class.index()] = self.clock;
        let node = self.pop(class)?;
        self.stats.hits += 1;
        self.count_in_use(class.layout().size());
        Some(node.as_ptr().cast())
    }

    /// Adds a freed block to the cache. Returns the blocks that must be returned to the system to stay within
    /// [`Cache::bound`].
    ///
    /// # Safety
    /// `block` must have the layout of `class`, must come from `System`, and must not be used any more.
    pub(super) unsafe fn put(&mut self, class: Class, block: *mut u8, spare: usize) -> Chain {
        let size = class.layout().size();
        self.stats.in_use -= size;
        let node: *mut Node = block.cast();
        if size > self.bound(spare) {
            let mut surplus = Chain(ptr::null_mut());
            // SAFETY: a block holds at least 64 KiB aligned to 16 bytes, and the caller gave up ownership.
            unsafe { node.write(Node { next: ptr::null_mut(), class }) };
            surplus.push(node);
            return surplus;
        }
        let surplus = self.trim(self.bound(spare) - size);
        // SAFETY: as above.
        unsafe { node.write(Node { next: self.heads[class.index()], class }) };
        self.heads[class.index()] = node;
        self.stats.cached += size;
        surplus
    }

    /// Largest number of bytes to cache: the peak number of bytes in use less those now in use, or `spare` if that is
    /// more.
    pub(super) fn bound(&self, spare: usize) -> usize {
        spare.max(self.stats.peak_in_use - self.stats.in_use)
    }

    /// Removes blocks until at most `most` bytes are cached, the least recently requested class first.
    pub(super) fn trim(&mut self, most: usize) -> Chain {
        let mut surplus = Chain(ptr::null_mut());
        while self.stats.cached > most
            && let Some(victim) = self.oldest().and_then(|c| self.pop(c))
        {
            surplus.push(victim.as_ptr());
        }
        surplus
    }

    /// Removes all cached blocks.
    pub(super) fn take_all(&mut self) -> Chain {
        let mut all = Chain(ptr::null_mut());
        for index in 0..Class::COUNT {
            while let Some(node) = self.pop(Class::from_index(index)) {
                all.push(node.as_ptr());
            }
        }
        all
    }

    /// Counts a block that the system allocated.
    pub(super) fn count_fresh(&mut self, class: Class) {
        self.stats.misses += 1;
        self.count_in_use(class.layout().size());
    }

    /// Counts a block in use that the system moved from one class to a larger one.
    pub(super) fn count_resized(&mut self, old: Class, new: Class) {
        self.stats.in_use -= old.layout().size();
        self.count_fresh(new);
    }

    fn count_in_use(&mut self, size: usize) {
        self.stats.in_use += size;
        self.stats.peak_in_use = self.stats.peak_in_use.max(self.stats.in_use);
    }

    fn pop(&mut self, class: Class) -> Option<NonNull<Node>> {
        let node = NonNull::new(self.heads[class.index()])?;
        // SAFETY: nodes in a list were written by `put` and are not modified while they are cached.
        self.heads[class.index()] = unsafe { node.as_ref() }.next;
        self.stats.cached -= class.layout().size();
        Some(node)
    }

    /// The least recently requested class that has cached blocks.
    fn oldest(&self) -> Option<Class> {
        (0..Class::COUNT).filter(|&i| !self.heads[i].is_null()).min_by_key(|&i| self.asked[i]).map(Class::from_index)
    }
}

impl Chain {
    fn push(&mut self, node: *mut Node) {
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
            // SAFETY: a chain holds valid nodes; each is read before its block is freed.
            let Node { next, class } = unsafe { node.read() };
            // SAFETY: every block of a class came from `System` with the layout of that class.
            unsafe { System.dealloc(node.cast(), class.layout()) };
            node = next;
        }
    }
}
