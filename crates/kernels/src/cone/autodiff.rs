//! Autodiff node of the fused cone hinge.

use std::sync::Arc;

use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Flex};

use super::rows::{self, Share};
use super::{Cone, ConeOps};
use crate::arrays::Array;

impl<C: CheckpointStrategy> ConeOps for Autodiff<Flex, C> {
    fn cone_hinge(
        parent: FloatTensor<Self>,
        child: FloatTensor<Self>,
        curv: FloatTensor<Self>,
        cone: Cone,
    ) -> FloatTensor<Self> {
        let ((parent, parent_node), (child, child_node), (curv, curv_node)) =
            (parent.into_parts(), child.into_parts(), curv.into_parts());
        let (out, shares) = rows::forward(&parent, &child, &curv, cone);
        match ConeHinge.prepare::<C>([parent_node, child_node, curv_node]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish(Operands { parent, child, curv, shares: shares.into() }, out),
            OpsKind::UnTracked(prep) => prep.finish(out),
        }
    }
}

#[derive(Debug)]
struct ConeHinge;

#[derive(Clone, Debug)]
struct Operands {
    parent: Array,
    child: Array,
    curv: Array,
    shares: Arc<[Share]>,
}

impl Backward<Flex, 3> for ConeHinge {
    type State = Operands;

    fn backward(self, ops: Ops<Operands, 3>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let Operands { parent, child, curv, shares } = ops.state;
        let grad = grads.consume::<Flex>(&ops.node);
        let found = rows::backward(&parent, &child, &curv, &shares, &grad);
        for (parent, gradient) in ops.parents.into_iter().zip(found) {
            if let Some(node) = parent {
                grads.register::<Flex>(node.id, gradient);
            }
        }
    }
}
