//! Products of hyperboloids, the space of PHyCLIP: `K` factors, each with its own curvature.
//!
//! A point is the concatenation of its factors. Distances aggregate by the mean over factors (l1) or the root mean
//! square (l2), as in PHyCLIP's released code; the sums in the paper differ by the constant `K` or `sqrt(K)`.

use std::ops::Range;

use crate::real::Real;
use crate::root::Root;
use crate::score_form::{FactorNorm, ScoreForm};
use crate::space::{Space, SpaceEntry};
use crate::spaces::lorentz::Lorentz;
use crate::spaces::sample_curv;
use crate::spec::ManifoldSpec;

/// A product of [`Lorentz`] factors.
pub(crate) struct Product<T> {
    spec: ManifoldSpec,
    factors: Vec<Lorentz<T>>,
    norm: FactorNorm,
}

impl<T: Real> Space<T> for Product<T> {
    fn spec(&self) -> &ManifoldSpec {
        &self.spec
    }

    fn lift(&self, tangent: &[T], point: &mut [T]) {
        for (factor, at) in self.parts() {
            factor.lift(&tangent[at.clone()], &mut point[at]);
        }
    }

    fn unlift(&self, point: &[T], tangent: &mut [T]) {
        for (factor, at) in self.parts() {
            factor.unlift(&point[at.clone()], &mut tangent[at]);
        }
    }

    fn off_manifold(&self, _point: &[T]) -> T {
        T::ZERO
    }

    /// Sum over factors of `<x_i, y_i>_L`: the score of PHyCLIP's released evaluation. With more than one factor, this
    /// score and the distance can rank points differently.
    fn inner(&self, x: &[T], y: &[T]) -> T {
        let inner = |(f, at): (&Lorentz<T>, Range<usize>)| f.inner(&x[at.clone()], &y[at]);
        self.parts().map(inner).fold(T::ZERO, |a, b| a + b)
    }

    /// l1: `mean_i d_i(x_i, y_i)`; l2: `sqrt(mean_i d_i(x_i, y_i)^2)`. PHyCLIP Eq. 2 divided by `K` (l1) or `sqrt(K)`.
    fn dist(&self, x: &[T], y: &[T]) -> T {
        self.aggregate(|factor, at| factor.dist(&x[at.clone()], &y[at]))
    }

    fn similarity(&self, x: &[T], y: &[T]) -> T {
        -self.dist(x, y)
    }

    /// Mean over factors, as PHyCLIP averages its entailment terms.
    fn exterior_angle(&self, parent: &[T], child: &[T], root: &Root) -> T {
        self.mean_over(|factor, at| {
            let root = root.view().slice(at.clone());
            factor.exterior_angle_at(&parent[at.clone()], &child[at], root)
        })
    }

    fn half_aperture(&self, parent: &[T], min_radius: T, root: &Root) -> T {
        self.mean_over(|factor, at| {
            let root = root.view().slice(at.clone());
            factor.half_aperture_at(&parent[at], min_radius, root)
        })
    }

    /// Mean over all factors of the positive excesses, or the largest excess when none is positive. The result is
    /// negative if the child is inside the cone of every factor; its positive part is the training hinge.
    fn cone_excess(&self, parent: &[T], child: &[T], min_radius: T, aperture_scale: T, root: &Root) -> T {
        let excess = |(factor, at): (&Lorentz<T>, Range<usize>)| {
            let root = root.view().slice(at.clone());
            let (parent, child) = (&parent[at.clone()], &child[at]);
            factor.exterior_angle_at(parent, child, root)
                - aperture_scale * factor.half_aperture_at(parent, min_radius, root)
        };
        let excesses: Vec<T> = self.parts().map(excess).collect();
        let outside = FactorNorm::L1.of(excesses.iter().map(|e| e.max(T::ZERO)), self.count());
        if outside > T::ZERO { outside } else { excesses.into_iter().reduce(T::max).unwrap_or(T::ZERO) }
    }

    fn geodesic(&self, from: &[T], to: &[T], t: T, out: &mut [T]) {
        for (factor, at) in self.parts() {
            factor.geodesic(&from[at.clone()], &to[at.clone()], t, &mut out[at]);
        }
    }

    fn mean(&self, points: &[&[T]], out: &mut [T]) {
        for (factor, at) in self.parts() {
            let parts: Vec<&[T]> = points.iter().map(|p| &p[at.clone()]).collect();
            factor.mean(&parts, &mut out[at]);
        }
    }

