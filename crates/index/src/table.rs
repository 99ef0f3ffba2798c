//! Rows with their geometry, the data that every index searches.

use std::borrow::Cow;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use conifer_embeddings::{EmbeddingSet, Modality};
use conifer_geometry::{ManifoldSpec, Root, Space, space};
use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::query::{Hit, Ranking};
use crate::rows::PointRows;
use crate::scan::{self, BLOCK, BoundPlan, LowerBound, Scan, Sweep, SweepBuffers};
use crate::select::{Bounds, Selection};
use crate::store::Snapshot;

/// Number of queries per pass over the rows: enough to amortise reading the rows, few enough for the cache.
pub(crate) const GROUP: usize = 256;

/// Number of rows that a thread takes at a time: enough to amortise the overhead, few enough to balance the load.
pub(crate) const CHUNK_ROWS: usize = 768;

pub(crate) struct SearchTable {
    pub(crate) spec: ManifoldSpec,
    pub(crate) root: Root,
    pub(crate) space: Box<dyn Space<f32>>,
    pub(crate) scan: Option<Scan>,
    pub(crate) rows: PointRows,
    /// The kind of input of each row; empty in a table of [`SearchTable::of_points`].
    pub(crate) modality: Vec<Modality>,
    depths: OnceLock<Vec<f32>>,
    all: OnceLock<Vec<u32>>,
}

pub(crate) enum TablePrecision {
    Full,
    Half,
}

impl SearchTable {
    /// # Errors
    /// Fails if the set does not pass [`EmbeddingSet::check`], has 2^32 rows or more, or overflows half precision.
    pub(crate) fn new(set: EmbeddingSet, precision: TablePrecision) -> Result<Self> {
        check(&set)?;
        let EmbeddingSet { spec, root, modality, points, .. } = set;
        let rows = match precision {
            TablePrecision::Full => PointRows::owned(points),
            TablePrecision::Half => PointRows::half(&points)?,
        };
        Self::on(spec, root, rows, modality)
    }

    /// As [`SearchTable::new`], with a copy of the points.
    pub(crate) fn copy_of(set: &EmbeddingSet, precision: TablePrecision) -> Result<Self> {
        check(set)?;
        let rows = match precision {
            TablePrecision::Full => PointRows::owned(set.points.clone()),
            TablePrecision::Half => PointRows::half(&set.points)?,
        };
        Self::on(set.spec.clone(), set.root.clone(), rows, set.modality.clone())
    }

    /// A table of row-major points of `spec`, such as the centres of cells. The points are not checked, and they have
    /// no modality to filter by.
    pub(crate) fn of_points(spec: &ManifoldSpec, root: &Root, points: &[f32]) -> Result<Self> {
        Self::on(spec.clone(), root.clone(), PointRows::owned(points.to_vec()), Vec::new())
    }

    /// Takes the rows of a snapshot, which are shared.
    ///
    /// # Errors
    /// Returns the errors of [`Snapshot::check`].
    pub(crate) fn of(rows: &Snapshot) -> Result<Self> {
        rows.check()?;
        Self::on(rows.spec.clone(), rows.root.clone(), rows.rows.clone(), rows.modality.clone())
    }

    /// The rows must be valid points of the space, fewer than 2^32.
    fn on(spec: ManifoldSpec, root: Root, rows: PointRows, modality: Vec<Modality>) -> Result<Self> {
        let space = space(&spec)?;
        Ok(SearchTable {
            scan: Scan::new(space.as_ref(), &root, &rows),
            space,
            spec,
            root,
            rows,
            modality,
            depths: OnceLock::new(),
            all: OnceLock::new(),
        })
    }

    /// Recomputes the values that depend on the order of the rows.
    pub(crate) fn rescan(&mut self) {
        self.scan = Scan::new(self.space.as_ref(), &self.root, &self.rows);
        self.depths = OnceLock::new();
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len(self.spec.dim)
    }

