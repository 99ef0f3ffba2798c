//! What a search is asked, and what it answers.

use conifer_space::safe::{FARTHEST, UNIT_TOLERANCE};
use conifer_space::{EmbeddingSet, ManifoldSpec, Root, Space};

use crate::error::{Error, Result};

/// Points to search for, with the space they belong to.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    spec: &'a ManifoldSpec,
    points: &'a [f32],
}

impl<'a> Query<'a> {
    /// Row-major points `[Q, dim]` of `spec`; one point is a query with one row.
    pub fn new(spec: &'a ManifoldSpec, points: &'a [f32]) -> Self {
        Query { spec, points }
    }

    /// Every row of a set.
    pub fn set(set: &'a EmbeddingSet) -> Self {
        Query::new(&set.spec, &set.points)
    }

    /// Row `i` of a set, which must be below its length.
    pub fn row(set: &'a EmbeddingSet, i: usize) -> Self {
        Query::new(&set.spec, set.row(i))
    }

    /// The space of the points.
    pub(crate) fn spec(&self) -> &'a ManifoldSpec {
        self.spec
    }

    /// The point of a query that is to have just one.
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

    /// The points one by one, once they are known to be points of `space`, that of the index.
    ///
    /// # Errors
    /// Another space than the index has; a number of coordinates that is no multiple of `dim`; a coordinate that is not
    /// finite; a point that is not on the space, or farther out than [`FARTHEST`].
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

/// What makes one row better than another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ranking {
    /// [`Space::dist`], small first.
    Distance,
    /// [`Space::similarity`], large first: the cosine on the sphere, minus the distance elsewhere.
    Similarity,
    /// [`Space::inner`], large first. On one hyperboloid this ranks as the distance does; on a product it is the score
    /// with which PHyCLIP was evaluated, which does not.
    Inner,
    /// [`Space::exterior_angle`] seen from the root of the index, small first: "what lies below / above this?".
    Angle(Direction),
    /// Only the rows that pass the gate, by [`Space::similarity`], large first: the gated angle of visual hierarchies
    /// (Wang et al., App. B.2).
    Gated(Gate),
    /// Only the rows that pass the gate, by [`Space::depth`] from the root of the index, small first: from general to
    /// specific, as visual hierarchies show their results. `k` counts from the general end.
    Depth(Gate),
}

/// A limit that rows must keep, whatever they are ranked by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Gate {
    /// [`Space::exterior_angle`] at most this, radians.
    Angle(Direction, f32),
    /// [`Space::dist`] at most this.
    Distance(f32),
}

/// Which side of the hierarchy the rows are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The query is the parent, the rows are its children: from general to specific.
    Down,
    /// The rows are the parents of the query: from specific to general.
    Up,
}

impl Ranking {
    /// The value by which rows are ranked, in its own unit, whether or not the row passes the gate.
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

    /// The score turned so that the smaller one is the better one.
    pub(crate) fn key(self, score: f32) -> f32 {
        match self {
            Ranking::Distance | Ranking::Angle(_) | Ranking::Depth(_) => score,
            Ranking::Similarity | Ranking::Inner | Ranking::Gated(_) => -score,
        }
    }

    /// What a row must keep to be found at all.
    pub(crate) fn gate(self) -> Option<Gate> {
        match self {
            Ranking::Gated(gate) | Ranking::Depth(gate) => Some(gate),
            _ => None,
        }
    }

    /// # Errors
    /// A gate whose limit is not a number.
    pub(crate) fn check(self) -> Result<()> {
        match self.gate() {
            Some(gate) if gate.limit().is_nan() => Err(Error::invalid("the gate", "NaN", "a number")),
            _ => Ok(()),
        }
    }
}

impl Gate {
    /// The ranking by what the gate limits.
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

    /// Whether a row passes.
    pub(crate) fn admits(self, space: &dyn Space<f32>, root: &Root, query: &[f32], row: &[f32]) -> bool {
        self.ranking().score(space, root, query, row) <= self.limit()
    }
}

/// One row that was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hit {
    /// Row of the set from which the index was made.
    pub row: usize,
    /// The score by which it was ranked: a distance, similarity, inner product, depth, or angle in radians.
    pub score: f32,
}
