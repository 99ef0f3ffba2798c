//! Autodiff node of the feed-forward operation.

use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Flex};

use super::FeedForwardOps;
use super::rows::{self, FeedForwardOperands, FeedForwardState};
use crate::activation::Activation;
use crate::arrays::{dense, recomputes};

impl<C: CheckpointStrategy> FeedForwardOps for Autodiff<Flex, C> {
    fn fused_feed_forward(
        base: FloatTensor<Self>,
        x: FloatTensor<Self>,
        up_weight: FloatTensor<Self>,
        up_bias: FloatTensor<Self>,
        down_weight: FloatTensor<Self>,
        down_bias: FloatTensor<Self>,
        activation: Activation,
    ) -> FloatTensor<Self> {
        let (base, base_node) = base.into_parts();
        let (x, x_node) = x.into_parts();
        let (up_weight, up_weight_node) = up_weight.into_parts();
        let (up_bias, up_bias_node) = up_bias.into_parts();
        let (down_weight, down_weight_node) = down_weight.into_parts();
        let (down_bias, down_bias_node) = down_bias.into_parts();
        let operands = FeedForwardOperands::new(base, x, [up_weight, down_weight], [up_bias, down_bias]);
        let (out, before) = operands.forward(activation);
        let nodes = [x_node, up_weight_node, up_bias_node, down_weight_node, down_bias_node, base_node];
        match FeedForwardNode.prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let FeedForwardOperands { x, up_weight, up_bias, down_weight, .. } = operands;
                let before = (!recomputes::<C>()).then_some(before);
                prep.finish(FeedForwardState { x, before, up_weight, up_bias, down_weight, activation }, out)
            }
            OpsKind::UnTracked(prep) => prep.finish(out),
        }
    }
}

#[derive(Debug)]
struct FeedForwardNode;

impl Backward<Flex, 6> for FeedForwardNode {
    type State = FeedForwardState;

    fn backward(self, ops: Ops<FeedForwardState, 6>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let gradient = dense(&grads.consume::<Flex>(&ops.node));
        let needed = [0, 1, 2, 3, 4].map(|parent| ops.parents[parent].is_some());
        let found = rows::backward(&ops.state, &gradient, needed);
        for (parent, gradient) in ops.parents.into_iter().zip(found.into_iter().chain([Some(gradient)])) {
            if let (Some(node), Some(gradient)) = (parent, gradient) {
                grads.register::<Flex>(node.id, gradient);
            }
        }
    }
}
