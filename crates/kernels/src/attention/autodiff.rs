//! Autodiff nodes of attention. They save the operands and two numbers per query and head.

use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Flex};

use super::heads::{AttentionOperands, SoftmaxStats};
use super::{AttentionOps, AttentionShape, HostMask};

impl<C: CheckpointStrategy> AttentionOps for Autodiff<Flex, C> {
    fn fused_attention(
        query: FloatTensor<Self>,
        key_value: FloatTensor<Self>,
        shape: AttentionShape,
        mask: HostMask,
    ) -> FloatTensor<Self> {
        let (query, query_node) = query.into_parts();
        let (key_value, key_value_node) = key_value.into_parts();
        let attention = AttentionOperands::split(&query, &key_value, shape, mask);
        let (out, rows) = attention.forward();
        match AttentionNode.prepare::<C>([query_node, key_value_node]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish((attention, rows), out),
            OpsKind::UnTracked(prep) => prep.finish(out),
        }
    }

    fn fused_self_attention(joint: FloatTensor<Self>, shape: AttentionShape, mask: HostMask) -> FloatTensor<Self> {
        let (joint, node) = joint.into_parts();
        let attention = AttentionOperands::joint(&joint, shape, mask);
        let (out, rows) = attention.forward();
        match AttentionNode.prepare::<C>([node]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish((attention, rows), out),
            OpsKind::UnTracked(prep) => prep.finish(out),
        }
    }
}

/// A node with one parent (the joint projections) or two (the queries, then the keys and values).
#[derive(Debug)]
struct AttentionNode;

impl<const N: usize> Backward<Flex, N> for AttentionNode {
    type State = (AttentionOperands, SoftmaxStats);

    fn backward(self, ops: Ops<Self::State, N>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let (attention, rows) = ops.state;
        let (first, second) = attention.backward(&rows, grads.consume::<Flex>(&ops.node));
        for (parent, gradient) in ops.parents.into_iter().zip([Some(first), second]) {
            if let (Some(node), Some(gradient)) = (parent, gradient) {
                grads.register::<Flex>(node.id, gradient);
            }
        }
    }
}
