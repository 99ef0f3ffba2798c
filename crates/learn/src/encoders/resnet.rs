//! ResNet with bottleneck blocks (He et al., CVPR 2016). The stride is in the 3x3 convolution, as in torchvision's
//! ResNet-50.

use burn::module::Module;
use burn::tensor::ops::MaxPoolOptions;
use burn::tensor::{Tensor, activation, module};
use serde::{Deserialize, Serialize};

use super::conv::{BatchNorm, Conv, pool};
use super::layers::Linear;
use super::{Encoder, ImageInputFormat, check_pixels, check_positive};
use crate::Result;
use crate::params::{Fill, Init};

/// Architecture of a [`ResNet`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResNetConfig {
    /// Side of the square photographs, in pixels.
    pub image_size: usize,
    /// Channels after the first convolution; stage s (from 0) ends with 4 x 2^s as many.
    pub width: usize,
    /// Channels of the 3x3 convolutions of the first stage; each stage doubles them.
    pub bottleneck: usize,
    /// Blocks of the four stages.
    pub blocks: [usize; 4],
    /// Widths of a perceptron on the pooled features, with ReLU between its layers; empty: no perceptron. Contrastive
    /// pre-training adds one (MoCo v2: 2048, 128), which is removed afterwards.
    #[serde(default)]
    pub head: Vec<usize>,
}

impl ResNet {
    /// The architecture of this network.
    pub fn config(&self) -> &ResNetConfig {
        &self.config
    }
}

impl ResNetConfig {
    const fn new(image_size: usize, width: usize, blocks: [usize; 4]) -> Self {
        Self { image_size, width, bottleneck: width, blocks, head: Vec::new() }
    }

    /// Channels of the pooled features.
    pub fn pooled(&self) -> usize {
        EXPANSION * (self.width << 3)
    }

    fn check(&self) -> Result<()> {
        let sizes = [("image_size", self.image_size), ("width", self.width), ("bottleneck", self.bottleneck)];
        check_positive("visual", &sizes)?;
        let lists = self.blocks.iter().map(|&blocks| ("blocks", blocks));
        let lists: Vec<_> = lists.chain(self.head.iter().map(|&width| ("head", width))).collect();
        check_positive("visual", &lists)
    }
}

/// Ratio of the output channels of a stage to the width of that stage.
const EXPANSION: usize = 4;

/// Added to variances (PyTorch's default, which torchvision keeps).
const BATCH_NORM_EPSILON: f64 = 1e-5;

/// 7x7 convolution with stride 2, 3x3 maximum with stride 2, four stages of bottleneck blocks, mean over all positions,
/// [`ResNetConfig::head`].
///
/// A block is `relu(x + bn3(conv3(relu(bn2(conv2(relu(bn1(conv1(x)))))))))`. The first block of a stage has
/// `bn(conv(x))` instead of `x`, and halves the sides except in the first stage. Parameters and their names are those
/// of torchvision. Statistics of the batch norms are not updated ([`BatchNorm`]): this network is for pretrained
/// weights, not for training from scratch.
#[derive(Module, Debug)]
pub struct ResNet {
    conv1: Conv,
    bn1: BatchNorm,
    layer1: Vec<Bottleneck>,
    layer2: Vec<Bottleneck>,
    layer3: Vec<Bottleneck>,
    layer4: Vec<Bottleneck>,
    fc: Vec<Linear>,
    #[module(skip)]
    config: ResNetConfig,
}

#[derive(Module, Debug)]
struct Bottleneck {
    conv1: Conv,
    bn1: BatchNorm,
    conv2: Conv,
    bn2: BatchNorm,
    conv3: Conv,
    bn3: BatchNorm,
    downsample: Option<(Conv, BatchNorm)>,
}

impl Encoder for ResNet {
    type Config = ResNetConfig;
    type Input = Tensor<4>;
    type Reads = ImageInputFormat;

    const PRESETS: &'static [(&'static str, ResNetConfig)] = &[
        ("resnet50", ResNetConfig::new(224, 64, [3, 4, 6, 3])),
        ("resnet_nano", ResNetConfig::new(64, 8, [1, 2, 1, 1])),
    ];

    fn new(config: &ResNetConfig, init: &mut Init) -> Result<Self> {
        config.check()?;
        let width = config.width;
        let mut stage = |s: usize| {
            let from = if s == 0 { width } else { (EXPANSION * width) << (s - 1) };
            Bottleneck::stage(init, from, config.bottleneck << s, (EXPANSION * width) << s, config.blocks[s])
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

impl Bottleneck {
    fn stage(init: &mut Init, from: usize, inner: usize, to: usize, blocks: usize) -> Vec<Self> {
        let mut block = |from: usize, first: bool| Self {
            conv1: Conv::new(init, from, inner, 1),
            bn1: BatchNorm::new(init, inner),
            conv2: Conv::new(init, inner, inner, 3),
            bn2: BatchNorm::new(init, inner),
            conv3: Conv::new(init, inner, to, 1),
            bn3: BatchNorm::new(init, to),
            downsample: first.then(|| (Conv::new(init, from, to, 1), BatchNorm::new(init, to))),
        };
        (0..blocks).map(|index| if index == 0 { block(from, true) } else { block(to, false) }).collect()
    }

    fn forward(&self, x: Tensor<4>, stride: usize) -> Tensor<4> {
        let norm = |norm: &BatchNorm, x| norm.forward(x, BATCH_NORM_EPSILON);
        let inner = activation::relu(norm(&self.bn1, self.conv1.forward(x.clone(), 1, (0, 0))));
        let inner = activation::relu(norm(&self.bn2, self.conv2.forward(inner, stride, (1, 1))));
        let inner = norm(&self.bn3, self.conv3.forward(inner, 1, (0, 0)));
        let x = match &self.downsample {
            Some((conv, bn)) => norm(bn, conv.forward(x, stride, (0, 0))),
            None => x,
        };
        activation::relu(x + inner)
    }
}
