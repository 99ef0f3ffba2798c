//! Gradual unfreezing of encoders (Howard and Ruder, "Universal Language Model Fine-tuning for Text Classification",
//! ACL 2018, Sec. 3.3).

use conifer_model::model::ModelPart;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// When the layers of an encoder become trainable. At the start all are frozen. Every `every` updates of the run, the
/// next `blocks` blocks are unfrozen, from the last block to the first. Final norm and pooling are unfrozen with the
/// last block. The embeddings count as one more block before the first one.
///
/// The times depend on the step alone, so a resumed run unfreezes at the same steps. Batch norms always use their
/// stored statistics ([`BatchNorm`](conifer_model::encoders::conv::BatchNorm)), frozen or not. Features of an encoder
/// that is unfrozen gradually are never stored, because they change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UnfreezeConfig {
    /// Updates between two unfreezings, at least 1 and less than `train.steps`. Before the first one the encoders are
    /// frozen.
    pub every: u64,
    /// Blocks that become trainable at a time, at least 1, from the last to the first. The embeddings count as the
    /// first.
    #[serde(default = "one")]
    pub blocks: usize,
    /// Encoders that are unfrozen gradually: visual, textual or both.
    #[serde(default = "both")]
    pub towers: Vec<ModelPart>,
}

fn one() -> usize {
    1
}

fn both() -> Vec<ModelPart> {
    vec![ModelPart::Visual, ModelPart::Textual]
}

impl UnfreezeConfig {
    /// Number of updates of the run before `layer` is unfrozen, in an encoder with `blocks` blocks. The layers are
    /// those of [`LayerIds`](conifer_model::layer_ids::LayerIds).
    pub fn start(&self, layer: usize, blocks: usize) -> u64 {
        // Number of blocks from the last one down to this layer, at least 1.
        let needed = (blocks + 1).saturating_sub(layer).max(1);
        self.every.saturating_mul(needed.div_ceil(self.blocks.max(1)) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn starts(blocks_at_a_time: usize) -> Vec<u64> {
        let config = UnfreezeConfig { every: 100, blocks: blocks_at_a_time, towers: both() };
        (0..=6).map(|layer| config.start(layer, 5)).collect()
    }

    #[test]
    fn layers_start_from_the_last_to_the_first() {
        // The layers are the embeddings, blocks 1 to 5 and the final norm.
        assert_eq!(starts(1), [600, 500, 400, 300, 200, 100, 100]);
        assert_eq!(starts(2), [300, 300, 200, 200, 100, 100, 100]);
        assert_eq!(starts(6), [100; 7]);
    }
}
