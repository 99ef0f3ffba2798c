//! Autodiff nodes of the fused angles.

use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Flex};

use super::contrast::{self, AngleContrastState};
use super::{AngleGeometry, AngleOps, ContrastRule, tiles};
use crate::arrays::FlexArray;

impl AngleOps for Flex {
    fn pairwise_exterior_angle(
        parent: FlexArray,
        child: FlexArray,
        curv: FlexArray,
        geometry: AngleGeometry,
        tiny: f64,
    ) -> FlexArray {
        tiles::angles(&parent, &child, &curv, geometry, tiny)
    }

    fn angle_contrast(points: FlexArray, curv: FlexArray, scale: FlexArray, contrast: ContrastRule) -> FlexArray {
        contrast::losses(points, curv, &scale, contrast).0
    }
}

impl<C: CheckpointStrategy> AngleOps for Autodiff<Flex, C> {
    fn pairwise_exterior_angle(
        parent: FloatTensor<Self>,
        child: FloatTensor<Self>,
        curv: FloatTensor<Self>,
        geometry: AngleGeometry,
        tiny: f64,
    ) -> FloatTensor<Self> {
        let ((parent, parent_node), (child, child_node), (curv, curv_node)) =
            (parent.into_parts(), child.into_parts(), curv.into_parts());
        let out = tiles::angles(&parent, &child, &curv, geometry, tiny);
        match PairwiseAngleNode.prepare::<C>([parent_node, child_node, curv_node]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish(PairwiseAngleState { parent, child, curv, geometry, tiny }, out),
            OpsKind::UnTracked(prep) => prep.finish(out),
        }
    }

    fn angle_contrast(
        points: FloatTensor<Self>,
        curv: FloatTensor<Self>,
        scale: FloatTensor<Self>,
        contrast: ContrastRule,
    ) -> FloatTensor<Self> {
        let ((points, points_node), (curv, curv_node), (scale, scale_node)) =
            (points.into_parts(), curv.into_parts(), scale.into_parts());
        let (out, state) = contrast::losses(points, curv, &scale, contrast);
        match AngleContrastNode.prepare::<C>([points_node, curv_node, scale_node]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish(state, out),
            OpsKind::UnTracked(prep) => prep.finish(out),
        }
    }
}

#[derive(Debug)]
struct PairwiseAngleNode;

/// Inputs saved for the backward pass. No saved tensor has the size `[P, C]`.
#[derive(Clone, Debug)]
struct PairwiseAngleState {
    parent: FlexArray,
    child: FlexArray,
    curv: FlexArray,
    geometry: AngleGeometry,
    tiny: f64,
}

impl Backward<Flex, 3> for PairwiseAngleNode {
    type State = PairwiseAngleState;

    fn backward(self, ops: Ops<PairwiseAngleState, 3>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let PairwiseAngleState { parent, child, curv, geometry, tiny } = ops.state;
        let grad = grads.consume::<Flex>(&ops.node);
        let found = tiles::backward(&parent, &child, &curv, geometry, tiny, &grad);
        for (parent, gradient) in ops.parents.into_iter().zip(found) {
            if let Some(node) = parent {
                grads.register::<Flex>(node.id, gradient);
            }
        }
    }
}

#[derive(Debug)]
struct AngleContrastNode;

impl Backward<Flex, 3> for AngleContrastNode {
    type State = AngleContrastState;

    fn backward(self, ops: Ops<AngleContrastState, 3>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let grad = grads.consume::<Flex>(&ops.node);
        let found = contrast::backward(&ops.state, &grad);
        for (parent, gradient) in ops.parents.into_iter().zip(found) {
            if let Some(node) = parent {
                grads.register::<Flex>(node.id, gradient);
            }
        }
    }
}
