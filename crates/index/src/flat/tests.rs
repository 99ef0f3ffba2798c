#![allow(clippy::unwrap_used)]

use conifer_embeddings::Modality;
use conifer_geometry::{ManifoldSpec, SPACES, space};

use super::*;
use crate::query::{Direction, Gate};
use crate::select::Bounds;
use crate::table::{CHUNK_ROWS, GROUP};
use crate::testing::{GATED, PLAIN, cloud, naive, random_points, roots, set_of};
use crate::traverse::Cone;

/// Compares with a reference that scores every row with [`Space`] and sorts by score and row.
#[test]
fn equals_scoring_every_row_on_every_space() {
    for entry in &SPACES {
        for spec in (entry.sample)(3) {
            let rows = cloud(&spec, 150, 1);
            let queries = cloud(&spec, 6, 2);
            for root in roots(&spec) {
                let index = FlatIndex::new(&set_of(&spec, root.clone(), rows.clone())).unwrap();
                for ranking in PLAIN.into_iter().chain(GATED) {
                    for k in [1, 10, 400] {
                        let found = index.top_k(&Query::new(&spec, &queries), ranking, k, &Filter::All).unwrap();
                        let expected = naive(&spec, &root, &rows, &queries, ranking, k);
                        assert_eq!(found, expected, "{spec}, {root:?}, {ranking:?}, k = {k}");
                    }
                }
            }
        }
    }
}

/// If the bounds of two rows do not overlap, their order must be the order of the exact scores. Otherwise a search
/// loses rows.
#[test]
fn bounds_contain_the_exact_order() {
    for entry in &SPACES {
        for spec in (entry.sample)(4) {
            let rows = cloud(&spec, 120, 3);
            let query = cloud(&spec, 1, 4);
            let query = &query[..spec.dim];
            for root in roots(&spec) {
                let index = FlatIndex::new(&set_of(&spec, root.clone(), rows.clone())).unwrap();
                for ranking in PLAIN {
                    let prepared = index.table.prepare(&[query], ranking);
                    let scored: Vec<(Bounds, f32)> = (0..index.len())
                        .map(|i| {
                            let score = ranking.score(index.space(), &root, query, &index.row(i));
                            (prepared.bounds(0, i, &index.row(i)).unwrap(), ranking.key(score))
                        })
                        .collect();
                    for (a, key_a) in &scored {
                        for (b, key_b) in &scored {
                            assert!(
                                a.high >= b.low || key_a < key_b,
                                "{spec}, {ranking:?}: {a:?} is {key_a}, {b:?} is {key_b}"
                            );
                        }
                    }
                }
            }
        }
    }
}

/// Of 4,000 random points (64 coordinates, or 8 x 8) the first pass must leave at most 40 candidates for the ten best
/// rows.
#[test]
fn few_rows_need_exact_scores() {
    let specs = [
        ManifoldSpec::sphere(64),
        ManifoldSpec::euclidean(64),
        ManifoldSpec::lorentz(64, 1.0),
        ManifoldSpec::product_l1(8, 8, vec![1.0; 8]),
        ManifoldSpec::product_l2(8, 8, vec![0.5; 8]),
    ];
    for spec in specs {
        let rows = random_points(&spec, 4000, 5);
        let query = random_points(&spec, 1, 6);
        let index = FlatIndex::new(&set_of(&spec, Root::Origin, rows)).unwrap();
        for ranking in PLAIN {
            let prepared = index.table.prepare(&[&query], ranking);
            let mut scanner = prepared.scanner(10);
            scanner.scan(&(0..4000).collect::<Vec<u32>>());
            let looks = scanner.selections.remove(0).into_rows().count();
            assert!((10..=40).contains(&looks), "{spec}, {ranking:?}: {looks} exact looks");
        }
    }
}

