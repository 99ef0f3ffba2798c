//! Runs with a momentum encoder and a queue.

use conifer_model::checkpoint::run_folder::MOMENTUM;
use conifer_model::checkpoint::{load_weights, save_weights};
use conifer_model::weight_array::{WeightArray, Weights};

use super::*;
use crate::methods::MomentumSettings;

/// Changes the tensors of a checkpoint file.
type Change<'a> = &'a dyn Fn(&mut Weights);

/// Each batch of 8 photos, with one box and two crops of the box, adds 16 keys, so the queue is full after three
/// batches.
const MORE: &str =
    "data.edges.copies=2 method.queue_size=40 method.momentum=0.5 train.freeze=['textual','textual_proj']";

#[test]
fn a_run_with_a_queue_resumes_with_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let more = format!("{MORE} train.checkpoint_every=3 optim.accumulate=2");
    let straight = folder.path().join("straight");
    let (_, losses) = run(&mut fresh("hcl", &straight, &more), u64::MAX);
    assert!(losses[1..].iter().all(|loss| *loss > 0.0), "{losses:?}");
    let stored = load_weights(&latest_checkpoint(&straight).unwrap().join(MOMENTUM)).unwrap();
    assert_eq!(stored["queue"].shape, [40, 16]);

    // One run is stopped after five steps. Another is killed after seven, one step after a checkpoint.
    let stopped = folder.path().join("stopped");
    run(&mut fresh("hcl", &stopped, &more), 5);
    let killed = folder.path().join("killed");
    let mut trainer = fresh("hcl", &killed, &more);
    let died = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        trainer.run(&AtomicBool::new(false), &mut |event: &Event<'_>| {
            if let Event::Step(record) = event {
                assert!(record.step < 7, "the machine dies here");
            }
        })
    }));
    assert!(died.is_err());
    drop(trainer);
    for (out, step) in [(&stopped, 5), (&killed, 6)] {
        let mut resumed = Trainer::resume(out, squares(), &Device::flex()).unwrap();
        assert_eq!(resumed.step(), step);
        assert_eq!(run(&mut resumed, u64::MAX).1, losses[step as usize..]);
        for (name, bytes) in newest(&straight) {
            assert!(bytes == newest(out)[&name], "{name} differs after {step} steps");
        }
    }
}

#[test]
fn the_encoder_is_the_average_of_the_trained_parameters() {
    let folder = tempfile::tempdir().unwrap();
    let mut trainer = fresh("hcl", folder.path(), MORE);
    let average = |trainer: &Trainer| trainer.momentum.as_ref().unwrap().params();
    let settings = MomentumSettings { momentum: 0.5, queue_size: 40 };
    let current = |trainer: &Trainer| MomentumEncoder::new(settings, &trainer.model).params();
    assert!(average(&trainer) == current(&trainer), "both start equal");
    run(&mut trainer, 2);
    let before = average(&trainer);
    run(&mut trainer, 3);
    let (after, model) = (average(&trainer), current(&trainer));
    let floats = |weights: &Weights, name: &str| weights[name].floats().unwrap().to_vec();
    for name in after.keys() {
        let [k, q, found] = [&before, &model, &after].map(|weights| floats(weights, name));
        let half = k.iter().zip(&q).map(|(k, q)| 0.5 * k + 0.5 * q);
        assert!(found.iter().zip(half).all(|(a, b)| (a - b).abs() <= 1e-6 * b.abs()), "{name}");
    }
    assert!(floats(&after, "model.visual_proj.weight") != floats(&model, "model.visual_proj.weight"));
    let texts = "model.textual_proj.weight";
    assert_eq!(floats(&after, texts), floats(&model, texts), "frozen parameters stay equal");
}

#[test]
fn a_damaged_momentum_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    run(&mut fresh("hcl", folder.path(), MORE), 4);
    let path = latest_checkpoint(folder.path()).unwrap().join(MOMENTUM);
    let whole = load_weights(&path).unwrap();
    let resumed = || Trainer::resume(folder.path(), squares(), &Device::flex());
    let numbers = |shape: Vec<usize>| WeightArray::f32(shape.clone(), vec![0.5; shape.iter().product()]);
    let changes: [(Change<'_>, [&str; 2]); 5] = [
        (&|it| _ = it.insert("queue".into(), numbers(vec![4, 15])), ["`queue` has shape [4, 15]", "[N, 16]"]),
        (&|it| _ = it.insert("queue".into(), numbers(vec![41, 16])), ["[41, 16]", "from 1 to 40"]),
        (&|it| _ = it.remove("model.visual_proj.weight"), ["`model.visual_proj.weight` is missing", "[256]"]),
        (&|it| _ = it.insert("model.visual_proj.weight".into(), numbers(vec![3])), ["has shape [3]", "[256]"]),
        (&|it| _ = it.insert("model.other".into(), numbers(vec![3])), ["`model.other` is unknown", "parameters"]),
    ];
    for (change, words) in changes {
        let mut weights = whole.clone();
        change(&mut weights);
        save_weights(&weights, &path).unwrap();
        let message = resumed().err().unwrap().to_string();
        assert!(message.contains(MOMENTUM) && words.iter().all(|word| message.contains(word)), "{message}");
    }
    fs::remove_file(&path).unwrap();
    let message = resumed().err().unwrap().to_string();
    assert!(message.contains(MOMENTUM) && message.contains("missing"), "{message}");
    save_weights(&whole, &path).unwrap();
    assert!(resumed().is_ok());
}
