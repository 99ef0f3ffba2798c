//! Builds a graph of classes and their parts from files of boxes: [`build`].

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use conifer_data::{Error, PartRule, Result, files};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::counts::{CauseCounts, PartCounts};
use super::graph::{PartEdge, PartGraph, PartThresholds};
use super::inputs::{BoxFile, FilePosition};
use super::state::BuildState;
use crate::import::openimages::read_names;

/// Input, output and settings of [`build`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PartsSpec {
    /// Files of boxes: OpenImages `.csv`, COCO or LVIS `.json`, grounded `.jsonl`. Several files form one data set. All
    /// rows of a photo must be adjacent and in one file.
    pub boxes: Vec<PathBuf>,
    /// Display names of the labels (`class-descriptions-boxable.csv`).
    pub names: Option<PathBuf>,
    /// Folder of the results, and of the state from which an interrupted run resumes.
    pub out: PathBuf,
    /// The conditions under which a box is a part of another box.
    pub rule: PartRule,
    /// The thresholds above which a pair of classes becomes a part-of relation.
    pub thresholds: PartThresholds,
}

/// Progress of [`build`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuildProgress {
    /// Number of bytes counted so far.
    pub done: u64,
    /// Total size of all files in bytes.
    pub total: u64,
    /// Number of boxes read so far.
    pub boxes: u64,
}

/// Result of [`build`].
pub struct BuiltGraph {
    /// The counts of boxes and of pairs of classes.
    pub counts: PartCounts,
    /// The relations derived from the counts.
    pub graph: PartGraph,
    /// Paths of `parts.json` (all results), `edges.tsv` (parent, child), `tree.tsv` (one parent per class),
    /// `outline.txt` (indented, for people).
    pub files: Vec<PathBuf>,
}

/// Block size in bytes. Larger blocks take more memory. Smaller blocks increase the time spent on merging counts.
const BLOCK: usize = 4 << 20;

/// Interval between saves of the state.
const SAVE_EVERY: Duration = Duration::from_secs(5);

/// Counts the part pairs of all boxes and writes the class graph to `spec.out`.
///
/// Blocks of the files are counted in parallel on the rayon pool. Memory use: a few blocks, the counts, and 8 bytes per
/// photo. A JSON file is loaded as a whole.
///
/// `progress` is called after every few blocks and may stop the work. The result is then `None`. The next call resumes
/// from the saved state, as it does after a crash. Interruptions do not change the written files.
///
/// If the counts are complete, a call with other thresholds or names only rebuilds the graph.
///
/// # Errors
/// A setting is out of range, no file of boxes is given, a file cannot be read or written or lacks a column, the rows
/// of a photo are not adjacent, or the state in the output folder was saved for other files.
pub fn build(spec: &PartsSpec, progress: impl FnMut(&BuildProgress) -> ControlFlow<()>) -> Result<Option<BuiltGraph>> {
    build_in_blocks(spec, BLOCK, SAVE_EVERY, progress)
}

pub(super) fn build_in_blocks(
    spec: &PartsSpec,
    block: usize,
    save_every: Duration,
    mut progress: impl FnMut(&BuildProgress) -> ControlFlow<()>,
) -> Result<Option<BuiltGraph>> {
    spec.rule.check()?;
    spec.thresholds.check()?;
    if spec.boxes.is_empty() {
        return Err(Error::invalid("boxes", "empty", "at least one file of boxes"));
    }
    let boxes = spec.boxes.iter().map(|path| BoxFile::open(path)).collect::<Result<Vec<_>>>()?;
    let names = spec.names.as_deref().map(read_names).transpose()?.unwrap_or_default();
    let mut state = BuildState::open(&spec.out, &boxes, &spec.rule)?;
    let total = boxes.iter().map(|file| file.len).sum();
    let mut saved = Instant::now();
    while let Some(file) = boxes.get(state.file) {
        let start = state.position.byte;
        count_some(file, block, &spec.rule, &mut state)?;
        let before: u64 = boxes[..state.file].iter().map(|file| file.len).sum();
        let now = BuildProgress { done: before + state.position.byte, total, boxes: state.counts.boxes };
        if state.position.byte == start {
            state.file += 1;
            state.position = boxes.get(state.file).map_or(FilePosition::default(), |file| file.start);
        }
        let stop = progress(&now).is_break();
        if stop || saved.elapsed() >= save_every || state.file == boxes.len() {
            state.save()?;
            saved = Instant::now();
        }
        if stop && state.file < boxes.len() {
            return Ok(None);
        }
    }
    if state.counts.boxes == 0 && state.counts.broken.is_empty() {
        let shown: Vec<_> = spec.boxes.iter().map(|path| format!("`{}`", path.display())).collect();
        return Err(Error::Empty { place: shown.join(", "), expected: "boxes of photos".to_owned() });
    }
    let graph = PartGraph::new(&state.counts, &spec.thresholds, &names);
    let files = write(spec, &state.counts, &graph, &names)?;
    Ok(Some(BuiltGraph { counts: state.counts, graph, files }))
}

