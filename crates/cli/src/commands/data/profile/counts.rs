use std::collections::{BTreeMap, HashMap, HashSet};

use conifer_data::{Broken, MissingRank, Sample};
use serde_json::{Value, json};

/// Maximum number of broken samples kept per cause.
const EXAMPLES: usize = 5;

/// Counts and measurements of the samples.
#[derive(Default)]
pub(super) struct DataCounts {
    pub(super) samples: usize,
    pub(super) without_photo: usize,
    pub(super) without_caption: usize,
    pub(super) splits: BTreeMap<String, usize>,
    /// Number of words of each caption.
    pub(super) caption_words: Vec<f64>,
    captions: HashMap<String, usize>,
    pub(super) phrases: usize,
    /// Number of boxes of each sample that has boxes.
    pub(super) boxes: Vec<f64>,
    /// Share of the photo that each box covers.
    pub(super) box_areas: Vec<f64>,
    /// Number of texts of each caption hierarchy.
    pub(super) tiers: Vec<f64>,
    pub(super) widths: Vec<f64>,
    pub(super) heights: Vec<f64>,
    pub(super) labels: BTreeMap<String, usize>,
    /// Number of samples of each taxon.
    pub(super) taxa: BTreeMap<Vec<String>, usize>,
    pub(super) missing_ranks: BTreeMap<MissingRank, usize>,
    /// Number of broken samples by cause, with the first of them as examples.
    pub(super) broken: BTreeMap<&'static str, (usize, Vec<String>)>,
    ids: HashSet<String>,
    pub(super) repeated_ids: usize,
}

/// Minimum, quartiles and maximum; `None` without values.
pub(super) fn quartiles(values: &[f64]) -> Option<[f64; 5]> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    Some([0, 1, 2, 3, 4].map(|quarter| sorted[(last * quarter + 2) / 4]))
}

impl DataCounts {
    pub(super) fn add(&mut self, sample: Sample, split: &str) {
        self.samples += 1;
        self.without_photo += usize::from(sample.image.is_none());
        self.without_caption += usize::from(sample.captions.is_empty());
        if !split.is_empty() {
            *self.splits.entry(split.to_owned()).or_default() += 1;
        }
        for caption in sample.captions {
            self.caption_words.push(caption.split_whitespace().count() as f64);
            *self.captions.entry(caption).or_default() += 1;
        }
        self.phrases += sample.phrases.len();
        let boxes: usize = sample.phrases.iter().map(|it| it.boxes.len() + usize::from(it.crop.is_some())).sum();
        if boxes > 0 {
            self.boxes.push(boxes as f64);
        }
        self.box_areas.extend(sample.phrases.iter().flat_map(|it| &it.boxes).map(|it| f64::from(it.area())));
        self.tiers.extend(sample.tiers.map(|it| it.positive.len() as f64));
        if let Some(label) = sample.label {
            *self.labels.entry(label).or_default() += 1;
        }
        if !sample.taxon.is_empty() {
            *self.taxa.entry(sample.taxon).or_default() += 1;
        }
        for rank in sample.missing_ranks {
            *self.missing_ranks.entry(rank).or_default() += 1;
        }
        self.repeated_ids += usize::from(!self.ids.insert(sample.id));
    }

    pub(super) fn add_photo(&mut self, (width, height): (u32, u32)) {
        self.widths.push(f64::from(width));
        self.heights.push(f64::from(height));
    }

    pub(super) fn add_broken(&mut self, broken: Broken) {
        let (count, examples) = self.broken.entry(broken.cause.name()).or_default();
        *count += 1;
        if examples.len() < EXAMPLES {
            examples.push(broken.to_string());
        }
    }

    pub(super) fn box_count(&self) -> usize {
        self.boxes.iter().map(|count| *count as usize).sum()
    }

    pub(super) fn broken_count(&self) -> usize {
        self.broken.values().map(|(count, _)| count).sum()
    }

