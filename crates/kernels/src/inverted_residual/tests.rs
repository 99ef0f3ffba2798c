//! Tests against a direct implementation in `f64`.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;
use crate::testkit::random;

/// Feature maps of one image: `[channels, side, side]`.
struct Maps {
    numbers: Vec<f64>,
    channels: usize,
    side: usize,
}

/// A direct convolution with any number of groups.
fn convolve(x: &Maps, conv: &FoldedConv, groups: usize, stride: usize, padding: ConvPadding) -> Maps {
    let (kernel, per_group) = (conv.kernel, conv.inputs / groups);
    let side = x.side.div_ceil(stride);
    let zeros_before = match padding {
        ConvPadding::Same => {
            let total = ((side - 1) * stride + kernel) as i64 - x.side as i64;
            total.max(0) / 2
        }
        ConvPadding::Symmetric => (kernel as i64 - 1) / 2,
    };
    let mut numbers = Vec::new();
    for output in 0..conv.outputs {
        let group = output / (conv.outputs / groups);
        for (row, column) in (0..side).flat_map(|row| (0..side).map(move |column| (row, column))) {
            let mut sum = f64::from(conv.bias[output]);
            for input in 0..per_group {
                for (i, j) in (0..kernel).flat_map(|i| (0..kernel).map(move |j| (i, j))) {
                    let y = (row * stride + i) as i64 - zeros_before;
                    let x_at = (column * stride + j) as i64 - zeros_before;
                    let inside = 0..x.side as i64;
                    if inside.contains(&y) && inside.contains(&x_at) {
                        let channel = group * per_group + input;
                        let weight = conv.weight[((output * per_group + input) * kernel + i) * kernel + j];
                        let at = (channel * x.side + y as usize) * x.side + x_at as usize;
                        sum += f64::from(weight) * x.numbers[at];
                    }
                }
            }
            numbers.push(sum);
        }
    }
    Maps { numbers, channels: conv.outputs, side }
}

fn bounded(mut x: Maps) -> Maps {
    x.numbers.iter_mut().for_each(|v| *v = v.clamp(0.0, 6.0));
    x
}

/// A network in plain arrays.
struct TestNet {
    stem: FoldedConv,
    blocks: Vec<InvertedResidual>,
    head: FoldedConv,
    padding: ConvPadding,
}

/// A block of a test network.
#[derive(Clone, Copy)]
struct BlockSpec {
    /// Expanded channels; 0 for no expansion.
    expanded: usize,
    outputs: usize,
    kernel: usize,
    stride: usize,
}

const fn block(expanded: usize, outputs: usize, kernel: usize, stride: usize) -> BlockSpec {
    BlockSpec { expanded, outputs, kernel, stride }
}

/// Random weights, scaled by `4 / sqrt(fan-in)` so that ReLU6 clips some outputs at 0 and some at 6.
fn conv([inputs, outputs]: [usize; 2], kernel: usize, groups: usize, seed: u64) -> FoldedConv {
    let terms = inputs / groups * kernel * kernel;
    let scale = 4.0 / (terms as f32).sqrt();
    let weight = random(outputs * terms, seed).iter().map(|v| v * scale).collect();
    FoldedConv { weight, bias: random(outputs, seed + 1000), inputs, outputs, kernel }
}

impl TestNet {
    /// `stem` is `[input channels, output channels, kernel]`. Blocks that keep the shape are residual.
    fn new(stem: [usize; 3], specs: &[BlockSpec], width: usize, padding: ConvPadding) -> Self {
        let [inputs, mut channels, kernel] = stem;
        let mut blocks = Vec::new();
        for (i, spec) in specs.iter().enumerate() {
            let seed = 10 * i as u64 + 20;
            let expand = (spec.expanded > 0).then(|| conv([channels, spec.expanded], 1, 1, seed));
            let wide = expand.as_ref().map_or(channels, |expand| expand.outputs);
            blocks.push(InvertedResidual {
                expand,
                depthwise: conv([wide, wide], spec.kernel, wide, seed + 1),
                project: conv([wide, spec.outputs], 1, 1, seed + 2),
                stride: spec.stride,
                residual: spec.stride == 1 && spec.outputs == channels,
            });
            channels = spec.outputs;
        }
        let head = conv([channels, width], 1, 1, 2);
        Self { stem: conv([inputs, stem[1]], kernel, 1, 1), blocks, head, padding }
    }

    fn packed(&self) -> InvertedResidualNet {
        InvertedResidualNet::new(&self.stem, &self.blocks, &self.head, self.padding)
    }

