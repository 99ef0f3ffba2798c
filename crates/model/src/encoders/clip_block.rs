//! The block of CLIP's two transformers: [`TransformerBlock`] with CLIP's parameter names.

use burn::module::Module;
use burn::tensor::{Bool, Int, Tensor};

use super::block::{BlockSettings, TransformerBlock};
use super::layers::{LayerNorm, Linear};
use crate::params::{Bias, Fill, Init, LinearWeight};
use crate::{Error, Result};

/// One pre-norm block. `attn.in_proj_weight` holds query, key and value stacked vertically.
#[derive(Module, Debug)]
pub(super) struct ClipBlock {
    attn: ClipAttention,
    ln_1: LayerNorm,
    mlp: ClipMlp,
    ln_2: LayerNorm,
}

#[derive(Module, Debug)]
struct ClipAttention {
    in_proj_weight: LinearWeight,
    in_proj_bias: Bias,
    out_proj: Linear,
}

#[derive(Module, Debug)]
struct ClipMlp {
    c_fc: Linear,
    c_proj: Linear,
}

/// Initial values of the linear maps of a block, weight and bias each. Attention biases start at 0.
#[derive(Clone, Copy)]
pub(super) struct BlockFills {
    pub(super) in_proj: Fill,
    pub(super) out_proj: Fill,
    pub(super) c_fc: [Fill; 2],
    pub(super) c_proj: [Fill; 2],
}

impl ClipBlock {
    pub(super) fn new(init: &mut Init, width: usize, hidden: usize, fills: BlockFills) -> Self {
        let zero = Fill::Constant(0.0);
        Self {
            attn: ClipAttention {
                in_proj_weight: init.matrix(width, 3 * width, fills.in_proj),
                in_proj_bias: init.bias(3 * width, zero),
                out_proj: Linear::new(init, width, width, fills.out_proj, zero),
            },
            ln_1: LayerNorm::new(init, width),
            mlp: ClipMlp {
                c_fc: Linear::new(init, width, hidden, fills.c_fc[0], fills.c_fc[1]),
                c_proj: Linear::new(init, hidden, width, fills.c_proj[0], fills.c_proj[1]),
            },
            ln_2: LayerNorm::new(init, width),
        }
    }

    fn parts(&self) -> TransformerBlock<'_> {
        TransformerBlock {
            norm1: &self.ln_1,
            qkv_weight: &self.attn.in_proj_weight,
            qkv_bias: &self.attn.in_proj_bias,
            out: &self.attn.out_proj,
            scale1: None,
            norm2: &self.ln_2,
            up: &self.mlp.c_fc,
            down: &self.mlp.c_proj,
            scale2: None,
        }
    }
}

/// Runs all blocks on `[B*L, width]` and returns the `rows` `[B]` that are used afterwards, `[B, width]`. The last
/// block computes only those. `hidden` `[B, L]` is true for keys after the row.
pub(super) fn run(
    blocks: &[ClipBlock],
    mut x: Tensor<2>,
    rows: &Tensor<1, Int>,
    hidden: Option<&Tensor<2, Bool>>,
    settings: BlockSettings,
) -> Tensor<2> {
    let [batch] = rows.dims();
    for (index, block) in blocks.iter().enumerate() {
        let block = block.parts();
        x = if index + 1 < blocks.len() {
            block.forward(x, batch, settings)
        } else {
            block.forward_rows(x, rows.clone(), hidden.cloned(), settings)
        };
    }
    x
}

/// Width of the hidden layer: `mlp_ratio` times `width`, rounded.
pub(super) fn hidden_width(width: usize, mlp_ratio: f64) -> usize {
    (width as f64 * mlp_ratio).round() as usize
}

/// Default of `mlp_ratio`.
pub(super) fn four() -> f64 {
    4.0
}

pub(super) fn check_ratio(section: &str, width: usize, mlp_ratio: f64) -> Result<()> {
    // A ratio above 64 is a typo. NaN is in no range.
    if (0.0..=64.0).contains(&mlp_ratio) && hidden_width(width, mlp_ratio) > 0 {
        return Ok(());
    }
    Err(Error::invalid(format!("{section}.mlp_ratio"), mlp_ratio, "above 0, at most 64 (published: 4)"))
}
