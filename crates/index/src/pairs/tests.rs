#![allow(clippy::unwrap_used)]

use conifer_geometry::SPACES;

use super::*;

const RANKINGS: [Ranking; 3] = [Ranking::Distance, Ranking::Similarity, Ranking::Inner];

fn cloud(spec: &ManifoldSpec, count: usize, seed: u64) -> Vec<f32> {
    let space = space::<f32>(spec).unwrap();
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    let mut points = vec![0.0; count * spec.dim];
    for point in points.chunks_mut(spec.dim) {
        let tangent: Vec<f32> = (0..spec.dim).map(|_| next()).collect();
        space.lift(&tangent, point);
    }
    points
}

fn table(spec: &ManifoldSpec, ranking: Ranking, queries: &[f32], candidates: &[f32]) -> Vec<Vec<f32>> {
    score_rows(spec, ranking, queries, candidates, |_, scores| scores.to_vec()).unwrap()
}

/// Compares scores with exact scores in f64, on every space and ranking. The tolerance is the rounding of the dot
/// products, `2^-22` of the largest intermediate value; for a distance, the square of the distance has this rounding
/// error.
#[test]
fn scores_are_those_of_the_space() {
    for spec in SPACES.iter().flat_map(|entry| (entry.sample)(5)) {
        let (queries, candidates) = (cloud(&spec, 11, 1), cloud(&spec, 37, 2));
        let exact = space::<f64>(&spec).unwrap();
        let wide = |point: &[f32]| point.iter().map(|&v| f64::from(v)).collect::<Vec<_>>();
        for ranking in RANKINGS {
            for (query, scores) in queries.chunks(spec.dim).zip(table(&spec, ranking, &queries, &candidates)) {
                assert_eq!(scores.len(), 37);
                for (candidate, score) in candidates.chunks(spec.dim).zip(scores) {
                    let (x, y) = (wide(query), wide(candidate));
                    let expected = match ranking {
                        Ranking::Distance => exact.dist(&x, &y),
                        Ranking::Similarity => exact.similarity(&x, &y),
                        _ => exact.inner(&x, &y),
                    };
                    let size = 1.0 + exact.inner(&x, &x).abs() + exact.inner(&y, &y).abs() + expected.abs();
                    let lengths: f64 = [&x, &y].map(|p| p.iter().map(|v| v * v).sum::<f64>()).iter().sum();
                    let rounding =
                        (size + lengths) * 2f64.powi(-22) / spec.curv.iter().fold(1.0, |a, &c| f64::min(a, c));
                    let allowed = match (ranking, spec.kind.name()) {
                        (Ranking::Inner, _) | (_, "sphere") => rounding,
                        // The square of the distance is rounded: d^2 + e has the root d + e / 2d.
                        _ => rounding + rounding.sqrt().min(rounding / expected.abs()),
                    };
                    let error = (f64::from(score) - expected).abs();
                    assert!(
                        error <= allowed,
                        "{spec} {ranking:?}: {score} for {expected}, error {error:e} > {allowed:e}"
                    );
                }
            }
        }
    }
}

/// Equal candidates must have bit-equal scores at every position, and the scores must not change if queries and
/// candidates are exchanged.
#[test]
fn equal_points_have_equal_scores() {
    for spec in SPACES.iter().flat_map(|entry| (entry.sample)(6)) {
        let (queries, some) = (cloud(&spec, 70, 3), cloud(&spec, 5, 4));
        let candidates: Vec<f32> = (0..41).flat_map(|i| some[i % 5 * spec.dim..][..spec.dim].to_vec()).collect();
        let there = table(&spec, Ranking::Similarity, &queries, &candidates);
        for row in &there {
            (5..41).for_each(|i| assert_eq!(row[i].to_bits(), row[i % 5].to_bits(), "{spec}"));
        }
        let back = table(&spec, Ranking::Similarity, &candidates, &queries);
        for (i, row) in there.iter().enumerate() {
            (0..41).for_each(|j| assert_eq!(row[j].to_bits(), back[j][i].to_bits(), "{spec}"));
        }
    }
}

#[test]
fn score_pairs_equals_score_rows() {
    for spec in SPACES.iter().flat_map(|entry| (entry.sample)(8)) {
        let (left, right) = (cloud(&spec, 21, 5), cloud(&spec, 21, 6));
        for ranking in RANKINGS {
            let table = table(&spec, ranking, &left, &right);
            let pairs = score_pairs(&spec, ranking, &left, &right).unwrap();
            assert_eq!(pairs.len(), 21);
            (0..21).for_each(|i| assert_eq!(pairs[i].to_bits(), table[i][i].to_bits(), "{spec} {ranking:?}"));
        }
        let error = score_pairs(&spec, Ranking::Inner, &left, &right[spec.dim..]).unwrap_err().to_string();
        assert!(error.contains("21 points; expected 20"), "{error}");
    }
}

#[test]
fn adversarial_points_give_numbers() {
    for spec in SPACES.iter().flat_map(|entry| (entry.sample)(7)) {
        let mut points = vec![0.0; 4 * spec.dim];
        points[spec.dim] = 1e4;
        points[2 * spec.dim] = -1e4;
        points[3 * spec.dim] = 1e-30;
        for ranking in RANKINGS {
            let rows = table(&spec, ranking, &points, &points);
            assert!(rows.iter().flatten().all(|score| score.is_finite()), "{spec} {ranking:?}: {rows:?}");
        }
    }
}

#[test]
fn nan_coordinates_give_nan_scores() {
    for spec in SPACES.iter().flat_map(|entry| (entry.sample)(9)) {
        let points = [vec![0.1; spec.dim], vec![f32::NAN; spec.dim]].concat();
        for ranking in RANKINGS {
            let rows = table(&spec, ranking, &points, &points);
            assert!(
                rows[0][0].is_finite() && rows[0][1].is_nan() && rows[1][0].is_nan(),
                "{spec} {ranking:?}: {rows:?}"
            );
        }
    }
}

#[test]
fn empty_and_invalid_inputs() {
    let spec = ManifoldSpec::lorentz(3, 1.0);
    assert!(table(&spec, Ranking::Distance, &[], &[1.0; 3]).is_empty());
    assert_eq!(table(&spec, Ranking::Distance, &[1.0; 3], &[]), [Vec::<f32>::new()]);
    let message = |it: Result<Vec<()>>| it.unwrap_err().to_string();
    let of = |ranking, queries: &[f32]| score_rows(&spec, ranking, queries, &[1.0; 3], |_, _| ());
    assert_eq!(
        message(of(Ranking::Distance, &[1.0; 4])),
        "search: queries is 4 coordinates; expected a multiple of `dim` = 3"
    );
    assert!(message(of(Ranking::Angle(crate::Direction::Up), &[1.0; 3])).contains("an angle"));
}