    /// Captions that occur more than once: the number of different texts, and the number of occurrences.
    pub(super) fn repeated_captions(&self) -> (usize, usize) {
        let repeated = self.captions.values().filter(|count| **count > 1);
        repeated.fold((0, 0), |(texts, all), count| (texts + 1, all + count))
    }

    /// `exp(entropy)` of the labels: the number of equally frequent classes with the same entropy. `None` without
    /// labels.
    pub(super) fn effective_classes(&self) -> Option<f64> {
        let total = self.labels.values().sum::<usize>() as f64;
        let share = |count: &usize| *count as f64 / total;
        (total > 0.0).then(|| (-self.labels.values().map(|it| share(it) * share(it).ln()).sum::<f64>()).exp())
    }

    /// Labels by descending number of samples.
    pub(super) fn labels_by_count(&self) -> Vec<(&str, usize)> {
        let mut labels: Vec<(&str, usize)> = self.labels.iter().map(|(name, count)| (name.as_str(), *count)).collect();
        labels.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        labels
    }

    pub(super) fn json(&self) -> Value {
        let (repeated_texts, repeated) = self.repeated_captions();
        let missing = |(rank, count): (&MissingRank, &usize)| (rank.name.clone(), json!(count));
        let broken = |(cause, (count, examples)): (&&str, &(usize, Vec<String>))| {
            ((*cause).to_owned(), json!({ "count": count, "examples": examples }))
        };
        json!({
            "samples": self.samples + self.broken_count(),
            "readable": self.samples,
            "broken": self.broken.iter().map(broken).collect::<serde_json::Map<_, _>>(),
            "repeated_ids": self.repeated_ids,
            "splits": self.splits,
            "without_photo": self.without_photo,
            "without_caption": self.without_caption,
            "widths": quartiles(&self.widths),
            "heights": quartiles(&self.heights),
            "captions": self.caption_words.len(),
            "caption_words": quartiles(&self.caption_words),
            "repeated_captions": { "texts": repeated_texts, "occurrences": repeated },
            "phrases": self.phrases,
            "boxes": self.box_count(),
            "boxes_per_photo": quartiles(&self.boxes),
            "box_areas": quartiles(&self.box_areas),
            "caption_hierarchies": self.tiers.len(),
            "texts_per_hierarchy": quartiles(&self.tiers),
            "labels": self.labels_by_count().into_iter().map(|(name, count)| json!([name, count])).collect::<Vec<_>>(),
            "effective_classes": self.effective_classes(),
            "taxa": self.taxa.len(),
            "missing_ranks": self.missing_ranks.iter().map(missing).collect::<serde_json::Map<_, _>>(),
        })
    }

    /// The most important numbers in words.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("{} samples, {} broken", self.samples + self.broken_count(), self.broken_count())];
        lines.push(format!(
            "{} captions, {} boxes, {} labels, {} taxa",
            self.caption_words.len(),
            self.box_count(),
            self.labels.len(),
            self.taxa.len()
        ));
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_of_few_values() {
        assert_eq!(quartiles(&[]), None);
        assert_eq!(quartiles(&[3.0]), Some([3.0; 5]));
        assert_eq!(quartiles(&[5.0, 1.0, 2.0, 4.0, 3.0]), Some([1.0, 2.0, 3.0, 4.0, 5.0]));
    }

    /// The effective number of classes is 2 for two classes of equal size, and below 2 for sizes 3 and 1.
    #[test]
    fn effective_classes_by_hand() {
        let counts = |of: &[(&str, usize)]| DataCounts {
            labels: of.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect(),
            ..DataCounts::default()
        };
        assert!(counts(&[("a", 5), ("b", 5)]).effective_classes().is_some_and(|it| (it - 2.0).abs() < 1e-12));
        // 0.75 ln(4/3) + 0.25 ln 4 = 0.5623; exp = 1.7548
        assert!(counts(&[("a", 3), ("b", 1)]).effective_classes().is_some_and(|it| (it - 1.7548).abs() < 1e-4));
        assert_eq!(counts(&[]).effective_classes(), None);
    }
}
