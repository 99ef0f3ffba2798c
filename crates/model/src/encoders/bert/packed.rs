//! Inference on the CPU with packed weights and without padding.

use burn::tensor::{Int, Tensor, TensorData};
use conifer_kernels::{AffineWeights, NormWeights, PostNormEncoder, PostNormLayer, RowPooling, WeightStorage};

use super::{Bert, BertOutput, TokenPooling};
use crate::encoders::Tokens;
use crate::encoders::layers::{LayerNorm, Linear};

impl Bert {
    /// The pooled tokens of the last block, `[B, width]`, computed by [`PostNormEncoder`]. `None` unless the weights
    /// are `f32` on a CPU device without autodiff, and for MPNet, whose scores depend on the distance of two tokens.
    pub(super) fn pooled_without_padding(&self, tokens: &Tokens) -> Option<Tensor<2>> {
        if self.encoder.relative_attention_bias.is_some() {
            return None;
        }
        let mut weights = Vec::new();
        self.layer_weights(&mut weights)?;
        let embeddings = &self.embeddings;
        let words = embeddings.word_embeddings.weight.val();
        WeightStorage::of(&words)?;
        let net = self.packed.get_or_build(weights, || self.pack());

        let [batch, length] = tokens.ids.dims();
        let device = words.device();
        let ids: Vec<i32> = tokens.ids.clone().into_data().iter::<i32>().collect();
        let ends = tokens.end.clone().into_data();
        let lengths: Vec<usize> = ends.iter::<i64>().map(|end| (end.max(0) as usize + 1).min(length)).collect();
        let (mut kept, mut positions) = (Vec::new(), Vec::new());
        for (row, &count) in ids.chunks_exact(length).zip(&lengths) {
            kept.extend_from_slice(&row[..count]);
            positions.extend((0..count).map(|at| (at + self.config.first_position) as i32));
        }
        let index = |values: Vec<i32>| {
            let shape = [values.len()];
            Tensor::<1, Int>::from_data(TensorData::new(values, shape), &device)
        };
        let positions = embeddings.position_embeddings.weight.val().select(0, index(positions));
        let mut rows = words.select(0, index(kept)) + positions;
        if let Some(segments) = &embeddings.token_type_embeddings {
            rows = rows + segments.weight.val().narrow(0, 0, 1);
        }
        let pooling = match self.config.pooling {
            TokenPooling::First => RowPooling::First,
            TokenPooling::Mean => RowPooling::Mean,
            TokenPooling::Max => RowPooling::Max,
        };
        let pooled = net.forward(&numbers(rows), &lengths, pooling);
        Some(Tensor::from_data(TensorData::new(pooled, [batch, self.config.width]), &device))
    }

    /// Appends the storages of all packed weights to `into`; `None` if a weight has no [`WeightStorage`].
    fn layer_weights(&self, into: &mut Vec<WeightStorage>) -> Option<()> {
        let mut norm = |norm: &LayerNorm| {
            into.push(WeightStorage::of(&norm.weight.value.val())?);
            into.push(WeightStorage::of(&norm.bias.value.val())?);
            Some(())
        };
        norm(&self.embeddings.layer_norm)?;
        for layer in &self.encoder.layer {
            norm(&layer.attention.output.layer_norm)?;
            norm(&layer.output.layer_norm)?;
        }
        for layer in &self.encoder.layer {
            let maps = [&layer.attention.qkv, &layer.attention.output.dense, &layer.intermediate.dense];
            for map in maps.into_iter().chain([&layer.output.dense]) {
                into.push(WeightStorage::of(&map.weight.value.val())?);
                into.push(WeightStorage::of(&map.bias.value.val())?);
            }
        }
        Some(())
    }

