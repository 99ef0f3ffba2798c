#![allow(clippy::unwrap_used)]

use conifer_embeddings::Modality;
use conifer_geometry::{SPACES, space};

use super::*;
use crate::query::{Direction, Gate};
use crate::testing::{GATED, PLAIN, cloud, naive, random_points, roots, set_of};
use crate::traverse::Cone;
use crate::{FlatIndex, Query};

fn few() -> Partition {
    Partition { cells: 9, rounds: 4, seed: 3 }
}

/// Compares the cells, the flat index and exact scoring with [`Space`] bit for bit, on every space, root and ranking,
/// with duplicate points and numerical edge cases.
#[test]
fn equals_flat_and_naive_on_every_space_and_ranking() {
    for (seed, entry) in (30..).zip(&SPACES) {
        for spec in (entry.sample)(seed) {
            let (rows, queries) = (cloud(&spec, 200, seed), cloud(&spec, 4, seed + 50));
            for root in roots(&spec) {
                let set = set_of(&spec, root.clone(), rows.clone());
                let flat = FlatIndex::new(&set).unwrap();
                let cells = CellIndex::new(set, few()).unwrap();
                for ranking in PLAIN.into_iter().chain(GATED) {
                    for k in [1, 10] {
                        let query = Query::new(&spec, &queries);
                        let found = cells.top_k(&query, ranking, k, &Filter::All, Effort::Exact).unwrap();
                        let hits: Vec<Vec<Hit>> = found.into_iter().map(|it| it.hits).collect();
                        assert_eq!(hits, flat.top_k(&query, ranking, k, &Filter::All).unwrap());
                        let expected = naive(&spec, &root, &rows, &queries, ranking, k);
                        assert_eq!(hits, expected, "{spec}, {root:?}, {ranking:?}, k = {k}");
                    }
                }
            }
        }
    }
}

#[test]
fn filters_half_precision_and_threads() {
    for spec in SPACES.iter().flat_map(|entry| (entry.sample)(61)) {
        let mut set = set_of(&spec, roots(&spec)[1].clone(), cloud(&spec, 150, 8));
        set.modality = (0..set.len()).map(|i| [Modality::Image, Modality::Text][i * 3 % 2]).collect();
        let class: Vec<String> = (0..set.len()).map(|i| (i % 5).to_string()).collect();
        let apex = Filter::Inside(Query::row(&set, 9), Cone { min_radius: 0.5, aperture_scale: 1.0 });
        let filters = [
            Filter::Modality(&[Modality::Text]),
            Filter::Column { column: &class, wanted: &["1", "4"] },
            Filter::Not(&apex),
            Filter::Depth(0.0, set_depth(&set, 20)),
            Filter::Set(&[1, 2, 3, 80]),
        ];
        let flat = FlatIndex::half(&set).unwrap();
        let build = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| CellIndex::half(set.clone(), few()).unwrap())
        };
        let (one, three) = (build(1), build(3));
        assert_eq!(one.order, three.order, "{spec}");
        for ranking in PLAIN.into_iter().chain(GATED) {
            for filter in filters {
                let query = Query::row(&set, 33);
                let found = one.top_k(&query, ranking, 6, &filter, Effort::Exact).unwrap();
                assert_eq!(found, three.top_k(&query, ranking, 6, &filter, Effort::Exact).unwrap());
                assert_eq!(found[0].hits, flat.top_k(&query, ranking, 6, &filter).unwrap()[0], "{spec}, {ranking:?}");
            }
        }
    }
}

fn set_depth(set: &EmbeddingSet, row: usize) -> f32 {
    space::<f32>(&set.spec).unwrap().depth(set.row(row), &set.root)
}

