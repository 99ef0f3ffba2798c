//! The nearest rows of all rows, and UMAP of them.

use anyhow::ensure;
use conifer_embeddings::{EmbeddingSet, Modality, Provenance};
use conifer_geometry::{ManifoldSpec, Root};
use conifer_index::{CellIndex, Effort, Filter, FlatIndex, Hit, Partition, Query, Ranking, Snapshot};
use conifer_viz::projection::{
    FitState, HyperbolicRows, NeighbourTable, Umap, UmapSettings, UmapTarget, tangent_positions,
};

use super::part_of;
use super::unfinished::UnfinishedMap;
use crate::arguments::{ProjectArgs, UmapTargetArg};

/// Number of rows searched in one call. Larger batches are not faster.
const BATCH: usize = 1024;
/// Number of rows from which an index of cells is worth its construction.
const CELLS_FROM: usize = 20_000;

/// A set of the projected rows, or of one factor of them.
pub(crate) struct ProjectedPart {
    set: EmbeddingSet,
}

/// An index for exact search: flat, or with cells.
enum NeighbourIndex {
    Flat(Box<FlatIndex>),
    Cells(Box<CellIndex>),
}

impl ProjectedPart {
    pub(crate) fn new(set: &Snapshot, rows: &[usize], factor: Option<usize>) -> anyhow::Result<Self> {
        let (spec, root) = part_of(set, factor)?;
        let start = factor.unwrap_or(0) * spec.dim;
        let points = rows.iter().flat_map(|row| set.row(*row)[start..start + spec.dim].to_vec()).collect();
        let ids = rows.iter().map(|row| set.ids[*row].clone()).collect();
        let modality = rows.iter().map(|row| set.modality[*row]).collect();
        Ok(ProjectedPart { set: EmbeddingSet::new(spec, root, ids, modality, points, set.source.clone())? })
    }

    /// Rows at curvature -1, such as reduced ones, without ids.
    pub(super) fn of_hyperboloid(rows: &HyperbolicRows) -> anyhow::Result<Self> {
        let len = rows.len();
        let points = (0..len).flat_map(|i| rows.row(i).iter().map(|v| *v as f32)).collect();
        let ids = (0..len).map(|i| i.to_string()).collect();
        let spec = ManifoldSpec::lorentz(rows.dim(), 1.0);
        let modality = vec![Modality::Image; len];
        Ok(ProjectedPart { set: EmbeddingSet::new(spec, Root::Origin, ids, modality, points, Provenance::default())? })
    }

    /// The `count` nearest rows of a point, nearest first.
    pub(crate) fn nearest(&self, point: &[f32], count: usize) -> anyhow::Result<Vec<Hit>> {
        let query = Query::new(&self.set.spec, point);
        Ok(FlatIndex::new(&self.set)?.top_k(&query, Ranking::Distance, count, &Filter::All)?.concat())
    }

    /// The `count` nearest other rows of each row.
    pub(super) fn neighbours(&self, count: usize, unfinished: &UnfinishedMap<'_>) -> anyhow::Result<NeighbourTable> {
        let len = self.set.len();
        let dim = self.set.spec.dim;
        let list = unfinished.stage("neighbours", "neighbours", |progress| {
            let mut list = progress.restored().unwrap_or_default();
            let found = list.numbers.len();
            ensure!(
                list.integers.len() == found && found.is_multiple_of(count.max(1)) && found <= len * count,
                "unfinished neighbours: {} rows and {found} distances; expected {count} of each for up to {len} rows; use \
                 --restart to start again",
                list.integers.len()
            );
            let mut index = None;
            loop {
                let first = list.numbers.len() / count.max(1);
                if !progress.step(first, len, &|| list.clone()) {
                    return Err(conifer_viz::Error::Stopped.into());
                }
                if first >= len {
                    return Ok(list);
                }
                // Built only if rows are left.
                let index = match &mut index {
                    Some(index) => index,
                    none => none.insert(self.index()?),
                };
                let last = (first + BATCH).min(len);
                let query = Query::new(&self.set.spec, &self.set.points[first * dim..last * dim]);
                for (i, hits) in (first..last).zip(index.nearest(&query, count + 1)?) {
                    // If other rows have the same point, the row itself may not be among its hits.
                    for hit in hits.iter().filter(|hit| hit.row != i).take(count) {
                        list.integers.push(hit.row as u64);
                        list.numbers.push(f64::from(hit.score));
                    }
                }
            }
        })?;
        let FitState { integers, numbers } = list;
        // The table rejects a row that does not fit.
        let rows = integers.into_iter().map(|row| u32::try_from(row).unwrap_or(u32::MAX)).collect();
        Ok(NeighbourTable::new(count, rows, numbers)?)
    }

    fn index(&self) -> anyhow::Result<NeighbourIndex> {
        Ok(if self.set.len() < CELLS_FROM {
            NeighbourIndex::Flat(Box::new(FlatIndex::new(&self.set)?))
        } else {
            NeighbourIndex::Cells(Box::new(CellIndex::new(self.set.clone(), Partition::default())?))
        })
    }

    /// Places the rows by their geodesic neighbours.
    pub(super) fn umap(&self, args: &ProjectArgs, unfinished: &UnfinishedMap<'_>) -> anyhow::Result<Umap> {
        let len = self.set.len();
        let count = umap_neighbours(args, len)?;
        ensure!((0.0..3.0).contains(&args.min_dist), "--min-dist is {}; expected 0 to below 3", args.min_dist);
        let start = tangent_positions(&self.set.spec, &self.set.root, len, |i| self.set.row(i).into())?;
        let neighbours = self.neighbours(count - 1, unfinished)?;
        let target = match args.target {
            UmapTargetArg::Plane => UmapTarget::Plane,
            UmapTargetArg::Disc => UmapTarget::Disc,
        };
        let settings = UmapSettings { target, min_dist: args.min_dist, epochs: args.epochs, seed: args.seed };
        unfinished
            .stage("umap", "epochs", |progress| Ok(Umap::fit_resumable(&neighbours, &start, &settings, progress)?))
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