/// Results must not depend on the number of queries in a batch (1, a few, a panel, several panels). In half precision
/// they are exact for the stored points.
#[test]
fn batches_and_half_precision_change_nothing() {
    for entry in &SPACES {
        for spec in (entry.sample)(5)
            .into_iter()
            .chain((entry.kind == "product_l1").then(|| ManifoldSpec::product_l1(17, 8, vec![0.7; 17])))
        {
            let (rows, queries) = (cloud(&spec, 120, 11), random_points(&spec, 64, 12));
            for root in roots(&spec) {
                let half = FlatIndex::half(&set_of(&spec, root.clone(), rows.clone())).unwrap();
                let stored: Vec<f32> = (0..half.len()).flat_map(|i| half.row(i).to_vec()).collect();
                let whole = FlatIndex::new(&set_of(&spec, root.clone(), rows.clone())).unwrap();
                for ranking in PLAIN.into_iter().chain(GATED) {
                    for (index, rows) in [(&whole, &rows), (&half, &stored)] {
                        let expected = naive(&spec, &root, rows, &queries, ranking, 7);
                        let mut at = 0;
                        for count in [1, 3, 4, 56] {
                            let some = &queries[at * spec.dim..(at + count) * spec.dim];
                            let found = index.top_k(&Query::new(&spec, some), ranking, 7, &Filter::All).unwrap();
                            assert_eq!(
                                found,
                                expected[at..at + count],
                                "{spec}, {root:?}, {ranking:?}, {count} queries"
                            );
                            at += count;
                        }
                    }
                }
            }
        }
    }
}

/// Depths are computed on first use, inside a thread pool whose waiting threads steal work. A lock held during the
/// computation would deadlock.
#[test]
fn concurrent_depth_computation_does_not_deadlock() {
    let (done, waits) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let spec = ManifoldSpec::lorentz(8, 1.0);
        let (rows, queries) = (random_points(&spec, 20_000, 1), random_points(&spec, 3 * GROUP, 2));
        let pool = rayon::ThreadPoolBuilder::new().num_threads(8).build().unwrap();
        let ranking = Ranking::Depth(Gate::Distance(2.0));
        for _ in 0..20 {
            let index = FlatIndex::new(&set_of(&spec, Root::Origin, rows.clone())).unwrap();
            let query = Query::new(&spec, &queries);
            pool.scope(|scope| {
                for _ in 0..6 {
                    scope.spawn(|_| assert!(index.top_k(&query, ranking, 1, &Filter::All).is_ok()));
                }
            });
        }
        done.send(()).unwrap();
    });
    waits.recv_timeout(std::time::Duration::from_secs(120)).expect("deadlock: a thread waits for itself");
}

/// Rows and queries so far from the origin that their scores overflow are rejected; the error names the row or the
/// query.
#[test]
fn points_with_overflowing_scores_are_rejected() {
    let spec = ManifoldSpec::lorentz(2, 4.0);
    let message = FlatIndex::new(&set_of(&spec, Root::Origin, vec![1.0, 0.0, 0.0, 1e20])).err().unwrap().to_string();
    assert_eq!(message, "embedding set: row 1 (`1`), `sqrt(c) |x|`, is inf; expected at most 1e9");
    let index = FlatIndex::new(&set_of(&spec, Root::Origin, vec![4e8, 0.0, -4e8, 1.0])).unwrap();
    let find = |point: &[f32]| index.top_k(&Query::new(&spec, point), Ranking::Distance, 2, &Filter::All);
    assert!(find(&[0.0, 4e8]).unwrap()[0].iter().all(|hit| hit.score.is_finite()));
    let message = find(&[6e8, 0.0]).unwrap_err().to_string();
    assert_eq!(message, "search: query 0, `sqrt(c) |x|`, is 1200000000; expected at most 1e9");
    let flat = ManifoldSpec::lorentz(2, 1e-46);
    assert!(flat.check().unwrap_err().to_string().contains("`curv[0]` is"));
}

/// In the plane with the query (1, 0): (2, 0) is straight ahead, (1, 1) and (1, -1) at a right angle (a tie), the root
/// behind.
#[test]
fn hand_checked_angles_and_ties() {
    let spec = ManifoldSpec::euclidean(2);
    let rows = vec![0.0, 0.0, 1.0, 1.0, 2.0, 0.0, 1.0, -1.0];
    let index = FlatIndex::new(&set_of(&spec, Root::Origin, rows)).unwrap();
    let query = [1.0, 0.0];
    let found = |ranking| {
        let hits = index.top_k(&Query::new(&spec, &query), ranking, 4, &Filter::All).unwrap();
        hits[0].iter().map(|h| (h.row, h.score)).collect::<Vec<_>>()
    };
    let degrees = |direction| {
        let hits = found(Ranking::Angle(direction));
        hits.into_iter().map(|(row, angle)| (row, angle.to_degrees().round())).collect::<Vec<_>>()
    };
    assert_eq!(degrees(Direction::Down), [(2, 0.0), (1, 90.0), (3, 90.0), (0, 180.0)]);
    // At (1, 1) the direction to (1, 0) turns by 135 degrees; at (2, 0) it is straight back. At the root the angle is 0
    // by definition.
    assert_eq!(degrees(Direction::Up), [(0, 0.0), (1, 135.0), (3, 135.0), (2, 180.0)]);
    let near = found(Ranking::Distance);
    assert_eq!(near, [(0, 1.0), (1, 1.0), (2, 1.0), (3, 1.0)]);
    assert_eq!(found(Ranking::Inner), [(2, 2.0), (1, 1.0), (3, 1.0), (0, 0.0)]);
    assert_eq!(found(Ranking::Similarity)[0], (0, -1.0));
}

