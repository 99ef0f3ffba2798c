//! Exact search over all rows.

use std::borrow::Cow;

use conifer_embeddings::EmbeddingSet;
use conifer_geometry::{ManifoldSpec, Root, Space};

use crate::error::Result;
use crate::filter::Filter;
use crate::query::{Hit, Query, Ranking};
use crate::store::Snapshot;
use crate::table::{SearchTable, TablePrecision};

/// An index that compares the query with every row of a set.
///
/// A first pass bounds the score of every row from one dot product per factor. The rows that may be among the `k` best
/// are then scored exactly with [`Space`]. The result equals exact scoring of every row, for any number of threads.
///
/// The bounds allow for the rounding of the exact scores as measured up to norm 1e4 at curvatures 0.1 to 10. Farther
/// out the exact scores themselves lose digits.
pub struct FlatIndex {
    table: SearchTable,
}

impl FlatIndex {
    /// Copies the points of a set and precomputes the values that a search needs.
    ///
    /// # Errors
    /// Fails if the set does not pass [`EmbeddingSet::check`] or has 2^32 rows or more.
    pub fn new(set: &EmbeddingSet) -> Result<Self> {
        Ok(FlatIndex { table: SearchTable::copy_of(set, TablePrecision::Full)? })
    }

    /// As [`FlatIndex::new`], but takes the points of the set without a copy.
    ///
    /// # Errors
    /// Returns the errors of [`FlatIndex::new`].
    pub fn of(set: EmbeddingSet) -> Result<Self> {
        Ok(FlatIndex { table: SearchTable::new(set, TablePrecision::Full)? })
    }

    /// Indexes the rows of a snapshot. The points are shared, not copied. They are read once to check that they are
    /// points of the space.
    ///
    /// # Errors
    /// Returns the errors of [`Snapshot::check`].
    pub fn on(rows: &Snapshot) -> Result<Self> {
        Ok(FlatIndex { table: SearchTable::of(rows)? })
    }

    /// Stores the points rounded to half precision, in half the memory. Scores are the exact scores of the rounded
    /// points.
    ///
    /// # Errors
    /// Returns the errors of [`FlatIndex::new`]. Fails if the absolute value of a coordinate is above 65,504.
    pub fn half(set: &EmbeddingSet) -> Result<Self> {
        Ok(FlatIndex { table: SearchTable::copy_of(set, TablePrecision::Half)? })
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// True if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The space of the rows.
    pub fn spec(&self) -> &ManifoldSpec {
        &self.table.spec
    }

    /// The root of the hierarchy, to which exterior angles and depths refer.
    pub fn root(&self) -> &Root {
        &self.table.root
    }

    /// The geometry of the rows.
    pub fn space(&self) -> &dyn Space<f32> {
        self.table.space.as_ref()
    }

    /// The stored coordinates of row `i`, which must be below [`FlatIndex::len`].
    pub fn row(&self, i: usize) -> Cow<'_, [f32]> {
        self.table.row(i)
    }

    /// Returns, for every point of the query, the `k` best rows that pass the filter, best first. Equal scores are
    /// ordered by row. The result is shorter if fewer than `k` rows pass.
    ///
    /// # Errors
    /// Fails if the query is from another space, has incomplete points, is not finite, is not on the space, or is so
    /// far from the origin that scores overflow; if the limit of a gate is NaN; or if the filter is invalid for
    /// this index, see [`Filter`].
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

    /// Returns the rows that pass a filter, in order. Use it to count them, or as a [`Filter::Set`] to evaluate a
    /// filter once for several searches.
    ///
    /// # Errors
    /// Fails if the filter is invalid for this index, see [`Filter`].
    pub fn passing(&self, filter: &Filter<'_>) -> Result<Vec<usize>> {
        let rows = filter.bitmap(&self.table, &|row| row)?.rows();
        Ok(rows.into_iter().map(|row| row as usize).collect())
    }

    /// Sorts hits from general to specific: by [`Space::depth`], ties by row. Use it to show the `k` best hits of any
    /// ranking as a path through the hierarchy.
    pub fn general_first(&self, hits: &mut [Hit]) {
        let depth = |hit: &Hit| self.space().depth(&self.row(hit.row), self.root());
        hits.sort_by(|a, b| depth(a).total_cmp(&depth(b)).then(a.row.cmp(&b.row)));
    }
}

#[cfg(test)]
mod tests;
