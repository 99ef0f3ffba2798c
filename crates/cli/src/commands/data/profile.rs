//! `conifer data profile`: what a data set contains, as a page and as JSON.

mod counts;
mod duplicates;
mod fingerprint;
mod neighbours;
mod page;
mod taxonomy;

use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use conifer_data::sample::guarded;
use conifer_data::{Broken, ImageRef, PixelLimits, Sample, Source};
use rayon::prelude::*;
use serde_json::json;

use crate::arguments::{DataArgs, ProfileArgs};
use crate::output::{print, print_json};
use crate::progress;
use crate::request::{open_rows, open_source};
use counts::DataCounts;
use duplicates::PhotoDuplicates;
use fingerprint::{HASH_BITS, PhotoFingerprint};

/// Number of samples that are read in parallel.
const CHUNK: usize = 256;

/// A photo of the data set.
struct ProfiledPhoto {
    /// Index of the source in the list of splits, and index of the sample in the source.
    source: usize,
    sample: usize,
    id: String,
    split: String,
    fingerprint: PhotoFingerprint,
}

/// A split of the data set, with its name. Without a name, it is the whole data set.
struct SplitSource {
    name: Option<String>,
    source: Box<dyn Source>,
}

pub(super) fn run(args: &ProfileArgs, as_json: bool) -> anyhow::Result<()> {
    let out = &args.out;
    let is_free = |_: &Path| bail!("the folder exists; expected a new one");
    ensure!(!out.exists(), "--out {} exists; expected a new folder", out.display());
    ensure!(args.near <= HASH_BITS / 4, "--near is {}; expected 0 to {} bits", args.near, HASH_BITS / 4);
    let set = args.set.as_deref().map(open_rows).transpose().context("--set")?;
    let sources = sources(args)?;
    let (mut counts, mut photos) = (DataCounts::default(), Vec::new());
    for (number, part) in sources.iter().enumerate() {
        read(part, number, !args.no_photos, &mut counts, &mut photos)?;
    }
    let duplicates = PhotoDuplicates::find(&photos, args.near);
    let neighbours = match (&set, args.set.as_deref()) {
        (Some(set), Some(path)) => {
            Some(neighbours::find(set, &photos).with_context(|| format!("--set {}", path.display()))?)
        }
        _ => None,
    };
    let mut report = json!({
        "format": "conifer data profile",
        "data": args.data.data,
        "fingerprint": sources.iter().map(|it| it.source.fingerprint()).collect::<Vec<_>>(),
    });
    report["counts"] = counts.json();
    report["taxonomy"] = taxonomy::json(&counts.taxa);
    if !args.no_photos {
        report["duplicates"] = duplicates.json(&photos);
    }
    report["neighbours"] = neighbours.as_ref().map_or(serde_json::Value::Null, |it| it.json());
    let profile = page::DataProfile {
        title: &args.data.data,
        counts: &counts,
        photos: &photos,
        duplicates: (!args.no_photos).then_some(&duplicates),
        neighbours: neighbours.as_ref(),
        sources: &sources,
    };
    let html = page::page(&profile).html();
    conifer_files::create_folder(out, is_free, |fresh| {
        std::fs::write(fresh.join("profile.html"), &html)?;
        std::fs::write(fresh.join("profile.json"), serde_json::to_vec_pretty(&report)?)?;
        anyhow::Ok(())
    })
    .with_context(|| out.display().to_string())?;
    if as_json {
        report["out"] = json!(out);
        return print_json(&report);
    }
    let mut lines = counts.lines();
    if !args.no_photos {
        lines.extend(duplicates.lines());
    }
    lines.extend(neighbours.iter().flat_map(neighbours::EmbeddingNeighbours::lines));
    print(&format!("{}\n{}\n", lines.join("\n"), out.join("profile.html").display()))
}

/// The data set, and the other splits of it.
fn sources(args: &ProfileArgs) -> anyhow::Result<Vec<SplitSource>> {
    let first = SplitSource { name: args.data.split.clone(), source: open_source(&args.data)? };
    let mut all = vec![first];
    for split in &args.other_splits {
        ensure!(args.data.split.is_some(), "--other-split {split}: expected --split, too");
        let data = DataArgs { split: Some(split.clone()), ..args.data.clone() };
        all.push(SplitSource { name: Some(split.clone()), source: open_source(&data).context("--other-split")? });
    }
    Ok(all)
}

/// Reads all samples of a part, on all cores.
fn read(
    part: &SplitSource,
    number: usize,
    with_photos: bool,
    counts: &mut DataCounts,
    photos: &mut Vec<ProfiledPhoto>,
) -> anyhow::Result<()> {
    let stop = crate::signal::stop_flag()?;
    let source = part.source.as_ref();
    let bar = progress::bar("samples", source.len());
    for first in (0..source.len()).step_by(CHUNK) {
        if stop.load(std::sync::atomic::Ordering::Relaxed) {
            bail!("stopped; nothing was written");
        }
        let end = (first + CHUNK).min(source.len());
        let chunk: Vec<_> = (first..end).into_par_iter().map(|index| sample(source, index, with_photos)).collect();
        for (index, found) in (first..end).zip(chunk) {
            match found {
                Err(broken) => counts.add_broken(broken),
                Ok((sample, photo)) => {
                    let split = sample.split.clone().or_else(|| part.name.clone()).unwrap_or_default();
                    if let Some((size, fingerprint)) = photo {
                        counts.add_photo(size);
                        let id = sample.id.clone();
                        photos.push(ProfiledPhoto {
                            source: number,
                            sample: index,
                            id,
                            split: split.clone(),
                            fingerprint,
                        });
                    }
                    counts.add(sample, &split);
                }
            }
        }
        bar.set_position(end as u64);
    }
    bar.finish_and_clear();
    Ok(())
}

type SizeAndFingerprint = ((u32, u32), PhotoFingerprint);

fn sample(
    source: &dyn Source,
    index: usize,
    with_photos: bool,
) -> Result<(Sample, Option<SizeAndFingerprint>), Broken> {
    guarded(
        || format!("{}[{index}]", source.name()),
        || {
            let sample = source.get(index)?;
            if !with_photos || matches!(sample.image, Some(ImageRef::Vector(_))) {
                return Ok((sample, None));
            }
            let photo = sample.photo(&PixelLimits::default())?;
            let found = photo.map(|it| ((it.width, it.height), PhotoFingerprint::of(&it)));
            Ok((sample, found))
        },
    )
}
