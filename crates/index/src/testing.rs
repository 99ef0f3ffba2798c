//! Random points and a slow reference search for the tests of every index.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use conifer_embeddings::{EmbeddingSet, Modality, Provenance};
use conifer_geometry::{ManifoldKind, ManifoldSpec, Root, space};

use crate::query::{Direction, Gate, Hit, Ranking};

pub(crate) const PLAIN: [Ranking; 5] = [
    Ranking::Distance,
    Ranking::Similarity,
    Ranking::Inner,
    Ranking::Angle(Direction::Down),
    Ranking::Angle(Direction::Up),
];
pub(crate) const GATED: [Ranking; 5] = [
    Ranking::Gated(Gate::Angle(Direction::Down, 1.3)),
    Ranking::Gated(Gate::Angle(Direction::Up, 2.0)),
    Ranking::Gated(Gate::Distance(1.5)),
    Ranking::Depth(Gate::Angle(Direction::Down, 1.5)),
    Ranking::Depth(Gate::Distance(2.0)),
];

pub(crate) fn naive(
    spec: &ManifoldSpec,
    root: &Root,
    rows: &[f32],
    queries: &[f32],
    ranking: Ranking,
    k: usize,
) -> Vec<Vec<Hit>> {
    let space = space::<f32>(spec).unwrap();
    let search = |query: &[f32]| {
        let mut scored: Vec<(f32, Hit)> = rows
            .chunks_exact(spec.dim)
            .enumerate()
            .filter_map(|(row, x)| {
                let angle = |direction| match direction {
                    Direction::Down => space.exterior_angle(query, x, root),
                    Direction::Up => space.exterior_angle(x, query, root),
                };
                let inside = |gate| match gate {
                    Gate::Angle(direction, limit) => angle(direction) <= limit,
                    Gate::Distance(limit) => space.dist(query, x) <= limit,
                };
                let similarity = (-space.similarity(query, x), space.similarity(query, x));
                let (key, score) = match ranking {
                    Ranking::Distance => (space.dist(query, x), space.dist(query, x)),
                    Ranking::Similarity => similarity,
                    Ranking::Inner => (-space.inner(query, x), space.inner(query, x)),
                    Ranking::Angle(direction) => (angle(direction), angle(direction)),
                    Ranking::Gated(gate) => inside(gate).then_some(similarity)?,
                    Ranking::Depth(gate) => inside(gate).then(|| (space.depth(x, root), space.depth(x, root)))?,
                };
                Some((key, Hit { row, score }))
            })
            .collect();
        scored.sort_by(|a, b| a.0.partial_cmp(&b.0).unwrap().then(a.1.row.cmp(&b.1.row)));
        scored.into_iter().map(|(_, hit)| hit).take(k).collect()
    };
    queries.chunks_exact(spec.dim).map(search).collect()
}

pub(crate) fn roots(spec: &ManifoldSpec) -> [Root; 2] {
    let point = random_points(spec, 1, 99);
    [Root::Origin, Root::Point(point.iter().map(|v| f64::from(*v)).collect())]
}

/// Random points, of which every tenth occurs twice, followed by numerical edge cases: the origin, opposite and nearly
/// equal points, and norms from 1e-6 on one ray, up to coordinates of 10.
pub(crate) fn cloud(spec: &ManifoldSpec, count: usize, seed: u64) -> Vec<f32> {
    let mut points = random_points(spec, count, seed);
    let repeated: Vec<f32> = points.chunks_exact(spec.dim).step_by(10).flatten().copied().collect();
    points.extend(repeated);
    let space = space::<f32>(spec).unwrap();
    for tangent in conifer_geometry::laws::edge_tangents(spec.dim) {
        let tangent: Vec<f32> = tangent.iter().map(|v| v.clamp(-10.0, 10.0) as f32).collect();
        let mut point = tangent.clone();
        if spec.kind == ManifoldKind::Sphere {
            space.lift(&tangent, &mut point);
        }
        if f64::from(space.off_manifold(&point)) < 0.5 {
            points.extend(point);
        }
    }
    points
}

/// Lifts of tangent vectors with uniform components, at most three curvature radii long in each factor.
pub(crate) fn random_points(spec: &ManifoldSpec, count: usize, seed: u64) -> Vec<f32> {
    let space = space::<f32>(spec).unwrap();
    let mut state = seed;
    let mut uniform = || {
        // Knuth's MMIX generator; only the high bits are random enough.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1_u32 << 24) as f32 - 0.5
    };
    let mut points = vec![0.0; count * spec.dim];
    for point in points.chunks_exact_mut(spec.dim) {
        let tangent: Vec<f32> = (0..spec.dim)
            .map(|i| {
                let c = spec.curv.get(i / spec.factor_dim()).map_or(1.0, |c| *c as f32);
                6.0 * uniform() / (c * spec.factor_dim() as f32).sqrt()
            })
            .collect();
        space.lift(&tangent, point);
    }
    points
}

pub(crate) fn set_of(spec: &ManifoldSpec, root: Root, points: Vec<f32>) -> EmbeddingSet {
    let count = points.len() / spec.dim;
    EmbeddingSet {
        spec: spec.clone(),
        root,
        ids: (0..count).map(|i| i.to_string()).collect(),
        modality: vec![Modality::Text; count],
        points,
        columns: BTreeMap::new(),
        source: Provenance::default(),
    }
}
