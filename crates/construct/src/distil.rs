//! A small model that learns to continue hierarchies (HierarCaps supplement, Sec. 2.1): which texts it is trained on,
//! and the interface of its implementation. This crate has no tensor engine, so the model itself is in the program.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::llm::ReadingDirection;
use crate::negatives::key_of;
use crate::pipeline::TIERS;

/// Maximum number of tiers that a training pair gives to the model.
const MAX_GIVEN: usize = 3;

/// A hierarchy split into the tiers that the model reads and those that it should write, both in reading direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DistilPair {
    /// Direction of both.
    pub direction: ReadingDirection,
    /// Zero to three tiers that the model reads.
    pub given: Vec<String>,
    /// The other tiers.
    pub rest: Vec<String>,
}

/// The training pairs of one epoch, one for each hierarchy, in random order. Zero to three tiers are given, each number
/// with the same probability, and half of the hierarchies are reversed. Each epoch draws new splits.
pub fn distil_pairs(hierarchies: &[[String; TIERS]], seed: u64, epoch: usize) -> Vec<DistilPair> {
    let mut rng = ChaCha8Rng::from_seed(key_of(seed, &format!("distil {epoch}")));
    let mut pairs: Vec<DistilPair> = hierarchies
        .iter()
        .map(|tiers| {
            let mut tiers = tiers.to_vec();
            let direction = if rng.random_bool(0.5) { ReadingDirection::Backward } else { ReadingDirection::Forward };
            if direction == ReadingDirection::Backward {
                tiers.reverse();
            }
            let rest = tiers.split_off(rng.random_range(0..=MAX_GIVEN));
            DistilPair { direction, given: tiers, rest }
        })
        .collect();
    pairs.shuffle(&mut rng);
    pairs
}

/// A fine-tuning run.
pub struct DistilTask<'a> {
    /// Tiers from general to specific.
    pub hierarchies: &'a [[String; TIERS]],
    /// Seed of the pairs and of new weights.
    pub seed: u64,
    /// Folder of the result. An earlier model there is replaced once the new one is complete.
    pub folder: &'a Path,
    /// Set when the user stops the run.
    pub stop: &'a AtomicBool,
}

/// One pass over all hierarchies, as in `distil.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DistilEpoch {
    /// Number of the epoch, from 1.
    pub epoch: usize,
    /// Mean cross entropy of its batches, in nats per token.
    pub loss: f64,
    /// Number of updates.
    pub updates: usize,
}

/// Fine-tunes a model that continues hierarchies.
pub trait Distiller: Send + Sync {
    /// Name of the model before it is fine-tuned, for reports.
    fn name(&self) -> String;

    /// Everything besides the hierarchies and the seed that determines the result.
    fn identity(&self) -> String;

    /// Fine-tunes the model and writes it to the folder of the task.
    ///
    /// # Errors
    /// The model cannot be read, trained or written, or the user stops the run.
    fn distil(&self, task: &DistilTask<'_>) -> Result<Vec<DistilEpoch>>;

    /// Opens a folder that [`Distiller::distil`] wrote.
    ///
    /// # Errors
    /// The folder cannot be read.
    fn open(&self, folder: &Path) -> Result<Box<dyn TierGenerator>>;
}

/// A beginning of a hierarchy that a model should continue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TierRequest {
    /// Direction of the given tiers and of the answer.
    pub direction: ReadingDirection,
    /// Zero to three tiers.
    pub given: Vec<String>,
    /// True if only the next tier is needed.
    pub next_only: bool,
    /// Seed of the draw.
    pub seed: [u8; 32],
}

/// A model that continues hierarchies.
pub trait TierGenerator: Send + Sync {
    /// Name in reports and provenance.
    fn name(&self) -> String;

    /// Everything besides the requests that determines the answers.
    fn identity(&self) -> String;

    /// Draws one continuation of each request. An answer without end has no tiers.
    ///
    /// # Errors
    /// The model failed.
    fn generate(&self, requests: &[TierRequest]) -> Result<Vec<Vec<String>>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hierarchies(count: usize) -> Vec<[String; TIERS]> {
        (0..count).map(|number| [0, 1, 2, 3].map(|tier| format!("{number}.{tier}"))).collect()
    }

    /// By hand: a number of given tiers has the expectation n / 4; four standard deviations of n = 4000 are 110.
    #[test]
    fn pairs_are_split_and_reversed_as_in_the_paper() {
        let all = hierarchies(4000);
        let pairs = distil_pairs(&all, 7, 1);
        let mut given = [0_usize; 4];
        let mut backward = 0_usize;
        let mut seen = std::collections::BTreeSet::new();
        for pair in &pairs {
            given[pair.given.len()] += 1;
            let mut tiers = [pair.given.clone(), pair.rest.clone()].concat();
            if pair.direction == ReadingDirection::Backward {
                backward += 1;
                tiers.reverse();
            }
            let number: usize = tiers[0].split('.').next().and_then(|it| it.parse().ok()).unwrap_or(usize::MAX);
            assert_eq!(tiers, all[number]);
            seen.insert(number);
        }
        assert_eq!(seen.len(), 4000, "every hierarchy once");
        assert!(given.iter().all(|count| count.abs_diff(1000) < 110), "{given:?}");
        assert!(backward.abs_diff(2000) < 127, "{backward}");
        assert_eq!(distil_pairs(&all, 7, 1), pairs);
        assert_ne!(distil_pairs(&all, 7, 2), pairs);
        assert_ne!(distil_pairs(&all, 8, 1), pairs);
    }
}
