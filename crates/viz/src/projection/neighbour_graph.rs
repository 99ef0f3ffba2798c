//! The fuzzy neighbour graph of UMAP (McInnes, Healy, Melville 2018, arXiv 1802.03426, Algorithms 2 and 3).
//!
//! Row `i` with the ascending distances `d_1 .. d_n` to its neighbours has `rho_i`, the least positive distance, and
//! `sigma_i` such that `sum_j exp(-max(0, d_j - rho_i) / sigma_i) = log2(n + 1)`. The row itself counts as a neighbour,
//! as in umap-learn, hence `n + 1`. The membership of an edge is `m_ij = exp(-max(0, d_ij - rho_i) / sigma_i)`, and its
//! weight in both directions is the probabilistic union `m_ij + m_ji - m_ij m_ji`.

use conifer_geometry::safe::projection::{SCALE_SETTLED, SHORT_SCALE};
use rayon::prelude::*;

use crate::{Error, Result};

/// Maximum number of steps of the search for `sigma`, which doubles or halves. 200 exhaust the exponent and the digits
/// of a double.
const HALVINGS: usize = 200;

/// The nearest rows of each row, nearest first, without the row itself.
#[derive(Clone, Debug)]
pub struct NeighbourTable {
    count: usize,
    rows: Vec<u32>,
    distances: Vec<f64>,
}

impl NeighbourTable {
    /// A table `[N, count]` of row numbers and of distances.
    ///
    /// # Errors
    /// The lists differ in length or are not a positive multiple of `count`; `count` is not less than the number of
    /// rows; a row is its own neighbour or does not exist; a distance is negative, not finite, or less than the one
    /// before.
    pub fn new(count: usize, rows: Vec<u32>, distances: Vec<f64>) -> Result<Self> {
        if count == 0 || rows.is_empty() || !rows.len().is_multiple_of(count) || rows.len() != distances.len() {
            let found = format!("{} rows and {} distances", rows.len(), distances.len());
            return Err(Error::invalid("neighbours", found, format!("two lists of N x {count} numbers, N > 0")));
        }
        let len = rows.len() / count;
        if count >= len {
            return Err(Error::invalid("number of neighbours", count, format!("at most {}, the other rows", len - 1)));
        }
        for (i, (near, far)) in rows.chunks_exact(count).zip(distances.chunks_exact(count)).enumerate() {
            let place = || format!("neighbours of row {i}");
            if let Some(bad) = near.iter().find(|j| **j as usize >= len || **j as usize == i) {
                return Err(Error::invalid(place(), bad, format!("other rows below {len}")));
            }
            if let Some(bad) = out_of_order(far) {
                return Err(Error::invalid(place(), bad, "finite ascending distances, zero or positive"));
            }
        }
        Ok(NeighbourTable { count, rows, distances })
    }

    /// Number of rows N.
    pub fn len(&self) -> usize {
        self.rows.len() / self.count
    }

    /// Returns true if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Number of neighbours of each row.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The neighbours of row `i`, nearest first.
    pub fn of(&self, i: usize) -> &[u32] {
        &self.rows[i * self.count..(i + 1) * self.count]
    }

    /// The distances of [`NeighbourTable::of`].
    pub fn distances(&self, i: usize) -> &[f64] {
        &self.distances[i * self.count..(i + 1) * self.count]
    }
}

/// A symmetric graph of weighted edges; the neighbours of each row are sorted by number.
#[derive(Clone, Debug)]
pub struct FuzzyGraph {
    starts: Vec<usize>,
    ends: Vec<u32>,
    weights: Vec<f64>,
}

impl FuzzyGraph {
    /// The fuzzy union of the neighbourhoods of all rows.
    pub fn new(neighbours: &NeighbourTable) -> Self {
        let len = neighbours.len();
        let least_of_all = SHORT_SCALE * mean_with_self(&neighbours.distances, neighbours.count);
        let directed: Vec<Vec<f64>> =
            (0..len).into_par_iter().map(|i| memberships(neighbours.distances(i), least_of_all)).collect();
        // For each row: the other end of an edge, and its membership from this end and from the other.
        let mut edges: Vec<Vec<(u32, f64, f64)>> = vec![Vec::new(); len];
        for (i, own) in directed.iter().enumerate() {
            for (j, m) in neighbours.of(i).iter().zip(own) {
                edges[i].push((*j, *m, 0.0));
                edges[*j as usize].push((i as u32, 0.0, *m));
            }
        }
        edges.par_iter_mut().for_each(|edges| {
            edges.sort_by_key(|it| it.0);
            edges.dedup_by(|second, first| {
                let is_same = second.0 == first.0;
                if is_same {
                    (first.1, first.2) = (first.1.max(second.1), first.2.max(second.2));
                }
                is_same
            });
        });
        let mut graph = FuzzyGraph { starts: vec![0], ends: Vec::new(), weights: Vec::new() };
        for edges in edges {
            for (end, there, back) in edges {
                graph.ends.push(end);
                graph.weights.push(there + back - there * back);
            }
            graph.starts.push(graph.ends.len());
        }
        graph
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Returns true if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The edges of row `i`: the other row and the weight, 0 to 1.
    pub fn edges(&self, i: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
        let range = self.starts[i]..self.starts[i + 1];
        self.ends[range.clone()].iter().map(|j| *j as usize).zip(self.weights[range].iter().copied())
    }

    /// The largest weight; zero without edges.
    pub fn largest_weight(&self) -> f64 {
        self.weights.iter().copied().fold(0.0, f64::max)
    }
}

/// The first distance that is not finite, negative or less than the one before.
pub(super) fn out_of_order(distances: &[f64]) -> Option<f64> {
    let mut before = 0.0;
    distances.iter().copied().find(|d| {
        let is_right = d.is_finite() && *d >= before;
        before = *d;
        !is_right
    })
}

/// Memberships of the neighbours of a row at ascending distances. `least_of_all` is the least `sigma` of a row that
/// coincides with all its neighbours.
pub(super) fn memberships(distances: &[f64], least_of_all: f64) -> Vec<f64> {
    let rho = distances.iter().copied().find(|d| *d > 0.0).unwrap_or(0.0);
    let sum = |sigma: f64| distances.iter().map(|d| (-(d - rho).max(0.0) / sigma).exp()).sum::<f64>();
    let wanted = ((distances.len() + 1) as f64).log2();
    let (mut low, mut high) = (0.0, f64::INFINITY);
    let mut sigma = 1.0;
    for _ in 0..HALVINGS {
        let found = sum(sigma);
        if (found - wanted).abs() < SCALE_SETTLED {
            break;
        }
        if found > wanted {
            high = sigma
        } else {
            low = sigma
        }
        sigma = if high.is_finite() { (low + high) / 2.0 } else { 2.0 * sigma };
    }
    // Ties at `rho` alone can exceed the wanted sum; sigma then falls to this least value (umap-learn).
    let least = if rho > 0.0 { SHORT_SCALE * mean_with_self(distances, distances.len()) } else { least_of_all };
    let sigma = sigma.max(least);
    let of = |d: &f64| if *d <= rho || sigma == 0.0 { 1.0 } else { (-(d - rho) / sigma).exp() };
    distances.iter().map(of).collect()
}

/// Mean of the distances, where each row also has the distance zero to itself.
fn mean_with_self(distances: &[f64], count: usize) -> f64 {
    let rows = distances.len() / count;
    distances.iter().sum::<f64>() / (rows * (count + 1)) as f64
}
