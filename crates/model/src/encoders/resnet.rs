//! ResNet (He et al., CVPR 2016). The stride of a bottleneck is in its 3x3 convolution, as in torchvision's ResNet-50.

use burn::module::Module;
use burn::tensor::ops::MaxPoolOptions;
use burn::tensor::{Tensor, activation, module};
use serde::{Deserialize, Serialize};

use super::conv::{BatchNorm, Conv, pool};
use super::layers::Linear;
use super::{Encoder, ImageInputFormat, check_pixels, check_positive};
use crate::params::{Fill, Init};
use crate::{Error, Result};

/// Architecture of a [`ResNet`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResNetConfig {
    /// Side of the square photographs, in pixels.
    pub image_size: usize,
    /// Number of channels after the first convolution. Stage s (counted from 0) has 2^s times as many output channels,
    /// times 4 with bottlenecks.
    pub width: usize,
    /// Number of channels of the 3x3 convolutions of the first stage; each stage doubles it. Equal to `width` with
    /// basic blocks.
    pub bottleneck: usize,
    /// Number of blocks in each of the four stages.
    pub blocks: [usize; 4],
    /// Widths of a perceptron on the pooled features, with ReLU between its layers; empty: no perceptron. Contrastive
    /// pre-training adds one (MoCo v2: 2048, 128), which is removed afterwards.
    #[serde(default)]
    pub head: Vec<usize>,
    /// Kind of all blocks.
    #[serde(default)]
    pub block: ResNetBlockKind,
}

/// The two blocks of a [`ResNet`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResNetBlockKind {
    /// Two 3x3 convolutions: ResNet-18 and ResNet-34.
    Basic,
    /// A 3x3 convolution between two 1x1 convolutions: ResNet-50 and larger.
    #[default]
    Bottleneck,
}

impl ResNetBlockKind {
    /// Ratio of the output channels of a stage to the width of that stage.
    fn expansion(self) -> usize {
        match self {
            Self::Basic => 1,
            Self::Bottleneck => 4,
        }
    }
}

impl ResNet {
    /// The architecture of this network.
    pub fn config(&self) -> &ResNetConfig {
        &self.config
    }
}

impl ResNetConfig {
    const fn new(image_size: usize, width: usize, blocks: [usize; 4]) -> Self {
        Self { image_size, width, bottleneck: width, blocks, head: Vec::new(), block: ResNetBlockKind::Bottleneck }
    }

    const fn basic(image_size: usize, width: usize, blocks: [usize; 4]) -> Self {
        let mut it = Self::new(image_size, width, blocks);
        it.block = ResNetBlockKind::Basic;
        it
    }

    /// Number of channels of the pooled features.
    pub fn pooled(&self) -> usize {
        self.block.expansion() * (self.width << 3)
    }

    fn check(&self) -> Result<()> {
        let sizes = [("image_size", self.image_size), ("width", self.width), ("bottleneck", self.bottleneck)];
        check_positive("visual", &sizes)?;
        let lists = self.blocks.iter().map(|&blocks| ("blocks", blocks));
        let lists: Vec<_> = lists.chain(self.head.iter().map(|&width| ("head", width))).collect();
        check_positive("visual", &lists)?;
        if self.block == ResNetBlockKind::Basic && self.bottleneck != self.width {
            let expected = format!("width = {}, because basic blocks have no bottleneck", self.width);
            return Err(Error::invalid("visual.bottleneck", self.bottleneck, expected));
        }
        Ok(())
    }
}

/// Added to variances (PyTorch's default, which torchvision keeps).
const BATCH_NORM_EPSILON: f64 = 1e-5;

/// 7x7 convolution with stride 2, batch norm, ReLU, 3x3 maximum with stride 2, four stages of blocks, mean over all
/// positions, [`ResNetConfig::head`].
///
/// A bottleneck is `relu(x + bn3(conv3(relu(bn2(conv2(relu(bn1(conv1(x)))))))))`, a basic block `relu(x +
/// bn2(conv2(relu(bn1(conv1(x))))))`. The first block of a stage halves the sides except in the first stage. Where a
/// block changes the sides or the number of channels, it has `bn(conv(x))` instead of `x`. Parameters and their names
/// are those of torchvision. Statistics of the batch norms are not updated ([`BatchNorm`]): this network is for
/// pretrained weights, not for training from scratch.
#[derive(Module, Debug)]
pub struct ResNet {
    conv1: Conv,
    bn1: BatchNorm,
    layer1: Vec<ResidualBlock>,
    layer2: Vec<ResidualBlock>,
    layer3: Vec<ResidualBlock>,
    layer4: Vec<ResidualBlock>,
    fc: Vec<Linear>,
    #[module(skip)]
    config: ResNetConfig,
}

#[derive(Module, Debug)]
struct ResidualBlock {
    conv1: Conv,
    bn1: BatchNorm,
    conv2: Conv,
    bn2: BatchNorm,
    conv3: Option<Conv>,
    bn3: Option<BatchNorm>,
    downsample: Option<(Conv, BatchNorm)>,
}

impl Encoder for ResNet {
    type Config = ResNetConfig;
    type Input = Tensor<4>;
    type Reads = ImageInputFormat;

