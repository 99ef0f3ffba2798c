//! Command-line arguments of `convert`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

#[derive(Args)]
pub(crate) struct ConvertArgs {
    /// A published checkpoint (.pth, .pt, .safetensors, the folder of a Hugging Face or open_clip model, or its name on
    /// the hub, such as openai/clip-vit-base-patch32), or a checkpoint folder.
    pub(crate) input: PathBuf,
    /// Checkpoint folder to write, or a .safetensors file with the published tensor names, or with --to a model folder.
    pub(crate) output: PathBuf,
    /// Write a model folder for another library: hf-clip (transformers) or open-clip.
    #[arg(long, help_heading = "Output")]
    pub(crate) to: Option<String>,
    /// Number format of the written weights; bf16 takes half the space and rounds matrices and kernels to 8 significant
    /// bits.
    #[arg(long, value_enum, default_value_t = WeightArg::F32, conflicts_with = "to", help_heading = "Output")]
    pub(crate) dtype: WeightArg,
    /// Method that trained the checkpoint, if the weights do not show it (a HyCoCLIP file is read as meru by default).
    #[arg(long, help_heading = "Settings missing from the file")]
    pub(crate) method: Option<String>,
    /// Number of attention heads of the image encoder (default: the published number for its width).
    #[arg(long, help_heading = "Settings missing from the file")]
    pub(crate) image_heads: Option<usize>,
    /// Number of attention heads of the text encoder.
    #[arg(long, help_heading = "Settings missing from the file")]
    pub(crate) text_heads: Option<usize>,
    /// Activation of the feed-forward layers, if no config beside the weights names it (default: gelu).
    #[arg(long, help_heading = "Settings missing from the file")]
    pub(crate) activation: Option<ActivationArg>,
    /// CLIP's merges file or a tokenizer.json to save with the weights.
    #[arg(long, help_heading = "Settings missing from the file")]
    pub(crate) tokenizer: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum WeightArg {
    /// 32-bit, unchanged.
    F32,
    /// 16-bit, rounded: half the size.
    Bf16,
}

impl From<WeightArg> for conifer_model::checkpoint::Precision {
    fn from(it: WeightArg) -> Self {
        match it {
            WeightArg::F32 => Self::F32,
            WeightArg::Bf16 => Self::Bf16,
        }
    }
}

/// The two activations that CLIP models use.
#[derive(Clone, Copy, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum ActivationArg {
    /// The exact GELU: the MERU family, LAION and most of open_clip.
    Gelu,
    /// OpenAI's sigmoid approximation of GELU.
    QuickGelu,
}

impl From<ActivationArg> for conifer_model::encoders::layers::ActivationFn {
    fn from(activation: ActivationArg) -> Self {
        match activation {
            ActivationArg::Gelu => Self::Gelu,
            ActivationArg::QuickGelu => Self::QuickGelu,
        }
    }
}
