//! Times the projections on generated rows, for `bench/projections.py`.
//!
//! Reads lines `CASE ROUNDS` and answers each with a line of JSON: `ms` (one number per round), `check` (a number that
//! the result determines) and `peak_mb` of the process.
//!
//! ```console
//! $ cargo build --release -p conifer-viz --example projection_speed
//! $ echo 'horopca/10000/512/2/100 1' | target/release/examples/projection_speed
//! ```
//!
//! | case | work |
//! |---|---|
//! | `horopca/ROWS/DIM/COMPONENTS/STEPS` | Frechet mean, fit and quality with 1,000,000 pairs |
//! | `cosne/ROWS/DIM/ITERATIONS` | similarities and iterations |
//! | `cosne-tree/ROWS/DIM/ITERATIONS` | nearest rows by the index, similarities and iterations with `theta` 0.3 and 10 neighbours per perplexity |
//! | `cosne-kept/ROWS/DIM/ITERATIONS/THETA/NEIGHBOURS/SEED` | the same with this many neighbours per perplexity (`THETA` 0: exact); `check` is the share of the ten nearest rows that the map keeps |
//! | `umap/ROWS/DIM/EPOCHS` | start positions, nearest rows by the index, graph and layout in the plane |
//! | `umap-layout/ROWS/EPOCHS` | graph and layout in the plane, of points of a plane |
//! | `write/ROWS/DIM/FILE` | writes the rows as little-endian f64 |
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::io::BufRead as _;
use std::time::Instant;

use conifer_embeddings::{EmbeddingSet, Modality, Provenance};
use conifer_geometry::random::SplitMix;
use conifer_geometry::{ManifoldSpec, Root};
use conifer_index::{CellIndex, Effort, Filter, Partition, Query, Ranking};
use conifer_viz::projection::{
    Cosne, CosneKernel, CosneMethod, CosneSettings, FitProgress, FitState, HoroPca, HoroSettings, HyperbolicRows,
    NeighbourTable, PairSample, ProjectionCenter, Umap, UmapSettings, UmapTarget, tangent_positions,
};

fn main() {
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        let Some((case, rounds)) = line.split_once(' ') else { continue };
        let rounds: usize = rounds.trim().parse().unwrap();
        let mut check = 0.0;
        let ms: Vec<String> = (0..rounds)
            .map(|_| {
                let work = prepared(case);
                let start = Instant::now();
                check = work();
                format!("{:.1}", start.elapsed().as_secs_f64() * 1e3)
            })
            .collect();
        println!("{{\"ms\": [{}], \"check\": {check}, \"peak_mb\": {:.0}}}", ms.join(", "), peak_mb());
    }
}

