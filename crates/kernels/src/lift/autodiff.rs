//! Autodiff node of the fused lift.

use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Flex};

use super::{LiftOps, rows};
use crate::arrays::Array;

impl<C: CheckpointStrategy> LiftOps for Autodiff<Flex, C> {
    fn lift(
        tangent: FloatTensor<Self>,
        scale: FloatTensor<Self>,
        curv: FloatTensor<Self>,
        max_rapidity: f64,
    ) -> FloatTensor<Self> {
        let ((tangent, tangent_node), (scale, scale_node), (curv, curv_node)) =
            (tangent.into_parts(), scale.into_parts(), curv.into_parts());
        let out = Flex::lift(tangent.clone(), scale.clone(), curv.clone(), max_rapidity);
        match Lift.prepare::<C>([tangent_node, scale_node, curv_node]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish(Operands { tangent, scale, curv, max_rapidity }, out),
            OpsKind::UnTracked(prep) => prep.finish(out),
        }
    }
}

#[derive(Debug)]
struct Lift;

#[derive(Clone, Debug)]
struct Operands {
    tangent: Array,
    scale: Array,
    curv: Array,
    max_rapidity: f64,
}

impl Backward<Flex, 3> for Lift {
    type State = Operands;

    fn backward(self, ops: Ops<Operands, 3>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let Operands { tangent, scale, curv, max_rapidity } = ops.state;
        let grad = grads.consume::<Flex>(&ops.node);
        let found = rows::backward(&tangent, &scale, &curv, max_rapidity, &grad);
        for (parent, gradient) in ops.parents.into_iter().zip(found) {
            if let Some(node) = parent {
                grads.register::<Flex>(node.id, gradient);
            }
        }
    }
}
