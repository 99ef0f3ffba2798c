//! Embedding of real captions with `Embedder::texts`, which batches texts of similar length.

use std::path::Path;

use anyhow::Context as _;
use burn::tensor::Device;
use conifer_data::tokenizer::Tokenizer;
use conifer_model::checkpoint::{Manifest, TextFeed};
use conifer_model::embed::Embedder;
use conifer_model::encoders::{TextTransformer, TextualConfig, VisualConfig};
use conifer_model::head::{Head, HeadConfig};
use conifer_model::model::{Model, ModelConfig};
use conifer_model::params::Init;
use conifer_train::methods;

use crate::{BenchCase, BenchNumbers, preset};

const TEXTS: usize = 256;
/// Every 157th of 40,455 captions, of which the first 256 are used: at most one per photo, because a photo has five.
const EVERY: usize = 157;

/// Number of those 256 captions of Flickr8k with 7, 8, 9 ... 26 tokens, including start and end (counted with CLIP's
/// merges by the case `text_lengths`). Used if the captions are absent.
const COUNTED: [usize; 20] = [4, 14, 14, 21, 19, 27, 28, 28, 21, 16, 19, 12, 9, 6, 8, 2, 1, 5, 0, 2];
const SHORTEST: usize = 7;

/// Embeds 256 captions, including tokenisation. The result is their number of tokens.
pub(crate) fn bucketed() -> anyhow::Result<BenchCase> {
    let device = Device::flex();
    let captions = captions()?;
    let tokenizer = tokenizer(&captions)?;
    let entry = methods::entry("clip")?;
    let config = HeadConfig::default();
    let head = Head::new(&(entry.manifold)(512), &config, &device)?;
    // The image tower is not used.
    let towers = ModelConfig {
        visual: VisualConfig::preset("vit_nano")?,
        textual: TextualConfig::TextTransformer(preset::<TextTransformer>("text_l12_w512")?),
        pixels: Default::default(),
        visual_adapter: None,
        textual_adapter: None,
        visual_lora: None,
        textual_lora: None,
    };
    let model = Model::new(&towers, head, &mut Init::seeded(0, &device))?;
    let feed = TextFeed { tokenizer: None, end_of_text: tokenizer.end_of_text(), padding: 0 };
    let manifest = Manifest::new(&model, &config, "clip", feed);
    let embedder = Embedder::new("random weights", &model, manifest, tokenizer)?;
    let tokens: usize = embedder.tokenize(&captions)?.iter().map(Vec::len).sum();
    Ok(Box::new(move || {
        let points = embedder.texts(&captions, &mut |_, _| {})?;
        anyhow::ensure!(points.len() == TEXTS * 512 && points.iter().all(|x| x.is_finite()), "points were lost");
        Ok(tokens as f32)
    }))
}

/// Number of tokens of each caption, for PyTorch's side.
pub(crate) fn lengths() -> anyhow::Result<BenchNumbers> {
    let captions = captions()?;
    let tokenizer = tokenizer(&captions)?;
    let lengths = captions.iter().map(|it| Ok(tokenizer.encode(it, 77)?.len() as f64));
    let lengths: Vec<f64> = lengths.collect::<anyhow::Result<_>>()?;
    Ok(Box::new(move || Ok(lengths.clone())))
}

/// Reads captions from `BENCH_CAPTIONS`, a table `image,caption`. If it does not exist, makes captions of single
/// letters with the same lengths.
fn captions() -> anyhow::Result<Vec<String>> {
    captions_of(&std::env::var("BENCH_CAPTIONS").unwrap_or_default())
}

fn captions_of(path: &str) -> anyhow::Result<Vec<String>> {
    if !Path::new(path).exists() {
        let lengths = COUNTED.iter().enumerate().flat_map(|(i, &count)| (0..count).map(move |_| i + SHORTEST));
        // The letters differ between texts, because equal texts would be embedded only once.
        let letters = |number: usize, len: usize| {
            (0..len - 2).map(|i| ["a", "b", "c", "d"][(number >> (2 * i)) % 4]).collect::<Vec<_>>().join(" ")
        };
        return Ok(lengths.enumerate().map(|(number, len)| letters(number, len)).collect());
    }
    let table = std::fs::read_to_string(path).with_context(|| path.to_owned())?;
    let caption = |line: &str| line.split_once(',').map(|(_, it)| it.trim_matches('"').to_owned());
    let found: Vec<String> = table.lines().skip(1).step_by(EVERY).filter_map(caption).take(TEXTS).collect();
    anyhow::ensure!(found.len() == TEXTS, "{path}: {} captions; expected {TEXTS}", found.len());
    Ok(found)
}

/// CLIP's tokenizer if `BENCH_MERGES` exists, else one trained on the captions. A single letter is one token in both.
fn tokenizer(captions: &[String]) -> anyhow::Result<Tokenizer> {
    let merges = std::env::var("BENCH_MERGES").unwrap_or_default();
    Ok(match Path::new(&merges).exists() {
        true => Tokenizer::from_merges(Path::new(&merges), None)?,
        false => Tokenizer::train(captions, 8192)?,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeSet;

    use super::*;

    /// Without data sets, the captions are distinct and have the counted lengths.
    #[test]
    fn generated_captions_have_the_counted_lengths() {
        let captions = captions_of("").unwrap();
        let tokenizer = Tokenizer::train(&captions, 8192).unwrap();
        let lengths: Vec<usize> = captions.iter().map(|it| tokenizer.encode(it, 77).unwrap().len()).collect();
        assert_eq!(captions.iter().collect::<BTreeSet<_>>().len(), TEXTS);
        for (i, &count) in COUNTED.iter().enumerate() {
            assert_eq!(lengths.iter().filter(|&&it| it == i + SHORTEST).count(), count);
        }
    }
}
