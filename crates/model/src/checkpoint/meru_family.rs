//! The MERU family (MERU, HyCoCLIP, PHyCLIP, UNCHA and their CLIP): `.pth` files written by its trainer, and the same
//! state dict as safetensors.
//!
//! **Inferred values.** Sizes come from the tensor shapes. No tensor stores the number of heads: it is 12 for widths
//! 384 and 768 and 16 for 1024 in the image tower, and width / 64 in the text tower, as published; other widths need
//! [`ImportOptions`]. Per-factor curvatures (`curvs.i`) indicate PHyCLIP, a single `curv` indicates MERU or HyCoCLIP
//! (whose tensors are the same), and no curvature indicates CLIP. Three temperatures indicate UNCHA.

use std::path::Path;

use burn::tensor::Device;
use conifer_geometry::{ManifoldKind, ManifoldSpec};

use super::published::{CheckpointFormat, ImportOptions, no_rule};
use super::state_dict::StateDict;
use super::{Precision, in_file, weights};
use crate::checkpoint::{Manifest, TextFeed};
use crate::encoders::{TextTransformerConfig, TextualConfig, VisualConfig, VitConfig};
use crate::head::{Head, HeadConfig, SOFTMAXES};
use crate::model::{Model, ModelConfig, PixelStatistics};
use crate::params::Init;
use crate::{Error, Result};

pub(super) const FORMAT: CheckpointFormat = CheckpointFormat {
    name: "meru",
    summary: "the MERU family's state dict",
    files: &[],
    marks: &["visual.pos_embed", "visual.blocks."],
    import,
    export: None,
};

fn import(stored: StateDict, options: &ImportOptions, device: &Device) -> Result<(Model, Manifest)> {
    let shapes = MeruShapes(&stored);
    let config = ModelConfig {
        visual: VisualConfig::Vit(shapes.vit(options.visual_heads)?),
        textual: TextualConfig::TextTransformer(shapes.text_transformer(options)?),
        pixels: PixelStatistics { mean: shapes.channels("pixel_mean")?, std: shapes.channels("pixel_std")? },
        visual_adapter: None,
        textual_adapter: None,
        visual_lora: None,
        textual_lora: None,
    };
    let (space, method) = shapes.space(options)?;
    let mut head_config = HeadConfig { reference: true, ..HeadConfig::default() };
    if shapes.has_three_temperatures() {
        head_config.temperatures = vec![head_config.temperature; SOFTMAXES.len()];
    }
    let [vocabulary, _] = stored.dims("textual.token_embed.weight")?;
    let texts =
        TextFeed { tokenizer: None, end_of_text: options.end_of_text.unwrap_or((vocabulary - 1) as u32), padding: 0 };
    let head = Head::new(&space, &head_config, device)?;
    let mut init = Init::blank_for(&stored.weights, device);
    let model = Model::new(&config, head, &mut init).map_err(in_file(&stored.path))?;
    let model = weights::import(model, stored.weights, &stored.path)?;
    let mut manifest = Manifest::new(&model, &head_config, options.method.as_deref().unwrap_or(method), texts);
    manifest.root = stored.root;
    Ok((model, manifest))
}

/// Writes the state dict of `model` as safetensors: the published names and layout, with every buffer that PyTorch's
/// strict loading requires.
pub(super) fn export(model: &Model, path: &Path, precision: Precision) -> Result<()> {
    let kind = model.head.spec().kind;
    if !PUBLISHED_SPACES.contains(&kind) {
        let expected = format!(
            "one of {}, the spaces of the published format (use the checkpoint folder instead)",
            PUBLISHED_SPACES.each_ref().map(ManifoldKind::name).join(", ")
        );
        return Err(Error::invalid("manifold.kind", kind, expected));
    }
    weights::save_as(&weights::export(model), precision, path)
}

/// The spaces that the tensors of a MERU-family state dict can represent.
const PUBLISHED_SPACES: [ManifoldKind; 4] =
    [ManifoldKind::Sphere, ManifoldKind::Lorentz, ManifoldKind::ProductL1, ManifoldKind::ProductL2];

/// Reads the architecture from the tensor shapes.
struct MeruShapes<'a>(&'a StateDict);

impl MeruShapes<'_> {
    fn vit(&self, heads: Option<usize>) -> Result<VitConfig> {
        let [_, tokens, width] = self.0.dims("visual.pos_embed")?;
        let [_, _, _, patch] = self.0.dims("visual.patch_embed.proj.weight")?;
        let grid = self.0.grid("visual.pos_embed", tokens)?;
        let rule = match width {
            384 | 768 => Some(12),
            1024 => Some(16),
            _ => None,
        };
        Ok(VitConfig {
            image_size: grid * patch,
            patch,
            width,
            depth: self.0.depth("visual.blocks."),
            heads: heads.or(rule).ok_or_else(|| no_rule("visual", width, "384, 768 or 1024"))?,
        })
    }

    fn text_transformer(&self, options: &ImportOptions) -> Result<TextTransformerConfig> {
        let [vocabulary, width] = self.0.dims("textual.token_embed.weight")?;
        let [context, _] = self.0.dims("textual.posit_embed")?;
        let rule = width.is_multiple_of(64).then_some(width / 64);
        Ok(TextTransformerConfig {
            vocabulary,
            context,
            width,
            depth: self.0.depth("textual.resblocks."),
            heads: options.textual_heads.or(rule).ok_or_else(|| no_rule("textual", width, "a multiple of 64"))?,
            mlp_ratio: 4.0,
            activation: options.activation,
        })
    }

    fn has_three_temperatures(&self) -> bool {
        self.0.weights.contains_key(SOFTMAXES[0])
    }

    fn channels(&self, name: &str) -> Result<[f32; 3]> {
        match self.0.get(name)?.floats() {
            Some(&[r, g, b]) => Ok([r, g, b]),
            _ => {
                let shape = &self.0.get(name)?.shape;
                Err(Error::format(&self.0.path, format!("`{name}` is {shape:?}; expected [3, 1, 1]")))
            }
        }
    }

    /// The space and the method, inferred from the scalars.
    fn space(&self, options: &ImportOptions) -> Result<(ManifoldSpec, &'static str)> {
        let [dim, _] = self.0.dims("visual_proj.weight")?;
        let factors = self.0.depth("curvs.");
        if factors > 0 {
            let kind = options.product.as_deref().unwrap_or("product_l1");
            let space = ManifoldSpec { kind: kind.into(), dim, factors, curv: Vec::new() };
            return Ok((space, "phyclip"));
        }
        let (kind, method) = match self.0.weights.contains_key("curv") {
            true if self.has_three_temperatures() => (ManifoldKind::Lorentz, "uncha"),
            true => (ManifoldKind::Lorentz, "meru"),
            false => (ManifoldKind::Sphere, "clip"),
        };
        let space = ManifoldSpec { kind, dim, factors: 1, curv: Vec::new() };
        Ok((space, method))
    }
}
