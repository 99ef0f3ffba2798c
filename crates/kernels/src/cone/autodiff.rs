//! Autodiff node of the fused cone hinge.

use std::sync::Arc;

use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Flex};

use super::rows::{self, HingeGradient};
use super::{ConeHinge, ConeOps};
use crate::arrays::FlexArray;

impl<C: CheckpointStrategy> ConeOps for Autodiff<Flex, C> {
    fn cone_hinge(
        parent: FloatTensor<Self>,
        child: FloatTensor<Self>,
        curv: FloatTensor<Self>,
        cone: ConeHinge,
    ) -> FloatTensor<Self> {
        let ((parent, parent_node), (child, child_node), (curv, curv_node)) =
            (parent.into_parts(), child.into_parts(), curv.into_parts());
        let (out, gradients) = rows::forward(&parent, &child, &curv, cone);
        match ConeHingeNode.prepare::<C>([parent_node, child_node, curv_node]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                prep.finish(ConeHingeState { parent, child, curv, gradients: gradients.into() }, out)
            }
            OpsKind::UnTracked(prep) => prep.finish(out),
        }
    }
}

#[derive(Debug)]
struct ConeHingeNode;

#[derive(Clone, Debug)]
struct ConeHingeState {
    parent: FlexArray,
    child: FlexArray,
    curv: FlexArray,
    gradients: Arc<[HingeGradient]>,
}

impl Backward<Flex, 3> for ConeHingeNode {
    type State = ConeHingeState;

    fn backward(self, ops: Ops<ConeHingeState, 3>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let ConeHingeState { parent, child, curv, gradients } = ops.state;
        let grad = grads.consume::<Flex>(&ops.node);
        let found = rows::backward(&parent, &child, &curv, &gradients, &grad);
        for (parent, gradient) in ops.parents.into_iter().zip(found) {
            if let Some(node) = parent {
                grads.register::<Flex>(node.id, gradient);
            }
        }
    }
}