    /// All row numbers.
    pub(crate) fn all(&self) -> &[u32] {
        self.all.get_or_init(|| (0..self.len() as u32).collect())
    }

    pub(crate) fn row(&self, i: usize) -> Cow<'_, [f32]> {
        self.rows.get(i, self.spec.dim)
    }

    /// [`Space::depth`] of every row, computed on first use.
    pub(crate) fn depths(&self) -> &[f32] {
        if let Some(depths) = self.depths.get() {
            return depths;
        }
        // Compute outside the lock: a rayon thread that waits under the lock may steal a task that needs the same lock,
        // and deadlock.
        let depth = |scratch: &mut Vec<f32>, i| self.space.depth(self.rows.row(i, self.spec.dim, scratch), &self.root);
        let depths = (0..self.len()).into_par_iter().map_init(Vec::new, depth).collect();
        self.depths.get_or_init(|| depths)
    }

    /// The `k` best of the rows `candidates` by their exact scores; equal scores are ordered by `number`.
    pub(crate) fn exact(
        &self,
        query: &[f32],
        ranking: Ranking,
        k: usize,
        candidates: impl Iterator<Item = u32>,
        number: impl Fn(u32) -> usize,
    ) -> Vec<Hit> {
        let mut scratch = Vec::new();
        let mut hits = Vec::new();
        for row in candidates {
            let point = self.rows.row(row as usize, self.spec.dim, &mut scratch);
            let admits = |gate: crate::Gate| gate.admits(self.space.as_ref(), &self.root, query, point);
            if ranking.gate().is_none_or(admits) {
                let score = ranking.score(self.space.as_ref(), &self.root, query, point);
                hits.push(Hit { row: number(row), score });
            }
        }
        hits.sort_unstable_by(|a, b| ranking.key(a.score).total_cmp(&ranking.key(b.score)).then(a.row.cmp(&b.row)));
        hits.truncate(k);
        hits
    }

    /// The `k` best (at least one) of `rows` for every query; equal scores are ordered by `number`.
    ///
    /// Threads take chunks of rows until none are left. The result does not depend on which thread takes which rows.
    pub(crate) fn best_of(
        &self,
        queries: &[&[f32]],
        ranking: Ranking,
        k: usize,
        rows: &[u32],
        number: impl Fn(u32) -> usize + Sync,
    ) -> Vec<Vec<Hit>> {
        let of_group = |queries: &[&[f32]]| -> Vec<Vec<Hit>> {
            let prepared = self.prepare(queries, ranking);
            let next_chunk = AtomicUsize::new(0);
            let threads = rayon::current_num_threads().min(rows.len().div_ceil(CHUNK_ROWS));
            let per_thread = (0..threads).into_par_iter().map(|_| {
                let mut scanner = prepared.scanner(k);
                while let Some(rows) = rows.chunks(CHUNK_ROWS).nth(next_chunk.fetch_add(1, Ordering::Relaxed)) {
                    scanner.scan(rows);
                }
                scanner.selections
            });
            let merge = |a: Vec<Selection>, b: Vec<Selection>| a.into_iter().zip(b).map(|(a, b)| a.merge(b)).collect();
            let selections = per_thread.reduce_with(merge).unwrap_or_default();
            let pairs = queries.par_iter().zip(selections);
            pairs.map(|(query, selection)| self.exact(query, ranking, k, selection.into_rows(), &number)).collect()
        };
        queries.par_chunks(GROUP).flat_map_iter(of_group).collect()
    }

    /// Prepares a ranking for these queries.
    pub(crate) fn prepare<'a>(&'a self, queries: &[&'a [f32]], ranking: Ranking) -> PreparedRanking<'a> {
        let plan = self.scan.as_ref().and_then(|scan| Some((scan, scan.plan(ranking)?)));
        let depths = if matches!(ranking, Ranking::Depth(_)) { self.depths() } else { &[] };
        let sweep = plan.map(|(scan, plan): (&Scan, BoundPlan)| Sweep::new(scan, plan, queries));
        PreparedRanking { table: self, ranking, queries: queries.to_vec(), sweep, depths }
    }
}

