//! Exact search over all rows.

use std::borrow::Cow;

use conifer_space::{EmbeddingSet, ManifoldSpec, Root, Space};

use crate::error::Result;
use crate::filter::Filter;
use crate::query::{Hit, Query, Ranking};
use crate::store::Snapshot;
use crate::table::{Store, Table};

/// All rows of a set, compared with the query one by one.
///
/// A first pass bounds the score of every row from one dot product (per factor); the rows that may be among the `k` best
/// are then scored exactly, with [`Space`]. The answer is that of scoring every row exactly, whatever the number of
/// threads.
///
/// The bounds allow for the rounding of the exact scores as it was measured up to norm 1e4 at curvatures 0.1 to 10. Every
/// published model lives within norm 10; further out the exact scores themselves lose digits.
pub struct FlatIndex {
    table: Table,
}

impl FlatIndex {
    /// Copies the points of a set and precomputes what searching needs.
    ///
    /// # Errors
    /// The set does not pass [`EmbeddingSet::check`], or has more than 2^32 rows.
    pub fn new(set: &EmbeddingSet) -> Result<Self> {
        Self::of(geometry_of(set))
    }

    /// As [`FlatIndex::new`], with the points of the set themselves: no copy is made.
    ///
    /// # Errors
    /// Those of [`FlatIndex::new`].
    pub fn of(set: EmbeddingSet) -> Result<Self> {
        Ok(FlatIndex { table: Table::new(set, Store::Whole)? })
    }

    /// Over the rows of a snapshot, whose points are shared: nothing is copied. They are read once, and what is no point of the space is
    /// found then.
    ///
    /// # Errors
    /// Those of [`Snapshot::check`].
    pub fn on(rows: &Snapshot) -> Result<Self> {
        Ok(FlatIndex { table: Table::of(rows)? })
    }

    /// Stores the points rounded to half precision, in half the memory. Scores are those of the stored points, exactly.
    ///
    /// # Errors
    /// Those of [`FlatIndex::new`], and a coordinate beyond 65,504.
    pub fn half(set: &EmbeddingSet) -> Result<Self> {
        Ok(FlatIndex { table: Table::new(geometry_of(set), Store::Half)? })
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The space of the rows.
    pub fn spec(&self) -> &ManifoldSpec {
        &self.table.spec
    }

    /// The root from which angles are seen.
    pub fn root(&self) -> &Root {
        &self.table.root
    }

    /// The geometry of the rows.
    pub fn space(&self) -> &dyn Space<f32> {
        self.table.space.as_ref()
    }

    /// The coordinates of row `i`, which must be below [`FlatIndex::len`], as they are stored.
    pub fn row(&self, i: usize) -> Cow<'_, [f32]> {
        self.table.row(i)
    }

    /// For every point of the query, the `k` best rows that pass the filter, best first; equal scores in the order of
    /// their rows. Fewer than `k` where fewer rows pass.
    ///
    /// # Errors
    /// The query lives in another space, does not consist of whole points, is not finite, or is not on the space; the
    /// limit of a gate is not a number; a filter that does not fit, see [`Filter`].
    pub fn top_k(&self, query: &Query<'_>, ranking: Ranking, k: usize, filter: &Filter<'_>) -> Result<Vec<Vec<Hit>>> {
        ranking.check()?;
        let queries: Vec<&[f32]> = query.checked(self.space())?.collect();
        let passing;
        let rows = match filter {
            Filter::All => self.table.all(),
            _ => {
                passing = filter.bitmap(&self.table, &|row| row)?.rows();
                &passing
            }
        };
        let k = k.min(rows.len());
        if k == 0 {
            return Ok(vec![Vec::new(); queries.len()]);
        }
        Ok(self.table.best_of(&queries, ranking, k, rows, |row| row as usize))
    }

    /// The rows that pass a filter, in order: how many there are, and, as [`Filter::Set`], the same filter evaluated once for several
    /// searches.
    ///
    /// # Errors
    /// A filter that does not fit, see [`Filter`].
    pub fn passing(&self, filter: &Filter<'_>) -> Result<Vec<usize>> {
        let rows = filter.bitmap(&self.table, &|row| row)?.rows();
        Ok(rows.into_iter().map(|row| row as usize).collect())
    }

    /// Puts hits in the order from general to specific: by [`Space::depth`], equal depths by their rows. With `k` hits of
    /// any ranking these are the `k` best, shown as a path through the hierarchy.
    pub fn general_first(&self, hits: &mut [Hit]) {
        let depth = |hit: &Hit| self.space().depth(&self.row(hit.row), self.root());
        hits.sort_by(|a, b| depth(a).total_cmp(&depth(b)).then(a.row.cmp(&b.row)));
    }
}

/// A copy of a set without what an index does not keep.
fn geometry_of(set: &EmbeddingSet) -> EmbeddingSet {
    EmbeddingSet {
        spec: set.spec.clone(),
        root: set.root.clone(),
        ids: vec![String::new(); set.len()],
        modality: set.modality.clone(),
        points: set.points.clone(),
        columns: Default::default(),
        source: Default::default(),
    }
}

#[cfg(test)]
mod tests;