impl CellIndex {
    /// Asserts that neither lower bound of a cell, loose or tight, is above the score of one of its rows. Exact search
    /// relies on this.
    pub(crate) fn lower_bounds_hold(&self, queries: &[f32], ranking: Ranking, context: &dyn Fn() -> String) {
        for query in queries.chunks_exact(self.table.spec.dim).take(3) {
            let queries = [query];
            let (prepared, dots) = (self.table.prepare(&queries, ranking), self.dots(&queries, ranking));
            let tight = self.tight(query);
            let dots = dots.as_ref().map(|it| (it, 0));
            let rough = self.candidates(query, tight.as_ref(), dots, ranking, &prepared, &self.all);
            let (bounds, query_point) = tight.expect("every built-in space has bounds");
            for (cell, positions) in self.cells.iter().enumerate() {
                let cell_bound = bounds.cell_bound(&query_point, cell, ranking);
                let candidate = rough.iter().find(|it| it.cell == cell);
                for position in positions.clone() {
                    let row = self.table.row(position);
                    let score = ranking.score(self.space(), self.root(), query, &row);
                    let gate = ranking.gate().map(|gate| gate.ranking().score(self.space(), self.root(), query, &row));
                    let passes = ranking.gate().is_none_or(|gate| gate.admits(self.space(), self.root(), query, &row));
                    let key = match (ranking, self.table.spec.kind.name()) {
                        (Ranking::Similarity | Ranking::Gated(_), "sphere") | (Ranking::Inner, _) => -score,
                        _ => score.abs(),
                    };
                    let (key, lower_bound) = (f64::from(key), cell_bound.lower_bound);
                    assert!(
                        key >= lower_bound - 1e-6 * lower_bound.abs(),
                        "{}: cell {cell}: {key} below {lower_bound}",
                        context()
                    );
                    if let (Some(value), Some(lower_bound)) = (gate, cell_bound.gate) {
                        assert!(
                            f64::from(value) >= lower_bound,
                            "{}: cell {cell}: {value} below {lower_bound} at the gate",
                            context()
                        );
                    }
                    let Some(bounds) = prepared.bounds(0, position, &row).filter(|_| passes) else { continue };
                    match candidate {
                        Some(it) => {
                            assert!(
                                it.lower_bound <= bounds.high,
                                "{}: {} above {bounds:?}",
                                context(),
                                it.lower_bound
                            );
                        }
                        None => panic!("{}: cell {cell} is left out, and {row:?} passes", context()),
                    }
                }
            }
        }
    }
}

#[test]
fn lower_bounds_hold() {
    for spec in SPACES.iter().flat_map(|entry| (entry.sample)(71)) {
        for root in roots(&spec) {
            let index = CellIndex::new(set_of(&spec, root.clone(), cloud(&spec, 150, 2)), few()).unwrap();
            for ranking in PLAIN.into_iter().chain(GATED) {
                index.lower_bounds_hold(&cloud(&spec, 3, 3), ranking, &|| format!("{spec}, {root:?}, {ranking:?}"));
            }
        }
    }
}

/// Sums thousands of equal terms, so that the `f32` sum has an error larger than one term. Every row is the centre of
/// its own cell.
#[test]
fn lower_bounds_hold_for_many_factors() {
    for (build, count) in [(ManifoldSpec::product_l1 as fn(_, _, _) -> _, 4096), (ManifoldSpec::product_l2, 3000)] {
        let spec = build(count, 1, vec![1.0; count]);
        let rows: Vec<f32> = (1..=12).flat_map(|i| vec![0.073 * i as f32; spec.dim]).collect();
        let index = CellIndex::new(set_of(&spec, Root::Origin, rows), Partition { cells: 12, ..few() }).unwrap();
        let queries: Vec<f32> = [-0.31, 0.22, 0.9].into_iter().flat_map(|x| vec![x; spec.dim]).collect();
        for ranking in PLAIN.into_iter().chain(GATED) {
            index.lower_bounds_hold(&queries, ranking, &|| format!("{} x {count}, {ranking:?}", spec.kind));
        }
    }
}

