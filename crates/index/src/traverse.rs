//! Traversals: sample the path from a point to the root, or to another point, and name the nearest row at every step.
//!
//! The path is a geodesic of the space or a straight line in the tangent space at the origin ([`PathKind`]), sampled
//! at `steps` points including both ends. Towards the origin of a hyperboloid both are the same (Desai et al. 2023,
//! Section 4.3). Each sample takes the nearest row by [`Ranking::Similarity`]. With a [`Cone`], only rows whose cone
//! contains the sample are admitted. Rows are reported once, in the order in which they first occur.

use conifer_geometry::Root;
use conifer_geometry::safe::UNIT_TOLERANCE;
use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::filter::Filter;
use crate::flat::FlatIndex;
use crate::query::{Hit, Query, Ranking};

/// Settings of a traversal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Traversal {
    /// Number of samples on the path, including both ends; at least 2.
    pub steps: usize,
    /// The kind of line between both ends.
    pub path: PathKind,
    /// Admits only rows whose cone contains the sample; `None` admits every row (HyCoCLIP's interpolation).
    pub cone: Option<Cone>,
}

/// The kind of line that a traversal samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PathKind {
    /// The shortest line of the space ([`Space::geodesic`](conifer_geometry::Space::geodesic)).
    #[default]
    Geodesic,
    /// The straight line between tangent vectors at the origin
    /// ([`Space::tangent_line`](conifer_geometry::Space::tangent_line)), with which HyCoCLIP interpolates.
    Tangent,
}

/// The cone of a row, which must contain the sample: `Space::cone_excess <= 0` with the row as the parent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cone {
    /// The constant K of `Space::half_aperture`. Near the root a cone is a half-space.
    pub min_radius: f32,
    /// Factor on the half-aperture.
    pub aperture_scale: f32,
}

/// A row or the root that a traversal passes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stop {
    /// The row, or the root.
    pub place: StopPlace,
    /// Position on the path, in [0, 1], of the first sample whose nearest neighbour is this stop.
    pub at: f32,
    /// Similarity of the row or root to that sample.
    pub similarity: f32,
}

/// One sample of a traversal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// Position of the sample on the path, as a fraction in [0, 1].
    pub at: f32,
    /// The nearest admitted row. `None` if no row is admitted or, on a path to the root, if the root is more similar.
    pub nearest: Option<Hit>,
    /// The similarity of the sample to the end of the path.
    pub to_end: f32,
}

/// What a traversal passes at a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopPlace {
    /// A row of the index.
    Row(usize),
    /// The root.
    Root,
}

impl Default for Traversal {
    /// 50 steps on the geodesic, with MERU's cone.
    fn default() -> Self {
        Traversal { steps: 50, path: PathKind::Geodesic, cone: Some(Cone::default()) }
    }
}

impl Traversal {
    /// HyCoCLIP's interpolation between two points (Appendix G): 100 samples of the straight line between their tangent
    /// vectors at the origin. All rows are candidates.
    pub fn interpolation() -> Self {
        Traversal { steps: 100, path: PathKind::Tangent, cone: None }
    }
}

impl Default for Cone {
    /// `K = 0.1` and the full aperture, as in MERU.
    fn default() -> Self {
        Cone { min_radius: 0.1, aperture_scale: 1.0 }
    }
}

impl FlatIndex {
    /// Traverses the path from the single point `from` to the root of the index. The root competes with the rows at
    /// every step, is always admitted, and is the last stop.
    ///
    /// # Errors
    /// Fails if `from` is not exactly one point of the space of the index, if there are fewer than two steps, if the
    /// root is not a point of the space, such as the origin on the sphere, or if the tangent line leaves the space.
    /// Also fails if the filter is invalid for this index, see [`Filter`].
    pub fn traverse_to_root(&self, from: &Query<'_>, traversal: &Traversal, filter: &Filter<'_>) -> Result<Vec<Stop>> {
        let mut stops = Vec::new();
        let mut root_stop = None;
        for step in self.steps_to_root(from, traversal, filter)? {
            match step.nearest {
                Some(hit) => push_new(&mut stops, hit, step.at),
                None => {
                    root_stop =
                        root_stop.or(Some(Stop { place: StopPlace::Root, at: step.at, similarity: step.to_end }))
                }
            }
        }
        let root = self.root_point()?;
        let at_end = Stop { place: StopPlace::Root, at: 1.0, similarity: self.space().similarity(&root, &root) };
        stops.push(root_stop.unwrap_or(at_end));
        Ok(stops)
    }