    /// The factor depths, aggregated like the distance.
    fn depth(&self, x: &[T], root: &Root) -> T {
        self.aggregate(|factor, at| factor.depth_at(&x[at.clone()], root.view().slice(at)))
    }

    fn centroid(&self, points: &[&[T]], out: &mut [T]) {
        for (factor, at) in self.parts() {
            let parts: Vec<&[T]> = points.iter().map(|p| &p[at.clone()]).collect();
            factor.centroid(&parts, &mut out[at]);
        }
    }

    fn score_form(&self) -> Option<ScoreForm> {
        Some(ScoreForm::Hyperboloids(self.norm))
    }
}

/// The l1 entry in [`crate::SPACES`].
pub(crate) const ENTRY_L1: SpaceEntry = SpaceEntry {
    kind: "product_l1",
    summary: "product of hyperboloids, mean of the factor distances, as in PHyCLIP",
    factored: true,
    curved: true,
    tangent_norm: Some(|spec, v| aggregate_norms(spec, v, FactorNorm::L1)),
    build_f32: |spec| Box::new(Product::<f32>::new(spec, FactorNorm::L1)),
    build_f64: |spec| Box::new(Product::<f64>::new(spec, FactorNorm::L1)),
    sample: |seed| shapes(ManifoldSpec::product_l1, seed),
};

/// The l2 entry in [`crate::SPACES`].
pub(crate) const ENTRY_L2: SpaceEntry = SpaceEntry {
    kind: "product_l2",
    summary: "product of hyperboloids, root mean square of the factor distances",
    factored: true,
    curved: true,
    tangent_norm: Some(|spec, v| aggregate_norms(spec, v, FactorNorm::L2)),
    build_f32: |spec| Box::new(Product::<f32>::new(spec, FactorNorm::L2)),
    build_f64: |spec| Box::new(Product::<f64>::new(spec, FactorNorm::L2)),
    sample: |seed| shapes(ManifoldSpec::product_l2, seed),
};

impl FactorNorm {
    /// Aggregates the lengths in `count` factors.
    fn of<T: Real>(self, lengths: impl Iterator<Item = T>, count: T) -> T {
        match self {
            FactorNorm::L1 => lengths.fold(T::ZERO, |sum, d| sum + d) / count,
            FactorNorm::L2 => (lengths.fold(T::ZERO, |sum, d| sum + d * d) / count).sqrt(),
        }
    }
}

impl<T: Real> Product<T> {
    fn new(spec: &ManifoldSpec, norm: FactorNorm) -> Self {
        let factor = |c: &f64| Lorentz::new(ManifoldSpec::lorentz(spec.factor_dim(), *c), *c);
        Product { spec: spec.clone(), factors: spec.curv.iter().map(factor).collect(), norm }
    }

    fn count(&self) -> T {
        T::from_f64(self.factors.len() as f64)
    }

    /// Each factor with the range of its components.
    fn parts(&self) -> impl Iterator<Item = (&Lorentz<T>, Range<usize>)> {
        let dim = self.spec.factor_dim();
        let at = move |i: usize| i * dim..(i + 1) * dim;
        self.factors.iter().enumerate().map(move |(i, factor)| (factor, at(i)))
    }

    fn aggregate(&self, length: impl Fn(&Lorentz<T>, Range<usize>) -> T) -> T {
        let lengths = self.parts().map(|(factor, at)| length(factor, at));
        self.norm.of(lengths, self.count())
    }

    fn mean_over(&self, angle: impl Fn(&Lorentz<T>, Range<usize>) -> T) -> T {
        FactorNorm::L1.of(self.parts().map(|(factor, at)| angle(factor, at)), self.count())
    }
}

/// The norm of a tangent vector at the origin: the norms of its factors, aggregated like distances.
fn aggregate_norms(spec: &ManifoldSpec, tangent: &[f64], norm: FactorNorm) -> f64 {
    let parts = tangent.chunks_exact(spec.factor_dim());
    let lengths = parts.map(|p| p.iter().map(|a| a * a).sum::<f64>().sqrt());
    norm.of(lengths, spec.factors as f64)
}

fn shapes(build: fn(usize, usize, Vec<f64>) -> ManifoldSpec, seed: u64) -> Vec<ManifoldSpec> {
    vec![build(1, 3, vec![sample_curv(seed)]), build(2, 1, vec![1.0, 1.0]), build(3, 8, vec![0.1, 1.0, 10.0])]
}
