//! The data of the explorer views: the projection of the rows, the factors of the space and the classes.

use std::sync::{Arc, OnceLock};

use conifer_search::LABEL;
use conifer_viz::{PoincareDisc, ProductFactors};

use crate::api::replies::FactorSummary;
use crate::error::{HttpError, HttpResult};
use crate::set::layers::MapLayers;
use crate::set::state::ServedSet;
use crate::set::tree::ClassTree;

/// Data of the explorer views. The factor summary and the disc are computed on first use and then kept.
pub(crate) struct Explorer {
    pub(crate) factors: ProductFactors,
    summary: OnceLock<Vec<FactorSummary>>,
    disc: OnceLock<PoincareDisc>,
    pub(crate) classes: Option<ClassTree>,
    pub(crate) layers: Arc<MapLayers>,
}

impl Explorer {
    /// # Errors
    /// The space of the rows is not valid.
    pub(crate) fn new(rows: &ServedSet, layers: Arc<MapLayers>) -> conifer_geometry::Result<Self> {
        let labels = rows.columns.get(LABEL).map(Vec::as_slice);
        let classes = rows.tree.as_ref().map(|it| ClassTree::new(it.tree.clone(), &it.node_of, labels));
        let factors = ProductFactors::new(rows.spec(), rows.root())?;
        Ok(Explorer { factors, summary: OnceLock::new(), disc: OnceLock::new(), classes, layers })
    }

    /// Depth of a point in every factor; `None` if the space is not a product.
    pub(crate) fn activation(&self, point: &[f32]) -> Option<Vec<f32>> {
        (self.factors.count() > 0).then(|| self.factors.depths(point))
    }

    /// The factors with statistics over all rows.
    pub(crate) fn summary(&self, rows: &ServedSet) -> &[FactorSummary] {
        self.summary.get_or_init(|| {
            let depths = self.factors.summary(rows.len(), |row| rows.flat.row(row));
            depths.into_iter().map(FactorSummary::from).collect()
        })
    }

    /// # Errors
    /// 500: the space is not valid.
    pub(crate) fn disc(&self, rows: &ServedSet) -> HttpResult<&PoincareDisc> {
        if let Some(disc) = self.disc.get() {
            return Ok(disc);
        }
        // Concurrent first requests may each compute the disc; the results are equal.
        let disc = PoincareDisc::new(rows.spec(), rows.root(), rows.len(), |row| rows.flat.row(row));
        let disc = disc.map_err(|error| HttpError::fault(error.to_string()))?;
        Ok(self.disc.get_or_init(|| disc))
    }
}
