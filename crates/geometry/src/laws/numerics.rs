//! Laws of rounding: no result is infinite or NaN, and `f32` results stay close to `f64`.

use crate::laws::{LawCase, close, holds};
use crate::real::Real;
use crate::root::Root;
use crate::space::Space;

/// Adversarial tangent vectors of `dim` numbers: the origin; norms from 1e-6 to 1e4 on one ray (each twice, so that
/// equal points occur), on the opposite ray and in another direction. Two of the norms differ by 1e-6 (1 and 1 +
/// 1e-6).
pub fn edge_tangents(dim: usize) -> Vec<Vec<f64>> {
    let along = |length: f64, sign: fn(usize) -> f64| {
        let norm = (dim as f64).sqrt();
        (0..dim).map(|i| length * sign(i) / norm).collect::<Vec<f64>>()
    };
    let mut list = vec![vec![0.0; dim]];
    for length in [1e-6, 1e-3, 1.0, 1.0 + 1e-6, 1e2, 1e4] {
        list.push(along(length, |_| 1.0));
        list.push(along(length, |_| 1.0));
        list.push(along(length, |_| -1.0));
        list.push(along(length, |i| if i % 2 == 0 { 1.0 } else { -1.0 }));
    }
    list
}

pub(super) fn everything_is_finite(case: &LawCase<'_>) -> Result<(), String> {
    finite_in(case, case.exact.as_ref())?;
    finite_in(case, case.fast.as_ref())
}

/// Compares `f32` with `f64` on the same rounded points, for ordinary points (rapidity 0.05 to 3). The error budgets
/// for larger norms are in the tests of the hyperboloid.
pub(super) fn f32_follows_f64(case: &LawCase<'_>) -> Result<(), String> {
    let narrow: Vec<Vec<f32>> = case.points.iter().map(|p| p.iter().map(|v| *v as f32).collect()).collect();
    let wide: Vec<Vec<f64>> = narrow.iter().map(|p| p.iter().map(|v| f64::from(*v)).collect()).collect();
    let root = Root::Point(wide[0].clone());
    let (exact, fast) = (&case.exact, &case.fast);
    for (i, x) in wide.iter().enumerate() {
        for (j, y) in wide.iter().enumerate().skip(i + 1) {
            let (a, b) = (&narrow[i], &narrow[j]);
            let dist = exact.dist(x, y);
            close("dist in f32", fast.dist(a, b).to_f64(), dist, 2e-6 * dist)?;
            let size = reach(case, x) * reach(case, y);
            close("inner in f32", fast.inner(a, b).to_f64(), exact.inner(x, y), 1e-6 * size)?;
            for root in [&Root::Origin, &root] {
                let angle = exact.exterior_angle(x, y, root);
                let found = fast.exterior_angle(a, b, root).to_f64();
                close("exterior angle in f32", found, angle, 2e-5)?;
                let half = exact.half_aperture(x, 0.1, root);
                close("half aperture in f32", fast.half_aperture(a, 0.1, root).to_f64(), half, 1e-5)?;
                let depth = exact.depth(x, root);
                close("depth in f32", fast.depth(a, root).to_f64(), depth, 2e-6 * depth)?;
            }
        }
    }
    Ok(())
}

fn finite_in<T: Real>(case: &LawCase<'_>, space: &dyn Space<T>) -> Result<(), String> {
    let tangents: Vec<Vec<T>> =
        edge_tangents(case.spec.dim).iter().map(|v| v.iter().map(|a| T::from_f64(*a)).collect()).collect();
    let mut out = vec![T::ZERO; case.spec.dim];
    let mut points = Vec::new();
    for tangent in &tangents {
        space.lift(tangent, &mut out);
        finite("lift", &out)?;
        points.push(out.clone());
        if case.has_origin() {
            points.push(tangent.clone()); // In this space, every vector is a point.
        }
    }
    let roots = [Root::Origin, root_of(&points[0]), root_of(&points[points.len() - 1])];
    for x in &points {
        space.unlift(x, &mut out);
        finite("unlift", &out)?;
        space.mean(&[x, &points[1]], &mut out);
        finite("mean", &out)?;
        for root in &roots {
            finite("depth", &[space.depth(x, root)])?;
            finite("half aperture", &[space.half_aperture(x, T::from_f64(0.1), root)])?;
        }
        for y in &points {
            finite("inner, dist, similarity", &[space.inner(x, y), space.dist(x, y), space.similarity(x, y)])?;
            for root in &roots {
                let excess = space.cone_excess(x, y, T::from_f64(0.1), T::ONE, root);
                finite("exterior angle and excess", &[space.exterior_angle(x, y, root), excess])?;
            }
            for t in [0.0, 0.5, 1.0] {
                space.geodesic(x, y, T::from_f64(t), &mut out);
                finite("geodesic", &out)?;
                space.tangent_line(x, y, T::from_f64(t), &mut out);
                finite("tangent_line", &out)?;
            }
        }
    }
    Ok(())
}

/// `sqrt(|x|^2 + sum of 1/c)`. The product of two such values bounds the terms of an inner product.
fn reach(case: &LawCase<'_>, x: &[f64]) -> f64 {
    let squares = x.iter().map(|v| v * v).chain(case.spec.curv.iter().map(|c| 1.0 / c));
    squares.sum::<f64>().sqrt()
}

fn root_of<T: Real>(point: &[T]) -> Root {
    Root::Point(point.iter().map(|v| v.to_f64()).collect())
}

fn finite<T: Real>(what: &str, values: &[T]) -> Result<(), String> {
    holds(values.iter().all(|v| v.is_finite()), || format!("{what} in {} is {values:?}", T::NAME))
}
