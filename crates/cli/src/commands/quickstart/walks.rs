//! Walks from photos to the root, judged by the objects in the photos.

use conifer_embeddings::{EmbeddingSet, Modality};
use conifer_eval::{Baseline, Record, RecordKey};
use conifer_index::{Filter, FlatIndex, Query, Stop, StopPlace, Traversal};
use conifer_toy::{Scene, shows};

use super::measure::TitledRecord;
use super::unseen::{TestData, nodes};

/// Number of photos whose walks are judged.
const WALKS: usize = 100;
/// Value of the column `sample` in the rows that are class names.
pub(super) const CLASS_WORDS: &str = "class words";

/// A walk and its judgement.
pub(super) struct JudgedWalk {
    pub(super) stops: Vec<Stop>,
    /// For each stop except the root: whether the photo shows the class or a descendant of it.
    pub(super) right: Vec<bool>,
    /// True if one of the stops is a leaf class that the photo shows.
    pub(super) passes_class: bool,
    /// True if no stop is more specific than its predecessor.
    pub(super) general_last: bool,
}

/// The walk from the photo in row `row` to the root, with class names as stops.
pub(super) fn walk(unseen: &TestData, set: &EmbeddingSet, index: &FlatIndex, row: usize) -> anyhow::Result<JudgedWalk> {
    let samples = &set.columns["sample"];
    let filter = Filter::Column { column: samples, wanted: &[CLASS_WORDS] };
    let stops = index.traverse_to_root(&Query::row(set, row), &Traversal::default(), &filter)?;
    let nodes = nodes();
    let scene = unseen.scene(&samples[row]);
    let met: Vec<_> = stops
        .iter()
        .filter_map(|stop| match stop.place {
            StopPlace::Row(row) => nodes.iter().find(|node| node.text == set.columns["text"][row]),
            StopPlace::Root => None,
        })
        .collect();
    let is_there = |name: &str| scene.is_some_and(|scene: &Scene| shows(scene, name));
    Ok(JudgedWalk {
        right: met.iter().map(|node| is_there(node.name)).collect(),
        passes_class: met.iter().any(|node| node.is_leaf && is_there(node.name)),
        general_last: met.windows(2).all(|pair| pair[0].level >= pair[1].level),
        stops,
    })
}

/// Rows of the photos whose walks are judged.
pub(super) fn starts(set: &EmbeddingSet) -> Vec<usize> {
    (0..set.len()).filter(|&row| set.modality[row] == Modality::Image).take(WALKS).collect()
}

/// Metrics of the walks.
pub(super) fn measure(unseen: &TestData, set: &EmbeddingSet) -> anyhow::Result<Vec<TitledRecord>> {
    let index = FlatIndex::new(set)?;
    let (starts, nodes) = (starts(set), nodes());
    let walks = starts.iter().map(|&row| walk(unseen, set, &index, row)).collect::<anyhow::Result<Vec<_>>>()?;
    let scenes = || starts.iter().filter_map(|&row| unseen.scene(&set.columns["sample"][row]));
    // The chance baseline draws stops at random from the class names.
    let chance = scenes().map(|scene| nodes.iter().filter(|node| shows(scene, node.name)).count() as f64);
    let chance = chance.sum::<f64>() / (starts.len() * nodes.len()).max(1) as f64;
    let mut counts: Vec<usize> = walks.iter().map(|walk| walk.right.len()).collect();
    counts.sort_unstable();
    let mut right: Vec<f64> = walks.iter().flat_map(|walk| &walk.right).map(|&it| f64::from(u8::from(it))).collect();
    if right.is_empty() {
        // If no walk has a stop other than the root, the rate of true stops is 0.
        right.push(0.0);
    }
    let of =
        |it: &dyn Fn(&JudgedWalk) -> bool| walks.iter().map(|walk| f64::from(u8::from(it(walk)))).collect::<Vec<f64>>();
    let at = |metric| RecordKey { benchmark: "quickstart", split: "walks", protocol: "names of classes", metric };
    let median = counts.get(counts.len() / 2).copied().unwrap_or_default() as f64;
    let counted = walks.iter().map(|walk| walk.right.len() as f64).collect::<Vec<f64>>();
    let mut stations = Record::of(at("median number of stations"), counted, None, 0);
    (stations.value, stations.interval) = (median, None);
    let records = [
        (
            "stations of a walk that are in the photo or above it",
            Record::of(at("stations that are true"), right, Baseline::chance(chance), 0),
        ),
        ("stations of a walk, median", stations),
        (
            "walks that pass a class of the photo",
            Record::of(at("walks that pass a class of the photo"), of(&|walk| walk.passes_class), None, 0),
        ),
        (
            "walks from specific to general",
            Record::of(at("walks that never turn more specific"), of(&|walk| walk.general_last), None, 0),
        ),
    ];
    Ok(records.map(|(title, record)| TitledRecord { title: title.to_owned(), record }).into())
}
