//! Runs on several ranks. In these tests, ranks are threads.

use super::features::frozen;
use super::*;
use crate::error::Error;
use crate::ranks::Ranks;
use crate::ranks::threads::on_ranks;
use crate::trainer::flat_params::flat_params;

/// [`Squares`] with noise, which makes all photos different.
struct NoisySquares;

impl Source for NoisySquares {
    fn name(&self) -> &str {
        "noisy squares"
    }

    fn len(&self) -> usize {
        60
    }

    fn get(&self, index: usize) -> std::result::Result<Sample, Broken> {
        let sample = Squares { size: 60, name: "squares" }.get(index)?;
        let Some(ImageRef::Pixels(picture)) = &sample.image else { return Ok(sample) };
        let noise = |(i, byte): (usize, &u8)| byte ^ (((i + 7919 * index) * 2_654_435_761) >> 20) as u8;
        let rgb = picture.rgb.iter().enumerate().map(noise).collect();
        let picture = Picture { width: picture.width, height: picture.height, rgb };
        Ok(Sample { image: Some(ImageRef::Pixels(Arc::new(picture))), ..sample })
    }

    fn views(&self) -> &[View] {
        &[View::Pair, View::Boxes, View::Chain, View::Edges]
    }

    fn fingerprint(&self) -> String {
        "noisy-60".to_owned()
    }
}

fn noisy(method: &str, out: &Path, more: &str) -> Trainer {
    Trainer::new(config(method, out, more), Arc::new(NoisySquares), &Device::flex()).unwrap()
}

/// Returns the losses of a run on `size` ranks until the end, or until `stop_at` updates. `set_up` creates the trainer
/// of a rank.
fn losses_on(size: usize, stop_at: u64, set_up: &(dyn Fn() -> Trainer + Sync)) -> Vec<f64> {
    let found = on_ranks(size, |ranks| {
        let mut trainer = set_up();
        trainer.join_ranks(ranks.clone());
        ranks.agree::<_, Error>(Ok(())).unwrap();
        let (outcome, losses) = run(&mut trainer, stop_at);
        (outcome, losses, flat_params(&trainer.model, ""), trainer.step())
    });
    let [(outcome, _, weights, step), others @ ..] = &found[..] else { panic!("no rank") };
    for (other, losses, theirs, at) in others {
        assert!(losses.is_empty(), "rank 0 alone reports steps");
        assert_eq!((other, at), (outcome, step));
        assert!(theirs == weights, "the ranks have different weights");
    }
    found.into_iter().next().unwrap().1
}

/// Random crops, because all crops must differ: the exterior angle of two equal points depends on rounding, and so on
/// the rows of a call.
const EDGES: &str = "data.edges.copies=2 data.augment.crop={kind='random_resized'}";

/// Settings with a batch size that is not divisible by 2 or 4; for methods that read edges also two crops of each box.
fn settings(views: &[View]) -> String {
    let edges = if views.contains(&View::Edges) { EDGES } else { "" };
    format!("train.batch_size=9 train.steps=20 optim.lr=1e-3 {edges}")
}

/// The tolerance is 1e-5 of the loss plus 16 epsilons of a number around 1. A small loss, such as that of `radial`
/// (0.05), is a mean of hinges of angles around 1, so its rounding error is relative to 1.
#[track_caller]
fn close(case: &str, found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len(), "{case}");
    for (step, (a, b)) in found.iter().zip(expected).enumerate() {
        assert!(
            (a - b).abs() <= 1e-5 * b.abs() + 16.0 * f64::from(f32::EPSILON),
            "{case}, step {}: {a} against {b}",
            step + 1
        );
    }
}

#[test]
fn every_method_has_the_same_losses_on_1_2_and_4_ranks() {
    let folder = tempfile::tempdir().unwrap();
    for entry in METHODS.iter() {
        let on = |size: usize, name: &str| {
            let more = settings(entry.views) + if name.contains("own") { " train.loss_rows=own" } else { "" };
            let out = folder.path().join(format!("{} {size} {name}", entry.name));
            let losses = losses_on(size, u64::MAX, &|| noisy(entry.name, &out, &more));
            (losses, newest(&out))
        };
        let (one, _) = on(1, "");
        assert_eq!(one.len(), 20);
        let (two, weights) = on(2, "");
        close(&format!("{} on 2 ranks", entry.name), &two, &one);
        close(&format!("{} on 4 ranks", entry.name), &on(4, "").0, &one);
        let again = on(2, "again");
        assert_eq!(two, again.0, "{}", entry.name);
        assert!(weights == again.1, "{}: 2 ranks twice do not give the same bits", entry.name);
        let own = on(2, "own");
        close(&format!("{} on 2 ranks with own rows", entry.name), &own.0, &one);
        close(&format!("{} on 4 ranks with own rows", entry.name), &on(4, "own").0, &one);
        assert!(own.1 == on(2, "own again").1, "{}: own rows twice do not give the same bits", entry.name);
    }
}