    /// Returns every sample of [`FlatIndex::traverse_to_root`], for callers that merge several indexes. A sample has a
    /// row only if the row is at least as similar as the root.
    ///
    /// # Errors
    /// Returns the errors of [`FlatIndex::traverse_to_root`].
    pub fn steps_to_root(&self, from: &Query<'_>, traversal: &Traversal, filter: &Filter<'_>) -> Result<Vec<Step>> {
        let root = self.root_point()?;
        let path = self.path("the start of a traversal", from, &root, traversal)?;
        let to_root: Vec<f32> =
            path.chunks_exact(root.len()).map(|point| self.space().similarity(point, &root)).collect();
        let nearest = self.nearest_on_path(&path, &to_root, traversal.cone, filter)?;
        let step = |(i, (nearest, to_end))| Step { at: fraction(i, traversal.steps), nearest, to_end };
        Ok(nearest.into_iter().zip(to_root).enumerate().map(step).collect())
    }

    /// Traverses the path from the single point `from` to the single point `to`.
    ///
    /// # Errors
    /// Fails if `from` or `to` is not exactly one point of the space of the index, if there are fewer than two steps,
    /// or if the tangent line leaves the space, as halfway between opposite points of the sphere. Also fails if the
    /// filter is invalid for this index, see [`Filter`].
    pub fn traverse_between(
        &self,
        from: &Query<'_>,
        to: &Query<'_>,
        traversal: &Traversal,
        filter: &Filter<'_>,
    ) -> Result<Vec<Stop>> {
        let mut stops = Vec::new();
        for step in self.steps_between(from, to, traversal, filter)? {
            if let Some(hit) = step.nearest {
                push_new(&mut stops, hit, step.at);
            }
        }
        Ok(stops)
    }

    /// Returns every sample of [`FlatIndex::traverse_between`], for callers that merge several indexes.
    ///
    /// # Errors
    /// Returns the errors of [`FlatIndex::traverse_between`].
    pub fn steps_between(
        &self,
        from: &Query<'_>,
        to: &Query<'_>,
        traversal: &Traversal,
        filter: &Filter<'_>,
    ) -> Result<Vec<Step>> {
        let to = to.single("the end of a traversal", self.space())?;
        let path = self.path("the start of a traversal", from, to, traversal)?;
        let anything = vec![f32::NEG_INFINITY; traversal.steps];
        let nearest = self.nearest_on_path(&path, &anything, traversal.cone, filter)?;
        let to_end = path.chunks_exact(to.len()).map(|point| self.space().similarity(point, to));
        let step = |(i, (nearest, to_end))| Step { at: fraction(i, traversal.steps), nearest, to_end };
        Ok(nearest.into_iter().zip(to_end).enumerate().map(step).collect())
    }

    /// The root as a point of the space.
    fn root_point(&self) -> Result<Vec<f32>> {
        let origin = vec![0.0; self.spec().dim];
        let root = match self.root() {
            Root::Origin => origin,
            Root::Point(point) => point.iter().map(|v| *v as f32).collect(),
        };
        if f64::from(self.space().off_manifold(&root)) > UNIT_TOLERANCE {
            let expected = format!("a root on the {} to walk to", self.spec());
            return Err(Error::invalid("the root of the index", "not a point of the space", expected));
        }
        Ok(root)
    }

    /// `steps` points on the path, row major.
    fn path(&self, what: &str, from: &Query<'_>, to: &[f32], traversal: &Traversal) -> Result<Vec<f32>> {
        let from = from.single(what, self.space())?;
        let steps = traversal.steps;
        if steps < 2 {
            return Err(Error::invalid("`steps` of a traversal", steps, "at least 2"));
        }
        let mut path = vec![0.0; steps * to.len()];
        for (i, point) in path.chunks_exact_mut(to.len()).enumerate() {
            let at = fraction(i, steps);
            match traversal.path {
                PathKind::Geodesic => self.space().geodesic(from, to, at, point),
                PathKind::Tangent => {
                    self.space().tangent_line(from, to, at, point);
                    if f64::from(self.space().off_manifold(point)) > UNIT_TOLERANCE {
                        let expected = "two points that are not opposite, or the geodesic path";
                        return Err(Error::invalid(
                            format!("the tangent path at {at}"),
                            "not a point of the space",
                            expected,
                        ));
                    }
                }
            }
        }
        Ok(path)
    }

