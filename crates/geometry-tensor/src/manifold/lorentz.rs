//! The hyperboloid (Lorentz model) of curvature `-c`, the space of MERU and HyCoCLIP.
//!
//! [`Hyperboloid`] implements the formulas for a single space and for the factors of a product; [`LorentzManifold`]
//! uses them for a single space. The row-wise formulas are rearranged to use only differences of coordinates, as in
//! `conifer_geometry`; the pairwise formulas are matrix products. Sources: MERU (Desai et al. 2023) Sections 3 and B,
//! HyCoCLIP (Pal et al. 2025) Eqs. 1 to 10.

use burn::tensor::Tensor;
use conifer_geometry::ManifoldSpec;
use conifer_kernels::{DistanceNorm, DistanceRule, pairwise_distance};

use super::curvature::Curvature;
use super::{ConeShape, FusedAngles, Manifold, ManifoldEntry, fused, root_rows, scaled};
use crate::{RootT, safe};

/// The hyperboloid of curvature `-c`.
struct LorentzManifold {
    dim: usize,
    curv: Curvature,
}

/// The entry in [`super::MANIFOLDS`].
pub(super) const ENTRY: ManifoldEntry = ManifoldEntry {
    kind: "lorentz",
    build: |spec, curv| Box::new(LorentzManifold { dim: spec.dim, curv: Curvature::new(spec, curv) }),
};

impl LorentzManifold {
    fn hyperboloid(&self, like: &Tensor<2>) -> Hyperboloid<2> {
        Hyperboloid::new(self.curv.tensor(like).reshape([1, 1]))
    }

    fn pairs(&self, x: Tensor<2>, y: Tensor<2>, negative: bool) -> Tensor<2> {
        let rule = DistanceRule { norm: DistanceNorm::L1, floor: safe::acosh_floor(x.dtype()), negative };
        let curv = self.curv.tensor(&x);
        pairwise_distance(x, y, curv, rule)
    }
}

impl Manifold for LorentzManifold {
    fn spec(&self) -> ManifoldSpec {
        ManifoldSpec { curv: self.curv.values(), ..ManifoldSpec::lorentz(self.dim, 1.0) }
    }

    /// `(sinh(r) / r) v` with `r = sqrt(c) |v|` (HyCoCLIP Eq. 4 at the origin). Beyond `r = asinh(2^15)` the length of
    /// the point stays `2^15 / sqrt(c)`.
    fn lift(&self, tangent: Tensor<2>) -> Tensor<2> {
        fused::lift(&tangent, None, &self.curv).unwrap_or_else(|| self.hyperboloid(&tangent).lift(tangent))
    }

    fn lift_scaled(&self, features: Tensor<2>, scale: Tensor<1>) -> Tensor<2> {
        fused::lift(&features, Some(&scale), &self.curv).unwrap_or_else(|| self.lift(scaled(features, scale)))
    }

    /// `(asinh(s) / s) x` with `s = sqrt(c) |x|` (HyCoCLIP Eq. 3 at the origin).
    fn unlift(&self, points: Tensor<2>) -> Tensor<2> {
        self.hyperboloid(&points).unlift(points)
    }

    /// `2 asinh(sqrt(c q) / 2) / sqrt(c)` with `q = <x - y, x - y>_L`.
    fn dist(&self, x: Tensor<2>, y: Tensor<2>) -> Tensor<1> {
        self.hyperboloid(&x).dist(x, y).squeeze_dim(1)
    }

    /// `acosh(-c <x, y>_L) / sqrt(c)` (MERU Eq. 4) from one matrix product. This formula loses digits for close points
    /// with large norms; [`Manifold::dist`] does not.
    fn pairwise_dist(&self, x: Tensor<2>, y: Tensor<2>) -> Tensor<2> {
        self.pairs(x, y, false)
    }

