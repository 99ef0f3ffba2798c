use std::collections::{BTreeMap, BTreeSet};

use super::contrasts::{CaptionPairOutcomes, EmbeddedRegion};
use super::{Benchmark, Context, RequiredInput};
use crate::record::{Record, RecordKey};
use crate::{Error, Result};

/// VL-CheckList objects: accuracy in distinguishing the caption of a photo from a caption with another object, by
/// location and size of the object.
///
/// An item is correct if `score(photo, caption) > score(photo, wrong caption)`; a tie is wrong. The split of a sample
/// is its subset, and its label is one of up to seven corpora. Each subset has one file per corpus. The papers do not
/// state how they average, so all interpretations are recorded. The protocol names them:
///
/// * corpora: all corpora of the data, and `vg_obj` alone, which PHyCLIP's released configuration names;
/// * items: all items, or the first 1,000 of each file, where the released evaluator stops. If photos are absent and a
///   partial measurement is allowed, the first 1,000 items with a photo are measured, as in the released evaluator. The
///   protocol then states how many items are left out;
/// * mean: a subset of several files is averaged over its items or over its files. The released evaluator prints the
///   files one by one.
///
/// Under "mean over items" the value over all subsets is the mean of the six subset values. Under "mean over files" it
/// is the mean over all files. Both are equal if all subsets have the same number of files, as in the published data,
/// but not always in a partial measurement.
pub(super) struct VlChecklist;

/// The subsets, in the order of PHyCLIP Table 3.
const SUBSETS: &[&str] =
    &["Location/center", "Location/mid", "Location/margin", "Size/large", "Size/medium", "Size/small"];

/// Corpus of PHyCLIP's released configuration.
const RELEASED: &str = "vg_obj";

/// Half of `MAX_NUM: 2000` in the released configuration, which counts correct and wrong captions separately.
const FIRST: usize = 1000;

impl Benchmark for VlChecklist {
    fn name(&self) -> &'static str {
        "vl_checklist"
    }
    fn summary(&self) -> &'static str {
        "VL-CheckList objects: accuracy of photos between a caption and one with another object, by location and size"
    }
    fn reference(&self) -> &'static str {
        "HyCoCLIP Table 5 and Figure 8a, PHyCLIP Tables 3 and 6; Zhao et al. 2022"
    }
    fn needs(&self) -> &'static [RequiredInput] {
        &[RequiredInput::Images, RequiredInput::Captions, RequiredInput::WrongCaptions, RequiredInput::Labels]
    }

    fn run(&self, context: &Context<'_>) -> Result<Vec<Record>> {
        let found = CaptionPairOutcomes::measure(context, self.name(), EmbeddedRegion::Whole)?;
        let (subsets, subset_of) = found.subsets(context, self.name(), SUBSETS)?;
        let (corpora, corpus_of) =
            found.groups(self.name(), "the label (its corpus)", &[], |sample| sample.label.as_deref())?;
        self.check_files(context, (&subsets, &subset_of), (&corpora, &corpus_of))?;
        let groups =
            ChecklistGroups { context, found: &found, subsets: &subsets, subset_of: &subset_of, corpus_of: &corpus_of };
        let all: Vec<usize> = (0..corpus_of.len()).collect();
        let mut records = groups.records(self.name(), &corpora.join(" + "), all);
        let released = corpora.iter().zip(0..).find(|(corpus, _)| *corpus == RELEASED);
        if let Some((_, number)) = released.filter(|_| corpora.len() > 1) {
            let items = (0..corpus_of.len()).filter(|&item| corpus_of[item] == number).collect();
            records.extend(groups.records(self.name(), RELEASED, items));
        }
        Ok(records)
    }
}