/// Covers roots (a text, a parameter, the origin), frozen encoders, dropout of adapters, micro-batches that are smaller
/// than the share of a rank, and the shared momentum encoder and queue.
#[test]
fn roots_dropout_frozen_parts_and_queues_are_the_same_on_several_ranks() {
    let folder = tempfile::tempdir().unwrap();
    for (number, (method, more)) in [
        ("radial", "root.kind=text train.micro_batch=2 model.textual_adapter={dropout=0.2}"),
        ("radial", "root.kind=learned train.freeze=['visual'] train.ema=0.9"),
        ("hycoclip", "train.freeze=['visual','visual_proj'] optim.clip_norm=0.5 optim.accumulate=2"),
        ("meru", "model.textual_lora={rank=2,alpha=4} model.gradient_checkpointing=true"),
        ("hcl", "method.queue_size=40 method.momentum=0.5 train.micro_batch=3"),
    ]
    .into_iter()
    .enumerate()
    {
        let edges = if method == "hcl" { EDGES } else { "" };
        let more = format!("train.batch_size=10 optim.lr=1e-3 {edges} {more}");
        let on = |size: usize| {
            let out = folder.path().join(format!("{number} {size}"));
            losses_on(size, 8, &|| noisy(method, &out, &more))
        };
        let one = on(1);
        // If the root is a text, one of the four ranks embeds it; the other three have no row of this view.
        close(&format!("{method} {more}"), &on(4), &one);
        let own = losses_on(4, 8, &|| {
            noisy(method, &folder.path().join(format!("{number} own")), &format!("{more} train.loss_rows=own"))
        });
        close(&format!("{method} {more}, own rows"), &own, &one);
    }
    // With three ranks and two samples, one rank has no row of the batch.
    let on = |size: usize| {
        let out = folder.path().join(format!("two {size}"));
        losses_on(size, 8, &|| noisy("hycoclip", &out, "train.batch_size=2 optim.lr=1e-3 train.loss_rows=own"))
    };
    close("two samples", &on(3), &on(1));
    let on = |size: usize| {
        let out = folder.path().join(format!("stored {size}"));
        losses_on(size, 8, &|| frozen(&out, "hycoclip", "train.batch_size=10"))
    };
    close("stored features", &on(3), &on(1));
}

#[test]
fn a_run_resumes_on_another_number_of_ranks() {
    let folder = tempfile::tempdir().unwrap();
    let more = &format!("{EDGES} method.queue_size=40 train.ema=0.9 optim.lr=1e-3");
    let at = |name: &str| folder.path().join(name);
    let straight = losses_on(1, u64::MAX, &|| noisy("hcl", &at("straight"), more));
    let mut losses = losses_on(4, 5, &|| noisy("hcl", &at("moved"), more));
    for (size, until) in [(2, 8), (3, u64::MAX)] {
        let resumed = || Trainer::resume(&at("moved"), Arc::new(NoisySquares), &Device::flex()).unwrap();
        losses.extend(losses_on(size, until, &resumed));
    }
    close("resumed on other numbers of ranks", &losses, &straight);
    let steps: Vec<u64> =
        read_metrics(&at("moved").join(METRICS_FILE)).unwrap().iter().map(|record| record.step).collect();
    assert_eq!(steps, (1..=12).collect::<Vec<_>>());

    // A run that resumes on the same number of ranks gives the same bits.
    let uninterrupted = losses_on(2, u64::MAX, &|| noisy("hcl", &at("two"), more));
    let mut stopped = losses_on(2, 5, &|| noisy("hcl", &at("stopped"), more));
    let resumed = || Trainer::resume(&at("stopped"), Arc::new(NoisySquares), &Device::flex()).unwrap();
    stopped.extend(losses_on(2, u64::MAX, &resumed));
    assert_eq!(stopped, uninterrupted);
    assert!(newest(&at("stopped")) == newest(&at("two")));
}