    /// The negated distances. The fused operation negates them.
    fn pairwise_similarity(&self, x: Tensor<2>, y: Tensor<2>) -> Tensor<2> {
        self.pairs(x, y, true)
    }

    /// `<x, y>_L = <x, y> - t(x) t(y)`, at most `-1/c`.
    fn inner(&self, x: Tensor<2>, y: Tensor<2>) -> Tensor<1> {
        self.hyperboloid(&x).inner(x, y).squeeze_dim(1)
    }

    fn pairwise_inner(&self, x: Tensor<2>, y: Tensor<2>) -> Tensor<2> {
        self.hyperboloid(&x).pairwise_inner(x, y)
    }

    /// For the root at the origin, MERU's exterior angle (HyCoCLIP Eq. 9 with `parent`, `child` in this order). For
    /// another root, the exterior angle at the parent in the triangle of root, parent and child.
    fn exterior_angle(&self, parent: Tensor<2>, child: Tensor<2>, root: &RootT) -> Tensor<1> {
        self.hyperboloid(&parent).exterior_angle(parent, child, root_rows(root)).squeeze_dim(1)
    }

    fn fused_angles(&self, like: &Tensor<2>, root: &RootT) -> Option<FusedAngles> {
        fused::angles(like, Some(&self.curv), root)
    }

    fn pairwise_exterior_angle(&self, parent: Tensor<2>, child: Tensor<2>, root: &RootT) -> Tensor<2> {
        fused::pairwise_exterior_angle(self, &parent, &child, root)
            .unwrap_or_else(|| self.hyperboloid(&parent).pairwise_exterior_angle(parent, child, root_rows(root)))
    }

    fn cone_hinge(&self, parent: Tensor<2>, child: Tensor<2>, shape: &ConeShape, root: &RootT) -> Tensor<1> {
        fused::cone_hinge(&parent, &child, &self.curv, shape, root).unwrap_or_else(|| {
            let (space, root) = (self.hyperboloid(&parent), root_rows(root));
            space.cone_hinge(parent, child, shape, root).squeeze_dim(1)
        })
    }

    /// `asin(2K / sinh(sqrt(c) d))` with `d` the distance to the root. At the origin this is MERU's `asin(2K / (sqrt(c)
    /// |x|))` (HyCoCLIP Eq. 7).
    fn half_aperture(&self, parent: Tensor<2>, min_radius: f64, root: &RootT) -> Tensor<1> {
        self.hyperboloid(&parent).half_aperture(parent, min_radius, root_rows(root)).squeeze_dim(1)
    }

    /// `(sinh((1 - t) a) from + sinh(t a) to) / sinh(a)` with `a = sqrt(c) dist`.
    fn geodesic(&self, from: Tensor<2>, to: Tensor<2>, t: f64) -> Tensor<2> {
        self.hyperboloid(&from).geodesic(from, to, t)
    }

    /// `asinh(sqrt(c) |x|) / sqrt(c)` for the root at the origin, else the distance to the root.
    fn depth(&self, x: Tensor<2>, root: &RootT) -> Tensor<1> {
        self.hyperboloid(&x).depth(x, root_rows(root)).squeeze_dim(1)
    }
}

/// The formulas of the Lorentz model on points `[.., d]`: one hyperboloid (`D = 2`), or one per factor (`D = 3`).
///
/// Results keep the last dimension with size 1. The curvatures have a shape that broadcasts over the points.
pub(super) struct Hyperboloid<const D: usize> {
    curv: Tensor<D>,
    /// `sqrt(c)`: lengths multiplied by it are lengths at curvature -1.
    scale: Tensor<D>,
}

impl<const D: usize> Hyperboloid<D> {
    pub(super) fn new(curv: Tensor<D>) -> Self {
        let scale = curv.clone().sqrt();
        Hyperboloid { curv, scale }
    }

    pub(super) fn lift(&self, tangent: Tensor<D>) -> Tensor<D> {
        let rapidity = safe::norm(tangent.clone()) * self.scale.clone();
        tangent * safe::sinhc(rapidity)
    }

