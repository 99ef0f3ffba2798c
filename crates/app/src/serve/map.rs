//! A set of embeddings as points of the Poincare disc: a picture, in two dimensions, of how general rows are.
//!
//! The distance from the root is kept, most of the rest is not. With `d` the [`Space::depth`] of a row and `c` the
//! curvature, a row lies at radius
//!
//! `r = tanh(sqrt(c) d / 2)`,
//!
//! where a point at that distance from the centre lies in the Poincare disc of curvature `-c`. A product has the mean
//! of its curvatures; the sphere and flat space have none, so that there `r` is proportional to `d` and the deepest
//! row lies at [`FLAT_RADIUS`]. The direction of a row is that of its tangent vector at the root (`log_root`, the
//! vectors of all factors one after the other), as a unit vector, projected onto the first two principal components
//! of these unit vectors over the set (at most [`SAMPLE`] rows of it, evenly spread). **Distances and angles between rows are
//! therefore not those of the space**: rows that lie close together in the picture may be far apart.
//!
//! Everything is computed in f64 and depends on the set alone: the same row lies at the same place in every picture.

use std::borrow::Cow;

use conifer_space::safe::{EPS_F64, asinhc, ratio};
use conifer_space::slices::{dot, norm, scaled};
use conifer_space::{ManifoldSpec, Root, Space, space};
use rayon::prelude::*;

/// Rows from which the principal components are computed.
const SAMPLE: usize = 1024;

/// Radius of the deepest row where there is no curvature to say it.
const FLAT_RADIUS: f64 = 0.95;

/// Steps of the power iteration. What is left of the third component shrinks by the ratio of the third eigenvalue to the
/// second at each step; where the two are nearly equal, a direction between them makes as good a picture.
const STEPS: usize = 64;

/// What places a point of a space in the disc.
pub(crate) struct Disc {
    spec: ManifoldSpec,
    root: Root,
    geometry: Box<dyn Space<f64>>,
    /// Mean of the unit directions.
    mean: Vec<f64>,
    /// The first two principal components, unit vectors, or zero where rows do not differ.
    axes: [Vec<f64>; 2],
    /// `sqrt(c)`, or nothing in flat spaces.
    root_curv: Option<f64>,
    /// Depth of the deepest row.
    deepest: f64,
}

/// Rows in the disc.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Map {
    /// Numbers of the rows shown, ascending.
    pub(crate) rows: Vec<usize>,
    /// Coordinates of each, `|(x, y)| < 1`.
    pub(crate) x: Vec<f64>,
    pub(crate) y: Vec<f64>,
    /// [`Space::depth`] of each.
    pub(crate) depth: Vec<f64>,
}

/// A point in the disc.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Placed {
    pub(crate) x: f64,
    pub(crate) y: f64,
    /// [`Space::depth`].
    pub(crate) depth: f64,
}

