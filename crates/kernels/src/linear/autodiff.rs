//! Autodiff nodes of the affine maps. They save the rows and the weight.

use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Flex};

use super::{LinearOps, rows};
use crate::arrays::{FlexArray, dense, with_forward_strides};

impl<C: CheckpointStrategy> LinearOps for Autodiff<Flex, C> {
    fn fused_linear(x: FloatTensor<Self>, weight: FloatTensor<Self>, bias: FloatTensor<Self>) -> FloatTensor<Self> {
        let (x, x_node) = x.into_parts();
        let (weight, weight_node) = weight.into_parts();
        let (bias, bias_node) = bias.into_parts();
        let (x, weight) = (dense(&x), with_forward_strides(weight));
        let out = rows::forward(&x, &weight, &dense(&bias), None);
        match LinearNode.prepare::<C>([x_node, weight_node, bias_node]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish((x, weight), out),
            OpsKind::UnTracked(prep) => prep.finish(out),
        }
    }

    fn fused_linear_add(
        base: FloatTensor<Self>,
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        let (base, base_node) = base.into_parts();
        let (x, x_node) = x.into_parts();
        let (weight, weight_node) = weight.into_parts();
        let (bias, bias_node) = bias.into_parts();
        let (x, weight) = (dense(&x), with_forward_strides(weight));
        let out = rows::forward(&x, &weight, &dense(&bias), Some(&dense(&base)));
        match LinearNode.prepare::<C>([x_node, weight_node, bias_node, base_node]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish((x, weight), out),
            OpsKind::UnTracked(prep) => prep.finish(out),
        }
    }
}

/// A node with three parents (rows, weight, bias), or four with `base`, to which the result is added.
#[derive(Debug)]
struct LinearNode;

impl<const N: usize> Backward<Flex, N> for LinearNode {
    type State = (FlexArray, FlexArray);

    fn backward(self, ops: Ops<Self::State, N>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let (x, weight) = ops.state;
        let gradient = dense(&grads.consume::<Flex>(&ops.node));
        let needed = [0, 1, 2].map(|parent| ops.parents[parent].is_some());
        let found = rows::backward(&x, &weight, &gradient, needed);
        for (parent, gradient) in ops.parents.into_iter().zip(found.into_iter().chain([Some(gradient)])) {
            if let (Some(node), Some(gradient)) = (parent, gradient) {
                grads.register::<Flex>(node.id, gradient);
            }
        }
    }
}
