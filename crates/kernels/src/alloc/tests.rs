#![allow(clippy::unwrap_used)]
use super::*;

/// All tests of this crate run on the allocator, so every vector in them exercises it too.
#[global_allocator]
static GLOBAL: LargeBlockAllocator = LargeBlockAllocator::new(64 * MIB);

const MIB: usize = 1 << 20;

fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).unwrap()
}

fn bytes<'a>(block: *mut u8, len: usize) -> &'a mut [u8] {
    assert!(!block.is_null());
    // SAFETY: the tests pass blocks of at least `len` initialised bytes that they own.
    unsafe { std::slice::from_raw_parts_mut(block, len) }
}

#[test]
fn freed_blocks_are_reused_and_counted() {
    let a = LargeBlockAllocator::new(64 * MIB);
    let l = layout(3 * MIB, 4);
    unsafe {
        let first = a.alloc(l);
        a.dealloc(first, l);
        let second = a.alloc(layout(3 * MIB - 100, 16));
        assert_eq!(first, second, "expected the same block for the same size class");
        let third = a.alloc(l);
        assert_ne!(second, third);
        let expected = AllocStats { in_use: 6 * MIB, peak_in_use: 6 * MIB, cached: 0, hits: 1, misses: 2 };
        assert_eq!(a.stats(), expected);
        a.dealloc(second, l);
        a.dealloc(third, l);
    }
    assert_eq!(a.stats().cached, 6 * MIB);
    a.release();
    assert_eq!((a.stats().cached, a.stats().in_use), (0, 0));
}

#[test]
fn zeroed_blocks_are_zero_even_when_reused() {
    let a = LargeBlockAllocator::new(64 * MIB);
    let l = layout(2 * MIB + 12345, 8);
    unsafe {
        for round in 0..3 {
            let block = a.alloc_zeroed(l);
            assert!(bytes(block, l.size()).iter().all(|&b| b == 0), "round {round}");
            ptr::write_bytes(block, 0xA5, l.size());
            a.dealloc(block, l);
        }
    }
    assert_eq!((a.stats().hits, a.stats().misses), (2, 1));
}

#[test]
fn blocks_have_the_requested_alignment() {
    let a = LargeBlockAllocator::new(64 * MIB);
    for align in [1, 16, 32, 64, 4096, 8192] {
        for size in [100, MIB, 5 * MIB + 1] {
            let l = layout(size, align);
            unsafe {
                for _ in 0..2 {
                    let block = a.alloc(l);
                    assert_eq!(block as usize % align, 0, "size {size}, align {align}");
                    ptr::write_bytes(block, 1, size);
                    a.dealloc(block, l);
                }
            }
        }
    }
}

#[test]
fn least_recently_requested_class_is_evicted_first() {
    let a = LargeBlockAllocator::new(10 * MIB);
    let (four, three) = (layout(4 * MIB, 4), layout(3 * MIB, 4));
    unsafe {
        let [x, y] = [a.alloc(four), a.alloc(three)];
        a.dealloc(x, four);
        a.dealloc(y, three);
        assert_eq!(a.stats().cached, 7 * MIB);
        let [p, q] = [a.alloc(three), a.alloc(three)];
        a.dealloc(p, three);
        a.dealloc(q, three);
        assert_eq!(a.stats().cached, 10 * MIB, "4 + 3 + 3 fits exactly");
        let r = a.alloc(layout(2 * MIB, 4));
        a.dealloc(r, layout(2 * MIB, 4));
        assert_eq!(a.stats().cached, 8 * MIB, "the 4 MiB block left");
    }
}

/// The cache may hold `peak_in_use - in_use` bytes even if that exceeds `spare`; cached and in-use bytes together then
/// stay within the peak.
#[test]
fn cache_may_hold_the_peak_without_spare() {
    let a = LargeBlockAllocator::new(2 * MIB);
    let (four, six) = (layout(4 * MIB, 4), layout(6 * MIB, 4));
    unsafe {
        let blocks = [(); 3].map(|()| a.alloc(four));
        blocks.into_iter().for_each(|block| a.dealloc(block, four));
        assert_eq!(a.stats().cached, 12 * MIB);
        let large = a.alloc(six);
        assert_eq!((a.stats().in_use, a.stats().cached), (6 * MIB, 4 * MIB), "12 MiB at most, in blocks of 4");
        a.dealloc(large, six);
        assert_eq!((a.stats().cached, a.stats().peak_in_use), (10 * MIB, 12 * MIB));
    }
}

