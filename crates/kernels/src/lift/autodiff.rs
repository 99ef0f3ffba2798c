//! Autodiff node of the fused lift.

use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Flex};

use super::{LiftOps, rows};
use crate::arrays::FlexArray;

impl<C: CheckpointStrategy> LiftOps for Autodiff<Flex, C> {
    fn lift(
        tangent: FloatTensor<Self>,
        scale: FloatTensor<Self>,
        curv: FloatTensor<Self>,
        max_rapidity: f64,
    ) -> FloatTensor<Self> {
        let ((tangent, tangent_node), (scale, scale_node), (curv, curv_node)) =
            (tangent.into_parts(), scale.into_parts(), curv.into_parts());
        let out = Flex::lift(tangent.clone(), scale.clone(), curv.clone(), max_rapidity);
        match LiftNode.prepare::<C>([tangent_node, scale_node, curv_node]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish(LiftState { tangent, scale, curv, max_rapidity }, out),
            OpsKind::UnTracked(prep) => prep.finish(out),
        }
    }
}

#[derive(Debug)]
struct LiftNode;

#[derive(Clone, Debug)]
struct LiftState {
    tangent: FlexArray,
    scale: FlexArray,
    curv: FlexArray,
    max_rapidity: f64,
}

impl Backward<Flex, 3> for LiftNode {
    type State = LiftState;

    fn backward(self, ops: Ops<LiftState, 3>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let LiftState { tangent, scale, curv, max_rapidity } = ops.state;
        let grad = grads.consume::<Flex>(&ops.node);
        let found = rows::backward(&tangent, &scale, &curv, max_rapidity, &grad);
        for (parent, gradient) in ops.parents.into_iter().zip(found) {
            if let Some(node) = parent {
                grads.register::<Flex>(node.id, gradient);
            }
        }
    }
}
