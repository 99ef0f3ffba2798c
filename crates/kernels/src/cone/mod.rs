//! The cone hinge, which measures how far children are outside the cones of their parents: [`cone_hinge`].

use burn::backend::{Backend, Dispatch, backend_extension, tensor::FloatTensor};
use burn::tensor::Tensor;

use crate::arrays::is_fused;

mod autodiff;
mod rows;
#[cfg(test)]
mod tests;

/// Size of the cones of [`cone_hinge`], and its numerical thresholds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConeHinge {
    /// K of the half-aperture `asin(2K / (sqrt(c) |parent|))`.
    pub min_radius: f64,
    /// eta: factor on the half-aperture.
    pub aperture_scale: f64,
    /// Largest half-aperture of a factor, before `aperture_scale`, radians; `None` means pi/2.
    pub max_aperture: Option<f64>,
    /// Lengths up to this value count as zero: the angle is then 0 and no gradient flows through it.
    pub tiny: f64,
    /// If the child's component perpendicular to the parent is at most `straight` times the child's length, it counts
    /// as an `f64` rounding error, and the child as straight ahead or straight back.
    pub straight: f64,
}

/// Computes `mean_k max(0, ext_k - eta aperture_k)` over the factors of each row, in radians, with the root at the
/// origin. Shapes: `[B, K d]`, `[B, K d]` and `[K]` to `[B]`.
///
/// `ext` is the angle at the parent between its outward direction and the geodesic to the child. `aperture` is `asin(2K
/// / (sqrt(c) |parent|))` (HyCoCLIP Eqs. 7 and 9, PHyCLIP Eq. 5). Sums over coordinates and all later steps are in
/// `f64`, so angles have a relative error of about 1e-7, also near 0 and pi. Gradients flow to all three tensors. The
/// backward pass skips factors whose hinge is 0. The saved state is the points and four numbers per factor of a row.
///
/// Fused for `f32` on the CPU. Returns `None` for other tensors, for which the caller computes the hinge with tensor
/// operations. The result is bit-identical for any number of threads.
///
/// # Panics
/// Panics if the shapes do not match.
pub fn cone_hinge(parent: Tensor<2>, child: Tensor<2>, curv: Tensor<1>, cone: ConeHinge) -> Option<Tensor<1>> {
    let ([rows, width], [factors]) = (parent.dims(), curv.dims());
    let fits = child.dims() == [rows, width] && width.is_multiple_of(factors.max(1));
    assert!(
        fits,
        "expected equal shapes, and a width that is a multiple of the number of factors; found parents {rows} x {width}, children {:?}, {factors} factors",
        child.dims()
    );
    if !(is_fused(&parent) && is_fused(&child) && is_fused(&curv)) {
        return None;
    }
    let [parent, child] = [parent, child].map(Tensor::into_dispatch);
    Some(Tensor::from_dispatch(<Dispatch as ConeOps>::cone_hinge(parent, child, curv.into_dispatch(), cone)))
}

/// Burn backend extension that declares the fused operation.
#[backend_extension(Flex, Autodiff)]
trait ConeOps: Backend {
    /// See [`cone_hinge`].
    fn cone_hinge(
        parent: FloatTensor<Self>,
        child: FloatTensor<Self>,
        curv: FloatTensor<Self>,
        cone: ConeHinge,
    ) -> FloatTensor<Self>;
}
