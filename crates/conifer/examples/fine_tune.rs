//! Fine-tunes a published CLIP as a hyperbolic model: trains a MERU that starts from the towers of the CLIP.
//!
//! `cargo run --release -p conifer --example fine_tune -- MODEL OUT`, where MODEL is a published file or folder
//! (`openai/clip-vit-base-patch32`, an open_clip or Hugging Face folder, a checkpoint of MERU, HyCoCLIP or PHyCLIP)
//! or a run. MODEL defaults to the toy towers of this repository, OUT to runs/fine_tune. The example trains for 20
//! steps.
#![allow(clippy::print_stdout)]

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use conifer::data;
use conifer::model::{Device, ImportOptions, open};
use conifer::train::{Config, Event, Trainer};

const CONFIG: &str = r#"
[data]
kind = "toy"
options = { size = 500, resolution = 64, classes = "seen" }
[method]
kind = "meru"
[optim]
lr = 1e-4
[train]
steps = 20
batch_size = 16
# Only the projections and the scalars learn: fast, and the towers keep what they know.
freeze = ["visual", "textual"]
"#;

fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1).map(PathBuf::from);
    let towers = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../cli/assets/toy_towers");
    let model = args.next().unwrap_or(towers);
    let out = args.next().unwrap_or_else(|| PathBuf::from("runs/fine_tune"));

    let device = Device::flex();
    let opened = open(&model, &ImportOptions::default(), &device)?;
    println!("{}: {} in {}", opened.path.display(), opened.manifest.method, opened.model.head.spec());

    let mut config = Config::parse("fine_tune", CONFIG, &[])?;
    config.model.init = Some(model);
    config.train.out = out.clone();
    config.optim.warmup_steps = 5;
    let samples = data::open(&config.source())?.into();
    let mut trainer = Trainer::new(config, samples, &device)?;
    trainer.run(&AtomicBool::new(false), &mut |event: &Event<'_>| {
        if let Event::Step(record) = event {
            println!("step {} loss {:.4}", record.step, record.loss);
        }
    })?;
    println!("{} in {}", out.display(), trainer.model().head.spec());
    Ok(())
}
