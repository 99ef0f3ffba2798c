//! Projects embeddings into the Poincare disc: a two-dimensional picture of how general the rows are.
//!
//! The projection keeps the distance of a row from the root. With the depth `d` of a row ([`Space::depth`]) and the
//! curvature parameter `c`, the radius of the row is
//!
//! `r = tanh(sqrt(c) d / 2)`.
//!
//! This is the radius of a point at distance `d` from the centre of the Poincare disc of curvature `-c`. For a product,
//! `c` is the mean over its factors. The sphere and flat space have no `c`; there `r` is proportional to `d`, and the
//! deepest row is at [`FLAT_RADIUS`].
//!
//! The direction of a row comes from its tangent vector at the root (`log_root`, with the vectors of all factors
//! concatenated). On the sphere and in flat space, the difference between the row and the root is used instead. The
//! vector is normalised and projected onto the first two principal components of these unit vectors over at most
//! [`SAMPLE`] evenly spaced rows. **Distances and angles between rows are therefore not those of the space**: rows that
//! are close in the picture may be far apart.
//!
//! All computations use f64 and depend only on the set, so a row has the same position in every picture.

use std::borrow::Cow;

use conifer_geometry::safe::{EPS_F64, asinhc, ratio};
use conifer_geometry::slices::{dot, norm, scaled};
use conifer_geometry::{ManifoldSpec, Root, Space, space};
use rayon::prelude::*;

use crate::principal::principal;
use crate::projection::PointMap;

/// Maximum number of rows from which the principal components are computed.
const SAMPLE: usize = 1024;

/// Radius of the deepest row in a space without a curvature parameter.
const FLAT_RADIUS: f64 = 0.95;

/// Steps of the power iteration.
const STEPS: usize = 64;

/// A projection of a space into the disc.
pub struct PoincareDisc {
    spec: ManifoldSpec,
    root: Root,
    geometry: Box<dyn Space<f64>>,
    /// Mean of the unit directions.
    mean: Vec<f64>,
    /// The first two principal components as unit vectors; a component is zero if the rows do not vary along it.
    axes: Vec<Vec<f64>>,
    /// `sqrt(c)`; `None` for the sphere and flat space.
    root_curv: Option<f64>,
    /// Depth of the deepest row. It is computed only for spaces without a curvature parameter.
    deepest: f64,
}

/// Rows projected into the disc.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DiscMap {
    /// Numbers of the rows shown, ascending.
    pub rows: Vec<usize>,
    /// x coordinate of each row, `|(x, y)| < 1`.
    pub x: Vec<f64>,
    /// y coordinate of each row.
    pub y: Vec<f64>,
    /// [`Space::depth`] of each row.
    pub depth: Vec<f64>,
}

/// A point projected into the disc.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DiscPoint {
    /// x coordinate, `|(x, y)| < 1`.
    pub x: f64,
    /// y coordinate.
    pub y: f64,
    /// [`Space::depth`] of the point.
    pub depth: f64,
}

impl PoincareDisc {
    /// Fits the projection to `len` points. `row` returns the coordinates of a point.
    ///
    /// # Errors
    /// The space is not valid.
    pub fn new<'a>(
        spec: &ManifoldSpec,
        root: &Root,
        len: usize,
        row: impl Fn(usize) -> Cow<'a, [f32]> + Sync,
    ) -> conifer_geometry::Result<Self> {
        let geometry = space::<f64>(spec)?;
        let directions: Vec<Vec<f64>> =
            spread(len, SAMPLE).into_par_iter().map(|i| direction(spec, root, &wide(&row(i)))).collect();
        let mut mean = vec![0.0; spec.dim];
        for direction in &directions {
            mean.iter_mut().zip(direction).for_each(|(m, v)| *m += v / directions.len() as f64);
        }
        let centred: Vec<Vec<f64>> =
            directions.iter().map(|it| it.iter().zip(&mean).map(|(v, m)| v - m).collect()).collect();
        let deepest = match root_curv(spec) {
            Some(_) => 0.0, // not used
            None => (0..len).into_par_iter().map(|i| geometry.depth(&wide(&row(i)), root)).reduce(|| 0.0, f64::max),
        };
        let axes = principal(&centred, spec.dim, 2, STEPS);
        Self::of_parts(spec, root, mean, axes, deepest)
    }

    /// The projection with the numbers of [`PoincareDisc::point_map`].
    pub(crate) fn of_parts(
        spec: &ManifoldSpec,
        root: &Root,
        mean: Vec<f64>,
        axes: Vec<Vec<f64>>,
        deepest: f64,
    ) -> conifer_geometry::Result<Self> {
        let (geometry, root_curv) = (space::<f64>(spec)?, root_curv(spec));
        Ok(PoincareDisc { spec: spec.clone(), root: root.clone(), geometry, mean, axes, root_curv, deepest })
    }

    /// The projection as numbers that can be stored.
    pub fn point_map(&self) -> PointMap {
        PointMap::Disc { mean: self.mean.clone(), axes: self.axes.clone(), deepest: self.deepest }
    }

    /// Projects a point of the space, which need not be a row.
    pub fn project(&self, point: &[f32]) -> DiscPoint {
        let point = wide(point);
        let depth = self.geometry.depth(&point, &self.root);
        let direction = direction(&self.spec, &self.root, &point);
        let [x, y] = [0, 1].map(|at| dot(&direction, &self.axes[at]) - dot(&self.mean, &self.axes[at]));
        let radius = match self.root_curv {
            Some(root_curv) => (root_curv * depth / 2.0).tanh(),
            None => FLAT_RADIUS * ratio(depth, self.deepest),
        };
        // In f64, `tanh(x)` is 1 from about x = 19, and a query point may be farther out than all rows.
        let radius = radius.min(1.0 - EPS_F64);
        match ratio(1.0, x.hypot(y)) {
            0.0 => DiscPoint { x: radius, y: 0.0, depth },
            scale => DiscPoint { x: radius * x * scale, y: radius * y * scale, depth },
        }
    }

    /// Projects up to `limit` of `len` rows, evenly spaced over the set.
    pub fn map<'a>(&self, len: usize, row: impl Fn(usize) -> Cow<'a, [f32]> + Sync, limit: usize) -> DiscMap {
        let rows = spread(len, limit);
        let projected: Vec<DiscPoint> = rows.par_iter().map(|&i| self.project(&row(i))).collect();
        DiscMap {
            rows,
            x: projected.iter().map(|it| it.x).collect(),
            y: projected.iter().map(|it| it.y).collect(),
            depth: projected.iter().map(|it| it.depth).collect(),
        }
    }
}