/// # Errors
/// Fails if the set does not pass [`EmbeddingSet::check`] or has 2^32 rows or more.
fn check(set: &EmbeddingSet) -> Result<()> {
    set.check()?;
    match u32::try_from(set.len()) {
        Ok(_) => Ok(()),
        Err(_) => Err(Error::invalid("the number of rows", set.len(), "less than 2^32")),
    }
}

/// A table prepared for some queries and a ranking.
pub(crate) struct PreparedRanking<'a> {
    table: &'a SearchTable,
    ranking: Ranking,
    queries: Vec<&'a [f32]>,
    /// `None` if there are no cheap bounds.
    sweep: Option<Sweep<'a>>,
    depths: &'a [f32],
}

/// The state of one thread of a scan.
pub(crate) struct RowScanner<'a> {
    prepared: &'a PreparedRanking<'a>,
    pub(crate) selections: Vec<Selection>,
    limits: Vec<f32>,
    scratch: SweepBuffers,
    wide: Vec<f32>,
    found: Vec<(u32, u32)>,
}

impl<'a> PreparedRanking<'a> {
    /// Starts a scan for the `k` best rows of each query, `k >= 1`.
    pub(crate) fn scanner(&'a self, k: usize) -> RowScanner<'a> {
        let count = self.queries.len();
        RowScanner {
            prepared: self,
            selections: (0..count).map(|_| Selection::new(k)).collect(),
            limits: vec![f32::INFINITY; count],
            scratch: SweepBuffers::default(),
            wide: Vec::new(),
            found: Vec::new(),
        }
    }

    /// Converts a lower bound to the scale of the keys.
    pub(crate) fn lower_bound(&self, lower_bound: LowerBound) -> f32 {
        match (&self.sweep, lower_bound) {
            (Some(sweep), lower_bound) => sweep.lower_bound(lower_bound),
            (None, LowerBound::Score(lower_bound)) => scan::below(lower_bound),
            (None, _) => f32::NEG_INFINITY,
        }
    }

    /// Bounds on the key of a row; `None` if the row does not pass the gate.
    pub(crate) fn bounds(&self, query: usize, row: usize, point: &[f32]) -> Option<Bounds> {
        if let Some(sweep) = &self.sweep {
            return sweep.bounds(query, row, point, self.depths);
        }
        let (space, root, query) = (self.table.space.as_ref(), &self.table.root, self.queries[query]);
        let admitted = self.ranking.gate().is_none_or(|gate| gate.admits(space, root, query, point));
        admitted.then(|| Bounds::exactly(self.ranking.key(self.ranking.score(space, root, query, point))))
    }
}

impl RowScanner<'_> {
    /// A row whose key is above this is not among the best rows of the query.
    pub(crate) fn threshold(&self, query: usize) -> f32 {
        self.limits[query]
    }

    /// Scans these rows.
    pub(crate) fn scan(&mut self, numbers: &[u32]) {
        numbers.chunks(BLOCK).for_each(|numbers| self.block(numbers));
    }

    fn block(&mut self, numbers: &[u32]) {
        let SearchTable { rows, spec, .. } = self.prepared.table;
        match &self.prepared.sweep {
            Some(sweep) => {
                let depths = self.prepared.depths;
                sweep.find_candidates(rows, numbers, depths, &self.limits, &mut self.scratch, &mut self.found);
            }
            None => {
                let queries = 0..self.selections.len() as u32;
                self.found.clear();
                self.found.extend((0..numbers.len() as u32).flat_map(|i| queries.clone().map(move |q| (i, q))));
            }
        }
        for (i, query) in &self.found {
            let (row, query) = (numbers[*i as usize], *query as usize);
            let point = rows.row(row as usize, spec.dim, &mut self.wide);
            if let Some(bounds) = self.prepared.bounds(query, row as usize, point) {
                self.selections[query].push(row, bounds);
                self.limits[query] = self.selections[query].threshold();
            }
        }
    }
}
