//! [`Curvature`]: the curvature parameters of a space, constant or learnable.

use burn::tensor::{Tensor, TensorData};
use conifer_geometry::ManifoldSpec;

/// Curvatures c > 0, one per Lorentz factor.
#[expect(clippy::large_enum_variant, reason = "one value per manifold, never a collection")]
pub(super) enum Curvature {
    /// The values of the spec.
    Constant(Vec<f64>),
    /// A tensor `[K]`, which may require a gradient.
    Tensor(Tensor<1>),
}

impl Curvature {
    pub(super) fn new(spec: &ManifoldSpec, curv: Option<Tensor<1>>) -> Self {
        match curv {
            Some(curv) => Curvature::Tensor(curv),
            None => Curvature::Constant(spec.curv.clone()),
        }
    }

    /// The current values.
    pub(super) fn values(&self) -> Vec<f64> {
        match self {
            Curvature::Constant(values) => values.clone(),
            Curvature::Tensor(curv) => curv.clone().into_data().iter::<f64>().collect(),
        }
    }

    /// `[K]`, on the device and in the dtype of `like`.
    pub(super) fn tensor<const D: usize>(&self, like: &Tensor<D>) -> Tensor<1> {
        match self {
            Curvature::Constant(values) => {
                Tensor::from_data(TensorData::new(values.clone(), [values.len()]), (&like.device(), like.dtype()))
            }
            Curvature::Tensor(curv) => curv.clone().cast(like.dtype()),
        }
    }
}
