//! [`cone_hinge`]: how far children are outside the cones of their parents, in one pass over the rows.

use burn::backend::{Backend, Dispatch, backend_extension, tensor::FloatTensor};
use burn::tensor::Tensor;

use crate::arrays::is_fused;

mod autodiff;
mod rows;
#[cfg(test)]
mod tests;

/// Size of the cones of [`cone_hinge`], and what it counts as no length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cone {
    /// K of the half aperture `asin(2K / (sqrt(c) |parent|))`.
    pub min_radius: f64,
    /// eta: factor on the half aperture.
    pub aperture_scale: f64,
    /// Largest half aperture of a factor, before `aperture_scale`, radians; absent: pi/2.
    pub max_aperture: Option<f64>,
    /// Lengths up to this are none: an angle there is 0, and no gradient flows through it.
    pub tiny: f64,
    /// A part of the child across the parent of up to this times its length is rounding, in `f64`: the child lies straight ahead or back.
    pub straight: f64,
}

/// `mean_k max(0, ext_k - eta aperture_k)` over the factors of each row, radians, root at the origin: `[B, K d]`, `[B, K d]`, `[K]`
/// to `[B]`.
///
/// `ext` is the angle at the parent between its outward direction and the geodesic to the child, `aperture` is
/// `asin(2K / (sqrt(c) |parent|))` (HyCoCLIP Eqs. 9 and 10, PHyCLIP Eqs. 5 and 6). Sums over coordinates and everything behind them are
/// in `f64`, so that angles are right to the last digits of `f32` wherever the points are, near 0 and pi too. Gradients flow to all
/// three tensors; a factor whose hinge is 0 costs no backward pass. Kept for it: the points, and four numbers for each factor of a
/// row.
///
/// Fused for `f32` on the CPU; `None` for everything else, where the caller composes it. The same bits for any number of threads.
///
/// # Panics
/// Where the shapes do not fit together.
pub fn cone_hinge(parent: Tensor<2>, child: Tensor<2>, curv: Tensor<1>, cone: Cone) -> Option<Tensor<1>> {
    let ([rows, width], [factors]) = (parent.dims(), curv.dims());
    let fits = child.dims() == [rows, width] && width.is_multiple_of(factors.max(1));
    assert!(fits, "parents {rows} x {width}, children {:?}, {factors} factors", child.dims());
    if !(is_fused(&parent) && is_fused(&child) && is_fused(&curv)) {
        return None;
    }
    let [parent, child] = [parent, child].map(Tensor::into_dispatch);
    Some(Tensor::from_dispatch(<Dispatch as ConeOps>::cone_hinge(parent, child, curv.into_dispatch(), cone)))
}

/// The operation as an extension of the engine's backends.
#[backend_extension(Flex, Autodiff)]
trait ConeOps: Backend {
    /// See [`cone_hinge`].
    fn cone_hinge(
        parent: FloatTensor<Self>,
        child: FloatTensor<Self>,
        curv: FloatTensor<Self>,
        cone: Cone,
    ) -> FloatTensor<Self>;
}
