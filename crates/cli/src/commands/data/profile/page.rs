use std::collections::HashMap;

use conifer_data::Sample;
use conifer_viz::{Block, Figure, Report, histogram};

use super::counts::{DataCounts, quartiles};
use super::duplicates::PhotoDuplicates;
use super::neighbours::EmbeddingNeighbours;
use super::taxonomy::levels;
use super::{ProfiledPhoto, SplitSource};
use crate::pictures::thumbnail;

/// Maximum number of groups or pairs shown with photos, and of photos in a group.
const SHOWN: usize = 12;
const PHOTOS: usize = 8;
/// Shorter side of a photo, pixels.
const SIDE: u32 = 124;
/// Number of classes listed from each end of the order by frequency.
const CLASSES: usize = 10;

/// Everything that the page shows.
pub(super) struct DataProfile<'a> {
    pub(super) title: &'a str,
    pub(super) counts: &'a DataCounts,
    pub(super) photos: &'a [ProfiledPhoto],
    /// `None` if photos were not read.
    pub(super) duplicates: Option<&'a PhotoDuplicates>,
    pub(super) neighbours: Option<&'a EmbeddingNeighbours>,
    pub(super) sources: &'a [SplitSource],
}

pub(super) fn page(profile: &DataProfile<'_>) -> Report {
    let mut sections = vec![("Samples".to_owned(), samples(profile.counts))];
    let mut add = |heading: &str, blocks: Vec<Block>| {
        if !blocks.is_empty() {
            sections.push((heading.to_owned(), blocks));
        }
    };
    add("Broken samples", broken(profile.counts));
    add("Sizes", sizes(profile.counts));
    add("Labels", labels(profile.counts));
    add("Taxonomy", taxonomy(profile.counts));
    add("Repeated photos", duplicates(profile));
    add("Nearest photos by embedding", neighbours(profile));
    Report { title: format!("Data: {}", profile.title), subtitle: profile.counts.lines().join("; "), sections }
}

fn table(head: &[&str], rows: Vec<Vec<String>>) -> Block {
    Block::Table { head: head.iter().map(|it| (*it).to_owned()).collect(), rows }
}

fn samples(counts: &DataCounts) -> Vec<Block> {
    let (repeated_texts, repeated) = counts.repeated_captions();
    let numbers = [
        ("samples", counts.samples + counts.broken_count()),
        ("readable samples", counts.samples),
        ("samples without a photo", counts.without_photo),
        ("samples without a caption", counts.without_caption),
        ("repeated ids", counts.repeated_ids),
        ("captions", counts.caption_words.len()),
        ("different captions that occur more than once", repeated_texts),
        ("occurrences of these", repeated),
        ("phrases", counts.phrases),
        ("boxes", counts.box_count()),
        ("caption hierarchies", counts.tiers.len()),
        ("labels", counts.labels.len()),
        ("taxa", counts.taxa.len()),
    ];
    let mut rows: Vec<Vec<String>> = numbers.map(|(name, count)| vec![name.to_owned(), count.to_string()]).into();
    rows.extend(
        counts.splits.iter().map(|(name, count)| vec![format!("samples of the split {name}"), count.to_string()]),
    );
    vec![table(&["what", "number"], rows)]
}

fn broken(counts: &DataCounts) -> Vec<Block> {
    if counts.broken.is_empty() {
        return vec![Block::Text("Every sample is readable.".to_owned())];
    }
    let row = |(cause, (count, examples)): (&&str, &(usize, Vec<String>))| {
        vec![(*cause).to_owned(), count.to_string(), examples.first().cloned().unwrap_or_default()]
    };
    vec![table(&["cause", "samples", "first"], counts.broken.iter().map(row).collect())]
}

/// Distributions of the measured lengths.
fn sizes(counts: &DataCounts) -> Vec<Block> {
    let measured = [
        ("Width of photos", "pixels", &counts.widths),
        ("Height of photos", "pixels", &counts.heights),
        ("Words of captions", "words", &counts.caption_words),
        ("Boxes per photo that has any", "boxes", &counts.boxes),
        ("Area of boxes", "area of the box / area of the photo", &counts.box_areas),
        ("Texts per caption hierarchy", "texts", &counts.tiers),
    ];
    let present = || measured.iter().filter(|it| !it.2.is_empty());
    let short = |value: f64| format!("{:.4}", value).trim_end_matches('0').trim_end_matches('.').to_owned();
    let row = |(name, _, values): &(&str, &str, &Vec<f64>)| {
        let found = quartiles(values).unwrap_or_default();
        [vec![(*name).to_owned()], found.map(short).into()].concat()
    };
    let rows: Vec<Vec<String>> = present().map(row).collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let chart =
        |(name, unit, values): &(&str, &str, &Vec<f64>)| histogram(name, unit, &[(String::new(), (*values).clone())]);
    vec![
        table(&["what", "smallest", "quarter", "median", "three quarters", "largest"], rows),
        Block::Charts(present().map(chart).collect()),
    ]
}

