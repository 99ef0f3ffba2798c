//! Tests against a direct implementation in `f64`.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;
use crate::testkit::random;

/// An encoder in plain arrays.
struct TestEncoder {
    input_norm: NormWeights,
    layers: Vec<PostNormLayer>,
    width: usize,
    heads: usize,
}

const EPSILON: f64 = 1e-5;

/// Random weights whose sums are of order 1.
fn map(inputs: usize, outputs: usize, seed: u64) -> AffineWeights {
    let scale = 1.5 / (inputs as f32).sqrt();
    let weight = random(inputs * outputs, seed).iter().map(|v| v * scale).collect();
    AffineWeights { weight, bias: random(outputs, seed + 1000) }
}

fn norm(width: usize, seed: u64) -> NormWeights {
    NormWeights { gain: random(width, seed).iter().map(|v| 1.0 + 0.5 * v).collect(), bias: random(width, seed + 1) }
}

impl TestEncoder {
    fn new([width, heads, hidden, depth]: [usize; 4]) -> Self {
        let layer = |i: u64| PostNormLayer {
            qkv: map(width, 3 * width, 10 * i + 30),
            output: map(width, width, 10 * i + 31),
            attention_norm: norm(width, 10 * i + 32),
            up: map(width, hidden, 10 * i + 34),
            down: map(hidden, width, 10 * i + 35),
            output_norm: norm(width, 10 * i + 36),
        };
        Self { input_norm: norm(width, 1), layers: (0..depth as u64).map(layer).collect(), width, heads }
    }

    fn packed(&self) -> PostNormEncoder {
        PostNormEncoder::new(&self.input_norm, &self.layers, self.heads, EPSILON)
    }

    /// Some texts and their rows.
    fn rows(&self, lengths: &[usize], seed: u64) -> Vec<f32> {
        random(lengths.iter().sum::<usize>() * self.width, seed).iter().map(|v| 2.0 * v).collect()
    }

    /// The oracle, for one text.
    fn features(&self, rows: &[f32], pooling: RowPooling) -> Vec<f64> {
        let width = self.width;
        let mut x: Vec<Vec<f64>> = rows.chunks(width).map(|row| normalise(&to_f64(row), &self.input_norm)).collect();
        for layer in &self.layers {
            let qkv: Vec<_> = x.iter().map(|row| apply(row, &layer.qkv)).collect();
            let columns = width / self.heads;
            let context = |i: usize| -> Vec<f64> {
                let mut context = vec![0.0; width];
                for head in 0..self.heads {
                    let at = |row: usize, part: usize| &qkv[row][part * width + head * columns..][..columns];
                    let score = |j: usize| -> f64 {
                        let dot: f64 = at(i, 0).iter().zip(at(j, 1)).map(|(a, b)| a * b).sum();
                        (dot / (columns as f64).sqrt()).exp()
                    };
                    let total: f64 = (0..x.len()).map(score).sum();
                    for j in 0..x.len() {
                        let weight = score(j) / total;
                        for (to, value) in context[head * columns..].iter_mut().zip(at(j, 2)) {
                            *to += weight * value;
                        }
                    }
                }
                context
            };
            let contexts: Vec<_> = (0..x.len()).map(context).collect();
            for (row, context) in x.iter_mut().zip(&contexts) {
                *row = normalise(&add(row, &apply(context, &layer.output)), &layer.attention_norm);
                let mut hidden = apply(row, &layer.up);
                hidden.iter_mut().for_each(|v| *v = gelu(*v));
                *row = normalise(&add(row, &apply(&hidden, &layer.down)), &layer.output_norm);
            }
        }
        let column = |c: usize| -> f64 {
            let column = x.iter().map(|row| row[c]);
            match pooling {
                RowPooling::First => x[0][c],
                RowPooling::Mean => column.sum::<f64>() / x.len() as f64,
                RowPooling::Max => column.fold(f64::NEG_INFINITY, f64::max),
            }
        };
        (0..width).map(column).collect()
    }

    /// Compares a batch with the oracle.
    fn check(&self, lengths: &[usize], pooling: RowPooling) {
        let rows = self.rows(lengths, 3);
        let found = self.packed().forward(&rows, lengths, pooling);
        let mut first = 0;
        for (i, &length) in lengths.iter().enumerate() {
            let expected = self.features(&rows[first * self.width..][..length * self.width], pooling);
            first += length;
            let found = &found[i * self.width..][..self.width];
            let square = |v: f64| v * v;
            let difference: f64 = found.iter().zip(&expected).map(|(&f, e)| square(f64::from(f) - e)).sum();
            let size: f64 = expected.iter().map(|&e| square(e)).sum();
            assert!(size > 0.0, "the features are zero");
            let error = (difference / size).sqrt();
            assert!(error < 1e-5, "text {i} of {length} tokens, {pooling:?}: relative error {error:e}");
        }
    }
}

fn to_f64(row: &[f32]) -> Vec<f64> {
    row.iter().map(|&v| f64::from(v)).collect()
}

fn add(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a + b).collect()
}

