//! Predicts the number of cells that a search must visit to reach a given recall.

use super::{CellIndex, Effort, FilteredRows, means};
use crate::error::{Error, Result};
use crate::filter::Filter;
use crate::query::{Query, Ranking};

/// Largest number of rows used as queries.
const SAMPLE: usize = 2048;

/// Recall is measured on this many best rows.
const BEST: usize = 10;

/// Number of standard errors by which the recall of the sample must exceed the requested recall.
const MARGIN: f64 = 2.0;

/// Pseudo-queries with full recall, and as many with zero recall, that are added to the sample (Agresti and Coull,
/// "Approximate is better than exact", The American Statistician 52, 1998). Without them, a sample without a miss, even
/// of one query, would predict perfect recall.
const PRIOR: f64 = 2.0;

impl CellIndex {
    /// Returns the number of cells for [`Effort::Cells`] with which a search finds at least a fraction `recall` of the
    /// ten best rows, on average over queries that are distributed like the rows. The prediction is for searches with
    /// this filter: a filter that keeps few rows needs more cells.
    ///
    /// The recall is measured on up to 2,048 rows as queries; a query row does not count as its own result. The result
    /// is the smallest number of cells whose recall is two standard errors above `recall`, after adding two queries
    /// with full and two with zero recall. If no number is enough, the result is the number of all cells that hold rows
    /// which pass the filter. The highest recall that a prediction can confirm is 0.997 with 2,048 queries, and 0.99
    /// with 512. If the queries differ from the rows (for example captions that search photos), use
    /// [`CellIndex::cells_for_like`].
    ///
    /// # Errors
    /// Fails if `recall` is not in [0, 1] or if the limit of a gate is NaN. Also fails if the filter is invalid for
    /// this index, see [`Filter`].
    pub fn cells_for(&self, ranking: Ranking, recall: f64, filter: &Filter<'_>) -> Result<usize> {
        let sample = means::sample(self.len(), SAMPLE.min(self.len()), self.seed.wrapping_add(1));
        let points: Vec<_> = sample.iter().map(|row| self.table.row(self.positions[*row as usize] as usize)).collect();
        self.forecast(&Query::new(self.spec(), &points.concat()), Some(&sample), ranking, recall, filter)
    }

    /// As [`CellIndex::cells_for`], but measures the recall on `queries` instead of rows of the set. They should be
    /// distributed like the queries of later searches. With fewer queries, the highest recall that can be confirmed is
    /// lower.
    ///
    /// # Errors
    /// Returns the errors of [`CellIndex::cells_for`] and of [`CellIndex::top_k`].
    pub fn cells_for_like(
        &self,
        queries: &Query<'_>,
        ranking: Ranking,
        recall: f64,
        filter: &Filter<'_>,
    ) -> Result<usize> {
        self.forecast(queries, None, ranking, recall, filter)
    }

    /// `own` is the row index of each query, if the queries are rows.
    fn forecast(
        &self,
        queries: &Query<'_>,
        own: Option<&[u32]>,
        ranking: Ranking,
        recall: f64,
        filter: &Filter<'_>,
    ) -> Result<usize> {
        if !(0.0..=1.0).contains(&recall) {
            return Err(Error::invalid("the recall", recall, "between 0 and 1"));
        }
        let filtered = FilteredRows::new(self, filter)?;
        let k = BEST + usize::from(own.is_some());
        let exact = self.top_k(queries, ranking, k, filter, Effort::Exact)?;
        let points: Vec<&[f32]> = queries.checked(self.space())?.collect();
        // One event per correct row: the number of cells after which a search finds the row, the index of the query,
        // and 1 / (number of correct rows of the query).
        let mut events: Vec<(usize, usize, f64)> = Vec::new();
        let mut count = 0.0;
        for (query, found) in exact.iter().enumerate() {
            let own = own.map(|own| own[query] as usize);
            let rows: Vec<usize> =
                found.hits.iter().map(|hit| hit.row).filter(|row| Some(*row) != own).take(BEST).collect();
            if rows.is_empty() {
                continue;
            }
            let rank_of = self.ranks(points[query], ranking, &filtered);
            let share = 1.0 / rows.len() as f64;
            events.extend(rows.iter().map(|row| (rank_of[self.cell_of(*row)], query, share)));
            count += 1.0;
        }
        let filled = (0..self.cells.len()).filter(|cell| !filtered.of(*cell).is_empty()).count();
        Ok(enough(events, count, recall).unwrap_or(filled))
    }