/// Root of the mean curvature parameter; `None` for the sphere and flat space.
fn root_curv(spec: &ManifoldSpec) -> Option<f64> {
    (!spec.curv.is_empty()).then(|| (spec.curv.iter().sum::<f64>() / spec.curv.len() as f64).sqrt())
}

/// Returns `count` evenly spaced numbers below `len`, ascending; all numbers if `len` is at most `count`.
pub fn spread(len: usize, count: usize) -> Vec<usize> {
    if len <= count {
        return (0..len).collect();
    }
    // Start half a step in, so that neither end is favoured.
    (0..count).map(|i| ((2 * i + 1) as u128 * len as u128 / (2 * count) as u128) as usize).collect()
}

pub(crate) fn wide(row: &[f32]) -> Vec<f64> {
    row.iter().map(|v| f64::from(*v)).collect()
}

/// The unit vector along the [`tangent`] vector; zero at the root.
fn direction(spec: &ManifoldSpec, root: &Root, point: &[f64]) -> Vec<f64> {
    let mut tangent = tangent(spec, root, point);
    let scale = ratio(1.0, norm(&tangent));
    tangent.iter_mut().for_each(|v| *v *= scale);
    tangent
}

/// `log_root(point)` with the vectors of all factors concatenated, or `point - root` in a space without a curvature
/// parameter.
pub(crate) fn tangent(spec: &ManifoldSpec, root: &Root, point: &[f64]) -> Vec<f64> {
    let mut tangent = match root {
        Root::Origin => point.to_vec(),
        Root::Point(root) => point.iter().zip(root).map(|(x, r)| x - r).collect(),
    };
    for (factor, curv) in spec.curv.iter().enumerate() {
        let range = factor * spec.factor_dim()..(factor + 1) * spec.factor_dim();
        let moved = match root {
            Root::Origin => point[range.clone()].to_vec(),
            Root::Point(root) => boosted(&root[range.clone()], &point[range.clone()], *curv),
        };
        // log_0(x) = x asinh(sqrt(c) |x|) / (sqrt(c) |x|)
        let length = curv.sqrt() * norm(&moved);
        let scale = asinhc(length);
        scaled(&moved, scale, &mut tangent[range]);
    }
    tangent
}

