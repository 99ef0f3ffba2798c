//! Cases `search_*`: rankings over all rows, the cell index, and the data files of the peers. `bench/search.py` runs
//! them, next to `search_peers.py`.

use std::cell::{OnceCell, RefCell};
use std::io::Write as _;
use std::path::PathBuf;
use std::rc::Rc;

use anyhow::{Context as _, bail};
use conifer_embeddings::{EmbeddingSet, Modality, Provenance};
use conifer_geometry::{ManifoldSpec, Root, space};
use conifer_index::{CellIndex, Direction, Effort, Filter, FlatIndex, Gate, Partition, Query, Ranking};
use rayon::prelude::*;

use crate::BenchNumbers;

const DIM: usize = 512;
const ROWS: usize = 1_000_000;
/// Number of query points, which are not among the rows.
const QUERIES: usize = 256;
const BEST: usize = 10;
/// Number of children of a node of the tree.
const BRANCHES: u64 = 8;
const LEVELS: u32 = 5;

/// Rows and queries of a data set, and the indexes built from them.
struct LoadedSet {
    set: EmbeddingSet,
    queries: Vec<f32>,
    flat: OnceCell<FlatIndex>,
    half: OnceCell<FlatIndex>,
    cells: OnceCell<CellIndex>,
}

thread_local! {
    static LOADED: RefCell<Option<(String, Rc<LoadedSet>)>> = const { RefCell::new(None) };
}

/// Builds the case `DATA/RANKING/BATCH/INDEX`, `DATA/bandwidth` or `DATA/write`.
///
/// DATA is a name of [`points`], with `@ROWS` appended for another number of rows, or `set` for the folder
/// `BENCH_SEARCH_SET`. INDEX is `flat`, `half`, `exact` or `approximate`. For `exact` and `approximate`, the result is
/// the percentage of the rows that were visited, the recall of the ten best, and the maximum number of cells to visit.
/// For `flat` and `half` it is 100, 1 and the number of queries.
pub(crate) fn case(name: &str) -> anyhow::Result<BenchNumbers> {
    let parts: Vec<&str> = name.split('/').collect();
    let loaded = load(parts[0])?;
    let (ranking, batch, index) = match parts[1..] {
        ["bandwidth"] => return Ok(Box::new(move || Ok(vec![read(&loaded.set.points) as f64]))),
        ["write"] => return write(&loaded),
        [ranking, batch, index] => (ranking_of(ranking)?, batch.parse::<usize>()?, index),
        _ => bail!("unknown case `search_{name}`"),
    };
    let spec = loaded.set.spec.clone();
    let mut at = 0;
    let mut next = move || {
        let from = if at + batch > QUERIES { 0 } else { at };
        at = from + batch;
        from * spec.dim..(from + batch) * spec.dim
    };
    if matches!(index, "flat" | "half") {
        let half = index == "half";
        return Ok(Box::new(move || {
            let index = if half { loaded.half()? } else { loaded.flat()? };
            let query = Query::new(&loaded.set.spec, &loaded.queries[next()]);
            let found = index.top_k(&query, ranking, BEST, &Filter::All)?;
            Ok(vec![100.0, 1.0, found.len() as f64])
        }));
    }
    let cells = loaded.cells()?;
    let effort = match index {
        "exact" => Effort::Exact,
        "approximate" => Effort::Cells(cells.cells_for(ranking, 0.99, &Filter::All)?),
        _ => bail!("unknown index `{index}`"),
    };
    let all = Query::new(&loaded.set.spec, &loaded.queries);
    let exact = cells.top_k(&all, ranking, BEST, &Filter::All, Effort::Exact)?;
    let found = cells.top_k(&all, ranking, BEST, &Filter::All, effort)?;
    let visited = found.iter().map(|it| it.visited).sum::<usize>() as f64 / (QUERIES * cells.len()) as f64;
    let shared = found.iter().zip(&exact).map(|(found, exact)| {
        found.hits.iter().filter(|hit| exact.hits.iter().any(|other| other.row == hit.row)).count()
    });
    let recall = shared.sum::<usize>() as f64 / exact.iter().map(|it| it.hits.len()).sum::<usize>() as f64;
    let cell_limit = match effort {
        Effort::Exact => cells.cells(),
        Effort::Cells(count) => count,
    };
    let result = vec![100.0 * visited, recall, cell_limit as f64];
    Ok(Box::new(move || {
        let query = Query::new(&loaded.set.spec, &loaded.queries[next()]);
        loaded.cells()?.top_k(&query, ranking, BEST, &Filter::All, effort)?;
        Ok(result.clone())
    }))
}

