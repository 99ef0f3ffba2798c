//! How many cells it takes for a recall.

use conifer_space::safe::bounds;

use super::{CellIndex, Effort, means};
use crate::error::{Error, Result};
use crate::filter::Filter;
use crate::query::{Query, Ranking};

/// Rows that serve as queries.
const SAMPLE: usize = 512;

/// The best rows that count.
const BEST: usize = 10;

/// How many standard errors the recall of a sample must be above what is asked for: it then holds for all queries of that kind with a
/// probability of 0.977 (normal approximation).
const MARGIN: f64 = 2.0;

impl CellIndex {
    /// The number of cells for [`Effort::Cells`] that is to find a share of at least `recall` of the ten best rows, on average over
    /// queries that are like the rows.
    ///
    /// Measured on up to 512 rows as queries, which do not count as their own answer: the smallest number whose recall on these is two
    /// standard errors above the one asked for. Where queries are unlike the rows (texts, and the rows are photos), ask
    /// [`CellIndex::cells_for_like`].
    ///
    /// # Errors
    /// A recall that is not between 0 and 1; a gate whose limit is not a number.
    pub fn cells_for(&self, ranking: Ranking, recall: f64) -> Result<usize> {
        let sample = means::sample(self.len(), SAMPLE.min(self.len()), self.seed.wrapping_add(1));
        let points: Vec<_> = sample.iter().map(|row| self.table.row(self.places[*row as usize] as usize)).collect();
        self.forecast(&Query::new(self.spec(), &points.concat()), Some(&sample), ranking, recall)
    }

    /// The same for queries like these: a few hundred, or the margin is large.
    ///
    /// # Errors
    /// Those of [`CellIndex::cells_for`] and of [`CellIndex::top_k`].
    pub fn cells_for_like(&self, queries: &Query<'_>, ranking: Ranking, recall: f64) -> Result<usize> {
        self.forecast(queries, None, ranking, recall)
    }

    /// `own` names the row that each query is.
    fn forecast(&self, queries: &Query<'_>, own: Option<&[u32]>, ranking: Ranking, recall: f64) -> Result<usize> {
        if !(0.0..=1.0).contains(&recall) {
            return Err(Error::invalid("the recall", recall, "between 0 and 1"));
        }
        let k = BEST + usize::from(own.is_some());
        let exact = self.top_k(queries, ranking, k, &Filter::All, Effort::Exact)?;
        let points: Vec<&[f32]> = queries.checked(self.space())?.collect();
        // For every answer the number of cells after which it is found, and the share of its query's answers that it is.
        let mut events: Vec<(usize, usize, f64)> = Vec::new();
        let mut count = 0.0;
        for (query, found) in exact.iter().enumerate() {
            let own = own.map(|own| own[query] as usize);
            let rows: Vec<usize> =
                found.hits.iter().map(|hit| hit.row).filter(|row| Some(*row) != own).take(BEST).collect();
            if rows.is_empty() {
                continue;
            }
            let rank_of = self.ranks(points[query], ranking);
            let share = 1.0 / rows.len() as f64;
            events.extend(rows.iter().map(|row| (rank_of[self.cell_of(*row)], query, share)));
            count += 1.0;
        }
        Ok(enough(events, count, recall))
    }

    /// After how many cells each one has been looked into.
    fn ranks(&self, point: &[f32], ranking: Ranking) -> Vec<usize> {
        let queries = [point];
        let view = self.table.view(&queries, ranking);
        let dots = self.dots(&queries, ranking);
        let mut cells =
            self.candidates(&self.balls.asked(point), dots.as_ref().map(|it| (it, 0)), ranking, &view, &self.all);
        cells.sort_unstable_by(super::Candidate::compare);
        let mut ranks = vec![cells.len(); self.cells.len()];
        cells.iter().enumerate().for_each(|(rank, candidate)| ranks[candidate.cell] = rank + 1);
        ranks
    }

    fn cell_of(&self, row: usize) -> usize {
        let place = self.places[row] as usize;
        self.cells.partition_point(|cell| cell.end <= place)
    }
}

/// The smallest number of cells at which the mean recall of `count` queries, less its margin, reaches `recall`; the largest number there is
/// where none does.
fn enough(mut events: Vec<(usize, usize, f64)>, count: f64, recall: f64) -> usize {
    if recall == 0.0 {
        return 0;
    }
    events.sort_unstable_by_key(|event| (event.0, event.1));
    let queries = events.iter().map(|event| event.1 + 1).max().unwrap_or(0);
    let mut found = vec![0.0_f64; queries];
    let (mut sum, mut squares) = (0.0, 0.0);
    for (i, (cells, query, share)) in events.iter().enumerate() {
        let before = found[*query];
        found[*query] = before + share;
        sum += share;
        squares += found[*query].powi(2) - before.powi(2);
        if events.get(i + 1).is_some_and(|next| next.0 == *cells) {
            continue;
        }
        let mean = sum / count;
        let variance = (squares / count - mean * mean).max(0.0);
        // Sums of shares like 1/3 round.
        if mean - MARGIN * (variance / count).sqrt() >= recall - bounds::CHAINED {
            return *cells;
        }
    }
    events.last().map_or(0, |event| event.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of 100 queries with ten answers each, 99 find all in their first cell and one finds half there, the rest in its seventh: the mean of
    /// the first cell is 0.995, its standard deviation sqrt(0.01 * 0.99) * 0.5 = 0.0497, the standard error 0.00497. 0.98 is reached in the
    /// first cell (0.995 - 0.00995 = 0.98505), 0.99 is not.
    #[test]
    fn a_forecast_keeps_its_margin() {
        let events: Vec<(usize, usize, f64)> =
            (0..1000).map(|i| (if i / 10 == 7 && i % 10 >= 5 { 7 } else { 1 }, i / 10, 0.1)).collect();
        assert_eq!(enough(events.clone(), 100.0, 0.98), 1);
        assert_eq!(enough(events.clone(), 100.0, 0.985), 1);
        assert_eq!(enough(events.clone(), 100.0, 0.986), 7);
        assert_eq!(enough(events.clone(), 100.0, 1.0), 7);
        assert_eq!(enough(events, 100.0, 0.0), 0);
        assert_eq!(enough(Vec::new(), 0.0, 0.9), 0);
    }
}