/// The space components of a point of the hyperboloid after the Lorentz boost that takes `root` to the origin:
/// `x + p ((p . x) c / (1 + sqrt(c) t(p)) - sqrt(c) t(x))`, with `p` the root.
pub(crate) fn boosted(root: &[f64], point: &[f64], curv: f64) -> Vec<f64> {
    let time = |x: &[f64]| (1.0 + curv * dot(x, x)).sqrt(); // sqrt(c) t(x)
    let along = curv * dot(root, point) / (1.0 + time(root)) - time(point);
    point.iter().zip(root).map(|(x, p)| x + along * p).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn disc(spec: &ManifoldSpec, root: Root, points: &[f32]) -> (PoincareDisc, DiscMap) {
        let len = points.len() / spec.dim;
        let row = |i: usize| Cow::Borrowed(&points[i * spec.dim..(i + 1) * spec.dim]);
        let disc = PoincareDisc::new(spec, &root, len, row).unwrap();
        let map = disc.map(len, row, 100);
        (disc, map)
    }

    /// Points of a hyperbolic plane keep their depth and, up to the rotation and reflection of the principal
    /// components, their direction. The points lie on two orthogonal lines through the root.
    #[test]
    fn hyperbolic_plane_keeps_depth_and_direction() {
        let (curv, far, near) = (2.0_f64, 1.5_f32, 0.5_f32);
        let points = [far, 0.0, -far, 0.0, far, 0.0, -far, 0.0, 0.0, near, 0.0, -near];
        let (_, map) = disc(&ManifoldSpec::lorentz(2, curv), Root::Origin, &points);
        // tanh(asinh(s) / 2) = s / (1 + sqrt(1 + s^2)), s = sqrt(c) |x|
        let radius = |x: f32| {
            let s = curv.sqrt() * f64::from(x);
            s / (1.0 + (1.0 + s * s).sqrt())
        };
        for (i, x) in [radius(far), -radius(far)].into_iter().enumerate() {
            assert!((map.x[i] - x).abs() < 1e-12 && map.y[i].abs() < 1e-12, "{i}: {} {}", map.x[i], map.y[i]);
        }
        assert!((map.y[4] - radius(near)).abs() < 1e-12 && map.x[4].abs() < 1e-12);
        assert!((map.depth[4] - (2.0_f64.sqrt() * 0.5).asinh() / 2.0_f64.sqrt()).abs() < 1e-12);
    }

    #[test]
    fn point_root_is_projected_to_the_centre() {
        let root = vec![0.75, -0.25, 0.125]; // exact in f32
        let spec = ManifoldSpec::lorentz(3, 0.7);
        let points = [0.75, -0.25, 0.125, 0.1, 0.9, -0.4, -0.6, 0.2, 0.5];
        let (disc, map) = disc(&spec, Root::Point(root.clone()), &points);
        assert!(map.x[0].hypot(map.y[0]) < 1e-12);
        for i in 1..3 {
            let point = wide(&points[3 * i..3 * i + 3]);
            let depth = disc.geometry.depth(&point, &disc.root);
            assert!((map.x[i].hypot(map.y[i]) - (0.7_f64.sqrt() * depth / 2.0).tanh()).abs() < 1e-12);
            // The boost is an isometry that maps the root to the origin, so it keeps the depth.
            let boosted_point = boosted(&root, &point, 0.7);
            assert!((disc.geometry.depth(&boosted_point, &Root::Origin) - depth).abs() < 1e-12);
        }
    }

    #[test]
    fn projection_is_deterministic_and_inside_the_disc() {
        for entry in &conifer_geometry::SPACES {
            for spec in (entry.sample)(7) {
                let geometry = space::<f32>(&spec).unwrap();
                let mut points = vec![0.0; 40 * spec.dim];
                for (i, point) in points.chunks_exact_mut(spec.dim).enumerate() {
                    let tangent: Vec<f32> =
                        (0..spec.dim).map(|j| ((i * 31 + j * 17 + 3) as f32).sin() * (1 + i) as f32 / 4.0).collect();
                    geometry.lift(&tangent, point);
                }
                let (first, map) = disc(&spec, Root::Origin, &points);
                for i in 0..40 {
                    let radius = map.x[i].hypot(map.y[i]);
                    assert!(radius < 1.0, "{spec}: row {i} at {radius}");
                }
                assert_eq!(map, disc(&spec, Root::Origin, &points).1);
                let projected = first.project(&points[3 * spec.dim..4 * spec.dim]);
                assert_eq!((projected.x, projected.y, projected.depth), (map.x[3], map.y[3], map.depth[3]));
            }
        }
    }

    #[test]
    fn spread_returns_evenly_spaced_numbers() {
        assert_eq!(spread(3, 5), [0, 1, 2]);
        assert_eq!(spread(10, 5), [1, 3, 5, 7, 9]);
        assert_eq!(spread(7, 2), [1, 5]);
        assert_eq!(spread(0, 4), [0; 0]);
        assert_eq!(spread(4, 0), [0; 0]);
    }

    /// Rows on a line through the root vary along one axis: the second axis is zero, and rows lie on both sides of the
    /// centre.
    #[test]
    fn rows_on_a_line_are_projected_to_a_line() {
        let spec = ManifoldSpec::euclidean(3);
        let (_, map) = disc(&spec, Root::Origin, &[1., 2., 2., -2., -4., -4.]);
        assert!(map.y.iter().all(|y| y.abs() < 1e-12), "{:?}", map.y);
        // The depths are 3 and 6, and the deeper row is at 0.95.
        assert!((map.x[0].abs() - 0.475).abs() < 1e-12 && (map.x[1].abs() - 0.95).abs() < 1e-12);
        assert!(map.x[0] * map.x[1] < 0.0);
        assert!(disc(&spec, Root::Origin, &[]).1.rows.is_empty());
    }
}