impl LoadedSet {
    fn flat(&self) -> anyhow::Result<&FlatIndex> {
        built(&self.flat, || Ok(FlatIndex::new(&self.set)?))
    }

    fn half(&self) -> anyhow::Result<&FlatIndex> {
        built(&self.half, || Ok(FlatIndex::half(&self.set)?))
    }

    fn cells(&self) -> anyhow::Result<&CellIndex> {
        built(&self.cells, || {
            let start = std::time::Instant::now();
            let cells = CellIndex::new(self.set.clone(), Partition::default())?;
            let seconds = start.elapsed().as_secs_f64();
            writeln!(std::io::stderr(), "{} cells of {} rows built in {seconds:.1} s", cells.cells(), cells.len())?;
            Ok(cells)
        })
    }
}

fn built<T>(cell: &OnceCell<T>, make: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<&T> {
    if cell.get().is_none() {
        let _ = cell.set(make()?);
    }
    cell.get().context("just built")
}

fn ranking_of(name: &str) -> anyhow::Result<Ranking> {
    let gate = Gate::Angle(Direction::Down, 1.9);
    Ok(match name {
        "distance" => Ranking::Distance,
        "down" => Ranking::Angle(Direction::Down),
        "up" => Ranking::Angle(Direction::Up),
        "gated" => Ranking::Gated(gate),
        "depth" => Ranking::Depth(gate),
        _ => bail!("unknown ranking `{name}`"),
    })
}

/// Loads a data set unless it is already loaded.
fn load(name: &str) -> anyhow::Result<Rc<LoadedSet>> {
    if let Some(loaded) = LOADED.with_borrow(|it| it.as_ref().filter(|it| it.0 == name).map(|it| it.1.clone())) {
        return Ok(loaded);
    }
    let (mut set, held) = match name.split_once('@') {
        _ if name == "set" => {
            let folder = std::env::var("BENCH_SEARCH_SET")
                .context("BENCH_SEARCH_SET is not set; expected a folder of embeddings")?;
            let set = EmbeddingSet::load(&PathBuf::from(folder))?;
            let step = set.len() / QUERIES;
            let held = (0..set.len()).map(|row| row % step == 0 && row / step < QUERIES).collect();
            (set, held)
        }
        Some((kind, rows)) => made(kind, rows.parse()?)?,
        None => made(name, ROWS)?,
    };
    let (mut rows, mut queries) = (Vec::with_capacity(set.points.len()), Vec::new());
    for (point, held) in set.points.chunks_exact(set.spec.dim).zip(held) {
        if held { queries.extend_from_slice(point) } else { rows.extend_from_slice(point) }
    }
    let count = rows.len() / set.spec.dim;
    (set.points, set.ids, set.modality) = (rows, vec![String::new(); count], vec![Modality::Text; count]);
    set.columns.clear();
    let loaded =
        Rc::new(LoadedSet { set, queries, flat: OnceCell::new(), half: OnceCell::new(), cells: OnceCell::new() });
    LOADED.set(Some((name.to_owned(), loaded.clone())));
    Ok(loaded)
}

/// Generates a set, and marks its last rows as queries.
fn made(kind: &str, rows: usize) -> anyhow::Result<(EmbeddingSet, Vec<bool>)> {
    let all = rows + QUERIES;
    let (spec, points) = points(kind, all)?;
    let set = EmbeddingSet {
        spec,
        root: Root::Origin,
        ids: vec![String::new(); all],
        modality: vec![Modality::Text; all],
        points,
        columns: Default::default(),
        source: Provenance::default(),
    };
    Ok((set, (0..all).map(|row| row >= rows).collect()))
}

/// Generates points.
///
/// * `tree5`, `tree06`: four levels of a tree with eight branches per node, and the rows below them. Each level adds a
///   direction 0.6 times as long as that of the level above. The points are on a hyperboloid at 0.8 to 1.2 times 5 or
///   0.6 from the origin.
/// * `plain06`, `plain15`: random directions without a hierarchy, at 0.8 to 1.2 times 0.6 or 1.5 from the origin.
/// * `product`: 64 factors of dimension 8 in l1, without a hierarchy.
fn points(kind: &str, rows: usize) -> anyhow::Result<(ManifoldSpec, Vec<f32>)> {
    let (spec, radius, levels) = match kind {
        "tree5" => (ManifoldSpec::lorentz(DIM, 1.0), 5.0, LEVELS),
        "tree06" => (ManifoldSpec::lorentz(DIM, 1.0), 0.6, LEVELS),
        "plain06" => (ManifoldSpec::lorentz(DIM, 1.0), 0.6, 1),
        "plain15" => (ManifoldSpec::lorentz(DIM, 1.0), 1.5, 1),
        // The tangent vector of each factor has a length of about 1.5.
        "product" => (ManifoldSpec::product_l1(64, 8, vec![1.0; 64]), 1.5 * 8.0, 1),
        _ => bail!("unknown points `{kind}`"),
    };
    let whole = space::<f32>(&spec)?;
    let mut points = vec![0.0; rows * spec.dim];
    points.par_chunks_mut(DIM).enumerate().for_each(|(row, point)| {
        let mut tangent = [0.0_f32; DIM];
        for level in 1..=levels {
            let node = match level == levels {
                true => row as u64 * 977 + 13,
                false => row as u64 % BRANCHES.pow(level) * 31 + u64::from(level) * 1_000_003,
            };
            add_direction(node, 0.6_f32.powi(level as i32), &mut tangent);
        }
        let length = tangent.iter().map(|v| v * v).sum::<f32>().sqrt();
        let spread = 0.8 + 0.4 * (row * 7919 % 1000) as f32 / 1000.0;
        tangent.iter_mut().for_each(|v| *v *= radius * spread / length);
        whole.lift(&tangent, point);
    });
    Ok((spec, points))
}

/// Adds the direction of a node with the given length. The components of a direction are sums of three uniform
/// numbers, which are approximately Gaussian; the vector is scaled to the given length.
fn add_direction(node: u64, length: f32, out: &mut [f32; DIM]) {
    let mut state = (node + 5).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut direction = [0.0_f32; DIM];
    for v in &mut direction {
        for _ in 0..3 {
            // Marsaglia's xorshift.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            *v += (state >> 40) as f32 / (1_u32 << 24) as f32 - 0.5;
        }
    }
    let scale = length / direction.iter().map(|v| v * v).sum::<f32>().sqrt();
    out.iter_mut().zip(direction).for_each(|(out, v)| *out += scale * v);
}

/// Reads all values once on all threads, which measures the memory bandwidth.
fn read(points: &[f32]) -> u32 {
    let part = |part: &[f32]| {
        let mut sums = [0_u32; 32];
        for chunk in part.as_chunks::<32>().0 {
            sums.iter_mut().zip(chunk).for_each(|(sum, v)| *sum = sum.wrapping_add(v.to_bits()));
        }
        sums.into_iter().fold(0, u32::wrapping_add)
    };
    points.par_chunks(1 << 18).map(part).reduce(|| 0, u32::wrapping_add)
}

/// Writes rows and queries for the peers, and the ten nearest rows of every query: `rows.f32`, `queries.f32` and
/// `nearest.u32` in the folder `BENCH_SEARCH_OUT`.
fn write(loaded: &Rc<LoadedSet>) -> anyhow::Result<BenchNumbers> {
    let loaded = loaded.clone();
    Ok(Box::new(move || {
        let out =
            PathBuf::from(std::env::var("BENCH_SEARCH_OUT").context("BENCH_SEARCH_OUT is not set; expected a folder")?);
        let bytes = |values: &[f32]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
        std::fs::write(out.join("rows.f32"), bytes(&loaded.set.points))?;
        std::fs::write(out.join("queries.f32"), bytes(&loaded.queries))?;
        let query = Query::new(&loaded.set.spec, &loaded.queries);
        let found = loaded.flat()?.top_k(&query, Ranking::Distance, BEST, &Filter::All)?;
        let rows = found.iter().flatten().flat_map(|hit| (hit.row as u32).to_le_bytes());
        std::fs::write(out.join("nearest.u32"), rows.collect::<Vec<u8>>())?;
        Ok(vec![loaded.set.len() as f64])
    }))
}