#[test]
fn growing_a_block_evicts_cached_blocks() {
    let a = LargeBlockAllocator::new(0);
    let (two, four) = (layout(2 * MIB, 8), layout(4 * MIB, 8));
    unsafe {
        let [one, other] = [a.alloc(two), a.alloc(two)];
        a.dealloc(other, two);
        assert_eq!((a.stats().in_use, a.stats().cached, a.stats().peak_in_use), (2 * MIB, 2 * MIB, 4 * MIB));
        let grown = a.realloc(one, two, 4 * MIB);
        assert_eq!((a.stats().in_use, a.stats().cached), (4 * MIB, 0), "never more than the peak");
        a.dealloc(grown, four);
    }
}

#[test]
fn realloc_keeps_the_content_across_every_kind_of_move() {
    let a = LargeBlockAllocator::new(64 * MIB);
    // Covers small, large, same class, larger class, smaller class and small again, at both alignments.
    for align in [8, 64] {
        let sizes = [1000, MIB, MIB + 10, MIB + 20, 6 * MIB, 2 * MIB, 500, 900];
        unsafe {
            let mut size = 700;
            let mut block = a.alloc(layout(size, align));
            for (i, b) in bytes(block, size).iter_mut().enumerate() {
                *b = i as u8;
            }
            let mut kept = size;
            for new in sizes {
                block = a.realloc(block, layout(size, align), new);
                size = new;
                kept = kept.min(size);
                assert_eq!(block as usize % align, 0);
                let content = bytes(block, kept);
                assert!(content.iter().enumerate().all(|(i, &b)| b == i as u8), "to {new}, align {align}");
            }
            a.dealloc(block, layout(size, align));
        }
    }
    assert_eq!(a.stats().in_use, 0);
}

#[test]
fn threads_never_share_a_block() {
    // Each thread stamps its blocks and checks the stamps before it frees them; a block handed out twice would have
    // another stamp. xorshift64 gives sizes from 1 to 5 MiB. The bound is small, so blocks are also returned to the
    // system.
    let a = LargeBlockAllocator::new(16 * MIB);
    std::thread::scope(|scope| {
        for thread in 1..=8u64 {
            let a = &a;
            scope.spawn(move || {
                let mut state = 0x9E37_79B9_7F4A_7C15u64 ^ thread;
                let mut held: Vec<(*mut u8, Layout, u64)> = Vec::new();
                for round in 0..400u64 {
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    let l = layout(MIB + (state as usize) % (4 * MIB), [8, 64][(state >> 40) as usize % 2]);
                    let stamp = thread << 32 | round;
                    unsafe {
                        let block = a.alloc(l);
                        assert!(!block.is_null());
                        block.cast::<u64>().write(stamp);
                        block.add(l.size() - 8).cast::<u64>().write_unaligned(stamp);
                        held.push((block, l, stamp));
                        if held.len() > 3 {
                            let (block, l, stamp) = held.swap_remove((state >> 20) as usize % 4);
                            assert_eq!(block.cast::<u64>().read(), stamp);
                            assert_eq!(block.add(l.size() - 8).cast::<u64>().read_unaligned(), stamp);
                            a.dealloc(block, l);
                        }
                    }
                    let AllocStats { in_use, peak_in_use, cached, .. } = a.stats();
                    assert!(cached + in_use <= peak_in_use.max(in_use + 16 * MIB));
                }
                for (block, l, _) in held {
                    unsafe { a.dealloc(block, l) };
                }
            });
        }
    });
    let stats = a.stats();
    assert_eq!(stats.in_use, 0);
    assert!(stats.hits > 0 && stats.misses > 0, "{stats:?}");
}

#[test]
fn vectors_use_the_global_allocator() {
    let before = GLOBAL.stats();
    let mut v = vec![1u8; 3 * MIB];
    assert!(GLOBAL.stats().hits + GLOBAL.stats().misses > before.hits + before.misses);
    v.resize(7 * MIB, 2);
    assert!(v[..3 * MIB].iter().all(|&b| b == 1) && v[3 * MIB..].iter().all(|&b| b == 2));
}
