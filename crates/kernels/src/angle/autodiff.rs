//! Autodiff nodes of the fused angles.

use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Flex};

use super::contrast::{self, Kept};
use super::{AngleOps, Bend, Contrast, tiles};
use crate::arrays::Array;

impl AngleOps for Flex {
    fn pairwise_exterior_angle(parent: Array, child: Array, curv: Array, bend: Bend, tiny: f64) -> Array {
        tiles::angles(&parent, &child, &curv, bend, tiny)
    }

    fn angle_contrast(points: Array, curv: Array, scale: Array, contrast: Contrast) -> Array {
        contrast::losses(points, curv, &scale, contrast).0
    }
}

impl<C: CheckpointStrategy> AngleOps for Autodiff<Flex, C> {
    fn pairwise_exterior_angle(
        parent: FloatTensor<Self>,
        child: FloatTensor<Self>,
        curv: FloatTensor<Self>,
        bend: Bend,
        tiny: f64,
    ) -> FloatTensor<Self> {
        let ((parent, parent_node), (child, child_node), (curv, curv_node)) =
            (parent.into_parts(), child.into_parts(), curv.into_parts());
        let out = tiles::angles(&parent, &child, &curv, bend, tiny);
        match PairwiseAngle.prepare::<C>([parent_node, child_node, curv_node]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish(Operands { parent, child, curv, bend, tiny }, out),
            OpsKind::UnTracked(prep) => prep.finish(out),
        }
    }

    fn angle_contrast(
        points: FloatTensor<Self>,
        curv: FloatTensor<Self>,
        scale: FloatTensor<Self>,
        contrast: Contrast,
    ) -> FloatTensor<Self> {
        let ((points, points_node), (curv, curv_node), (scale, scale_node)) =
            (points.into_parts(), curv.into_parts(), scale.into_parts());
        let (out, kept) = contrast::losses(points, curv, &scale, contrast);
        match AngleContrast.prepare::<C>([points_node, curv_node, scale_node]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish(kept, out),
            OpsKind::UnTracked(prep) => prep.finish(out),
        }
    }
}

#[derive(Debug)]
struct PairwiseAngle;

/// Inputs saved for the backward pass. None has the size `[P, C]`.
#[derive(Clone, Debug)]
struct Operands {
    parent: Array,
    child: Array,
    curv: Array,
    bend: Bend,
    tiny: f64,
}

impl Backward<Flex, 3> for PairwiseAngle {
    type State = Operands;

    fn backward(self, ops: Ops<Operands, 3>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let Operands { parent, child, curv, bend, tiny } = ops.state;
        let grad = grads.consume::<Flex>(&ops.node);
        let found = tiles::backward(&parent, &child, &curv, bend, tiny, &grad);
        for (parent, gradient) in ops.parents.into_iter().zip(found) {
            if let Some(node) = parent {
                grads.register::<Flex>(node.id, gradient);
            }
        }
    }
}

#[derive(Debug)]
struct AngleContrast;

impl Backward<Flex, 3> for AngleContrast {
    type State = Kept;

    fn backward(self, ops: Ops<Kept, 3>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let grad = grads.consume::<Flex>(&ops.node);
        let found = contrast::backward(&ops.state, &grad);
        for (parent, gradient) in ops.parents.into_iter().zip(found) {
            if let Some(node) = parent {
                grads.register::<Flex>(node.id, gradient);
            }
        }
    }
}
