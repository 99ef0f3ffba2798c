#![allow(clippy::unwrap_used)]

use std::cell::Cell;

use super::*;
use crate::real::Real;
use crate::score_form::{FactorNorm, ScoreForm};
use crate::space::{SPACES, entry, space};

#[test]
fn every_space_obeys_every_law() {
    for entry in &SPACES {
        for seed in 0..5 {
            let violations = check_space(entry, seed);
            let messages: Vec<String> = violations.iter().map(Violation::to_string).collect();
            assert!(messages.is_empty(), "seed {seed}:\n{}", messages.join("\n"));
        }
    }
}

/// Every law must detect at least one deliberate fault.
#[test]
fn every_law_detects_a_fault() {
    let faults = [
        (SpaceFault::LiftTooLong, "lorentz", "unlift inverts lift"),
        (SpaceFault::LiftTooLong, "sphere", "results lie on the space"),
        (SpaceFault::LiftTooLong, "lorentz", "tangent lines lead from point to point"),
        (SpaceFault::SquaredDist, "euclidean", "dist is a metric"),
        (SpaceFault::LopsidedDist, "product_l1", "dist is a metric"),
        (SpaceFault::ForgetsCurvature, "lorentz", "dist from the origin is the tangent's length"),
        (SpaceFault::ForgetsCurvature, "product_l2", "curvature is a choice of unit"),
        (SpaceFault::SimilarityIsDist, "sphere", "similarity falls as dist grows"),
        (SpaceFault::StraightGeodesic, "lorentz", "geodesics have constant speed"),
        (SpaceFault::StraightMean, "lorentz", "mean lies in the middle"),
        (SpaceFault::DepthFromOrigin, "lorentz", "depth is the distance to the root"),
        (SpaceFault::ForgetsCurvature, "product_l1", "one factor is the factor"),
        (SpaceFault::UnscaledCentroid, "sphere", "centroids and projections lie on the space"),
        (SpaceFault::WrongForm, "product_l1", "the score form gives the scores"),
        (SpaceFault::SquaredDist, "euclidean", "the score form gives the scores"),
        (SpaceFault::SwapsParentAndChild, "lorentz", "exterior angle is 0 ahead and pi behind"),
        (SpaceFault::RightAngleForEqualPoints, "euclidean", "exterior angle is 0 where it is undefined"),
        (SpaceFault::DepthFromOrigin, "product_l1", "depth is the distance to the root"),
        (SpaceFault::RootPointIsElsewhere, "lorentz", "a root at the origin is the origin"),
        (SpaceFault::LopsidedDist, "sphere", "mirror images are alike"),
        (SpaceFault::WideningAperture, "lorentz", "aperture narrows with depth"),
        (SpaceFault::WideningAperture, "sphere", "aperture narrows with depth"),
        (SpaceFault::NegatedExcess, "product_l1", "cone excess tells inside from outside"),
        (SpaceFault::DividesByDist, "euclidean", "everything is finite"),
        (SpaceFault::CoarseF32, "lorentz", "f32 follows f64"),
    ];
    for (fault, kind, law) in faults {
        let broken = check_space(&faulty_entry(fault, kind), 1);
        let laws: Vec<_> = broken.iter().map(|v| v.law).collect();
        assert!(laws.contains(&law), "{fault:?} in {kind} breaks {laws:?}, not `{law}`");
    }
    for (law, _) in LAWS {
        assert!(faults.iter().any(|(_, _, l)| l == law), "no fault for `{law}`");
    }
}

/// A fault of a [`FaultySpace`].
#[derive(Clone, Copy, Debug, PartialEq)]
enum SpaceFault {
    LiftTooLong,
    SquaredDist,
    LopsidedDist,
    ForgetsCurvature,
    SimilarityIsDist,
    StraightGeodesic,
    StraightMean,
    DepthFromOrigin,
    SwapsParentAndChild,
    RightAngleForEqualPoints,
    RootPointIsElsewhere,
    WideningAperture,
    NegatedExcess,
    DividesByDist,
    CoarseF32,
    UnscaledCentroid,
    WrongForm,
}

/// A registered space with one deliberate fault.
struct FaultySpace<T: Real> {
    fault: SpaceFault,
    space: Box<dyn Space<T>>,
    flat: Box<dyn Space<T>>,
}

fn faulty_entry(fault: SpaceFault, kind: &str) -> SpaceEntry {
    // A registry entry holds plain function pointers, so the fault is passed in a thread-local.
    FAULT.set(fault);
    SpaceEntry {
        build_f32: |spec| Box::new(FaultySpace::new(spec)),
        build_f64: |spec| Box::new(FaultySpace::new(spec)),
        ..*entry(kind).unwrap()
    }
}