/// Counts the next blocks of a file. Does nothing at the end of the file.
fn count_some(file: &BoxFile, size: usize, rule: &PartRule, state: &mut BuildState) -> Result<()> {
    // Two blocks per thread, so that no thread is idle while another thread works on a slow block.
    let many = 2 * rayon::current_num_threads();
    let mut blocks = Vec::with_capacity(many);
    let mut start = state.position.byte;
    while blocks.len() < many
        && let Some(block) = file.block(start, size)?
    {
        start = block.end(file);
        blocks.push(block);
    }
    let counted: Vec<_> = blocks.par_iter().map(|block| file.count(block, rule)).collect();
    for one in counted {
        let one = one?;
        for &(photo, line) in &one.photos {
            if !state.see(photo) {
                let place = format!("line {} of `{}`", state.position.line + line + 1, file.path.display());
                let expected =
                    "all rows of a photo next to each other, and each photo in one file (sort the rows by ImageID)";
                return Err(Error::format(place, "a row of a photo whose earlier rows are elsewhere", expected));
            }
        }
        let next = FilePosition { byte: one.end, line: state.position.line + one.lines };
        state.counts.merge(one.named(file, state.position));
        state.position = next;
    }
    Ok(())
}

/// Content of `parts.json`.
#[derive(Serialize)]
struct PartsFile<'a> {
    rule: PartRule,
    thresholds: PartThresholds,
    photos: u64,
    boxes: u64,
    small: u64,
    broken: &'a CauseCounts,
    broken_examples: Vec<String>,
    classes: Vec<ClassRow<'a>>,
    edges: &'a [PartEdge],
    refused: &'a [PartEdge],
    /// Label of the whole, label of the part, number of box pairs, number of wholes with such a part.
    pairs: Vec<(&'a str, &'a str, u64, u64)>,
}

#[derive(Serialize)]
struct ClassRow<'a> {
    label: &'a str,
    name: &'a str,
    boxes: u64,
}

fn write(
    spec: &PartsSpec,
    counts: &PartCounts,
    graph: &PartGraph,
    names: &HashMap<String, String>,
) -> Result<Vec<PathBuf>> {
    let mut classes: Vec<_> = (counts.classes())
        .map(|class| {
            let label = counts.name(class);
            ClassRow { label, name: names.get(label).map_or(label, String::as_str), boxes: counts.instances(class) }
        })
        .collect();
    classes.sort_by_key(|class| class.label);
    let mut pairs: Vec<_> = (counts.pairs().into_iter())
        .map(|(whole, part, pair)| (counts.name(whole), counts.name(part), pair.count, pair.wholes))
        .collect();
    pairs.sort_unstable();
    let whole = PartsFile {
        rule: spec.rule,
        thresholds: spec.thresholds,
        photos: counts.photos,
        boxes: counts.boxes,
        small: counts.small,
        broken: &counts.broken,
        broken_examples: counts.examples.iter().map(ToString::to_string).collect(),
        classes,
        edges: &graph.edges,
        refused: &graph.refused,
        pairs,
    };
    let path = |name: &str| spec.out.join(name);
    let written = ["parts.json", "edges.tsv", "tree.tsv", "outline.txt"].map(path);
    let json = serde_json::to_vec(&whole).map_err(|error| Error::io("write", &written[0])(error.into()))?;
    files::write_whole(&written[0], &json)?;
    files::write_whole(&written[1], graph.edge_lines().as_bytes())?;
    files::write_whole(&written[2], graph.tree_edges().as_bytes())?;
    files::write_whole(&written[3], graph.to_text().as_bytes())?;
    Ok(written.into())
}
