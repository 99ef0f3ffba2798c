//! Error budgets of `f32` on the hyperboloid, measured against the double-double oracle on the same rounded
//! coordinates.
//!
//! Method. For every norm R, gap g, curvature c in {0.1, 1, 10} and dimension in {8, 64}: 60 pairs with `|x| = R` in a
//! random direction, and `|y - x| = g R` in a random direction, along x, or across x (20 each). Measured on x86-64 with
//! rustc 1.95 by the test below, which prints its table when it fails (or with `--nocapture`). A budget is twice the
//! measured maximum, rounded up to 1, 2 or 5.
//!
//! Interpretation. [`Space::dist`] has a relative error below 5e-7 up to norm 10. At larger norms the worst pairs lie
//! on one ray. There a small coordinate difference `dx` along the ray is a distance of only about `dx / (sqrt(c) R)`,
//! so rounding the coordinates alone causes errors of that size in distance and angle. [`dist_from_dot`] (`gemm`) has
//! an absolute error that grows as the distance shrinks, up to about `3.5e-4 sqrt(c |x| |y|)` (the square root of
//! twice the unit roundoff) for coinciding points. It is good enough to rank distant points and useless for close
//! points with large norms.

use super::oracle;
use crate::random::SplitMix;
use crate::slices::dot;
use crate::spaces::lorentz::{dist_from_dot, time_excess};
use crate::{ManifoldSpec, Root, Space, space};

/// One row of the table: the largest allowed errors at a norm. `dist` and `angle` hold for all gaps.
struct ErrorBudget {
    norm: f64,
    /// Relative error of [`Space::dist`].
    dist: f64,
    /// Absolute error of [`Space::exterior_angle`], radians, at the origin and at a root of norm 1/2.
    angle: f64,
    /// Absolute error of [`dist_from_dot`] in units of the curvature radius `1 / sqrt(c)`, for each of [`GAPS`].
    gemm: [f64; 4],
}

const GAPS: [f64; 4] = [1e-5, 1e-3, 1e-1, 1.0];

#[rustfmt::skip]
const BUDGETS: [ErrorBudget; 7] = [
    ErrorBudget { norm: 1e-6, dist: 5e-7, angle: 2e-6, gemm: [5e-9, 2e-9, 2e-11, 2e-12] },
    ErrorBudget { norm: 1e-2, dist: 5e-7, angle: 1e-6, gemm: [5e-5, 2e-5, 2e-7, 5e-8] },
    ErrorBudget { norm: 1.0, dist: 5e-7, angle: 1e-6, gemm: [5e-3, 5e-3, 5e-5, 1e-5] },
    ErrorBudget { norm: 10.0, dist: 5e-7, angle: 2e-5, gemm: [5e-2, 5e-2, 5e-3, 1e-3] },
    ErrorBudget { norm: 1e2, dist: 2e-5, angle: 1e-4, gemm: [5e-1, 5e-1, 2e-1, 5e-2] },
    ErrorBudget { norm: 1e3, dist: 1e-4, angle: 1e-3, gemm: [5e0, 5e0, 5e0, 2e0] },
    ErrorBudget { norm: 1e4, dist: 1e-3, angle: 2e-2, gemm: [2e1, 1e1, 2e1, 1e1] },
];

/// Relative error of lift, unlift and depth. A relative error of 2^-24 in `r` changes `sinh(r)` by a relative error of
/// about `r 2^-24`; `r` is at most 9.5 here (measured 8e-7).
const LIFT: f64 = 2e-6;

/// `count` points in random directions for every norm.
pub(super) fn cloud(seed: u64, dim: usize, norms: &[f64], count: usize) -> Vec<Vec<f64>> {
    let mut random = SplitMix::new(seed);
    let points = norms.iter().flat_map(|norm| std::iter::repeat_n(*norm, count));
    points.map(|norm| scaled(norm, &direction(&mut random, dim))).collect()
}

#[test]
fn both_distance_forms_and_the_angles_keep_their_budget() {
    let mut table = String::new();
    let mut kept = true;
    for budget in BUDGETS {
        for (gap, gemm) in GAPS.into_iter().zip(budget.gemm) {
            let worst = worst_errors(budget.norm, gap);
            kept &= worst.dist <= budget.dist && worst.angle <= budget.angle && worst.gemm <= gemm;
            table += &format!(
                "norm {:5.0e} gap {gap:5.0e}: dist {:.1e} of {:.0e}, angle {:.1e} of {:.0e}, gemm {:.1e} of {gemm:.0e}\n",
                budget.norm, worst.dist, budget.dist, worst.angle, budget.angle, worst.gemm
            );
        }
    }
    eprintln!("{table}");
    assert!(kept, "a budget is exceeded:\n{table}");
}

/// Pairs with different norms must meet the budget of the largest norm.
#[test]
fn points_of_different_norms_keep_the_budget() {
    let mut worst = MeasuredErrors::default();
    for c in [0.1, 1.0, 10.0] {
        let probe = ErrorProbe::new(8, c);
        let cloud = cloud(5, 8, &[1e-6, 1e-4, 1e-2, 1.0, 1e2, 1e4], 4);
        for (i, x) in cloud.iter().enumerate() {
            for (j, y) in cloud.iter().enumerate() {
                if i != j {
                    worst.take(probe.errors(x, y));
                }
            }
        }
    }
    let budget = &BUDGETS[BUDGETS.len() - 1];
    assert!(worst.dist <= budget.dist && worst.angle <= budget.angle, "{worst:?}");
}