/// In the plane with the query (1, 0) and the root at the origin: an angle below 100 degrees keeps (2, 0), (1, 1), (1,
/// -1) and the query point itself (angle 0 by definition). A distance of at most 1 also keeps the root.
#[test]
fn hand_checked_gates() {
    let spec = ManifoldSpec::euclidean(2);
    let rows = vec![0.0, 0.0, 1.0, 1.0, 2.0, 0.0, 1.0, -1.0, -3.0, 0.0, 1.0, 0.0];
    let index = FlatIndex::new(&set_of(&spec, Root::Origin, rows)).unwrap();
    let query = [1.0, 0.0];
    let search = |ranking, k| index.top_k(&Query::new(&spec, &query), ranking, k, &Filter::All).unwrap().remove(0);
    let found = |ranking, k| search(ranking, k).iter().map(|h| (h.row, h.score)).collect::<Vec<_>>();
    let below = Gate::Angle(Direction::Down, 100.0_f32.to_radians());
    assert_eq!(found(Ranking::Gated(below), 9), [(5, 0.0), (1, -1.0), (2, -1.0), (3, -1.0)]);
    let root_two = 2.0_f32.sqrt();
    assert_eq!(found(Ranking::Depth(below), 9), [(5, 1.0), (1, root_two), (3, root_two), (2, 2.0)]);
    assert_eq!(found(Ranking::Depth(below), 2), [(5, 1.0), (1, root_two)]);
    assert_eq!(found(Ranking::Depth(Gate::Distance(1.0)), 3), [(0, 0.0), (5, 1.0), (1, root_two)]);
    assert!(found(Ranking::Gated(Gate::Distance(-1.0)), 3).is_empty());
    let mut nearest = search(Ranking::Distance, 3);
    assert_eq!(nearest.iter().map(|h| h.row).collect::<Vec<_>>(), [5, 0, 1]);
    index.general_first(&mut nearest);
    assert_eq!(nearest.iter().map(|h| h.row).collect::<Vec<_>>(), [0, 5, 1]);
    let nan = Ranking::Gated(Gate::Distance(f32::NAN));
    let message = index.top_k(&Query::new(&spec, &query), nan, 1, &Filter::All).unwrap_err().to_string();
    assert_eq!(message, "search: the gate is NaN; expected a number");
}

/// In a product with different curvatures, the summed inner product of PHyCLIP's evaluation prefers another row than
/// the distance.
#[test]
fn inner_product_of_a_product_is_another_ranking() {
    let spec = ManifoldSpec::product_l1(2, 1, vec![0.1, 10.0]);
    // Distances from the origin: 1.2 in the factor of curvature 0.1, sinh(1.2 sqrt(0.1)) / sqrt(0.1); 1.0 in the factor
    // of curvature 10, sinh(sqrt(10)) / sqrt(10).
    let rows = vec![1.229, 0.0, 0.0, 3.729];
    let index = FlatIndex::new(&set_of(&spec, Root::Origin, rows)).unwrap();
    let best = |ranking| index.top_k(&Query::new(&spec, &[0.0, 0.0]), ranking, 1, &Filter::All).unwrap()[0][0].row;
    assert_eq!(best(Ranking::Distance), 1);
    // -<x, y>_L sums cosh(sqrt(c) d) / c: 10.73 + 0.1 for the first row, 10 + 1.18 for the second.
    assert_eq!(best(Ranking::Inner), 0);
}

