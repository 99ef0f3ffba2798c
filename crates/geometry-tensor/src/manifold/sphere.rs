//! The unit sphere, the space of CLIP. With a [`RootT::Point`] it has the radial geometry of HierarCaps and RCME.

use burn::tensor::{Int, Tensor};
use conifer_geometry::ManifoldSpec;
use conifer_kernels::unit_rows;

use super::{Manifold, ManifoldEntry, chord};
use crate::{RootT, safe};

/// The unit sphere. Distances and geodesics follow the sphere. Depths, angles and apertures use straight chords of the
/// ambient space, as in HierarCaps.
struct SphereManifold {
    dim: usize,
}

/// The entry in [`super::MANIFOLDS`].
pub(super) const ENTRY: ManifoldEntry =
    ManifoldEntry { kind: "sphere", build: |spec, _| Box::new(SphereManifold { dim: spec.dim }) };

impl Manifold for SphereManifold {
    fn spec(&self) -> ManifoldSpec {
        ManifoldSpec::sphere(self.dim)
    }

    /// `v / |v|`; zero stays zero.
    fn lift(&self, tangent: Tensor<2>) -> Tensor<2> {
        let tiny = safe::tiny(tangent.dtype());
        unit_rows(tangent, tiny)
    }

    /// `v / |v|`, as in [`Manifold::lift`].
    fn project(&self, vectors: Tensor<2>) -> Tensor<2> {
        self.lift(vectors)
    }

    /// The identity.
    fn unlift(&self, points: Tensor<2>) -> Tensor<2> {
        points
    }

    /// The arc, radians in `[0, pi]`: `2 atan2(|x - y|, |x + y|)`, which is accurate at both ends, unlike `acos`.
    fn dist(&self, x: Tensor<2>, y: Tensor<2>) -> Tensor<1> {
        arc(x, y).squeeze_dim(1)
    }

    /// The arc, with `|x - y|^2` and `|x + y|^2` from one matrix product.
    fn pairwise_dist(&self, x: Tensor<2>, y: Tensor<2>) -> Tensor<2> {
        let squares = safe::square(x.clone()) + safe::square(y.clone()).transpose();
        let twice = x.matmul(y.transpose()) * 2.0;
        safe::angle(safe::sqrt(squares.clone() - twice.clone()), safe::sqrt(squares + twice)) * 2.0
    }

    /// `<x, y>`.
    fn inner(&self, x: Tensor<2>, y: Tensor<2>) -> Tensor<1> {
        safe::dot(x, y).squeeze_dim(1)
    }

    /// `X Y^T`.
    fn pairwise_inner(&self, x: Tensor<2>, y: Tensor<2>) -> Tensor<2> {
        x.matmul(y.transpose())
    }

    /// The cosine, `<x, y>`.
    fn similarity(&self, x: Tensor<2>, y: Tensor<2>) -> Tensor<1> {
        self.inner(x, y)
    }

    /// The cosines, `X Y^T`.
    fn pairwise_similarity(&self, x: Tensor<2>, y: Tensor<2>) -> Tensor<2> {
        self.pairwise_inner(x, y)
    }

    fn exterior_angle(&self, parent: Tensor<2>, child: Tensor<2>, root: &RootT) -> Tensor<1> {
        chord::exterior_angle(parent, child, root)
    }

    fn pairwise_exterior_angle(&self, parent: Tensor<2>, child: Tensor<2>, root: &RootT) -> Tensor<2> {
        chord::pairwise_exterior_angle(parent, child, root)
    }

    /// `asin(min(1, K / |parent - root|))` (HierarCaps, ablation: `K = 0.05`).
    fn half_aperture(&self, parent: Tensor<2>, min_radius: f64, root: &RootT) -> Tensor<1> {
        chord::half_aperture(parent, min_radius, root)
    }

    /// `(sin((1 - t) a) from + sin(t a) to) / sin(a)` with `a` the arc between the points. Between opposite points the
    /// arc is not unique; the arc used here starts towards the axis on which `from` has its smallest absolute
    /// component.
    fn geodesic(&self, from: Tensor<2>, to: Tensor<2>, t: f64) -> Tensor<2> {
        let eps = safe::eps(from.dtype());
        let arc = arc(from.clone(), to.clone());
        let close = arc.clone().lower_elem(eps);
        let opposite = arc.clone().greater_elem(std::f64::consts::PI - eps);
        let special = close.clone().bool_or(opposite.clone());
        let shape = from.dims();

        let any = arc.mask_fill(special, 1.0);
        let sine = any.clone().sin();
        let curved =
            from.clone() * ((any.clone() * (1.0 - t)).sin() / sine.clone()) + to.clone() * ((any * t).sin() / sine);
        let straight = from.clone() * (1.0 - t) + to * t;
        let (sin, cos) = (t * std::f64::consts::PI).sin_cos();
        let over = from.clone() * cos + perpendicular(from) * sin;
        curved.mask_where(close.expand(shape), straight).mask_where(opposite.expand(shape), over)
    }

    /// The normalised arithmetic mean, as CLIP averages its prompts.
    fn mean(&self, points: Tensor<2>) -> Tensor<2> {
        self.lift(points.mean_dim(0))
    }

    /// The chord `|x - root|`, HierarCaps' `d_r`.
    fn depth(&self, x: Tensor<2>, root: &RootT) -> Tensor<1> {
        chord::depth(x, root)
    }
}

/// The arc between the points of each row, radians: `[B, D], [B, D] -> [B, 1]`.
fn arc(x: Tensor<2>, y: Tensor<2>) -> Tensor<2> {
    safe::angle(safe::norm(x.clone() - y.clone()), safe::norm(x + y)) * 2.0
}

/// For each unit vector `x`, a perpendicular unit vector: the axis on which `x` has its smallest absolute component,
/// orthogonalised against `x`.
fn perpendicular(x: Tensor<2>) -> Tensor<2> {
    let [rows, dim] = x.dims();
    let smallest = x.clone().abs().argmin(1);
    let columns = Tensor::<1, Int>::arange(0..dim as i64, &x.device()).unsqueeze_dim::<2>(0);
    let axis = columns.expand([rows, dim]).equal(smallest.expand([rows, dim])).float().cast(x.dtype());
    let side = axis.clone() - x.clone() * safe::dot(axis, x);
    safe::ratio(side.clone(), safe::norm(side))
}
