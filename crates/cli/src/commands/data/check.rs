use std::collections::{BTreeMap, HashSet};

use anyhow::bail;
use conifer_data::sample::guarded;
use conifer_data::{Broken, ImageRef, MissingRank, PixelLimits, Sample};
use serde_json::json;

use crate::arguments::DataArgs;
use crate::output::{columns, note, print, print_json};
use crate::progress;
use crate::request::open_source;

/// Maximum number of broken samples shown per cause.
const EXAMPLES: u64 = 3;

/// Counts over the readable samples.
#[derive(Default)]
struct SampleCounts {
    photos: usize,
    captions: usize,
    phrases: usize,
    boxes: usize,
    tiers: usize,
    labelled: usize,
    labels: HashSet<String>,
    taxa: HashSet<Vec<String>>,
    /// Samples whose taxon lacks a rank, by rank.
    missing_ranks: BTreeMap<MissingRank, usize>,
}

impl SampleCounts {
    fn add(&mut self, sample: &mut Sample) {
        self.photos += usize::from(sample.image.is_some());
        self.captions += sample.captions.len();
        self.phrases += sample.phrases.len();
        self.boxes += sample.phrases.iter().map(|it| it.boxes.len() + usize::from(it.crop.is_some())).sum::<usize>();
        self.tiers += usize::from(sample.tiers.is_some());
        if let Some(label) = sample.label.take() {
            self.labelled += 1;
            self.labels.insert(label);
        }
        for rank in std::mem::take(&mut sample.missing_ranks) {
            *self.missing_ranks.entry(rank).or_default() += 1;
        }
        if !sample.taxon.is_empty() {
            self.taxa.insert(std::mem::take(&mut sample.taxon));
        }
    }
}

/// Reads every sample, and with `pixels` decodes every photo.
pub(super) fn run(data: &DataArgs, pixels: bool, as_json: bool) -> anyhow::Result<()> {
    let source = open_source(data)?;
    let bar = progress::bar("samples", source.len());
    let (mut broken, mut examples) = (BTreeMap::<&str, u64>::new(), Vec::<Broken>::new());
    let mut counts = SampleCounts::default();
    let (mut ids, mut repeated) = (HashSet::new(), Vec::new());
    for index in 0..source.len() {
        let place = || format!("{}[{index}]", source.name());
        let sample = guarded(place, || {
            let sample = source.get(index)?;
            if pixels && !matches!(sample.image, Some(ImageRef::Vector(_))) {
                sample.photo(&PixelLimits::default())?;
            }
            Ok(sample)
        });
        match sample {
            Ok(mut sample) => {
                counts.add(&mut sample);
                if let Some(id) = ids.replace(sample.id) {
                    repeated.push(id);
                }
            }
            Err(it) => {
                let count = broken.entry(it.cause.name()).or_default();
                *count += 1;
                if *count <= EXAMPLES {
                    examples.push(it);
                }
            }
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    let all_broken: u64 = broken.values().sum();
    for it in &examples {
        note(&format!("broken: {it}"));
    }
    if let Some(first) = repeated.first() {
        note(&format!(
            "repeated ids: {} (first: `{first}`); a search by id will find the earliest sample",
            repeated.len()
        ));
    }
    let SampleCounts { photos, captions, phrases, boxes, tiers, labelled, labels, taxa, missing_ranks } = counts;
    if as_json {
        print_json(&json!({
            "samples": source.len(),
            "broken": broken,
            "photos": photos,
            "captions": captions,
            "phrases": phrases,
            "boxes": boxes,
            "tiers": tiers,
            "labelled": labelled,
            "labels": labels.len(),
            "taxa": taxa.len(),
            "missing_ranks": missing_ranks.iter().map(|(rank, count)| (&rank.name, count)).collect::<BTreeMap<_, _>>(),
            "repeated_ids": repeated.len(),
        }))?;
    } else {
        let rows = [
            ("samples", source.len()),
            ("photos", photos),
            ("captions", captions),
            ("phrases", phrases),
            ("boxes", boxes),
            ("caption hierarchies (tiers)", tiers),
            ("different labels", labels.len()),
            ("different taxa", taxa.len()),
        ];
        let mut rows: Vec<_> = rows.map(|(name, count)| vec![name.to_owned(), count.to_string()]).into();
        let missing = |(rank, count): (&MissingRank, &usize)| vec![format!("without {}", rank.name), count.to_string()];
        rows.extend(missing_ranks.iter().map(missing));
        rows.extend(broken.iter().map(|(cause, count)| vec![format!("broken: {cause}"), count.to_string()]));
        if broken.is_empty() {
            rows.push(vec!["broken".to_owned(), "0".to_owned()]);
        }
        print(&columns(&rows))?;
    }
    if all_broken > 0 {
        bail!("{all_broken} of {} samples are broken", source.len());
    }
    Ok(())
}
