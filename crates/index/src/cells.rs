//! Exact search that visits only some of the rows.

mod balls;
mod discs;
mod forecast;
mod means;

use std::cmp::Ordering;
use std::ops::Range;

use conifer_space::{EmbeddingSet, ManifoldSpec, Root, Space};
use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::filter::Filter;
use crate::query::{Hit, Query, Ranking};
use crate::scan::Floor;
use crate::store::Snapshot;
use crate::table::{Looker, Store, Table, View};
use balls::{Asked, Balls};
use discs::{Discs, Dots, Offer};

/// A set whose rows are partitioned into cells around centres (k-means in the geometry of the space).
///
/// The centre and the radius of a cell bound the scores of all its rows. A cell whose bound is worse than the `k` best
/// rows found so far is skipped. The result equals that of [`FlatIndex`](crate::FlatIndex) bit for bit;
/// [`Found::visited`] reports how many rows were compared. In many dimensions near-flat data is about equally far from
/// every centre, and most cells have to be visited. [`Effort::Cells`] stops after the most promising cells.
pub struct CellIndex {
    table: Table,
    /// Maps a table position to the row of the set.
    order: Vec<u32>,
    /// Maps a row of the set to its table position.
    places: Vec<u32>,
    /// Table positions of each cell.
    cells: Vec<Range<usize>>,
    balls: Balls,
    /// Faster bounds; `None` for spaces that have none.
    discs: Option<Discs>,
    /// The selection without a filter: all rows.
    all: Kept,
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
    /// Visit at most this many of the most promising cells that hold rows which pass the filter. Cells that are known
    /// to be worse are skipped. If the cells hold a large share of the rows, all rows are scanned instead, which takes
    /// less time.
    Cells(usize),
}

/// The result for one point of a query.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The best rows, best first.
    pub hits: Vec<Hit>,
    /// Rows that were compared with the point.
    pub visited: usize,
}

/// Largest share of the rows that a query visits cell by cell. Above it, the query joins a scan of all rows that is
/// shared by several queries and is several times as fast per row.
const WORTH: f64 = 0.2;

/// Queries whose dot products with the centres are computed together.
const TOGETHER: usize = 16;

