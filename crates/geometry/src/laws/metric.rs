//! Laws of distances, geodesics and means, in `f64`.

use crate::laws::{LawCase, all_close, close, holds};
use crate::root::Root;
use crate::score_form::{FactorNorm, ScoreForm};
use crate::space::{entry, space};
use crate::spec::ManifoldSpec;

/// Tolerance for a few dozen operations on points of rapidity up to 3 (coordinates up to 10 / sqrt(c)).
const EXACT: f64 = 1e-11;

pub(super) fn unlift_inverts_lift(case: &LawCase<'_>) -> Result<(), String> {
    for (tangent, point) in case.tangents.iter().zip(&case.points) {
        let back = case.fill(|out| case.exact.unlift(point, out));
        if case.has_origin() {
            all_close("unlift(lift(v))", &back, tangent, EXACT)?;
        }
        all_close("lift(unlift(x))", &case.lift(&back), point, EXACT)?;
    }
    Ok(())
}

pub(super) fn results_lie_on_the_space(case: &LawCase<'_>) -> Result<(), String> {
    let on = |what: &str, point: &[f64]| close(what, case.exact.off_manifold(point), 0.0, EXACT);
    for pair in case.points.windows(2) {
        on("distance of lift(v) from the space", &pair[0])?;
        for t in [-0.3, 0.0, 0.7, 1.4] {
            on("distance of a geodesic from the space", &case.geodesic(&pair[0], &pair[1], t))?;
        }
        on("distance of a mean from the space", &case.mean(&[&pair[0], &pair[1]]))?;
    }
    Ok(())
}

pub(super) fn dist_is_a_metric(case: &LawCase<'_>) -> Result<(), String> {
    let d = |x: &[f64], y: &[f64]| case.exact.dist(x, y);
    for (i, x) in case.points.iter().enumerate() {
        close("dist(x, x)", d(x, x), 0.0, 0.0)?;
        for y in &case.points[i + 1..] {
            let there = d(x, y);
            holds(there > 0.0, || format!("dist of different points is {there}"))?;
            close("dist(y, x)", d(y, x), there, 0.0)?;
            for z in &case.points {
                let detour = d(x, z) + d(z, y);
                holds(there <= detour + EXACT, || format!("dist is {there}, more than {detour} by a third point"))?;
            }
        }
    }
    Ok(())
}

pub(super) fn dist_from_origin(case: &LawCase<'_>) -> Result<(), String> {
    let Some(norm) = case.entry.tangent_norm else {
        return Ok(());
    };
    let origin = case.lift(&vec![0.0; case.spec.dim]);
    for (tangent, point) in case.tangents.iter().zip(&case.points) {
        let length = norm(&case.spec, tangent);
        close("dist(origin, lift(v))", case.exact.dist(&origin, point), length, EXACT)?;
        close("depth(lift(v))", case.exact.depth(point, &Root::Origin), length, EXACT)?;
    }
    Ok(())
}

/// Curvature only sets the unit of length: `d_(c/s)(sqrt(s) x, sqrt(s) y) = sqrt(s) d_c(x, y)`; with `s = c` this is
/// `d_c(x, y) = d_1(sqrt(c) x, ..) / sqrt(c)`.
pub(super) fn curvature_is_a_unit(case: &LawCase<'_>) -> Result<(), String> {
    if !case.has_origin() {
        return Ok(()); // The sphere has a fixed radius.
    }
    for s in case.spec.curv.iter().copied().chain([0.3, 7.0]) {
        let curv = case.spec.curv.iter().map(|c| c / s).collect();
        let scaled = (case.entry.build_f64)(&ManifoldSpec { curv, ..case.spec.clone() });
        let grow = |x: &Vec<f64>| x.iter().map(|v| s.sqrt() * v).collect::<Vec<_>>();
        for pair in case.points.windows(2) {
            let (x, y) = (grow(&pair[0]), grow(&pair[1]));
            let expected = s.sqrt() * case.exact.dist(&pair[0], &pair[1]);
            close("dist of scaled points", scaled.dist(&x, &y), expected, EXACT * expected)?;
            let angle = case.exact.exterior_angle(&pair[0], &pair[1], &Root::Origin);
            let found = scaled.exterior_angle(&x, &y, &Root::Origin);
            close("exterior angle of scaled points", found, angle, EXACT)?;
        }
    }
    Ok(())
}