    pub(super) fn unlift(&self, points: Tensor<D>) -> Tensor<D> {
        let sinh = safe::norm(points.clone()) * self.scale.clone();
        points * safe::asinhc(sinh)
    }

    pub(super) fn inner(&self, x: Tensor<D>, y: Tensor<D>) -> Tensor<D> {
        safe::dot(x.clone(), y.clone()) - self.time(safe::square(x)) * self.time(safe::square(y))
    }

    /// `[X, t(X)] [Y, -t(Y)]^T`: `[.., M, d], [.., N, d] -> [.., M, N]`.
    pub(super) fn pairwise_inner(&self, x: Tensor<D>, y: Tensor<D>) -> Tensor<D> {
        let (x_time, y_time) = (self.time(safe::square(x.clone())), self.time(safe::square(y.clone())));
        let x = Tensor::cat(vec![x, x_time], D - 1);
        let y = Tensor::cat(vec![y, -y_time], D - 1);
        x.matmul(y.transpose())
    }

    pub(super) fn dist(&self, x: Tensor<D>, y: Tensor<D>) -> Tensor<D> {
        self.rapidity(x, y) / self.scale.clone()
    }

    pub(super) fn depth(&self, x: Tensor<D>, root: Option<Tensor<D>>) -> Tensor<D> {
        match root {
            None => (safe::norm(x) * self.scale.clone()).asinh() / self.scale.clone(),
            Some(root) => self.dist(x, root),
        }
    }

    pub(super) fn half_aperture(&self, x: Tensor<D>, min_radius: f64, root: Option<Tensor<D>>) -> Tensor<D> {
        // The square of sinh(sqrt(c) d). At the origin it is c |x|^2; for another root it is cosh^2 - 1 with cosh = 1 +
        // c q / 2.
        let reach = match root {
            None => safe::square(x) * self.curv.clone(),
            Some(root) => {
                let u = self.chord_squared(x, root) * self.curv.clone() / 2.0;
                u.clone() * (u + 2.0)
            }
        };
        safe::aperture(2.0 * min_radius, reach)
    }

    /// `max(0, exterior_angle - aperture_scale min(half_aperture, max_aperture))`, radians, per row.
    pub(super) fn cone_hinge(
        &self,
        parent: Tensor<D>,
        child: Tensor<D>,
        shape: &ConeShape,
        root: Option<Tensor<D>>,
    ) -> Tensor<D> {
        let aperture = shape.cut(self.half_aperture(parent.clone(), shape.min_radius, root.clone()));
        (self.exterior_angle(parent, child, root) - aperture * shape.aperture_scale).clamp_min(0.0)
    }

    pub(super) fn geodesic(&self, from: Tensor<D>, to: Tensor<D>, t: f64) -> Tensor<D> {
        let span = self.rapidity(from.clone(), to.clone());
        let close = span.clone().lower_equal_elem(safe::tiny(span.dtype()));
        let span = span.mask_fill(close.clone(), 1.0);
        let weight = |t: f64| ((span.clone() * t).sinh() / span.clone().sinh()).mask_fill(close.clone(), t);
        from * weight(1.0 - t) + to * weight(t)
    }

    /// The angle at `parent`. A root other than the origin is first moved to the origin by an isometry.
    pub(super) fn exterior_angle(&self, parent: Tensor<D>, child: Tensor<D>, root: Option<Tensor<D>>) -> Tensor<D> {
        let (parent, child) = self.seen_from(parent, child, root);
        self.exterior_angle_at_origin(parent, child)
    }

