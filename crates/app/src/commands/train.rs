use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, bail};
use burn::tensor::Device;
use conifer_learn::checkpoint::state::{CONFIG, latest_checkpoint};
use conifer_learn::config::Config;
use conifer_learn::train::{Event, Outcome, Trainer};
use indicatif::ProgressBar;
use serde_json::json;

use crate::cli::Train;
use crate::output::{print, print_json};
use crate::{progress, signal};

pub(crate) fn run(args: Train, as_json: bool) -> anyhow::Result<()> {
    let device = Device::flex();
    let mut trainer = match (&args.resume, &args.config) {
        (Some(run), _) => {
            let config = Config::load(&latest_checkpoint(run)?.join(CONFIG), &[])?;
            Trainer::resume(run, open(&config)?, &device)?
        }
        (None, Some(path)) => {
            let mut config = Config::load(path, &args.set)?;
            if args.smoke {
                config = config.smoke()?;
            }
            if let Some(out) = &args.out {
                config.train.out = out.clone();
            }
            let source = open(&config)?;
            Trainer::new(config, source, &device)?
        }
        (None, None) => bail!("expected a config, or --resume RUN"),
    };
    if trainer.config().train.eval_every > 0 {
        bail!(
            "train.eval_every is {}; expected 0: `conifer train` cannot evaluate during a run yet, use `conifer eval` on its checkpoints",
            trainer.config().train.eval_every
        );
    }
    let (outcome, last_loss) = watch(&mut trainer, signal::stop_flag()?.as_ref(), &mut |_| ())?;
    report_broken(&trainer);
    let out = &trainer.config().train.out;
    if as_json {
        let stopped = outcome == Outcome::Stopped;
        return print_json(&json!({ "out": out, "step": trainer.step(), "loss": last_loss, "stopped": stopped }));
    }
    match outcome {
        Outcome::Finished => {
            print(&format!("finished: {} steps, loss {last_loss:.4}, {}\n", trainer.step(), out.display()))
        }
        Outcome::Stopped => print(&format!(
            "stopped at step {}; go on with: conifer train --resume {}\n",
            trainer.step(),
            out.display()
        )),
    }
}

fn open(config: &Config) -> anyhow::Result<Arc<dyn conifer_data::Source>> {
    Ok(conifer_data::open(&config.source())?.into())
}

/// Runs the trainer with a progress bar, and hands every event on. Returns the last loss.
pub(crate) fn watch(
    trainer: &mut Trainer,
    stop: &AtomicBool,
    also: &mut dyn FnMut(&Event<'_>),
) -> anyhow::Result<(Outcome, f64)> {
    let mut bar: Option<ProgressBar> = None;
    let mut last_loss = f64::NAN;
    let outcome = trainer.run(stop, &mut |event| {
        match event {
            Event::Started { step, steps, parameters, samples, batches_per_epoch } => {
                let it = progress::bar("training", usize::try_from(*steps).unwrap_or(usize::MAX));
                it.reset_eta();
                it.set_position(*step);
                say(&it, &format!("{parameters} parameters, {samples} samples, {batches_per_epoch} batches per epoch, from step {step}"));
                bar = Some(it);
            }
            Event::Step(record) => {
                last_loss = record.loss;
                if let Some(bar) = &bar {
                    bar.set_position(record.step);
                    bar.set_message(format!("loss {:.3}  lr {:.1e}", record.loss, record.lr));
                }
                if bar.as_ref().is_none_or(ProgressBar::is_hidden) && record.step.is_multiple_of(50) {
                    eprintln!("step {} loss {:.4} lr {:.2e} {:.1} samples/s", record.step, record.loss, record.lr, record.samples_per_second);
                }
            }
            Event::Checkpoint { step, path } => {
                if let Some(bar) = &bar {
                    say(bar, &format!("step {step}: saved {}", path.display()));
                }
            }
            Event::Finished { .. } | Event::Stopped { .. } => {
                if let Some(bar) = &bar {
                    bar.finish_and_clear();
                }
            }
            Event::Evaluate { .. } => {}
        }
        also(event);
    });
    let out = trainer.config().train.out.clone();
    outcome.map(|it| (it, last_loss)).with_context(|| kept(&out))
}

/// A line above the bar, or a plain line where there is no terminal.
fn say(bar: &ProgressBar, line: &str) {
    if bar.is_hidden() { eprintln!("{line}") } else { bar.println(line) }
}

/// What a failed run leaves to go on from.
fn kept(out: &Path) -> String {
    match latest_checkpoint(out) {
        Ok(path) => format!(
            "training failed; {} is complete, go on from it with: conifer train --resume {}",
            path.display(),
            out.display()
        ),
        Err(_) => "training failed before the first checkpoint".into(),
    }
}

/// Says what was broken in the data, by cause.
fn report_broken(trainer: &Trainer) {
    let report = trainer.broken();
    if report.broken() > 0 {
        eprintln!("{report}");
    }
}