pub(super) fn similarity_falls_with_dist(case: &LawCase<'_>) -> Result<(), String> {
    let query = &case.points[0];
    let mut order: Vec<&Vec<f64>> = case.points[1..].iter().collect();
    order.sort_by(|a, b| case.exact.dist(query, a).total_cmp(&case.exact.dist(query, b)));
    let similarity: Vec<f64> = order.iter().map(|p| case.exact.similarity(query, p)).collect();
    holds(similarity.is_sorted_by(|a, b| a >= b), || format!("similarity by growing distance is {similarity:?}"))
}

pub(super) fn geodesic_has_constant_speed(case: &LawCase<'_>) -> Result<(), String> {
    for pair in case.points.windows(2) {
        let (x, y) = (&pair[0], &pair[1]);
        all_close("geodesic at 0", &case.geodesic(x, y, 0.0), x, EXACT)?;
        all_close("geodesic at 1", &case.geodesic(x, y, 1.0), y, EXACT)?;
        let whole = case.exact.dist(x, y);
        for t in [0.25, 0.5, 0.9] {
            let point = case.geodesic(x, y, t);
            close("length so far", case.exact.dist(x, &point), t * whole, EXACT)?;
            close("length to go", case.exact.dist(&point, y), (1.0 - t) * whole, EXACT)?;
        }
        all_close("geodesic of a point", &case.geodesic(x, x, 0.4), x, EXACT)?;
    }
    Ok(())
}

pub(super) fn tangent_line_joins_points(case: &LawCase<'_>) -> Result<(), String> {
    for pair in case.points.windows(2) {
        let (x, y) = (&pair[0], &pair[1]);
        all_close("tangent line at 0", &case.tangent_line(x, y, 0.0), x, EXACT)?;
        all_close("tangent line at 1", &case.tangent_line(x, y, 1.0), y, EXACT)?;
        let middle = case.tangent_line(x, y, 0.5);
        close("distance of a tangent line from the space", case.exact.off_manifold(&middle), 0.0, EXACT)?;
        all_close("middle of a tangent line", &middle, &case.mean(&[x, y]), EXACT)?;
        if case.has_origin() {
            let zero = vec![0.0; case.spec.dim];
            let geodesic = case.geodesic(x, &zero, 0.3);
            all_close("tangent line to the origin", &case.tangent_line(x, &zero, 0.3), &geodesic, EXACT)?;
        }
    }
    Ok(())
}

pub(super) fn mean_is_central(case: &LawCase<'_>) -> Result<(), String> {
    for (tangent, x) in case.tangents.iter().zip(&case.points) {
        all_close("mean of one point", &case.mean(&[x]), x, EXACT)?;
        all_close("mean of a point with itself", &case.mean(&[x, x, x]), x, EXACT)?;
        let opposite = case.lift(&tangent.iter().map(|v| -v).collect::<Vec<_>>());
        let zero = vec![0.0; case.spec.dim];
        all_close("mean of opposite points", &case.mean(&[x, &opposite]), &zero, EXACT)?;
        if case.has_origin() {
            let half = |x: &[f64]| x.iter().map(|v| v / 2.0).collect::<Vec<_>>();
            let (near, middle) = (half(tangent), half(&half(tangent)));
            let mean = case.mean(&[&case.lift(&near), &zero]);
            all_close("mean of a point and the origin", &mean, &case.lift(&middle), EXACT)?;
        }
    }
    all_close("mean of no points", &case.mean(&[]), &vec![0.0; case.spec.dim], 0.0)
}

pub(super) fn depth_measures_from_root(case: &LawCase<'_>) -> Result<(), String> {
    for root in &case.points {
        let at = Root::Point(root.clone());
        close("depth of the root", case.exact.depth(root, &at), 0.0, 0.0)?;
        let mut order: Vec<&Vec<f64>> = case.points.iter().collect();
        order.sort_by(|a, b| case.exact.dist(root, a).total_cmp(&case.exact.dist(root, b)));
        let depths: Vec<f64> = order.iter().map(|p| case.exact.depth(p, &at)).collect();
        holds(depths.is_sorted(), || format!("depth by growing distance is {depths:?}"))?;
        if case.has_origin() {
            for x in &case.points {
                let dist = case.exact.dist(root, x);
                close("depth", case.exact.depth(x, &at), dist, EXACT)?;
            }
        }
    }
    Ok(())
}

