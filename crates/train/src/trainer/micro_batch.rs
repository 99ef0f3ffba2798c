//! Embeds the views of a batch in calls of limited size, with exact gradients of a loss over the whole batch.
//!
//! A view is the input of one argument of the loss: photos, captions, boxes, chains. Rows are embedded independently of
//! each other, so a view can be embedded in several calls. If each view of the batch fits into one call, or if the size
//! of a call is not limited, each view is one call with a graph. Otherwise the memory of the graph of one call suffices
//! (GradCache: Gao, Zhang, Han and Callan, "Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup",
//! RepL4NLP 2021, arXiv 2101.06983). With the views X_v, the parameters w, the points P_v = f_v(X_v; w) and the loss
//! L(P, w), in which w stands for the scalars of the head and a learned root:
//!
//! 1. All P_v are computed without a graph ([`TowerCalls::points`]).
//! 2. The caller computes L with the points as leaves. Its backward pass gives G_v = dL/dP_v for each view, and the
//!    derivative of L by w at fixed points.
//! 3. The rows r of each call are embedded again with a graph, and `sum(P_v[r] * G_v[r])` is back-propagated
//!    ([`TowerCalls::backward`]).
//!
//! By the chain rule the gradient is
//!
//! ```text
//! dL/dw = dL/dw (points fixed) + sum over views v and calls r of sum(G_v[r] * dP_v[r]/dw)
//! ```
//!
//! A method needs no code for this: a leaf and a point with a graph are both tensors. Dropout masks depend on the row
//! of the view (`DropoutNoise::at`), so both computations of a point, and micro-batches of any size, have the same
//! masks. No encoder normalises over a batch in training: batch norms use the statistics of the checkpoint
//! (`conifer_model::encoders::conv`).

use std::ops::Range;

use burn::module::Module;
use burn::tensor::{DType, Gradients, Tensor};
use conifer_data::batch::{Batch, ImageBatch, TokenBatch};
use conifer_data::loader::PhotoRegion;
use conifer_model::head::Tower;
use conifer_model::model::Model;
use conifer_model::params::{ParamInfo, ParamVisitor, visit_params};

use super::step::PassInputs;
use crate::error::Result;
use crate::optim::GradientSet;

/// Embeds the views of one batch.
pub(super) struct TowerCalls<'a> {
    model: &'a Model,
    /// The model without autodiff and the largest number of rows in a call. `None`: each view is one call with a graph.
    limited: Option<(Model, usize)>,
    /// The views that were embedded without a graph.
    embedded: Vec<EmbeddedView<'a>>,
    /// True for an encoder without a trained parameter: image encoder, text encoder.
    is_frozen: [bool; 2],
}

/// A view whose points are leaves of the graph of the loss.
struct EmbeddedView<'a> {
    rows: ViewRows<'a>,
    points: Tensor<2>,
    /// Number of dropout masks drawn before this view.
    masks_drawn: u64,
    /// Features of a frozen encoder, `[n, width]`, which is therefore called once.
    features: Option<Tensor<2>>,
}