/// Uses a gate that only the query itself passes, at norm 1e4, the largest for which errors were measured. There the
/// distance to a cell is a small difference of large numbers.
#[test]
fn far_rows_find_themselves() {
    for spec in [0.1, 1.0, 10.0].map(|c| ManifoldSpec::lorentz(8, c)).into_iter().chain([ManifoldSpec::product_l1(
        2,
        4,
        vec![1.0, 3.0],
    )]) {
        let mut rows = random_points(&spec, 60, 5);
        for row in rows.chunks_exact_mut(spec.factor_dim()) {
            let length = row.iter().map(|v| v * v).sum::<f32>().sqrt();
            row.iter_mut().for_each(|v| *v *= 1e4 / length);
        }
        let set = set_of(&spec, Root::Origin, rows.clone());
        let (flat, cells) = (FlatIndex::new(&set).unwrap(), CellIndex::new(set, few()).unwrap());
        let query = Query::new(&spec, &rows);
        for ranking in [Ranking::Depth(Gate::Distance(0.0)), Ranking::Gated(Gate::Distance(0.0))] {
            let found = cells.top_k(&query, ranking, 1, &Filter::All, Effort::Exact).unwrap();
            let hits: Vec<Vec<Hit>> = found.into_iter().map(|it| it.hits).collect();
            assert_eq!(hits, flat.top_k(&query, ranking, 1, &Filter::All).unwrap(), "{spec}");
            assert!(hits.iter().enumerate().all(|(row, hits)| hits[0].row == row), "{spec}: {hits:?}");
        }
    }
}

/// Uses thousands of coordinates of equal size, whose `f32` sums round more, and gates at the exact value of a row.
#[test]
fn lower_bounds_hold_in_many_dimensions() {
    for spec in [ManifoldSpec::lorentz(8192, 1.0), ManifoldSpec::euclidean(8192)] {
        for norm in [0.01_f32, 1.0] {
            let coordinate = |row: usize, i: usize| {
                let sign = [1.0, -1.0][((i * 2_654_435_761) >> (row % 13)) & 1];
                sign * norm / (spec.dim as f32).sqrt() * (1.0 + 0.01 * row as f32)
            };
            let rows: Vec<f32> = (0..24).flat_map(|row| (0..spec.dim).map(move |i| coordinate(row, i))).collect();
            let set = set_of(&spec, Root::Origin, rows.clone());
            let (flat, cells) = (FlatIndex::new(&set).unwrap(), CellIndex::new(set, few()).unwrap());
            let query = &rows[..spec.dim];
            for row in rows.chunks_exact(spec.dim).skip(1) {
                let space = flat.space();
                let gates = [
                    Gate::Distance(space.dist(query, row)),
                    Gate::Angle(Direction::Down, space.exterior_angle(query, row, &Root::Origin)),
                    Gate::Angle(Direction::Up, space.exterior_angle(row, query, &Root::Origin)),
                ];
                for ranking in gates.into_iter().flat_map(|gate| [Ranking::Depth(gate), Ranking::Gated(gate)]) {
                    cells.lower_bounds_hold(query, ranking, &|| format!("{}, {norm}, {ranking:?}", spec.kind));
                    let found = cells.top_k(&Query::new(&spec, query), ranking, 24, &Filter::All, Effort::Exact);
                    let expected = flat.top_k(&Query::new(&spec, query), ranking, 24, &Filter::All).unwrap();
                    assert_eq!(found.unwrap()[0].hits, expected[0], "{}, {norm}, {ranking:?}", spec.kind);
                }
            }
        }
    }
}

/// A filter that keeps few rows needs more cells, because the neighbours are spread over more cells.
#[test]
fn forecast_depends_on_the_filter() {
    let spec = ManifoldSpec::lorentz(4, 1.0);
    let set = set_of(&spec, Root::Origin, random_points(&spec, 3000, 8));
    let index = CellIndex::new(set, Partition::default()).unwrap();
    let few = |row: usize| row % 40 == 3;
    let filter = Filter::Rows(&few);
    let (all, behind) =
        (index.cells_for(Ranking::Distance, 0.9, &Filter::All), index.cells_for(Ranking::Distance, 0.9, &filter));
    let (all, behind) = (all.unwrap(), behind.unwrap());
    let others = random_points(&spec, 400, 9);
    let query = Query::new(&spec, &others);
    let find = |effort| index.top_k(&query, Ranking::Distance, 10, &filter, effort).unwrap();
    let exact = find(Effort::Exact);
    let recall = |cells| {
        let pairs = find(Effort::Cells(cells)).into_iter().zip(&exact);
        let shared =
            |(found, exact): (CellHits, &CellHits)| found.hits.iter().filter(|hit| exact.hits.contains(hit)).count();
        pairs.map(shared).sum::<usize>() as f64 / 4000.0
    };
    assert!(recall(behind) >= 0.88, "{behind} cells: {}", recall(behind));
    assert!(all < behind && recall(all) < 0.8, "{all} and {behind} cells: {}", recall(all));
}

