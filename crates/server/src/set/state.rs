//! The served rows: their points in an index, and their metadata.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::ops::Range;

use conifer_data::hierarchy::Tree;
use conifer_embeddings::Modality;
use conifer_geometry::{ManifoldSpec, Root, Space};
use conifer_index::{CellIndex, FlatIndex, Partition, Snapshot};
use rayon::prelude::*;

use crate::error::{HttpError, HttpResult};
use crate::set::classes::ClassSource;

/// Column with the box of a row. Hits have the box as a separate field.
pub(crate) const BOX: &str = "box";

/// Column with the sample of a row. A sample is a photo with its captions, boxes and phrases.
pub(crate) const SAMPLE: &str = "sample";

/// An embedding set with its indexes.
pub(crate) struct ServedSet {
    pub(crate) flat: FlatIndex,
    /// The index for searches with `--cells`. `flat` is used for everything else.
    pub(crate) cells: Option<CellIndex>,
    pub(crate) ids: Vec<String>,
    pub(crate) modality: Vec<Modality>,
    pub(crate) columns: BTreeMap<String, Vec<String>>,
    pub(crate) model: String,
    /// Depth of every row.
    pub(crate) depths: Vec<f32>,
    pub(crate) tree: Option<RowClasses>,
    by_id: RowsByName,
    /// Rows by the column `sample`, if the set has it.
    by_sample: Option<RowsByName>,
}

/// A class hierarchy with the class of each row.
pub(crate) struct RowClasses {
    pub(crate) tree: Tree,
    /// Tree node of the class of each row.
    pub(crate) node_of: Vec<Option<u32>>,
}

/// The rows of a subtree.
pub(crate) struct SubtreeRows<'a> {
    nodes: Range<usize>,
    node_of: &'a [Option<u32>],
}

/// Row numbers sorted by the hash of a name, for example an id. Uses 16 bytes per row.
struct RowsByName {
    seed: RandomState,
    rows: Vec<(u64, u32)>,
}

impl ServedSet {
    /// # Errors
    /// An index cannot be built.
    pub(crate) fn new(set: Snapshot, cells: bool, classes: Option<ClassSource>) -> conifer_index::Result<Self> {
        let cells = if cells { Some(CellIndex::on(&set, Partition::default())?) } else { None };
        let flat = FlatIndex::on(&set)?;
        let Snapshot { ids, modality, columns, source, .. } = set;
        let depths =
            (0..flat.len()).into_par_iter().map(|row| flat.space().depth(&flat.row(row), flat.root())).collect();
        let tree = classes.map(|it| {
            let (tree, node_of) = it.assign(&columns, ids.len());
            RowClasses { tree, node_of }
        });
        let by_id = RowsByName::new(&ids);
        let by_sample = columns.get(SAMPLE).map(|it| RowsByName::new(it));
        Ok(ServedSet { flat, cells, ids, modality, columns, model: source.model, depths, tree, by_id, by_sample })
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

    /// The rows with this id, in ascending order.
    pub(crate) fn rows_of<'a>(&'a self, id: &'a str) -> impl Iterator<Item = usize> + 'a {
        self.by_id.candidates(id).filter(move |row| self.ids[*row] == id)
    }

    /// The rows of the sample of `row` in ascending order, including `row`; empty if `row` belongs to no sample.
    pub(crate) fn rows_of_sample(&self, row: usize) -> Vec<usize> {
        let (Some(by_sample), Some(samples)) = (&self.by_sample, self.columns.get(SAMPLE)) else { return Vec::new() };
        let sample = &samples[row];
        if sample.is_empty() {
            return Vec::new();
        }
        by_sample.candidates(sample).filter(|it| samples[*it] == *sample).collect()
    }

    pub(crate) fn check_row(&self, row: usize) -> HttpResult<()> {
        if row < self.len() {
            return Ok(());
        }
        Err(HttpError::absent(format!("no row {row}; expected a number below {}", self.len())))
    }

    /// The rows of a class and of the classes below it.
    pub(crate) fn subtree(&self, name: &str) -> HttpResult<SubtreeRows<'_>> {
        let refused = |why: &str| {
            HttpError::invalid(format!(
                "`subtree` is `{name}`; {why}; GET /api/tree lists the classes, which come from --tree or from the labels of the set"
            ))
        };
        let classes = self.tree.as_ref().ok_or_else(|| refused("no row of the set has a label or a rank"))?;
        let node = classes.tree.find(name).ok_or_else(|| refused("no class has this name"))?;
        Ok(SubtreeRows { nodes: classes.tree.subtree(node), node_of: &classes.node_of })
    }

    /// The box of a row: left, top, width, height as fractions of its photo.
    pub(crate) fn bounds(&self, row: usize) -> Option<[f32; 4]> {
        let numbers: Vec<f32> =
            self.columns.get(BOX)?[row].split(',').map(str::parse).collect::<Result<_, _>>().ok()?;
        numbers.try_into().ok()
    }
}

impl SubtreeRows<'_> {
    pub(crate) fn contains(&self, row: usize) -> bool {
        self.node_of[row].is_some_and(|node| self.nodes.contains(&(node as usize)))
    }
}

impl RowsByName {
    fn new(names: &[String]) -> Self {
        let seed = RandomState::new();
        // An index has fewer than 2^32 rows.
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
