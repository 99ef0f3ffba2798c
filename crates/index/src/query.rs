//! Queries, rankings and hits.

use conifer_embeddings::EmbeddingSet;
use conifer_geometry::safe::{FARTHEST, UNIT_TOLERANCE};
use conifer_geometry::{ManifoldSpec, Root, Space};

use crate::error::{Error, Result};

/// Points to search for, with the space that they belong to.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    spec: &'a ManifoldSpec,
    points: &'a [f32],
}

impl<'a> Query<'a> {
    /// Creates a query from row-major points `[Q, dim]` of `spec`; a single point has Q = 1.
    pub fn new(spec: &'a ManifoldSpec, points: &'a [f32]) -> Self {
        Query { spec, points }
    }

    /// A query with every row of a set.
    pub fn set(set: &'a EmbeddingSet) -> Self {
        Query::new(&set.spec, &set.points)
    }

    /// A query with row `i` of a set, which must be below its length.
    pub fn row(set: &'a EmbeddingSet, i: usize) -> Self {
        Query::new(&set.spec, set.row(i))
    }

    /// The space of the points.
    pub(crate) fn spec(&self) -> &'a ManifoldSpec {
        self.spec
    }

    /// Returns the only point of the query; fails if there is not exactly one.
    pub(crate) fn single(&self, what: &str, space: &dyn Space<f32>) -> Result<&'a [f32]> {
        let mut points = self.checked(space)?;
        match (points.next(), points.len()) {
            (Some(point), 0) => Ok(point),
            (first, more) => {
                let found = format!("{} points", more + usize::from(first.is_some()));
                Err(Error::invalid(what, found, "one point"))
            }
        }
    }

    /// Checks that the points belong to `space`, the space of the index, and iterates over them.
    ///
    /// # Errors
    /// Fails if the space differs from that of the index, if the number of coordinates is not a multiple of `dim`, if a
    /// coordinate is not finite, or if a point is not on the space or is farther out than [`FARTHEST`].
    pub(crate) fn checked(&self, space: &dyn Space<f32>) -> Result<std::slice::ChunksExact<'a, f32>> {
        let index = space.spec();
        if self.spec != index {
            return Err(Error::other_space(self.spec, index));
        }
        if !self.points.len().is_multiple_of(index.dim) {
            let found = format!("a list of {} coordinates", self.points.len());
            return Err(Error::invalid("the query", found, format!("a multiple of `dim` = {}", index.dim)));
        }
        if let Some(i) = self.points.iter().position(|v| !v.is_finite()) {
            let what = format!("component {} of query {}", i % index.dim, i / index.dim);
            return Err(Error::invalid(what, self.points[i], "a finite number"));
        }
        let points = self.points.chunks_exact(index.dim);
        if let Some((i, reach)) =
            points.clone().map(|point| index.reach(point)).enumerate().find(|(_, it)| *it > FARTHEST)
        {
            return Err(Error::invalid(format!("query {i}, `sqrt(c) |x|`,"), reach, format!("at most {FARTHEST:e}")));
        }
        for (i, off) in points.clone().map(|point| space.off_manifold(point)).enumerate() {
            if f64::from(off) > UNIT_TOLERANCE {
                let expected = format!("at most {UNIT_TOLERANCE}: was it lifted?");
                return Err(Error::invalid(format!("query {i}"), format!("{off} off the {index}"), expected));
            }
        }
        Ok(points)
    }
}

/// The order in which rows are returned.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ranking {
    /// By [`Space::dist`], smallest first.
    Distance,
    /// By [`Space::similarity`], largest first: the cosine on the sphere, the negated distance elsewhere.
    Similarity,
    /// By [`Space::inner`], largest first. On a single hyperboloid the order is that of the distance. On a product it
    /// differs, and it is the score with which PHyCLIP was evaluated.
    Inner,
    /// By [`Space::exterior_angle`] with respect to the root of the index, smallest first: the descendants or ancestors
    /// of a point.
    Angle(Direction),
    /// Only rows that pass the gate, by [`Space::similarity`], largest first: the gated entailment angle of visual
    /// hierarchies (Wang et al., App. B.2).
    Gated(Gate),
    /// Only rows that pass the gate, by [`Space::depth`] from the root of the index, smallest first: from general to
    /// specific, as in the interface of visual hierarchies. A search returns the `k` most general rows that pass.
    Depth(Gate),
}

/// A limit that rows must satisfy in addition to the ranking.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Gate {
    /// [`Space::exterior_angle`] is at most this angle, in radians.
    Angle(Direction, f32),
    /// [`Space::dist`] is at most this distance.
    Distance(f32),
}

/// The side of the hierarchy on which the rows are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The query is the parent and the rows are its children: from general to specific.
    Down,
    /// The rows are the parents of the query: from specific to general.
    Up,
}

impl Ranking {
    /// The value by which rows are ranked, in its own unit. The gate is not applied.
    pub(crate) fn score(self, space: &dyn Space<f32>, root: &Root, query: &[f32], row: &[f32]) -> f32 {
        match self {
            Ranking::Distance => space.dist(query, row),
            Ranking::Similarity | Ranking::Gated(_) => space.similarity(query, row),
            Ranking::Inner => space.inner(query, row),
            Ranking::Angle(Direction::Down) => space.exterior_angle(query, row, root),
            Ranking::Angle(Direction::Up) => space.exterior_angle(row, query, root),
            Ranking::Depth(_) => space.depth(row, root),
        }
    }

    /// The score with its sign changed if needed, so that smaller is better.
    pub(crate) fn key(self, score: f32) -> f32 {
        match self {
            Ranking::Distance | Ranking::Angle(_) | Ranking::Depth(_) => score,
            Ranking::Similarity | Ranking::Inner | Ranking::Gated(_) => -score,
        }
    }

    pub(crate) fn gate(self) -> Option<Gate> {
        match self {
            Ranking::Gated(gate) | Ranking::Depth(gate) => Some(gate),
            _ => None,
        }
    }

    /// # Errors
    /// Fails if the limit of the gate is NaN.
    pub(crate) fn check(self) -> Result<()> {
        match self.gate() {
            Some(gate) if gate.limit().is_nan() => Err(Error::invalid("the gate", "NaN", "a number")),
            _ => Ok(()),
        }
    }
}

impl Gate {
    /// The ranking by the value that the gate limits.
    pub(crate) fn ranking(self) -> Ranking {
        match self {
            Gate::Angle(direction, _) => Ranking::Angle(direction),
            Gate::Distance(_) => Ranking::Distance,
        }
    }

    /// The largest value that passes.
    pub(crate) fn limit(self) -> f32 {
        match self {
            Gate::Angle(_, limit) | Gate::Distance(limit) => limit,
        }
    }

    pub(crate) fn admits(self, space: &dyn Space<f32>, root: &Root, query: &[f32], row: &[f32]) -> bool {
        self.ranking().score(space, root, query, row) <= self.limit()
    }
}

/// A row that was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hit {
    /// Row index in the set that was indexed.
    pub row: usize,
    /// The score of the ranking: a distance, similarity, inner product, depth, or angle in radians.
    pub score: f32,
}
