//! The nearest rows of all rows, and UMAP of them.

use anyhow::ensure;
use conifer_embeddings::EmbeddingSet;
use conifer_index::{CellIndex, Effort, Filter, FlatIndex, Hit, Partition, Query, Ranking, Snapshot};
use conifer_viz::projection::{NeighbourTable, Umap, UmapSettings, UmapTarget, tangent_positions};

use super::{part_of, watched};
use crate::arguments::{ProjectArgs, UmapTargetArg};
use crate::{progress, signal};

/// Number of rows searched in one call. Larger batches are not faster.
const BATCH: usize = 1024;
/// Number of rows from which an index of cells is worth its construction.
const CELLS_FROM: usize = 20_000;

/// A set of the projected rows, or of one factor of them.
pub(super) struct ProjectedPart {
    set: EmbeddingSet,
}

/// An index for exact search: flat, or with cells.
enum NeighbourIndex {
    Flat(Box<FlatIndex>),
    Cells(Box<CellIndex>),
}

impl ProjectedPart {
    pub(super) fn new(set: &Snapshot, rows: &[usize], factor: Option<usize>) -> anyhow::Result<Self> {
        let (spec, root) = part_of(set, factor)?;
        let start = factor.unwrap_or(0) * spec.dim;
        let points = rows.iter().flat_map(|row| set.row(*row)[start..start + spec.dim].to_vec()).collect();
        let ids = rows.iter().map(|row| set.ids[*row].clone()).collect();
        let modality = rows.iter().map(|row| set.modality[*row]).collect();
        Ok(ProjectedPart { set: EmbeddingSet::new(spec, root, ids, modality, points, set.source.clone())? })
    }

    /// The `count` nearest other rows of each row. Ctrl-C stops the search.
    fn neighbours(&self, count: usize) -> anyhow::Result<NeighbourTable> {
        let len = self.set.len();
        let index = if len < CELLS_FROM {
            NeighbourIndex::Flat(Box::new(FlatIndex::new(&self.set)?))
        } else {
            NeighbourIndex::Cells(Box::new(CellIndex::new(self.set.clone(), Partition::default())?))
        };
        let (mut rows, mut distances) = (Vec::with_capacity(len * count), Vec::with_capacity(len * count));
        let stop = signal::stop_flag()?;
        let bar = progress::bar("neighbours", len);
        let dim = self.set.spec.dim;
        for first in (0..len).step_by(BATCH) {
            if stop.load(std::sync::atomic::Ordering::Relaxed) {
                return Err(conifer_viz::Error::Stopped.into());
            }
            let last = (first + BATCH).min(len);
            let query = Query::new(&self.set.spec, &self.set.points[first * dim..last * dim]);
            for (i, hits) in (first..last).zip(index.nearest(&query, count + 1)?) {
                // If other rows have the same point, the row itself may not be among its hits.
                for hit in hits.iter().filter(|hit| hit.row != i).take(count) {
                    rows.push(hit.row as u32);
                    distances.push(f64::from(hit.score));
                }
            }
            bar.set_position(last as u64);
        }
        bar.finish_and_clear();
        Ok(NeighbourTable::new(count, rows, distances)?)
    }

    /// Places the rows by their geodesic neighbours.
    pub(super) fn umap(&self, args: &ProjectArgs) -> anyhow::Result<Umap> {
        let len = self.set.len();
        let count = umap_neighbours(args, len)?;
        let start = tangent_positions(&self.set.spec, &self.set.root, len, |i| self.set.row(i).into())?;
        let neighbours = self.neighbours(count - 1)?;
        let target = match args.target {
            UmapTargetArg::Plane => UmapTarget::Plane,
            UmapTargetArg::Disc => UmapTarget::Disc,
        };
        let settings = UmapSettings { target, min_dist: args.min_dist, epochs: args.epochs, seed: args.seed };
        watched("epochs", |observer| Umap::fit(&neighbours, &start, &settings, observer))
    }
}

impl NeighbourIndex {
    fn nearest(&self, query: &Query<'_>, count: usize) -> anyhow::Result<Vec<Vec<Hit>>> {
        Ok(match self {
            NeighbourIndex::Flat(index) => index.top_k(query, Ranking::Distance, count, &Filter::All)?,
            NeighbourIndex::Cells(index) => {
                let found = index.top_k(query, Ranking::Distance, count, &Filter::All, Effort::Exact)?;
                found.into_iter().map(|it| it.hits).collect()
            }
        })
    }
}

/// Number of neighbours of UMAP, the row itself included.
pub(super) fn umap_neighbours(args: &ProjectArgs, rows: usize) -> anyhow::Result<usize> {
    // Without the option, a set of fewer than 15 rows uses all rows.
    let count = args.neighbours.unwrap_or(15.min(rows));
    ensure!(rows >= 4, "rows: {rows}; expected at least 4 for --by umap");
    ensure!((2..=rows).contains(&count), "--neighbours is {count}; expected 2 to {rows}, the number of rows");
    Ok(count)
}
