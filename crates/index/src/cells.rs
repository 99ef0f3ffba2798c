//! Search that compares the query with only some of the rows: exact, or limited to a number of cells.

mod fast_bounds;
mod forecast;
mod means;
mod tight_bounds;

use std::cmp::Ordering;
use std::ops::Range;

use conifer_embeddings::EmbeddingSet;
use conifer_geometry::{ManifoldSpec, Root, Space};
use rayon::prelude::*;

use crate::error::Result;
use crate::filter::Filter;
use crate::query::{Hit, Query, Ranking};
use crate::scan::LowerBound;
use crate::store::Snapshot;
use crate::table::{PreparedRanking, RowScanner, SearchTable, TablePrecision};
use fast_bounds::{CentreDots, FastBounds, FastCellBound};
use tight_bounds::{TightBounds, TightQuery};

/// A set whose rows are partitioned into cells around centres (k-means in the geometry of the space).
///
/// The centre and the radius of a cell bound the scores of all its rows, if the space has a
/// [`ScoreForm`](conifer_geometry::ScoreForm). A cell whose bound is worse than the `k` best rows found so far is
/// skipped. With [`Effort::Exact`] the result equals that of [`FlatIndex`](crate::FlatIndex) bit for bit;
/// [`CellHits::visited`] reports how many rows were compared. In many dimensions the rows of near-flat data are about
/// equally far from every centre, and most cells have to be visited. [`Effort::Cells`] stops after the most promising
/// cells.
pub struct CellIndex {
    table: SearchTable,
    /// Maps a table position to the row of the set.
    order: Vec<u32>,
    /// Maps a row of the set to its table position.
    positions: Vec<u32>,
    /// Table positions of each cell.
    cells: Vec<Range<usize>>,
    /// Centres of the cells, row-major; empty if there are bounds.
    centres: Vec<f32>,
    /// `None` for a space without a [`ScoreForm`](conifer_geometry::ScoreForm): an exact search then compares all rows.
    bounds: Option<TightBounds>,
    /// Faster bounds; `None` for spaces that have none.
    fast: Option<FastBounds>,
    /// The selection without a filter: all rows.
    all: FilteredRows,
    seed: u64,
}

/// Settings of the k-means partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Number of cells; 0 means the square root of the number of rows.
    pub cells: usize,
    /// Rounds of k-means, on a sample of at most 64 rows per cell.
    pub rounds: usize,
    /// Seed of the sample and of the initial centres.
    pub seed: u64,
}

/// The number of cells that a search visits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// Search until no other row can be among the best.
    Exact,
    /// Visit at most this many of the most promising cells, counting only cells with rows that pass the filter. Cells
    /// whose bound shows that they hold no better row are skipped. If the cells hold a large fraction of the rows, all
    /// rows are scanned instead, which takes less time.
    Cells(usize),
}

/// The result for one point of a query.
#[derive(Clone, Debug, PartialEq)]
pub struct CellHits {
    /// The best rows, best first.
    pub hits: Vec<Hit>,
    /// Number of rows that were compared with the point.
    pub visited: usize,
}

/// Largest fraction of the filtered rows that a query visits cell by cell, once the first cells have given it a
/// threshold. If the remaining cells hold more, the query joins a scan of all rows, which several queries share and
/// which is several times as fast per row.
const MAX_VISITED_FRACTION: f64 = 0.2;

/// Number of queries whose dot products with the centres are computed together.
const QUERY_CHUNK: usize = 16;

/// Number of cells that an exact search visits before it sorts the remaining ones.
const FIRST_CELLS: usize = 2;

impl Default for Partition {
    fn default() -> Self {
        Partition { cells: 0, rounds: 8, seed: 0 }
    }
}

impl CellIndex {
    /// Partitions the rows of a set into cells. The points are moved, not copied. The same set and partition give the
    /// same cells for any number of threads.
    ///
    /// # Errors
    /// Returns the errors of [`FlatIndex::new`](crate::FlatIndex::new).
    pub fn new(set: EmbeddingSet, partition: Partition) -> Result<Self> {
        Self::stored(set, partition, TablePrecision::Full)
    }

