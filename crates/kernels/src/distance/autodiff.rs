//! The fused operation as one node of the graph.

use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Flex};

use super::cpu::{Kept, backward, forward};
use super::{DistanceOps, DistanceRule};

impl<C: CheckpointStrategy> DistanceOps for Autodiff<Flex, C> {
    fn pairwise_distance(
        x: FloatTensor<Self>,
        y: FloatTensor<Self>,
        curv: FloatTensor<Self>,
        rule: DistanceRule,
    ) -> FloatTensor<Self> {
        let (x, x_node) = x.into_parts();
        let (y, y_node) = y.into_parts();
        let (curv, curv_node) = curv.into_parts();
        match PairwiseDistance.prepare::<C>([x_node, y_node, curv_node]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let (out, kept) = forward(x, y, curv, rule, true);
                prep.finish(kept, out)
            }
            OpsKind::UnTracked(prep) => prep.finish(forward(x, y, curv, rule, false).0),
        }
    }
}

#[derive(Debug)]
struct PairwiseDistance;

impl Backward<Flex, 3> for PairwiseDistance {
    type State = Kept;

    fn backward(self, ops: Ops<Kept, 3>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let grad = grads.consume::<Flex>(&ops.node);
        let found = backward(ops.state, &grad);
        for (parent, gradient) in ops.parents.into_iter().zip(found) {
            if let Some(node) = parent {
                grads.register::<Flex>(node.id, gradient);
            }
        }
    }
}
