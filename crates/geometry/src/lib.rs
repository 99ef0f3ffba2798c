//! Geometry of the embedding spaces on plain slices, without a tensor engine.
//!
//! * [`ManifoldSpec`] describes a space. It is plain data and is stored with the points.
//! * [`Space`] is the geometry of one space, in `f32` (used by search) and in `f64` (the reference for the other
//!   implementations). [`SPACES`] lists every space; [`space()`] builds a space from its spec.
//! * [`Root`] is the reference point of depths and cones: the origin or a point. Callers pass it to each function.
//! * [`vector`] holds scalar functions that the compiler can vectorise.
//! * [`random`] holds a random generator for samples.
//! * [`safe`] holds the epsilons and clamped functions; [`laws`] is the conformance suite for spaces.
//!
//! Formulas are in `spaces/<space>.rs`. Formulas of cones along straight lines (sphere, Euclidean) are in `chord.rs`.
//!
//! Conventions. Points are stored by their *space* components, `dim` numbers; the time component of the hyperboloid,
//! `t(x) = sqrt(1/c + |x|^2)`, is recomputed. `curv` is `c > 0`, the sectional curvature is `-c`, and
//! `<x, x>_L = -1/c`. Angles are in radians. `parent` (general, near the root) always comes before `child` (specific).
//!
//! ```
//! use conifer_geometry::{ManifoldSpec, Root, space};
//!
//! // A hyperbolic plane of curvature -1. `lift` maps a tangent vector at the origin to a point.
//! let plane = space::<f64>(&ManifoldSpec::lorentz(2, 1.0))?;
//! let (mut animal, mut dog) = ([0.0; 2], [0.0; 2]);
//! plane.lift(&[0.5, 0.0], &mut animal);
//! plane.lift(&[2.0, 0.1], &mut dog);
//! assert!((plane.depth(&animal, &Root::Origin) - 0.5).abs() < 1e-12);
//! // `dog` lies in the cone of `animal`, but `animal` does not lie in the cone of `dog`.
//! assert!(plane.cone_excess(&animal, &dog, 0.1, 1.0, &Root::Origin) < 0.0);
//! assert!(plane.cone_excess(&dog, &animal, 0.1, 1.0, &Root::Origin) > 0.0);
//! # Ok::<(), conifer_geometry::Error>(())
//! ```

mod centroid;
mod chord;
mod error;
mod kind;
pub mod laws;
pub mod random;
mod real;
mod registry;
mod root;
pub mod safe;
mod score_form;
pub mod slices;
mod space;
pub mod spaces;
mod spec;
pub mod vector;

pub use error::{Error, Result};
pub use kind::{ExternalKind, ManifoldKind};
pub use real::Real;
pub use registry::Registry;
pub use root::Root;
pub use score_form::{FactorNorm, ScoreForm};
pub use space::{SPACES, Space, SpaceEntry, entry, space};
pub use spec::ManifoldSpec;
