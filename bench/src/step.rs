//! Case `step_hycoclip`: the whole training step as a user runs it, with the trainer and loader of `conifer train`, on
//! shards.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use anyhow::{Context as _, anyhow};
use burn::tensor::Device;
use conifer_train::config::Config;
use conifer_train::trainer::{Event, Trainer};

use crate::BenchCase;

/// HyCoCLIP's configuration (configs/hycoclip_vit_s.toml) at a batch of 16.
const CONFIG: &str = r#"
[data]
kind = "grit_processed"
[tokenizer]
kind = "clip_merges"
path = ""
[model]
embed_dim = 512
visual = { kind = "vit", preset = "vit_s16" }
textual = { kind = "text_transformer", preset = "text_l12_w512" }
[method]
kind = "hycoclip"
[train]
steps = 1000000
batch_size = 16
checkpoint_every = 0
"#;

/// A trainer on a separate thread that runs one step per request.
pub(crate) struct SteppedTrainer {
    go: Option<SyncSender<()>>,
    /// Receives `None` once the trainer is created, then the loss of each step.
    done: Receiver<Option<f64>>,
    trainer: Option<JoinHandle<anyhow::Result<()>>>,
    /// Keeps the folder of the run until the end.
    _folder: tempfile::TempDir,
}

/// HyCoCLIP on the shards of `BENCH_SHARDS`, with the merges of `BENCH_MERGES`. The result is the loss. `THREADS` is
/// also the number of loader threads.
pub(crate) fn hycoclip() -> anyhow::Result<BenchCase> {
    let variable = |name: &str| std::env::var(name).with_context(|| format!("{name}: not set; bench/run.py sets it"));
    let folder = tempfile::tempdir()?;
    let mut config = Config::parse("the whole step", CONFIG, &[])?;
    config.data.path = Some(PathBuf::from(variable("BENCH_SHARDS")?));
    config.data.workers = variable("THREADS")?.parse().context("THREADS")?;
    config.tokenizer =
        conifer_train::config::TokenizerConfig::ClipMerges { path: variable("BENCH_MERGES")?.into(), vocab_size: None };
    config.train.out = folder.path().join("run");
    let mut stepped = SteppedTrainer::start(config, folder)?;
    Ok(Box::new(move || stepped.step()))
}

impl SteppedTrainer {
    pub(crate) fn start(config: Config, folder: tempfile::TempDir) -> anyhow::Result<Self> {
        let (go, may_go) = sync_channel(0);
        let (losses, done) = sync_channel(1);
        let trainer = std::thread::spawn(move || train(config, &may_go, &losses));
        let mut stepped = Self { go: Some(go), done, trainer: Some(trainer), _folder: folder };
        match stepped.done.recv() {
            Ok(_) => Ok(stepped),
            Err(_) => Err(stepped.failed()),
        }
    }

    pub(crate) fn step(&mut self) -> anyhow::Result<f32> {
        let went = self.go.as_ref().is_some_and(|it| it.send(()).is_ok());
        match self.done.recv() {
            Ok(Some(loss)) if went => Ok(loss as f32),
            _ => Err(self.failed()),
        }
    }

    fn failed(&mut self) -> anyhow::Error {
        self.end().err().unwrap_or_else(|| anyhow!("the trainer ended"))
    }

    fn end(&mut self) -> anyhow::Result<()> {
        self.go = None;
        let trainer = self.trainer.take().map(JoinHandle::join);
        trainer.map_or(Ok(()), |it| it.map_err(|_| anyhow!("the trainer panicked"))?)
    }
}

impl Drop for SteppedTrainer {
    fn drop(&mut self) {
        // Errors were already reported by [`SteppedTrainer::step`].
        let _ = self.end();
    }
}

fn train(config: Config, may_go: &Receiver<()>, losses: &SyncSender<Option<f64>>) -> anyhow::Result<()> {
    let source = Arc::from(conifer_datasets::open(&config.source())?);
    let mut trainer = Trainer::new(config, source, &Device::flex())?;
    let stop = AtomicBool::new(losses.send(None).is_err() || may_go.recv().is_err());
    trainer.run(&stop, &mut |event: &Event<'_>| {
        if let Event::Step(record) = event {
            let heard = losses.send(Some(record.loss)).is_ok() && may_go.recv().is_ok();
            stop.fetch_or(!heard, Ordering::Relaxed);
        }
    })?;
    Ok(())
}
