//! Conformance suite for spaces: properties that every entry of the registry must satisfy.
//!
//! [`check_space`] runs every law on every sample spec of a registry entry, in `f64` for the mathematics and in `f32`
//! for the numerics of search. A new entry of [`crate::SPACES`] is tested automatically.

mod cones;
mod metric;
mod numerics;
#[cfg(test)]
mod tests;

use std::fmt;

pub use numerics::edge_tangents;

use crate::random::SplitMix;
use crate::root::Root;
use crate::space::{Space, SpaceEntry};
use crate::spec::ManifoldSpec;

/// A violation of a law by a space.
#[derive(Clone, Debug)]
pub struct Violation {
    /// Name of the law.
    pub law: &'static str,
    /// The space that violates the law.
    pub spec: ManifoldSpec,
    /// Message with the value found and, in comparisons, the value expected.
    pub detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} breaks `{}`: {}", self.spec, self.law, self.detail)
    }
}

/// Returns all violations by the sample specs of `entry`, at most one per law and spec; empty for a correct space.
/// `seed` determines the specs and the points; the same seed gives the same result.
pub fn check_space(entry: &SpaceEntry, seed: u64) -> Vec<Violation> {
    let mut violations = Vec::new();
    for spec in (entry.sample)(seed) {
        let case = LawCase::new(entry, spec, seed);
        for (law, holds) in LAWS {
            if let Err(detail) = holds(&case) {
                violations.push(Violation { law, spec: case.spec.clone(), detail });
            }
        }
    }
    violations
}

/// A law. `Err` contains the [`Violation::detail`].
type Law = fn(&LawCase<'_>) -> Result<(), String>;

const LAWS: &[(&str, Law)] = &[
    ("unlift inverts lift", metric::unlift_inverts_lift),
    ("results lie on the space", metric::results_lie_on_the_space),
    ("dist is a metric", metric::dist_is_a_metric),
    ("dist from the origin is the tangent's length", metric::dist_from_origin),
    ("curvature is a choice of unit", metric::curvature_is_a_unit),
    ("similarity falls as dist grows", metric::similarity_falls_with_dist),
    ("geodesics have constant speed", metric::geodesic_has_constant_speed),
    ("tangent lines lead from point to point", metric::tangent_line_joins_points),
    ("mean lies in the middle", metric::mean_is_central),
    ("centroids and projections lie on the space", metric::centroids_and_projections),
    ("the score form gives the scores", metric::score_form_gives_the_scores),
    ("depth is the distance to the root", metric::depth_measures_from_root),
    ("one factor is the factor", metric::one_factor_is_the_factor),
    ("exterior angle is 0 ahead and pi behind", cones::angle_ahead_and_behind),
    ("exterior angle is 0 where it is undefined", cones::angle_where_undefined),
    ("a root at the origin is the origin", cones::root_at_the_origin),
    ("mirror images are alike", cones::mirror_images),
    ("aperture narrows with depth", cones::aperture_narrows),
    ("cone excess tells inside from outside", cones::excess_separates_inside_and_outside),
    ("everything is finite", numerics::everything_is_finite),
    ("f32 follows f64", numerics::f32_follows_f64),
];

/// One spec with its geometry and sample points.
struct LawCase<'a> {
    entry: &'a SpaceEntry,
    spec: ManifoldSpec,
    exact: Box<dyn Space<f64>>,
    fast: Box<dyn Space<f32>>,
    /// Tangent vectors with lengths 0.05 to 3 in units of the curvature radius, per factor.
    tangents: Vec<Vec<f64>>,
    /// Points that `lift` makes from `tangents`.
    points: Vec<Vec<f64>>,
}

impl<'a> LawCase<'a> {
    fn new(entry: &'a SpaceEntry, spec: ManifoldSpec, seed: u64) -> Self {
        let (exact, fast) = ((entry.build_f64)(&spec), (entry.build_f32)(&spec));
        let mut random = SplitMix::new(seed);
        let tangents: Vec<_> = (0..7).map(|_| random_tangent(&spec, &mut random)).collect();
        let mut case = LawCase { entry, spec, exact, fast, tangents, points: Vec::new() };
        case.points = case.tangents.iter().map(|v| case.lift(v)).collect();
        case
    }

    fn has_origin(&self) -> bool {
        self.entry.has_origin()
    }

    fn lift(&self, tangent: &[f64]) -> Vec<f64> {
        self.fill(|out| self.exact.lift(tangent, out))
    }

    fn geodesic(&self, from: &[f64], to: &[f64], t: f64) -> Vec<f64> {
        self.fill(|out| self.exact.geodesic(from, to, t, out))
    }

    fn tangent_line(&self, from: &[f64], to: &[f64], t: f64) -> Vec<f64> {
        self.fill(|out| self.exact.tangent_line(from, to, t, out))
    }

    fn mean(&self, points: &[&[f64]]) -> Vec<f64> {
        self.fill(|out| self.exact.mean(points, out))
    }

    fn fill(&self, write: impl FnOnce(&mut [f64])) -> Vec<f64> {
        let mut out = vec![f64::NAN; self.spec.dim];
        write(&mut out);
        out
    }

    /// Roots to test: a point and, if the space has one, the origin.
    fn roots(&self) -> Vec<Root> {
        let point = Root::Point(self.points[0].clone());
        if self.has_origin() { vec![Root::Origin, point] } else { vec![point] }
    }
}

/// Checks that `found` is within `tolerance` of `expected`.
fn close(what: &str, found: f64, expected: f64, tolerance: f64) -> Result<(), String> {
    if (found - expected).abs() <= tolerance {
        Ok(())
    } else {
        Err(format!("{what} is {found}; expected {expected} within {tolerance:e}"))
    }
}

/// Checks that every component is within `tolerance`, relative to the largest component of `expected` or to one.
fn all_close(what: &str, found: &[f64], expected: &[f64], tolerance: f64) -> Result<(), String> {
    let size = expected.iter().fold(1.0_f64, |m, v| m.max(v.abs()));
    let worst = found.iter().zip(expected).map(|(f, e)| (f - e).abs()).fold(0.0, f64::max);
    if found.len() == expected.len() && worst <= tolerance * size {
        Ok(())
    } else {
        Err(format!("{what} is {found:?}; expected {expected:?} within {tolerance:e}"))
    }
}

fn holds(condition: bool, detail: impl FnOnce() -> String) -> Result<(), String> {
    if condition { Ok(()) } else { Err(detail()) }
}

fn random_tangent(spec: &ManifoldSpec, random: &mut SplitMix) -> Vec<f64> {
    let mut tangent = Vec::with_capacity(spec.dim);
    for factor in 0..spec.factors {
        let unit = 1.0 / spec.curv.get(factor).map_or(1.0, |c| c.sqrt());
        let length = unit * (0.05 + 2.95 * random.uniform());
        let direction: Vec<f64> = (0..spec.factor_dim()).map(|_| random.uniform() + random.uniform() - 1.0).collect();
        let norm = direction.iter().map(|v| v * v).sum::<f64>().sqrt();
        tangent.extend(direction.iter().map(|v| length * v / norm));
    }
    tangent
}
