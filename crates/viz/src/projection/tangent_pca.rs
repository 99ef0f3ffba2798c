//! PCA of the tangent vectors of the rows at the root, or at another centre on a hyperboloid.
//!
//! The axes are the principal components of the vectors around their mean. The coordinates of a row are the dot
//! products of its tangent vector with the axes, so the centre is at zero. [`TangentPca::of_hyperboloid`] maps them
//! back to the space (`exp`) and then to the Poincare ball, which shows the geodesic submanifold through the centre
//! along the axes.

use std::borrow::Cow;

use conifer_geometry::safe::{asinhc, sinhc};
use conifer_geometry::slices::{dot, norm};
use conifer_geometry::{ManifoldSpec, Root, entry};
use rayon::prelude::*;

use super::hyperbolic_rows::{HyperbolicRows, to_ball, unit_dist};
use super::{PairSample, ProjectionQuality, check_dim};
use crate::disc::{spread, tangent, wide};
use crate::principal::principal;
use crate::{Error, Result};

/// Maximum number of rows from which [`tangent_positions`] computes the axes.
const START_ROWS: usize = 5000;
/// Steps of the power iteration.
const STEPS: usize = 1000;

/// A PCA of tangent vectors and the projected rows.
#[derive(Clone, Debug)]
pub struct TangentPca {
    /// Unit vectors in the tangent space, one per component; zero if the rows vary along fewer directions.
    pub axes: Vec<Vec<f64>>,
    /// Coordinates `[N, K]`: in the Poincare ball from [`TangentPca::of_hyperboloid`], else along the axes.
    pub coordinates: Vec<f64>,
    /// Coordinates of the root in the same picture.
    pub root: Vec<f64>,
    /// Share of the variance of the tangent vectors along the axes; `None` if the vectors coincide.
    pub tangent_share: Option<f64>,
    /// Variance and distortion of the distances, from [`TangentPca::of_hyperboloid`] and for Euclidean spaces.
    /// Otherwise `None`, because the coordinates have no distance comparable with that of the space.
    pub quality: Option<ProjectionQuality>,
}

impl TangentPca {
    /// The PCA of rows of one hyperboloid at the centre of the rows ([`HyperbolicRows::centred`]).
    ///
    /// # Errors
    /// `dim` is zero or above the dimension of the rows.
    pub fn of_hyperboloid(rows: &HyperbolicRows, dim: usize, pairs: &PairSample) -> Result<Self> {
        check_dim(dim, rows.dim())?;
        let (axes, tangent_share) = principal_tangents(rows, dim);
        let mut points = vec![0.0; rows.len() * dim];
        points.par_chunks_exact_mut(dim).enumerate().for_each(|(i, out)| submanifold(&axes, rows.row(i), out));
        let at = |i: usize| &points[i * dim..(i + 1) * dim];
        let quality = pairs.quality(|i, j| rows.dist(i, j), |i, j| unit_dist(at(i), at(j)));
        let mut coordinates = vec![0.0; points.len()];
        for (from, to) in points.chunks_exact(dim).zip(coordinates.chunks_exact_mut(dim)) {
            to_ball(from, to);
        }
        let (mut space, mut root) = (vec![0.0; dim], vec![0.0; dim]);
        submanifold(&axes, rows.root(), &mut space);
        to_ball(&space, &mut root);
        Ok(TangentPca { axes, coordinates, root, tangent_share, quality: Some(quality) })
    }
}

/// The PCA of rows of any space at its root: of `log_root`, or of the difference to the root in spaces without a
/// curvature parameter. In a product, the vectors of all factors are concatenated. The coordinates are those of the
/// tangent vectors along the axes; unlike those of [`TangentPca::of_hyperboloid`], they are not mapped to the Poincare
/// ball.
///
/// # Errors
/// The space is invalid; `dim` is zero or above its dimension; there are no rows; a coordinate is not finite.
pub fn tangent_pca<'a>(
    spec: &ManifoldSpec,
    root: &Root,
    dim: usize,
    pairs: &PairSample,
    row: impl Fn(usize) -> Cow<'a, [f32]> + Sync,
) -> Result<TangentPca> {
    spec.check()?;
    check_dim(dim, spec.dim)?;
    let len = pairs.rows();
    if len == 0 {
        return Err(Error::invalid("rows", 0, "at least 1"));
    }
    let vectors: Vec<Vec<f64>> = (0..len).into_par_iter().map(|i| tangent(spec, root, &wide(&row(i)))).collect();
    if let Some(i) = vectors.iter().position(|it| it.iter().any(|v| !v.is_finite())) {
        return Err(Error::invalid(format!("row {i}"), "a coordinate that is not finite", "finite numbers"));
    }
    let (axes, tangent_share) = components(&vectors, dim);
    let coordinates: Vec<f64> =
        vectors.iter().flat_map(|v| axes.iter().map(|axis| dot(axis, v)).collect::<Vec<_>>()).collect();
    let at = |i: usize| &coordinates[i * dim..(i + 1) * dim];
    // Of the spaces without a curvature parameter, only Euclidean space has straight lines as geodesics. The sphere has
    // no origin.
    let is_flat = spec.curv.is_empty() && entry(spec.kind.name())?.has_origin();
    let quality =
        is_flat.then(|| pairs.quality(|i, j| flat_dist(&vectors[i], &vectors[j]), |i, j| flat_dist(at(i), at(j))));
    Ok(TangentPca { axes, coordinates, root: vec![0.0; dim], tangent_share, quality })
}

