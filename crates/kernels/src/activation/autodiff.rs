//! Autodiff node of the activations; it saves its input.

use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Flex};

use super::{Activation, ActivationOps, slices};
use crate::arrays::{FlexArray, dense};

impl<C: CheckpointStrategy> ActivationOps for Autodiff<Flex, C> {
    fn activation(x: FloatTensor<Self>, activation: Activation) -> FloatTensor<Self> {
        let (x, node) = x.into_parts();
        let x = dense(&x);
        let out = Flex::activation(x.clone(), activation);
        match ActivationNode.prepare::<C>([node]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish((x, activation), out),
            OpsKind::UnTracked(prep) => prep.finish(out),
        }
    }
}

#[derive(Debug)]
struct ActivationNode;

impl Backward<Flex, 1> for ActivationNode {
    type State = (FlexArray, Activation);

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let (x, activation) = ops.state;
        let gradient = grads.consume::<Flex>(&ops.node);
        if let [Some(node)] = ops.parents {
            grads.register::<Flex>(node.id, slices::backward(&x, gradient, activation));
        }
    }
}
