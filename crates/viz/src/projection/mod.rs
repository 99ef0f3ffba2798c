//! Projections of an embedding set to few dimensions.
//!
//! | name | coordinates from / what is preserved | spaces |
//! |---|---|---|
//! | [`TangentPca`] | PCA of the tangent vectors at the root or another centre | all |
//! | [`crate::PoincareDisc`] | radius from the depth, angle from principal directions | all |
//! | [`HoroPca`] | horospherical projections that keep the most variance | one hyperboloid |
//! | [`Cosne`] | neighbourhoods and distances to the root | one hyperboloid |
//! | [`Umap`] | nearest neighbours, laid out in the plane or in the disc | all (uses only the neighbour table) |
//!
//! A factor of a product space is a hyperboloid ([`HyperbolicRows::of_factor`]). All computations use f64 and are
//! deterministic: the same rows and settings give the same bytes, for any number of threads.

mod cosne;
mod cosne_terms;
#[cfg(test)]
mod cosne_tests;
mod cosne_tree;
mod fit_state;
mod horopca;
mod hyperbolic_rows;
mod map_picture;
mod neighbour_graph;
mod pair_sample;
mod perplexity;
mod point_map;
#[cfg(test)]
mod point_map_tests;
#[cfg(test)]
mod resume_tests;
mod tangent_pca;
#[cfg(test)]
mod tests;
mod umap;
#[cfg(test)]
mod umap_tests;
mod wide;

pub use cosne::{Cosne, CosneKernel, CosneMethod, CosneSettings, MAX_COSNE_ROWS};
pub use fit_state::{FitProgress, FitState};
pub use horopca::{HoroPca, HoroSettings};
pub use hyperbolic_rows::{HyperbolicRows, ProjectionCenter};
pub use map_picture::{MAP_COLOURS, MapPicture, coloured_values, map_html};
pub use neighbour_graph::{FuzzyGraph, NeighbourTable};
pub use pair_sample::PairSample;
pub use point_map::{PointMap, place_by_neighbours};
pub use tangent_pca::{TangentPca, tangent_pca, tangent_positions};
pub use umap::{Umap, UmapSettings, UmapTarget};

use crate::{Error, Result};

/// Variance and distortion of the pairwise distances of a projection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProjectionQuality {
    /// Generalised variance of the projected points: the sum of their squared pairwise distances over all ordered
    /// pairs, divided by `N^2` (HoroPCA Sec. 3.3).
    pub variance: f64,
    /// The same for the points before the projection.
    pub total_variance: f64,
    /// `variance / total_variance`; `None` if the points coincide.
    pub explained: Option<f64>,
    /// Mean of `|d(px, py) - d(x, y)| / d(x, y)` over the pairs whose points differ; `None` without such a pair.
    pub distortion: Option<f64>,
    /// Number of unordered pairs that were measured.
    pub pairs: usize,
}

/// Receives the number of finished steps and the total; returns false to stop the projection.
pub type StepObserver<'a> = dyn FnMut(usize, usize) -> bool + 'a;

/// Checks that a projection to `found` dimensions is possible for points of `of_rows` dimensions.
fn check_dim(found: usize, of_rows: usize) -> Result<()> {
    if (1..=of_rows).contains(&found) {
        return Ok(());
    }
    Err(Error::invalid("dim", found, format!("1 to {of_rows}, the dimension of the points")))
}