/// Space components of `exp(v)` for the vector `v` of coordinates of a point along the axes.
pub(super) fn submanifold(axes: &[Vec<f64>], point: &[f64], out: &mut [f64]) {
    let scale = asinhc(norm(point));
    axes.iter().zip(&mut *out).for_each(|(axis, o)| *o = scale * dot(axis, point));
    let scale = sinhc(norm(out));
    out.iter_mut().for_each(|o| *o *= scale);
}

/// Coordinates of a point along axes in the tangent space at the root.
pub(super) fn along(axes: &[Vec<f64>], spec: &ManifoldSpec, root: &Root, point: &[f32]) -> Vec<f64> {
    let vector = tangent(spec, root, &wide(point));
    axes.iter().map(|axis| dot(axis, &vector)).collect()
}

/// Coordinates `[N, 2]` along the first principal components of the tangent vectors at the root: the start of a layout.
/// The components are computed from at most 5,000 evenly spaced rows.
///
/// # Errors
/// The space is invalid or has fewer than two dimensions; there are no rows; a coordinate is not finite.
pub fn tangent_positions<'a>(
    spec: &ManifoldSpec,
    root: &Root,
    len: usize,
    row: impl Fn(usize) -> Cow<'a, [f32]> + Sync,
) -> Result<Vec<f64>> {
    let some = spread(len, START_ROWS);
    let pairs = PairSample::new(some.len(), 1, 0);
    let axes = tangent_pca(spec, root, 2, &pairs, |i| row(some[i]))?.axes;
    let place = |i: usize| {
        let vector = tangent(spec, root, &wide(&row(i)));
        [dot(&vector, &axes[0]), dot(&vector, &axes[1])]
    };
    let found: Vec<[f64; 2]> = (0..len).into_par_iter().map(place).collect();
    match found.iter().position(|it| it.iter().any(|v| !v.is_finite())) {
        Some(i) => Err(Error::invalid(format!("row {i}"), "a coordinate that is not finite", "finite numbers")),
        None => Ok(found.into_flattened()),
    }
}

/// The first principal components of the tangent vectors at the origin, and their share of the variance.
pub(super) fn principal_tangents(rows: &HyperbolicRows, count: usize) -> (Vec<Vec<f64>>, Option<f64>) {
    let tangent = |i: usize| {
        let row = rows.row(i);
        let scale = asinhc(norm(row));
        row.iter().map(|v| scale * v).collect()
    };
    components(&(0..rows.len()).into_par_iter().map(tangent).collect::<Vec<_>>(), count)
}

/// The first principal components of vectors around their mean, and their share of the variance.
fn components(vectors: &[Vec<f64>], count: usize) -> (Vec<Vec<f64>>, Option<f64>) {
    let (len, dim) = (vectors.len() as f64, vectors[0].len());
    let mut mean = vec![0.0; dim];
    vectors.iter().for_each(|row| mean.iter_mut().zip(row).for_each(|(m, v)| *m += v / len));
    let centred: Vec<Vec<f64>> =
        vectors.par_iter().map(|row| row.iter().zip(&mean).map(|(v, m)| v - m).collect()).collect();
    // The covariance has the same components as the rows, and a power iteration on it converges twice as fast.
    let axes = if centred.len() > dim {
        principal(&covariance(&centred, dim), dim, count, STEPS)
    } else {
        principal(&centred, dim, count, STEPS)
    };
    let total: f64 = centred.iter().map(|row| dot(row, row)).sum();
    let kept: f64 = centred.iter().map(|row| axes.iter().map(|axis| dot(axis, row).powi(2)).sum::<f64>()).sum();
    (axes, (total > 0.0).then(|| kept / total))
}

fn covariance(centred: &[Vec<f64>], dim: usize) -> Vec<Vec<f64>> {
    /// Number of partial sums. It is fixed, so that the result does not depend on the number of threads.
    const PARTS: usize = 8;
    let size = centred.len().div_ceil(PARTS);
    let parts: Vec<Vec<Vec<f64>>> = centred
        .par_chunks(size)
        .map(|rows| {
            let mut sum = vec![vec![0.0; dim]; dim];
            for row in rows {
                for (v, out) in row.iter().zip(&mut sum) {
                    out.iter_mut().zip(row).for_each(|(o, w)| *o += v * w);
                }
            }
            sum
        })
        .collect();
    let mut total = vec![vec![0.0; dim]; dim];
    for part in parts {
        for (out, row) in total.iter_mut().zip(part) {
            out.iter_mut().zip(row).for_each(|(o, v)| *o += v / centred.len() as f64);
        }
    }
    total
}

fn flat_dist(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt()
}