    const PRESETS: &'static [(&'static str, ResNetConfig)] = &[
        ("resnet18", ResNetConfig::basic(224, 64, [2, 2, 2, 2])),
        ("resnet34", ResNetConfig::basic(224, 64, [3, 4, 6, 3])),
        ("resnet50", ResNetConfig::new(224, 64, [3, 4, 6, 3])),
        ("resnet101", ResNetConfig::new(224, 64, [3, 4, 23, 3])),
        ("resnet_nano", ResNetConfig::new(64, 8, [1, 2, 1, 1])),
        ("resnet_basic_nano", ResNetConfig::basic(64, 16, [1, 2, 1, 1])),
    ];
    const BLOCKS: &'static [&'static str] = &["layer1.#", "layer2.#", "layer3.#", "layer4.#"];

    fn new(config: &ResNetConfig, init: &mut Init) -> Result<Self> {
        config.check()?;
        let width = config.width;
        let mut stage = |s: usize| {
            let expanded = config.block.expansion() * width;
            let from = if s == 0 { width } else { expanded << (s - 1) };
            ResidualBlock::stage(init, config, s, from, expanded << s)
        };
        let [layer1, layer2, layer3, layer4] = [0, 1, 2, 3].map(&mut stage);
        let widths: Vec<usize> = [config.pooled()].iter().chain(&config.head).copied().collect();
        let linear = |pair: &[usize]| {
            let bound = Fill::Uniform((pair[0] as f64).powf(-0.5));
            Linear::new(init, pair[0], pair[1], bound, bound)
        };
        let fc = widths.windows(2).map(linear).collect();
        Ok(Self {
            conv1: Conv::new(init, 3, width, 7),
            bn1: BatchNorm::new(init, width),
            layer1,
            layer2,
            layer3,
            layer4,
            fc,
            config: config.clone(),
        })
    }

    fn reads(config: &ResNetConfig) -> ImageInputFormat {
        ImageInputFormat { image_size: config.image_size }
    }

    fn width(&self) -> usize {
        self.config.head.last().copied().unwrap_or(self.config.pooled())
    }

    /// Maps normalised pixels `[B, 3, H, W]` to the pooled features, or to the last layer of the head, `[B, width]`.
    fn forward(&self, pixels: Tensor<4>) -> Result<Tensor<2>> {
        check_pixels(&pixels, self.config.image_size)?;
        let x = activation::relu(self.bn1.forward(self.conv1.forward(pixels, 2, (3, 3)), BATCH_NORM_EPSILON));
        let halved = MaxPoolOptions { stride: [2; 2], padding: [(1, 1); 2], ..MaxPoolOptions::new([3; 2]) };
        let mut x = module::max_pool2d(x, halved);
        for (s, stage) in [&self.layer1, &self.layer2, &self.layer3, &self.layer4].into_iter().enumerate() {
            for (index, block) in stage.iter().enumerate() {
                x = block.forward(x, if s > 0 && index == 0 { 2 } else { 1 });
            }
        }
        let mut x = pool(x);
        for (index, linear) in self.fc.iter().enumerate() {
            x = linear.forward(if index == 0 { x } else { activation::relu(x) });
        }
        Ok(x)
    }
}

impl ResNet {
    /// The same encoder for square photos with sides of `image_size` pixels. No parameter depends on the size.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a size that the architecture cannot read.
    pub(crate) fn with_image_size(mut self, image_size: usize) -> Result<Self> {
        self.config.image_size = image_size;
        self.config.check()?;
        Ok(self)
    }
}

impl ResidualBlock {
    fn stage(init: &mut Init, config: &ResNetConfig, s: usize, from: usize, to: usize) -> Vec<Self> {
        let inner = config.bottleneck << s;
        let is_bottleneck = config.block == ResNetBlockKind::Bottleneck;
        let mut block = |from: usize, first: bool| {
            let changed = first && (s > 0 || from != to);
            Self {
                conv1: Conv::new(init, from, inner, if is_bottleneck { 1 } else { 3 }),
                bn1: BatchNorm::new(init, inner),
                conv2: Conv::new(init, inner, inner, 3),
                bn2: BatchNorm::new(init, inner),
                conv3: is_bottleneck.then(|| Conv::new(init, inner, to, 1)),
                bn3: is_bottleneck.then(|| BatchNorm::new(init, to)),
                downsample: changed.then(|| (Conv::new(init, from, to, 1), BatchNorm::new(init, to))),
            }
        };
        (0..config.blocks[s]).map(|index| if index == 0 { block(from, true) } else { block(to, false) }).collect()
    }

    fn forward(&self, x: Tensor<4>, stride: usize) -> Tensor<4> {
        let norm = |norm: &BatchNorm, x| norm.forward(x, BATCH_NORM_EPSILON);
        let inner = match (&self.conv3, &self.bn3) {
            (Some(conv3), Some(bn3)) => {
                let inner = activation::relu(norm(&self.bn1, self.conv1.forward(x.clone(), 1, (0, 0))));
                let inner = activation::relu(norm(&self.bn2, self.conv2.forward(inner, stride, (1, 1))));
                norm(bn3, conv3.forward(inner, 1, (0, 0)))
            }
            _ => {
                let inner = activation::relu(norm(&self.bn1, self.conv1.forward(x.clone(), stride, (1, 1))));
                norm(&self.bn2, self.conv2.forward(inner, 1, (1, 1)))
            }
        };
        let x = match &self.downsample {
            Some((conv, bn)) => norm(bn, conv.forward(x, stride, (0, 0))),
            None => x,
        };
        activation::relu(x + inner)
    }
}