/// Generates the input of a case. The returned function does the work to be timed.
fn prepared(case: &str) -> Box<dyn FnOnce() -> f64> {
    let parts: Vec<&str> = case.split('/').collect();
    let number = |at: usize| -> usize { parts[at].parse().unwrap() };
    match parts[0] {
        "horopca" => {
            let (points, dim, components, steps) = (tree(number(1), number(2)), number(2), number(3), number(4));
            Box::new(move || {
                let rows = HyperbolicRows::from_unit(dim, points).unwrap().centred(ProjectionCenter::Mean);
                let pairs = PairSample::new(rows.len(), 1_000_000, 0);
                let settings = HoroSettings { dim: components, steps, start: None };
                HoroPca::fit(&rows, &settings, &pairs, &mut |_, _| true).unwrap().quality.variance
            })
        }
        "cosne" => {
            let (points, dim, iterations) = (tree(number(1), number(2)), number(2), number(3));
            Box::new(move || {
                let rows = HyperbolicRows::from_unit(dim, points).unwrap();
                Cosne::fit(&rows, &cosne_settings(iterations), &mut |_, _| true).unwrap().loss
            })
        }
        "cosne-tree" => {
            let (points, dim, iterations) = (tree(number(1), number(2)), number(2), number(3));
            Box::new(move || cosne_tree(points, dim, &cosne_settings(iterations), 0.3, 10.0).loss)
        }
        "cosne-kept" => {
            let (len, dim, iterations) = (number(1), number(2), number(3));
            let [theta, factor] = [4, 5].map(|at| parts[at].parse::<f64>().unwrap());
            let settings = CosneSettings { seed: number(6) as u64, ..cosne_settings(iterations) };
            Box::new(move || {
                let points = tree(len, dim);
                let map = if theta > 0.0 {
                    cosne_tree(points.clone(), dim, &settings, theta, factor)
                } else {
                    let rows = HyperbolicRows::from_unit(dim, points.clone()).unwrap();
                    Cosne::fit(&rows, &settings, &mut |_, _| true).unwrap()
                };
                // From the disc to the hyperboloid.
                let positions = map.positions.as_chunks::<2>().0.iter();
                let map: Vec<f64> =
                    positions.flat_map(|[x, y]| [x, y].map(|v| 2.0 * v / (1.0 - x * x - y * y))).collect();
                let (before, after) = (neighbours(&points, dim, 10), neighbours(&map, 2, 10));
                let kept = |i: usize| before.of(i).iter().filter(|j| after.of(i).contains(j)).count();
                (0..len).map(kept).sum::<usize>() as f64 / (10 * len) as f64
            })
        }
        "umap" => {
            let (points, len, dim, epochs) = (tree(number(1), number(2)), number(1), number(2), number(3));
            Box::new(move || {
                let (spec, row) =
                    (ManifoldSpec::lorentz(dim, 1.0), |i: usize| narrow(&points[i * dim..(i + 1) * dim]).into());
                let start = tangent_positions(&spec, &Root::Origin, len, row).unwrap();
                let neighbours = neighbours(&points, dim, 14);
                umap(&neighbours, &start, epochs)
            })
        }
        "umap-layout" => {
            let (len, epochs) = (number(1), number(2));
            let points = plane(len);
            let neighbours = plane_neighbours(&points, 14);
            let start = points.into_flattened();
            Box::new(move || umap(&neighbours, &start, epochs))
        }
        "write" => {
            let (points, path) = (tree(number(1), number(2)), parts[3..].join("/"));
            Box::new(move || {
                let bytes: Vec<u8> = points.iter().flat_map(|v| v.to_le_bytes()).collect();
                std::fs::write(path, bytes).unwrap();
                points.len() as f64
            })
        }
        other => panic!("unknown case `{other}`"),
    }
}

fn umap(neighbours: &NeighbourTable, start: &[f64], epochs: usize) -> f64 {
    let settings = UmapSettings { target: UmapTarget::Plane, min_dist: 0.1, epochs: Some(epochs), seed: 0 };
    Umap::fit(neighbours, start, &settings, &mut |_, _| true).unwrap().neighbours_kept
}

/// Never stops.
struct Endless;

impl FitProgress for Endless {
    fn restored(&mut self) -> Option<FitState> {
        None
    }

    fn step(&mut self, _: usize, _: usize, _: &dyn Fn() -> FitState) -> bool {
        true
    }
}

fn cosne_tree(points: Vec<f64>, dim: usize, settings: &CosneSettings, theta: f64, factor: f64) -> Cosne {
    let rows = HyperbolicRows::from_unit(dim, points).unwrap();
    let points: Vec<f64> = (0..rows.len()).flat_map(|i| rows.row(i).to_vec()).collect();
    let perplexity = settings.checked_perplexity(rows.len()).unwrap();
    let begin = Instant::now();
    let neighbours = neighbours(&points, dim, (factor * perplexity).ceil() as usize);
    eprintln!("neighbours: {:.1} s", begin.elapsed().as_secs_f64());
    let method = CosneMethod::Tree { neighbours: &neighbours, theta };
    Cosne::fit_resumable(&rows, method, settings, &mut Endless).unwrap()
}

fn narrow(point: &[f64]) -> Vec<f32> {
    point.iter().map(|v| *v as f32).collect()
}