    /// As [`CellIndex::new`], with the points rounded to half precision, see
    /// [`FlatIndex::half`](crate::FlatIndex::half).
    ///
    /// # Errors
    /// Returns the errors of [`FlatIndex::half`](crate::FlatIndex::half) and of [`CellIndex::new`].
    pub fn half(set: EmbeddingSet, partition: Partition) -> Result<Self> {
        Self::stored(set, partition, TablePrecision::Half)
    }

    /// Partitions the rows of a snapshot into cells. Points that are shared or memory-mapped are copied.
    ///
    /// # Errors
    /// Returns the errors of [`CellIndex::new`] and of [`Snapshot::check`].
    pub fn on(rows: &Snapshot, partition: Partition) -> Result<Self> {
        Self::sorted(SearchTable::of(rows)?, partition)
    }

    fn stored(set: EmbeddingSet, partition: Partition, precision: TablePrecision) -> Result<Self> {
        Self::sorted(SearchTable::new(set, precision)?, partition)
    }

    fn sorted(mut table: SearchTable, partition: Partition) -> Result<Self> {
        let count = match partition.cells {
            0 => table.len().isqrt(),
            cells => cells.min(table.len()),
        };
        let centres = means::centres(&table, count, partition.rounds, partition.seed)?;
        let cell_of = means::nearest(&table, &(0..table.len() as u32).collect::<Vec<u32>>(), &centres)?;
        let mut order: Vec<u32> = (0..table.len() as u32).collect();
        order.sort_by_key(|row| (cell_of[*row as usize], *row));
        let mut positions = vec![0; order.len()];
        order.iter().enumerate().for_each(|(position, row)| positions[*row as usize] = position as u32);
        let first = |cell: usize| order.partition_point(|row| (cell_of[*row as usize] as usize) < cell);
        let cells: Vec<Range<usize>> = (0..count).map(|cell| first(cell)..first(cell + 1)).collect();
        table.arrange(&order);
        let form = table.space.score_form();
        let bounds = form.map(|form| TightBounds::new(&table, form, &centres, &cells)).transpose()?;
        let fast = bounds.as_ref().and_then(|bounds| bounds.fast(&centres));
        let centres = if bounds.is_some() { Vec::new() } else { centres };
        let starts = std::iter::once(0).chain(cells.iter().map(|cell| cell.end)).collect();
        let all = FilteredRows { positions: (0..order.len() as u32).collect(), starts };
        Ok(CellIndex { table, order, positions, cells, centres, bounds, fast, all, seed: partition.seed })
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// True if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of cells.
    pub fn cells(&self) -> usize {
        self.cells.len()
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

    /// Returns, for every point of the query, the `k` best rows that pass the filter, in the order of
    /// [`FlatIndex::top_k`](crate::FlatIndex::top_k).
    ///
    /// # Errors
    /// Returns the errors of [`FlatIndex::top_k`](crate::FlatIndex::top_k).
    pub fn top_k(
        &self,
        query: &Query<'_>,
        ranking: Ranking,
        k: usize,
        filter: &Filter<'_>,
        effort: Effort,
    ) -> Result<Vec<CellHits>> {
        ranking.check()?;
        let queries: Vec<&[f32]> = query.checked(self.space())?.collect();
        let passing;
        let filtered = match filter {
            Filter::All => &self.all,
            _ => {
                passing = FilteredRows::new(self, filter)?;
                &passing
            }
        };
        let k = k.min(filtered.positions.len());
        if k == 0 {
            return Ok(vec![CellHits { hits: Vec::new(), visited: 0 }; queries.len()]);
        }
        let some = |points: &[&[f32]]| -> Vec<Option<CellHits>> {
            let dots = self.dots(points, ranking);
            let dots = dots.as_ref();
            let one = |(i, point): (usize, &&[f32])| {
                self.top_k_of_one(point, dots.map(|dots| (dots, i)), ranking, k, filtered, effort)
            };
            points.iter().enumerate().map(one).collect()
        };
        let found: Vec<Option<CellHits>> = queries.par_chunks(QUERY_CHUNK).flat_map_iter(some).collect();
        // Queries for which the cells exclude too few rows share one scan of all rows, which is cheaper than visiting
        // the remaining cells for each query.
        let pairs = queries.iter().zip(&found);
        let rest: Vec<&[f32]> = pairs.filter(|(_, found)| found.is_none()).map(|(point, _)| *point).collect();
        let number = |position: u32| self.order[position as usize] as usize;
        let mut rest = self.table.best_of(&rest, ranking, k, &filtered.positions, number).into_iter();
        let mut of_all = || CellHits { hits: rest.next().unwrap_or_default(), visited: filtered.positions.len() };
        Ok(found.into_iter().map(|found| found.unwrap_or_else(&mut of_all)).collect())
    }

    /// Dot products of points with the centres; `None` if the bounds of this ranking do not use them.
    fn dots(&self, points: &[&[f32]], ranking: Ranking) -> Option<CentreDots> {
        self.fast.as_ref().filter(|fast| fast.has_bounds(ranking)).map(|fast| fast.dots(points))
    }

    /// The tight bounds with the values of a query point that all cells share; `None` if the index has no bounds.
    fn tight(&self, point: &[f32]) -> Option<(&TightBounds, TightQuery)> {
        self.bounds.as_ref().map(|bounds| (bounds, bounds.query_point(point)))
    }

    /// Key of the centre of a cell. Without bounds, cells are visited in the order of these keys.
    fn key_at_centre(&self, point: &[f32], cell: usize, ranking: Ranking) -> f64 {
        let dim = self.spec().dim;
        let centre = &self.centres[cell * dim..(cell + 1) * dim];
        f64::from(ranking.key(ranking.score(self.space(), self.root(), point, centre)))
    }

    /// The cells that may hold a result, in no particular order.
    fn candidates(
        &self,
        point: &[f32],
        tight: Option<&(&TightBounds, TightQuery)>,
        dots: Option<(&CentreDots, usize)>,
        ranking: Ranking,
        prepared: &PreparedRanking<'_>,
        filtered: &FilteredRows,
    ) -> Vec<Candidate> {
        let filled = (0..self.cells.len()).filter(|cell| !filtered.of(*cell).is_empty());
        let Some((bounds, query_point)) = tight else {
            // Without bounds every cell may hold a result.
            let candidate = |cell: usize| Candidate {
                cell,
                order: self.key_at_centre(point, cell, ranking),
                lower_bound: f32::NEG_INFINITY,
                rough: false,
            };
            return filled.map(candidate).collect();
        };
        if let (Some(fast), Some((dots, query))) = (&self.fast, dots) {
            let cell_bounds = fast.cell_bounds(query_point, dots, query, ranking, filled);
            let candidate = |bound: FastCellBound| Candidate {
                cell: bound.cell as usize,
                order: bound.order,
                lower_bound: prepared.lower_bound(bound.lower_bound),
                rough: true,
            };
            return cell_bounds.into_iter().map(candidate).collect();
        }
        let candidate = |cell: usize| {
            let cell_bound = bounds.cell_bound(query_point, cell, ranking);
            let lower_bound = prepared.lower_bound(LowerBound::Score(cell_bound.lower_bound));
            cell_bound.passes(ranking).then_some(Candidate { cell, order: cell_bound.order, lower_bound, rough: false })
        };
        filled.filter_map(candidate).collect()
    }

    /// Returns `None` if, once there is a threshold, the remaining candidate cells hold more than
    /// [`MAX_VISITED_FRACTION`] of the rows that pass the filter.
    fn top_k_of_one(
        &self,
        point: &[f32],
        dots: Option<(&CentreDots, usize)>,
        ranking: Ranking,
        k: usize,
        filtered: &FilteredRows,
        effort: Effort,
    ) -> Option<CellHits> {
        let queries = [point];
        let prepared = self.table.prepare(&queries, ranking);
        let mut scanner = prepared.scanner(k);
        let tight = self.tight(point);
        let mut first = self.candidates(point, tight.as_ref(), dots, ranking, &prepared, filtered);
        let most = match effort {
            Effort::Exact => usize::MAX,
            Effort::Cells(most) => most,
        };
        let mut rest = Candidate::split_after(&mut first, FIRST_CELLS.min(most));
        drop(Candidate::split_after(&mut rest, most.saturating_sub(first.len())));
        first.sort_unstable_by(Candidate::compare);
        let mut visited = 0;
        let mut visit = |scanner: &mut RowScanner<'_>, candidate: &Candidate| {
            let open = |lower_bound: f32| lower_bound <= scanner.threshold(0);
            if !open(candidate.lower_bound) {
                return;
            }
            if candidate.rough
                && let Some((bounds, query_point)) = &tight
            {
                // This lower bound is loose. Compute the tight one before visiting the rows.
                let cell_bound = bounds.cell_bound(query_point, candidate.cell, ranking);
                if !cell_bound.passes(ranking) || !open(prepared.lower_bound(LowerBound::Score(cell_bound.lower_bound)))
                {
                    return;
                }
            }
            scanner.scan(filtered.of(candidate.cell));
            visited += filtered.of(candidate.cell).len();
        };
        first.iter().for_each(|candidate| visit(&mut scanner, candidate));
        rest.retain(|candidate| candidate.lower_bound <= scanner.threshold(0));
        rest.sort_unstable_by(Candidate::compare);
        let mut judged = false;
        for (i, candidate) in rest.iter().enumerate() {
            if !judged && scanner.threshold(0) < f32::INFINITY {
                // The first rows give a threshold. Use it to check whether the remaining cells hold too many rows.
                let open = rest[i..].iter().filter(|other| other.lower_bound <= scanner.threshold(0));
                let rows: usize = open.map(|other| filtered.of(other.cell).len()).sum();
                if rows as f64 > MAX_VISITED_FRACTION * filtered.positions.len() as f64 {
                    return None;
                }
                judged = true;
            }
            visit(&mut scanner, candidate);
        }
        let rows = scanner.selections.swap_remove(0).into_rows();
        let number = |position: u32| self.order[position as usize] as usize;
        Some(CellHits { hits: self.table.exact(point, ranking, k, rows, number), visited })
    }
}

/// A cell that may hold a result.
struct Candidate {
    cell: usize,
    /// Visiting order, smallest first.
    order: f64,
    /// Lower bound on the keys of the rows.
    lower_bound: f32,
    /// True if [`TightBounds::cell_bound`] gives a tighter lower bound.
    rough: bool,
}

impl Candidate {
    fn compare(a: &Candidate, b: &Candidate) -> Ordering {
        a.order.total_cmp(&b.order).then(a.cell.cmp(&b.cell))
    }

