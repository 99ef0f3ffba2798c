//! Randomised comparison of the cells, the flat index and exact scoring by [`Space`](conifer_geometry::Space), which
//! must agree bit for bit and stay within an error budget of `f64`. Spaces, roots, rows, queries, rankings, gates and
//! filters are random, with ties and numerical edge cases.

#![allow(clippy::unwrap_used)]

use conifer_geometry::random::SplitMix;
use conifer_geometry::{ManifoldKind, ManifoldSpec, Root, space};

use crate::cells::{CellIndex, Effort, Partition};
use crate::kernel::dot_error;
use crate::testing::{PLAIN, naive, set_of};
use crate::traverse::Cone;
use crate::{Direction, Filter, FlatIndex, Gate, Hit, Query, Ranking};

/// Random numbers for test cases.
struct TestRandom(SplitMix);

impl TestRandom {
    fn uniform(&mut self) -> f64 {
        self.0.uniform()
    }

    fn below(&mut self, count: usize) -> usize {
        ((self.uniform() * count as f64) as usize).min(count - 1)
    }

    fn one_of<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    /// Log-uniform between `least` and `most`.
    fn size(&mut self, least: f64, most: f64) -> f64 {
        (least.ln() + self.uniform() * (most.ln() - least.ln())).exp()
    }

