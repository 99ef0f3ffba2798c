//! Exact search over all rows.

use conifer_space::{EmbeddingSet, ManifoldSpec, Modality, Root, Space, space};
use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::query::{Filter, Hit, Query, Ranking};
use crate::scan::{Probe, Scan, scan};
use crate::select::{Bounds, Selection};

/// Rows scanned by one task: enough work to be worth a task, few enough for an even share.
const ROWS_PER_TASK: usize = 2048;
/// Queries that look at a row while it is in the cache.
const QUERIES_PER_TASK: usize = 16;

/// All rows of a set, compared with the query one by one.
///
/// A first pass bounds the score of every row from one dot product (per factor); the rows that may be among the `k` best
/// are then scored exactly, with [`Space`]. The answer is that of scoring every row exactly, whatever the number of
/// threads.
///
/// The bounds allow for the rounding of the exact scores as it is up to norm 10 (at curvatures 0.1 to 10), where every
/// published model lives. Further out the exact scores themselves lose digits, and among rows whose scores differ by less
/// than that another one may be named.
pub struct FlatIndex {
    spec: ManifoldSpec,
    root: Root,
    space: Box<dyn Space<f32>>,
    scan: Option<Box<dyn Scan>>,
    points: Vec<f32>,
    modality: Vec<Modality>,
}

impl FlatIndex {
    /// Copies the points of a set and precomputes what searching needs.
    ///
    /// # Errors
    /// The set does not pass [`EmbeddingSet::check`], or has more than 2^32 rows.
    pub fn new(set: &EmbeddingSet) -> Result<Self> {
        set.check()?;
        if u32::try_from(set.len()).is_err() {
            return Err(Error::invalid("the number of rows", set.len(), "less than 2^32"));
        }
        Ok(FlatIndex {
            spec: set.spec.clone(),
            root: set.root.clone(),
            space: space(&set.spec)?,
            scan: scan(&set.spec, &set.root, &set.points),
            points: set.points.clone(),
            modality: set.modality.clone(),
        })
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.modality.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.modality.is_empty()
    }

    /// The space of the rows.
    pub fn spec(&self) -> &ManifoldSpec {
        &self.spec
    }

    /// The root from which angles are seen.
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// The geometry of the rows.
    pub fn space(&self) -> &dyn Space<f32> {
        self.space.as_ref()
    }

    /// The coordinates of row `i`, which must be below [`FlatIndex::len`].
    pub fn row(&self, i: usize) -> &[f32] {
        &self.points[i * self.spec.dim..(i + 1) * self.spec.dim]
    }

    /// For every point of the query, the `k` best rows that pass the filter, best first; equal scores in the order of
    /// their rows. Fewer than `k` where fewer rows pass.
    ///
    /// # Errors
    /// The query lives in another space, does not consist of whole points, is not finite, or is not on the space; the
    /// limit of a gate is not a number.
    pub fn top_k(&self, query: &Query<'_>, ranking: Ranking, k: usize, filter: &Filter<'_>) -> Result<Vec<Vec<Hit>>> {
        ranking.check()?;
        let queries: Vec<&[f32]> = query.checked(self.space())?.collect();
        let rows = self.kept(filter);
        let k = k.min(rows.len());
        if k == 0 {
            return Ok(vec![Vec::new(); queries.len()]);
        }
        let groups = queries.par_chunks(QUERIES_PER_TASK);
        Ok(groups.flat_map_iter(|group| self.top_k_of_group(group, ranking, k, &rows)).collect())
    }

    /// Puts hits in the order from general to specific: by [`Space::depth`], equal depths by their rows. With `k` hits of
    /// any ranking these are the `k` best, shown as a path through the hierarchy.
    pub fn general_first(&self, hits: &mut [Hit]) {
        let depth = |hit: &Hit| self.space.depth(self.row(hit.row), &self.root);
        hits.sort_by(|a, b| depth(a).total_cmp(&depth(b)).then(a.row.cmp(&b.row)));
    }

    /// Rows that pass the filter, in order.
    fn kept(&self, filter: &Filter<'_>) -> Vec<u32> {
        let passes = |row: usize| match filter {
            Filter::All => true,
            Filter::Modality(wanted) => wanted.contains(&self.modality[row]),
            Filter::Rows(wanted) => wanted(row),
        };
        (0..self.len()).filter(|row| passes(*row)).map(|row| row as u32).collect()
    }

    fn top_k_of_group(&self, queries: &[&[f32]], ranking: Ranking, k: usize, rows: &[u32]) -> Vec<Vec<Hit>> {
        let probes: Vec<Probe<'_>> = queries.iter().map(|query| self.probe(query, ranking)).collect();
        let nothing = || queries.iter().map(|_| Selection::new(k)).collect::<Vec<_>>();
        let scanned = rows.par_chunks(ROWS_PER_TASK).map(|rows| {
            let mut selections = nothing();
            for row in rows {
                let point = self.row(*row as usize);
                for (selection, probe) in selections.iter_mut().zip(&probes) {
                    selection.push(*row, probe(*row as usize, point));
                }
            }
            selections
        });
        let merge = |a: Vec<Selection>, b: Vec<Selection>| a.into_iter().zip(b).map(|(a, b)| a.merge(b)).collect();
        let selections = scanned.reduce(nothing, merge);
        let pairs = queries.par_iter().zip(selections);
        pairs.map(|(query, selection)| self.exact(query, ranking, k, selection.into_rows())).collect()
    }

    /// Bounds on the key of a row: cheap ones where the space has them, else the exact key.
    fn probe<'a>(&'a self, query: &'a [f32], ranking: Ranking) -> Probe<'a> {
        let cheap = self.scan.as_ref().and_then(|scan| scan.probe(query, ranking));
        cheap.unwrap_or_else(|| {
            Box::new(move |_, row| match ranking.gate() {
                Some(gate) if !gate.admits(self.space(), &self.root, query, row) => Bounds::NEVER,
                _ => Bounds::around(ranking.key(ranking.score(self.space(), &self.root, query, row)), 0.0),
            })
        })
    }

    /// The `k` best of `rows` by their exact scores.
    fn exact(&self, query: &[f32], ranking: Ranking, k: usize, rows: impl Iterator<Item = u32>) -> Vec<Hit> {
        let admitted = |row: &u32| {
            ranking.gate().is_none_or(|gate| gate.admits(self.space(), &self.root, query, self.row(*row as usize)))
        };
        let hit = |row: u32| {
            let row = row as usize;
            Hit { row, score: ranking.score(self.space(), &self.root, query, self.row(row)) }
        };
        let mut hits: Vec<Hit> = rows.filter(admitted).map(hit).collect();
        hits.sort_unstable_by(|a, b| ranking.key(a.score).total_cmp(&ranking.key(b.score)).then(a.row.cmp(&b.row)));
        hits.truncate(k);
        hits
    }
}

#[cfg(test)]
mod tests;
