//! Training and sampling of a T5 with the sizes of Flan-T5-small, with random weights.

use anyhow::Context as _;
use burn::tensor::{Device, Int, Tensor, TensorData};
use conifer_model::encoders::Tokens;
use conifer_model::encoders::t5::T5Activation;
use conifer_model::params::Init;
use conifer_model::seq2seq::{DrawRequest, SamplingSettings, T5Model, T5ModelConfig};
use conifer_train::sequences::{SequencePair, SequenceTrainer};

use crate::BenchCase;

/// Tokens of each input and of each text that is written.
const LENGTH: usize = 24;
/// Pairs of a training step: the batch size of the paper.
const PAIRS: usize = 32;
/// Inputs, and texts drawn for each of them.
const INPUTS: usize = 8;
const DRAWS: usize = 8;

/// A training step of 32 pairs of 24 tokens with AdamW (`train`), or 64 texts of 24 sampled tokens for 8 inputs of 24
/// tokens (`decode`). The result is the loss, or the number of sampled tokens.
pub(crate) fn case(what: &str) -> anyhow::Result<BenchCase> {
    let config = T5ModelConfig {
        vocabulary: 32_128,
        context: 512,
        width: 512,
        depth: 8,
        decoder_depth: 8,
        heads: 6,
        head_width: 64,
        hidden: 1024,
        feed_forward: T5Activation::GatedGelu,
        buckets: 32,
        max_distance: 128,
        epsilon: 1e-6,
        tied: false,
        scaled: false,
        start: 0,
        end: 1,
    };
    match what {
        "train" => train(&config),
        "decode" => decode(&config),
        _ => anyhow::bail!("unknown case `t5_{what}`; expected t5_train or t5_decode"),
    }
}

fn ids(rows: usize, shift: usize) -> Vec<Vec<u32>> {
    let row = |row: usize| {
        let mut ids: Vec<u32> =
            (0..LENGTH).map(|i| (((row * LENGTH + i) * 7919 + shift) % 32_000 + 2) as u32).collect();
        ids[LENGTH - 1] = 1;
        ids
    };
    (0..rows).map(row).collect()
}

fn train(config: &T5ModelConfig) -> anyhow::Result<BenchCase> {
    let model = T5Model::new(config, &mut Init::seeded(0, &Device::flex().autodiff()))?;
    let mut trainer = Some(SequenceTrainer::new(model, 1e-4)?);
    let pairs: Vec<SequencePair> =
        ids(PAIRS, 0).into_iter().zip(ids(PAIRS, 5)).map(|(input, label)| SequencePair { input, label }).collect();
    Ok(Box::new(move || {
        let (next, loss) = trainer.take().context("a step failed before")?.step(&pairs)?;
        trainer = Some(next);
        Ok(loss as f32)
    }))
}

fn decode(config: &T5ModelConfig) -> anyhow::Result<BenchCase> {
    let device = Device::flex();
    let model = T5Model::new(config, &mut Init::seeded(0, &device))?;
    let rows: Vec<i32> = ids(INPUTS, 0).concat().into_iter().map(|id| id as i32).collect();
    let inputs = move || Tokens {
        ids: Tensor::<2, Int>::from_data(TensorData::new(rows.clone(), [INPUTS, LENGTH]), &device),
        end: Tensor::from_data(TensorData::new(vec![LENGTH as i32 - 1; INPUTS], [INPUTS]), &device),
    };
    let draws: Vec<DrawRequest> =
        (0..INPUTS * DRAWS).map(|draw| DrawRequest { input: draw / DRAWS, seed: [draw as u8; 32] }).collect();
    let settings = SamplingSettings { temperature: 1.0, longest: LENGTH, stop: Vec::new() };
    Ok(Box::new(move || {
        let texts = model.generate(inputs(), &draws, &settings)?;
        Ok(texts.iter().map(|it| it.ids.len()).sum::<usize>() as f32)
    }))
}
