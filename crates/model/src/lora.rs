//! Low-rank updates of the weights of a tower (LoRA; Hu et al., ICLR 2022, arXiv 2106.09685).

use std::collections::BTreeSet;
use std::vec;

use burn::module::{LoraAdapter, Module, Param, Reparameterizer};
use burn::tensor::Tensor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::layer_ids::{LayerIds, block_of};
use crate::params::{Fill, Init, ParamInfo, ParamVisitor, visit_params};
use crate::{Error, Result};

/// Low-rank updates of a tower: `W' = W + (alpha / rank) A B` for each selected weight `W` `[in, out]`, with factors
/// `A` `[in, rank]` and `B` `[rank, out]`.
///
/// `A` starts uniform in +-1/sqrt(in) and `B` at zero, as in the authors' code, so training starts from the unchanged
/// tower. Only the factors learn: the trainer freezes all other parameters of the tower. Fused queries, keys and
/// values are one weight here and get one update (as PEFT treats timm's `qkv`), where the paper updates the query and
/// the value matrix with `rank` each.
///
/// The forward pass computes `W'`, so every layer and every fused operation uses it; the backward pass computes the
/// gradient of `W'`. Compared with full fine-tuning of the same blocks, this saves the optimiser's two moments per
/// weight, but no time. Dropout before `A` is not supported, because it would need a separate product for each layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LoraConfig {
    /// Rank of every low-rank update (LoRA), at least 1 and at most the smaller side of each updated weight. The other
    /// parameters of the encoder are frozen.
    pub rank: usize,
    /// The product of the factors is multiplied by `alpha / rank`; more than 0.
    pub alpha: f64,
    /// Blocks whose weights are updated: all, a number of last blocks, or a list of block numbers. The first block is
    /// 0.
    pub blocks: LoraBlocks,
    /// Weights of a block that are updated.
    pub targets: Vec<LoraTarget>,
}

impl Default for LoraConfig {
    fn default() -> Self {
        Self { rank: 8, alpha: 16.0, blocks: LoraBlocks::default(), targets: vec![LoraTarget::Attention] }
    }
}

/// Blocks of a tower, for [`LoraConfig`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "\"all\", a number of last blocks, or a list of block numbers (the first block is 0)")]
pub enum LoraBlocks {
    /// A named choice.
    Named(NamedBlocks),
    /// The last N blocks.
    Last(usize),
    /// The blocks with these numbers; the first is 0.
    Listed(Vec<usize>),
}

/// A named choice of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NamedBlocks {
    /// Every block.
    All,
}

impl Default for LoraBlocks {
    fn default() -> Self {
        Self::Named(NamedBlocks::All)
    }
}

/// Weights of a transformer block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LoraTarget {
    /// Queries, keys and values (one weight each, or one fused weight), and the output projection.
    Attention,
    /// All linear layers of the feed-forward network.
    FeedForward,
}

impl LoraTarget {
    /// The target that includes a weight, given the first component of the weight's name in its block.
    fn of(component: &str) -> Option<Self> {
        match component {
            "attn" | "attention" => Some(Self::Attention),
            "mlp" | "intermediate" | "output" => Some(Self::FeedForward),
            _ => None,
        }
    }
}

impl LoraConfig {
    /// Checks the values that do not depend on a tower. `section` names them in messages: `model.visual_lora`.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a rank of 0, an alpha that is not finite and positive, or a selection without blocks or
    /// targets.
    pub fn check(&self, section: &str) -> Result<()> {
        if self.rank == 0 {
            return Err(Error::invalid(format!("{section}.rank"), self.rank, "at least 1"));
        }
        if !(self.alpha.is_finite() && self.alpha > 0.0) {
            return Err(Error::invalid(format!("{section}.alpha"), self.alpha, "more than 0"));
        }
        if self.targets.is_empty() {
            return Err(Error::invalid(format!("{section}.targets"), "empty", "attention, feed_forward or both"));
        }
        match &self.blocks {
            LoraBlocks::Last(0) => {
                Err(Error::invalid(format!("{section}.blocks"), 0, "all, at least 1, or a list of block numbers"))
            }
            LoraBlocks::Listed(list) if list.is_empty() => {
                Err(Error::invalid(format!("{section}.blocks"), "empty", "at least one block number"))
            }
            _ => Ok(()),
        }
    }