/// The error that every rank returns.
fn refusal(size: usize, set_up: &(dyn Fn(&Ranks) -> Trainer + Sync)) -> String {
    let mut found = on_ranks(size, |ranks| {
        let mut trainer = set_up(&ranks);
        trainer.join_ranks(ranks.clone());
        ranks.agree::<_, Error>(Ok(())).unwrap();
        let error = trainer.run(&AtomicBool::new(false), &mut |_: &Event<'_>| {}).unwrap_err();
        assert!(matches!(error, Error::Ranks { rank, .. } if rank == ranks.rank()), "{error:?}");
        error.to_string()
    });
    let first = found.remove(0);
    assert!(found.iter().all(|other| *other == first), "{first} and {found:?}");
    first
}

#[test]
fn ranks_that_differ_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path();
    let message = refusal(3, &|ranks| {
        let lr = if ranks.rank() == 1 { "optim.lr=1e-3" } else { "" };
        fresh("clip", out, lr)
    });
    assert!(message.contains("`config` differs between the ranks (ranks 0, 2 of 3: "), "{message}");
    let message = refusal(2, &|ranks| {
        let source = Squares { size: 60, name: if ranks.rank() == 1 { "others" } else { "squares" } };
        Trainer::new(config("clip", out, ""), Arc::new(source), &Device::flex()).unwrap()
    });
    assert!(message.contains("`data` differs") && message.contains("rank 1 of 2: others-60"), "{message}");
    let message = refusal(2, &|ranks| {
        let mut trainer = fresh("clip", out, "");
        if ranks.rank() == 1 {
            trainer.model = fresh("clip", out, "seed=12").model;
        }
        trainer
    });
    assert!(message.contains("`weights` differs"), "{message}");
}

/// A source whose samples can be read on some machines only.
struct UnreadableSquares {
    readable: bool,
}

impl Source for UnreadableSquares {
    fn name(&self) -> &str {
        "squares"
    }

    fn len(&self) -> usize {
        60
    }

    fn get(&self, index: usize) -> std::result::Result<Sample, Broken> {
        match index {
            _ if !self.readable && index.is_multiple_of(4) => {
                Err(Broken::new(index.to_string(), Cause::MissingFile, "permission denied"))
            }
            _ => Squares { size: 60, name: "squares" }.get(index),
        }
    }

    fn views(&self) -> &[View] {
        &[View::Pair]
    }

    fn fingerprint(&self) -> String {
        "squares-60".to_owned()
    }
}

/// Such a sample is counted as broken on all ranks and replaced, as on a single rank.
#[test]
fn a_sample_that_one_rank_cannot_read_is_replaced_on_all() {
    let folder = tempfile::tempdir().unwrap();
    let found = on_ranks(3, |ranks| {
        let source = UnreadableSquares { readable: ranks.rank() != 2 };
        let mut trainer = fresh("clip", folder.path(), "data.max_broken_share=0.5");
        let loader = trainer.config.loader(trainer.method.views());
        trainer.loader = Loader::new(Arc::new(source), trainer.tokenizer.clone(), loader).unwrap();
        trainer.join_ranks(ranks.clone());
        ranks.agree::<_, Error>(Ok(())).unwrap();
        run(&mut trainer, u64::MAX);
        (trainer.broken().clone(), flat_params(&trainer.model, ""))
    });
    assert!(found[0] == found[1] && found[0] == found[2]);
    assert!(found[0].0.broken() > 0, "{}", found[0].0);
}

#[test]
fn a_stop_on_one_rank_stops_all_and_errors_reach_all() {
    let folder = tempfile::tempdir().unwrap();
    let found = on_ranks(3, |ranks| {
        let mut trainer = fresh("clip", &folder.path().join("stopped"), "");
        trainer.join_ranks(ranks.clone());
        ranks.agree::<_, Error>(Ok(())).unwrap();
        let stop = AtomicBool::new(ranks.rank() == 2);
        (trainer.run(&stop, &mut |_: &Event<'_>| {}).unwrap(), trainer.step())
    });
    assert_eq!(found, [(Outcome::Stopped, 0); 3]);

    // If every rank diverges, one message is reported. If saving fails, rank 0 reports it.
    let message = refusal(2, &|_| fresh("meru", &folder.path().join("diverged"), "optim.lr=1e30"));
    assert!(message.starts_with("train: `step ") && message.contains("a finite number"), "{message}");
    let out = folder.path().join("full");
    fs::create_dir_all(out.join("checkpoints")).unwrap();
    fs::write(out.join("checkpoints/step_00000004"), b"").unwrap();
    let message = refusal(2, &|_| fresh("clip", &out, "train.checkpoint_every=4"));
    assert!(message.starts_with("rank 0 of 2: ") && message.contains("step_00000004"), "{message}");
}
