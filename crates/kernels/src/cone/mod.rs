//! The cone hinge, which measures how far children are outside the cones of their parents: [`cone_hinge`].

use burn::backend::{Backend, Dispatch, backend_extension, tensor::FloatTensor};
use burn::tensor::Tensor;

use crate::arrays::is_fused;

mod autodiff;
mod rows;
#[cfg(test)]
mod tests;

/// Size of the cones of [`cone_hinge`], and its thresholds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConeHinge {
    /// K of the half-aperture `asin(2K / (sqrt(c) |parent|))`.
    pub min_radius: f64,
    /// eta: factor on the half-aperture.
    pub aperture_scale: f64,
    /// Largest half-aperture of a factor, before `aperture_scale`, radians; `None` means pi/2.
    pub max_aperture: Option<f64>,
    /// Lengths up to this count as zero: the angle there is 0 and no gradient flows through it.
    pub tiny: f64,
    /// A component of the child across the parent of at most this times the child's length counts as rounding in `f64`,
    /// so the child is straight ahead or behind.
    pub straight: f64,
}

/// Computes `mean_k max(0, ext_k - eta aperture_k)` over the factors of each row, in radians, with the root at the
/// origin. Shapes: `[B, K d]`, `[B, K d]` and `[K]` to `[B]`.
///
/// `ext` is the angle at the parent between its outward direction and the geodesic to the child. `aperture` is `asin(2K
/// / (sqrt(c) |parent|))` (HyCoCLIP Eqs. 9 and 10, PHyCLIP Eqs. 5 and 6). Sums over coordinates and all later steps are
/// in `f64`, so angles are accurate to the last digits of `f32` for all points, also near 0 and pi. Gradients flow to
/// all three tensors. A factor whose hinge is 0 needs no backward pass. The saved state is the points and four numbers
/// per factor of a row.
///
/// Fused for `f32` on the CPU. Returns `None` for other tensors, for which the caller composes the hinge of tensor
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

/// The operation as an extension of Burn's backends.
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
