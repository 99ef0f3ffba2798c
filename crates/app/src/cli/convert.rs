//! The command line of `convert`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

#[derive(Args)]
pub(crate) struct Convert {
    /// A published checkpoint (.pth, .pt, .safetensors, the folder of a Hugging Face or open_clip model, or its name in the hub cache, such as
    /// openai/clip-vit-base-patch32), or a checkpoint folder.
    pub(crate) input: PathBuf,
    /// A checkpoint folder to write, a .safetensors with the published names, or the folder that --to asks for.
    pub(crate) output: PathBuf,
    /// Write the folder of another system: hf-clip (transformers) or open-clip.
    #[arg(long, help_heading = "Output")]
    pub(crate) to: Option<String>,
    /// How the weights are stored: bf16 takes half the space (matrices and kernels lose all but 8 significant bits).
    #[arg(long, value_enum, default_value_t = WeightArg::F32, conflicts_with = "to", help_heading = "Output")]
    pub(crate) dtype: WeightArg,
    /// The method that trained it, where the weights do not tell (hycoclip reads as meru).
    #[arg(long, help_heading = "What the file does not say")]
    pub(crate) method: Option<String>,
    /// Attention heads of the image encoder, which a published file does not tell (default: as published for its width).
    #[arg(long, help_heading = "What the file does not say")]
    pub(crate) image_heads: Option<usize>,
    /// Attention heads of the text encoder.
    #[arg(long, help_heading = "What the file does not say")]
    pub(crate) text_heads: Option<usize>,
    /// Non-linearity of the feed-forward layers, where no config beside the weights tells (default: gelu).
    #[arg(long, help_heading = "What the file does not say")]
    pub(crate) activation: Option<Activation>,
    /// The CLIP merges or tokenizer.json to put beside the weights.
    #[arg(long, help_heading = "What the file does not say")]
    pub(crate) tokenizer: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum WeightArg {
    /// As they are.
    F32,
    /// Rounded, half the size.
    Bf16,
}

impl From<WeightArg> for conifer_learn::checkpoint::Precision {
    fn from(it: WeightArg) -> Self {
        match it {
            WeightArg::F32 => Self::F32,
            WeightArg::Bf16 => Self::Bf16,
        }
    }
}

/// Names of the two non-linearities of CLIPs.
#[derive(Clone, Copy, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Activation {
    /// The exact one: the MERU family, LAION and most of open_clip.
    Gelu,
    /// OpenAI's.
    QuickGelu,
}

impl From<Activation> for conifer_learn::encoders::layers::Activation {
    fn from(activation: Activation) -> Self {
        match activation {
            Activation::Gelu => Self::Gelu,
            Activation::QuickGelu => Self::QuickGelu,
        }
    }
}
