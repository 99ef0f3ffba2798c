//! Search: rankings over all rows, cells, and the peers' data. `bench/search.py` starts it, and `search_peers.py` beside it.

use std::cell::{OnceCell, RefCell};
use std::io::Write as _;
use std::path::PathBuf;
use std::rc::Rc;

use anyhow::{Context as _, bail};
use conifer_index::{CellIndex, Direction, Effort, Filter, FlatIndex, Gate, Partition, Query, Ranking};
use conifer_space::{EmbeddingSet, ManifoldSpec, Modality, Root, Source, space};
use rayon::prelude::*;

use crate::BenchNumbers;

const DIM: usize = 512;
const ROWS: usize = 1_000_000;
/// Points that are not among the rows.
const QUERIES: usize = 256;
const BEST: usize = 10;
/// Children of a node of the tree, and its levels.
const BRANCHES: u64 = 8;
const LEVELS: u32 = 5;

/// The rows of one name with what was built of them.
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

/// `DATA/RANKING/BATCH/INDEX`, where DATA is a name of [`points`] (`@ROWS` behind it for another number of rows) or `set`, the folder
/// `BENCH_SEARCH_SET`, and INDEX is `flat`, `half`, `exact` or `approximate`; `DATA/bandwidth`; `DATA/write`.
///
/// What is returned: the share of the rows that was visited, in percent, the recall of the ten best, and the number of cells asked for.
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
    let asked = match effort {
        Effort::Exact => cells.cells(),
        Effort::Cells(count) => count,
    };
    let told = vec![100.0 * visited, recall, asked as f64];
    Ok(Box::new(move || {
        let query = Query::new(&loaded.set.spec, &loaded.queries[next()]);
        loaded.cells()?.top_k(&query, ranking, BEST, &Filter::All, effort)?;
        Ok(told.clone())
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

/// Loads what is not loaded already.
fn load(name: &str) -> anyhow::Result<Rc<LoadedSet>> {
    if let Some(loaded) = LOADED.with_borrow(|it| it.as_ref().filter(|it| it.0 == name).map(|it| it.1.clone())) {
        return Ok(loaded);
    }
    let (mut set, held) = match name.split_once('@') {
        _ if name == "set" => {
            let folder = std::env::var("BENCH_SEARCH_SET").context("BENCH_SEARCH_SET names a folder of embeddings")?;
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

/// A set, and which of its rows are queries: the last ones.
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
        source: Source::default(),
    };
    Ok((set, (0..all).map(|row| row >= rows).collect()))
}

/// `tree5`, `tree06`: four levels of a tree of eight branches and the rows below them, each a direction 0.6 times as long as the one before, on a
/// hyperboloid at distances of 0.8 to 1.2 times 5 or 0.6 from the origin. `plain06`, `plain15`: directions without any order, at 0.6 or 1.5.
/// `product`: 64 factors of 8 in l1, without order.
fn points(kind: &str, rows: usize) -> anyhow::Result<(ManifoldSpec, Vec<f32>)> {
    let (spec, radius, levels) = match kind {
        "tree5" => (ManifoldSpec::lorentz(DIM, 1.0), 5.0, LEVELS),
        "tree06" => (ManifoldSpec::lorentz(DIM, 1.0), 0.6, LEVELS),
        "plain06" => (ManifoldSpec::lorentz(DIM, 1.0), 0.6, 1),
        "plain15" => (ManifoldSpec::lorentz(DIM, 1.0), 1.5, 1),
        // In every factor a tangent vector of length about 1.5.
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

/// Adds the direction of a node, `length` long: sums of three uniform numbers, nearly normal, made a unit vector.
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

/// Reads all numbers once, on all threads.
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

/// Writes rows and queries for the peers, and the ten nearest rows of every query: `rows.f32`, `queries.f32`, `nearest.u32` in the folder
/// `BENCH_SEARCH_OUT`.
fn write(loaded: &Rc<LoadedSet>) -> anyhow::Result<BenchNumbers> {
    let loaded = loaded.clone();
    Ok(Box::new(move || {
        let out = PathBuf::from(std::env::var("BENCH_SEARCH_OUT").context("BENCH_SEARCH_OUT names a folder")?);
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
