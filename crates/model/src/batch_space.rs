//! [`BatchSpace`]: manifold, root and scalars that a loss needs in addition to the points.

use burn::tensor::Tensor;
use conifer_geometry_tensor::{Manifold, RootT};

/// The space of a batch and the scalars of this step.
pub struct BatchSpace {
    /// The manifold; its curvature is differentiable.
    pub manifold: Box<dyn Manifold>,
    /// Root of the cones.
    pub root: RootT,
    /// Curvatures c of the Lorentz factors, `[K]`, as the manifold uses them; `None` for a space without curvature.
    pub curv: Option<Tensor<1>>,
    /// 1/temperature, `[1]`; `[3]` in the order of [`SOFTMAXES`](crate::head::SOFTMAXES) if the head has three.
    pub logit_scale: Tensor<1>,
}
