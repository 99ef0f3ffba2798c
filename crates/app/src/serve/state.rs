//! The rows that are served: points in an index, and what is known of them.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::ops::Range;

use conifer_data::hierarchy::Tree;
use conifer_index::{CellIndex, FlatIndex, Partition, Snapshot};
use conifer_space::{ManifoldSpec, Modality, Root, Space};
use rayon::prelude::*;

use super::classes::ClassSource;
use super::error::{Answer, Refusal};

/// The column of boxes, which hits have as a field of their own.
pub(crate) const BOX: &str = "box";

/// The column that names the sample of a row: a photo, its captions, boxes and phrases.
pub(crate) const SAMPLE: &str = "sample";

/// An embedding set, ready to be asked.
pub(crate) struct State {
    pub(crate) flat: FlatIndex,
    /// With `--cells`: it answers searches, the flat one the rest.
    pub(crate) cells: Option<CellIndex>,
    pub(crate) ids: Vec<String>,
    pub(crate) modality: Vec<Modality>,
    pub(crate) columns: BTreeMap<String, Vec<String>>,
    pub(crate) model: String,
    /// Depth of every row.
    pub(crate) depths: Vec<f32>,
    pub(crate) tree: Option<Classes>,
    by_id: RowsByName,
    /// By the column `sample`; nothing where there is none.
    by_sample: Option<RowsByName>,
}

/// A hierarchy of classes with the rows that belong to each.
pub(crate) struct Classes {
    pub(crate) tree: Tree,
    /// The node of the class of every row.
    pub(crate) node_of: Vec<Option<u32>>,
}

/// The rows of a subtree.
pub(crate) struct Below<'a> {
    nodes: Range<usize>,
    node_of: &'a [Option<u32>],
}

/// Rows by a hash of a name, an id for example: sixteen bytes a row.
struct RowsByName {
    seed: RandomState,
    rows: Vec<(u64, u32)>,
}

impl State {
    /// # Errors
    /// Those of the indexes.
    pub(crate) fn new(set: Snapshot, cells: bool, classes: Option<ClassSource>) -> anyhow::Result<Self> {
        let cells = if cells { Some(CellIndex::on(&set, Partition::default())?) } else { None };
        let flat = FlatIndex::on(&set)?;
        let Snapshot { ids, modality, columns, source, .. } = set;
        let depths =
            (0..flat.len()).into_par_iter().map(|row| flat.space().depth(&flat.row(row), flat.root())).collect();
        let tree = classes.map(|it| {
            let (tree, node_of) = it.assign(&columns, ids.len());
            Classes { tree, node_of }
        });
        let by_id = RowsByName::new(&ids);
        let by_sample = columns.get(SAMPLE).map(|it| RowsByName::new(it));
        Ok(State { flat, cells, ids, modality, columns, model: source.model, depths, tree, by_id, by_sample })
    }

    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    pub(crate) fn spec(&self) -> &ManifoldSpec {
        self.flat.spec()
    }

    pub(crate) fn root(&self) -> &Root {
        self.flat.root()
    }

    pub(crate) fn space(&self) -> &dyn Space<f32> {
        self.flat.space()
    }

    /// The rows called `id`, in order.
    pub(crate) fn rows_of<'a>(&'a self, id: &'a str) -> impl Iterator<Item = usize> + 'a {
        self.by_id.candidates(id).filter(move |row| self.ids[*row] == id)
    }

    /// The rows of the sample of a row, in order, itself included; none where the set names no samples.
    pub(crate) fn rows_of_sample(&self, row: usize) -> Vec<usize> {
        let (Some(by_sample), Some(samples)) = (&self.by_sample, self.columns.get(SAMPLE)) else { return Vec::new() };
        let sample = &samples[row];
        if sample.is_empty() {
            return Vec::new();
        }
        by_sample.candidates(sample).filter(|it| samples[*it] == *sample).collect()
    }

    pub(crate) fn check_row(&self, row: usize) -> Answer<()> {
        if row < self.len() {
            return Ok(());
        }
        Err(Refusal::absent(format!("row {row} is not there; expected one below {}", self.len())))
    }

    /// The rows whose class is this one or one below it.
    pub(crate) fn subtree(&self, name: &str) -> Answer<Below<'_>> {
        let refused = |why: &str| {
            Refusal::invalid(format!(
                "`subtree` is `{name}`; {why}; GET /api/tree lists the classes of the labels, or of the file of --tree"
            ))
        };
        let classes = self.tree.as_ref().ok_or_else(|| refused("no row of the set has a label or a rank"))?;
        let node = classes.tree.find(name).ok_or_else(|| refused("no class has this name"))?;
        Ok(Below { nodes: classes.tree.subtree(node), node_of: &classes.node_of })
    }

    /// Where in its photo a row is: left, top, width, height as fractions.
    pub(crate) fn place(&self, row: usize) -> Option<[f32; 4]> {
        let numbers: Vec<f32> =
            self.columns.get(BOX)?[row].split(',').map(str::parse).collect::<Result<_, _>>().ok()?;
        numbers.try_into().ok()
    }
}

impl Below<'_> {
    pub(crate) fn contains(&self, row: usize) -> bool {
        self.node_of[row].is_some_and(|node| self.nodes.contains(&(node as usize)))
    }
}

impl RowsByName {
    fn new(names: &[String]) -> Self {
        let seed = RandomState::new();
        // Indexes hold less than 2^32 rows.
        let mut rows: Vec<(u64, u32)> =
            (0_u32..).zip(names).map(|(row, it)| (seed.hash_one(it.as_str()), row)).collect();
        rows.sort_unstable();
        RowsByName { seed, rows }
    }

    fn candidates(&self, name: &str) -> impl Iterator<Item = usize> {
        let hash = self.seed.hash_one(name);
        let first = self.rows.partition_point(|(it, _)| *it < hash);
        self.rows[first..].iter().take_while(move |(it, _)| *it == hash).map(|(_, row)| *row as usize)
    }
}
