//! Autodiff node of the fused distances, for every backend that implements [`DistancePasses`].

use std::fmt::Debug;

use burn::backend::Autodiff;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;

use super::{DistanceOps, DistanceRule};

/// The forward and backward pass of a backend.
pub(super) trait DistancePasses: DistanceOps {
    /// State saved for the backward pass.
    type SavedState: Clone + Debug + Send + 'static;

    /// The distances and the saved state.
    fn forward(
        x: FloatTensor<Self>,
        y: FloatTensor<Self>,
        curv: FloatTensor<Self>,
        rule: DistanceRule,
    ) -> (FloatTensor<Self>, Self::SavedState);

    /// The gradients with respect to `x`, `y` and `curv`.
    fn backward(state: Self::SavedState, grad: FloatTensor<Self>) -> [FloatTensor<Self>; 3];
}

impl<B: DistancePasses, C: CheckpointStrategy> DistanceOps for Autodiff<B, C> {
    fn pairwise_distance(
        x: FloatTensor<Self>,
        y: FloatTensor<Self>,
        curv: FloatTensor<Self>,
        rule: DistanceRule,
    ) -> FloatTensor<Self> {
        let (x, x_node) = x.into_parts();
        let (y, y_node) = y.into_parts();
        let (curv, curv_node) = curv.into_parts();
        match PairwiseDistanceNode.prepare::<C>([x_node, y_node, curv_node]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let (out, state) = B::forward(x, y, curv, rule);
                prep.finish(state, out)
            }
            OpsKind::UnTracked(prep) => prep.finish(B::pairwise_distance(x, y, curv, rule)),
        }
    }
}

#[derive(Debug)]
struct PairwiseDistanceNode;

impl<B: DistancePasses> Backward<B, 3> for PairwiseDistanceNode {
    type State = B::SavedState;

    fn backward(self, ops: Ops<B::SavedState, 3>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let grad = grads.consume::<B>(&ops.node);
        for (parent, gradient) in ops.parents.into_iter().zip(B::backward(ops.state, grad)) {
            if let Some(node) = parent {
                grads.register::<B>(node.id, gradient);
            }
        }
    }
}
