//! Reads one tower, an image or a text encoder, with the preprocessing of its inputs: pixel statistics and crop, or a
//! tokenizer.
//!
//! [`TOWER_FORMATS`] lists the layouts; a file is recognised by its tensor names. To add a layout, add a file to this
//! folder and an entry to the table. [`open_image`] and [`open_text`] also take the tower of a whole model: a conifer
//! checkpoint, or a layout of [`FORMATS`](super::published::FORMATS).

pub(super) mod assembly;
mod efficientnet_lite;
mod hf_dinov2;
mod hf_dinov3;
mod hf_siglip;
pub(super) mod hf_t5;
mod hf_vit;
mod image_model;
mod positions;
mod preprocessing;
#[cfg(test)]
mod registry_tests;
mod sentence_modules;
mod sentence_transformers;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod text_tests;
mod timm_convnext;
mod timm_vit;
mod torchvision_resnet;

use std::fs;
use std::path::{Path, PathBuf};

use burn::tensor::Device;
use conifer_data::tokenizer::Tokenizer;

use super::published::{self, ImportOptions};
use super::state_dict::StateDict;
use super::{ImageFeed, TOKENIZER, hub, moco};
use crate::encoders::{TextualConfig, TextualEncoder, VisualConfig, VisualEncoder};
use crate::head::Tower;
use crate::model::PixelStatistics;
use crate::{Error, Result};

pub(super) use image_model::{image_format, image_model};

/// An image encoder, ready to run.
#[derive(Debug)]
pub struct ImageTower {
    /// The encoder with its weights.
    pub encoder: VisualEncoder,
    /// Its architecture.
    pub config: VisualConfig,
    /// Normalisation of the pixels.
    pub pixels: PixelStatistics,
    /// Preprocessing of photographs.
    pub images: ImageFeed,
}

impl ImageTower {
    /// The same tower for square photos with sides of `image_size` pixels. Convolutional encoders read any size, with the
    /// same weights; features of larger photos than those of the training keep more detail and take more time.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an encoder that reads a fixed size, and for a size that the architecture cannot read.
    pub fn with_image_size(self, image_size: usize) -> Result<Self> {
        let encoder = match self.encoder {
            VisualEncoder::EfficientNet(it) => VisualEncoder::EfficientNet(it.with_image_size(image_size)?),
            VisualEncoder::ResNet(it) => VisualEncoder::ResNet(it.with_image_size(image_size)?),
            VisualEncoder::ConvNext(it) => VisualEncoder::ConvNext(it.with_image_size(image_size)?),
            _ => {
                let own = self.config.reads().image_size;
                let expected = format!(
                    "no value (this encoder reads {own} x {own} pixels); only efficientnet, resnet and convnext read \
                     photos of another size"
                );
                return Err(Error::invalid("model.visual.image_size", image_size, expected));
            }
        };
        let config = self.config.with("image_size", image_size as i64)?;
        Ok(Self { encoder, config, ..self })
    }
}

/// A text encoder, ready to run.
#[derive(Debug)]
pub struct TextTower {
    /// The encoder with its weights.
    pub encoder: TextualEncoder,
    /// Architecture of the encoder.
    pub config: TextualConfig,
    /// Tokenizer of the encoder.
    pub tokenizer: Tokenizer,
}

/// A text encoder without its tokenizer.
#[derive(Debug)]
pub(super) struct TextEncoderFile {
    /// The encoder with its weights.
    pub(super) encoder: TextualEncoder,
    /// Its architecture.
    pub(super) config: TextualConfig,
    /// Id that ends every text, if the files name it.
    pub(super) end_of_text: Option<u32>,
}

/// A layout of files that hold one tower.
#[derive(Debug)]
pub struct TowerFormat {
    /// Name of the layout.
    pub name: &'static str,
    /// One-line description for listings.
    pub summary: &'static str,
    /// Where to get weights: packages and names on the hub, with their licences.
    pub weights: &'static str,
    /// Prefixes of tensor names that identify files of this layout.
    pub(super) marks: &'static [&'static str],
    pub(super) read: TowerReader,
}