    /// Adds the updates to the weights of `tower` that the config selects. The blocks of the tower are named by
    /// `patterns` ([`LayerIds::of`]).
    ///
    /// # Errors
    /// The errors of [`LoraConfig::check`]; [`Error::Invalid`] for a tower without the selected weights or blocks, and
    /// for a rank above the smaller side of a weight.
    pub fn attach<M: Module>(&self, section: &str, tower: M, patterns: &[&str], init: &mut Init) -> Result<M> {
        self.check(section)?;
        let layers = LayerIds::of(&tower, patterns);
        let blocks = self.numbers(section, layers.blocks())?;
        let mut finder =
            WeightFinder { config: self, patterns, layers: &layers, blocks, selected: Vec::new(), side: None };
        visit_params(&tower, &mut finder);
        let WeightFinder { selected, side, .. } = finder;
        let Some(side) = side else {
            let expected = match self.targets.contains(&LoraTarget::Attention) {
                true => "an encoder with attention, such as vit, clip_vit, pretrained_vit or text_transformer",
                false => "an encoder with feed-forward parts, such as vit, clip_vit, pretrained_vit or convnext",
            };
            return Err(Error::invalid(section, "set for an encoder without such weights", expected));
        };
        if self.rank > side {
            let expected = format!("at most {side}, the smaller side of the smallest weight");
            return Err(Error::invalid(format!("{section}.rank"), self.rank, expected));
        }
        let (rank, scale) = (self.rank, self.alpha / self.rank as f64);
        Ok(tower.apply_reparameterization(UpdateBuilder { selected: selected.into_iter(), init, rank, scale }))
    }

    /// The numbers of the selected blocks among `count`.
    fn numbers(&self, section: &str, count: usize) -> Result<BTreeSet<usize>> {
        let wrong = |found: usize, expected: String| Error::invalid(format!("{section}.blocks"), found, expected);
        match &self.blocks {
            LoraBlocks::Named(NamedBlocks::All) => Ok((0..count).collect()),
            LoraBlocks::Last(last) if *last <= count => Ok((count - last..count).collect()),
            LoraBlocks::Last(last) => {
                Err(wrong(*last, format!("at most {count}, the number of blocks of the encoder")))
            }
            LoraBlocks::Listed(list) => match list.iter().find(|number| **number >= count) {
                Some(&number) => {
                    Err(wrong(number, format!("numbers below {count}, the number of blocks of the encoder")))
                }
                None => Ok(list.iter().copied().collect()),
            },
        }
    }
}

/// Finds the weights that a config selects.
struct WeightFinder<'a> {
    config: &'a LoraConfig,
    patterns: &'a [&'a str],
    layers: &'a LayerIds,
    blocks: BTreeSet<usize>,
    /// For each parameter, in order, whether it is selected.
    selected: Vec<bool>,
    /// The smallest side over all selected weights, which limits the rank.
    side: Option<usize>,
}

impl ParamVisitor for WeightFinder<'_> {
    fn visit<const D: usize>(&mut self, param: &ParamInfo<'_>, value: &Tensor<D>) {
        let part = block_of(param.name, self.patterns).and_then(|block| {
            let component = param.name[block.len() + 1..].split('.').next()?;
            LoraTarget::of(component)
        });
        let in_block = self.layers.layer(param.name).is_some_and(|it| it > 0 && self.blocks.contains(&(it - 1)));
        let selected = param.transposed && in_block && part.is_some_and(|part| self.config.targets.contains(&part));
        if selected {
            let side = value.dims().into_iter().min().unwrap_or_default();
            self.side = Some(self.side.map_or(side, |known| known.min(side)));
        }
        self.selected.push(selected);
    }
}

/// Creates the factors. Burn passes the parameters in the order of [`visit_params`].
struct UpdateBuilder<'a> {
    selected: vec::IntoIter<bool>,
    init: &'a mut Init,
    rank: usize,
    scale: f64,
}

impl Reparameterizer for UpdateBuilder<'_> {
    type Reparam = LoraAdapter;

    fn reparameterize<const D: usize>(
        &mut self,
        _: &str,
        param: Param<Tensor<D>>,
    ) -> (Param<Tensor<D>>, Option<LoraAdapter>) {
        let selected = self.selected.next().unwrap_or(false);
        let sides = param.dims();
        let update = match sides.as_slice() {
            &[width_in, width_out] if selected => Some(LoraAdapter {
                a: self.init.param([width_in, self.rank], Fill::Uniform((width_in as f64).powf(-0.5))),
                b: self.init.param([self.rank, width_out], Fill::Constant(0.0)),
                scale: self.scale,
            }),
            _ => None,
        };
        (param, update)
    }
}

#[cfg(test)]
mod tests;
