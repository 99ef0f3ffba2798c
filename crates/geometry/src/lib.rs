//! The spaces of [`conifer_space`] over tensors, with gradients.
//!
//! A [`Manifold`] is one space: how a feature vector becomes a point ([`Manifold::lift`]), how far two points are
//! apart, how wide the cone under a point is, and at which angle another point is seen from it. Points are stored by
//! their space components, `[B, D]`; the Lorentz time component `sqrt(1/c + |x|^2)` is recomputed.
//!
//! [`MANIFOLDS`] lists every implementation, and [`manifold()`] builds one from a
//! [`ManifoldSpec`](conifer_space::ManifoldSpec). The laws in this crate hold each of them to the `f64` functions of
//! `conifer_space`, which are written separately.
//!
//! Every function works in the dtype of its arguments (`f32` in a model; `f64` in gradient checks), keeps value and
//! gradient finite for every finite input of the working range (norms up to 1e4, curvature 0.1 to 10), and lets the
//! gradient flow to both points, to a learnable root and to the curvature.

mod error;
mod gradcheck;
#[cfg(test)]
mod laws;
mod manifold;
mod root;
mod safe;

pub use error::{Error, Result};
pub use gradcheck::{GradMismatch, gradcheck};
pub use manifold::{ConeShape, FusedAngles, MANIFOLDS, Manifold, ManifoldEntry, manifold};
pub use root::RootT;
