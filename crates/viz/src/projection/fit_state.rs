//! The state of an unfinished fit, so that a killed process loses little work.

use super::StepObserver;
use crate::{Error, Result};

/// First bytes of an encoded state. The last digit is the version of the encoding.
const MAGIC: &[u8; 8] = b"CNFRFIT1";

/// Everything that a fit needs to continue after a number of finished steps, with the result of an uninterrupted fit.
///
/// Each fit defines the meaning of the entries. A fit rejects a state whose lists have other lengths than its own.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FitState {
    /// Counters and the state of a random generator.
    pub integers: Vec<u64>,
    /// Positions, directions and speeds.
    pub numbers: Vec<f64>,
}

/// Receives the progress of a fit and keeps its states.
pub trait FitProgress {
    /// Returns the state from which the fit continues; `None`: from the beginning. The fit calls this once, before its
    /// first step.
    fn restored(&mut self) -> Option<FitState>;

    /// Receives the number of finished steps, the total, and a function that returns the present state; returns false
    /// to stop the fit.
    fn step(&mut self, done: usize, total: usize, state: &dyn Fn() -> FitState) -> bool;
}

/// A fit that is observed without keeping its states.
pub(super) struct Unsaved<'a, 'b>(pub(super) &'a mut StepObserver<'b>);

impl FitProgress for Unsaved<'_, '_> {
    fn restored(&mut self) -> Option<FitState> {
        None
    }

    fn step(&mut self, done: usize, total: usize, _: &dyn Fn() -> FitState) -> bool {
        (self.0)(done, total)
    }
}

impl FitState {
    /// Appends the state to `bytes` as little-endian numbers: the lengths of both lists, then the lists.
    pub fn append_to(&self, bytes: &mut Vec<u8>) {
        bytes.reserve_exact(MAGIC.len() + 8 * (2 + self.integers.len() + self.numbers.len()));
        bytes.extend(MAGIC);
        let lengths = [self.integers.len() as u64, self.numbers.len() as u64];
        lengths.iter().chain(&self.integers).for_each(|v| bytes.extend(v.to_le_bytes()));
        self.numbers.iter().for_each(|v| bytes.extend(v.to_le_bytes()));
    }

    /// Decodes the bytes of [`FitState::append_to`].
    ///
    /// # Errors
    /// The bytes are of another format or incomplete.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let wrong = |found: &str| Error::invalid("state of a fit", found, "the bytes that this build writes");
        let (words, rest) = bytes.strip_prefix(MAGIC).ok_or_else(|| wrong("another format"))?.as_chunks::<8>();
        let (Some((lengths, words)), []) = (words.split_first_chunk::<2>(), rest) else {
            return Err(wrong("incomplete bytes"));
        };
        let [integers, numbers] = lengths.map(|it| u64::from_le_bytes(it) as usize);
        if integers.checked_add(numbers) != Some(words.len()) {
            return Err(wrong("incomplete bytes"));
        }
        let (integers, numbers) = words.split_at(integers);
        Ok(FitState {
            integers: integers.iter().map(|it| u64::from_le_bytes(*it)).collect(),
            numbers: numbers.iter().map(|it| f64::from_le_bytes(*it)).collect(),
        })
    }

    /// Checks the lengths of both lists.
    pub(super) fn checked(self, what: &str, integers: usize, numbers: usize) -> Result<Self> {
        if (self.integers.len(), self.numbers.len()) == (integers, numbers) {
            return Ok(self);
        }
        let lengths = format!("{} integers and {} numbers", self.integers.len(), self.numbers.len());
        let found = format!("{lengths}, the state of another fit");
        let expected = format!("{integers} integers and {numbers} numbers; start the fit again");
        Err(Error::invalid(format!("unfinished {what}"), found, expected))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn states_are_read_back_bit_for_bit() {
        let state = FitState { integers: vec![3, u64::MAX], numbers: vec![-0.0, 1.0 / 3.0, f64::INFINITY] };
        let mut bytes = Vec::new();
        state.append_to(&mut bytes);
        let found = FitState::from_bytes(&bytes).unwrap();
        assert_eq!(found.integers, state.integers);
        let bits = |it: &FitState| it.numbers.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&found), bits(&state));
        for end in 0..bytes.len() {
            assert!(FitState::from_bytes(&bytes[..end]).is_err(), "{end}");
        }
        let longer = [&bytes[..], &[0; 8]].concat();
        assert!(FitState::from_bytes(&longer).unwrap_err().to_string().contains("incomplete"));
        assert!(FitState::from_bytes(b"another file of more than eight bytes").is_err());
        assert!(found.checked("fit", 2, 4).unwrap_err().to_string().contains("2 integers and 3 numbers"));
    }
}
