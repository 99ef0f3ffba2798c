//! The processes of a run that train one model together: *ranks*, as MPI calls them.
//!
//! Every rank holds the whole model and takes the same steps. Of each batch it reads and embeds only its own rows. The
//! points of all ranks are gathered, so every rank computes the loss of the whole batch (with `train.loss_rows =
//! "own"`, its rows of that loss), and the gradients of the parameters are summed over the ranks. Everything that must
//! be the same on all ranks goes through [`Ranks`], whose functions are collective: every rank calls them in the same
//! order.
//!
//! A [`Communicator`] moves the bytes: [`Single`] for one process, `mpi` for several (feature `mpi`).

#[cfg(feature = "mpi")]
pub mod mpi;
#[cfg(test)]
pub(crate) mod threads;

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use conifer_model::batch_space::RowShare;

use crate::error::{Error, Result};

/// Moves bytes between the ranks. Every rank calls the same functions in the same order, with the same number of bytes.
pub trait Communicator: Send + Sync {
    /// Number of this rank, from 0.
    fn rank(&self) -> usize;
    /// Number of ranks.
    fn size(&self) -> usize;
    /// Returns the bytes of all ranks, concatenated in the order of the ranks.
    fn all_gather(&self, mine: &[u8]) -> Vec<u8>;
    /// Sends block i of `mine` to rank i. Returns the blocks received, in the order of their senders.
    fn all_to_all(&self, mine: &[u8]) -> Vec<u8>;
}

/// The ranks of a run, with collective operations on them.
#[derive(Clone)]
pub struct Ranks {
    communicator: Arc<dyn Communicator>,
    /// The message of the last [`Ranks::agree`], if it failed. All ranks know it.
    failure: Arc<Mutex<Option<String>>>,
}

/// The communicator of a run in one process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Single;

impl Communicator for Single {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn all_gather(&self, mine: &[u8]) -> Vec<u8> {
        mine.to_vec()
    }

    fn all_to_all(&self, mine: &[u8]) -> Vec<u8> {
        mine.to_vec()
    }
}

impl Default for Ranks {
    fn default() -> Self {
        Self::new(Single)
    }
}

impl fmt::Debug for Ranks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} of {}", self.rank(), self.size())
    }
}

/// Largest number of values in a block of [`Ranks::sum`]. It bounds the buffers, and a message of MPI has at most
/// 2^31 - 1 elements.
const BLOCK: usize = 1 << 18;

impl Ranks {
    /// Creates the ranks that `communicator` connects.
    pub fn new(communicator: impl Communicator + 'static) -> Self {
        Self { communicator: Arc::new(communicator), failure: Arc::default() }
    }

    /// Number of this rank, from 0.
    pub fn rank(&self) -> usize {
        self.communicator.rank()
    }

    /// Number of ranks.
    pub fn size(&self) -> usize {
        self.communicator.size()
    }

    /// True for rank 0, which alone writes logs and checkpoints and reports to the user.
    pub fn leads(&self) -> bool {
        self.rank() == 0
    }

    /// The range of this rank in a batch of `rows` rows.
    pub fn share(&self, rows: usize) -> Range<usize> {
        self.row_share().of(rows)
    }

    /// The share of this rank in a batch of any number of rows.
    pub fn row_share(&self) -> RowShare {
        RowShare::new(self.rank(), self.size())
    }

    /// Returns `result` if no rank has an error.
    ///
    /// `result` may come from work that itself calls `agree`. An error on which the ranks have agreed there is not
    /// exchanged again: on a rank that failed between two inner calls, this call was the counterpart of an inner call
    /// of the other ranks.
    ///
    /// # Errors
    /// [`Error::Ranks`] on every rank, with the errors of all ranks, if there are several ranks. In a job with one
    /// process, the error is returned unchanged.
    pub fn agree<T, E: Display + From<Error>>(&self, result: Result<T, E>) -> Result<T, E> {
        if self.size() == 1 {
            return result;
        }
        if result.is_err()
            && let Some(message) = self.failure().clone()
        {
            return Err(Error::Ranks { rank: self.rank(), message }.into());
        }
        let mine = result.as_ref().err().map(|error| format!("{error:#}"));
        let all = self.gather_texts(mine.as_deref());
        let message = all.iter().any(Option::is_some).then(|| failures(&all));
        self.failure().clone_from(&message);
        match (result, message) {
            (Ok(value), None) => Ok(value),
            (_, message) => Err(Error::Ranks { rank: self.rank(), message: message.unwrap_or_default() }.into()),
        }
    }

