//! Runs on stored features of frozen encoders.

use super::*;
use crate::features::{FeatureStage, FeatureStore};

/// Frozen miniatures of EfficientNet-Lite and BERT with adapters.
fn frozen(out: &Path, method: &str, more: &str) -> Trainer {
    let towers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/towers");
    let sets = format!(
        "model.visual.init={} model.textual.init={} train.freeze=[\"visual\",\"textual\"] \
         model.visual_adapter={{input=\"standardise\",widths=[24],dropout=0.2}} \
         model.textual_adapter={{input=\"rms\",dropout=0.1}} data.min_box_pixels=4 {more}",
        towers.join("efficientnet_lite/model.pth").display(),
        towers.join("sentence_mean").display(),
    );
    fresh(method, out, &sets)
}

/// Runs to the end or until `stop_at` updates; returns the losses and the number of encoded photos and texts.
fn run_counting(trainer: &mut Trainer, stop_at: u64) -> (Vec<f64>, [usize; 2]) {
    let stop = AtomicBool::new(false);
    let (mut losses, mut encoded) = (Vec::new(), [0; 2]);
    trainer
        .run(&stop, &mut |event: &Event<'_>| match event {
            Event::Features { stage: FeatureStage::Photos, total, .. } => encoded[0] = *total,
            Event::Features { stage: FeatureStage::Texts, total, .. } => encoded[1] = *total,
            Event::Step(record) => {
                losses.push(record.loss);
                stop.store(record.step >= stop_at, Ordering::Relaxed);
            }
            _ => {}
        })
        .unwrap();
    (losses, encoded)
}

#[test]
fn stored_features_are_shared_and_change_no_bit_of_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let store = FeatureStore { folder: Some(folder.path().join("store")) };
    let path = |name: &str| folder.path().join(name);

    let mut first = frozen(&path("first"), "hycoclip", "");
    first.keep_features(store.clone());
    let (losses, encoded) = run_counting(&mut first, 99);
    // 57 readable samples, each with a photo and a box; equal photos are encoded once.
    assert!(encoded[0] > 50 && encoded[0] <= 114 && encoded[1] > 5, "{encoded:?}");
    assert_eq!(losses.len(), 12);
    let manifest = first.manifest();
    assert!(manifest.frozen.visual.is_some() && manifest.frozen.textual.is_some());

    // A run in memory, a run that finds all features, and a run that is stopped and resumed.
    let mut memory = frozen(&path("memory"), "hycoclip", "");
    assert_eq!(run_counting(&mut memory, 99), (losses.clone(), encoded));
    let mut second = frozen(&path("second"), "hycoclip", "");
    second.keep_features(store.clone());
    assert_eq!(run_counting(&mut second, 99), (losses.clone(), [0, 0]), "nothing is encoded twice");
    let mut part = frozen(&path("part"), "hycoclip", "");
    assert_eq!(run_counting(&mut part, 5).0, losses[..5]);
    drop(part);
    let mut rest = Trainer::resume(&path("part"), squares(), &Device::flex()).unwrap();
    assert_eq!(run_counting(&mut rest, 99).0, losses[5..]);
    for name in ["memory", "second", "part"] {
        let (found, expected) = (newest(&path(name)), newest(&path("first")));
        assert_eq!(found[WEIGHTS], expected[WEIGHTS], "{name}");
    }

    // The embedder of the finished model uses the same store and gives the same points with and without it.
    let plain = Embedder::open(&path("first"), &Device::flex()).unwrap();
    let stored = Embedder::open(&path("first"), &Device::flex()).unwrap().with_feature_store(&store);
    let texts = ["a red square on white", "a red square"];
    for _ in 0..2 {
        let points = |embedder: &Embedder| embedder.texts(&texts, &mut |_, _| {}).unwrap();
        let (a, b) = (points(&plain), points(&stored));
        assert!(a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 1e-5), "{a:?} {b:?}");
    }
    let images: Vec<_> = (0..3).map(|index| squares().get(index).unwrap().image.unwrap()).collect();
    for _ in 0..2 {
        let points = |embedder: &Embedder| embedder.images(&images, Default::default(), &mut |_, _| {}).unwrap();
        assert_eq!(points(&plain), points(&stored));
    }
}

#[test]
fn augmented_copies_are_drawn_and_chains_are_read_from_features() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let mut once = frozen(&path("once"), "clip", "");
    let (_, [photos, _]) = run_counting(&mut once, 1);
    let mut copies = frozen(&path("copies"), "clip", "data.augment.copies=3");
    let (losses, [more, _]) = run_counting(&mut copies, 99);
    assert_eq!(more, 3 * photos);
    assert!(losses.iter().all(|loss| loss.is_finite()));
    let mut chains = frozen(&path("chains"), "radial", "");
    assert!(run_counting(&mut chains, 99).0.iter().all(|loss| loss.is_finite()));
}

#[test]
fn settings_that_need_frozen_towers_are_refused_without_them() {
    let folder = tempfile::tempdir().unwrap();
    let message = |sets: &str| {
        let sets: Vec<String> = sets.split_whitespace().map(str::to_owned).collect();
        let mut config = config("clip", folder.path(), "");
        config.train.features = None;
        Config::parse("test.toml", &config.to_toml(), &sets).unwrap_err().to_string()
    };
    let found = message("model.visual_adapter.input=standardise");
    assert!(
        found.contains("`model.visual_adapter.input` is standardise; expected rms or none, or visual in"),
        "{found}"
    );
    let found = message("train.features=true");
    assert!(found.contains("`train.features` is true; expected visual or textual in train.freeze"), "{found}");
    let found = message("train.features=true train.freeze=[\"visual\"] method.kind=visual_hierarchies");
    assert!(found.contains("part-of relations between boxes"), "{found}");
    let found = message("model.init=x model.visual.init=y");
    assert!(found.contains("`model.visual.init` is y; expected no value"), "{found}");
}

#[test]
fn continuing_from_a_checkpoint_keeps_the_scaling_of_the_features() {
    let folder = tempfile::tempdir().unwrap();
    let mut first = frozen(&folder.path().join("first"), "clip", "");
    run_counting(&mut first, 99);
    let from = latest_checkpoint(&folder.path().join("first")).unwrap();
    // Other photos: cropped ones, whose features have another mean.
    let sets = format!(
        "model.init={} train.freeze=[\"visual\",\"textual\",\"visual_adapter\"] train.features=true \
         data.augment.crop={{kind=\"random_resized\",scale=[0.1,0.2]}} data.augment.copies=2",
        from.display()
    );
    let mut second = fresh("radial", &folder.path().join("second"), &sets);
    run_counting(&mut second, 99);
    let scaling = |run: &str| {
        let weights = fs::read(latest_checkpoint(&folder.path().join(run)).unwrap().join(WEIGHTS)).unwrap();
        let tensors = safetensors::SafeTensors::deserialize(&weights).unwrap();
        let names = tensors.names().into_iter().filter(|name| name.starts_with("visual_adapter")).map(str::to_owned);
        let mut found: Vec<_> = names.map(|name| (tensors.tensor(&name).unwrap().data().to_vec(), name)).collect();
        found.sort_by(|a, b| a.1.cmp(&b.1));
        found
    };
    assert!(scaling("first").iter().any(|(_, name)| name.contains("mean")));
    assert_eq!(scaling("first"), scaling("second"));
}