    /// For each cell, the number of cells visited up to and including it; for a cell that is never visited, the number
    /// of all visited cells.
    fn ranks(&self, point: &[f32], ranking: Ranking, filtered: &FilteredRows) -> Vec<usize> {
        let queries = [point];
        let prepared = self.table.prepare(&queries, ranking);
        let dots = self.dots(&queries, ranking);
        let mut cells = self.candidates(
            point,
            self.tight(point).as_ref(),
            dots.as_ref().map(|it| (it, 0)),
            ranking,
            &prepared,
            filtered,
        );
        cells.sort_unstable_by(super::Candidate::compare);
        let mut ranks = vec![cells.len(); self.cells.len()];
        cells.iter().enumerate().for_each(|(rank, candidate)| ranks[candidate.cell] = rank + 1);
        ranks
    }

    fn cell_of(&self, row: usize) -> usize {
        let position = self.positions[row] as usize;
        self.cells.partition_point(|cell| cell.end <= position)
    }
}

/// The smallest number of cells at which the mean recall of `count` queries, less the margin, reaches `recall`; `None`
/// if there is none.
fn enough(mut events: Vec<(usize, usize, f64)>, count: f64, recall: f64) -> Option<usize> {
    if recall == 0.0 {
        return Some(0);
    }
    let count = count + 2.0 * PRIOR;
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
        let mean = (sum + PRIOR) / count;
        let variance = ((squares + PRIOR) / count - mean * mean).max(0.0);
        if mean - MARGIN * (variance / (count - 1.0)).sqrt() >= recall {
            return Some(*cells);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of 1,000 queries with ten correct rows each, 999 find all of them in their first cell. One query finds half of
    /// them there and the rest in its seventh cell. With four pseudo-queries, of which two have full recall, the mean
    /// after the first cell is 1001.5 / 1004 = 0.99751. The variance is 1001.25 / 1004 less the squared mean =
    /// 0.00224, two standard errors are 0.00299, and the bound is 0.99452. After the seventh cell the bound is 1002 /
    /// 1004 - 2 sqrt(0.001988 / 1003) = 0.99519.
    #[test]
    fn forecast_by_hand() {
        let events: Vec<(usize, usize, f64)> =
            (0..10_000).map(|i| (if i / 10 == 7 && i % 10 >= 5 { 7 } else { 1 }, i / 10, 0.1)).collect();
        assert_eq!(enough(events.clone(), 1000.0, 0.98), Some(1));
        assert_eq!(enough(events.clone(), 1000.0, 0.9945), Some(1));
        assert_eq!(enough(events.clone(), 1000.0, 0.9946), Some(7));
        assert_eq!(enough(events.clone(), 1000.0, 0.9951), Some(7));
        assert_eq!(enough(events.clone(), 1000.0, 0.9953), None);
        assert_eq!(enough(events, 1000.0, 0.0), Some(0));
        assert_eq!(enough(Vec::new(), 0.0, 0.9), None);
    }

    #[test]
    fn few_queries_prove_only_a_low_recall() {
        let events = |queries: usize| (0..queries).map(|query| (1, query, 1.0)).collect::<Vec<_>>();
        assert_eq!(enough(events(1), 1.0, 0.5), None);
        assert_eq!(enough(events(20), 20.0, 0.9), None);
        assert_eq!(enough(events(512), 512.0, 0.99), Some(1));
        assert_eq!(enough(events(512), 512.0, 0.995), None);
    }

    /// Counts over 4,000 samples how often the prediction is wrong, for queries with recall 1 or 0 and a true mean
    /// recall just below the requested one. For a normally distributed estimate the rate would be 2.3 %. With so few
    /// queries of recall 0 the estimate is not normal, but the rate stays below 4 %.
    #[test]
    fn forecasts_are_seldom_wrong() {
        let mut random = conifer_geometry::random::SplitMix::new(5);
        for (queries, wanted, truth) in [(512, 0.99, 0.9899), (2048, 0.99, 0.9899), (512, 0.95, 0.949), (20, 0.9, 0.89)]
        {
            let broken = (0..4000).filter(|_| {
                let found = (0..queries).filter(|_| random.uniform() < truth);
                let events: Vec<_> = found.map(|query| (1, query, 1.0)).collect();
                enough(events, queries as f64, wanted).is_some()
            });
            let broken = broken.count();
            assert!(broken < 160, "{broken} of 4000 for {wanted} from {queries}");
        }
    }
}
