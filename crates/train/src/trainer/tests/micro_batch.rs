//! Losses over batches that are embedded in micro-batches.

use conifer_data::batch::Batch;

use super::features::frozen;
use super::*;
use crate::trainer::step::BackwardPass;

/// Two passes over the same batch with the same weights. In the second pass, the queue contains the keys of the first.
fn two_passes(trainer: &mut Trainer, batch: &Batch, micro_batch: Option<usize>) -> [BackwardPass; 2] {
    trainer.momentum = trainer.method.momentum().map(|settings| MomentumEncoder::new(settings, &trainer.model));
    [1, 2].map(|step| {
        let mut inputs = step::PassInputs {
            method: trainer.method.as_ref(),
            frozen: trainer.frozen.as_ref(),
            momentum: trainer.momentum.as_mut(),
            root: trainer.root_text.as_ref(),
            features: trainer.features.as_mut(),
            noise: DropoutNoise::new(0, step, 0),
            end_of_text: trainer.tokenizer.end_of_text(),
            micro_batch,
            loss_rows: RowShare::default(),
            ranks: &trainer.ranks,
            device: &trainer.device,
        };
        step::pass(&trainer.model, batch, &mut inputs, step).unwrap()
    })
}

/// Compares losses, terms and gradients of the first batch for several sizes of a micro-batch with those of one call
/// for each view.
fn check(case: &str, trainer: &mut Trainer, sizes: &[usize]) {
    let mut batch = trainer.loader.next().unwrap().unwrap();
    // Many squares are equal. The exterior angle of two equal points depends on their rounding, and so on the number of
    // rows of a call. Noise makes all crops different.
    if let Some(images) = batch.edges.as_mut().and_then(|edges| edges.images.as_mut()) {
        images.data.iter_mut().enumerate().for_each(|(i, byte)| *byte ^= ((i * 2_654_435_761) >> 20) as u8);
    }
    let whole = two_passes(trainer, &batch, None);
    for &size in sizes {
        for (expected, found) in whole.iter().zip(two_passes(trainer, &batch, Some(size))) {
            let case = format!("{case}, micro-batches of {size}");
            let error = (found.loss - expected.loss).abs();
            assert!(error <= 1e-6 * expected.loss.abs(), "{case}: {} against {}", found.loss, expected.loss);
            assert_eq!(found.terms.len(), expected.terms.len());
            for ((name, found), (_, expected)) in found.terms.iter().zip(&expected.terms) {
                assert!((found - expected).abs() <= 1e-5 * (1.0 + expected.abs()), "{case}: term {name}");
            }
            let (found, expected) = (found.gradients.values(), expected.gradients.values());
            assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "{case}");
            for (name, expected) in expected {
                let largest = expected.iter().fold(0.0_f32, |largest, x| largest.max(x.abs()));
                let error = expected.iter().zip(&found[name]).fold(0.0_f32, |error, (a, b)| error.max((a - b).abs()));
                // A gradient sums terms that nearly cancel: over the texts of all chains for a bias, over all
                // coordinates of all points for a scalar of the head. The f32 rounding errors of the terms do not
                // cancel. The largest observed differences of scalars are 2.9e-5 (curvature of meru) and 1.9e-5 (scale
                // of visual_hierarchies) of their value.
                let relative = if expected.len() == 1 { 5e-5 } else { 1e-5 };
                let allowed = relative * largest + 8.0 * f32::EPSILON;
                assert!(error <= allowed, "{case}: `{name}` differs by {error:e}, largest entry {largest:e}");
            }
        }
    }
}

/// Settings for a batch of 16 photos; for methods that read edges also two crops of each box.
fn settings(views: &[View]) -> &'static str {
    match views.contains(&View::Edges) {
        true => "train.batch_size=16 data.edges.copies=2",
        false => "train.batch_size=16",
    }
}

#[test]
fn every_method_has_the_same_loss_and_gradients_in_micro_batches() {
    let folder = tempfile::tempdir().unwrap();
    for entry in METHODS.iter() {
        let mut trainer = fresh(entry.name, &folder.path().join(entry.name), settings(entry.views));
        check(entry.name, &mut trainer, &[16, 4, 7]);
    }
}

