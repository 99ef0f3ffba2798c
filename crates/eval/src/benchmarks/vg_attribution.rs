use super::contrasts::{CaptionPairOutcomes, EmbeddedRegion};
use super::{Benchmark, Context, RequiredInput};
use crate::record::{Record, RecordKey};
use crate::{Error, Result};

/// Visual Genome Attribution (ARO): accuracy in assigning two attributes to two objects.
///
/// The photo is cropped to its box. An item is correct if `score(box, caption) > score(box, caption with the attributes
/// exchanged)`; a tie is wrong. HyCoCLIP reports a mean accuracy without stating what is averaged, so three means are
/// recorded: over items, over attribute pairs (labels), and over the attribute pairs with at least 25 items. ARO's
/// evaluator lists only pairs with at least 25 items. The order of a pair matters: `open_crouched` and `crouched_open`
/// are two pairs.
///
/// Each of the [`MOST_FREQUENT`] most frequent pairs has a separate record, as in Fig. 8b, with the pair as the split.
pub(super) struct VgAttribution;

/// Minimum number of items for ARO's evaluator to list a pair.
const MIN_ITEMS: usize = 25;
/// Number of attribute pairs in HyCoCLIP's figure.
const MOST_FREQUENT: usize = 19;

impl Benchmark for VgAttribution {
    fn name(&self) -> &'static str {
        "vg_attribution"
    }
    fn summary(&self) -> &'static str {
        "Visual Genome Attribution (ARO): accuracy between a caption and one with the attributes exchanged, micro and by pairs"
    }
    fn reference(&self) -> &'static str {
        "HyCoCLIP Table 5 and Figure 8b; Yuksekgonul et al. 2023"
    }
    fn needs(&self) -> &'static [RequiredInput] {
        &[
            RequiredInput::Images,
            RequiredInput::Captions,
            RequiredInput::WrongCaptions,
            RequiredInput::Phrases,
            RequiredInput::Labels,
        ]
    }

    fn run(&self, context: &Context<'_>) -> Result<Vec<Record>> {
        let found = CaptionPairOutcomes::measure(context, self.name(), EmbeddedRegion::FirstBox)?;
        let (pairs, pair_of) =
            found.groups(self.name(), "the label (its attribute pair)", &[], |sample| sample.label.as_deref())?;
        let mut counts = vec![0usize; pairs.len()];
        pair_of.iter().for_each(|&pair| counts[pair as usize] += 1);
        let all: Vec<usize> = (0..pair_of.len()).collect();
        let frequent: Vec<usize> =
            all.iter().copied().filter(|&item| counts[pair_of[item] as usize] >= MIN_ITEMS).collect();

        let seed = context.options.seed;
        let protocol = format!("boxes, {}", found.protocol);
        let frequent_metric = format!("accuracy (mean over attribute pairs of {MIN_ITEMS} items)");
        let key = |metric| RecordKey { benchmark: self.name(), split: "all", protocol: &protocol, metric };
        let mut records = vec![
            found.mean(key("accuracy (micro)"), &all, seed),
            found.mean_of_groups(key("accuracy (mean over attribute pairs)"), &all, &pair_of, seed),
        ];
        if !frequent.is_empty() {
            records.push(found.mean_of_groups(key(&frequent_metric), &frequent, &pair_of, seed));
        } else if context.options.partial {
            context.leaves_out(format!("no attribute pair has {MIN_ITEMS} items"));
        } else {
            let most = counts.iter().max().copied().unwrap_or(0);
            return Err(Error::Missing {
                benchmark: self.name(),
                missing: format!("every attribute pair with {MIN_ITEMS} items (the most frequent has {most})"),
                expected: "with --partial the mean over such pairs is left out, and the records say so".into(),
            });
        }
        for &pair in most_frequent(&counts).iter().take(MOST_FREQUENT) {
            let items: Vec<usize> = all.iter().copied().filter(|&item| pair_of[item] as usize == pair).collect();
            let key = RecordKey { split: &pairs[pair], ..key("accuracy of the attribute pair") };
            records.push(found.mean(key, &items, seed));
        }
        Ok(records)
    }
}

/// The indices of the pairs, the most frequent first. Pairs with equal numbers of items stay in alphabetical order.
fn most_frequent(counts: &[usize]) -> Vec<usize> {
    let mut pairs: Vec<usize> = (0..counts.len()).collect();
    pairs.sort_by_key(|&pair| std::cmp::Reverse(counts[pair]));
    pairs
}

#[cfg(test)]
mod tests {
    #[test]
    fn ties_are_alphabetical() {
        assert_eq!(super::most_frequent(&[2, 7, 2, 9]), [3, 1, 0, 2]);
    }
}
