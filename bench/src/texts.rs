//! Real captions through the text tower: `Embedder::texts`, which puts texts of similar length together.

use std::path::Path;

use anyhow::Context as _;
use burn::tensor::Device;
use conifer_data::tokenizer::Tokenizer;
use conifer_learn::checkpoint::{Manifest, TextFeed};
use conifer_learn::embed::Embedder;
use conifer_learn::encoders::{TextTransformer, TextualConfig, VisualConfig};
use conifer_learn::head::{Head, HeadConfig};
use conifer_learn::methods;
use conifer_learn::model::{Model, ModelConfig};
use conifer_learn::params::Init;

use crate::{Case, Numbers, preset};

const TEXTS: usize = 256;
/// Of 40,455 captions every 157th: 256 of them, one of each photo at most.
const EVERY: usize = 157;

/// Numbers of captions with 3, 4, 5 ... tokens, start and end included, among those 256 of Flickr8k: for where that is absent.
const COUNTED: [usize; 32] = [0; 32];

/// 256 captions embedded, tokenising included; returns how many tokens they have.
pub(crate) fn bucketed() -> anyhow::Result<Case> {
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

/// The number of tokens of each of the captions, for PyTorch's side.
pub(crate) fn lengths() -> anyhow::Result<Numbers> {
    let captions = captions()?;
    let tokenizer = tokenizer(&captions)?;
    let lengths = captions.iter().map(|it| Ok(tokenizer.encode(it, 77)?.len() as f64));
    let lengths: Vec<f64> = lengths.collect::<anyhow::Result<_>>()?;
    Ok(Box::new(move || Ok(lengths.clone())))
}

/// From `BENCH_CAPTIONS`, a table `image,caption`; where there is none made of single letters, as long as those.
fn captions() -> anyhow::Result<Vec<String>> {
    let path = std::env::var("BENCH_CAPTIONS").unwrap_or_default();
    if !Path::new(&path).exists() {
        let lengths = COUNTED.iter().enumerate().flat_map(|(i, &count)| (0..count).map(move |_| i + 3));
        // Letters that differ by text: equal texts would be embedded once.
        let letters = |number: usize, len: usize| {
            (0..len - 2).map(|i| ["a", "b", "c", "d"][(number >> (2 * i)) % 4]).collect::<Vec<_>>().join(" ")
        };
        return Ok(lengths.enumerate().map(|(number, len)| letters(number, len)).collect());
    }
    let table = std::fs::read_to_string(&path).with_context(|| path.clone())?;
    let caption = |line: &str| line.split_once(',').map(|(_, it)| it.trim_matches('"').to_owned());
    let found: Vec<String> = table.lines().skip(1).step_by(EVERY).filter_map(caption).take(TEXTS).collect();
    anyhow::ensure!(found.len() == TEXTS, "{path}: {} captions; expected {TEXTS}", found.len());
    Ok(found)
}

/// CLIP's own where `BENCH_MERGES` is there, else one without merges, to which a letter is a token.
fn tokenizer(captions: &[String]) -> anyhow::Result<Tokenizer> {
    let merges = std::env::var("BENCH_MERGES").unwrap_or_default();
    Ok(match Path::new(&merges).exists() {
        true => Tokenizer::from_merges(Path::new(&merges), None)?,
        false => Tokenizer::train(captions, 514)?,
    })
}