/// The inputs of a view.
#[derive(Clone, Copy)]
pub(super) enum ViewRows<'a> {
    /// Photos or boxes.
    Pixels(&'a ImageBatch),
    /// Photos or boxes whose features are stored.
    Regions(&'a [PhotoRegion]),
    /// Texts.
    Texts(&'a TokenBatch),
}

/// The inputs of every view of a batch.
pub(super) struct BatchRows<'a> {
    pub(super) root: Option<ViewRows<'a>>,
    pub(super) image: Option<ViewRows<'a>>,
    pub(super) text: Option<ViewRows<'a>>,
    pub(super) box_image: Option<ViewRows<'a>>,
    pub(super) box_text: Option<ViewRows<'a>>,
    pub(super) chain: Option<ViewRows<'a>>,
    pub(super) edges: Option<ViewRows<'a>>,
}

impl<'a> TowerCalls<'a> {
    /// Calls with at most `micro_batch` rows for a batch whose largest view has `largest` rows.
    pub(super) fn new(model: &'a Model, micro_batch: Option<usize>, largest: usize) -> Self {
        let limited = micro_batch.filter(|&rows| largest > rows).map(|rows| (model.valid(), rows));
        let is_frozen = match limited {
            Some(_) => [!is_trained(&model.visual), !is_trained(&model.textual)],
            None => [false; 2],
        };
        Self { model, limited, embedded: Vec::new(), is_frozen }
    }

    /// Points of a view, `[n, D]`: with a graph, or leaves that require a gradient.
    ///
    /// # Errors
    /// As [`PassInputs::features_of`].
    pub(super) fn points(&mut self, rows: ViewRows<'a>, inputs: &mut PassInputs<'_>) -> Result<Tensor<2>> {
        let Some((plain, size)) = &self.limited else {
            let features = inputs.features_of(self.model, rows, 0..rows.len())?;
            return Ok(self.model.embed_features(features, rows.tower(), Some(&inputs.noise))?);
        };
        let tower = rows.tower();
        let keeps_features = self.is_frozen[usize::from(tower == Tower::Text)];
        let masks_drawn = inputs.noise.masks_drawn();
        let (mut points, mut kept, mut after) = (Vec::new(), Vec::new(), masks_drawn);
        for range in calls(rows.len(), Some(*size)) {
            let noise = inputs.noise.at(masks_drawn, range.start);
            let features = inputs.features_of(plain, rows, range)?;
            if keeps_features {
                kept.push(features.clone());
            }
            points.push(plain.embed_features(features, tower, Some(&noise))?);
            after = noise.masks_drawn();
        }
        inputs.noise = inputs.noise.at(after, 0);
        let values = Tensor::cat(points, 0).into_data();
        // Created on the device of the run, because a leaf needs its checkpointing strategy.
        let points = Tensor::from_data(values, (inputs.device, DType::F32)).require_grad();
        let features = keeps_features.then(|| Tensor::cat(kept, 0));
        self.embedded.push(EmbeddedView { rows, points: points.clone(), masks_drawn, features });
        Ok(points)
    }

    /// Adds the gradients that reach the parameters through the leaves. `loss_gradients` are those of the loss. Adds
    /// nothing if the points have a graph.
    ///
    /// # Errors
    /// As [`PassInputs::features_of`].
    pub(super) fn backward(
        self,
        loss_gradients: &Gradients,
        inputs: &mut PassInputs<'_>,
        gradients: &mut GradientSet,
    ) -> Result<()> {
        let size = self.limited.map(|(_, size)| size);
        for EmbeddedView { rows, points, masks_drawn, features } in self.embedded {
            // The method does not read this view.
            let Some(by_point) = points.grad(loss_gradients) else { continue };
            for range in calls(rows.len(), size) {
                let noise = inputs.noise.at(masks_drawn, range.start);
                let (first, count) = (range.start, range.len());
                let features = match &features {
                    Some(features) => features.clone().narrow(0, first, count),
                    None => inputs.features_of(self.model, rows, range)?,
                };
                let points = self.model.embed_features(features, rows.tower(), Some(&noise))?;
                if !points.is_tracked() {
                    break;
                }
                let mut found = (points * by_point.clone().narrow(0, first, count)).sum().backward();
                gradients.add(GradientSet::take(self.model, &mut found));
            }
        }
        Ok(())
    }
}

impl<'a> ViewRows<'a> {
    /// Photos or boxes: as regions if their features are stored, else as pixels.
    pub(super) fn of_images(
        images: Option<&'a ImageBatch>,
        regions: Option<&'a [PhotoRegion]>,
        stored: bool,
    ) -> Option<Self> {
        match (images, regions) {
            (_, Some(regions)) if stored => Some(Self::Regions(regions)),
            (images, _) => images.map(Self::Pixels),
        }
    }

    pub(super) fn len(self) -> usize {
        match self {
            Self::Pixels(images) => images.n,
            Self::Regions(regions) => regions.len(),
            Self::Texts(texts) => texts.n,
        }
    }

    fn tower(self) -> Tower {
        match self {
            Self::Pixels(_) | Self::Regions(_) => Tower::Image,
            Self::Texts(_) => Tower::Text,
        }
    }
}

impl<'a> BatchRows<'a> {
    /// The views of `batch`, and the text of a root that is embedded in each step. `stored`: features are stored.
    pub(super) fn new(batch: &'a Batch, root: Option<&'a TokenBatch>, stored: bool) -> Self {
        let images = |images: &'a Option<ImageBatch>, regions: &'a Option<Vec<PhotoRegion>>| {
            ViewRows::of_images(images.as_ref(), regions.as_deref(), stored)
        };
        Self {
            root: root.map(ViewRows::Texts),
            image: images(&batch.images, &batch.regions),
            text: batch.texts.as_ref().map(ViewRows::Texts),
            box_image: images(&batch.box_images, &batch.box_regions),
            box_text: batch.box_texts.as_ref().map(ViewRows::Texts),
            chain: batch.chains.as_ref().map(|chains| ViewRows::Texts(&chains.texts)),
            edges: batch.edges.as_ref().and_then(|edges| images(&edges.images, &edges.regions)),
        }
    }

    /// Number of rows of the largest view.
    pub(super) fn largest(&self) -> usize {
        let Self { root, image, text, box_image, box_text, chain, edges } = self;
        let views = [root, image, text, box_image, box_text, chain, edges];
        views.into_iter().flatten().map(|rows| rows.len()).max().unwrap_or(0)
    }
}

/// The rows of each call, in order: at most `size`, and at least one call.
pub(super) fn calls(rows: usize, size: Option<usize>) -> impl Iterator<Item = Range<usize>> {
    let size = size.unwrap_or(rows).max(1);
    (0..rows.div_ceil(size).max(1)).map(move |call| call * size..rows.min((call + 1) * size))
}

/// True if `module` has a parameter that requires a gradient.
fn is_trained<M: Module>(module: &M) -> bool {
    struct Trained(bool);
    impl ParamVisitor for Trained {
        fn visit<const D: usize>(&mut self, _: &ParamInfo<'_>, value: &Tensor<D>) {
            self.0 |= value.is_require_grad();
        }
    }
    let mut trained = Trained(false);
    visit_params(module, &mut trained);
    trained.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_cover_all_rows_in_order() {
        let found = |rows, size| calls(rows, size).map(|call| [call.start, call.end]).collect::<Vec<_>>();
        assert_eq!(found(7, Some(3)), [[0, 3], [3, 6], [6, 7]]);
        assert_eq!(found(6, Some(3)), [[0, 3], [3, 6]]);
        assert_eq!(found(6, None), [[0, 6]]);
        assert_eq!(found(2, Some(5)), [[0, 2]]);
        assert_eq!(found(0, Some(5)), [[0, 0]]);
        assert_eq!(found(0, None), [[0, 0]]);
    }
}