/// Cells that an exact search visits before it sorts the remaining ones.
const FIRST: usize = 2;

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
    /// Returns the errors of [`FlatIndex::new`](crate::FlatIndex::new). Fails if there are no cell bounds for the
    /// space.
    pub fn new(set: EmbeddingSet, partition: Partition) -> Result<Self> {
        Self::stored(set, partition, Store::Whole)
    }

    /// As [`CellIndex::new`], with the points rounded to half precision, see
    /// [`FlatIndex::half`](crate::FlatIndex::half).
    ///
    /// # Errors
    /// Returns the errors of [`FlatIndex::half`](crate::FlatIndex::half) and of [`CellIndex::new`].
    pub fn half(set: EmbeddingSet, partition: Partition) -> Result<Self> {
        Self::stored(set, partition, Store::Half)
    }

    /// Partitions the rows of a snapshot into cells. Points that are shared or memory-mapped are copied.
    ///
    /// # Errors
    /// Returns the errors of [`CellIndex::new`] and of [`Snapshot::check`].
    pub fn on(rows: &Snapshot, partition: Partition) -> Result<Self> {
        Self::sorted(Table::of(rows)?, partition)
    }

    fn stored(set: EmbeddingSet, partition: Partition, store: Store) -> Result<Self> {
        Self::sorted(Table::new(set, store)?, partition)
    }

    fn sorted(mut table: Table, partition: Partition) -> Result<Self> {
        if table.scan.is_none() {
            // The cell bounds depend on the geometry, so an unknown space cannot have cells.
            let expected = "the sphere, flat space, a hyperboloid or a product of hyperboloids";
            return Err(Error::invalid("the space of an index with cells", &table.spec, expected));
        }
        let count = match partition.cells {
            0 => table.len().isqrt(),
            cells => cells.min(table.len()),
        };
        let centres = means::centres(&table, count, partition.rounds, partition.seed)?;
        let cell_of = means::nearest(&table, &(0..table.len() as u32).collect::<Vec<u32>>(), &centres)?;
        let mut order: Vec<u32> = (0..table.len() as u32).collect();
        order.sort_by_key(|row| (cell_of[*row as usize], *row));
        let mut places = vec![0; order.len()];
        order.iter().enumerate().for_each(|(place, row)| places[*row as usize] = place as u32);
        let first = |cell: usize| order.partition_point(|row| (cell_of[*row as usize] as usize) < cell);
        let cells: Vec<Range<usize>> = (0..count).map(|cell| first(cell)..first(cell + 1)).collect();
        table.arrange(&order);
        let balls = Balls::new(&table, &centres, &cells)?;
        let discs = balls.discs(&centres);
        let starts = std::iter::once(0).chain(cells.iter().map(|cell| cell.end)).collect();
        let all = Kept { places: (0..order.len() as u32).collect(), starts };
        Ok(CellIndex { table, order, places, cells, balls, discs, all, seed: partition.seed })
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
    ) -> Result<Vec<Found>> {
        ranking.check()?;
        let queries: Vec<&[f32]> = query.checked(self.space())?.collect();
        let passing;
        let kept = match filter {
            Filter::All => &self.all,
            _ => {
                passing = Kept::new(self, filter)?;
                &passing
            }
        };
        let k = k.min(kept.places.len());
        if k == 0 {
            return Ok(vec![Found { hits: Vec::new(), visited: 0 }; queries.len()]);
        }
        let some = |points: &[&[f32]]| -> Vec<Option<Found>> {
            let dots = self.dots(points, ranking);
            let dots = dots.as_ref();
            let one = |(i, point): (usize, &&[f32])| {
                self.top_k_of_one(point, dots.map(|dots| (dots, i)), ranking, k, kept, effort)
            };
            points.iter().enumerate().map(one).collect()
        };
        let found: Vec<Option<Found>> = queries.par_chunks(TOGETHER).flat_map_iter(some).collect();
        // Queries for which the cells exclude too few rows share one scan of all rows, which is cheaper than a visit
        // each.
        let pairs = queries.iter().zip(&found);
        let rest: Vec<&[f32]> = pairs.filter(|(_, found)| found.is_none()).map(|(point, _)| *point).collect();
        let number = |place: u32| self.order[place as usize] as usize;
        let mut rest = self.table.best_of(&rest, ranking, k, &kept.places, number).into_iter();
        let mut of_all = || Found { hits: rest.next().unwrap_or_default(), visited: kept.places.len() };
        Ok(found.into_iter().map(|found| found.unwrap_or_else(&mut of_all)).collect())
    }

    /// Dot products of points with the centres; `None` if the bounds of this ranking do not use them.
    fn dots(&self, points: &[&[f32]], ranking: Ranking) -> Option<Dots> {
        self.discs.as_ref().filter(|discs| discs.bounds(ranking)).map(|discs| discs.dots(points))
    }

    /// The cells that may hold a result, in no particular order.
    fn candidates(
        &self,
        asked: &Asked,
        dots: Option<(&Dots, usize)>,
        ranking: Ranking,
        view: &View<'_>,
        kept: &Kept,
    ) -> Vec<Candidate> {
        let filled = (0..self.cells.len()).filter(|cell| !kept.of(*cell).is_empty());
        if let (Some(discs), Some((dots, query))) = (&self.discs, dots) {
            let offers = discs.offers(asked, dots, query, ranking, filled);
            let candidate = |offer: Offer| Candidate {
                cell: offer.cell as usize,
                order: offer.order,
                floor: view.floor(offer.floor),
                rough: true,
            };
            return offers.into_iter().map(candidate).collect();
        }
        let candidate = |cell: usize| {
            let promise = self.balls.promise(asked, cell, ranking);
            let floor = view.floor(Floor::Score(promise.floor));
            promise.passes(ranking).then_some(Candidate { cell, order: promise.order, floor, rough: false })
        };
        filled.filter_map(candidate).collect()
    }

    /// Returns `None` if the search would visit more than [`WORTH`] of the rows.
    fn top_k_of_one(
        &self,
        point: &[f32],
        dots: Option<(&Dots, usize)>,
        ranking: Ranking,
        k: usize,
        kept: &Kept,
        effort: Effort,
    ) -> Option<Found> {
        let queries = [point];
        let view = self.table.view(&queries, ranking);
        let mut looker = view.looker(k);
        let asked = self.balls.asked(point);
        let mut first = self.candidates(&asked, dots, ranking, &view, kept);
        let most = match effort {
            Effort::Exact => usize::MAX,
            Effort::Cells(most) => most,
        };
        let mut rest = Candidate::behind(&mut first, FIRST.min(most));
        drop(Candidate::behind(&mut rest, most.saturating_sub(first.len())));
        first.sort_unstable_by(Candidate::compare);
        let mut visited = 0;
        let mut visit = |looker: &mut Looker<'_>, candidate: &Candidate| {
            let open = |floor: f32| floor <= looker.threshold(0);
            if !open(candidate.floor) {
                return;
            }
            if candidate.rough {
                // The floor is loose. Compute the tight one before visiting the rows.
                let promise = self.balls.promise(&asked, candidate.cell, ranking);
                if !promise.passes(ranking) || !open(view.floor(Floor::Score(promise.floor))) {
                    return;
                }
            }
            looker.look(kept.of(candidate.cell));
            visited += kept.of(candidate.cell).len();
        };
        first.iter().for_each(|candidate| visit(&mut looker, candidate));
        rest.retain(|candidate| candidate.floor <= looker.threshold(0));
        rest.sort_unstable_by(Candidate::compare);
        let mut judged = false;
        for (i, candidate) in rest.iter().enumerate() {
            if !judged && looker.threshold(0) < f32::INFINITY {
                // The first rows give a threshold. Estimate from it whether visiting the remaining cells is worth it.
                let open = rest[i..].iter().filter(|other| other.floor <= looker.threshold(0));
                let rows: usize = open.map(|other| kept.of(other.cell).len()).sum();
                if rows as f64 > WORTH * kept.places.len() as f64 {
                    return None;
                }
                judged = true;
            }
            visit(&mut looker, candidate);
        }
        let rows = looker.selections.swap_remove(0).into_rows();
        let number = |place: u32| self.order[place as usize] as usize;
        Some(Found { hits: self.table.exact(point, ranking, k, rows, number), visited })
    }
}

