//! Defines a space outside this workspace: coordinates with the Manhattan distance. Trains and searches in it.
//!
//! `slices.rs` has the geometry for search, and `tensors.rs` the same geometry with gradients. `cargo run --release -p
//! conifer --example own_space -- [OUT]`
#![allow(clippy::print_stdout)]

mod slices;
mod tensors;

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use conifer::data;
use conifer::embeddings::Modality;
use conifer::geometry::{SPACES, tensor::MANIFOLDS};
use conifer::index::{Filter, FlatIndex, Query, Ranking};
use conifer::model::{Device, Embedder};
use conifer::train::{Config, Event, Trainer};

const CONFIG: &str = r#"
data = { kind = "toy", options = { size = 200, resolution = 64 } }
tokenizer = { kind = "train", vocab_size = 600 }
model = { embed_dim = 16, visual = { preset = "vit_nano" }, textual = { preset = "text_nano", depth = 1 } }
manifold = { kind = "manhattan" }
method = { kind = "clip" }
optim = { warmup_steps = 2 }
train = { steps = 10, batch_size = 8 }
"#;

fn main() -> anyhow::Result<()> {
    SPACES.register(&slices::ENTRY)?;
    MANIFOLDS.register(&tensors::ENTRY)?;

    let mut config = Config::parse("own_space", CONFIG, &[])?;
    let out = std::env::args().nth(1).map_or_else(|| PathBuf::from("runs/own_space"), PathBuf::from);
    config.train.out = out.clone();
    let samples = data::open(&config.source())?.into();
    Trainer::new(config, samples, &Device::flex())?.run(&AtomicBool::new(false), &mut |event: &Event<'_>| {
        if let Event::Step(record) = event {
            println!("step {} loss {:.4}", record.step, record.loss);
        }
    })?;

    let embedder = Embedder::open(&out, &Device::flex())?;
    let texts = ["an animal", "a dog", "a red dog", "a bus"];
    let ids = texts.map(str::to_owned).to_vec();
    let set = embedder.text_set(ids, &texts, Modality::Text, "four texts", &mut |_, _| {})?;
    let hits = FlatIndex::new(&set)?.top_k(&Query::row(&set, 2), Ranking::Distance, 4, &Filter::All)?.concat();
    for hit in &hits {
        println!("{:<12} {:.4}", set.ids[hit.row], hit.score);
    }
    anyhow::ensure!(hits[0].row == 2 && hits[0].score == 0.0, "a point is nearest to itself");
    Ok(())
}