#[test]
fn filters_select_rows() {
    let spec = ManifoldSpec::euclidean(1);
    let mut set = set_of(&spec, Root::Origin, (0..10).map(|i| i as f32).collect());
    set.modality = (0..10).map(|i| if i % 2 == 0 { Modality::Image } else { Modality::Text }).collect();
    let index = FlatIndex::new(&set).unwrap();
    let rows = |filter: &Filter<'_>, k| {
        let hits = index.top_k(&Query::row(&set, 4), Ranking::Distance, k, filter).unwrap();
        hits[0].iter().map(|h| h.row).collect::<Vec<_>>()
    };
    assert_eq!(rows(&Filter::All, 4), [4, 3, 5, 2]);
    assert_eq!(rows(&Filter::Modality(&[Modality::Text]), 4), [3, 5, 1, 7]);
    assert_eq!(rows(&Filter::Modality(&[Modality::Text, Modality::Image]), 2), [4, 3]);
    assert!(rows(&Filter::Modality(&[]), 2).is_empty());
    assert_eq!(rows(&Filter::Rows(&|row| row > 6), 9), [7, 8, 9]);
}

/// Compares each filter with its definition, row by row, on every space, and checks searches with it.
#[test]
fn filters_of_every_kind_and_their_combinations() {
    for spec in SPACES.iter().flat_map(|entry| (entry.sample)(9)) {
        let root = roots(&spec).into_iter().last().unwrap();
        let mut set = set_of(&spec, root.clone(), cloud(&spec, 150, 21));
        let kinds = [Modality::Image, Modality::Text, Modality::BoxText];
        set.modality = (0..set.len()).map(|i| kinds[i % 3]).collect();
        let class: Vec<String> = (0..set.len()).map(|i| ["dog", "cat", "car", ""][i * 7 % 4].to_owned()).collect();
        let index = FlatIndex::new(&set).unwrap();
        let space = space::<f32>(&spec).unwrap();
        let depth = |row: usize| space.depth(set.row(row), &root);
        let middle = depth(40);
        let cone = Cone { min_radius: 0.3, aperture_scale: 1.1 };
        let inside = |row: usize| space.cone_excess(set.row(3), set.row(row), 0.3, 1.1, &root) <= 0.0;
        let column = Filter::Column { column: &class, wanted: &["dog", "car"] };
        let apex = Filter::Inside(Query::row(&set, 3), cone);
        let (not_apex, subtree, odd) = (Filter::Not(&apex), Filter::Set(&[70, 3, 3, 149]), |row: usize| row % 2 == 1);
        let parts = [column, Filter::Depth(0.0, middle)];
        let either = [Filter::And(&parts), subtree, Filter::Modality(&[Modality::BoxText])];
        let is_class = |row: usize| class[row] == "dog" || class[row] == "car";
        let cases: [(Filter<'_>, &dyn Fn(usize) -> bool); 9] = [
            (column, &is_class),
            (Filter::Depth(0.0, middle), &|row| (0.0..=middle).contains(&depth(row))),
            (apex, &inside),
            (not_apex, &|row| !inside(row)),
            (subtree, &|row| [3, 70, 149].contains(&row)),
            (Filter::Or(&either), &|row| {
                is_class(row) && depth(row) <= middle || [3, 70, 149].contains(&row) || row % 3 == 2
            }),
            (Filter::Not(&Filter::Rows(&odd)), &|row| row % 2 == 0),
            (Filter::And(&[]), &|_| true),
            (Filter::Or(&[]), &|_| false),
        ];
        for (filter, passes) in cases {
            let expected: Vec<u32> = (0..set.len() as u32).filter(|row| passes(*row as usize)).collect();
            assert_eq!(filter.bitmap(&index.table, &|row| row).unwrap().rows(), expected, "{spec}");
            let found = index.top_k(&Query::row(&set, 5), Ranking::Distance, 4, &filter).unwrap().remove(0);
            let mut all = naive(&spec, &root, &set.points, set.row(5), Ranking::Distance, set.len()).remove(0);
            all.retain(|hit| passes(hit.row));
            all.truncate(4);
            assert_eq!(found, all, "{spec}");
        }
    }
}

#[test]
fn invalid_filters_have_a_message() {
    let spec = ManifoldSpec::euclidean(1);
    let set = set_of(&spec, Root::Origin, vec![0.0, 1.0, 2.0]);
    let index = FlatIndex::new(&set).unwrap();
    let message = |filter: &Filter<'_>| {
        let found = index.top_k(&Query::row(&set, 0), Ranking::Distance, 1, filter);
        found.unwrap_err().to_string()
    };
    let column = Filter::Column { column: &[String::new()], wanted: &[] };
    assert_eq!(message(&column), "search: the column of a filter is a list of 1; expected 3, one per row");
    assert_eq!(message(&Filter::Set(&[3])), "search: a row of a filter is 3; expected a row below 3");
    assert_eq!(message(&Filter::Depth(f32::NAN, 1.0)), "search: the depth of a filter is NaN; expected a number");
    let apex = Filter::Inside(Query::set(&set), Cone::default());
    assert_eq!(message(&Filter::And(&[apex])), "search: the apex of a filter is 3 points; expected one point");
}