/// A cell that may hold a result.
struct Candidate {
    cell: usize,
    /// Visiting order, smallest first.
    order: f64,
    /// Lower bound on the keys of the rows.
    floor: f32,
    /// True if [`Balls::promise`] gives a tighter floor.
    rough: bool,
}

impl Candidate {
    fn compare(a: &Candidate, b: &Candidate) -> Ordering {
        a.order.total_cmp(&b.order).then(a.cell.cmp(&b.cell))
    }

    /// Keeps the first `count` of `candidates` and returns the others, both in no particular order.
    fn behind(candidates: &mut Vec<Candidate>, count: usize) -> Vec<Candidate> {
        if candidates.len() <= count {
            return Vec::new();
        }
        candidates.select_nth_unstable_by(count, Candidate::compare);
        candidates.split_off(count)
    }
}

/// Table positions of the rows that pass a filter, grouped by cell.
struct Kept {
    places: Vec<u32>,
    /// Offset of each cell in `places`, and the total at the end.
    starts: Vec<usize>,
}

impl Kept {
    fn new(index: &CellIndex, filter: &Filter<'_>) -> Result<Self> {
        let bitmap = filter.bitmap(&index.table, &|row| index.places[row] as usize)?;
        let (mut places, mut starts) = (Vec::new(), vec![0]);
        for cell in &index.cells {
            let passing = cell.clone().filter(|place| bitmap.contains(index.order[*place] as usize));
            places.extend(passing.map(|place| place as u32));
            starts.push(places.len());
        }
        Ok(Kept { places, starts })
    }

    fn of(&self, cell: usize) -> &[u32] {
        &self.places[self.starts[cell]..self.starts[cell + 1]]
    }
}

#[cfg(test)]
mod tests;
