//! Embeds the views of a batch, in calls of limited size and on several ranks, with exact gradients of a loss over the
//! whole batch.
//!
//! A view is the input of one argument of the loss: photos, captions, boxes, chains. Rows are embedded independently of
//! each other, so a view can be embedded in several calls, by several ranks ([`Ranks`]). Let X_v be the views, w the
//! parameters, P_v = f_v(X_v; w) the points, and L(P, w) the loss. L depends on w directly through the scalars of the
//! head and a learned root.
//!
//! 1. The rows of this rank are embedded, and the points P_v of all ranks are gathered ([`TowerCalls::points`]).
//! 2. The caller computes L with the points as leaves. Its backward pass gives G_v = dL/dP_v for each view, and the
//!    derivative of L by w at fixed points.
//! 3. For each call of this rank with rows r, `sum(P_v[r] * G_v[r])` is back-propagated ([`TowerCalls::backward`]).
//!
//! By the chain rule the gradient is
//!
//! ```text
//! dL/dw = dL/dw (points fixed) + sum over ranks, their views v and calls r of sum(G_v[r] * dP_v[r]/dw)
//! ```
//!
//! The caller sums the gradients over the ranks. Each row belongs to one rank, so a root that is the embedding of a
//! text counts once. The first term is the same on every rank, so only rank 0 adds it. With `train.loss_rows = "own"`,
//! each rank computes a part of the rows of the loss (Chen et al., "DisCo-CLIP", CVPR 2023, arXiv 2304.08480). G_v is
//! then summed over the ranks, each rank receives the rows of G_v that it has embedded, and every rank adds its part of
//! the first term. Methods need no code for this, because leaves and points with a graph are both tensors.
//!
//! If the rows of a rank fit into one call per view, the graph of step 1 is kept for step 3. In a single process, the
//! points then stay in the graph of the loss, and steps 2 and 3 are one backward pass. Otherwise step 1 builds no graph
//! and step 3 embeds each call again, in the memory of one call (GradCache: Gao, Zhang, Han and Callan, "Scaling Deep
//! Contrastive Learning Batch Size under Memory Limited Setup", RepL4NLP 2021, arXiv 2101.06983).
//!
//! Dropout masks depend on the row of the view (`DropoutNoise::at`), so both computations of a point, micro-batches of
//! any size, and any number of ranks have the same masks. No encoder normalises over a batch in training: batch norms
//! use the statistics of the checkpoint (`conifer_model::encoders::conv`).

use std::ops::Range;

use burn::module::Module;
use burn::tensor::{DType, Device, Gradients, Tensor, TensorData};
use conifer_data::batch::{Batch, ImageBatch, TokenBatch};
use conifer_data::loader::PhotoRegion;
use conifer_model::head::Tower;
use conifer_model::model::Model;
use conifer_model::params::{ParamInfo, ParamVisitor, visit_params};

use super::step::PassInputs;
use crate::error::Result;
use crate::optim::GradientSet;
use crate::ranks::Ranks;

/// Embeds the views of one batch.
pub(super) struct TowerCalls<'a> {
    model: &'a Model,
    ranks: &'a Ranks,
    graph: PointGraph,
    /// The views whose points are leaves of the graph of the loss.
    leaves: Vec<LeafView<'a>>,
    /// In [`PointGraph::Recomputed`], true for an encoder without a trained parameter (image encoder, text encoder);
    /// else false.
    is_frozen: [bool; 2],
}

/// How the graph of the points is stored until their gradients are known.
enum PointGraph {
    /// The points are part of the graph of the loss.
    Joined,
    /// The graph is kept, separate from the graph of the loss.
    Kept,
    /// No graph is kept. The points are computed again in calls of at most this many rows, by a model without autodiff.
    Recomputed(Box<Model>, usize),
}

/// A view whose points are leaves of the graph of the loss.
struct LeafView<'a> {
    rows: ViewRows<'a>,
    points: Tensor<2>,
    /// The points of this rank with their graph, in [`PointGraph::Kept`].
    kept: Option<Tensor<2>>,
    /// Number of dropout masks drawn before this view.
    masks_drawn: u64,
    /// Features from a frozen encoder for the rows of this rank. They are stored because the encoder runs only once.
    features: Option<Tensor<2>>,
}

