//! Runs with a moving average of the weights.

use conifer_model::checkpoint::run_folder::{MOMENTUM, TRAINED};
use conifer_model::checkpoint::{export, load_weights, save_weights};
use conifer_model::weight_array::WeightArray;

use super::*;
use crate::trainer::flat_params::flat_params;

#[test]
fn a_run_with_an_average_resumes_with_the_same_bits_and_trains_as_without() {
    let folder = tempfile::tempdir().unwrap();
    let adapters = "model.visual_adapter={dropout=0.1} model.textual_lora={rank=2,alpha=4}";
    for (method, more) in [
        ("phyclip", "optim.accumulate=2 optim.clip_norm=0.5".to_owned()),
        ("radial", format!("root.kind=learned train.micro_batch=3 {adapters}")),
        ("hcl", "data.edges.copies=2 method.queue_size=40 method.momentum=0.5".to_owned()),
        ("clip", "train.unfreeze={every=3,towers=['textual']}".to_owned()),
    ] {
        let path = |name: &str| folder.path().join(format!("{method} {name}"));
        let (_, without) = run(&mut fresh(method, &path("without"), &more), u64::MAX);
        let more = format!("{more} train.ema=0.9");
        let (_, losses) = run(&mut fresh(method, &path("straight"), &more), u64::MAX);
        assert_eq!(losses, without, "{method}: the average changes the training");
        run(&mut fresh(method, &path("stopped"), &more), 5);
        let mut resumed = Trainer::resume(&path("stopped"), squares(), &Device::flex()).unwrap();
        assert_eq!(resumed.config().train.ema, Some(0.9));
        assert_eq!(run(&mut resumed, u64::MAX).1, losses[5..], "{method}");
        let (straight, stopped) = (newest(&path("straight")), newest(&path("stopped")));
        assert!(straight.contains_key(TRAINED) && straight.contains_key(MOMENTUM) == (method == "hcl"));
        for (name, bytes) in &straight {
            assert!(*bytes == stopped[name], "{method}: {name} differs after a stop");
        }
        assert!(straight[WEIGHTS] != newest(&path("without"))[WEIGHTS], "{method}: the weights are the average");
    }
}

#[test]
fn the_published_weights_are_the_average() {
    let folder = tempfile::tempdir().unwrap();
    let mut trainer = fresh("meru", folder.path(), "train.ema=0.5 train.freeze=['textual']");
    let now = |trainer: &Trainer| flat_params(&trainer.model, "");
    let published = |trainer: &Trainer| flat_params(trainer.model(), "");
    assert!(now(&trainer) == published(&trainer), "both start equal");
    let mut expected = published(&trainer);
    for update in 1..=4 {
        run(&mut trainer, update);
        // The decay of updates 1 to 4 is (1 + t) / (10 + t), 5 / 14 at most, below the limit of 0.5.
        let decay = (1.0 + update as f32) / (10.0 + update as f32);
        let trained = now(&trainer);
        for (name, array) in &mut expected {
            let values = array.floats().unwrap().iter().zip(trained[name].floats().unwrap());
            let values: Vec<f32> = values.map(|(k, q)| decay * k + (1.0 - decay) * q).collect();
            *array = WeightArray::f32([values.len()], values);
        }
    }
    let found = published(&trainer);
    for (name, array) in &expected {
        let pairs = array.floats().unwrap().iter().zip(found[name].floats().unwrap());
        assert!(pairs.clone().all(|(a, b)| (a - b).abs() <= 1e-6 * a.abs().max(0.05)), "{name}");
    }
    let trained = now(&trainer);
    assert!(trained["visual_proj.weight"] != found["visual_proj.weight"] && trained["head.curv"] != found["head.curv"]);
    assert!(found.iter().filter(|(name, _)| name.starts_with("textual.")).all(|(name, array)| trained[name] == *array));

    // Checkpoint, embedder and evaluation use the average.
    let stored = checkpoint::load(&latest_checkpoint(folder.path()).unwrap(), &Device::flex()).unwrap().0;
    assert!(export(&stored) == export(trainer.model()));
    let points =
        Embedder::open(folder.path(), &Device::flex()).unwrap().texts(&["a red square"], &mut |_, _| {}).unwrap();
    let trained = Embedder::new("a", &trainer.model, trainer.manifest(), trainer.tokenizer().clone()).unwrap();
    assert_ne!(points, trained.texts(&["a red square"], &mut |_, _| {}).unwrap());
    let mut observer = AverageObserver { curv: None };
    trainer.config.eval.every = 1;
    trainer.config.train.steps = 5;
    trainer.run(&AtomicBool::new(false), &mut observer).unwrap();
    assert_eq!(observer.curv, Some(trainer.model().head.spec().curv));
    assert_ne!(observer.curv, Some(trainer.model.head.spec().curv));
}

/// Stores the curvature of the model that is evaluated.
struct AverageObserver {
    curv: Option<Vec<f64>>,
}

impl Observer for AverageObserver {
    fn on(&mut self, _: &Event<'_>) {}

    fn evaluate(
        &mut self,
        now: &ModelSnapshot<'_>,
    ) -> std::result::Result<Vec<(String, f64)>, Box<dyn std::error::Error + Send + Sync>> {
        assert_eq!(now.manifest.manifold.curv, now.model.head.spec().curv);
        self.curv = Some(now.model.head.spec().curv);
        Ok(Vec::new())
    }
}

#[test]
fn a_damaged_file_of_trained_parameters_is_named() {
    let folder = tempfile::tempdir().unwrap();
    run(&mut fresh("clip", folder.path(), "train.ema=0.9"), 2);
    let path = latest_checkpoint(folder.path()).unwrap().join(TRAINED);
    let refusal = || Trainer::resume(folder.path(), squares(), &Device::flex()).err().unwrap().to_string();
    let mut weights = load_weights(&path).unwrap();
    weights.remove("visual_proj.weight");
    save_weights(&weights, &path).unwrap();
    let message = refusal();
    assert!(message.contains(TRAINED) && message.contains("`visual_proj.weight` is missing"), "{message}");
    fs::remove_file(&path).unwrap();
    let message = refusal();
    assert!(message.contains(TRAINED) && message.contains("expected the parameters in training"), "{message}");
}