#[test]
fn searches_without_rows_are_empty() {
    let spec = ManifoldSpec::lorentz(3, 1.0);
    let empty = FlatIndex::new(&set_of(&spec, Root::Origin, vec![])).unwrap();
    assert!(empty.is_empty());
    let one = FlatIndex::new(&set_of(&spec, Root::Origin, vec![0.1, 0.2, 0.3])).unwrap();
    let two_queries = [0.0; 6];
    let query = Query::new(&spec, &two_queries);
    for ranking in PLAIN {
        assert_eq!(empty.top_k(&query, ranking, 5, &Filter::All).unwrap(), vec![vec![], vec![]]);
        assert_eq!(one.top_k(&query, ranking, 0, &Filter::All).unwrap(), vec![vec![], vec![]]);
        assert_eq!(one.top_k(&query, ranking, 5, &Filter::All).unwrap()[1].len(), 1);
        assert!(one.top_k(&Query::new(&spec, &[]), ranking, 5, &Filter::All).unwrap().is_empty());
    }
}

#[test]
fn invalid_queries_have_a_message() {
    let spec = ManifoldSpec::lorentz(2, 1.0);
    let index = FlatIndex::new(&set_of(&spec, Root::Origin, vec![0.1, 0.2])).unwrap();
    let message = |spec: &ManifoldSpec, point: &[f32]| {
        let found = index.top_k(&Query::new(spec, point), Ranking::Distance, 1, &Filter::All);
        found.unwrap_err().to_string()
    };
    assert_eq!(
        message(&ManifoldSpec::sphere(2), &[1.0, 0.0]),
        "search: the query is a point of sphere(dim 2); expected lorentz(dim 2, c 1), the space of the index"
    );
    assert_eq!(
        message(&spec, &[1.0, 0.0, 0.0]),
        "search: the query is a list of 3 coordinates; expected a multiple of `dim` = 2"
    );
    assert_eq!(
        message(&spec, &[1.0, 0.0, 0.0, f32::NAN]),
        "search: component 1 of query 1 is NaN; expected a finite number"
    );
    let circle = ManifoldSpec::sphere(2);
    let index = FlatIndex::new(&set_of(&circle, Root::Origin, vec![0.0, 1.0])).unwrap();
    let found = index.top_k(&Query::new(&circle, &[0.0, 1.0, 0.0, 3.0]), Ranking::Distance, 1, &Filter::All);
    assert_eq!(
        found.unwrap_err().to_string(),
        "search: query 1 is 2 off the sphere(dim 2); expected at most 0.01: was it lifted?"
    );
    let spec = |middle| ManifoldSpec::product_l1(3, 1, vec![0.1, middle, 2.0]);
    let index = FlatIndex::new(&set_of(&spec(1.0), Root::Origin, vec![0.0; 3])).unwrap();
    let (other, point) = (spec(1.5), [0.0; 3]);
    let found = index.top_k(&Query::new(&other, &point), Ranking::Distance, 1, &Filter::All);
    let message = found.unwrap_err().to_string();
    assert!(message.contains("[0.1, 1.5, 2.0]") && message.contains("[0.1, 1.0, 2.0]"), "{message}");
}

#[test]
fn threads_change_nothing() {
    let spec = ManifoldSpec::product_l1(2, 4, vec![0.7, 1.3]);
    let rows = random_points(&spec, 3 * CHUNK_ROWS + 17, 7);
    let queries = random_points(&spec, GROUP + 3, 8);
    let index = FlatIndex::new(&set_of(&spec, Root::Origin, rows)).unwrap();
    let found = [1, 2, 3].map(|threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let query = Query::new(&spec, &queries);
        pool.install(|| index.top_k(&query, Ranking::Angle(Direction::Up), 25, &Filter::All).unwrap())
    });
    assert_eq!(found[0], found[1]);
    assert_eq!(found[0], found[2]);
}
