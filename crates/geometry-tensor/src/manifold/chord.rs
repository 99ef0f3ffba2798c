//! Depths, angles and apertures along straight lines, shared by the sphere and Euclidean space.
//!
//! Angles are measured from `parent - root` to `child - parent`: HierarCaps Eq. 1, RCME Eq. 1, and Wang et al. Eq. 10
//! with the root at the origin. [`exterior_angle`] is zero if either vector has length zero,
//! [`pairwise_exterior_angle`] if the first one has.

use burn::tensor::Tensor;

use super::root_rows;
use crate::{RootT, safe};

/// `|x - root|`: `[B, D] -> [B]`.
pub(super) fn depth(x: Tensor<2>, root: &RootT) -> Tensor<1> {
    safe::norm(from_root(x, root)).squeeze_dim(1)
}

/// `asin(K / |parent - root|)`; pi/2 within distance `K` of the root: `[B, D] -> [B]`.
pub(super) fn half_aperture(parent: Tensor<2>, min_radius: f64, root: &RootT) -> Tensor<1> {
    safe::aperture(min_radius, safe::square(from_root(parent, root))).squeeze_dim(1)
}

/// Exterior angles row by row, `[B, D], [B, D] -> [B]`, as `2 atan2(|a - b|, |a + b|)` of the two unit vectors (W.
/// Kahan), which is accurate at 0 and pi.
pub(super) fn exterior_angle(parent: Tensor<2>, child: Tensor<2>, root: &RootT) -> Tensor<1> {
    let outward = from_root(parent.clone(), root);
    let onward = child - parent;
    let (outward_norm, onward_norm) = (safe::norm(outward.clone()), safe::norm(onward.clone()));
    let undefined = no_length(outward_norm.clone()).bool_or(no_length(onward_norm.clone()));
    let a = safe::ratio(outward, outward_norm);
    let b = safe::ratio(onward, onward_norm);
    let half = safe::angle(safe::norm(a.clone() - b.clone()), safe::norm(a + b));
    (half * 2.0).mask_fill(undefined, 0.0).squeeze_dim(1)
}

/// Exterior angles of all pairs, `[P, D], [C, D] -> [P, C]`, from two matrix products.
///
/// The length of the part of `child - parent` perpendicular to the outward direction is computed from a difference of
/// squares. Angles closer to 0 or pi than about the square root of the rounding error are therefore not resolved.
pub(super) fn pairwise_exterior_angle(parent: Tensor<2>, child: Tensor<2>, root: &RootT) -> Tensor<2> {
    let outward = from_root(parent.clone(), root);
    let outward_norm = safe::norm(outward.clone());
    let undefined = no_length(outward_norm.clone());
    let outward = safe::ratio(outward, outward_norm);
    let along = outward.clone().matmul(child.clone().transpose()) - safe::dot(outward, parent.clone());
    let across = safe::sqrt(pairwise_square(parent, child) - along.clone().square());
    let angle = safe::angle(across, along);
    let undefined = undefined.expand(angle.dims());
    angle.mask_fill(undefined, 0.0)
}

/// `|x - y|^2` of all pairs from one matrix product: `[M, D], [N, D] -> [M, N]`. Rounding can make it negative.
pub(super) fn pairwise_square(x: Tensor<2>, y: Tensor<2>) -> Tensor<2> {
    let (xx, yy) = (safe::square(x.clone()), safe::square(y.clone()).transpose());
    xx + yy - x.matmul(y.transpose()) * 2.0
}

fn from_root(x: Tensor<2>, root: &RootT) -> Tensor<2> {
    match root_rows(root) {
        Some(root) => x - root,
        None => x,
    }
}

fn no_length(norm: Tensor<2>) -> Tensor<2, burn::tensor::Bool> {
    let tiny = safe::tiny(norm.dtype());
    norm.lower_equal_elem(tiny)
}
