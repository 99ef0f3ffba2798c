//! Prepares the next item on another thread while the current one is computed.

use std::sync::mpsc::sync_channel;

/// Calls `compute` with every item in order, while another thread produces the next one. The producer is at most one
/// item ahead. Stops at the first error.
pub(crate) fn prefetch<T: Send, E>(
    items: impl Iterator<Item = T> + Send,
    mut compute: impl FnMut(T) -> Result<(), E>,
) -> Result<(), E> {
    std::thread::scope(|scope| {
        // A rendezvous channel: the producer keeps the next item until it is received.
        let (ready, next) = sync_channel(0);
        scope.spawn(move || {
            for item in items {
                // The receiver is gone after an error.
                if ready.send(item).is_err() {
                    return;
                }
            }
        });
        next.into_iter().try_for_each(&mut compute)
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn items_keep_their_order_and_at_most_one_is_ahead() {
        let made = AtomicUsize::new(0);
        let mut seen = Vec::new();
        let items = (0..50).inspect(|_| _ = made.fetch_add(1, Ordering::SeqCst));
        let done: Result<(), ()> = prefetch(items, |item| {
            seen.push(item);
            std::thread::sleep(std::time::Duration::from_micros(200));
            assert!(made.load(Ordering::SeqCst) <= seen.len() + 1);
            Ok(())
        });
        assert_eq!((done, seen), (Ok(()), (0..50).collect::<Vec<_>>()));
    }

    #[test]
    fn the_next_item_is_produced_during_compute() {
        let made = AtomicUsize::new(0);
        let items = (0..2).inspect(|_| _ = made.fetch_add(1, Ordering::SeqCst));
        let done: Result<(), ()> = prefetch(items, |_| {
            // This loop would never end if the second item were produced only after this call.
            while made.load(Ordering::SeqCst) < 2 {
                std::thread::yield_now();
            }
            Ok(())
        });
        assert_eq!(done, Ok(()));
    }

    #[test]
    fn an_error_stops_the_producer() {
        let made = AtomicUsize::new(0);
        let items = (0..1000).inspect(|_| _ = made.fetch_add(1, Ordering::SeqCst));
        assert_eq!(prefetch(items, |item| if item < 3 { Ok(()) } else { Err(item) }), Err(3));
        assert!(made.load(Ordering::SeqCst) <= 5);
    }

    #[test]
    #[should_panic(expected = "a scoped thread panicked")]
    fn a_panic_of_the_producer_propagates() {
        let items = (0..10).inspect(|item| assert!(*item < 5, "item {item}"));
        let _: Result<(), ()> = prefetch(items, |_| Ok(()));
    }
}
