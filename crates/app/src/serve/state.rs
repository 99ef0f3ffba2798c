//! The rows that are served: points in an index, and what is known of them.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::ops::Range;

use conifer_data::hierarchy::Tree;
use conifer_index::{CellIndex, FlatIndex, Partition, Snapshot};
use conifer_space::{ManifoldSpec, Modality, Root, Space};
use rayon::prelude::*;

use super::error::{Answer, Refusal};
use crate::limits::LABEL;

/// The column of boxes, which hits have as a field of their own.
pub(crate) const BOX: &str = "box";

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
    by_id: ById,
}

/// A hierarchy of classes with the rows that belong to each.
pub(crate) struct Classes {
    pub(crate) tree: Tree,
    /// The node of the label of every row.
    pub(crate) node_of: Vec<Option<u32>>,
}

/// The rows of a subtree.
pub(crate) struct Below<'a> {
    nodes: Range<usize>,
    node_of: &'a [Option<u32>],
}

/// Rows by a hash of their ids: sixteen bytes a row.
struct ById {
    seed: RandomState,
    rows: Vec<(u64, u32)>,
}

impl State {
    /// # Errors
    /// Those of the indexes.
    pub(crate) fn new(set: Snapshot, cells: bool, tree: Option<Tree>) -> anyhow::Result<Self> {
        let cells = if cells { Some(CellIndex::on(&set, Partition::default())?) } else { None };
        let flat = FlatIndex::on(&set)?;
        let Snapshot { ids, modality, columns, source, .. } = set;
        let depths =
            (0..flat.len()).into_par_iter().map(|row| flat.space().depth(&flat.row(row), flat.root())).collect();
        let tree = tree.map(|tree| {
            let node = |label: &String| tree.find(label).and_then(|node| u32::try_from(node).ok());
            let node_of = columns.get(LABEL).map_or_else(|| vec![None; ids.len()], |it| it.iter().map(node).collect());
            Classes { tree, node_of }
        });
        let by_id = ById::new(&ids);
        Ok(State { flat, cells, ids, modality, columns, model: source.model, depths, tree, by_id })
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

    pub(crate) fn check_row(&self, row: usize) -> Answer<()> {
        if row < self.len() {
            return Ok(());
        }
        Err(Refusal::absent(format!("row {row} is not there; expected one below {}", self.len())))
    }

    /// The rows whose label is a class or lies below it.
    pub(crate) fn subtree(&self, name: &str) -> Answer<Below<'_>> {
        let classes = self.tree.as_ref();
        let classes = classes.ok_or_else(|| Refusal::invalid("`subtree` needs a server with --tree FILE"))?;
        let node = classes.tree.find(name);
        let node = node.ok_or_else(|| Refusal::invalid(format!("no class of the tree is called `{name}`")))?;
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

impl ById {
    fn new(ids: &[String]) -> Self {
        let seed = RandomState::new();
        // Indexes hold less than 2^32 rows.
        let mut rows: Vec<(u64, u32)> = (0_u32..).zip(ids).map(|(row, id)| (seed.hash_one(id.as_str()), row)).collect();
        rows.sort_unstable();
        ById { seed, rows }
    }

    fn candidates(&self, id: &str) -> impl Iterator<Item = usize> {
        let hash = self.seed.hash_one(id);
        let first = self.rows.partition_point(|(it, _)| *it < hash);
        self.rows[first..].iter().take_while(move |(it, _)| *it == hash).map(|(_, row)| *row as usize)
    }
}