impl VlChecklist {
    /// Checks that every corpus occurs in every published subset, because the subsets must be compared on the same
    /// corpora.
    fn check_files(
        &self,
        context: &Context<'_>,
        (subsets, subset_of): (&[String], &[u32]),
        (corpora, corpus_of): (&[String], &[u32]),
    ) -> Result<()> {
        if !subsets.iter().any(|subset| SUBSETS.contains(&&**subset)) {
            return Ok(());
        }
        let present: BTreeSet<(u32, u32)> = subset_of.iter().copied().zip(corpus_of.iter().copied()).collect();
        let files = subsets.len() * corpora.len();
        if present.len() == files {
            return Ok(());
        }
        if context.options.partial {
            context.leaves_out(format!("{} of {files} files", present.len()));
            return Ok(());
        }
        let pairs = (0..).zip(subsets).flat_map(|subset| (0..).zip(corpora).map(move |corpus| (subset, corpus)));
        let absent = pairs.filter(|((subset, _), (corpus, _))| !present.contains(&(*subset, *corpus)));
        let absent: Vec<String> = absent.map(|((_, subset), (_, corpus))| format!("{corpus} at {subset}")).collect();
        Err(Error::Missing {
            benchmark: self.name(),
            missing: format!("every sample of {} of {files} files ({})", absent.len(), absent.join(", ")),
            expected: "use --partial to take the means over the other files; the records then say so".into(),
        })
    }
}

struct ChecklistGroups<'a> {
    context: &'a Context<'a>,
    found: &'a CaptionPairOutcomes,
    subsets: &'a [String],
    subset_of: &'a [u32],
    corpus_of: &'a [u32],
}

impl ChecklistGroups<'_> {
    /// Records of the given items under every interpretation. `corpora` is the name of their corpora in the protocol.
    fn records(&self, benchmark: &str, corpora: &str, items: Vec<usize>) -> Vec<Record> {
        let mut files: BTreeMap<(u32, u32), Vec<usize>> = BTreeMap::new();
        for &item in &items {
            files.entry((self.subset_of[item], self.corpus_of[item])).or_default().push(item);
        }
        let mut file_of = vec![0; self.subset_of.len()];
        for (items, number) in files.values().zip(0..) {
            items.iter().for_each(|&item| file_of[item] = number);
        }
        let several = files.len() > self.by_subset(&items).len();
        let first: Vec<usize> = files.values().flat_map(|file| file.iter().copied().take(FIRST)).collect();
        let mut records = Vec::new();
        for (items, which) in [(items, "all items".to_owned()), (first, format!("first {FIRST} items of each file"))] {
            let protocol = |mean: &str| format!("{corpora}{mean}, {which}, {}", self.found.protocol);
            if several {
                self.over_items(benchmark, &protocol(", mean over items"), &items, &mut records);
                self.over_files(benchmark, &protocol(", mean over files"), &items, &file_of, &mut records);
            } else {
                self.over_items(benchmark, &protocol(""), &items, &mut records);
            }
        }
        records
    }

    /// The items of each subset, by the index of the subset. Subsets without items are omitted.
    fn by_subset(&self, items: &[usize]) -> BTreeMap<u32, Vec<usize>> {
        let mut present: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        items.iter().for_each(|&item| present.entry(self.subset_of[item]).or_default().push(item));
        present
    }

    fn over_items(&self, benchmark: &str, protocol: &str, items: &[usize], records: &mut Vec<Record>) {
        let (seed, present) = (self.context.options.seed, self.by_subset(items));
        for (&subset, items) in &present {
            let split = &self.subsets[subset as usize];
            records.push(self.found.mean(RecordKey { benchmark, split, protocol, metric: "accuracy" }, items, seed));
        }
        let metric = format!("accuracy (mean over {} subsets)", present.len());
        let key = RecordKey { benchmark, split: "all", protocol, metric: &metric };
        records.push(self.found.mean_of_groups(key, items, self.subset_of, seed));
    }

    fn over_files(&self, benchmark: &str, protocol: &str, items: &[usize], file_of: &[u32], records: &mut Vec<Record>) {
        let seed = self.context.options.seed;
        for (&subset, items) in &self.by_subset(items) {
            let key = RecordKey { benchmark, split: &self.subsets[subset as usize], protocol, metric: "accuracy" };
            records.push(self.found.mean_of_groups(key, items, file_of, seed));
        }
        let files = items.iter().map(|&item| file_of[item]).max().map_or(0, |last| last + 1);
        let metric = format!("accuracy (mean over {files} files)");
        let key = RecordKey { benchmark, split: "all", protocol, metric: &metric };
        records.push(self.found.mean_of_groups(key, items, file_of, seed));
    }
}
