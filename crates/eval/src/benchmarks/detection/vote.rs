//! Accuracy of the majority vote of the five most similar boxes (Wang et al., Table 4).
//!
//! The paper only has "predict via top-5 majority vote", so variants are measured. The voters are all other boxes, or
//! only those of other photos. Queries and voters are boxes of every size, or only boxes that cover at least 1 % of
//! their photo, as in the paper's retrieval. If several classes have the most votes, the class of the nearest box wins.
//! Among equally similar boxes those of a wrong class come first, so constant similarities are not rewarded.

use std::cmp::Ordering;

use conifer_data::PartRule;

use super::{NAME, Proposals};
use crate::benchmarks::Context;
use crate::record::{Baseline, Record, RecordKey};
use crate::score::similarity_rows;
use crate::{Error, Outcomes, Result};

const VOTERS: usize = 5;

pub(super) fn records(context: &Context<'_>, proposals: &Proposals, note: &str) -> Result<Vec<Record>> {
    let mut records = Vec::new();
    let small = PartRule::default();
    for (rule, size) in [
        (PartRule { min_area: 0.0, ..small }, "boxes of every size".to_owned()),
        (small, format!("boxes of at least {} % of the photo", 100.0 * small.min_area)),
    ] {
        let voters = match VotingBoxes::new(context, proposals, &rule, &size) {
            Err(_) if context.options.partial && rule == small => {
                context.leaves_out(format!("no vote among {size}"));
                continue;
            }
            it => it?,
        };
        let correct = voters.vote(context)?;
        let score = context.options.score.name();
        for (who, name) in ["other boxes", "other photos' boxes"].into_iter().enumerate() {
            let values: Vec<f64> = correct.iter().map(|right| f64::from(u8::from(right[who]))).collect();
            let protocol = format!("top-{VOTERS} vote of {name}, {size}, {score}{note}");
            let mut record = |metric: &str, outcomes: Outcomes, most: f64| {
                let key = RecordKey { benchmark: NAME, split: "all classes", protocol: &protocol, metric };
                let baseline = Baseline::named("the most frequent class", most);
                let photos = voters.photos.iter().map(|&photo| photo as u32).collect();
                records.push(Record::clustered(key, outcomes, photos, baseline, context.options.seed));
            };
            let groups = voters.labels.iter().map(|&label| label as u32).collect();
            record("accuracy (micro)", values.clone().into(), voters.largest_share());
            record("accuracy (macro)", Outcomes::MeanOfGroups { values, groups }, 1.0 / voters.classes() as f64);
        }
    }
    Ok(records)
}

/// The boxes, which are both queries and voters.
struct VotingBoxes {
    points: Vec<f32>,
    labels: Vec<usize>,
    photos: Vec<usize>,
    /// Number of boxes of each class.
    sizes: Vec<usize>,
}

/// A voter and its similarity to the query.
#[derive(Clone, Copy)]
struct Voter {
    score: f32,
    right: bool,
    label: usize,
}

impl VotingBoxes {
    fn new(context: &Context<'_>, proposals: &Proposals, rule: &PartRule, size: &str) -> Result<Self> {
        let rows = proposals.selected_rows(rule);
        let labels: Vec<usize> = rows.iter().map(|&row| proposals.labels[row]).collect();
        let photos: Vec<usize> = rows.iter().map(|&row| proposals.boxes.photo_of[row]).collect();
        // The photo numbers ascend, so equal first and last numbers mean a single photo.
        if photos.first() == photos.last() {
            return Err(Error::Missing {
                benchmark: NAME,
                missing: format!("{size} in a second photo"),
                expected: "expected boxes in at least two photos, so that one photo can vote on another; with --partial the vote among large boxes is left out".into(),
            });
        }
        let mut sizes = vec![0; proposals.classes.len()];
        labels.iter().for_each(|&label| sizes[label] += 1);
        Ok(Self { points: proposals.points(&rows, context.embedder.spec().dim), labels, photos, sizes })
    }

    /// For each box, whether the majority vote predicts its class: with all other boxes as voters, and with only the
    /// boxes of other photos as voters.
    fn vote(&self, context: &Context<'_>) -> Result<Vec<[bool; 2]>> {
        let correct = |query: usize, scores: &[f32]| {
            let mut nearest = [const { Vec::<Voter>::new() }; 2];
            for (other, &score) in scores.iter().enumerate().filter(|it| it.0 != query) {
                let label = self.labels[other];
                let voter = Voter { score, right: label == self.labels[query], label };
                let voter_sets = if self.photos[other] == self.photos[query] { 1 } else { 2 };
                for nearest in &mut nearest[..voter_sets] {
                    let rank = nearest.partition_point(|it| it.order(&voter).is_le());
                    if rank < VOTERS {
                        nearest.insert(rank, voter);
                        nearest.truncate(VOTERS);
                    }
                }
            }
            nearest.map(|it| majority(it.iter().map(|voter| voter.label)) == Some(self.labels[query]))
        };
        similarity_rows(context.embedder.spec(), context.options.score, &self.points, &self.points, correct)
    }

    fn largest_share(&self) -> f64 {
        self.sizes.iter().copied().max().unwrap_or(0) as f64 / self.labels.len() as f64
    }

    fn classes(&self) -> usize {
        self.sizes.iter().filter(|&&size| size > 0).count()
    }
}

impl Voter {
    fn order(&self, other: &Self) -> Ordering {
        other.score.total_cmp(&self.score).then(self.right.cmp(&other.right))
    }
}

/// The class with the most votes. `votes` are in order of increasing distance of their boxes. Of classes with equally
/// many votes, the first in this order wins.
fn majority(votes: impl Iterator<Item = usize>) -> Option<usize> {
    let mut counts: Vec<(usize, usize)> = Vec::new();
    for label in votes {
        match counts.iter_mut().find(|it| it.0 == label) {
            Some(counted) => counted.1 += 1,
            None => counts.push((label, 1)),
        }
    }
    let most = counts.iter().map(|it| it.1).max()?;
    counts.into_iter().find(|it| it.1 == most).map(|it| it.0)
}

#[cfg(test)]
mod tests {
    use super::majority;

    #[test]
    fn the_nearer_class_breaks_a_tie() {
        for (votes, correct) in [([1, 2, 2, 3, 1], 1), ([3, 2, 2, 1, 1], 2), ([7, 8, 9, 1, 2], 7), ([4, 5, 5, 4, 5], 5)]
        {
            assert_eq!(majority(votes.into_iter()), Some(correct), "{votes:?}");
        }
        assert_eq!(majority([].into_iter()), None);
    }
}