    /// The oracle, for one image.
    fn features(&self, pixels: &[f32], size: usize) -> Vec<f64> {
        let numbers = pixels.iter().map(|&v| f64::from(v)).collect();
        let image = Maps { numbers, channels: self.stem.inputs, side: size };
        let mut x = bounded(convolve(&image, &self.stem, 1, 2, self.padding));
        for block in &self.blocks {
            let wide = block.expand.as_ref().map(|expand| bounded(convolve(&x, expand, 1, 1, self.padding)));
            let wide = wide.as_ref().unwrap_or(&x);
            let filtered = bounded(convolve(wide, &block.depthwise, wide.channels, block.stride, self.padding));
            let mut out = convolve(&filtered, &block.project, 1, 1, self.padding);
            if block.residual {
                out.numbers.iter_mut().zip(&x.numbers).for_each(|(out, x)| *out += x);
            }
            x = out;
        }
        let head = bounded(convolve(&x, &self.head, 1, 1, self.padding));
        let positions = head.side * head.side;
        head.numbers.chunks(positions).map(|plane| plane.iter().sum::<f64>() / positions as f64).collect()
    }

    /// Compares a batch with the oracle.
    fn check(&self, size: usize, batch: usize) {
        let image = self.stem.inputs * size * size;
        let pixels: Vec<f32> = random(batch * image, 3).iter().map(|v| 2.0 * v).collect();
        let found = self.packed().forward(&pixels, batch, size);
        let expected: Vec<f64> = pixels.chunks(image).flat_map(|pixels| self.features(pixels, size)).collect();
        assert_eq!(found.len(), expected.len());
        let square = |v: f64| v * v;
        let difference: f64 = found.iter().zip(&expected).map(|(&f, e)| square(f64::from(f) - e)).sum();
        let length: f64 = expected.iter().map(|&e| square(e)).sum();
        assert!(length > 0.0, "the features are zero");
        let error = (difference / length).sqrt();
        assert!(error < 1e-5, "size {size}, batch {batch}: relative error {error:e}");
    }
}

/// Blocks with kernel sizes 3, 5 and 7 and strides 1 and 2, with and without expansion and residual sum. Most numbers
/// of channels are not multiples of 16.
const MIXED: [BlockSpec; 6] = [
    block(0, 10, 3, 1),
    block(40, 10, 5, 1),
    block(33, 24, 5, 2),
    block(100, 24, 3, 1),
    block(50, 16, 3, 2),
    block(32, 7, 7, 1),
];

#[test]
fn agrees_with_the_definition() {
    let net = TestNet::new([3, 20, 3], &MIXED, 37, ConvPadding::Same);
    for (size, batch) in [(28, 5), (27, 1), (18, 9), (1, 2), (2, 1), (5, 3), (57, 2)] {
        net.check(size, batch);
    }
}

#[test]
fn agrees_with_symmetric_padding() {
    let net = TestNet::new([3, 20, 3], &MIXED, 37, ConvPadding::Symmetric);
    for (size, batch) in [(28, 2), (27, 1), (50, 1)] {
        net.check(size, batch);
    }
}

#[test]
fn agrees_with_other_stems() {
    for kernel in [2, 4, 5, 7] {
        TestNet::new([1, 5, kernel], &[block(8, 5, 3, 2)], 16, ConvPadding::Same).check(19, 2);
    }
    TestNet::new([4, 48, 3], &[], 5, ConvPadding::Same).check(12, 2);
    TestNet::new([2, 6, 3], &[block(0, 6, 2, 2), block(20, 6, 4, 1), block(0, 6, 1, 1)], 5, ConvPadding::Same)
        .check(30, 2);
}

/// The budget divides large stages into strips and into chunks of channels; both must be tested.
#[test]
fn agrees_in_strips_and_chunks() {
    let specs = [block(0, 12, 5, 1), block(250, 12, 5, 1), block(90, 12, 3, 2), block(160, 12, 5, 1)];
    let net = TestNet::new([3, 40, 3], &specs, 20, ConvPadding::Same);
    for (size, batch) in [(88, 1), (77, 2)] {
        let plan = net.packed().plan(size);
        let expanded = |i: usize| [3, 16, 6, 10][i];
        assert!(plan.iter().any(|it| it.rows < it.output), "no strips: {plan:?}");
        assert!(plan.iter().enumerate().any(|(i, it)| it.blocks < expanded(i)), "no chunks: {plan:?}");
        net.check(size, batch);
    }
    // In this network, several images are computed together, in chunks.
    let net = TestNet::new([3, 40, 3], &[block(150, 40, 5, 1)], 20, ConvPadding::Same);
    let plan = net.packed().plan(40);
    assert!(plan[0].images > 1 && plan[0].blocks < 10, "{plan:?}");
    net.check(40, 3);
}

