//! MoCo v2 (He et al., CVPR 2020; Chen et al., 2020): a ResNet trained on photographs alone. Its tensors are
//! `module.encoder_q.*` in the `state_dict` of a trainer's checkpoint, with a two-layer head. The momentum encoder
//! (`encoder_k`) and the queue are ignored.
//!
//! A MoCo checkpoint has no text encoder. [`images`] loads its image encoder, and `model.visual.init` starts a run with
//! it. [`published::import`](super::published::import) makes a model of it that embeds photographs.

use std::path::Path;

use burn::tensor::Device;

use super::layout::{TensorMapping, gather};
use super::state_dict::StateDict;
use super::towers::{ImageTower, TowerFormat, TowerReader};
use super::{ImageFeed, weights};
use crate::Result;
use crate::encoders::{Encoder, ResNet, ResNetBlockKind, ResNetConfig, VisualConfig, VisualEncoder};
use crate::model::PixelStatistics;
use crate::params::Init;

/// The layout of the checkpoint.
pub(super) const TOWER: TowerFormat = TowerFormat {
    name: "moco",
    summary: "the ResNet of MoCo v2",
    weights: "github.com/facebookresearch/moco (CC-BY-NC 4.0): moco_v2_800ep_pretrain.pth.tar",
    marks: &[QUERY],
    read: TowerReader::Image(|stored, request| {
        let encoder = read(stored, request.image_size, false, request.device)?;
        Ok(ImageTower {
            config: VisualConfig::ResNet(encoder.config().clone()),
            encoder: VisualEncoder::ResNet(encoder),
            pixels: PixelStatistics::default(),
            images: ImageFeed::default(),
        })
    }),
};

const QUERY: &str = "encoder_q.";

/// Loads the image encoder of a MoCo checkpoint onto `device`, with or without its pre-training head. `image_size` is
/// the side of the photographs, which the tensors do not determine (published: 224).
///
/// # Errors
/// [`Error::Io`](crate::Error::Io) if the file cannot be read; [`Error::Format`](crate::Error::Format) for a file that
/// is not such a checkpoint; [`Error::Weights`](crate::Error::Weights) listing every tensor that is missing,
/// unexpected, of another shape or not finite.
pub fn images(path: &Path, image_size: usize, with_head: bool, device: &Device) -> Result<ResNet> {
    read(StateDict::read(path)?, image_size, with_head, device)
}

fn read(mut stored: StateDict, image_size: usize, with_head: bool, device: &Device) -> Result<ResNet> {
    let path = stored.path.clone();
    // Drop the momentum encoder (an average of the same network over time) and the queue of its outputs.
    stored.weights.retain(|name, _| name.starts_with(QUERY));
    let config = architecture(&stored, image_size, with_head)?;
    if !with_head {
        stored.weights.retain(|name, _| !name.starts_with("encoder_q.fc."));
    }
    let mut init = Init::blank_for(&stored.weights, device);
    let blank = ResNet::new(&config, &mut init)?;
    init.check().map_err(super::in_file(&path))?;
    let weights = gather(weights::shapes_of(&blank), stored.weights, mapping, &path)?;
    weights::import_module(blank, weights, &path)
}

fn architecture(stored: &StateDict, image_size: usize, with_head: bool) -> Result<ResNetConfig> {
    let [width, ..] = stored.dims::<4>("encoder_q.conv1.weight")?;
    let [bottleneck, ..] = stored.dims::<4>("encoder_q.layer1.0.conv1.weight")?;
    let blocks = [1, 2, 3, 4].map(|stage| stored.depth(&format!("encoder_q.layer{stage}.")));
    let head = match with_head {
        true => ["encoder_q.fc.0.weight", "encoder_q.fc.2.weight"]
            .into_iter()
            .map(|name| stored.dims::<2>(name).map(|[out, _]| out))
            .collect::<Result<_>>()?,
        false => Vec::new(),
    };
    Ok(ResNetConfig { image_size, width, bottleneck, blocks, head, block: ResNetBlockKind::Bottleneck })
}

/// torchvision's names below `encoder_q`. `fc.1` becomes `fc.2`, because the ReLU between the two layers has an index
/// too.
fn mapping(name: &str) -> TensorMapping {
    let name = name.strip_prefix("fc.1.").map_or(name.to_owned(), |leaf| format!("fc.2.{leaf}"));
    TensorMapping::Same(format!("{QUERY}{name}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use burn::tensor::Tensor;

    use super::super::clip_tests::{ClipGolden, golden};
    use super::super::published::{self, ImportOptions};
    use super::*;
    use crate::model::PixelStatistics;

    #[test]
    fn moco_reproduces_its_features_and_its_head() {
        let Some(folder) = golden("moco_v2_resnet") else { return };
        let path = folder.join("checkpoint.pth.tar");
        let io = ClipGolden::read(&folder);
        let pixels = io.pixels(PixelStatistics { mean: [0.0; 3], std: [1.0; 3] });
        for device in [Device::flex(), Device::flex().autodiff()] {
            for (with_head, output, width) in [(false, "out.pooled", 2048), (true, "out.fc", 32)] {
                let encoder = images(&path, 64, with_head, &device).unwrap();
                assert_eq!(encoder.width(), width);
                let found: Tensor<2> = encoder.forward(pixels.clone()).unwrap();
                let error = io.error(output, found);
                eprintln!("moco_v2_resnet {output}: relative error {error:.1e}");
                assert!(error < 1e-5, "{output} is off by {error:e}");
            }
        }
        let (model, manifest) = published::import(&path, &ImportOptions::default(), &Device::flex()).unwrap();
        let space = conifer_geometry::ManifoldSpec::sphere(2048);
        assert_eq!((model.head.spec(), manifest.images), (space, ImageFeed::default()));
    }
}
