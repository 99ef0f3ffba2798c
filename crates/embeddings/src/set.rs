//! [`EmbeddingSet`]: a set of points in memory.

use std::collections::{BTreeMap, BTreeSet};

use conifer_geometry::{ManifoldSpec, Root};

use crate::error::{Error, Result};
use crate::manifest::RESERVED;
use crate::modality::Modality;
use crate::point_check::PointCheck;
use crate::provenance::Provenance;

/// Ordered points of one space, each with an id, a modality and metadata columns.
#[derive(Clone, Debug, PartialEq)]
pub struct EmbeddingSet {
    /// The space of the points.
    pub spec: ManifoldSpec,
    /// The root: the most general point, from which depths and cones are measured.
    pub root: Root,
    /// One name per row. Names may repeat (a photo and its caption may share one).
    pub ids: Vec<String>,
    /// The kind of input of each row.
    pub modality: Vec<Modality>,
    /// Space components, row-major `[N, dim]`.
    pub points: Vec<f32>,
    /// Metadata, one list of N strings per column name: caption, path, label, parent_id, level, ... The names `id` and
    /// `modality` are reserved.
    pub columns: BTreeMap<String, Vec<String>>,
    /// Provenance of the points.
    pub source: Provenance,
}

impl EmbeddingSet {
    /// Creates and checks a set without columns.
    ///
    /// # Errors
    /// The errors of [`EmbeddingSet::check`].
    pub fn new(
        spec: ManifoldSpec,
        root: Root,
        ids: Vec<String>,
        modality: Vec<Modality>,
        points: Vec<f32>,
        source: Provenance,
    ) -> Result<Self> {
        let columns = BTreeMap::new();
        let set = EmbeddingSet { spec, root, ids, modality, points, columns, source };
        set.check()?;
        Ok(set)
    }

    /// Number of rows N.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Returns true if the set has no rows.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// The `dim` space components of row `i`. Panics unless `i` is below [`EmbeddingSet::len`].
    pub fn row(&self, i: usize) -> &[f32] {
        &self.points[i * self.spec.dim..(i + 1) * self.spec.dim]
    }

    /// All rows in order.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &[f32]> {
        self.points.chunks_exact(self.spec.dim)
    }

    /// Checks that all fields are valid and consistent.
    ///
    /// # Errors
    /// An invalid spec or root; a list whose length differs from `ids`; a reserved column name; a component that is not
    /// finite; a row that is not on the space, or is farther out than [`conifer_geometry::safe::FARTHEST`]; a source
    /// hash that is not sha256.
    pub fn check(&self) -> Result<()> {
        self.spec.check()?;
        self.root.check(&self.spec)?;
        let rows = self.len();
        check_count("`modality`", self.modality.len(), rows)?;
        for (name, column) in &self.columns {
            if RESERVED.contains(&name.as_str()) {
                let expected = "a name other than `id` and `modality`, which every row has";
                return Err(Error::invalid("embedding set: a column", format!("`{name}`"), expected));
            }
            check_count(&format!("column `{name}`"), column.len(), rows)?;
        }
        self.source.check()?;
        if self.points.len() != rows * self.spec.dim {
            let found = format!("a list of {} numbers", self.points.len());
            let expected = format!("{rows} rows of {} = {}", self.spec.dim, rows * self.spec.dim);
            return Err(Error::invalid("embedding set: `points`", found, expected));
        }
        let check = PointCheck::new(&self.spec)?;
        for (i, row) in self.rows().enumerate() {
            check.row(row, || format!("embedding set: row {i} (`{}`)", self.ids[i]), |at| row[at].to_string())?;
        }
        Ok(())
    }

    /// Returns the rows at `indices`, in that order; an index may repeat.
    ///
    /// # Errors
    /// An index is out of range.
    pub fn select(&self, indices: &[usize]) -> Result<Self> {
        if let Some(i) = indices.iter().find(|i| **i >= self.len()) {
            let expected = format!("a row below {}", self.len());
            return Err(Error::invalid("embedding set: a selected row", i, expected));
        }
        let pick = |list: &Vec<String>| indices.iter().map(|i| list[*i].clone()).collect();
        Ok(EmbeddingSet {
            spec: self.spec.clone(),
            root: self.root.clone(),
            ids: pick(&self.ids),
            modality: indices.iter().map(|i| self.modality[*i]).collect(),
            points: indices.iter().flat_map(|i| self.row(*i)).copied().collect(),
            columns: self.columns.iter().map(|(name, c)| (name.clone(), pick(c))).collect(),
            source: self.source.clone(),
        })
    }

    /// Concatenates `sets` with the union of their columns; a column that a set lacks becomes empty strings. Different
    /// names in the sources are joined with ` + `, different hashes become the sha256 of their concatenation, and
    /// different weights become empty.
    ///
    /// # Errors
    /// `sets` is empty; the sets differ in their space or root.
    pub fn concat(sets: &[&EmbeddingSet]) -> Result<Self> {
        let Some((first, rest)) = sets.split_first() else {
            return Err(Error::invalid("embedding sets to join", "an empty list", "at least one"));
        };
        let mut joined = (*first).clone();
        for set in rest {
            if set.spec != joined.spec {
                let expected = format!("{}, the space of the first", joined.spec);
                return Err(Error::invalid("space of a set to join", &set.spec, expected));
            }
            if set.root != joined.root {
                let what = "root of a set to join";
                return Err(Error::invalid(what, "different", "the root of the first set"));
            }
            let names: BTreeSet<_> = joined.columns.keys().chain(set.columns.keys()).cloned().collect();
            for name in names {
                let column = joined.columns.entry(name.clone()).or_default();
                column.resize(joined.ids.len(), String::new());
                match set.columns.get(&name) {
                    Some(more) => column.extend_from_slice(more),
                    None => column.resize(joined.ids.len() + set.len(), String::new()),
                }
            }
            joined.ids.extend_from_slice(&set.ids);
            joined.modality.extend_from_slice(&set.modality);
            joined.points.extend_from_slice(&set.points);
            joined.source = joined.source.joined(&set.source);
        }
        Ok(joined)
    }
}

/// Checks the length of a list with one entry per row.
pub(crate) fn check_count(what: &str, found: usize, rows: usize) -> Result<()> {
    if found == rows {
        return Ok(());
    }
    let expected = format!("{rows}, one per id");
    Err(Error::invalid(format!("embedding set: {what}"), format!("a list of {found}"), expected))
}