thread_local!(static FAULT: Cell<SpaceFault> = const { Cell::new(SpaceFault::LiftTooLong) });

impl<T: Real> FaultySpace<T> {
    fn new(spec: &ManifoldSpec) -> Self {
        let fault = FAULT.get();
        let mut built = spec.clone();
        if fault == SpaceFault::ForgetsCurvature {
            built.curv.fill(1.7);
        }
        FaultySpace { fault, space: space(&built).unwrap(), flat: space(&ManifoldSpec::euclidean(spec.dim)).unwrap() }
    }

    fn has(&self, fault: SpaceFault) -> bool {
        self.fault == fault
    }
}

impl<T: Real> Space<T> for FaultySpace<T> {
    fn spec(&self) -> &ManifoldSpec {
        self.space.spec()
    }
    fn lift(&self, tangent: &[T], point: &mut [T]) {
        self.space.lift(tangent, point);
        if self.has(SpaceFault::LiftTooLong) {
            point.iter_mut().for_each(|v| *v = *v * T::from_f64(1.01));
        }
    }
    fn unlift(&self, point: &[T], tangent: &mut [T]) {
        self.space.unlift(point, tangent);
    }
    fn off_manifold(&self, point: &[T]) -> T {
        self.space.off_manifold(point)
    }
    fn inner(&self, x: &[T], y: &[T]) -> T {
        self.space.inner(x, y)
    }
    fn dist(&self, x: &[T], y: &[T]) -> T {
        let dist = self.space.dist(x, y);
        match self.fault {
            SpaceFault::SquaredDist => dist * dist,
            SpaceFault::LopsidedDist if x[0] > T::ZERO => dist * T::from_f64(1.1),
            SpaceFault::DividesByDist => dist * dist / dist,
            SpaceFault::CoarseF32 if T::NAME == "f32" => dist * T::from_f64(1.00001),
            _ => dist,
        }
    }
    fn similarity(&self, x: &[T], y: &[T]) -> T {
        let similarity = self.space.similarity(x, y);
        if self.has(SpaceFault::SimilarityIsDist) { -similarity } else { similarity }
    }
    fn exterior_angle(&self, parent: &[T], child: &[T], root: &Root) -> T {
        match (self.fault, root) {
            (SpaceFault::SwapsParentAndChild, _) => self.space.exterior_angle(child, parent, root),
            (SpaceFault::RightAngleForEqualPoints, _) if parent == child => T::PI / T::TWO,
            (SpaceFault::RootPointIsElsewhere, Root::Point(point)) => {
                let elsewhere = Root::Point(point.iter().map(|v| v + 0.1).collect());
                self.space.exterior_angle(parent, child, &elsewhere)
            }
            _ => self.space.exterior_angle(parent, child, root),
        }
    }
    fn half_aperture(&self, parent: &[T], min_radius: T, root: &Root) -> T {
        let half = self.space.half_aperture(parent, min_radius, root);
        if self.has(SpaceFault::WideningAperture) { T::PI / T::TWO - half } else { half }
    }
    fn cone_excess(&self, parent: &[T], child: &[T], k: T, scale: T, root: &Root) -> T {
        let excess = self.space.cone_excess(parent, child, k, scale, root);
        if self.has(SpaceFault::NegatedExcess) { -excess } else { excess }
    }
    fn geodesic(&self, from: &[T], to: &[T], t: T, out: &mut [T]) {
        let space = if self.has(SpaceFault::StraightGeodesic) { &self.flat } else { &self.space };
        space.geodesic(from, to, t, out);
    }
    fn mean(&self, points: &[&[T]], out: &mut [T]) {
        let space = if self.has(SpaceFault::StraightMean) { &self.flat } else { &self.space };
        space.mean(points, out);
    }
    fn depth(&self, x: &[T], root: &Root) -> T {
        let root = if self.has(SpaceFault::DepthFromOrigin) { &Root::Origin } else { root };
        self.space.depth(x, root)
    }
    fn centroid(&self, points: &[&[T]], out: &mut [T]) {
        let space = if self.has(SpaceFault::UnscaledCentroid) { &self.flat } else { &self.space };
        space.centroid(points, out);
    }
    fn project(&self, vector: &[T], point: &mut [T]) {
        self.space.project(vector, point);
    }
    fn score_form(&self) -> Option<ScoreForm> {
        let wrong = Some(ScoreForm::Hyperboloids(FactorNorm::L2));
        if self.has(SpaceFault::WrongForm) { wrong } else { self.space.score_form() }
    }
}
