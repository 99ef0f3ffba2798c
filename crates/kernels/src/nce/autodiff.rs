//! Autodiff nodes of the contrastive losses.

use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::{BoolTensor, FloatTensor};
use burn::backend::{Autodiff, Flex};

use super::cpu::{self, InfoNceState, MultiNceState};
use super::{NceOps, NceRule};

impl<C: CheckpointStrategy> NceOps for Autodiff<Flex, C> {
    fn info_nce(similarity: FloatTensor<Self>, scale: FloatTensor<Self>, rule: NceRule) -> FloatTensor<Self> {
        let (similarity, table_node) = similarity.into_parts();
        let (scale, scale_node) = scale.into_parts();
        let (out, state) = cpu::info_nce(similarity, scale, rule);
        match InfoNceNode.prepare::<C>([table_node, scale_node]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish(state, out),
            OpsKind::UnTracked(prep) => prep.finish(out),
        }
    }

    fn multi_positive_nce(
        similarity: FloatTensor<Self>,
        scale: FloatTensor<Self>,
        positive: BoolTensor<Self>,
        same: BoolTensor<Self>,
    ) -> FloatTensor<Self> {
        let (similarity, table_node) = similarity.into_parts();
        let (scale, scale_node) = scale.into_parts();
        let (out, state) = cpu::multi_positive_nce(similarity, scale, positive, same);
        match MultiPositiveNceNode.prepare::<C>([table_node, scale_node]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish(state, out),
            OpsKind::UnTracked(prep) => prep.finish(out),
        }
    }
}

#[derive(Debug)]
struct InfoNceNode;

impl Backward<Flex, 2> for InfoNceNode {
    type State = InfoNceState;

    fn backward(self, ops: Ops<InfoNceState, 2>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let grad = grads.consume::<Flex>(&ops.node);
        let found = cpu::info_nce_backward(&ops.state, grad);
        for (parent, gradient) in ops.parents.into_iter().zip(found) {
            if let Some(node) = parent {
                grads.register::<Flex>(node.id, gradient);
            }
        }
    }
}

#[derive(Debug)]
struct MultiPositiveNceNode;

impl Backward<Flex, 2> for MultiPositiveNceNode {
    type State = MultiNceState;

    fn backward(self, ops: Ops<MultiNceState, 2>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let grad = grads.consume::<Flex>(&ops.node);
        let found = cpu::multi_positive_nce_backward(&ops.state, grad);
        for (parent, gradient) in ops.parents.into_iter().zip(found) {
            if let Some(node) = parent {
                grads.register::<Flex>(node.id, gradient);
            }
        }
    }
}
