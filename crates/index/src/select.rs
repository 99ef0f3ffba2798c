//! Selection of the k best of many rows whose scores are only known to lie in intervals.

use std::collections::BinaryHeap;

/// An interval that contains the key of a row. Smaller keys are better.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bounds {
    pub(crate) low: f32,
    pub(crate) high: f32,
}

impl Bounds {
    /// No information: the row must be scored exactly.
    pub(crate) const UNKNOWN: Bounds = Bounds { low: f32::NEG_INFINITY, high: f32::INFINITY };

    /// An interval of a single key.
    pub(crate) fn exactly(key: f32) -> Self {
        Bounds { low: key, high: key }.or_unknown()
    }

    /// The interval, or [`Bounds::UNKNOWN`] if one of its ends is NaN.
    pub(crate) fn or_unknown(self) -> Self {
        if self.low.is_nan() || self.high.is_nan() { Bounds::UNKNOWN } else { self }
    }
}

/// Collects every row that may be among the k best: the rows whose lower bound is at most the k-th smallest upper
/// bound. That set does not depend on the order of the rows or on how they were split over threads.
pub(crate) struct Selection {
    k: usize,
    /// The k smallest upper bounds so far, with the largest on top.
    highs: BinaryHeap<OrderedF32>,
    candidates: Vec<(f32, u32)>,
    /// Number of candidates at which [`Selection::prune`] runs next.
    prune_at: usize,
}

impl Selection {
    pub(crate) fn new(k: usize) -> Self {
        Selection { k, highs: BinaryHeap::new(), candidates: Vec::new(), prune_at: 4 * k + 256 }
    }

    pub(crate) fn push(&mut self, row: u32, bounds: Bounds) {
        if bounds.low > self.threshold() {
            return;
        }
        self.candidates.push((bounds.low, row));
        self.push_high(OrderedF32(bounds.high));
        if self.candidates.len() >= self.prune_at {
            self.prune();
            self.prune_at = 2 * self.candidates.len() + self.k + 256;
        }
    }

    /// Merges another selection with the same `k`.
    pub(crate) fn merge(mut self, mut other: Selection) -> Selection {
        self.candidates.append(&mut other.candidates);
        other.highs.into_iter().for_each(|high| self.push_high(high));
        self
    }

    /// The rows that may be among the k best, in no particular order.
    pub(crate) fn into_rows(mut self) -> impl Iterator<Item = u32> {
        self.prune();
        self.candidates.into_iter().map(|(_, row)| row)
    }

    /// A row with a lower bound above this is not among the k best.
    pub(crate) fn threshold(&self) -> f32 {
        match self.highs.peek() {
            Some(OrderedF32(high)) if self.highs.len() == self.k => *high,
            _ => f32::INFINITY,
        }
    }

    fn push_high(&mut self, high: OrderedF32) {
        if self.highs.len() < self.k {
            self.highs.push(high);
        } else if let Some(mut largest) = self.highs.peek_mut()
            && high < *largest
        {
            *largest = high;
        }
    }

    fn prune(&mut self) {
        let threshold = self.threshold();
        self.candidates.retain(|(low, _)| *low <= threshold);
    }
}

/// `f32` with its total order.
#[derive(Clone, Copy)]
struct OrderedF32(f32);

impl PartialEq for OrderedF32 {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for OrderedF32 {}

impl PartialOrd for OrderedF32 {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for OrderedF32 {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn around(value: f32, slack: f32) -> Bounds {
        Bounds { low: value - slack, high: value + slack }
    }

    fn rows(selection: Selection) -> Vec<u32> {
        let mut rows: Vec<u32> = selection.into_rows().collect();
        rows.sort_unstable();
        rows
    }

    /// Keys 0..6 with an error of 1.2 and k = 2: the second smallest upper bound is 2.2, and the lower bounds of rows
    /// 0, 1, 2 and 3 (1.8) are at most that.
    #[test]
    fn keeps_exactly_the_rows_that_may_be_best() {
        let mut selection = Selection::new(2);
        for row in [5, 3, 0, 4, 1, 2] {
            selection.push(row, around(row as f32, 1.2));
        }
        assert_eq!(rows(selection), [0, 1, 2, 3]);
    }

    /// 10,000 exact keys in a scrambled order with many ties, in one selection and in three.
    #[test]
    fn split_and_order_change_nothing() {
        let key = |row: u32| (row * 7919 % 1000) as f32;
        let mut whole = Selection::new(25);
        let mut parts = [0, 1, 2].map(|_| Selection::new(25));
        for row in 0..10_000 {
            whole.push(row, Bounds::exactly(key(row)));
            let row = 9_999 - row;
            parts[row as usize % 3].push(row, Bounds::exactly(key(row)));
        }
        let merged = parts.into_iter().reduce(Selection::merge).map(rows);
        let expected: Vec<u32> = (0..10_000).filter(|row| key(*row) <= 2.0).collect();
        assert_eq!(expected.len(), 30, "ten rows for each of 0, 1, 2: the 25th is a 2");
        assert_eq!(rows(whole), expected);
        assert_eq!(merged, Some(expected));
    }

    #[test]
    fn fewer_rows_than_k_are_all_kept() {
        let mut selection = Selection::new(10);
        selection.push(3, around(f32::MAX, 1.0));
        selection.push(1, around(-1.0, 0.5));
        assert_eq!(rows(selection), [1, 3]);
    }
}
