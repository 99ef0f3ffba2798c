//! Defines a training method outside this workspace: a loss, a registry entry, and a config that names the method.
//!
//! `cargo run --release -p conifer --example own_method -- [OUT]`
#![allow(clippy::print_stdout)]

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use conifer::data::{self, View};
use conifer::geometry::ManifoldSpec;
use conifer::model::Device;
use conifer::train::{
    BatchPoints, BatchSpace, Config, Event, Loss, METHODS, Method, MethodEntry, Result, RootKind, Trainer,
};

/// SigLIP's pairwise sigmoid loss (Zhai et al., ICCV 2023) on the similarity of any space.
struct SigmoidPairs;

impl Method for SigmoidPairs {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn reference(&self) -> &'static str {
        ENTRY.reference
    }

    fn views(&self) -> &'static [View] {
        ENTRY.views
    }

    /// `-mean_j log sigmoid(z_ij (s S_ij - s))`, with the similarity S, s = 1/temperature, z = 1 on the diagonal and -1
    /// elsewhere.
    fn loss(&self, batch: &BatchPoints, space: &BatchSpace) -> Result<Loss> {
        let (image, text) = batch.pair(self.name())?;
        let [rows, _] = image.dims();
        let similarity = space.manifold.pairwise_similarity(image.clone(), text.clone());
        let scale = space.logit_scale.clone().unsqueeze::<2>();
        let logits = (similarity - 1.0) * scale;
        let device = logits.device();
        let sign = conifer::train::tensor::Tensor::<2>::eye(rows, &device) * 2.0 - 1.0;
        let losses = -conifer::train::tensor::activation::log_sigmoid(logits * sign).mean_dim(1).squeeze_dim::<1>(1);
        Loss::of_terms(space, vec![("sigmoid", 1.0, losses)])
    }
}

static ENTRY: MethodEntry = MethodEntry {
    name: "sigmoid_pairs",
    summary: "pairwise sigmoid loss",
    reference: "Zhai et al., ICCV 2023",
    views: &[View::Pair],
    terms: &[],
    root: RootKind::Origin,
    manifold: |dim| ManifoldSpec::lorentz(dim, 1.0),
    from_config: |_| Ok(Box::new(SigmoidPairs)),
    resolve: |settings| Ok(settings.clone()),
};

const CONFIG: &str = r#"
data = { kind = "toy", options = { size = 200, resolution = 64 } }
tokenizer = { kind = "train", vocab_size = 600 }
model = { embed_dim = 16, visual = { preset = "vit_nano" }, textual = { preset = "text_nano", depth = 1 } }
method = { kind = "sigmoid_pairs" }
optim = { warmup_steps = 2 }
train = { steps = 10, batch_size = 8 }
"#;

fn main() -> anyhow::Result<()> {
    METHODS.register(&ENTRY)?;
    let mut config = Config::parse("own_method", CONFIG, &[])?;
    config.train.out = std::env::args().nth(1).map_or_else(|| PathBuf::from("runs/own_method"), PathBuf::from);
    let samples = data::open(&config.source())?.into();
    Trainer::new(config, samples, &Device::flex())?.run(&AtomicBool::new(false), &mut |event: &Event<'_>| {
        if let Event::Step(record) = event {
            println!("step {} loss {:.4}", record.step, record.loss);
        }
    })?;
    Ok(())
}