    /// The angle at every `parent` to every `child`: `[.., P, d], [.., C, d] -> [.., P, C]`.
    ///
    /// Let `y = <child, parent / |parent|>`. The tangent vector at the parent towards the child has the component
    /// `sqrt(c) (t(parent) y - t(child) |parent|)` along the outward direction, with the curvature `-c`, and a
    /// perpendicular part of length `sqrt(|child|^2 - y^2)`. Each of the two is computed from one matrix product. The
    /// perpendicular part is the root of a difference of squares, so angles closer to 0 or pi than about the square
    /// root of the rounding error are not resolved.
    pub(super) fn pairwise_exterior_angle(
        &self,
        parent: Tensor<D>,
        child: Tensor<D>,
        root: Option<Tensor<D>>,
    ) -> Tensor<D> {
        let (parent, child) = self.seen_from(parent, child, root);
        let norm = safe::norm(parent.clone());
        let outward = safe::ratio(parent, norm.clone());
        let child_square = safe::square(child.clone());
        let (parent_time, child_time) = (self.time(norm.clone().square()), self.time(child_square.clone()));

        let left = Tensor::cat(vec![outward.clone() * parent_time, -norm.clone()], D - 1) * self.scale.clone();
        let along = left.matmul(Tensor::cat(vec![child.clone(), child_time], D - 1).transpose());
        let component = outward.matmul(child.transpose());
        let across = safe::sqrt(child_square.transpose() - component.square());
        let angle = safe::angle(across, along);
        let at_root = norm.clone().lower_equal_elem(safe::tiny(norm.dtype())).expand(angle.dims());
        angle.mask_fill(at_root, 0.0)
    }

    /// `sqrt(1/c + |x|^2)` from the squared norm.
    fn time(&self, square: Tensor<D>) -> Tensor<D> {
        (square + self.curv.clone().recip()).sqrt()
    }

    /// `sqrt(c) dist = 2 asinh(sqrt(c q) / 2)`.
    fn rapidity(&self, x: Tensor<D>, y: Tensor<D>) -> Tensor<D> {
        (safe::sqrt(self.chord_squared(x, y)) * self.scale.clone() / 2.0).asinh() * 2.0
    }

    /// `q = <x - y, x - y>_L = |x - y|^2 - (t(x) - t(y))^2`, the squared chord, without cancellation.
    ///
    /// With `d = x - y`, `s = x + y` and `p` the part of `d` perpendicular to `s`, `q = (|p|^2 |s|^2 + 4 |d|^2 / c) /
    /// (2 (1/c + t(x) t(y) + <x, y>))`. When `<x, y> >= 0`, this only adds positive numbers. Otherwise `q = 2 (t(x)
    /// t(y) - 1/c - <x, y>)`, whose first part is written as `((|x|^2 + |y|^2) / c + |x|^2 |y|^2) / (t(x) t(y) + 1/c)`,
    /// so that again only positive numbers are added. Both forms are computed and one is selected. The denominator of
    /// the first form uses `|<x, y>|` instead of `<x, y>`, so that rounding cannot make it zero where the second form
    /// is selected.
    fn chord_squared(&self, x: Tensor<D>, y: Tensor<D>) -> Tensor<D> {
        let (d, s) = (x.clone() - y.clone(), x.clone() + y.clone());
        let (xx, yy, xy) = (safe::square(x.clone()), safe::square(y.clone()), safe::dot(x, y));
        let (dd, ss) = (safe::square(d.clone()), safe::square(s.clone()));
        let unit = self.curv.clone().recip();
        let times = self.time(xx.clone()) * self.time(yy.clone());
        let opposed = xy.clone().lower_elem(0.0);

        // `coefficient` minimises |p|^2, so the derivative of |p|^2 with respect to it is zero and no gradient needs to
        // flow through it.
        let coefficient = safe::ratio(safe::dot(d.clone(), s.clone()), ss.clone()).detach();
        let pp = safe::square(d - s * coefficient);
        let near = (pp * ss + dd * unit.clone() * 4.0) / ((times.clone() + unit.clone() + xy.clone().abs()) * 2.0);
        let far = (((xx.clone() + yy.clone()) * unit.clone() + xx * yy) / (times + unit) - xy) * 2.0;
        near.mask_where(opposed, far)
    }

