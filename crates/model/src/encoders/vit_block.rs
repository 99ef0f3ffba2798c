//! The patch embedding and the block of timm's vision transformers, with their parameter names.

use burn::module::{Module, Param};
use burn::tensor::{Int, Tensor};

use super::block::{BlockSettings, TransformerBlock};
use super::layers::{LayerNorm, Linear, embed_patches};
use crate::params::{Bias, Fill, Init, NormParam};

/// Affine map of every patch.
#[derive(Module, Debug)]
pub(super) struct PatchEmbed {
    proj: PatchProjection,
}

/// Stored in the published layout of a convolution, `[width, 3, patch, patch]`; computed as one matrix product.
#[derive(Module, Debug)]
struct PatchProjection {
    weight: Param<Tensor<4>>,
    bias: Bias,
}

impl PatchEmbed {
    /// Weight and bias uniform in +-1/sqrt(inputs): PyTorch's default.
    pub(super) fn new(init: &mut Init, patch: usize, width: usize) -> Self {
        let bound = Fill::Uniform(((3 * patch * patch) as f64).powf(-0.5));
        let weight = init.param([width, 3, patch, patch], bound);
        Self { proj: PatchProjection { weight, bias: init.bias(width, bound) } }
    }

    /// `[B, 3, S, S] -> [B, patches, width]`.
    pub(super) fn forward(&self, pixels: Tensor<4>) -> Tensor<3> {
        embed_patches(pixels, self.proj.weight.val(), Some(self.proj.bias.value.val()))
    }
}

/// A pre-norm block. `attn.qkv` holds queries, keys and values side by side. `ls1` and `ls2` scale the channels of the
/// attention and the feed-forward output ("LayerScale", Touvron et al., ICCV 2021).
#[derive(Module, Debug)]
pub(super) struct VitBlock {
    norm1: LayerNorm,
    attn: VitAttention,
    ls1: Option<LayerScale>,
    norm2: LayerNorm,
    mlp: VitMlp,
    ls2: Option<LayerScale>,
}

#[derive(Module, Debug)]
struct VitAttention {
    qkv: Linear,
    proj: Linear,
}

/// The feed-forward part of a block.
#[derive(Module, Debug)]
pub(super) struct VitMlp {
    pub(super) fc1: Linear,
    pub(super) fc2: Linear,
}

#[derive(Module, Debug)]
struct LayerScale {
    gamma: NormParam,
}

/// Initial value of the LayerScale factors in DINOv2.
const INITIAL_SCALE: f32 = 1e-5;

impl VitBlock {
    /// Linear weights N(0, 0.02^2), biases 0 (timm's default initialisation of a ViT).
    pub(super) fn new(init: &mut Init, width: usize, hidden: usize, layer_scale: bool) -> Self {
        let attn = VitAttention { qkv: linear(init, width, 3 * width), proj: linear(init, width, width) };
        let mlp = VitMlp::new(init, width, hidden);
        let mut scale = || layer_scale.then(|| LayerScale { gamma: init.norm(width, INITIAL_SCALE) });
        let (ls1, ls2) = (scale(), scale());
        Self { norm1: LayerNorm::new(init, width), attn, ls1, norm2: LayerNorm::new(init, width), mlp, ls2 }
    }

    pub(super) fn parts(&self) -> TransformerBlock<'_> {
        TransformerBlock {
            norm1: &self.norm1,
            qkv_weight: &self.attn.qkv.weight,
            qkv_bias: &self.attn.qkv.bias,
            out: &self.attn.proj,
            scale1: self.ls1.as_ref().map(|scale| &scale.gamma),
            norm2: &self.norm2,
            up: &self.mlp.fc1,
            down: &self.mlp.fc2,
            scale2: self.ls2.as_ref().map(|scale| &scale.gamma),
        }
    }
}

impl VitMlp {
    pub(super) fn new(init: &mut Init, width: usize, hidden: usize) -> Self {
        Self { fc1: linear(init, width, hidden), fc2: linear(init, hidden, width) }
    }
}

/// Weights N(0, 0.02^2), bias 0.
pub(super) fn linear(init: &mut Init, width_in: usize, width_out: usize) -> Linear {
    Linear::new(init, width_in, width_out, Fill::Normal(0.02), Fill::Constant(0.0))
}

/// Runs all blocks on `[B*L, width]`.
pub(super) fn run(blocks: &[VitBlock], x: Tensor<2>, batch: usize, settings: BlockSettings) -> Tensor<2> {
    blocks.iter().fold(x, |x, block| block.parts().forward(x, batch, settings))
}

/// Like [`run`], but returns only `rows` `[B]`. The last block computes only those.
pub(super) fn run_rows(blocks: &[VitBlock], x: Tensor<2>, rows: Tensor<1, Int>, settings: BlockSettings) -> Tensor<2> {
    let [batch] = rows.dims();
    match blocks.split_last() {
        Some((last, first)) => last.parts().forward_rows(run(first, x, batch, settings), rows, None, settings),
        None => x.select(0, rows),
    }
}