#[test]
fn lift_unlift_and_depth_keep_their_budget() {
    let mut worst = [0.0_f64; 3];
    for c in [0.1_f64, 1.0, 10.0] {
        let spec = ManifoldSpec::lorentz(8, c);
        let (fast, exact) = (space::<f32>(&spec).unwrap(), space::<f64>(&spec).unwrap());
        for tangent in cloud(3, 8, &[1e-6, 1e-3, 0.1, 1.0, 3.0], 100) {
            let tangent = rounded(&tangent);
            let (mut found, mut expected) = ([0.0_f32; 8], [0.0_f64; 8]);
            fast.lift(&tangent, &mut found);
            exact.lift(&widened(&tangent), &mut expected);
            worst[0] = worst[0].max(relative_error(&found, &expected));
            let point = found;
            fast.unlift(&point, &mut found);
            exact.unlift(&widened(&point), &mut expected);
            worst[1] = worst[1].max(relative_error(&found, &expected));
            let depth = exact.depth(&widened(&point), &Root::Origin);
            let found = f64::from(fast.depth(&point, &Root::Origin));
            worst[2] = worst[2].max((found / depth - 1.0).abs());
        }
    }
    assert!(worst.iter().all(|w| *w <= LIFT), "{worst:?}");
}

#[derive(Debug, Default)]
struct MeasuredErrors {
    dist: f64,
    gemm: f64,
    angle: f64,
}

impl MeasuredErrors {
    fn take(&mut self, other: MeasuredErrors) {
        self.dist = self.dist.max(other.dist);
        self.gemm = self.gemm.max(other.gemm);
        self.angle = self.angle.max(other.angle);
    }
}

/// One space in `f32`, with the root for the oracle.
struct ErrorProbe {
    c: f64,
    space: Box<dyn Space<f32>>,
    root: Vec<f64>,
}

impl ErrorProbe {
    fn new(dim: usize, c: f64) -> Self {
        let space = space::<f32>(&ManifoldSpec::lorentz(dim, c)).unwrap();
        let root = widened(&rounded(&scaled(0.5, &direction(&mut SplitMix::new(99), dim))));
        ErrorProbe { c, space, root }
    }

    fn errors(&self, x: &[f64], y: &[f64]) -> MeasuredErrors {
        let (x, y, c) = (rounded(x), rounded(y), self.c);
        let origin = oracle::point(&vec![0.0; x.len()], c);
        let root = oracle::point(&self.root, c);
        let (px, py) = (oracle::point(&widened(&x), c), oracle::point(&widened(&y), c));
        let dist = oracle::dist(&px, &py, c);
        let excess = |x: &[f32]| time_excess(dot(x, x), c as f32);
        let gemm = f64::from(dist_from_dot(dot(&x, &y), excess(&x), excess(&y), c as f32));
        let angle = |at: &oracle::OraclePoint, root: &Root| {
            let found = f64::from(self.space.exterior_angle(&x, &y, root));
            (found - oracle::exterior_angle(at, &px, &py, c)).abs()
        };
        let at_point = angle(&root, &Root::Point(self.root.clone()));
        MeasuredErrors {
            dist: (f64::from(self.space.dist(&x, &y)) / dist - 1.0).abs(),
            gemm: (gemm - dist).abs() * c.sqrt(),
            angle: angle(&origin, &Root::Origin).max(at_point),
        }
    }
}

fn worst_errors(norm: f64, gap: f64) -> MeasuredErrors {
    let mut worst = MeasuredErrors::default();
    for c in [0.1, 1.0, 10.0] {
        for dim in [8, 64] {
            let probe = ErrorProbe::new(dim, c);
            let mut random = SplitMix::new(11);
            for pair in 0..60 {
                let (u, v) = (direction(&mut random, dim), direction(&mut random, dim));
                let step = match pair % 3 {
                    0 => v,
                    1 => u.clone(),
                    _ => across(&u, &v),
                };
                let y: Vec<f64> = u.iter().zip(&step).map(|(a, b)| norm * (a + gap * b)).collect();
                worst.take(probe.errors(&scaled(norm, &u), &y));
            }
        }
    }
    worst
}

/// A random unit vector. Sums of twelve uniforms are close enough to normal to have no preferred axis.
fn direction(random: &mut SplitMix, dim: usize) -> Vec<f64> {
    let mut component = || (0..12).map(|_| random.uniform()).sum::<f64>() - 6.0;
    let v: Vec<f64> = (0..dim).map(|_| component()).collect();
    scaled(1.0 / length(&v), &v)
}

/// The part of `v` perpendicular to the unit vector `u`, as a unit vector.
fn across(u: &[f64], v: &[f64]) -> Vec<f64> {
    let along: f64 = u.iter().zip(v).map(|(a, b)| a * b).sum();
    let rest: Vec<f64> = u.iter().zip(v).map(|(a, b)| b - along * a).collect();
    scaled(1.0 / length(&rest), &rest)
}

fn length(v: &[f64]) -> f64 {
    v.iter().map(|a| a * a).sum::<f64>().sqrt()
}

fn scaled(factor: f64, v: &[f64]) -> Vec<f64> {
    v.iter().map(|a| factor * a).collect()
}

fn rounded(v: &[f64]) -> Vec<f32> {
    v.iter().map(|a| *a as f32).collect()
}

fn widened(v: &[f32]) -> Vec<f64> {
    v.iter().map(|a| f64::from(*a)).collect()
}

fn relative_error(found: &[f32], expected: &[f64]) -> f64 {
    let errors: Vec<f64> = found.iter().zip(expected).map(|(f, e)| f64::from(*f) - e).collect();
    length(&errors) / length(expected)
}
