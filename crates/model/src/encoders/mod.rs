//! Encoders that map photographs and texts to features.
//!
//! [`ENCODERS`] lists every encoder. To add one, write a file with a config struct (serde, `deny_unknown_fields`), a
//! Burn module made of the leaves of [`params`](crate::params) and an [`Encoder`] implementation, and add an entry to
//! the table below. Configs, presets, checkpoints and the conformance tests use that entry.
//!
//! In a config an encoder is a table: a preset, a preset with changed values, or `kind` with all values. Unknown keys
//! are rejected.
//!
//! ```toml
//! visual = { preset = "vit_s16", image_size = 96 }
//! textual = { kind = "text_transformer", vocabulary = 600, context = 20, width = 64, depth = 3, heads = 4 }
//! ```

pub mod bert;
mod block;
mod clip_block;
pub mod clip_vit;
pub mod conv;
pub mod convnext;
pub mod efficientnet;
pub mod layers;
pub mod onnx;
pub mod pooling;
pub mod pretrained_vit;
mod registry;
pub(crate) mod relative;
pub mod resnet;
pub mod siglip_text;
pub mod t5;
pub mod text_transformer;
mod tokens;
pub mod vectors;
pub mod vit;
mod vit_block;

use burn::module::Module;
use burn::tensor::Tensor;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::head::Tower;
use crate::layer_ids::LayerIds;
use crate::lora::LoraConfig;
use crate::params::Init;
use crate::weight_array::WeightArray;
use crate::{Error, Result};
pub use bert::{Bert, BertConfig};
pub use clip_vit::{ClipVit, ClipVitConfig};
pub use convnext::{ConvNext, ConvNextConfig};
pub use efficientnet::{EfficientNet, EfficientNetConfig};
pub use onnx::{OnnxImageConfig, OnnxImageEncoder, OnnxTextConfig, OnnxTextEncoder, OnnxTextInputs, PixelLayout};
pub use pooling::TokenPooling;
pub use pretrained_vit::{PretrainedVit, PretrainedVitConfig, VitPooling, VitPositions};
use registry::encoders;
pub(crate) use relative::PUBLISHED_DISTANCE;
pub use resnet::{ResNet, ResNetBlockKind, ResNetConfig};
pub use siglip_text::{SiglipText, SiglipTextConfig};
pub use t5::{T5Config, T5Encoder};
pub use text_transformer::{TextTransformer, TextTransformerConfig};
pub use tokens::Tokens;
pub use vectors::{ImageVectorInput, TextVectorInput, VectorConfig};
pub use vit::{Vit, VitConfig};

encoders! {
    /// Architecture of an image encoder.
    VisualConfig,
    /// An image encoder: normalised pixels `[B, 3, H, W]` to features `[B, width]`.
    VisualEncoder,
    Tensor<4>, ImageInputFormat, Tower::Image, "visual", {
        "vit" => Vit(Vit, VitConfig): "vision transformer of the MERU family: fixed 2-D sin-cos positions, class token, exact GELU",
        "clip_vit" => ClipVit(ClipVit, ClipVitConfig): "vision transformer of CLIP: learned positions, norm before the first block",
        "resnet" => ResNet(ResNet, ResNetConfig): "residual network with basic blocks or bottlenecks, for pretrained weights: its batch norms do not learn",
        "pretrained_vit" => PretrainedVit(PretrainedVit, PretrainedVitConfig): "vision transformer of timm (AugReg, MAE, DINO), DINOv2, DINOv3 and SigLIP, for pretrained weights",
        "convnext" => ConvNext(ConvNext, ConvNextConfig): "ConvNeXt of timm",
        "efficientnet" => EfficientNet(EfficientNet, EfficientNetConfig): "EfficientNet, ALIGN's image encoder, for pretrained weights",
        "onnx" => Onnx(OnnxImageEncoder, OnnxImageConfig): "any image encoder exported as ONNX, always frozen; needs the ONNX Runtime library",
        "vectors" => Vectors(ImageVectorInput, VectorConfig): "no encoder: reads vectors of photos that another program computed (`data.kind = \"features\"`)",
    }
    /// Architecture of a text encoder.
    TextualConfig,
    /// A text encoder: token ids to features `[B, width]`.
    TextualEncoder,
    Tokens, TextInputFormat, Tower::Text, "textual", {
        "text_transformer" => TextTransformer(TextTransformer, TextTransformerConfig): "CLIP's causal transformer, pooled at the end of the text",
        "bert" => Bert(Bert, BertConfig): "BERT, RoBERTa, XLM-R and MPNet: the text encoder of ALIGN and of most sentence encoders",
        "siglip_text" => SiglipText(SiglipText, SiglipTextConfig): "text transformer of SigLIP, pooled at the last position of the padded text",
        "t5" => T5(T5Encoder, T5Config): "encoder of T5, Flan-T5, Sentence-T5 and GTR: relative positions, no biases",
        "onnx" => Onnx(OnnxTextEncoder, OnnxTextConfig): "any text encoder exported as ONNX, with its tokenizer, always frozen; needs the ONNX Runtime library",
        "vectors" => Vectors(TextVectorInput, VectorConfig): "no encoder: reads vectors of texts that another program computed (`data.kind = \"features\"`)",
    }
}