/// Ten distant clusters in the hyperbolic plane: an exact search compares less than a third of the rows, and five cells
/// hold all near rows.
#[test]
fn clusters_are_found_without_visiting_all_rows() {
    let spec = ManifoldSpec::lorentz(2, 1.0);
    let mut points = Vec::new();
    for i in 0..2000_u32 {
        let angle = (i % 10) as f32 * 0.628 + (i / 10) as f32 * 1e-4;
        let radius = 4.0 + (i % 7) as f32 * 0.02;
        points.extend([radius.sinh() * angle.cos(), radius.sinh() * angle.sin()]);
    }
    let set = set_of(&spec, Root::Origin, points.clone());
    let index = CellIndex::new(set, Partition { cells: 20, ..Partition::default() }).unwrap();
    let query = Query::new(&spec, &points[..2]);
    let gated = Ranking::Gated(Gate::Angle(Direction::Down, 0.2));
    for ranking in [Ranking::Distance, Ranking::Similarity, gated] {
        let found = index.top_k(&query, ranking, 10, &Filter::All, Effort::Exact).unwrap().remove(0);
        assert!(found.visited < 667, "{ranking:?}: {} rows", found.visited);
    }
    let cells = index.cells_for(Ranking::Distance, 0.99, &Filter::All).unwrap();
    assert!((1..=5).contains(&cells), "{cells}");
    let near = index.top_k(&query, Ranking::Distance, 10, &Filter::All, Effort::Cells(cells)).unwrap();
    let exact = index.top_k(&query, Ranking::Distance, 10, &Filter::All, Effort::Exact).unwrap();
    assert_eq!(near[0].hits, exact[0].hits);
    let message = index.cells_for(Ranking::Distance, 1.5, &Filter::All).unwrap_err().to_string();
    assert_eq!(message, "search: the recall is 1.5; expected between 0 and 1");
}

/// Points without structure: a search in few cells visits them one by one, and a search in most cells scans all rows
/// once for all queries.
#[test]
fn visiting_most_cells_becomes_a_scan() {
    let spec = ManifoldSpec::lorentz(32, 1.0);
    let points = random_points(&spec, 2000, 8);
    let index = CellIndex::new(set_of(&spec, Root::Origin, points), Partition::default()).unwrap();
    let others = random_points(&spec, 20, 9);
    let query = Query::new(&spec, &others);
    let find = |effort| index.top_k(&query, Ranking::Distance, 10, &Filter::All, effort).unwrap();
    let (exact, many, few) = (find(Effort::Exact), find(Effort::Cells(index.cells() - 1)), find(Effort::Cells(2)));
    assert!(many.iter().zip(&exact).all(|(many, exact)| many.hits == exact.hits && many.visited == 2000));
    assert!(few.iter().all(|found| found.visited < 400 && found.hits.len() == 10));
}

#[test]
fn sets_smaller_than_k_return_all_rows() {
    let spec = ManifoldSpec::product_l2(2, 2, vec![1.0, 0.5]);
    let query = random_points(&spec, 1, 1);
    for rows in [0, 1, 2] {
        let set = set_of(&spec, Root::Origin, random_points(&spec, rows, 4));
        for cells in [0, 1, 5] {
            let index = CellIndex::new(set.clone(), Partition { cells, ..Partition::default() }).unwrap();
            let found = index.top_k(&Query::new(&spec, &query), Ranking::Distance, 3, &Filter::All, Effort::Exact);
            assert_eq!(found.unwrap()[0].hits.len(), rows);
            index.cells_for(Ranking::Distance, 0.9, &Filter::All).unwrap();
        }
    }
}