fn labels(counts: &DataCounts) -> Vec<Block> {
    let labels = counts.labels_by_count();
    let Some(effective) = counts.effective_classes() else { return Vec::new() };
    let (most, least) = (labels[0].1, labels[labels.len() - 1].1);
    let text = format!(
        "{} classes; the most frequent has {most} samples, the rarest {least}. The entropy is that of {effective:.1} equally frequent classes.",
        labels.len()
    );
    let row = |(name, count): &(&str, usize)| vec![(*name).to_owned(), count.to_string()];
    let mut blocks = vec![Block::Text(text)];
    let heads = ["class", "samples"];
    if labels.len() <= 2 * CLASSES {
        blocks.push(table(&heads, labels.iter().map(row).collect()));
    } else {
        blocks.push(Block::Text("Most frequent:".to_owned()));
        blocks.push(table(&heads, labels[..CLASSES].iter().map(row).collect()));
        blocks.push(Block::Text("Rarest:".to_owned()));
        blocks.push(table(&heads, labels[labels.len() - CLASSES..].iter().map(row).collect()));
    }
    let of_classes: Vec<f64> = labels.iter().map(|it| it.1 as f64).collect();
    blocks.push(Block::Charts(vec![histogram("Samples per class", "samples", &[(String::new(), of_classes)])]));
    blocks
}

fn taxonomy(counts: &DataCounts) -> Vec<Block> {
    let rows: Vec<Vec<String>> = levels(&counts.taxa)
        .into_iter()
        .map(|it| {
            let children = format!("{:.1}", it.mean_children);
            let numbers = [it.depth, it.nodes, it.inner].map(|it| it.to_string());
            let rest = [children, it.most_children.to_string(), it.widest, it.ends.to_string()];
            [&numbers[..], &rest[..]].concat()
        })
        .collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let head = [
        "depth",
        "nodes",
        "with children",
        "children, mean",
        "children, most",
        "node with the most",
        "samples that end here",
    ];
    let mut blocks = vec![table(&head, rows)];
    if !counts.missing_ranks.is_empty() {
        let row = |(rank, count): (&conifer_data::MissingRank, &usize)| vec![rank.name.clone(), count.to_string()];
        blocks.push(table(&["rank", "samples without a name"], counts.missing_ranks.iter().map(row).collect()));
    }
    blocks
}

fn duplicates(profile: &DataProfile<'_>) -> Vec<Block> {
    let Some(found) = profile.duplicates else { return Vec::new() };
    let mut blocks: Vec<Block> = found.lines().into_iter().map(|line| Block::Text(format!("{line}."))).collect();
    // Show groups that span several splits first: they can leak training photos into the test split, which inflates its
    // results.
    let mut order: Vec<usize> = (0..found.groups.len()).collect();
    order.sort_by_key(|at| (!found.across[*at], found.groups[*at].is_exact));
    if order.len() > SHOWN {
        blocks.push(Block::Text(format!("The first {SHOWN} of {} groups; profile.json has all.", order.len())));
    }
    for at in order.into_iter().take(SHOWN) {
        let group = &found.groups[at];
        let kind = if group.is_exact { "equal pixels" } else { "nearly equal" };
        let splits = if found.across[at] { ", in several splits" } else { "" };
        let figure = |number: &usize| {
            let it = &profile.photos[*number];
            figure(profile.sources, it.source, it.sample, &it.id, &it.split)
        };
        let figures = group.photos.iter().take(PHOTOS).map(figure).collect();
        blocks.push(Block::Strip { heading: format!("{} photos, {kind}{splits}", group.photos.len()), figures });
    }
    blocks
}

fn neighbours(profile: &DataProfile<'_>) -> Vec<Block> {
    let Some(found) = profile.neighbours else { return Vec::new() };
    let mut blocks: Vec<Block> = found.lines().into_iter().map(|line| Block::Text(format!("{line}."))).collect();
    let chart = histogram("Distance to the nearest photo", "distance", &[(String::new(), found.distances.clone())]);
    blocks.push(Block::Charts(vec![chart]));
    let number_of: HashMap<&str, &ProfiledPhoto> = profile.photos.iter().map(|it| (it.id.as_str(), it)).collect();
    for pair in found.pairs.iter().take(SHOWN) {
        let figure = |at: usize| match number_of.get(pair.samples[at].as_str()) {
            Some(it) => figure(profile.sources, it.source, it.sample, &pair.rows[at], &it.split),
            None => Figure { caption: pair.rows[at].clone(), ..Figure::default() },
        };
        blocks.push(Block::Strip {
            heading: format!("distance {:.4}", pair.distance),
            figures: [0, 1].map(figure).into(),
        });
    }
    blocks
}

/// A photo of the data set with its id, or only the id if the photo cannot be read any more.
fn figure(sources: &[SplitSource], source: usize, sample: usize, id: &str, split: &str) -> Figure {
    let png = |sample: &Sample| sample.image.as_ref().and_then(|image| thumbnail(image, SIDE));
    Figure {
        png: sources[source].source.get(sample).ok().and_then(|it| png(&it)),
        caption: id.to_owned(),
        note: split.to_owned(),
        marked: false,
    }
}