/// An encoder, as the command line lists it.
#[derive(Debug)]
pub struct EncoderEntry {
    /// Name of the encoder: `kind` in a config.
    pub name: &'static str,
    /// One-line description for listings.
    pub summary: &'static str,
    /// The kind of input that it reads.
    pub tower: Tower,
    /// Names of the presets of this encoder.
    pub presets: fn() -> Vec<&'static str>,
}

/// Input format of an image encoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageInputFormat {
    /// Side of the square photographs, in pixels.
    pub image_size: usize,
}

/// Input format of a text encoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextInputFormat {
    /// Longest sequence, in tokens.
    pub context: usize,
    /// Number of token ids.
    pub vocabulary: usize,
}

/// A tower: maps its input to features, one row per sample.
pub trait Encoder: Module {
    /// Config of the architecture.
    type Config: Clone + std::fmt::Debug + PartialEq + Serialize + DeserializeOwned + 'static;
    /// Input of the encoder.
    type Input;
    /// Format of the input.
    type Reads;
    /// Named architectures.
    const PRESETS: &'static [(&'static str, Self::Config)];
    /// Prefixes of the parameter names of the blocks, from input to output; each `#` stands for a number.
    const BLOCKS: &'static [&'static str] = &["blocks.#"];

    /// Builds an encoder with the published initialisation.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an impossible architecture; for an ONNX encoder also the errors of loading its file.
    fn new(config: &Self::Config, init: &mut Init) -> Result<Self>
    where
        Self: Sized;

    /// Input format of an encoder with this architecture.
    fn reads(config: &Self::Config) -> Self::Reads;

    /// Width of the features.
    fn width(&self) -> usize;

    /// Features `[B, width]`.
    ///
    /// # Errors
    /// [`Error::Shape`] if the shape of the input is wrong for the architecture; [`Error::Invalid`] for a tower that
    /// reads vectors; [`Error::Format`] if ONNX Runtime fails.
    fn forward(&self, input: Self::Input) -> Result<Tensor<2>>;

    /// Hash of everything besides the parameters that determines the features, for an encoder whose config does not
    /// identify it (the config of an ONNX encoder contains the path of a file). It replaces the config in the identity
    /// of the encoder. `None`: the config is used.
    fn digest(&self) -> Option<String> {
        None
    }

    /// Constant tensors that a published state dict holds besides the parameters, by name.
    fn buffers(&self) -> Vec<(&'static str, WeightArray)> {
        Vec::new()
    }
}

/// Parses the values of one encoder. Errors name the section.
fn read_config<C: DeserializeOwned>(section: &str, table: toml::Table) -> Result<C> {
    let shown = table.to_string().trim().replace('\n', ", ");
    C::deserialize(table).map_err(|error| {
        Error::invalid(section, format!("{{ {shown} }}"), format!("valid values of this encoder: {}", error.message()))
    })
}

fn unknown_encoder(tower: Tower, found: Option<&str>) -> Error {
    let known: Vec<&str> = ENCODERS.iter().filter(|entry| entry.tower == tower).map(|entry| entry.name).collect();
    Error::Unknown {
        kind: "encoder",
        name: found.unwrap_or("(no `kind` and no `preset`)").to_owned(),
        known: known.join(", "),
    }
}

fn unknown_preset(tower: Tower, found: &str) -> Error {
    let known: Vec<&str> =
        ENCODERS.iter().filter(|entry| entry.tower == tower).flat_map(|entry| (entry.presets)()).collect();
    Error::Unknown { kind: "encoder preset", name: found.to_owned(), known: known.join(", ") }
}

/// Upper limit of an architecture setting, far above every published tower. [`Init::check`] bounds the number of
/// parameters as well, but the number of blocks and the photo size also take memory for activations.
fn max_setting(name: &str) -> usize {
    match name {
        "image_size" => 4096,
        "depth" | "decoder_depth" | "blocks" | "repeats" => 1024,
        _ => 1 << 20,
    }
}

pub(crate) fn check_positive(section: &str, values: &[(&str, usize)]) -> Result<()> {
    match values.iter().find(|(name, value)| !(1..=max_setting(name)).contains(value)) {
        Some((name, value)) => {
            Err(Error::invalid(format!("{section}.{name}"), value, format!("1 to {}", max_setting(name))))
        }
        None => Ok(()),
    }
}

fn check_epsilon(section: &str, epsilon: f64) -> Result<()> {
    // NaN is in no range.
    match (1e-12..=1e-2).contains(&epsilon) {
        true => Ok(()),
        false => Err(Error::invalid(format!("{section}.epsilon"), epsilon, "1e-12 to 0.01")),
    }
}

/// Checks that `pixels` are `[B, 3, size, size]`, and returns B.
fn check_pixels(pixels: &Tensor<4>, size: usize) -> Result<usize> {
    let found = pixels.dims();
    match found {
        [batch, 3, height, width] if batch > 0 && height == size && width == size => Ok(batch),
        _ => Err(Error::Shape {
            name: "pixels".into(),
            found: found.to_vec(),
            expected: format!("[B, 3, {size}, {size}]"),
        }),
    }
}

#[cfg(test)]
mod tests;