impl Disc {
    /// The disc of `len` points, of which `row` gives the coordinates.
    ///
    /// # Errors
    /// A space that is not valid.
    pub(crate) fn new<'a>(
        spec: &ManifoldSpec,
        root: &Root,
        len: usize,
        row: impl Fn(usize) -> Cow<'a, [f32]> + Sync,
    ) -> conifer_space::Result<Self> {
        let geometry = space::<f64>(spec)?;
        let directions: Vec<Vec<f64>> =
            spread(len, SAMPLE).into_par_iter().map(|i| direction(spec, root, &wide(&row(i)))).collect();
        let mut mean = vec![0.0; spec.dim];
        for direction in &directions {
            mean.iter_mut().zip(direction).for_each(|(m, v)| *m += v / directions.len() as f64);
        }
        let centred: Vec<Vec<f64>> =
            directions.iter().map(|it| it.iter().zip(&mean).map(|(v, m)| v - m).collect()).collect();
        let root_curv =
            (!spec.curv.is_empty()).then(|| (spec.curv.iter().sum::<f64>() / spec.curv.len() as f64).sqrt());
        let deepest = match root_curv {
            Some(_) => 0.0, // which nobody asks for
            None => (0..len).into_par_iter().map(|i| geometry.depth(&wide(&row(i)), root)).reduce(|| 0.0, f64::max),
        };
        let axes = principal(&centred, spec.dim);
        Ok(Disc { spec: spec.clone(), root: root.clone(), geometry, mean, axes, root_curv, deepest })
    }

    /// Where a point of the space lies, a row or not.
    pub(crate) fn place(&self, point: &[f32]) -> Placed {
        let point = wide(point);
        let depth = self.geometry.depth(&point, &self.root);
        let direction = direction(&self.spec, &self.root, &point);
        let [x, y] = self.axes.each_ref().map(|axis| dot(&direction, axis) - dot(&self.mean, axis));
        let radius = match self.root_curv {
            Some(root_curv) => (root_curv * depth / 2.0).tanh(),
            None => FLAT_RADIUS * ratio(depth, self.deepest),
        };
        // In f64 the hyperbolic tangent is 1 from about 19 on, and a point far out may be none of the rows.
        let radius = radius.min(1.0 - EPS_F64);
        match ratio(1.0, x.hypot(y)) {
            0.0 => Placed { x: radius, y: 0.0, depth },
            scale => Placed { x: radius * x * scale, y: radius * y * scale, depth },
        }
    }

    /// Up to `limit` of `len` rows; of more, every `len / limit`-th, so that all parts of the set are shown alike.
    pub(crate) fn map<'a>(&self, len: usize, row: impl Fn(usize) -> Cow<'a, [f32]> + Sync, limit: usize) -> Map {
        let rows = spread(len, limit);
        let placed: Vec<Placed> = rows.par_iter().map(|&i| self.place(&row(i))).collect();
        Map {
            rows,
            x: placed.iter().map(|it| it.x).collect(),
            y: placed.iter().map(|it| it.y).collect(),
            depth: placed.iter().map(|it| it.depth).collect(),
        }
    }
}

/// `count` numbers below `len`, evenly spread and ascending; all of them when there are no more.
fn spread(len: usize, count: usize) -> Vec<usize> {
    if len <= count {
        return (0..len).collect();
    }
    // Half a step in, so that neither end is favoured.
    (0..count).map(|i| ((2 * i + 1) as u128 * len as u128 / (2 * count) as u128) as usize).collect()
}

fn wide(row: &[f32]) -> Vec<f64> {
    row.iter().map(|v| f64::from(*v)).collect()
}

/// The unit vector along `log_root(point)`; zero at the root, which has no direction.
fn direction(spec: &ManifoldSpec, root: &Root, point: &[f64]) -> Vec<f64> {
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
    let scale = ratio(1.0, norm(&tangent));
    tangent.iter_mut().for_each(|v| *v *= scale);
    tangent
}

/// The space components of a point of the hyperboloid after the Lorentz boost that takes `root` to the origin:
/// `x + p ((p . x) c / (1 + sqrt(c) t(p)) - sqrt(c) t(x))`, with `p` the root.
fn boosted(root: &[f64], point: &[f64], curv: f64) -> Vec<f64> {
    let time = |x: &[f64]| (1.0 + curv * dot(x, x)).sqrt(); // sqrt(c) t(x)
    let along = curv * dot(root, point) / (1.0 + time(root)) - time(point);
    point.iter().zip(root).map(|(x, p)| x + along * p).collect()
}

/// The two unit vectors along which centred rows vary most, by power iteration on both at once; zero vectors where
/// rows vary along fewer. The sign is that which makes the component of largest size positive.
fn principal(centred: &[Vec<f64>], dim: usize) -> [Vec<f64>; 2] {
    // Any start that is orthogonal to nothing in particular: fractions of the golden ratio, the same in every run.
    let start = |shift: usize| -> Vec<f64> {
        (0..dim).map(|i| ((i * 2 + shift + 1) as f64 * 0.618_033_988_749_895).fract() - 0.5).collect()
    };
    let mut axes = [start(0), start(1)];
    for _ in 0..STEPS {
        axes = axes.map(|axis| {
            let mut next = vec![0.0; dim];
            for row in centred {
                let along = dot(row, &axis);
                next.iter_mut().zip(row).for_each(|(n, v)| *n += along * v);
            }
            next
        });
        orthonormalise(&mut axes);
    }
    axes.map(|mut axis| {
        let most = axis.iter().copied().fold(0.0_f64, |most, v| if v.abs() > most.abs() { v } else { most });
        if most < 0.0 {
            axis.iter_mut().for_each(|v| *v = -*v);
        }
        axis
    })
}

