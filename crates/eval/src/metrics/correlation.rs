/// Spearman's rank correlation in `[-1, 1]`: Pearson's of the ranks, equal values sharing their mean rank.
///
/// NaN where either has no two different values. `x` and `y` are of one length.
pub fn spearman(x: &[f64], y: &[f64]) -> f64 {
    Orders::new(x, y).over(&(0..x.len()).collect::<Vec<_>>())
}

fn pearson_of_ranks(x: &[f64], y: &[f64]) -> f64 {
    let mean = (x.len() as f64 + 1.0) / 2.0;
    let sum = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>();
    sum(x, y) / (sum(x, x) * sum(y, y)).sqrt()
}

/// [`spearman`] of many draws from the same rows: values are put in order once, so that a draw needs no sorting.
pub struct Orders {
    x: Order,
    y: Order,
}

/// The place of each value among the different ones, and how many of these there are.
struct Order {
    place: Vec<usize>,
    places: usize,
}

impl Orders {
    /// `x` and `y` are of one length.
    pub fn new(x: &[f64], y: &[f64]) -> Self {
        Self { x: Order::of(x), y: Order::of(y) }
    }

    /// [`spearman`] of these rows, to the last bit.
    pub fn over(&self, rows: &[usize]) -> f64 {
        let (x, y) = (self.x.ranks(rows), self.y.ranks(rows));
        pearson_of_ranks(&x, &y)
    }
}

impl Order {
    fn of(values: &[f64]) -> Self {
        let mut order: Vec<usize> = (0..values.len()).collect();
        order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
        let (mut place, mut places) = (vec![0; values.len()], 0);
        for tied in order.chunk_by(|&a, &b| values[a] == values[b]) {
            tied.iter().for_each(|&i| place[i] = places);
            places += 1;
        }
        Self { place, places }
    }

    /// Ranks from 1 of these rows among each other, ties sharing the mean of theirs.
    fn ranks(&self, rows: &[usize]) -> Vec<f64> {
        let mut counts = vec![0usize; self.places];
        rows.iter().for_each(|&row| counts[self.place[row]] += 1);
        let mut before = 0;
        let ranks: Vec<f64> = counts
            .into_iter()
            .map(|count| {
                let rank = before as f64 + (count as f64 + 1.0) / 2.0;
                before += count;
                rank
            })
            .collect();
        rows.iter().map(|&row| ranks[self.place[row]]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_without_sorting_are_the_same() {
        let x: Vec<f64> = (0..40).map(|i| f64::from(i * 17 % 11) - 5.0).collect();
        let y: Vec<f64> = (0..40).map(|i| f64::from(i * 7 % 23) / 3.0).collect();
        let orders = Orders::new(&x, &y);
        for seed in 0..50 {
            let rows: Vec<usize> = (0..40).map(|i| (i * i * seed + seed * 3 + i) % 40).collect();
            let pick = |values: &[f64]| rows.iter().map(|&row| values[row]).collect::<Vec<_>>();
            assert_eq!(orders.over(&rows).to_bits(), spearman(&pick(&x), &pick(&y)).to_bits());
        }
        assert!(orders.over(&[3, 3]).is_nan());
    }
}