    /// `parent` and `child` after the isometry that moves the root to the origin.
    fn seen_from(&self, parent: Tensor<D>, child: Tensor<D>, root: Option<Tensor<D>>) -> (Tensor<D>, Tensor<D>) {
        match root {
            None => (parent, child),
            Some(root) => (self.boost(parent, root.clone()), self.boost(child, root)),
        }
    }

    /// The Lorentz boost that moves `root` to the origin, `x - sqrt(c) t(x) r + c <r, x> r / (1 + sqrt(c) t(r))`. It is
    /// written in differences: `d + r (sqrt(c) (t(r) - t(x)) - c q / 2) / (1 + sqrt(c) t(r))` with `d = x - r` and `q`
    /// the squared chord.
    fn boost(&self, x: Tensor<D>, root: Tensor<D>) -> Tensor<D> {
        let (x_time, root_time) = (self.time(safe::square(x.clone())), self.time(safe::square(root.clone())));
        let d = x.clone() - root.clone();
        let closer = -safe::dot(d.clone(), x.clone() + root.clone()) / (x_time + root_time.clone());
        let half_chord = self.chord_squared(x, root.clone()) * self.curv.clone() / 2.0;
        let factor = (closer * self.scale.clone() - half_chord) / (root_time * self.scale.clone() + 1.0);
        d + root * factor
    }

    /// The angle between the outward direction at `parent` and the geodesic to `child`, for the root at the origin.
    ///
    /// The tangent vector at the parent `p` towards the child has a part of length `across` perpendicular to `p` and
    /// the component `sqrt(c) (t(p) y - t(q) |p|)` along `p`, where `y` is the component of the child `q` along `p`.
    /// Parallel transport to the origin along `p` preserves the perpendicular part, so it is computed from the space
    /// components of the child. For `y > 0` the two products are nearly equal at large norms, so their difference is
    /// computed as `((y - |p|) (y + |p|) / sqrt(c) - sqrt(c) across^2 |p|^2) / (t(p) y + t(q) |p|)`.
    fn exterior_angle_at_origin(&self, parent: Tensor<D>, child: Tensor<D>) -> Tensor<D> {
        let norm = safe::norm(parent.clone());
        let outward = safe::ratio(parent.clone(), norm.clone());
        let child_square = safe::square(child.clone());
        let (parent_time, child_time) = (self.time(norm.clone().square()), self.time(child_square.clone()));

        // The perpendicular part is computed from the shorter of child - parent and child, which has the smaller
        // rounding error.
        let far = safe::square(child.clone() - parent.clone()).greater_equal(child_square);
        let near = far.clone().bool_not();
        let shape = parent.dims();
        let base = child - parent.mask_fill(far.clone().expand(shape), 0.0);
        let shift = safe::dot(base.clone(), outward.clone());
        let component = shift.clone() + norm.clone().mask_fill(far, 0.0);
        let ahead = shift.clone() - norm.clone().mask_fill(near, 0.0);
        let across_square = safe::square(base - outward * shift);

        let behind = component.clone().lower_equal_elem(0.0);
        let total = parent_time.clone() * component.clone().abs() + child_time.clone() * norm.clone();
        let no_total = total.clone().lower_equal_elem(safe::tiny(total.dtype()));
        let total = total.mask_fill(no_total, 1.0);
        let in_front = ahead * ((component.clone() + norm.clone()) / total.clone()) / self.scale.clone()
            - across_square.clone() * norm.clone() * (norm.clone() / total) * self.scale.clone();
        let at_back = (parent_time * component - child_time * norm.clone()) * self.scale.clone();
        let along = in_front.mask_where(behind, at_back);

        let at_root = norm.clone().lower_equal_elem(safe::tiny(norm.dtype()));
        safe::angle(safe::sqrt(across_square), along).mask_fill(at_root, 0.0)
    }
}
