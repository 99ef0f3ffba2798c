//! Runs on stored features of frozen encoders.

use conifer_data::loader::PhotoRegion;
use conifer_embeddings::Element;
use conifer_model::checkpoint::run_folder::MOMENTUM;
use conifer_model::features::{FeatureStage, FeatureStore};

use super::*;

/// A run on frozen miniatures of EfficientNet-Lite and BERT with adapters.
pub(super) fn frozen(out: &Path, method: &str, more: &str) -> Trainer {
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
    let store = FeatureStore::cache(Some(folder.path().join("store")));
    let path = |name: &str| folder.path().join(name);

    let mut first = frozen(&path("first"), "hycoclip", "");
    first.keep_features(store.clone());
    let (losses, encoded) = run_counting(&mut first, 99);
    // 57 readable samples, each with a photo and a box; equal photos are encoded once.
    assert!(encoded[0] > 50 && encoded[0] <= 114 && encoded[1] > 5, "{encoded:?}");
    assert_eq!(losses.len(), 12);
    let manifest = first.manifest();
    assert!(manifest.frozen.visual.is_some() && manifest.frozen.textual.is_some());

    // Compare with a run in memory, a run that finds all features in the store, and a run that is stopped and resumed.
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

/// Whole-part pairs of boxes, also of different photos, can be trained on stored features.
#[test]
fn part_of_edges_are_read_from_features() {
    let folder = tempfile::tempdir().unwrap();
    let store = FeatureStore::cache(Some(folder.path().join("store")));
    let path = |name: &str| folder.path().join(name);
    let more = "data.edges.copies=2 data.augment.copies=2 train.freeze=[\"visual\",\"textual\",\"textual_adapter\",\"textual_proj\"]";
    let mut first = frozen(&path("first"), "visual_hierarchies", more);
    first.keep_features(store.clone());
    let (losses, [photos, _]) = run_counting(&mut first, 99);
    // 57 readable samples, each with a photo and a box in two copies; equal photos are encoded once.
    assert!(photos > 100 && photos <= 228, "{photos}");
    assert!(losses.len() == 12 && losses.iter().all(|loss| loss.is_finite()));
    let mut part = frozen(&path("part"), "visual_hierarchies", more);
    part.keep_features(store.clone());
    assert_eq!(run_counting(&mut part, 5).0, losses[..5]);
    drop(part);
    let mut rest = Trainer::resume(&path("part"), squares(), &Device::flex()).unwrap();
    rest.keep_features(store);
    let (later, encoded) = run_counting(&mut rest, 99);
    assert_eq!((later, encoded[0]), (losses[5..].to_vec(), 0));
    assert!(newest(&path("part"))[WEIGHTS] == newest(&path("first"))[WEIGHTS]);
}

#[test]
fn half_precision_rounds_the_features_of_every_run_alike() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let half = FeatureStore { element: Some(Element::F16), ..FeatureStore::cache(Some(path("half"))) };
    let bank = |store: &FeatureStore| {
        let mut trainer = frozen(&path("unused"), "hycoclip", "");
        trainer.keep_features(store.clone());
        assert!(trainer.collect_features(&AtomicBool::new(false), &mut |_: &Event<'_>| {}).unwrap());
        trainer.features.take().unwrap()
    };
    let regions: Vec<PhotoRegion> = [0, 1, 7].map(|sample| PhotoRegion { sample, part: 0, copy: 0 }).to_vec();
    let values = |store: &FeatureStore| -> Vec<f32> {
        bank(store).regions(&regions, &Device::flex()).unwrap().into_data().iter::<f32>().collect()
    };
    let exact = values(&FeatureStore::default());
    let (first, second) = (values(&half), values(&half));
    assert_eq!(first, second, "the run that encodes reads the same rounded features as the next one");
    assert!(exact != first);
    for (rounded, exact) in first.iter().zip(&exact) {
        // The bound is half a unit in the last place at 11 significant bits. Subnormal numbers have a step of 2^-24.
        assert!((rounded - exact).abs() <= (exact.abs() * 2.0_f32.powi(-11)).max(2.0_f32.powi(-25)));
    }
    let report = bank(&half).report().clone();
    let [images, texts] = [report.images, report.texts];
    assert!(images.encoded == 0 && images.reused > 50 && texts.encoded == 0 && texts.reused > 5, "{report:?}");
    assert!(images.bytes > 0 && report.notes.is_empty());
    // A store without a number format reads the format of the existing files.
    assert_eq!(values(&FeatureStore::cache(Some(path("half")))), first);
}

/// Squares, a quarter of which share a photo that cannot be decoded.
struct Undecodable;

impl Source for Undecodable {
    fn name(&self) -> &str {
        "undecodable"
    }

    fn len(&self) -> usize {
        40
    }

    fn get(&self, index: usize) -> std::result::Result<Sample, Broken> {
        let mut sample = Squares { size: 40, name: "" }.get(index % 18)?;
        if index % 4 == 1 {
            // The data of this PNG of 20 x 20 pixels ends after three bytes, but its size can be read.
            let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\x14\0\0\0\x14\x08\x02\0\0\0".to_vec();
            bytes.extend(0x02eb_8a5a_u32.to_be_bytes());
            bytes.extend(b"\0\0\0\x64IDATxyz");
            sample.image = Some(ImageRef::Encoded(bytes.into()));
        }
        sample.id = index.to_string();
        Ok(sample)
    }

    fn views(&self) -> &[View] {
        &[View::Pair]
    }

    fn fingerprint(&self) -> String {
        "undecodable".to_owned()
    }
}

#[test]
fn copies_of_an_undecodable_photo_are_broken_and_do_not_end_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = frozen(&folder.path().join("run"), "clip", "data.max_broken_share=0.5").config().clone();
    config.train.out = folder.path().join("broken");
    let mut trainer = Trainer::new(config, Arc::new(Undecodable), &Device::flex()).unwrap();
    let (losses, _) = run_counting(&mut trainer, 99);
    assert_eq!(losses.len(), 12);
    let bank = trainer.features.as_ref().unwrap();
    let broken = &bank.report().broken;
    assert_eq!(broken.keys().copied().collect::<Vec<_>>(), (0..10).map(|it| 4 * it + 1).collect::<Vec<_>>());
    assert!(broken.values().all(|it| it.cause == Cause::UndecodableImage), "{broken:?}");
    // Equal photos are decoded once.
    assert!(broken[&5].to_string().contains("like an equal one before it"), "{}", broken[&5]);
    assert!(trainer.broken().broken() > 0);
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
    let found = message("train.feature_store=f");
    assert!(found.contains("`train.feature_store` is f; expected no value, or train.features = true"), "{found}");
    let found = message("model.init=x model.visual.init=y");
    assert!(found.contains("`model.visual.init` is y; expected no value"), "{found}");
}

#[test]
fn continuing_from_a_checkpoint_keeps_the_scaling_of_the_features() {
    let folder = tempfile::tempdir().unwrap();
    let mut first = frozen(&folder.path().join("first"), "clip", "");
    run_counting(&mut first, 99);
    let from = latest_checkpoint(&folder.path().join("first")).unwrap();
    // Random crops of the photos have features with another mean.
    let sets = format!(
        "model.init={} train.freeze=[\"visual\",\"textual\",\"visual_adapter\"] train.features=true \
         data.augment.crop={{kind=\"random_resized\",scale=[0.1,0.2]}} data.augment.copies=2",
        from.display()
    );
    let mut second = fresh("radial", &folder.path().join("second"), &sets);
    let (_, encoded) = run_counting(&mut second, 99);
    assert!(encoded[0] == 0 && encoded[1] > 5, "chains have no photos: {encoded:?}");
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

/// The regulariser of radial fine-tuning compares with the initial model, which also reads the stored features.
#[test]
fn radial_fine_tuning_reads_the_stored_features_for_both_models() {
    let folder = tempfile::tempdir().unwrap();
    let mut first = frozen(&folder.path().join("first"), "clip", "");
    run_counting(&mut first, 99);
    let from = latest_checkpoint(&folder.path().join("first")).unwrap();
    let losses = |features: bool| {
        let sets = format!(
            "model.init={} train.freeze=[\"visual\",\"textual\",\"visual_adapter\"] train.features={features}",
            from.display()
        );
        let mut trainer = fresh("radial", &folder.path().join(features.to_string()), &sets);
        assert!(trainer.config().train.steps > 3);
        run_counting(&mut trainer, 99).0
    };
    let (stored, encoded) = (losses(true), losses(false));
    assert_eq!(stored.len(), encoded.len());
    let close = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-4 * b.abs().max(1.0);
    assert!(stored.iter().zip(&encoded).all(close), "{stored:?} {encoded:?}");
}

#[test]
fn a_momentum_encoder_reads_stored_features() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let more = "data.edges.copies=2 method.queue_size=40";
    let (losses, encoded) = run_counting(&mut frozen(&path("whole"), "hcl", more), 99);
    assert!(encoded[0] > 0 && losses[1..].iter().all(|loss| *loss > 0.0), "{encoded:?} {losses:?}");
    run_counting(&mut frozen(&path("part"), "hcl", more), 5);
    let mut rest = Trainer::resume(&path("part"), squares(), &Device::flex()).unwrap();
    assert_eq!(run_counting(&mut rest, 99).0, losses[5..]);
    let (part, whole) = (newest(&path("part")), newest(&path("whole")));
    assert!([WEIGHTS, MOMENTUM].iter().all(|&file| part[file] == whole[file]));
}