/// The inputs of a view.
#[derive(Clone, Copy)]
pub(super) enum ViewRows<'a> {
    /// Photos or boxes.
    Pixels(&'a ImageBatch),
    /// Photos or boxes whose features are stored.
    Regions(&'a [PhotoRegion]),
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
    /// Plans calls of at most `micro_batch` rows for a batch of these `rows`.
    pub(super) fn new(model: &'a Model, micro_batch: Option<usize>, rows: &BatchRows<'_>, ranks: &'a Ranks) -> Self {
        let largest = rows.largest_share(ranks);
        let graph = match micro_batch.filter(|&rows| largest > rows) {
            Some(rows) => PointGraph::Recomputed(Box::new(model.valid()), rows),
            None if ranks.size() > 1 => PointGraph::Kept,
            None => PointGraph::Joined,
        };
        let is_frozen = match graph {
            PointGraph::Recomputed(..) => [!is_trained(&model.visual), !is_trained(&model.textual)],
            _ => [false; 2],
        };
        Self { model, ranks, graph, leaves: Vec::new(), is_frozen }
    }

    /// True if the backward pass of the loss gives the whole gradient, without [`TowerCalls::backward`].
    pub(super) fn is_joined(&self) -> bool {
        matches!(self.graph, PointGraph::Joined)
    }

    /// Returns the points of a view, `[n, D]`: with their graph, or as leaves that require a gradient.
    ///
    /// # Errors
    /// The errors of [`PassInputs::features_of`]; [`Error::Ranks`](crate::Error::Ranks).
    pub(super) fn points(&mut self, rows: ViewRows<'a>, inputs: &mut PassInputs<'_>) -> Result<Tensor<2>> {
        if self.is_joined() {
            let features = inputs.features_of(self.model, rows, 0..rows.len())?;
            return Ok(self.model.embed_features(features, rows.tower(), Some(&inputs.noise))?);
        }
        let masks_drawn = inputs.noise.masks_drawn();
        let own = self.ranks.agree(self.own_points(rows, inputs))?;
        // A rank without rows has drawn no masks, so take the largest number.
        inputs.noise = inputs.noise.at(self.ranks.max(own.masks_drawn), 0);
        let values = own.points.as_ref().map(|points| points.to_data().iter::<f32>().collect()).unwrap_or_default();
        let points = gathered(values, self.model, self.ranks, inputs.device).require_grad();
        let kept = own.points.filter(|points| points.is_tracked());
        self.leaves.push(LeafView { rows, points: points.clone(), kept, masks_drawn, features: own.features });
        Ok(points)
    }

    /// Embeds the rows of this rank.
    fn own_points(&self, rows: ViewRows<'a>, inputs: &mut PassInputs<'_>) -> Result<OwnPoints> {
        let (model, size) = match &self.graph {
            PointGraph::Recomputed(plain, size) => (plain.as_ref(), Some(*size)),
            _ => (self.model, None),
        };
        let tower = rows.tower();
        let keeps_features = self.is_frozen[usize::from(tower == Tower::Text)];
        let masks_drawn = inputs.noise.masks_drawn();
        let (mut points, mut kept, mut after) = (Vec::new(), Vec::new(), masks_drawn);
        for range in calls(rows.share(self.ranks), size) {
            let noise = inputs.noise.at(masks_drawn, range.start);
            let features = inputs.features_of(model, rows, range)?;
            if keeps_features {
                kept.push(features.clone());
            }
            points.push(model.embed_features(features, tower, Some(&noise))?);
            after = noise.masks_drawn();
        }
        let joined = |parts: Vec<Tensor<2>>| (!parts.is_empty()).then(|| Tensor::cat(parts, 0));
        Ok(OwnPoints { points: joined(points), features: joined(kept), masks_drawn: after })
    }

    /// Adds the gradients that reach the parameters through the points of this rank. `by_loss` holds the gradients of
    /// the loss, `None` if it has no graph. With `has_part`, this rank has computed only a part of the loss, so the
    /// gradients of the points are summed over the ranks. If the points are part of the graph of the loss, nothing is
    /// added.
    ///
    /// # Errors
    /// The errors of [`PassInputs::features_of`].
    pub(super) fn backward(
        self,
        by_loss: Option<&Gradients>,
        has_part: bool,
        inputs: &mut PassInputs<'_>,
        gradients: &mut GradientSet,
    ) -> Result<()> {
        let by_points = self.by_own_points(by_loss, has_part, inputs.device);
        let size = match self.graph {
            PointGraph::Recomputed(_, size) => Some(size),
            _ => None,
        };
        for (LeafView { rows, kept, masks_drawn, features, .. }, by_point) in self.leaves.into_iter().zip(by_points) {
            let Some(by_point) = by_point else { continue };
            let share = rows.share(self.ranks);
            if let Some(points) = kept {
                let mut found = (points * by_point).sum().backward();
                gradients.add(GradientSet::take(self.model, &mut found));
                continue;
            }
            if size.is_none() {
                continue;
            }
            for range in calls(share.clone(), size) {
                let noise = inputs.noise.at(masks_drawn, range.start);
                let (first, count) = (range.start - share.start, range.len());
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

    /// For each view, the gradients of the points of this rank, `[rows, D]`. `None` if the rank has no row, or if the
    /// method does not read the view.
    fn by_own_points(&self, by_loss: Option<&Gradients>, has_part: bool, device: &Device) -> Vec<Option<Tensor<2>>> {
        let found: Vec<_> = self.leaves.iter().map(|leaf| leaf.points.grad(by_loss?)).collect();
        let shares = self.leaves.iter().map(|leaf| leaf.rows.share(self.ranks));
        if !has_part {
            let own = |(found, share): (Option<Tensor<2>>, Range<usize>)| {
                found.filter(|_| !share.is_empty()).map(|by_point| by_point.slice(share))
            };
            return found.into_iter().zip(shares).map(own).collect();
        }
        let is_read = self.ranks.any_of(&found.iter().map(Option::is_some).collect::<Vec<_>>());
        let mut own = Vec::new();
        for ((leaf, found), (share, is_read)) in self.leaves.iter().zip(found).zip(shares.zip(is_read)) {
            if !is_read {
                own.push(None);
                continue;
            }
            let [rows, width] = leaf.points.dims();
            let values = match found {
                Some(by_point) => by_point.to_data().iter::<f32>().collect(),
                None => vec![0.0; rows * width],
            };
            let sums = self.ranks.sum_part(&values, share.start * width..share.end * width);
            let shape = [share.len(), width];
            own.push(
                (!share.is_empty()).then(|| Tensor::from_data(TensorData::new(sums, shape), (device, DType::F32))),
            );
        }
        own
    }
}

/// Points that this rank has embedded.
struct OwnPoints {
    /// `None` if the rank has no row of the view.
    points: Option<Tensor<2>>,
    features: Option<Tensor<2>>,
    /// Number of dropout masks drawn up to the end of this view.
    masks_drawn: u64,
}

/// Gathers the points of all rows of a view, `[n, D]`, on `device`. `values` are the points of this rank.
pub(super) fn gathered(values: Vec<f32>, model: &Model, ranks: &Ranks, device: &Device) -> Tensor<2> {
    let width = model.head.spec().dim;
    let values = if ranks.size() == 1 { values } else { ranks.gather(&values) };
    let shape = [values.len() / width, width];
    // Create the tensor on the device of the run, because a leaf needs its checkpointing strategy.
    Tensor::from_data(TensorData::new(values, shape), (device, DType::F32))
}

impl<'a> ViewRows<'a> {
    /// The rows of photos or boxes: regions if their features are stored, else pixels.
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

    /// The rows that this rank embeds: those whose pixels it holds, or its share of rows that every rank holds.
    fn share(self, ranks: &Ranks) -> Range<usize> {
        match self {
            Self::Pixels(images) => images.held.clone(),
            _ => ranks.share(self.len()),
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
    /// The views of `batch`, and the text of a root that is embedded in each step. `stored` is true if features are
    /// stored.
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

    /// Number of rows of the largest view that a rank embeds.
    fn largest_share(&self, ranks: &Ranks) -> usize {
        let Self { root, image, text, box_image, box_text, chain, edges } = self;
        let views = [root, image, text, box_image, box_text, chain, edges];
        let largest = views.into_iter().flatten().map(|rows| rows.share(ranks).len()).max();
        // Photos of a batch may have different numbers of crops.
        ranks.max(largest.unwrap_or(0) as u64) as usize
    }
}

/// Splits the rows `share` into calls of at most `size` rows, in order.
pub(super) fn calls(share: Range<usize>, size: Option<usize>) -> impl Iterator<Item = Range<usize>> {
    let size = size.unwrap_or(share.len()).max(1);
    share.clone().step_by(size).map(move |first| first..share.end.min(first + size))
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
        let found = |share, size| calls(share, size).map(|call| [call.start, call.end]).collect::<Vec<_>>();
        assert_eq!(found(0..7, Some(3)), [[0, 3], [3, 6], [6, 7]]);
        assert_eq!(found(4..10, Some(3)), [[4, 7], [7, 10]]);
        assert_eq!(found(5..11, None), [[5, 11]]);
        assert_eq!(found(0..2, Some(5)), [[0, 2]]);
        assert!(found(4..4, Some(5)).is_empty() && found(0..0, None).is_empty());
    }
}
