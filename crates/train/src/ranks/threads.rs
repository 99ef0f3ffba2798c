//! Ranks that are threads of one process, for tests.

use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use super::{Communicator, Ranks};

/// Runs `work` on `size` ranks at the same time and returns the results in the order of the ranks.
pub(crate) fn on_ranks<T: Send>(size: usize, work: impl Fn(Ranks) -> T + Sync) -> Vec<T> {
    let meeting = Arc::new(Meeting::default());
    thread::scope(|scope| {
        let start = |rank| {
            let ranks = ThreadRank { rank, size, meeting: meeting.clone() };
            let work = &work;
            scope.spawn(move || work(Ranks::new(ranks)))
        };
        let threads: Vec<_> = (0..size).map(start).collect();
        threads.into_iter().map(|thread| thread.join().expect("a rank panicked")).collect()
    })
}

/// The bytes that the ranks exchange, and the state of the exchange.
#[derive(Default)]
struct Meeting {
    state: Mutex<MeetingState>,
    changed: Condvar,
}

#[derive(Default)]
struct MeetingState {
    /// Number of complete exchanges.
    exchanges: u64,
    /// The bytes of the ranks that have arrived at the current exchange.
    arrived: Vec<(usize, Vec<u8>)>,
    /// The bytes of the last complete exchange, in the order of the ranks.
    last: Arc<Vec<Vec<u8>>>,
    /// A rank has panicked.
    lost: bool,
}

struct ThreadRank {
    rank: usize,
    size: usize,
    meeting: Arc<Meeting>,
}

impl ThreadRank {
    fn exchange(&self, mine: &[u8]) -> Arc<Vec<Vec<u8>>> {
        let mut state = self.meeting.state.lock().expect("no rank panics in an exchange");
        let number = state.exchanges;
        state.arrived.push((self.rank, mine.to_vec()));
        if state.arrived.len() == self.size {
            let mut all = std::mem::take(&mut state.arrived);
            all.sort_by_key(|(rank, _)| *rank);
            state.last = Arc::new(all.into_iter().map(|(_, bytes)| bytes).collect());
            state.exchanges += 1;
            self.meeting.changed.notify_all();
        }
        while state.exchanges == number {
            assert!(!state.lost, "another rank panicked");
            state = self.meeting.changed.wait(state).expect("no rank panics in an exchange");
        }
        let all = state.last.clone();
        // MPI does not define what happens if the lengths differ.
        assert!(all.iter().all(|bytes| bytes.len() == mine.len()), "every rank passes the same number of bytes");
        all
    }
}

impl Drop for ThreadRank {
    fn drop(&mut self) {
        if thread::panicking()
            && let Ok(mut state) = self.meeting.state.lock()
        {
            state.lost = true;
            self.meeting.changed.notify_all();
        }
    }
}

impl Communicator for ThreadRank {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn all_gather(&self, mine: &[u8]) -> Vec<u8> {
        self.exchange(mine).concat()
    }

    fn all_to_all(&self, mine: &[u8]) -> Vec<u8> {
        let block = mine.len() / self.size;
        self.exchange(mine).iter().flat_map(|bytes| &bytes[self.rank * block..][..block]).copied().collect()
    }
}