    /// For every sample of a path, the nearest row that is admitted and whose similarity is at least `at_least`.
    ///
    /// Cones are tested on the 64 nearest rows of each sample, nearest first. If none of them is admitted and the 64th
    /// is still similar enough, all rows are tested.
    fn nearest_on_path(
        &self,
        path: &[f32],
        at_least: &[f32],
        cone: Option<Cone>,
        filter: &Filter<'_>,
    ) -> Result<Vec<Option<Hit>>> {
        let points: Vec<&[f32]> = path.chunks_exact(self.spec().dim).collect();
        let k = if cone.is_some() { FIRST } else { 1 };
        let hits = self.top_k(&Query::new(self.spec(), path), Ranking::Similarity, k, filter)?;
        let mut nearest = vec![None; points.len()];
        let mut open = Vec::new();
        for (i, hits) in hits.iter().enumerate() {
            let admitted = |hit: &&Hit| cone.is_none_or(|cone| self.contains(cone, hit.row, points[i]));
            let near = hits.iter().take_while(|hit| hit.score >= at_least[i]);
            nearest[i] = near.clone().find(admitted).copied();
            if nearest[i].is_none() && near.count() == k {
                open.push(i);
            }
        }
        if let Some(cone) = cone.filter(|_| !open.is_empty()) {
            let rows = self.passing(filter)?;
            for (i, hit) in open.iter().zip(self.nearest_of_all(&points, &open, at_least, cone, &rows)) {
                nearest[*i] = hit;
            }
        }
        Ok(nearest)
    }

    /// For the samples `open`, the nearest of `rows` that is admitted and whose similarity is at least `at_least`. Ties
    /// go to the lowest row number. Memory does not grow with the number of rows.
    fn nearest_of_all(
        &self,
        points: &[&[f32]],
        open: &[usize],
        at_least: &[f32],
        cone: Cone,
        rows: &[usize],
    ) -> Vec<Option<Hit>> {
        let better = |a: Option<Hit>, b: Option<Hit>| match (a, b) {
            (Some(a), Some(b)) if b.score > a.score || (b.score == a.score && b.row < a.row) => Some(b),
            (a, b) => a.or(b),
        };
        let look = |mut best: Vec<Option<Hit>>, row: &usize| {
            let point = self.row(*row);
            for (best, i) in best.iter_mut().zip(open) {
                let score = self.space().similarity(points[*i], &point);
                let least = best.map_or(at_least[*i], |best| best.score);
                if score >= least && self.contains(cone, *row, points[*i]) {
                    *best = better(*best, Some(Hit { row: *row, score }));
                }
            }
            best
        };
        let none = || vec![None; open.len()];
        let join = |a: Vec<_>, b: Vec<_>| a.into_iter().zip(b).map(|(a, b)| better(a, b)).collect();
        rows.par_iter().fold(none, look).reduce(none, join)
    }

    fn contains(&self, cone: Cone, row: usize, point: &[f32]) -> bool {
        let parent = self.row(row);
        self.space().cone_excess(&parent, point, cone.min_radius, cone.aperture_scale, self.root()) <= 0.0
    }
}

/// Number of nearest rows per sample that are tested first.
const FIRST: usize = 64;

/// Position of step `i` on the path, exactly 0 and 1 at its ends.
fn fraction(i: usize, steps: usize) -> f32 {
    i as f32 / (steps - 1) as f32
}

fn push_new(stops: &mut Vec<Stop>, hit: Hit, at: f32) {
    let place = StopPlace::Row(hit.row);
    if stops.iter().all(|stop| stop.place != place) {
        stops.push(Stop { place, at, similarity: hit.score });
    }
}

#[cfg(test)]
mod tests;