#[test]
fn roots_frozen_parts_and_low_rank_updates_keep_their_gradients_in_micro_batches() {
    let folder = tempfile::tempdir().unwrap();
    for (number, (method, more)) in [
        ("radial", "root.kind=text"),
        ("radial", "root.kind=learned"),
        ("radial", "root.kind=text train.freeze=['textual']"),
        ("hycoclip", "train.freeze=['visual']"),
        ("hycoclip", "train.freeze=['visual','visual_proj']"),
        ("phyclip", "train.freeze=['head'] model.gradient_checkpointing=true"),
        ("meru", "model.textual_lora={rank=2,alpha=4}"),
    ]
    .into_iter()
    .enumerate()
    {
        let more = format!("train.batch_size=12 {more}");
        let mut trainer = fresh(method, &folder.path().join(number.to_string()), &more);
        check(&format!("{method} {more}"), &mut trainer, &[5]);
    }
}

/// The adapters have dropout, and odd and even widths.
#[test]
fn dropout_has_the_same_masks_in_micro_batches_of_any_size() {
    let folder = tempfile::tempdir().unwrap();
    for (method, more) in [
        ("hycoclip", "train.batch_size=12"),
        ("radial", "train.batch_size=12 root.kind=text"),
        (
            "hcl",
            "train.batch_size=12 data.edges.copies=2 train.freeze=['visual','textual','textual_adapter','textual_proj']",
        ),
    ] {
        let mut trainer = frozen(&folder.path().join(method), method, more);
        assert!(trainer.collect_features(&AtomicBool::new(false), &mut |_: &Event<'_>| {}).unwrap());
        assert!(trainer.features.is_some());
        check(&format!("{method} {more}"), &mut trainer, &[3, 5]);
    }
    let adapters = "model.visual_adapter={widths=[15],dropout=0.3} model.textual_adapter={dropout=0.2}";
    let mut trainer = fresh("phyclip", &folder.path().join("encoders"), &format!("train.batch_size=12 {adapters}"));
    check(adapters, &mut trainer, &[5]);
}

#[test]
fn a_run_in_micro_batches_resumes_with_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    for (method, more) in [
        ("hcl", "data.edges.copies=2 method.queue_size=40 method.momentum=0.5 optim.accumulate=2"),
        ("radial", "root.kind=text optim.clip_norm=0.5 model.textual_adapter={dropout=0.2}"),
    ] {
        let more = format!("train.steps=6 train.micro_batch=3 optim.warmup_steps=0 {more}");
        let straight = folder.path().join(method);
        let (_, losses) = run(&mut fresh(method, &straight, &more), u64::MAX);
        let stopped = folder.path().join(format!("{method} stopped"));
        run(&mut fresh(method, &stopped, &more), 3);
        let mut resumed = Trainer::resume(&stopped, squares(), &Device::flex()).unwrap();
        assert_eq!(resumed.config().train.micro_batch, Some(3));
        assert_eq!(run(&mut resumed, u64::MAX).1, losses[3..], "{method}");
        assert!(newest(&stopped) == newest(&straight), "{method}: not the same bits after a stop");
    }
}

/// `optim.accumulate` averages the losses of separate batches; `train.micro_batch` has one loss over all rows.
#[test]
fn the_loss_of_accumulated_batches_has_fewer_negatives() {
    let folder = tempfile::tempdir().unwrap();
    let first = |name: &str, more: &str| run(&mut fresh("clip", &folder.path().join(name), more), 1).1[0];
    let whole = first("whole", "train.batch_size=16");
    let micro = first("micro", "train.batch_size=16 train.micro_batch=4");
    let accumulated = first("accumulated", "train.batch_size=4 optim.accumulate=4");
    assert!((micro - whole).abs() <= 1e-6 * whole, "{micro} against {whole}");
    assert!(accumulated < whole - 0.5, "{accumulated} against {whole}");
}

#[test]
fn a_loss_without_a_trained_part_is_refused_in_micro_batches() {
    let folder = tempfile::tempdir().unwrap();
    let parts = "train.freeze=['visual','textual','visual_proj','textual_proj','head'] train.micro_batch=3";
    let mut trainer = fresh("clip", folder.path(), parts);
    let found = trainer.run(&AtomicBool::new(false), &mut |_: &Event<'_>| {}).unwrap_err().to_string();
    assert!(found.contains("train.freeze"), "{found}");
}
