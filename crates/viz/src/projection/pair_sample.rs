use conifer_geometry::random::SplitMix;
use rayon::prelude::*;

use super::ProjectionQuality;

/// The rows `row .. row + count` and their partners `partner .. partner + count`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PairRun {
    pub(super) row: usize,
    pub(super) partner: usize,
    pub(super) count: usize,
}

/// The pairs of rows over which pairwise distances are averaged: all pairs, or a sample in which each row has the same
/// number of partners.
///
/// The sample pairs row `i` with `(i + o) mod N` for random offsets `o`. So it needs no table of pairs, and the
/// partners of one row are found without those of the other rows.
#[derive(Clone, Debug)]
pub struct PairSample {
    len: usize,
    /// Offsets of the partners, in both directions; `None` for all pairs.
    offsets: Option<Vec<usize>>,
}

impl PairSample {
    /// All pairs of `len` rows if they are at most `limit`. Otherwise a sample of at most `limit` pairs, or of `len`
    /// pairs if `limit` is less.
    pub fn new(len: usize, limit: usize, seed: u64) -> Self {
        if len.saturating_mul(len.saturating_sub(1)) / 2 <= limit {
            return PairSample { len, offsets: None };
        }
        // Offsets from 1 to below N / 2 name each unordered pair once.
        let (half, count) = ((len - 1) / 2, (limit / len).max(1));
        let mut random = SplitMix::new(seed);
        let mut offsets: Vec<usize> = (1..=half).collect();
        for at in 0..count.min(half) {
            let other = at + ((random.uniform() * (half - at) as f64) as usize).min(half - at - 1);
            offsets.swap(at, other);
        }
        offsets.truncate(count);
        let back: Vec<usize> = offsets.iter().map(|offset| len - offset).collect();
        offsets.extend(back);
        PairSample { len, offsets: Some(offsets) }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.len
    }

    /// Number of unordered pairs.
    pub fn count(&self) -> usize {
        self.len * self.partner_count() / 2
    }

    /// Calls `each` with every partner of row `i`. If `j` is a partner of `i`, then `i` is a partner of `j`.
    pub fn partners(&self, i: usize, mut each: impl FnMut(usize)) {
        match &self.offsets {
            None => (0..self.len).filter(|j| *j != i).for_each(each),
            Some(offsets) => offsets.iter().for_each(|offset| {
                let j = i + offset;
                each(if j < self.len { j } else { j - self.len });
            }),
        }
    }

    /// The partners of `count` consecutive rows from `first` on, as runs of consecutive rows. Each row has its partners
    /// in the same order, whatever the block.
    pub(super) fn runs(&self, first: usize, count: usize) -> Vec<PairRun> {
        let mut runs = Vec::new();
        let mut add = |offset: usize| {
            // Rows beyond the last one wrap around to the start.
            let start = (first + offset) % self.len;
            let before = count.min(self.len - start);
            runs.push(PairRun { row: first, partner: start, count: before });
            if before < count {
                runs.push(PairRun { row: first + before, partner: 0, count: count - before });
            }
        };
        match &self.offsets {
            None => (1..self.len).for_each(&mut add),
            Some(offsets) => offsets.iter().copied().for_each(&mut add),
        }
        runs
    }

    /// The factor that turns a sum over ordered pairs into the mean over `N^2` pairs, of which the N pairs of a row
    /// with itself count as zero.
    pub fn weight(&self) -> f64 {
        match self.count() {
            0 => 0.0,
            pairs => (self.len - 1) as f64 / self.len as f64 / (2 * pairs) as f64,
        }
    }

    /// Compares the distances `after` a projection with those `before` it.
    pub fn quality(
        &self,
        before: impl Fn(usize, usize) -> f64 + Sync,
        after: impl Fn(usize, usize) -> f64 + Sync,
    ) -> ProjectionQuality {
        let of_row = |i: usize| {
            let mut sums = [0.0; 4]; // squares before, squares after, relative errors, their number
            self.later_partners(i, |j| {
                let (d, e) = (before(i, j), after(i, j));
                sums[0] += d * d;
                sums[1] += e * e;
                if d > 0.0 {
                    sums[2] += (e - d).abs() / d;
                    sums[3] += 1.0;
                }
            });
            sums
        };
        // Collected first and summed in order, so that the result does not depend on the number of threads.
        let rows: Vec<[f64; 4]> = (0..self.len).into_par_iter().map(of_row).collect();
        let total: [f64; 4] = rows.iter().fold([0.0; 4], |sum, row| std::array::from_fn(|at| sum[at] + row[at]));
        let (total_variance, variance) = (2.0 * total[0] * self.weight(), 2.0 * total[1] * self.weight());
        ProjectionQuality {
            variance,
            total_variance,
            explained: (total_variance > 0.0).then(|| variance / total_variance),
            distortion: (total[3] > 0.0).then(|| total[2] / total[3]),
            pairs: self.count(),
        }
    }

    /// As [`PairSample::partners`], but each unordered pair occurs for one of its rows only.
    fn later_partners(&self, i: usize, mut each: impl FnMut(usize)) {
        match &self.offsets {
            None => (i + 1..self.len).for_each(each),
            // The second half of the offsets leads back.
            Some(offsets) => offsets[..offsets.len() / 2].iter().for_each(|offset| each((i + offset) % self.len)),
        }
    }

    fn partner_count(&self) -> usize {
        self.offsets.as_ref().map_or(self.len.saturating_sub(1), Vec::len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partners_are_mutual_and_distinct() {
        for (len, limit) in [(1, 10), (2, 10), (7, 100), (100, 300), (101, 1), (50, 49)] {
            let pairs = PairSample::new(len, limit, 3);
            let of: Vec<Vec<usize>> = (0..len)
                .map(|i| {
                    let mut found = Vec::new();
                    pairs.partners(i, |j| found.push(j));
                    found.sort_unstable();
                    let count = found.len();
                    found.dedup();
                    assert!(found.len() == count && !found.contains(&i), "{len} {limit}: {found:?}");
                    found
                })
                .collect();
            assert_eq!(of.iter().map(Vec::len).sum::<usize>(), 2 * pairs.count());
            let mut later = Vec::new();
            (0..len).for_each(|i| pairs.later_partners(i, |j| later.push((i.min(j), i.max(j)))));
            later.sort_unstable();
            later.dedup();
            assert_eq!(later.len(), pairs.count(), "{len} {limit}");
            assert!(later.iter().all(|(i, j)| of[*i].contains(j)), "{len} {limit}");
            for (first, count) in [(0, len), (len / 3, len / 2), (len - 1, 1)] {
                let mut found = vec![Vec::new(); count];
                for PairRun { row, partner, count } in pairs.runs(first, count) {
                    (0..count).for_each(|at| found[row + at - first].push(partner + at));
                }
                for (at, mut found) in found.into_iter().enumerate() {
                    found.sort_unstable();
                    assert_eq!(found, of[first + at], "{len} {limit}: block {first} {count}");
                }
            }
            for i in 0..len {
                assert!(of[i].iter().all(|j| of[*j].contains(&i)), "{len} {limit}: {i}");
            }
        }
        assert_eq!(PairSample::new(7, 100, 0).count(), 21);
        assert_eq!(PairSample::new(100, 300, 0).count(), 300);
    }
}