/// The nearest other rows of each row, found as `conifer project` does.
fn neighbours(points: &[f64], dim: usize, count: usize) -> NeighbourTable {
    let len = points.len() / dim;
    let points = narrow(points);
    let ids = (0..len).map(|i| i.to_string()).collect();
    let (spec, modality) = (ManifoldSpec::lorentz(dim, 1.0), vec![Modality::Image; len]);
    let set = EmbeddingSet::new(spec.clone(), Root::Origin, ids, modality, points, Provenance::default()).unwrap();
    let index = CellIndex::new(set.clone(), Partition::default()).unwrap();
    let (mut rows, mut distances) = (Vec::new(), Vec::new());
    for first in (0..len).step_by(1024) {
        let last = (first + 1024).min(len);
        let query = Query::new(&spec, &set.points[first * dim..last * dim]);
        let found = index.top_k(&query, Ranking::Distance, count + 1, &Filter::All, Effort::Exact).unwrap();
        for (i, found) in (first..last).zip(found) {
            for hit in found.hits.iter().filter(|hit| hit.row != i).take(count) {
                rows.push(hit.row as u32);
                distances.push(f64::from(hit.score));
            }
        }
    }
    NeighbourTable::new(count, rows, distances).unwrap()
}

fn cosne_settings(iterations: usize) -> CosneSettings {
    CosneSettings {
        perplexity: None,
        kernel: CosneKernel::Paper,
        gamma: 0.1,
        norm_weight: 1.0,
        iterations,
        exaggerated: iterations / 4,
        exaggeration: 4.0,
        seed: 0,
    }
}

/// Space components of rows below 16 x 16 parents: each row is the sum of three random vectors, of which the rows of a
/// parent share one and those of a grandparent another.
fn tree(len: usize, dim: usize) -> Vec<f64> {
    let mut random = SplitMix::new(1);
    let scale = 1.0 / (dim as f64).sqrt();
    let mut vectors =
        |count: usize| -> Vec<f64> { (0..count * dim).map(|_| scale * (2.0 * random.uniform() - 1.0)).collect() };
    let (upper, lower, own) = (vectors(16), vectors(256), vectors(len));
    let at = |list: &[f64], i: usize, k: usize| list[i * dim + k];
    (0..len * dim)
        .map(|j| {
            let (i, k) = (j / dim, j % dim);
            2.0 * at(&upper, i % 16, k) + 1.5 * at(&lower, i % 256, k) + own[j]
        })
        .collect()
}

/// Uniform points of a square whose side is the square root of their number.
fn plane(len: usize) -> Vec<[f64; 2]> {
    let mut random = SplitMix::new(2);
    let side = (len as f64).sqrt();
    (0..len).map(|_| [side * random.uniform(), side * random.uniform()]).collect()
}

/// The nearest other points of each point. A disc of radius 6 holds 113 points on average.
fn plane_neighbours(points: &[[f64; 2]], count: usize) -> NeighbourTable {
    let side = (points.len() as f64).sqrt() as usize / 6 + 1;
    let cell = |[x, y]: [f64; 2]| ((x / 6.0) as usize, (y / 6.0) as usize);
    let mut cells = vec![Vec::new(); (side + 1) * (side + 1)];
    points.iter().enumerate().for_each(|(i, point)| {
        let (x, y) = cell(*point);
        cells[y * (side + 1) + x].push(i);
    });
    let (mut rows, mut distances) = (Vec::new(), Vec::new());
    for (i, point) in points.iter().enumerate() {
        let (x, y) = cell(*point);
        let mut near: Vec<(f64, u32)> = (y.saturating_sub(1)..=(y + 1).min(side))
            .flat_map(|y| (x.saturating_sub(1)..=(x + 1).min(side)).map(move |x| y * (side + 1) + x))
            .flat_map(|at| &cells[at])
            .filter(|j| **j != i)
            .map(|j| ((points[*j][0] - point[0]).hypot(points[*j][1] - point[1]), *j as u32))
            .collect();
        near.sort_by(|a, b| a.0.total_cmp(&b.0));
        rows.extend(near[..count].iter().map(|it| it.1));
        distances.extend(near[..count].iter().map(|it| it.0));
    }
    NeighbourTable::new(count, rows, distances).unwrap()
}

/// Largest resident memory of the process so far, MB; 0 where `/proc` does not exist.
fn peak_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|it| it.trim().strip_suffix(" kB")).and_then(|it| it.trim().parse::<f64>().ok());
    kib.unwrap_or(0.0) / 1024.0
}
