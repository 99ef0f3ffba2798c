//! [`ScoreForm`]: how the scores of a space follow from dot products.

/// Closed form of the scores of a space.
///
/// Search uses the form to bound scores and to compute them in vector registers. In a space without a form, search
/// computes each score separately. The law "the score form gives the scores" of [`crate::laws`] compares a space with
/// its form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScoreForm {
    /// Unit vectors: similarity and inner product `<x, y>`, distance `arccos <x, y>`, angles along straight chords. The
    /// scores of the space `sphere`.
    UnitVectors,
    /// Euclidean coordinates: inner product `<x, y>`, distance `|x - y|`, similarity `-|x - y|`, angles along
    /// straight lines. The scores of the space `euclidean`.
    Flat,
    /// `factors` hyperboloids of curvature `-curv[i]`, each given by its space components: distances `d_i` combined by
    /// this norm, similarity minus the distance, inner product `sum_i <x_i, y_i>_L`, angles averaged over factors. The
    /// scores of the spaces `lorentz` (any norm), `product_l1` and `product_l2`.
    Hyperboloids(FactorNorm),
}

/// Aggregation of the distances of factors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FactorNorm {
    /// Mean of the factor distances.
    L1,
    /// Root mean square of the factor distances.
    L2,
}
