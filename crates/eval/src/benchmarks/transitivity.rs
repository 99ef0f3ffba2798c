//! Measures how often transitivity is violated along chains of texts (RCME Eq. 4).

use std::collections::BTreeSet;

use conifer_geometry::{ManifoldSpec, Root, safe, space};
use rand::SeedableRng;
use rand::seq::SliceRandom;

use crate::record::{Baseline, Record, RecordKey};
use crate::{Outcomes, Result};

/// Three neighbouring texts of a chain, general to specific.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TextTriple<'a> {
    /// Position of the middle text among the ranks or tiers, from 0.
    pub(super) position: usize,
    pub(super) texts: [&'a str; 3],
}

/// The distinct triples of neighbouring texts in chains of (position, text).
pub(super) fn triples<'a>(chains: impl IntoIterator<Item = Vec<(usize, &'a str)>>) -> Vec<TextTriple<'a>> {
    let mut found = BTreeSet::new();
    for chain in chains {
        for triple in chain.windows(3) {
            let texts = [triple[0].1, triple[1].1, triple[2].1];
            found.insert(TextTriple { position: triple[1].0, texts });
        }
    }
    found.into_iter().collect()
}

/// Computes the share of `triples` (a, b, c) with `S(a, c) < S(a, b) S(b, c)`, where `S` is the cosine of the exterior
/// angle seen from the root, clamped to [0, 1] (RCME Eqs. 1, 2 and 4). Returns one record over all triples, and one for
/// each position of the middle text. The baseline replaces c by the last text of another triple of the same position.
///
/// `triples` are sorted, as [`triples`] returns them. `point` returns the point of a text. `level` is the name of a
/// position, such as "rank".
///
/// # Errors
/// `spec` is not a valid space.
pub(super) fn transitivity_records<'p>(
    benchmark: &str,
    level: &str,
    spec: &ManifoldSpec,
    root: &Root,
    triples: &[TextTriple<'_>],
    point: impl Fn(&str) -> &'p [f32],
    seed: u64,
) -> Result<Vec<Record>> {
    let space = space::<f64>(spec)?;
    let wide = |text: &str| point(text).iter().map(|&x| f64::from(x)).collect::<Vec<f64>>();
    let violated = |[a, b, c]: [&str; 3]| {
        let [a, b, c] = [wide(a), wide(b), wide(c)];
        let similarity =
            |parent: &[f64], child: &[f64]| space.exterior_angle(parent, child, root).cos().clamp(0.0, 1.0);
        // Smaller differences are rounding errors of the f32 points.
        similarity(&a, &c) + f64::from(safe::EPS_F32) < similarity(&a, &b) * similarity(&b, &c)
    };
    let rng = &mut rand_chacha::ChaCha8Rng::seed_from_u64(seed);
    // For each triple: its position, whether it violates Eq. 4, and whether it does so with another last text.
    let mut found: Vec<(usize, bool, bool)> = Vec::with_capacity(triples.len());
    for same in triples.chunk_by(|a, b| a.position == b.position) {
        let mut last: Vec<&str> = same.iter().map(|triple| triple.texts[2]).collect();
        last.shuffle(rng);
        found.extend(same.iter().zip(last).map(|(triple, other)| {
            let [a, b, _] = triple.texts;
            (triple.position, violated(triple.texts), violated([a, b, other]))
        }));
    }
    let record = |split: &str, rows: &[(usize, bool, bool)]| {
        let trivial = rows.iter().filter(|(.., other)| *other).count() as f64 / rows.len() as f64;
        let protocol = "distinct triples of neighbours";
        let key = RecordKey { benchmark, split, protocol, metric: "violations of Eq. 4" };
        let outcomes: Outcomes = rows.iter().map(|(_, violated, _)| *violated).collect();
        Record::of(key, outcomes, Baseline::named("another last text", trivial), seed)
    };
    let mut records = Vec::new();
    if !found.is_empty() {
        records.push(record("all", &found));
        let by_position = found.chunk_by(|a, b| a.0 == b.0);
        records.extend(by_position.map(|rows| record(&format!("{level} {}", rows[0].0 + 1), rows)));
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn triples_are_distinct_neighbours() {
        let chains = [vec![(0, "a"), (1, "b"), (3, "c"), (4, "d")], vec![(0, "a"), (1, "b"), (3, "c")], vec![(0, "a")]];
        let found: Vec<_> = triples(chains).into_iter().map(|it| (it.position, it.texts)).collect();
        assert_eq!(found, [(1, ["a", "b", "c"]), (3, ["b", "c", "d"])]);
    }

    /// The root is the origin of the plane, a = (1, 0) and b = (2, 0). Thus S(a, b) = 1, and S(a, c) and S(b, c) are
    /// the cosines of the directions of c - a and c - b.
    #[test]
    fn violations_by_hand() {
        // Eq. 4 holds for (a, b, c): S(a, c) = 2 / sqrt 5 = 0.894, and S(b, c) = 1 / sqrt 2 = 0.707.
        // It holds for (a, b, d): S(a, d) = 0 after clamping, and S(b, d) = 0.
        // It holds for (a, b2, e): S(a, b2) = 0.5 / sqrt 1.25 = 0.447, S(a, e) = 0, and S(b2, e) = 0, because e lies
        // backwards seen from b2.
        // It holds for (a, g, f): S(a, g) = 0 up to rounding, and S(a, f) = 0 after clamping.
        // It is violated for (a, h, i): S(a, h) = 1 / sqrt 2 = 0.707, S(h, i) = (2, 1) (0.1, 2) / (sqrt 5 * 2.0025) =
        // 0.491, and their product 0.347 exceeds S(a, i) = 1.1 / sqrt 10.21 = 0.344.
        let points: BTreeMap<&str, [f32; 2]> = [
            ("a", [1.0, 0.0]),
            ("b", [2.0, 0.0]),
            ("c", [3.0, 1.0]),
            ("d", [0.0, 1.0]),
            ("b2", [1.5, 1.0]),
            ("e", [1.0, 1.0]),
            ("g", [1.0, 2.0]),
            ("f", [0.9, 3.9]),
            ("h", [2.0, 1.0]),
            ("i", [2.1, 3.0]),
        ]
        .into();
        let triple = |position, texts| TextTriple { position, texts };
        let all = [
            triple(1, ["a", "b", "c"]),
            triple(1, ["a", "b", "d"]),
            triple(1, ["a", "b2", "e"]),
            triple(1, ["a", "g", "f"]),
            triple(2, ["a", "h", "i"]),
        ];
        let spec = ManifoldSpec::euclidean(2);
        let point = |text: &str| &points[text][..];
        let records = transitivity_records("test", "rank", &spec, &Root::Origin, &all, point, 0).unwrap();
        let found: Vec<_> = records.iter().map(|it| (it.split.as_str(), it.value, it.n)).collect();
        assert_eq!(found, [("all", 0.2, 5), ("rank 2", 0.0, 4), ("rank 3", 1.0, 1)]);
        // With a single triple of this position, the baseline uses the same last text.
        assert_eq!(records[2].baseline.as_ref().unwrap().value, 1.0);
        assert!(transitivity_records("test", "rank", &spec, &Root::Origin, &[], point, 0).unwrap().is_empty());
    }
}
