//! Exact search that looks at a part of the rows.

mod balls;
mod means;

use std::ops::Range;

use conifer_space::{EmbeddingSet, ManifoldSpec, Root, Space};
use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::filter::Filter;
use crate::query::{Hit, Query, Ranking};
use crate::store::Snapshot;
use crate::table::{Store, Table};
use balls::Balls;

/// The rows of a set in cells around centres (k-means in the geometry of the space).
///
/// What is known of a cell, its centre and its radius, bounds the score of every row in it; a cell whose bound is worse than the
/// `k` rows found so far is left out. The answer is to the bit that of [`FlatIndex`](crate::FlatIndex); how many rows it took to find
/// is reported. In many dimensions near-flat data is as far from every centre as from any other, and most cells have to be visited.
/// [`Effort::Cells`] stops after the most promising cells.
pub struct CellIndex {
    table: Table,
    /// The row of the set at every place of the table.
    order: Vec<u32>,
    /// The place of every row of the set.
    places: Vec<u32>,
    /// The places of every cell.
    cells: Vec<Range<usize>>,
    balls: Balls,
    seed: u64,
}

/// How to make cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Number of cells; 0 takes the root of the number of rows.
    pub cells: usize,
    /// Rounds of k-means, on at most 64 rows a cell.
    pub rounds: usize,
    /// Decides with which rows it begins.
    pub seed: u64,
}

/// How far to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// Until no other row can be among the best.
    Exact,
    /// In so many of the most promising cells that hold rows which pass the filter (fewer where the others are known to be worse).
    Cells(usize),
}

/// The answer to one point of a query.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The best rows, best first.
    pub hits: Vec<Hit>,
    /// Rows that were compared with the point.
    pub visited: usize,
}

/// Rows that serve as queries when cells are counted for a recall.
const SAMPLE: usize = 128;

/// The share of the rows up to which a query looks into cells by itself; all rows at once, for all queries that need them, are looked at
/// several times as fast.
const WORTH: f64 = 0.2;

impl Default for Partition {
    fn default() -> Self {
        Partition { cells: 0, rounds: 8, seed: 0 }
    }
}

impl CellIndex {
    /// Sorts the rows of a set into cells. The points are moved, not copied. The same set and partition give the same cells, whatever
    /// the number of threads.
    ///
    /// # Errors
    /// Those of [`FlatIndex::new`](crate::FlatIndex::new), and a space whose cells have no bounds here.
    pub fn new(set: EmbeddingSet, partition: Partition) -> Result<Self> {
        Self::stored(set, partition, Store::Whole)
    }

    /// The same with the points rounded to half precision, see [`FlatIndex::half`](crate::FlatIndex::half).
    ///
    /// # Errors
    /// Those of [`FlatIndex::half`](crate::FlatIndex::half).
    pub fn half(set: EmbeddingSet, partition: Partition) -> Result<Self> {
        Self::stored(set, partition, Store::Half)
    }

    /// The rows of a snapshot, sorted into cells. Points that others share, or that lie in files, are copied.
    ///
    /// # Errors
    /// Those of [`CellIndex::new`] and of [`Snapshot::check`].
    pub fn on(rows: &Snapshot, partition: Partition) -> Result<Self> {
        Self::sorted(Table::of(rows)?, partition)
    }

    fn stored(set: EmbeddingSet, partition: Partition, store: Store) -> Result<Self> {
        Self::sorted(Table::new(set, store)?, partition)
    }

