//! k-means in the geometry of the space.

use std::borrow::Cow;

use conifer_geometry::random::SplitMix;
use rayon::prelude::*;

use crate::error::Result;
use crate::query::Ranking;
use crate::table::{GROUP, SearchTable};

/// Sample rows per cell for k-means.
const SAMPLED_ROWS: usize = 64;

/// Computes `count` centres of the rows of a table, row major.
///
/// Runs Lloyd's algorithm on a sample. Every row joins its nearest centre ([`Ranking::Distance`], ties to the first),
/// and every centre moves to the centroid of its rows. A centre without rows stays. Sums run in row order, so the
/// result does not depend on the threads.
pub(super) fn centres(table: &SearchTable, count: usize, rounds: usize, seed: u64) -> Result<Vec<f32>> {
    let dim = table.spec.dim;
    let sample = sample(table.len(), (SAMPLED_ROWS * count).min(table.len()), seed);
    let mut centres: Vec<f32> = sample.iter().take(count).flat_map(|row| table.row(*row as usize).to_vec()).collect();
    let mut sorted = sample;
    sorted.sort_unstable();
    for _ in 0..rounds {
        let cell_of = nearest(table, &sorted, &centres)?;
        let mut members = vec![Vec::new(); count];
        sorted.iter().zip(cell_of).for_each(|(row, cell)| members[cell as usize].push(*row));
        centres.par_chunks_mut(dim.max(1)).zip(&members).for_each(|(centre, members)| {
            if !members.is_empty() {
                centroid(table, members, centre);
            }
        });
    }
    Ok(centres)
}

/// Draws `count` of `rows` rows without replacement, in the order of the draws.
pub(super) fn sample(rows: usize, count: usize, seed: u64) -> Vec<u32> {
    let mut random = SplitMix::new(seed);
    let mut all: Vec<u32> = (0..rows as u32).collect();
    for i in 0..count {
        let left = (rows - i) as f64;
        all.swap(i, i + ((random.uniform() * left) as usize).min(rows - i - 1));
    }
    all.truncate(count);
    all
}

pub(super) fn nearest(table: &SearchTable, rows: &[u32], centres: &[f32]) -> Result<Vec<u32>> {
    let centres = SearchTable::of_points(&table.spec, &table.root, centres)?;
    let numbers: Vec<u32> = (0..centres.len() as u32).collect();
    let groups = rows.par_chunks(GROUP).map(|rows| {
        let points: Vec<_> = rows.iter().map(|row| table.row(*row as usize)).collect();
        let queries: Vec<&[f32]> = points.iter().map(|point| &**point).collect();
        let prepared = centres.prepare(&queries, Ranking::Distance);
        let mut scanner = prepared.scanner(1);
        scanner.scan(&numbers);
        let pairs = queries.iter().zip(scanner.selections);
        let nearest = pairs.map(|(query, selection)| {
            let best = centres.exact(query, Ranking::Distance, 1, selection.into_rows(), |row| row as usize);
            best.first().map_or(0, |hit| hit.row as u32)
        });
        nearest.collect::<Vec<u32>>()
    });
    Ok(groups.collect::<Vec<_>>().concat())
}

fn centroid(table: &SearchTable, rows: &[u32], out: &mut [f32]) {
    let points: Vec<Cow<'_, [f32]>> = rows.iter().map(|row| table.row(*row as usize)).collect();
    let points: Vec<&[f32]> = points.iter().map(|point| &**point).collect();
    table.space.centroid(&points, out);
}

impl SearchTable {
    /// Moves the row at `order[i]` to position `i`.
    pub(super) fn arrange(&mut self, order: &[u32]) {
        self.modality = order.iter().map(|row| self.modality[*row as usize]).collect();
        self.rows.arrange(self.spec.dim, order);
        self.rescan();
    }
}