    fn normal(&mut self) -> f64 {
        (-2.0 * self.uniform().max(1e-300).ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

/// A set with queries.
struct SearchCase {
    spec: ManifoldSpec,
    root: Root,
    rows: Vec<f32>,
    queries: Vec<f32>,
}

fn spec(random: &mut TestRandom) -> ManifoldSpec {
    let dims = [1, 2, 3, 7, 8, 16, 19, 33, 64, 65, 130];
    match random.below(5) {
        0 => ManifoldSpec::sphere(random.one_of(&dims[1..])),
        1 => ManifoldSpec::euclidean(random.one_of(&dims)),
        2 => ManifoldSpec::lorentz(random.one_of(&dims), random.size(0.1, 10.0)),
        kind => {
            let (factors, dim) = (random.one_of(&[1, 2, 3, 9, 16, 17, 20, 33]), random.one_of(&[1, 2, 5, 8, 9]));
            let curv = (0..factors).map(|_| random.size(0.1, 10.0)).collect();
            match kind {
                3 => ManifoldSpec::product_l1(factors, dim, curv),
                _ => ManifoldSpec::product_l2(factors, dim, curv),
            }
        }
    }
}

/// Clusters, duplicates, near duplicates, opposite and scaled points, the root and points next to it. Norms are from
/// 1e-6 to 1e4, either all of one size or spread.
fn case(seed: u64) -> SearchCase {
    let random = &mut TestRandom(SplitMix::new(seed));
    let spec = spec(random);
    let sphere = spec.kind == ManifoldKind::Sphere;
    let (spread, base) = (random.below(4), random.size(1e-6, 1e4));
    let fresh = |random: &mut TestRandom| -> Vec<f64> {
        let mut point = Vec::new();
        for _ in 0..spec.factors {
            let part: Vec<f64> = (0..spec.factor_dim()).map(|_| random.normal()).collect();
            let length = part.iter().map(|v| v * v).sum::<f64>().sqrt().max(1e-30);
            let norm = match spread {
                _ if sphere => 1.0,
                0 => random.size(1e-6, 1e4),
                1 => base * random.size(0.5, 2.0),
                2 => random.size(0.01, 10.0),
                _ => base * random.size(0.1, 1.0),
            };
            point.extend(part.iter().map(|v| v / length * norm));
        }
        point
    };
    let on_space = |point: Vec<f64>| {
        let length = if sphere { point.iter().map(|v| v * v).sum::<f64>().sqrt() } else { 1.0 };
        point.into_iter().map(|v| v / length).collect::<Vec<f64>>()
    };
    let root = if random.below(3) == 0 { Root::Origin } else { Root::Point(fresh(random)) };
    let at_root = match &root {
        Root::Origin => vec![0.0; spec.dim],
        Root::Point(point) => point.clone(),
    };
    let centres: Vec<Vec<f64>> = (0..8).map(|_| fresh(random)).collect();
    let near = |random: &mut TestRandom, point: &[f64], share: f64| {
        let unit = point.iter().map(|v| v * v).sum::<f64>().sqrt() / (point.len() as f64).sqrt();
        on_space(point.iter().map(|v| v + share * unit * random.normal()).collect())
    };
    let pick = |random: &mut TestRandom, rows: &[Vec<f64>]| -> Vec<f64> {
        match random.below(12) {
            3..=5 => {
                let (share, centre) = (random.size(1e-3, 0.5), random.below(8));
                near(random, &centres[centre], share)
            }
            6 if !rows.is_empty() => rows[random.below(rows.len())].clone(),
            7 | 8 if !rows.is_empty() => {
                let (share, row) = (random.size(1e-8, 1e-2), random.below(rows.len()));
                near(random, &rows[row], share)
            }
            9 if !sphere => at_root.clone(),
            10 if !sphere || root != Root::Origin => {
                let share = random.size(1e-8, 1e-2);
                near(random, &at_root, share)
            }
            11 if !rows.is_empty() => {
                let scale = if sphere { -1.0 } else { random.one_of(&[-1.0, 1.0 + 1e-6, 1.5, 0.1]) };
                rows[random.below(rows.len())].iter().map(|v| v * scale).collect()
            }
            _ => fresh(random),
        }
    };
    let mut rows: Vec<Vec<f64>> = Vec::new();
    for _ in 0..random.one_of(&[1, 5, 30, 60, 90]) {
        let row = pick(random, &rows);
        rows.push(row);
    }
    // Up to 3 queries are scored one by one, 4 and 5 in a narrow panel, and 35 in a wide panel.
    let queries: Vec<Vec<f64>> = (0..random.one_of(&[1, 2, 3, 4, 5, 35])).map(|_| pick(random, &rows)).collect();
    let narrow = |points: Vec<Vec<f64>>| points.concat().into_iter().map(|v| v as f32).collect();
    SearchCase { rows: narrow(rows), queries: narrow(queries), spec, root }
}

/// The plain rankings, and two gated ones whose limit is the exact value of some row, or admits all rows or none.
fn rankings(random: &mut TestRandom, case: &SearchCase) -> Vec<Ranking> {
    let SearchCase { spec, root, rows, queries } = case;
    let space = space::<f32>(spec).unwrap();
    let mut rankings = PLAIN.to_vec();
    for _ in 0..2 {
        let row = &rows[random.below(rows.len() / spec.dim) * spec.dim..][..spec.dim];
        let query = &queries[random.below(queries.len() / spec.dim) * spec.dim..][..spec.dim];
        let gate = random.one_of(&[
            Gate::Angle(Direction::Down, space.exterior_angle(query, row, root)),
            Gate::Angle(Direction::Up, space.exterior_angle(row, query, root)),
            Gate::Distance(space.dist(query, row)),
            Gate::Angle(Direction::Down, 3.2),
            Gate::Distance(-1.0),
            // The exact value of a row that equals the query.
            Gate::Distance(space.dist(row, row)),
        ]);
        rankings.push(if random.below(2) == 0 { Ranking::Gated(gate) } else { Ranking::Depth(gate) });
    }
    rankings
}

/// Scores are compared by their bits, which distinguish zero from minus zero.
fn bits(found: &[Vec<Hit>]) -> Vec<Vec<(usize, u32)>> {
    found.iter().map(|hits| hits.iter().map(|hit| (hit.row, hit.score.to_bits())).collect()).collect()
}

/// The best `k` hits that pass, for every query.
fn best(all: &[Vec<Hit>], k: usize, passes: &dyn Fn(usize) -> bool) -> Vec<Vec<(usize, u32)>> {
    let of = |hits: &Vec<Hit>| hits.iter().filter(|hit| passes(hit.row)).take(k).copied().collect();
    bits(&all.iter().map(of).collect::<Vec<Vec<Hit>>>())
}

fn agree(seed: u64) {
    let mut case = case(seed);
    let random = &mut TestRandom(SplitMix::new(seed ^ 0xabc_def0));
    let half = random.below(3) == 0 && case.rows.iter().all(|v| v.abs() < 6e4);
    if half {
        case.rows.iter_mut().for_each(|v| *v = half::f16::from_f32(*v).to_f32());
    }
    let count = case.rows.len() / case.spec.dim;
    let set = set_of(&case.spec, case.root.clone(), case.rows.clone());
    if set.check().is_err() {
        // Rounding to half precision moved a point off the sphere.
        return;
    }
    let partition = Partition { cells: random.one_of(&[0, count, count / 3 + 1, 7, 1]), rounds: random.below(4), seed };
    let flat = if half { FlatIndex::half(&set) } else { FlatIndex::new(&set) }.unwrap();
    let cells = if half { CellIndex::half(set, partition) } else { CellIndex::new(set, partition) }.unwrap();
    let query = Query::new(&case.spec, &case.queries);
    let apex = Query::new(&case.spec, &case.queries[..case.spec.dim]);
    let narrow = space::<f32>(&case.spec).unwrap();
    let row = |i: usize| &case.rows[i * case.spec.dim..][..case.spec.dim];
    let limit = narrow.depth(row(count / 2), &case.root);
    let cone = Cone { min_radius: 0.2, aperture_scale: 1.0 };
    let odd = |i: usize| i % 2 == 1;
    let inside = Filter::Inside(apex, cone);
    let (parts, either) = ([Filter::Rows(&odd), Filter::Depth(0.0, limit)], [inside, Filter::Set(&[0])]);
    let is_shallow = |i: usize| narrow.depth(row(i), &case.root) <= limit;
    let is_inside = |i: usize| {
        let apex = &case.queries[..case.spec.dim];
        narrow.cone_excess(apex, row(i), cone.min_radius, cone.aperture_scale, &case.root) <= 0.0
    };
    let filters: [(Filter<'_>, &dyn Fn(usize) -> bool); 3] = [
        (Filter::And(&parts), &|i| odd(i) && is_shallow(i)),
        (Filter::Or(&either), &|i| i == 0 || is_inside(i)),
        (Filter::Not(&inside), &|i| !is_inside(i)),
    ];
    for ranking in rankings(random, &case) {
        let context = || format!("seed {seed}: {}, {ranking:?}, half {half}, {partition:?}", case.spec);
        let all = naive(&case.spec, &case.root, &case.rows, &case.queries, ranking, usize::MAX);
        within_budget(&case, ranking, &all, &context);
        cells.lower_bounds_hold(&case.queries, ranking, &context);
        let hits = |filter: &Filter<'_>, k: usize| {
            let found = cells.top_k(&query, ranking, k, filter, Effort::Exact).unwrap();
            bits(&found.into_iter().map(|it| it.hits).collect::<Vec<_>>())
        };
        for k in [1, 10, count + 5] {
            let expected = best(&all, k, &|_| true);
            assert_eq!(bits(&flat.top_k(&query, ranking, k, &Filter::All).unwrap()), expected, "{}", context());
            assert_eq!(hits(&Filter::All, k), expected, "cells, {}", context());
        }
        let (filter, passes) = &filters[random.below(filters.len())];
        let expected = best(&all, 3, passes);
        assert_eq!(bits(&flat.top_k(&query, ranking, 3, filter).unwrap()), expected, "filter, {}", context());
        assert_eq!(hits(filter, 3), expected, "filter, cells, {}", context());
        let alone = flat.top_k(&apex, ranking, 2, &Filter::All).unwrap();
        assert_eq!(bits(&alone), best(&all[..1], 2, &|_| true), "one query, {}", context());
    }
}

/// Compares every score with the score computed in `f64`. The error budget is relative 2e-6 for distances and 4e-5
/// radians for angles, plus terms that grow with `sqrt(c) t` of both points ([`crate::scan::errors`]). For inner
/// products the budget is the rounding error of a dot product, relative to the product of the norms (on hyperboloids,
/// of the time components).
fn within_budget(case: &SearchCase, ranking: Ranking, all: &[Vec<Hit>], context: &dyn Fn() -> String) {
    let SearchCase { spec, root, rows, queries } = case;
    let space = space::<f64>(spec).unwrap();
    let wide = |point: &[f32]| -> Vec<f64> { point.iter().map(|v| f64::from(*v)).collect() };
    // The root is rounded to `f32`, as in the exact scores.
    let root = match root {
        Root::Origin => Root::Origin,
        Root::Point(point) => Root::Point(point.iter().map(|v| f64::from(*v as f32)).collect()),
    };
    let times = |point: &[f64]| -> Vec<f64> {
        let parts = point.chunks_exact(spec.factor_dim()).zip(&spec.curv);
        parts.map(|(part, curv)| (1.0 + curv * part.iter().map(|v| v * v).sum::<f64>()).sqrt()).collect()
    };
    let far = |point: &[f64]| times(point).into_iter().fold(1.0, f64::max) - 1.0;
    let rounding = 8.0 * f64::from(dot_error(spec.dim)) + 1e-6 * spec.factors as f64;
    for (query, hits) in queries.chunks_exact(spec.dim).zip(all).take(4) {
        let query = wide(query);
        for hit in hits.iter().step_by(hits.len() / 10 + 1) {
            let row = wide(&rows[hit.row * spec.dim..][..spec.dim]);
            let reach = far(&query) + far(&row);
            let distance = |d: f64| (d, d.abs() * (2e-6 + 7e-7 * reach) + 1e-12);
            let product = || match spec.curv.is_empty() {
                true => conifer_geometry::slices::norm(&query) * conifer_geometry::slices::norm(&row),
                false => times(&query).iter().zip(times(&row)).zip(&spec.curv).map(|((a, b), curv)| a * b / curv).sum(),
            };
            let (exact, budget) = match ranking {
                Ranking::Distance => distance(space.dist(&query, &row)),
                Ranking::Similarity | Ranking::Gated(_) if spec.kind != ManifoldKind::Sphere => {
                    distance(space.similarity(&query, &row))
                }
                Ranking::Similarity | Ranking::Gated(_) => (space.similarity(&query, &row), rounding),
                Ranking::Inner => (space.inner(&query, &row), rounding * product()),
                Ranking::Angle(direction) => {
                    let angle = match direction {
                        Direction::Down => space.exterior_angle(&query, &row, &root),
                        Direction::Up => space.exterior_angle(&row, &query, &root),
                    };
                    (angle, 4e-5 + 7e-6 * reach)
                }
                Ranking::Depth(_) => {
                    let at = if let Root::Point(point) = &root { far(point) } else { 0.0 };
                    let depth = space.depth(&row, &root);
                    (depth, depth.abs() * (2e-6 + 7e-7 * (far(&row) + at)) + 1e-12)
                }
            };
            let error = (f64::from(hit.score) - exact).abs();
            assert!(error <= budget, "{}: {} for {exact}, {error:e} > {budget:e}", context(), hit.score);
        }
    }
}

#[test]
fn cells_flat_and_naive_agree_in_small_cases() {
    (1..40).for_each(agree);
}

#[test]
fn cells_flat_and_naive_agree_in_more_cases() {
    (100_000..100_040).for_each(agree);
}
