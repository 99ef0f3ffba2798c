//! Autodiff node of the layer normalisation. It saves the input and two numbers per row.

use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Flex};

use super::{LayerNormOps, rows};
use crate::arrays::{FlexArray, dense};

impl<C: CheckpointStrategy> LayerNormOps for Autodiff<Flex, C> {
    fn fused_layer_norm(
        x: FloatTensor<Self>,
        gain: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        epsilon: f64,
    ) -> FloatTensor<Self> {
        let (x, x_node) = x.into_parts();
        let (gain, gain_node) = gain.into_parts();
        let (bias, bias_node) = bias.into_parts();
        let (x, gain) = (dense(&x), dense(&gain));
        let (out, moments) = rows::forward(&x, &gain, &bias, epsilon);
        match LayerNormNode.prepare::<C>([x_node, gain_node, bias_node]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish(LayerNormState { x, gain, moments }, out),
            OpsKind::UnTracked(prep) => prep.finish(out),
        }
    }
}

#[derive(Debug)]
struct LayerNormNode;

#[derive(Clone, Debug)]
struct LayerNormState {
    x: FlexArray,
    gain: FlexArray,
    moments: Vec<[f32; 2]>,
}

impl Backward<Flex, 3> for LayerNormNode {
    type State = LayerNormState;

    fn backward(self, ops: Ops<LayerNormState, 3>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let LayerNormState { x, gain, moments } = ops.state;
        let found = rows::backward(&x, &gain, &moments, grads.consume::<Flex>(&ops.node));
        for (parent, gradient) in ops.parents.into_iter().zip(found) {
            if let Some(node) = parent {
                grads.register::<Flex>(node.id, gradient);
            }
        }
    }
}