fn apply(row: &[f64], map: &AffineWeights) -> Vec<f64> {
    let outputs = map.bias.len();
    let sum = |o: usize| row.iter().enumerate().map(|(i, x)| x * f64::from(map.weight[i * outputs + o])).sum::<f64>();
    (0..outputs).map(|o| f64::from(map.bias[o]) + sum(o)).collect()
}

fn normalise(row: &[f64], norm: &NormWeights) -> Vec<f64> {
    let mean = row.iter().sum::<f64>() / row.len() as f64;
    let variance = row.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / row.len() as f64;
    let unit = row.iter().map(|x| (x - mean) / (variance + EPSILON).sqrt());
    unit.zip(norm.gain.iter().zip(&norm.bias)).map(|(x, (&g, &b))| x * f64::from(g) + f64::from(b)).collect()
}

/// `x Phi(x)`, with the integral of the density by Simpson's rule in 2,000 intervals (error below 1e-12 for
/// `|x| < 12`).
fn gelu(x: f64) -> f64 {
    let (n, h) = (2000, x / 2000.0);
    let density = |i: i32| (-0.5 * (f64::from(i) * h).powi(2)).exp() / (2.0 * std::f64::consts::PI).sqrt();
    let inner: f64 = (1..n).map(|i| f64::from(2 + 2 * (i % 2)) * density(i)).sum();
    x * (0.5 + h / 3.0 * (density(0) + inner + density(n)))
}

#[test]
fn agrees_with_the_definition() {
    // Widths and heads that fill their lines, and others; 12 channels per head are padded to 16.
    let plain = TestEncoder::new([64, 2, 96, 2]);
    let ragged = TestEncoder::new([36, 3, 50, 3]);
    for pooling in [RowPooling::First, RowPooling::Mean, RowPooling::Max] {
        plain.check(&[5, 1, 16, 17, 3, 33, 2], pooling);
        ragged.check(&[4, 9, 1, 30], pooling);
    }
    TestEncoder::new([7, 1, 3, 1]).check(&[6, 2], RowPooling::Mean);
    TestEncoder::new([48, 1, 16, 0]).check(&[3], RowPooling::Mean);
}

/// More tokens than a strip of the feed-forward part.
#[test]
fn agrees_for_long_texts() {
    TestEncoder::new([32, 2, 24, 2]).check(&[250, 3, 112, 113], RowPooling::Mean);
}

#[test]
fn bits_depend_neither_on_threads_nor_on_the_batch() {
    let encoder = TestEncoder::new([36, 3, 50, 2]);
    let net = encoder.packed();
    let lengths: Vec<usize> = (0..60).map(|i| 1 + i * 7 % 23).chain([130]).collect();
    let rows = encoder.rows(&lengths, 4);
    let mut alone = Vec::new();
    let mut first = 0;
    for &length in &lengths {
        alone.extend(net.forward(&rows[first * 36..][..length * 36], &[length], RowPooling::Mean));
        first += length;
    }
    for threads in [1, 2, 3, 8] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let found = pool.map(|pool| pool.install(|| net.forward(&rows, &lengths, RowPooling::Mean)));
        assert!(found.is_ok_and(|found| found == alone), "{threads} threads");
    }
    assert!(net.forward(&[], &[], RowPooling::Mean).is_empty());
}

#[test]
fn nan_stays_in_its_text() {
    let encoder = TestEncoder::new([36, 3, 50, 2]);
    let (net, lengths) = (encoder.packed(), [3, 5, 4]);
    let mut rows = encoder.rows(&lengths, 5);
    let before = net.forward(&rows, &lengths, RowPooling::Mean);
    rows[4 * 36 + 2] = f32::NAN;
    let after = net.forward(&rows, &lengths, RowPooling::Mean);
    assert!(after[36..72].iter().all(|v| v.is_nan()));
    assert!(before[..36] == after[..36] && before[72..] == after[72..]);
    // The buffers hold NaN now, which must not reach the next result.
    rows[4 * 36 + 2] = 0.5;
    assert!(net.forward(&rows, &lengths, RowPooling::Mean).iter().all(|v| v.is_finite()));
}

#[test]
fn wrong_shapes_are_rejected() {
    let attempts: [fn(&mut TestEncoder); 8] = [
        |it| it.heads = 5,
        |it| it.heads = 0,
        |it| _ = it.input_norm.bias.pop(),
        |it| _ = it.layers[1].qkv.weight.pop(),
        |it| _ = it.layers[0].output.bias.pop(),
        |it| _ = it.layers[0].up.bias.pop(),
        |it| _ = it.layers[1].down.weight.pop(),
        |it| _ = it.layers[1].output_norm.gain.pop(),
    ];
    for (i, attempt) in attempts.into_iter().enumerate() {
        let mut encoder = TestEncoder::new([12, 2, 8, 2]);
        attempt(&mut encoder);
        assert!(catch_unwind(AssertUnwindSafe(|| encoder.packed())).is_err(), "attempt {i}");
    }
    let net = TestEncoder::new([12, 2, 8, 1]).packed();
    for (rows, lengths) in [(24, vec![3]), (24, vec![2, 0]), (23, vec![2])] {
        let rows = vec![0.5; rows];
        assert!(catch_unwind(AssertUnwindSafe(|| net.forward(&rows, &lengths, RowPooling::Max))).is_err());
    }
}
