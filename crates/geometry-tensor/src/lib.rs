//! The spaces of [`conifer_geometry`] on tensors, with gradients.
//!
//! A [`Manifold`] is one space. It maps feature vectors to points ([`Manifold::lift`]) and computes distances, cone
//! apertures and exterior angles. Points are stored by their space components, `[B, D]`; the Lorentz time component
//! `sqrt(1/c + |x|^2)` is recomputed.
//!
//! [`MANIFOLDS`] lists every implementation, and [`manifold()`] builds one from a
//! [`ManifoldSpec`](conifer_geometry::ManifoldSpec). The tests of this crate compare each implementation with the `f64`
//! functions of `conifer_geometry`, which are written independently.
//!
//! Formulas are in `manifold/<space>.rs`; the formula of pairwise hyperbolic distances is in `conifer_kernels`. In
//! `f32` on the CPU, some functions use fused operations of `conifer_kernels` instead (`manifold/fused.rs`): the lifts
//! of hyperboloids and their products and, for the root at the origin, their cone hinges and pairwise angles and the
//! pairwise angles of Euclidean space. A change of one of these formulas must be made in both crates.
//!
//! Every function works in the dtype of its arguments (`f32` in a model, `f64` in gradient checks). Values and
//! gradients are finite for every finite input of the working range (norms up to 1e4, curvature 0.1 to 10). Gradients
//! flow to both points, to a learnable root and to the curvature.
//!
//! ```
//! use burn::tensor::{Device, Tensor};
//! use conifer_geometry_tensor::manifold;
//! use conifer_geometry::ManifoldSpec;
//!
//! let plane = manifold(&ManifoldSpec::lorentz(2, 1.0), None)?;
//! let features = Tensor::<2>::from_floats([[0.0, 0.0], [0.6, 0.8]], &Device::flex());
//! let points = plane.lift(features);
//! let distance = plane.dist(points.clone().slice(0..1), points.slice(1..2)).into_scalar::<f32>();
//! assert!((distance - 1.0).abs() < 1e-5); // the length of the tangent vector
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

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
