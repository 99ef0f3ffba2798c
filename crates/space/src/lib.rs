//! The spaces in which embeddings live, without a tensor engine.
//!
//! * [`ManifoldSpec`] says which space a set of points belongs to; it is plain data and travels with the points.
//! * [`Space`] is the geometry of one space on plain slices, in `f32` (what search runs) and in `f64` (the oracle of
//!   everything else). [`SPACES`] lists every space; [`space()`] builds one from its spec.
//! * [`Root`] is the apex of the cones: the origin, or a point. Which root is data, never a code path of the caller.
//! * [`EmbeddingSet`] is a set of points with its spec, on disk and in memory: the border between learning and
//!   everything that only searches, measures or draws.
//! * [`files`] writes files and folders whole or not at all.
//! * [`vector`] holds functions of one number that compile to vector instructions.
//! * [`safe`] holds every epsilon of the house; [`laws`] is what each space must obey.
//!
//! Conventions. Points are stored by their *space* components, `dim` numbers; the time component of the hyperboloid,
//! `t(x) = sqrt(1/c + |x|^2)`, is recomputed. `curv` is `c > 0`, the sectional curvature is `-c`, and
//! `<x, x>_L = -1/c`. Angles are radians. `parent` (general, near the root) always comes before `child` (specific).

mod cone;
mod error;
pub mod files;
pub mod laws;
pub mod points;
mod real;
mod registry;
mod root;
pub mod safe;
pub mod slices;
mod space;
pub mod spaces;
mod spec;
pub mod vector;

pub use error::{Error, Result};
pub use points::{EmbeddingSet, Modality, Source};
pub use real::Real;
pub use registry::Registry;
pub use root::Root;
pub use space::{SPACES, Space, SpaceEntry, entry, space};
pub use spec::ManifoldSpec;