    /// Keeps the first `count` of `candidates` and returns the others, both in no particular order.
    fn split_after(candidates: &mut Vec<Candidate>, count: usize) -> Vec<Candidate> {
        if candidates.len() <= count {
            return Vec::new();
        }
        candidates.select_nth_unstable_by(count, Candidate::compare);
        candidates.split_off(count)
    }
}

/// Table positions of the rows that pass a filter, grouped by cell.
struct FilteredRows {
    positions: Vec<u32>,
    /// Offset of each cell in `positions`, and the total at the end.
    starts: Vec<usize>,
}

impl FilteredRows {
    fn new(index: &CellIndex, filter: &Filter<'_>) -> Result<Self> {
        let bitmap = filter.bitmap(&index.table, &|row| index.positions[row] as usize)?;
        let (mut positions, mut starts) = (Vec::new(), vec![0]);
        for cell in &index.cells {
            let passing = cell.clone().filter(|position| bitmap.contains(index.order[*position] as usize));
            positions.extend(passing.map(|position| position as u32));
            starts.push(positions.len());
        }
        Ok(FilteredRows { positions, starts })
    }

    fn of(&self, cell: usize) -> &[u32] {
        &self.positions[self.starts[cell]..self.starts[cell + 1]]
    }
}

#[cfg(test)]
mod tests;
