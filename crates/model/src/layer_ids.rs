//! The layer of each parameter of a tower, for low-rank updates, layer-wise learning rates and gradual unfreezing.

use std::collections::BTreeMap;

use burn::module::Module;
use burn::tensor::Tensor;

use crate::params::{ParamInfo, ParamVisitor, visit_params};

/// Layer of each parameter of a tower with L blocks: 0 for the parameters before the first block (patch or token
/// embedding, positions, class token), i + 1 for block i (from 0), L + 1 for the parameters after the last block (final
/// norm, pooling, projection). A parameter between two blocks (the downsampling of ConvNeXt) has the layer of the later
/// block.
///
/// The numbering is that of BEiT (Bao et al., ICLR 2022), with one layer per block. timm assigns the final norm to the
/// layer of the last block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerIds {
    by_name: BTreeMap<String, usize>,
    blocks: usize,
}

impl LayerIds {
    /// The layers of `tower`. `patterns` are the names of its blocks, such as `encoder.layer.#`, where `#` is a number
    /// ([`Encoder::BLOCKS`](crate::encoders::Encoder::BLOCKS)).
    pub fn of<M: Module>(tower: &M, patterns: &[&str]) -> Self {
        let mut numbering = LayerNumbering { patterns, block: String::new(), blocks: 0, by_name: BTreeMap::new() };
        visit_params(tower, &mut numbering);
        Self { by_name: numbering.by_name, blocks: numbering.blocks }
    }

    /// Number of blocks, L.
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// Layer of a parameter, by its name in the tower; `None` for an unknown name.
    pub fn layer(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// Names and layers of all parameters, in order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, usize)> {
        self.by_name.iter().map(|(name, layer)| (name.as_str(), *layer))
    }
}

/// The part of a parameter's name that names its block: `blocks.3` of `blocks.3.attn.qkv.weight`. `None` for a
/// parameter outside the blocks.
pub(crate) fn block_of<'a>(name: &'a str, patterns: &[&str]) -> Option<&'a str> {
    patterns.iter().find_map(|pattern| {
        let mut rest = name;
        for part in pattern.split('.') {
            let (found, after) = rest.split_once('.')?;
            let is_number = !found.is_empty() && found.bytes().all(|byte| byte.is_ascii_digit());
            if found != part && !(part == "#" && is_number) {
                return None;
            }
            rest = after;
        }
        Some(&name[..name.len() - rest.len() - 1])
    })
}

struct LayerNumbering<'a> {
    patterns: &'a [&'a str],
    block: String,
    blocks: usize,
    by_name: BTreeMap<String, usize>,
}

