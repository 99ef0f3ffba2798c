//! Laws of exterior angles, apertures and cones, in `f64`.

use std::f64::consts::{FRAC_PI_2, PI};

use crate::laws::{LawCase, close, holds};
use crate::root::Root;

/// Tolerance for angles between points of rapidity up to 3.
const EXACT: f64 = 1e-7;
/// Minimum radius K of the cones in these tests (MERU, HyCoCLIP: 0.1).
const MIN_RADIUS: f64 = 0.1;

/// For a child on the line through the root and the parent, the exterior angle is 0 beyond the parent, and pi on the
/// side of the root. On the sphere the line is a chord, which leaves the sphere, so only the root itself is tested.
pub(super) fn angle_ahead_and_behind(case: &LawCase<'_>) -> Result<(), String> {
    for root in case.roots() {
        for parent in &case.points[1..] {
            let angle = |child: &[f64]| case.exact.exterior_angle(parent, child, &root);
            let start = start_of(case, &root);
            close("angle of the root itself", angle(&start), PI, EXACT)?;
            if case.has_origin() {
                for t in [1.1, 1.5, 2.0] {
                    let child = case.geodesic(&start, parent, t);
                    close("angle straight ahead", angle(&child), 0.0, EXACT)?;
                }
                for t in [0.9, 0.5, -0.5] {
                    let child = case.geodesic(&start, parent, t);
                    close("angle straight back", angle(&child), PI, EXACT)?;
                }
            }
            for child in &case.points {
                let found = angle(child);
                holds((0.0..=PI).contains(&found), || format!("angle is {found}"))?;
            }
        }
    }
    Ok(())
}

pub(super) fn angle_where_undefined(case: &LawCase<'_>) -> Result<(), String> {
    for root in case.roots() {
        for x in &case.points {
            let itself = case.exact.exterior_angle(x, x, &root);
            close("angle between a point and itself", itself, 0.0, 0.0)?;
            let below_root = case.exact.exterior_angle(&start_of(case, &root), x, &root);
            close("angle at the root", below_root, 0.0, 0.0)?;
        }
    }
    Ok(())
}

/// [`Root::Origin`] and [`Root::Point`] use different code; they must agree at the origin.
pub(super) fn root_at_the_origin(case: &LawCase<'_>) -> Result<(), String> {
    if !case.has_origin() {
        return Ok(());
    }
    let point = Root::Point(vec![0.0; case.spec.dim]);
    for pair in case.points.windows(2) {
        let (x, y) = (&pair[0], &pair[1]);
        let space = &case.exact;
        let expected = space.exterior_angle(x, y, &Root::Origin);
        close("exterior angle", space.exterior_angle(x, y, &point), expected, EXACT)?;
        let expected = space.half_aperture(x, MIN_RADIUS, &Root::Origin);
        close("half aperture", space.half_aperture(x, MIN_RADIUS, &point), expected, EXACT)?;
        close("depth", space.depth(x, &point), space.depth(x, &Root::Origin), EXACT)?;
    }
    Ok(())
}

/// `x -> -x` is an isometry of every space here.
pub(super) fn mirror_images(case: &LawCase<'_>) -> Result<(), String> {
    let mirror = |x: &[f64]| x.iter().map(|v| -v).collect::<Vec<_>>();
    for pair in case.points.windows(2) {
        let (x, y) = (&pair[0], &pair[1]);
        let (mx, my) = (mirror(x), mirror(y));
        close("dist", case.exact.dist(&mx, &my), case.exact.dist(x, y), 0.0)?;
        for root in case.roots() {
            let mirrored = match &root {
                Root::Origin => Root::Origin,
                Root::Point(r) => Root::Point(mirror(r)),
            };
            let expected = case.exact.exterior_angle(x, y, &root);
            close("exterior angle", case.exact.exterior_angle(&mx, &my, &mirrored), expected, 0.0)?;
        }
    }
    Ok(())
}

/// The half aperture is in (0, pi/2], is pi/2 at the root, and does not grow along a ray away from the root.
pub(super) fn aperture_narrows(case: &LawCase<'_>) -> Result<(), String> {
    for root in case.roots() {
        let start = start_of(case, &root);
        let at_root = case.exact.half_aperture(&start, MIN_RADIUS, &root);
        close("half aperture at the root", at_root, FRAC_PI_2, 0.0)?;
        for end in &case.points[1..] {
            let apertures: Vec<f64> = [0.01, 0.2, 0.5, 0.8, 1.0]
                .iter()
                .map(|t| case.exact.half_aperture(&case.geodesic(&start, end, *t), MIN_RADIUS, &root))
                .collect();
            let narrows = apertures.is_sorted_by(|near, far| near >= far);
            let inside = apertures.iter().all(|a| *a > 0.0 && *a <= FRAC_PI_2);
            let narrower = apertures[4] < apertures[0] || apertures[4] == FRAC_PI_2;
            holds(narrows && inside && narrower, || format!("half aperture on the way out is {apertures:?}"))?;
        }
    }
    Ok(())
}

pub(super) fn excess_separates_inside_and_outside(case: &LawCase<'_>) -> Result<(), String> {
    for root in case.roots() {
        for parent in &case.points[1..] {
            let excess = |child: &[f64], scale: f64| case.exact.cone_excess(parent, child, MIN_RADIUS, scale, &root);
            let behind = excess(&start_of(case, &root), 1.0);
            holds(behind > 0.0, || format!("excess of the root is {behind}"))?;
            let itself = excess(parent, 1.0);
            holds(itself < 0.0, || format!("excess of the parent itself is {itself}"))?;
            for child in &case.points {
                let (wide, narrow) = (excess(child, 1.2), excess(child, 0.7));
                holds(wide <= narrow, || format!("excess is {wide} with a wide cone and {narrow} with a narrow one"))?;
                if case.spec.factors == 1 {
                    let angle = case.exact.exterior_angle(parent, child, &root);
                    let half = case.exact.half_aperture(parent, MIN_RADIUS, &root);
                    close("excess", excess(child, 0.7), angle - 0.7 * half, EXACT)?;
                }
            }
        }
    }
    Ok(())
}

fn start_of(case: &LawCase<'_>, root: &Root) -> Vec<f64> {
    match root {
        Root::Origin => vec![0.0; case.spec.dim],
        Root::Point(point) => point.clone(),
    }
}