fn orthonormalise([first, second]: &mut [Vec<f64>; 2]) {
    let scale = ratio(1.0, norm(first));
    first.iter_mut().for_each(|v| *v *= scale);
    let before = norm(second);
    let along = dot(first, second);
    second.iter_mut().zip(first.iter()).for_each(|(s, f)| *s -= along * f);
    // What rounding leaves of a vector that lay along the first is no direction.
    let left = norm(second);
    let scale = if left > before * EPS_F64 { ratio(1.0, left) } else { 0.0 };
    second.iter_mut().for_each(|v| *v *= scale);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn disc(spec: &ManifoldSpec, root: Root, points: &[f32]) -> (Disc, Map) {
        let len = points.len() / spec.dim;
        let row = |i: usize| Cow::Borrowed(&points[i * spec.dim..(i + 1) * spec.dim]);
        let disc = Disc::new(spec, &root, len, row).unwrap();
        let map = disc.map(len, row, 100);
        (disc, map)
    }

    /// Points of a hyperbolic plane keep their depth, and, up to the turn and the mirror that principal components
    /// are free in, their direction: points on two orthogonal lines through the root.
    #[test]
    fn a_plane_is_its_own_picture() {
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
    fn a_root_that_is_a_point_is_the_centre() {
        let root = vec![0.75, -0.25, 0.125]; // exact in f32
        let spec = ManifoldSpec::lorentz(3, 0.7);
        let points = [0.75, -0.25, 0.125, 0.1, 0.9, -0.4, -0.6, 0.2, 0.5];
        let (disc, map) = disc(&spec, Root::Point(root.clone()), &points);
        assert!(map.x[0].hypot(map.y[0]) < 1e-12);
        for i in 1..3 {
            let point = wide(&points[3 * i..3 * i + 3]);
            let depth = disc.geometry.depth(&point, &disc.root);
            assert!((map.x[i].hypot(map.y[i]) - (0.7_f64.sqrt() * depth / 2.0).tanh()).abs() < 1e-12);
            // The boost is an isometry: what was `depth` from the root is `depth` from the origin.
            let seen = boosted(&root, &point, 0.7);
            assert!((disc.geometry.depth(&seen, &Root::Origin) - depth).abs() < 1e-12);
        }
    }

    #[test]
    fn every_space_stays_inside_the_disc_and_repeats_itself() {
        for entry in &conifer_space::SPACES {
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
                let placed = first.place(&points[3 * spec.dim..4 * spec.dim]);
                assert_eq!((placed.x, placed.y, placed.depth), (map.x[3], map.y[3], map.depth[3]));
            }
        }
    }

    #[test]
    fn more_rows_than_the_limit_are_spread_evenly() {
        assert_eq!(spread(3, 5), [0, 1, 2]);
        assert_eq!(spread(10, 5), [1, 3, 5, 7, 9]);
        assert_eq!(spread(7, 2), [1, 5]);
        assert_eq!(spread(0, 4), [0; 0]);
        assert_eq!(spread(4, 0), [0; 0]);
    }

    /// A line through the root has one direction: the second axis is zero, and rows lie on both sides.
    #[test]
    fn rows_on_a_line_lie_on_a_line() {
        let spec = ManifoldSpec::euclidean(3);
        let (_, map) = disc(&spec, Root::Origin, &[1., 2., 2., -2., -4., -4.]);
        assert!(map.y.iter().all(|y| y.abs() < 1e-12), "{:?}", map.y);
        // Depths 3 and 6, the deeper one at 0.95.
        assert!((map.x[0].abs() - 0.475).abs() < 1e-12 && (map.x[1].abs() - 0.95).abs() < 1e-12);
        assert!(map.x[0] * map.x[1] < 0.0);
        assert!(disc(&spec, Root::Origin, &[]).1.rows.is_empty());
    }
}