impl ParamVisitor for LayerNumbering<'_> {
    fn visit<const D: usize>(&mut self, param: &ParamInfo<'_>, _: &Tensor<D>) {
        let layer = match block_of(param.name, self.patterns) {
            Some(block) => {
                if self.block != block {
                    block.clone_into(&mut self.block);
                    self.blocks += 1;
                }
                self.blocks
            }
            None if self.blocks == 0 => 0,
            None => self.blocks + 1,
        };
        self.by_name.insert(param.name.to_owned(), layer);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use burn::tensor::Device;

    use super::*;
    use crate::encoders::{ENCODERS, TextualConfig, VisualConfig};
    use crate::head::Tower;
    use crate::params::Init;

    /// The layers of a preset. The parameters are allocated, so the tests use miniature presets only.
    fn layers(tower: Tower, preset: &str) -> LayerIds {
        let init = &mut Init::blank(&Device::flex());
        match tower {
            Tower::Image => VisualConfig::preset(preset).unwrap().build(init).unwrap().layer_ids(),
            Tower::Text => TextualConfig::preset(preset).unwrap().build(init).unwrap().layer_ids(),
        }
    }

    fn check(tower: Tower, preset: &str, blocks: usize, expected: &[(&str, usize)]) {
        let found = layers(tower, preset);
        assert_eq!(found.blocks(), blocks, "{preset}");
        for (name, layer) in expected {
            assert_eq!(found.layer(name), Some(*layer), "{preset}: {name}");
        }
    }

    #[test]
    fn embeddings_come_first_and_norm_and_pooling_last() {
        let vit = [
            ("cls_token", 0),
            ("patch_embed.proj.weight", 0),
            ("blocks.0.norm1.weight", 1),
            ("blocks.3.attn.qkv.weight", 4),
            ("norm.bias", 5),
        ];
        check(Tower::Image, "vit_nano", 4, &vit);
        let siglip = [("pos_embed", 0), ("blocks.2.mlp.fc1.bias", 3), ("norm.weight", 5), ("pool.probe", 5)];
        check(Tower::Image, "siglip_vit_nano", 4, &siglip);
        let clip = [("ln_pre.weight", 0), ("transformer.resblocks.1.attn.in_proj_weight", 2), ("ln_post.weight", 5)];
        check(Tower::Image, "clip_vit_nano", 4, &clip);
        let text = [("token_embed.weight", 0), ("resblocks.3.mlp.c_fc.bias", 4), ("ln_final.weight", 5)];
        check(Tower::Text, "text_nano", 4, &text);
        let bert = [
            ("embeddings.word_embeddings.weight", 0),
            ("embeddings.layer_norm.bias", 0),
            ("encoder.layer.0.attention.qkv.weight", 1),
            ("encoder.layer.3.output.layer_norm.weight", 4),
        ];
        check(Tower::Text, "bert_nano", 4, &bert);
    }

    #[test]
    fn the_blocks_of_all_stages_of_a_convolutional_network_are_counted() {
        // The stages have 1, 2, 1 and 1 blocks.
        let resnet = [
            ("conv1.weight", 0),
            ("bn1.running_mean", 0),
            ("layer1.0.conv1.weight", 1),
            ("layer2.0.downsample.0.weight", 2),
            ("layer2.1.conv3.weight", 3),
            ("layer4.0.bn1.weight", 5),
        ];
        check(Tower::Image, "resnet_nano", 5, &resnet);
        // The stages have 1, 1, 2 and 1 blocks. The downsampling before a stage belongs to its first block.
        let convnext = [
            ("stem.0.weight", 0),
            ("stages.0.blocks.0.mlp.fc1.weight", 1),
            ("stages.1.downsample.1.weight", 2),
            ("stages.2.downsample.0.weight", 3),
            ("stages.2.blocks.1.gamma", 4),
            ("norm.weight", 6),
        ];
        check(Tower::Image, "convnext_nano", 5, &convnext);
        // The stages have 1, 2, 1, 1, 1, 1 and 1 blocks.
        let efficientnet = [
            ("embeddings.convolution.weight", 0),
            ("encoder.blocks.2.depthwise_conv.depthwise_norm.bias", 3),
            ("encoder.blocks.7.projection.project_conv.weight", 8),
            ("last.convolution.weight", 9),
        ];
        check(Tower::Image, "efficientnet_lite_nano", 8, &efficientnet);
    }

    /// A tower whose block names are unknown would get one learning rate and refuse low-rank updates.
    #[test]
    fn every_encoder_names_its_blocks() {
        for entry in ENCODERS {
            for preset in (entry.presets)().into_iter().filter(|name| name.ends_with("_nano")) {
                let found = layers(entry.tower, preset);
                let blocks = found.blocks();
                assert!(blocks > 1, "{preset}");
                for layer in 0..=blocks {
                    assert!(found.iter().any(|(_, it)| it == layer), "{preset}: nothing is in layer {layer}");
                }
            }
            let has_small = (entry.presets)().iter().any(|name| name.ends_with("_nano"));
            let has_parameters = !["vectors", "onnx"].contains(&entry.name);
            assert!(has_small || !has_parameters, "{} has no preset that this test can build", entry.name);
        }
    }

    #[test]
    fn only_whole_components_match_a_pattern() {
        let patterns = ["blocks.#", "stages.#.blocks.#"];
        for (name, expected) in [
            ("blocks.12.norm.weight", Some("blocks.12")),
            ("stages.1.blocks.0.gamma", Some("stages.1.blocks.0")),
            ("stages.1.downsample.0.weight", None),
            ("blocks.norm", None),
            ("blocks.", None),
            ("my_blocks.0.weight", None),
        ] {
            assert_eq!(block_of(name, &patterns), expected, "{name}");
        }
    }
}