    fn failure(&self) -> MutexGuard<'_, Option<String>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `work` on rank 0 alone. The other ranks wait for it and return `None`.
    ///
    /// # Errors
    /// The errors of [`Ranks::agree`].
    pub fn lead<T, E: Display + From<Error>>(&self, work: impl FnOnce() -> Result<T, E>) -> Result<Option<T>, E> {
        // An error before this call was handled, for example by a checkpoint that `work` saves.
        *self.failure() = None;
        self.agree(if self.leads() { work().map(Some) } else { Ok(None) })
    }

    /// Checks that `value` is the same on all ranks. `what` names it in messages.
    ///
    /// # Errors
    /// [`Error::Ranks`] with the values, their ranks, and `hint`, the advice to the user.
    pub fn same(&self, what: &str, value: &str, hint: &str) -> Result<()> {
        if self.size() == 1 {
            return Ok(());
        }
        let all = self.gather_texts(Some(value));
        if all.iter().all(|other| *other == all[0]) {
            return Ok(());
        }
        let message =
            format!("train: `{what}` differs between the ranks ({}); expected one value; {hint}", failures(&all));
        Err(Error::Ranks { rank: self.rank(), message })
    }

    /// True if `flag` is true on at least one rank.
    pub fn any(&self, flag: bool) -> bool {
        self.max(u64::from(flag)) > 0
    }

    /// The largest `value` over all ranks.
    pub fn max(&self, value: u64) -> u64 {
        if self.size() == 1 {
            return value;
        }
        self.gather_number(value).into_iter().max().unwrap_or(value)
    }

    /// The values of all ranks, in their order. The ranks may have different numbers of values.
    pub fn gather(&self, mine: &[f32]) -> Vec<f32> {
        let all = self.gather_bytes(bytemuck::cast_slice(mine));
        all.iter().flat_map(|bytes| bytemuck::pod_collect_to_vec::<u8, f32>(bytes)).collect()
    }

    /// The bytes of each rank. The ranks may have different numbers of bytes.
    pub fn gather_bytes(&self, mine: &[u8]) -> Vec<Vec<u8>> {
        if self.size() == 1 {
            return vec![mine.to_vec()];
        }
        let lengths = self.gather_number(mine.len() as u64);
        // Every rank sends as many bytes as the longest `mine` has.
        let longest = lengths.iter().copied().max().unwrap_or(0) as usize;
        if longest == 0 {
            return vec![Vec::new(); self.size()];
        }
        let mut block = mine.to_vec();
        block.resize(longest, 0);
        let all = self.communicator.all_gather(&block);
        let own = |(rank, &length): (usize, &u64)| all[rank * longest..][..length as usize].to_vec();
        lengths.iter().enumerate().map(own).collect()
    }

    /// Returns rank 0's `mine` on every rank. The other ranks' `mine` is ignored.
    pub fn from_rank_0(&self, mine: &[u8]) -> Vec<u8> {
        self.gather_bytes(if self.leads() { mine } else { &[] }).swap_remove(0)
    }