/// The centroid of one point is that point; centroids and projections are points; a point is its own projection.
pub(super) fn centroids_and_projections(case: &LawCase<'_>) -> Result<(), String> {
    for pair in case.points.windows(2) {
        let (x, y) = (pair[0].as_slice(), pair[1].as_slice());
        all_close("centroid of one point", &case.fill(|out| case.exact.centroid(&[x], out)), x, EXACT)?;
        all_close("projection of a point", &case.fill(|out| case.exact.project(x, out)), x, EXACT)?;
        let vector: Vec<f64> = x.iter().map(|v| 1.5 * v).collect();
        for (what, point) in [
            ("centroid", case.fill(|out| case.exact.centroid(&[x, y], out))),
            ("projection", case.fill(|out| case.exact.project(&vector, out))),
        ] {
            let off = case.exact.off_manifold(&point);
            holds(off <= EXACT, || format!("{what} {point:?} is {off:e} off the space"))?;
        }
    }
    Ok(())
}

/// A space has the same scores as the built-in space with the same [`ScoreForm`].
pub(super) fn score_form_gives_the_scores(case: &LawCase<'_>) -> Result<(), String> {
    let (spec, form) = (&case.spec, case.exact.score_form());
    holds(form == case.fast.score_form(), || "the f32 and the f64 geometry have different forms".to_owned())?;
    let reference = match form {
        None => return Ok(()),
        Some(ScoreForm::UnitVectors) => ManifoldSpec::sphere(spec.dim),
        Some(ScoreForm::Flat) => ManifoldSpec::euclidean(spec.dim),
        Some(ScoreForm::Hyperboloids(norm)) => {
            let build = match norm {
                FactorNorm::L1 => ManifoldSpec::product_l1,
                FactorNorm::L2 => ManifoldSpec::product_l2,
            };
            build(spec.factors, spec.factor_dim(), spec.curv.clone())
        }
    };
    let reference = space::<f64>(&reference).map_err(|e| e.to_string())?;
    for pair in case.points.windows(2) {
        let (x, y) = (&pair[0], &pair[1]);
        close("inner", case.exact.inner(x, y), reference.inner(x, y), EXACT)?;
        close("dist", case.exact.dist(x, y), reference.dist(x, y), EXACT)?;
        close("similarity", case.exact.similarity(x, y), reference.similarity(x, y), EXACT)?;
        for root in case.roots() {
            let (found, expected) = (case.exact.exterior_angle(x, y, &root), reference.exterior_angle(x, y, &root));
            close("exterior angle", found, expected, EXACT)?;
        }
    }
    Ok(())
}

/// A product with a single factor equals that factor in every method.
pub(super) fn one_factor_is_the_factor(case: &LawCase<'_>) -> Result<(), String> {
    if !case.entry.factored || case.spec.factors != 1 {
        return Ok(());
    }
    let factor = entry("lorentz").map_err(|e| e.to_string())?;
    let factor = (factor.build_f64)(&ManifoldSpec::lorentz(case.spec.dim, case.spec.curv[0]));
    let product = &case.exact;
    for pair in case.points.windows(2) {
        let (x, y) = (&pair[0], &pair[1]);
        close("inner", product.inner(x, y), factor.inner(x, y), EXACT)?;
        close("dist", product.dist(x, y), factor.dist(x, y), EXACT)?;
        close("similarity", product.similarity(x, y), factor.similarity(x, y), EXACT)?;
        for root in case.roots() {
            let (found, expected) = (product.exterior_angle(x, y, &root), factor.exterior_angle(x, y, &root));
            close("exterior angle", found, expected, EXACT)?;
            let (found, expected) = (product.half_aperture(x, 0.1, &root), factor.half_aperture(x, 0.1, &root));
            close("half aperture", found, expected, EXACT)?;
            for (parent, child) in [(x, y), (y, x)] {
                let found = product.cone_excess(parent, child, 0.1, 1.2, &root);
                let expected = factor.cone_excess(parent, child, 0.1, 1.2, &root);
                close("cone excess", found, expected, EXACT)?;
            }
            close("depth", product.depth(x, &root), factor.depth(x, &root), EXACT)?;
        }
        let along = case.fill(|out| factor.geodesic(x, y, 0.3, out));
        all_close("geodesic", &case.geodesic(x, y, 0.3), &along, EXACT)?;
        let mean = case.fill(|out| factor.mean(&[x, y], out));
        all_close("mean", &case.mean(&[x, y]), &mean, EXACT)?;
    }
    for (tangent, point) in case.tangents.iter().zip(&case.points) {
        all_close("lift", point, &case.fill(|out| factor.lift(tangent, out)), EXACT)?;
    }
    Ok(())
}
