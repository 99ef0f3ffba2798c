//! The fused operation as one node of the graph.

use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Flex};

use super::{Power, RapidityOps, tiles};

impl<C: CheckpointStrategy> RapidityOps for Autodiff<Flex, C> {
    fn weighted_rapidity(
        left: FloatTensor<Self>,
        right: FloatTensor<Self>,
        weights: FloatTensor<Self>,
        power: Power,
        floor: f64,
    ) -> FloatTensor<Self> {
        let (left, left_node) = left.into_parts();
        let (right, right_node) = right.into_parts();
        let (weights, weights_node) = weights.into_parts();
        let out = Flex::weighted_rapidity(left.clone(), right.clone(), weights.clone(), power, floor);
        match WeightedRapidity.prepare::<C>([left_node, right_node, weights_node]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish(Operands { left, right, weights, power, floor }, out),
            OpsKind::UnTracked(prep) => prep.finish(out),
        }
    }
}

#[derive(Debug)]
struct WeightedRapidity;

/// What the backward pass needs: nothing of the size `[K, M, N]`.
#[derive(Clone, Debug)]
struct Operands {
    left: FloatTensor<Flex>,
    right: FloatTensor<Flex>,
    weights: FloatTensor<Flex>,
    power: Power,
    floor: f64,
}

impl Backward<Flex, 3> for WeightedRapidity {
    type State = Operands;

    fn backward(self, ops: Ops<Operands, 3>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let Operands { left, right, weights, power, floor } = ops.state;
        let grad = grads.consume::<Flex>(&ops.node);
        let found = tiles::backward(&left, &right, &weights, power, floor, grad);
        let parents = ops.parents.into_iter().zip([found.left, found.right, found.weights]);
        for (parent, gradient) in parents {
            if let Some(node) = parent {
                grads.register::<Flex>(node.id, gradient);
            }
        }
    }
}