/// A stem that copies the upper left pixel of each window: TensorFlow puts no zeros before the first row of an even
/// side, so these are the pixels with even coordinates. Symmetric padding moves the windows by one pixel.
#[test]
fn padding_is_after_the_last_row() {
    let mut stem = FoldedConv { weight: vec![0.0; 9], bias: vec![0.0], inputs: 1, outputs: 1, kernel: 3 };
    stem.weight[0] = 1.0;
    let head = FoldedConv { weight: vec![1.0], bias: vec![0.0], inputs: 1, outputs: 1, kernel: 1 };
    let pixels: Vec<f32> = (0..16).map(|i| i as f32 / 4.0).collect();
    let mean = |padding| InvertedResidualNet::new(&stem, &[], &head, padding).forward(&pixels, 1, 4);
    assert_eq!(mean(ConvPadding::Same), [(0.0 + 2.0 + 8.0 + 10.0) / 16.0]);
    assert_eq!(mean(ConvPadding::Symmetric), [5.0 / 16.0]);
    // Now test the depthwise convolution with stride 2, after a stem that copies the middle pixel of each window.
    stem.weight = vec![0.0; 9];
    stem.weight[4] = 1.0;
    let mut depthwise = FoldedConv { weight: vec![0.0; 9], ..stem.clone() };
    depthwise.weight[0] = 1.0;
    let block = InvertedResidual { expand: None, depthwise, project: head.clone(), stride: 2, residual: false };
    let pixels: Vec<f32> = (0..64).map(|i| i as f32 / 16.0).collect();
    let found = InvertedResidualNet::new(&stem, &[block], &head, ConvPadding::Same).forward(&pixels, 1, 8);
    // The stem keeps pixels (1, 1), (1, 3), ...; the block keeps every second of them.
    assert_eq!(found, [(9.0 + 13.0 + 41.0 + 45.0) / 64.0]);
}

#[test]
fn bits_depend_neither_on_threads_nor_on_the_batch() {
    let net = TestNet::new([3, 20, 3], &MIXED, 37, ConvPadding::Same).packed();
    let (size, batch) = (58, 11);
    let pixels = random(batch * 3 * size * size, 4);
    let alone: Vec<f32> = pixels.chunks(3 * size * size).flat_map(|pixels| net.forward(pixels, 1, size)).collect();
    for threads in [1, 2, 3, 8] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let found = pool.map(|pool| pool.install(|| net.forward(&pixels, batch, size)));
        assert!(found.is_ok_and(|found| found == alone), "{threads} threads");
    }
    // The buffers of a larger image must not change the result of a smaller one.
    let small = random(3 * 20 * 20, 5);
    let fresh = TestNet::new([3, 20, 3], &MIXED, 37, ConvPadding::Same).packed();
    assert_eq!(net.forward(&small, 1, 20), fresh.forward(&small, 1, 20));
    assert!(net.forward(&[], 0, size).is_empty());
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[test]
fn nan_stays_in_its_image() {
    let net = TestNet::new([3, 20, 3], &MIXED, 37, ConvPadding::Same).packed();
    let (size, batch) = (30, 3);
    let mut pixels = random(batch * 3 * size * size, 6);
    let before = net.forward(&pixels, batch, size);
    pixels[3 * size * size + 5 * size + 7] = f32::NAN;
    let after = net.forward(&pixels, batch, size);
    assert!(after[37..74].iter().all(|v| v.is_nan()));
    assert!(before[..37] == after[..37] && before[74..] == after[74..]);
    // The buffers hold NaN now, which must not reach the next result.
    pixels[3 * size * size + 5 * size + 7] = 0.5;
    assert!(net.forward(&pixels, batch, size).iter().all(|v| v.is_finite()));
}

#[test]
fn wrong_shapes_are_rejected() {
    let net = || TestNet::new([3, 8, 3], &[block(20, 8, 3, 1), block(20, 10, 3, 2)], 6, ConvPadding::Same);
    let attempts: [fn(&mut TestNet); 10] = [
        |net| _ = net.stem.weight.pop(),
        |net| _ = net.stem.bias.pop(),
        |net| net.head.inputs = 11,
        |net| net.head.kernel = 3,
        |net| net.blocks[1].residual = true,
        |net| net.blocks[0].stride = 4,
        |net| net.blocks[0].stride = 0,
        |net| net.blocks[0].expand = None,
        |net| _ = net.blocks[0].depthwise.weight.pop(),
        |net| net.blocks.swap(0, 1),
    ];
    for (i, attempt) in attempts.into_iter().enumerate() {
        let mut net = net();
        attempt(&mut net);
        assert!(catch_unwind(AssertUnwindSafe(|| net.packed())).is_err(), "attempt {i}");
    }
    let net = net().packed();
    assert!(catch_unwind(AssertUnwindSafe(|| net.forward(&[0.0; 3], 1, 2))).is_err());
    assert!(catch_unwind(AssertUnwindSafe(|| net.forward(&[], 1, 0))).is_err());
    // With this side, the number of pixels overflows to 0.
    assert!(catch_unwind(AssertUnwindSafe(|| net.forward(&[], 1, 1 << (usize::BITS / 2)))).is_err());
}