/// The reader of a layout.
#[derive(Clone, Copy, Debug)]
pub(super) enum TowerReader {
    Image(fn(StateDict, &TowerRequest<'_>) -> Result<ImageTower>),
    /// [`open_text`] adds the tokenizer.
    Text(fn(StateDict, &TowerRequest<'_>) -> Result<TextEncoderFile>),
}

/// Location and settings for reading a tower.
#[derive(Debug)]
pub(super) struct TowerRequest<'a> {
    /// The folder of the weights file, which may hold configs.
    pub(super) folder: &'a Path,
    /// Side of the photographs, for networks whose tensors do not determine it.
    pub(super) image_size: usize,
    pub(super) device: &'a Device,
}

impl TowerFormat {
    /// The tower that files of this layout hold.
    pub fn tower(&self) -> Tower {
        match self.read {
            TowerReader::Image(_) => Tower::Image,
            TowerReader::Text(_) => Tower::Text,
        }
    }

    /// Reads the image encoder in `stored`, a file of this layout.
    ///
    /// # Errors
    /// [`Error::Format`] for a layout of text encoders; the errors of the layout's reader.
    pub(super) fn read_image(&self, stored: StateDict, image_size: usize, device: &Device) -> Result<ImageTower> {
        let TowerReader::Image(read) = self.read else {
            return Err(wrong_tower(&stored.path, self, "an image encoder"));
        };
        let folder = stored.path.parent().unwrap_or(Path::new("")).to_owned();
        read(stored, &TowerRequest { folder: &folder, image_size, device })
    }
}

/// All layouts of single towers.
pub const TOWER_FORMATS: &[TowerFormat] = &[
    efficientnet_lite::LUKEMELAS,
    efficientnet_lite::TIMM,
    TowerFormat {
        name: "resnet",
        summary: "ResNet-18 to ResNet-152 of torchvision and timm",
        weights: "torchvision's ResNet*_Weights (BSD-3); hub: timm/resnet18.a1_in1k, timm/resnet50.a1_in1k (Apache-2.0)",
        marks: torchvision_resnet::MARKS,
        read: TowerReader::Image(|stored, it| torchvision_resnet::read(stored, it.folder, it.device)),
    },
    TowerFormat {
        name: "timm-vit",
        summary: "vision transformers of timm: AugReg, MAE, DINO, DINOv2",
        weights: "hub: timm/vit_small_patch16_224.augreg_in21k, timm/vit_small_patch16_224.dino (Apache-2.0), \
                  timm/vit_base_patch16_224.mae (CC-BY-NC 4.0)",
        marks: timm_vit::MARKS,
        read: TowerReader::Image(|stored, it| timm_vit::read(stored, it.folder, it.device)),
    },
    TowerFormat {
        name: "timm-convnext",
        summary: "ConvNeXt of timm",
        weights: "hub: timm/convnext_tiny.in12k_ft_in1k, timm/convnext_base.fb_in22k (Apache-2.0)",
        marks: timm_convnext::MARKS,
        read: TowerReader::Image(|stored, it| timm_convnext::read(stored, it.folder, it.device)),
    },
    TowerFormat {
        name: "hf-vit",
        summary: "ViT, DINO and MAE of transformers",
        weights: "hub: google/vit-base-patch16-224-in21k, facebook/dino-vits16, facebook/vit-mae-base (Apache-2.0)",
        marks: hf_vit::MARKS,
        read: TowerReader::Image(|stored, it| hf_vit::read(stored, it.folder, it.device)),
    },
    TowerFormat {
        name: "hf-dinov2",
        summary: "DINOv2 of transformers, with or without registers",
        weights: "hub: facebook/dinov2-small, facebook/dinov2-with-registers-base (Apache-2.0)",
        marks: hf_dinov2::MARKS,
        read: TowerReader::Image(|stored, it| hf_dinov2::read(stored, it.folder, it.device)),
    },
    TowerFormat {
        name: "hf-dinov3",
        summary: "DINOv3 ViT of transformers",
        weights: "hub: facebook/dinov3-vits16-pretrain-lvd1689m (DINOv3 licence, access on request)",
        marks: hf_dinov3::MARKS,
        read: TowerReader::Image(|stored, it| hf_dinov3::read(stored, it.folder, it.device)),
    },
    TowerFormat {
        name: "siglip-images",
        summary: "the image tower of SigLIP and SigLIP 2",
        weights: "hub: google/siglip-base-patch16-224, google/siglip2-base-patch16-224 (Apache-2.0)",
        marks: hf_siglip::IMAGE_MARKS,
        read: TowerReader::Image(|stored, it| hf_siglip::read(stored, it.folder, it.device)),
    },
    TowerFormat {
        name: "siglip-texts",
        summary: "the text tower of SigLIP and SigLIP 2",
        weights: "hub: google/siglip-base-patch16-224, google/siglip2-base-patch16-224 (Apache-2.0)",
        marks: hf_siglip::TEXT_MARKS,
        read: TowerReader::Text(|stored, it| hf_siglip::read_texts(stored, it.folder, it.device)),
    },
    sentence_transformers::FORMAT,
    hf_t5::FORMAT,
    moco::TOWER,
];

/// Opens the image encoder that `reference` names: a file, a folder, a model on the hub ([`hub::locate`]), or a
/// checkpoint of a whole model. `image_size` is the side of the photographs for networks whose files do not determine
/// it (MoCo's).
///
/// # Errors
/// [`Error::Format`] for a file without a known image encoder; [`Error::Weights`] listing every tensor that is missing,
/// unexpected, of another shape or not finite; the errors of [`hub::locate`].
pub fn open_image(reference: &Path, image_size: usize, device: &Device) -> Result<ImageTower> {
    let path = hub::locate(reference)?;
    if let Some((stored, format)) = single_tower(&path, Tower::Image)? {
        return format.read_image(stored, image_size, device);
    }
    let opened = super::open(&path, &ImportOptions::default(), device)?;
    let model = opened.model;
    Ok(ImageTower {
        config: model.config().visual.clone(),
        pixels: model.config().pixels,
        images: opened.manifest.images,
        encoder: model.visual,
    })
}

/// Opens the text encoder that `reference` names, with its tokenizer; see [`open_image`].
///
/// # Errors
/// The errors of [`open_image`]; [`Error::Invalid`] if there is no `tokenizer.json`; [`Error::Format`] if the tokenizer
/// has more ids than the encoder, or another end-of-text id.
pub fn open_text(reference: &Path, device: &Device) -> Result<TextTower> {
    let path = hub::locate(reference)?;
    if let Some((stored, format)) = single_tower(&path, Tower::Text)? {
        let TowerReader::Text(read) = format.read else {
            return Err(wrong_tower(&stored.path, format, "a text encoder"));
        };
        let file = stored.path.clone();
        let folder = file.parent().unwrap_or(Path::new("")).to_owned();
        let tokenizer = published::tokenizer_beside(&folder)?.ok_or_else(|| {
            let found = format!("no {TOKENIZER} in {}", folder.display());
            Error::invalid("model.textual.init", found, "a folder with weights and a tokenizer")
        })?;
        let TextEncoderFile { encoder, config, end_of_text } =
            read(stored, &TowerRequest { folder: &folder, image_size: 0, device })?;
        if let Some(end) = end_of_text.filter(|end| *end != tokenizer.end_of_text()) {
            let detail = format!("ends texts with id {end}; expected {}, as its {TOKENIZER}", tokenizer.end_of_text());
            return Err(Error::format(file, detail));
        }
        let (ids, rows) = (tokenizer.vocab_size(), config.reads().vocabulary);
        if ids > rows {
            let detail = format!("has a vocabulary of {rows}; expected at least {ids}, the ids of its {TOKENIZER}");
            return Err(Error::format(file, detail));
        }
        return Ok(TextTower { encoder, config, tokenizer });
    }
    let opened = super::open(&path, &ImportOptions::default(), device)?;
    let tokenizer = opened.need_tokenizer()?;
    Ok(TextTower { config: opened.model.config().textual.clone(), encoder: opened.model.textual, tokenizer })
}

fn wrong_tower(path: &Path, format: &TowerFormat, expected: &str) -> Error {
    Error::format(path, format!("holds {} ({}); expected {expected}", format.summary, format.name))
}

/// The weights of a single tower with their layout; `None` if `path` is a whole model. A file that holds both towers
/// (SigLIP's) has the layout of the requested one.
fn single_tower(path: &Path, tower: Tower) -> Result<Option<(StateDict, &'static TowerFormat)>> {
    if path.join(super::MANIFEST).is_file() || super::run_folder::latest_checkpoint(path).is_ok() {
        return Ok(None);
    }
    let stored = StateDict::read(&weights_file(path)?)?;
    let found: Vec<_> = TOWER_FORMATS.iter().filter(|format| stored.has(format.marks)).collect();
    if let Some(format) = found.iter().find(|format| format.tower() == tower).or(found.first()) {
        return Ok(Some((stored, format)));
    }
    if published::FORMATS.iter().any(|format| stored.has(format.marks)) {
        return Ok(None);
    }
    let marks: Vec<_> =
        TOWER_FORMATS.iter().map(|it| format!("`{}...` ({})", it.marks.join("...` or `"), it.name)).collect();
    let detail = format!("has no known layout; expected tensors named {}, or a whole model", marks.join(", "));
    Err(Error::format(&stored.path, detail))
}

/// The weights file: `path` itself, or the weights in the folder `path` under their usual name, or its only weights
/// file.
fn weights_file(path: &Path) -> Result<PathBuf> {
    if !path.is_dir() {
        return Ok(path.to_owned());
    }
    let usual = ["model.safetensors", "pytorch_model.bin", "open_clip_model.safetensors"];
    if let Some(file) = usual.iter().map(|name| path.join(name)).find(|file| file.is_file()) {
        return Ok(file);
    }
    let is_weights = |path: &PathBuf| {
        let extension = path.extension().and_then(|it| it.to_str());
        path.is_file() && extension.is_some_and(|it| ["safetensors", "pth", "pt", "bin", "tar"].contains(&it))
    };
    let files = fs::read_dir(path).map_err(Error::io(path))?.filter_map(|entry| Some(entry.ok()?.path()));
    let files: Vec<PathBuf> = files.filter(is_weights).collect();
    match files.as_slice() {
        [file] => Ok(file.clone()),
        files => {
            let detail = format!(
                "holds {} weights files; expected {}, or exactly one .pth, .pt or .safetensors",
                files.len(),
                usual.join(" or ")
            );
            Err(Error::format(path, detail))
        }
    }
}
