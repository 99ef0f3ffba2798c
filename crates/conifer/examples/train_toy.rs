//! Trains PHyCLIP on the drawn toy world and embeds two texts with it.
//!
//! `cargo run --release -p conifer --example train_toy -- [OUT] [STEPS]`
#![allow(clippy::print_stdout)]

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use conifer::data;
use conifer::geometry::space;
use conifer::model::{Device, Embedder};
use conifer::train::{Config, Event, Trainer};

const CONFIG: &str = r#"
[data]
kind = "toy"
options = { size = 2000, resolution = 64 }
[tokenizer]
kind = "train"
vocab_size = 600
[model]
embed_dim = 32
visual = { preset = "vit_nano" }
textual = { preset = "text_nano", depth = 2 }
[manifold]
factors = 4
[method]
kind = "phyclip"
[train]
batch_size = 16
"#;

fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    let out = PathBuf::from(args.next().unwrap_or_else(|| "runs/train_toy".to_owned()));
    let steps = args.next().map_or(Ok(60), |steps| steps.parse())?;

    let mut config = Config::parse("train_toy", CONFIG, &[])?;
    config.train.out = out.clone();
    config.train.steps = steps;
    config.optim.warmup_steps = steps / 5;
    let world = data::open(&config.source())?.into();
    let device = Device::flex();
    let mut trainer = Trainer::new(config, world, &device)?;
    trainer.run(&AtomicBool::new(false), &mut |event: &Event<'_>| {
        if let Event::Step(record) = event
            && record.step % 10 == 0
        {
            println!("step {} loss {:.4}", record.step, record.loss);
        }
    })?;

    let embedder = Embedder::open(&out, &device)?;
    let points = embedder.texts(&["an animal", "a red dog on a beach"], &mut |_, _| {})?;
    let geometry = space::<f32>(embedder.spec())?;
    let root = embedder.root()?;
    for (text, point) in ["an animal", "a red dog on a beach"].iter().zip(points.chunks_exact(embedder.spec().dim)) {
        println!("{text}: {:.3} from the root", geometry.depth(point, &root));
    }
    Ok(())
}