    /// Exchanges one number per rank.
    fn gather_number(&self, mine: u64) -> Vec<u64> {
        let all = self.communicator.all_gather(&mine.to_le_bytes());
        all.chunks_exact(8).map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap_or_default())).collect()
    }

    /// Replaces `values` by their sums over the ranks. Every rank passes the same number of values. The ranks are added
    /// in their order, which makes the sums reproducible.
    ///
    /// Each rank sums a part of the values and sends it to all (a reduce-scatter and an all-gather). A rank therefore
    /// sends and receives about twice the size of `values`, whatever the number of ranks.
    pub fn sum(&self, values: &mut [f32]) {
        let size = self.size();
        if size == 1 {
            return;
        }
        for values in values.chunks_mut(BLOCK * size) {
            let block = values.len().div_ceil(size);
            let mut padded = values.to_vec();
            padded.resize(block * size, 0.0);
            let received: Vec<f32> =
                bytemuck::pod_collect_to_vec(&self.communicator.all_to_all(bytemuck::cast_slice(&padded)));
            let mut sums = received[..block].to_vec();
            for part in received.chunks_exact(block).skip(1) {
                sums.iter_mut().zip(part).for_each(|(sum, value)| *sum += value);
            }
            let all: Vec<f32> =
                bytemuck::pod_collect_to_vec(&self.communicator.all_gather(bytemuck::cast_slice(&sums)));
            values.copy_from_slice(&all[..values.len()]);
        }
    }

    /// Sums `values` over the ranks in their order and returns the sums in the range `own` (a reduce-scatter). Every
    /// rank passes the same number of values. The ranges of the ranks are consecutive.
    pub fn sum_part(&self, values: &[f32], own: Range<usize>) -> Vec<f32> {
        if self.size() == 1 {
            return values[own].to_vec();
        }
        let [starts, ends] = [own.start, own.end].map(|bound| self.gather_number(bound as u64));
        let ranges = starts.into_iter().zip(ends).map(|(start, end)| start as usize..end as usize);
        let ranges: Vec<Range<usize>> = ranges.collect();
        // Every rank receives as many values as the longest range has.
        let longest = ranges.iter().map(Range::len).max().unwrap_or(0);
        if longest == 0 {
            return Vec::new();
        }
        let mut blocks = vec![0.0; longest * self.size()];
        for (block, range) in blocks.chunks_exact_mut(longest).zip(ranges) {
            block[..range.len()].copy_from_slice(&values[range]);
        }
        let received: Vec<f32> =
            bytemuck::pod_collect_to_vec(&self.communicator.all_to_all(bytemuck::cast_slice(&blocks)));
        let mut sums = received[..own.len()].to_vec();
        for part in received.chunks_exact(longest).skip(1) {
            sums.iter_mut().zip(part).for_each(|(sum, value)| *sum += value);
        }
        sums
    }

    /// The sums of a few numbers over the ranks. Every rank passes the same number of numbers.
    pub fn sum_numbers(&self, mine: &[f64]) -> Vec<f64> {
        if self.size() == 1 {
            return mine.to_vec();
        }
        let all = bytemuck::pod_collect_to_vec::<u8, f64>(&self.communicator.all_gather(bytemuck::cast_slice(mine)));
        (0..mine.len()).map(|i| all.iter().skip(i).step_by(mine.len()).sum()).collect()
    }

    /// For each flag, true if it is true on at least one rank. Every rank passes the same number of flags.
    pub fn any_of(&self, flags: &[bool]) -> Vec<bool> {
        let mine: Vec<u8> = flags.iter().map(|&flag| u8::from(flag)).collect();
        let all = self.communicator.all_gather(&mine);
        (0..flags.len()).map(|i| all.iter().skip(i).step_by(flags.len()).any(|&flag| flag > 0)).collect()
    }

    /// Exchanges one optional text per rank.
    fn gather_texts(&self, mine: Option<&str>) -> Vec<Option<String>> {
        // A leading byte distinguishes an empty text from `None`.
        let mine = mine.map(|text| [b"+", text.as_bytes()].concat()).unwrap_or_default();
        let text = |bytes: Vec<u8>| Some(String::from_utf8_lossy(bytes.get(1..)?).into_owned());
        self.gather_bytes(&mine).into_iter().map(text).collect()
    }
}

/// Joins the errors of the ranks into one message: each text once, with its ranks. A text that all ranks share stands
/// alone.
fn failures(texts: &[Option<String>]) -> String {
    let mut ranks: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (rank, text) in texts.iter().enumerate() {
        if let Some(text) = text {
            ranks.entry(text).or_default().push(rank.to_string());
        }
    }
    if let (Some((text, of)), 1) = (ranks.first_key_value(), ranks.len())
        && of.len() == texts.len()
    {
        return (*text).to_owned();
    }
    let mut messages: Vec<_> = ranks.into_iter().collect();
    messages.sort_by_key(|(_, ranks)| ranks[0].parse::<usize>().unwrap_or_default());
    let message = |(text, ranks): (&str, Vec<String>)| {
        let name = if ranks.len() == 1 { "rank" } else { "ranks" };
        format!("{name} {} of {}: {text}", ranks.join(", "), texts.len())
    };
    messages.into_iter().map(message).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests;