    fn sorted(mut table: Table, partition: Partition) -> Result<Self> {
        if table.scan.is_none() {
            // What bounds a cell is geometry: it must be known for the space.
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
        Ok(CellIndex { table, order, places, cells, balls, seed: partition.seed })
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there are no rows.
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

    /// The root from which angles are seen.
    pub fn root(&self) -> &Root {
        &self.table.root
    }

    /// The geometry of the rows.
    pub fn space(&self) -> &dyn Space<f32> {
        self.table.space.as_ref()
    }

    /// For every point of the query, the `k` best rows that pass the filter, as [`FlatIndex::top_k`](crate::FlatIndex::top_k) orders
    /// them.
    ///
    /// # Errors
    /// Those of [`FlatIndex::top_k`](crate::FlatIndex::top_k).
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
        let kept = Kept::new(self, filter)?;
        let k = k.min(kept.places.len());
        if k == 0 {
            return Ok(vec![Found { hits: Vec::new(), visited: 0 }; queries.len()]);
        }
        let one = |point: &&[f32]| self.top_k_of_one(point, ranking, k, &kept, effort);
        let found: Vec<Option<Found>> = queries.par_iter().map(one).collect();
        // Queries for which the cells rule out too little share a look at all rows, which is cheaper than one look each.
        let pairs = queries.iter().zip(&found);
        let rest: Vec<&[f32]> = pairs.filter(|(_, found)| found.is_none()).map(|(point, _)| *point).collect();
        let number = |place: u32| self.order[place as usize] as usize;
        let mut rest = self.table.best_of(&rest, ranking, k, &kept.places, number).into_iter();
        let mut of_all = || Found { hits: rest.next().unwrap_or_default(), visited: kept.places.len() };
        Ok(found.into_iter().map(|found| found.unwrap_or_else(&mut of_all)).collect())
    }

    /// The smallest number of cells in which, on average over a sample of rows as queries, a share of at least `recall` of the ten
    /// best other rows lies: for [`Effort::Cells`]. No more than a forecast for queries that are not like the rows.
    ///
    /// # Errors
    /// A recall that is not between 0 and 1; a gate whose limit is not a number.
    pub fn cells_for(&self, ranking: Ranking, recall: f64) -> Result<usize> {
        if !(0.0..=1.0).contains(&recall) {
            return Err(Error::invalid("the recall", recall, "between 0 and 1"));
        }
        ranking.check()?;
        let kept = Kept::new(self, &Filter::All)?;
        let sample = means::sample(self.len(), SAMPLE.min(self.len()), self.seed.wrapping_add(1));
        let ranks = sample.par_iter().map(|row| {
            let point = self.table.row(self.places[*row as usize] as usize);
            let k = 11.min(self.len());
            let found = self.top_k_of_one(&point, ranking, k, &kept, Effort::Exact);
            let hits = match found {
                Some(found) => found.hits,
                None => {
                    let number = |place: u32| self.order[place as usize] as usize;
                    self.table.best_of(&[&point], ranking, k, &kept.places, number).concat()
                }
            };
            let promise = self.balls.promise(&point, ranking);
            let others = hits.iter().filter(|hit| hit.row != *row as usize).take(10);
            let rank = |hit: &Hit| {
                let place = self.places[hit.row] as usize;
                let cell = self.cells.partition_point(|cell| cell.end <= place);
                let before = |other: &usize| promise.before(*other, cell);
                (0..self.cells.len()).filter(|other| !self.cells[*other].is_empty()).filter(before).count()
            };
            others.map(rank).collect::<Vec<usize>>()
        });
        let mut ranks: Vec<usize> = ranks.flatten().collect();
        ranks.sort_unstable();
        let needed = (recall * ranks.len() as f64).ceil() as usize;
        Ok(if needed == 0 { 0 } else { ranks[needed - 1] + 1 })
    }

    /// `None` where an exact answer would take more than [`WORTH`] of the rows.
    fn top_k_of_one(&self, point: &[f32], ranking: Ranking, k: usize, kept: &Kept, effort: Effort) -> Option<Found> {
        let queries = [point];
        let view = self.table.view(&queries, ranking);
        let mut looker = view.looker(k);
        let promise = self.balls.promise(point, ranking);
        let limit = ranking.gate().map(|gate| f64::from(gate.limit()));
        let passes = |cell: &usize| promise.gate_floor(*cell).zip(limit).is_none_or(|(floor, limit)| floor <= limit);
        let filled = (0..self.cells.len()).filter(|cell| !kept.of(*cell).is_empty());
        let mut cells: Vec<(usize, f32)> =
            filled.filter(passes).map(|cell| (cell, view.floor(promise.floor(cell)))).collect();
        cells.sort_unstable_by(|(a, _), (b, _)| promise.order(*a, *b));
        if let Effort::Cells(most) = effort {
            cells.truncate(most);
        }
        let mut visited = 0;
        let mut judged = effort != Effort::Exact;
        for (i, (cell, floor)) in cells.iter().enumerate() {
            if !judged && visited >= 4 * k {
                // The first rows say how good the best ones are; is the rest worth a look of its own?
                let open = cells[i..].iter().filter(|(_, floor)| *floor <= looker.threshold(0));
                let rows: usize = open.map(|(cell, _)| kept.of(*cell).len()).sum();
                if (visited + rows) as f64 > WORTH * kept.places.len() as f64 {
                    return None;
                }
                judged = true;
            }
            if *floor <= looker.threshold(0) {
                looker.look(kept.of(*cell));
                visited += kept.of(*cell).len();
            }
        }
        let rows = looker.selections.swap_remove(0).into_rows();
        let number = |place: u32| self.order[place as usize] as usize;
        Some(Found { hits: self.table.exact(point, ranking, k, rows, number), visited })
    }
}

/// The places of the rows that pass a filter, cell by cell.
struct Kept {
    places: Vec<u32>,
    /// Where the places of each cell begin, and the end.
    starts: Vec<usize>,
}

impl Kept {
    fn new(index: &CellIndex, filter: &Filter<'_>) -> Result<Self> {
        let all = matches!(filter, Filter::All);
        let bitmap = filter.bitmap(&index.table, &|row| index.places[row] as usize)?;
        let (mut places, mut starts) = (Vec::new(), vec![0]);
        for cell in &index.cells {
            let passing = cell.clone().filter(|place| all || bitmap.contains(index.order[*place] as usize));
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
