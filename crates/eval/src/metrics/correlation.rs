/// Spearman's rank correlation in `[-1, 1]`: Pearson's correlation of the ranks, where equal values share their mean
/// rank.
///
/// NaN if `x` or `y` has fewer than two distinct values. `x` and `y` have the same length.
pub fn spearman(x: &[f64], y: &[f64]) -> f64 {
    SpearmanRanks::new(x, y).over(&(0..x.len()).collect::<Vec<_>>())
}

fn pearson_of_ranks(x: &[f64], y: &[f64]) -> f64 {
    let mean = (x.len() as f64 + 1.0) / 2.0;
    let sum = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>();
    sum(x, y) / (sum(x, x) * sum(y, y)).sqrt()
}

/// [`spearman`] for many resamples of the same rows. The values are sorted only once.
pub struct SpearmanRanks {
    x: DenseRanks,
    y: DenseRanks,
}

/// Index of each value among the distinct values in ascending order, and the number of distinct values.
struct DenseRanks {
    dense_rank: Vec<usize>,
    distinct: usize,
}

impl SpearmanRanks {
    /// Sorts the values. `x` and `y` have the same length.
    pub fn new(x: &[f64], y: &[f64]) -> Self {
        Self { x: DenseRanks::of(x), y: DenseRanks::of(y) }
    }

    /// [`spearman`] of the given rows. The result is equal to the last bit.
    pub fn over(&self, rows: &[usize]) -> f64 {
        let (x, y) = (self.x.ranks(rows), self.y.ranks(rows));
        pearson_of_ranks(&x, &y)
    }
}

impl DenseRanks {
    fn of(values: &[f64]) -> Self {
        let mut order: Vec<usize> = (0..values.len()).collect();
        order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
        let (mut dense_rank, mut distinct) = (vec![0; values.len()], 0);
        for tied in order.chunk_by(|&a, &b| values[a] == values[b]) {
            tied.iter().for_each(|&i| dense_rank[i] = distinct);
            distinct += 1;
        }
        Self { dense_rank, distinct }
    }

    /// Ranks of the given rows among each other, from 1. Ties share their mean rank.
    fn ranks(&self, rows: &[usize]) -> Vec<f64> {
        let mut counts = vec![0usize; self.distinct];
        rows.iter().for_each(|&row| counts[self.dense_rank[row]] += 1);
        let mut before = 0;
        let ranks: Vec<f64> = counts
            .into_iter()
            .map(|count| {
                let rank = before as f64 + (count as f64 + 1.0) / 2.0;
                before += count;
                rank
            })
            .collect();
        rows.iter().map(|&row| ranks[self.dense_rank[row]]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_without_sorting_are_the_same() {
        let x: Vec<f64> = (0..40).map(|i| f64::from(i * 17 % 11) - 5.0).collect();
        let y: Vec<f64> = (0..40).map(|i| f64::from(i * 7 % 23) / 3.0).collect();
        let ranks = SpearmanRanks::new(&x, &y);
        for seed in 0..50 {
            let rows: Vec<usize> = (0..40).map(|i| (i * i * seed + seed * 3 + i) % 40).collect();
            let pick = |values: &[f64]| rows.iter().map(|&row| values[row]).collect::<Vec<_>>();
            assert_eq!(ranks.over(&rows).to_bits(), spearman(&pick(&x), &pick(&y)).to_bits());
        }
        assert!(ranks.over(&[3, 3]).is_nan());
    }
}