    fn pack(&self) -> PostNormEncoder {
        let map = |map: &Linear| AffineWeights {
            weight: numbers(map.weight.value.val()),
            bias: numbers(map.bias.value.val()),
        };
        let norm = |norm: &LayerNorm| NormWeights {
            gain: numbers(norm.weight.value.val()),
            bias: numbers(norm.bias.value.val()),
        };
        let split = |output: &BertOutput| (map(&output.dense), norm(&output.layer_norm));
        let layers = self.encoder.layer.iter().map(|layer| {
            let (output, attention_norm) = split(&layer.attention.output);
            let (down, output_norm) = split(&layer.output);
            let (qkv, up) = (map(&layer.attention.qkv), map(&layer.intermediate.dense));
            PostNormLayer { qkv, output, attention_norm, up, down, output_norm }
        });
        let layers: Vec<_> = layers.collect();
        PostNormEncoder::new(&norm(&self.embeddings.layer_norm), &layers, self.config.heads, self.config.epsilon)
    }
}

fn numbers<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().iter::<f32>().collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use burn::tensor::Device;

    use super::*;
    use crate::encoders::{BertConfig, Encoder};
    use crate::params::Init;

    fn tokens(lengths: &[usize], width: usize) -> Tokens {
        let ids = (0..lengths.len() * width).map(|i| (i * 37 % 50) as i32).collect::<Vec<_>>();
        let ends = lengths.iter().map(|length| *length as i32 - 1).collect::<Vec<_>>();
        let device = Device::flex();
        Tokens {
            ids: Tensor::from_data(TensorData::new(ids, [lengths.len(), width]), &device),
            end: Tensor::from_data(TensorData::new(ends, [lengths.len()]), &device),
        }
    }

    fn bert(pooling: TokenPooling, first_position: usize) -> Bert {
        bert_on(&Device::flex(), pooling, first_position)
    }

    fn bert_on(device: &Device, pooling: TokenPooling, first_position: usize) -> Bert {
        let preset = Bert::PRESETS.iter().find(|(name, _)| *name == "bert_nano").unwrap();
        let config = BertConfig {
            vocabulary: 50,
            context: 12,
            width: 48,
            depth: 2,
            heads: 4,
            pooling,
            first_position,
            ..preset.1.clone()
        };
        Bert::new(&config, &mut Init::seeded(3, device)).unwrap()
    }

    /// The tensor engine computes the padded batch in the forward pass with autodiff.
    #[test]
    fn agrees_with_the_tensor_engine() {
        let tokens = tokens(&[3, 12, 1, 7], 12);
        for (pooling, first_position) in [(TokenPooling::First, 0), (TokenPooling::Mean, 2), (TokenPooling::Max, 0)] {
            let encoder = bert(pooling, first_position);
            let found = numbers(encoder.pooled_without_padding(&tokens).unwrap());
            let tracked = bert_on(&Device::flex().autodiff(), pooling, first_position);
            assert!(tracked.pooled_without_padding(&tokens).is_none(), "training must not use the packed weights");
            let expected = numbers(tracked.forward(tokens.clone()).unwrap());
            let square = |values: &mut dyn Iterator<Item = f32>| values.map(|v| f64::from(v).powi(2)).sum::<f64>();
            let difference = square(&mut found.iter().zip(&expected).map(|(f, e)| f - e));
            let error = (difference / square(&mut expected.iter().copied())).sqrt();
            assert!(error < 1e-5, "{pooling:?}: relative error {error:e}");
        }
    }

    #[test]
    fn new_weights_are_packed_again() {
        let tokens = tokens(&[3, 5], 5);
        let (mut encoder, other) = (bert(TokenPooling::Mean, 0), bert(TokenPooling::Mean, 0));
        let before = numbers(encoder.forward(tokens.clone()).unwrap());
        assert_eq!(numbers(other.forward(tokens.clone()).unwrap()), before);
        let weight = &mut encoder.encoder.layer[0].output.dense.weight.value;
        *weight = weight.clone().map(|weight| weight * 1.5);
        let after = numbers(encoder.forward(tokens).unwrap());
        assert!(before.iter().zip(&after).any(|(b, a)| (b - a).abs() > 1e-3), "the old weights were used");
    }
}
