//! Places further points, such as queries, in a map that was made before.

use conifer_geometry::{ManifoldSpec, Root};

use super::horopca;
use super::hyperbolic_rows::{HyperbolicRows, to_ball};
use super::neighbour_graph::{memberships, out_of_order};
use super::tangent_pca;
use super::umap::{self, UmapTarget};
use crate::{Error, PoincareDisc, Result};

/// A fitted projection that is a formula: it gives each point a place, whether or not it was a row of the map.
///
/// The space and root of all functions are those of the set, or of the projected factor.
#[derive(Clone, Debug, PartialEq)]
pub enum PointMap {
    /// [`super::tangent_pca()`]: coordinates along the axes.
    Tangent {
        /// Unit vectors in the tangent space at the root, `[K, dim]`.
        axes: Vec<Vec<f64>>,
    },
    /// [`super::TangentPca::of_hyperboloid`].
    TangentHyperboloid {
        /// [`HyperbolicRows::center`].
        center: Vec<f64>,
        /// Unit vectors in the tangent space at the centre, `[K, dim]`.
        axes: Vec<Vec<f64>>,
    },
    /// [`super::HoroPca`].
    Horospherical {
        /// [`HyperbolicRows::center`].
        center: Vec<f64>,
        /// [`super::HoroPca::directions`], `[K, dim]`.
        directions: Vec<Vec<f64>>,
    },
    /// [`PoincareDisc`].
    Disc {
        /// Mean direction of the rows.
        mean: Vec<f64>,
        /// Two principal directions.
        axes: Vec<Vec<f64>>,
        /// Depth of the deepest row; not used in a hyperbolic space.
        deepest: f64,
    },
}

impl PointMap {
    /// The coordinates of a point in the map. A row of the map gets the coordinates that it has in the map.
    ///
    /// # Errors
    /// The space is invalid, or the map belongs to another space; the point has another dimension or a coordinate that is
    /// not finite.
    pub fn place(&self, spec: &ManifoldSpec, root: &Root, point: &[f32]) -> Result<Vec<f64>> {
        spec.check()?;
        if point.len() != spec.dim {
            return Err(Error::invalid("point", format!("{} numbers", point.len()), format!("{} numbers", spec.dim)));
        }
        if let Some(at) = point.iter().position(|v| !v.is_finite()) {
            return Err(Error::invalid(format!("point, coordinate {at}"), point[at], "a finite number"));
        }
        let (lists, is_hyperboloid): (Vec<&Vec<f64>>, bool) = match self {
            PointMap::Tangent { axes } => (axes.iter().collect(), false),
            PointMap::TangentHyperboloid { center, axes: list }
            | PointMap::Horospherical { center, directions: list } => (list.iter().chain([center]).collect(), true),
            PointMap::Disc { mean, axes, .. } => (axes.iter().chain([mean]).collect(), false),
        };
        if let Some(other) = lists.iter().find(|it| it.len() != spec.dim) {
            return Err(Error::invalid(
                "map",
                format!("{} dimensions", other.len()),
                format!("{} of {spec}", spec.dim),
            ));
        }
        if is_hyperboloid && spec.curv.len() != 1 {
            let found = format!("a map of one hyperboloid for {spec}");
            return Err(Error::invalid("map", found, "a space of one hyperboloid"));
        }
        if lists.len() <= usize::from(is_hyperboloid) {
            return Err(Error::invalid("map", "no axes", "at least 1"));
        }
        if let PointMap::Disc { axes, .. } = self
            && axes.len() != 2
        {
            return Err(Error::invalid("map", format!("{} axes", axes.len()), "2 axes of a disc"));
        }
        let moved = |center: &[f64]| {
            HyperbolicRows::of_factor(spec, root, None, 1, |_| point.into()).map(|it| it.centred_at(center))
        };
        let in_ball = |space: Vec<f64>| {
            let mut ball = vec![0.0; space.len()];
            to_ball(&space, &mut ball);
            ball
        };
        Ok(match self {
            PointMap::Tangent { axes } => tangent_pca::along(axes, spec, root, point),
            PointMap::TangentHyperboloid { center, axes } => {
                let mut out = vec![0.0; axes.len()];
                tangent_pca::submanifold(axes, moved(center)?.row(0), &mut out);
                in_ball(out)
            }
            PointMap::Horospherical { center, directions } => {
                let mut out = vec![0.0; directions.len()];
                horopca::project(moved(center)?.row(0), directions, &mut out);
                in_ball(out)
            }
            PointMap::Disc { mean, axes, deepest } => {
                let disc = PoincareDisc::of_parts(spec, root, mean.clone(), axes.clone(), *deepest)?;
                let found = disc.project(point);
                vec![found.x, found.y]
            }
        })
    }
}

/// Places a point between its neighbours in a map that has no formula (UMAP, CO-SNE): at their Frechet mean, weighted by
/// the memberships of UMAP's neighbour graph. A point that coincides with rows is placed at the mean of these rows.
///
/// `neighbours` are the positions of the nearest rows in the map and their distances from the point, nearest first.
///
/// # Errors
/// There are no neighbours; a distance is negative, not finite, or less than the one before; a position is not finite, or
/// not in the disc.
pub fn place_by_neighbours(target: UmapTarget, neighbours: &[([f64; 2], f64)]) -> Result<[f64; 2]> {
    if neighbours.is_empty() {
        return Err(Error::invalid("neighbours", 0, "at least 1"));
    }
    let distances: Vec<f64> = neighbours.iter().map(|it| it.1).collect();
    if let Some(bad) = out_of_order(&distances) {
        let expected = "finite ascending distances, zero or positive";
        return Err(Error::invalid("distance of a neighbour", bad, expected));
    }
    let inside = |[x, y]: [f64; 2]| match target {
        UmapTarget::Plane => x.is_finite() && y.is_finite(),
        UmapTarget::Disc => x * x + y * y < 1.0,
    };
    if let Some((bad, _)) = neighbours.iter().find(|it| !inside(it.0)) {
        let expected = match target {
            UmapTarget::Plane => "finite numbers",
            UmapTarget::Disc => "a point inside the unit disc",
        };
        return Err(Error::invalid("position of a neighbour", format!("{bad:?}"), expected));
    }
    let same = neighbours.iter().filter(|it| it.1 == 0.0).count();
    let used = if same > 0 { &neighbours[..same] } else { neighbours };
    let points: Vec<[f64; 2]> = used.iter().map(|it| it.0).collect();
    Ok(umap::mean_of(target, &points, &memberships(&distances[..used.len()], 0.0)))
}
