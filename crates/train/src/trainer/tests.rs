#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use burn::tensor::Device;
use conifer_data::{BBox, Broken, Cause, ImageRef, Phrase, Picture, Sample, Source, Tiers, View};
use conifer_geometry::Root;
use conifer_geometry_tensor::RootT;
use conifer_model::adapter::DropoutNoise;
use conifer_model::checkpoint::run_folder::{CHECKPOINTS, checkpoint_path};
use conifer_model::checkpoint::{WEIGHTS, published};
use conifer_model::embed::Embedder;
use conifer_model::encoders::VisualConfig;
use conifer_model::params::ParamKind;

use super::update::decays;
use super::*;
use crate::log::{METRICS_FILE, read_metrics};
use crate::methods::{METHODS, RowShare};

/// Squares of two colours with the colour names as captions. They are easy to learn and need no files.
struct Squares {
    size: usize,
    name: &'static str,
}

const COLOURS: [(&str, [u8; 3]); 5] =
    [("red", [200, 30, 30]), ("green", [30, 160, 40]), ("blue", [40, 60, 210]), ("white", [250; 3]), ("black", [5; 3])];

impl Source for Squares {
    fn name(&self) -> &str {
        self.name
    }

    fn len(&self) -> usize {
        self.size
    }

    fn get(&self, index: usize) -> std::result::Result<Sample, Broken> {
        if index % 19 == 18 {
            return Err(Broken::new(format!("{index}"), Cause::NoCaption, "every nineteenth"));
        }
        let (outer, inner) = (COLOURS[index % 5], COLOURS[(index / 5 + index + 1) % 5]);
        let side = 20 + index % 7;
        let mut rgb = Vec::new();
        for y in 0..side {
            for x in 0..side {
                let within = (side / 4..3 * side / 4).contains(&x) && (side / 4..3 * side / 4).contains(&y);
                rgb.extend(if within { inner.1 } else { outer.1 });
            }
        }
        let side = side as u32;
        let phrase = Phrase {
            text: format!("a {} square", inner.0),
            boxes: vec![BBox { x1: 0.2, y1: 0.2, x2: 0.8, y2: 0.8 }],
            ..Phrase::default()
        };
        Ok(Sample {
            id: index.to_string(),
            image: Some(ImageRef::Pixels(Arc::new(Picture { width: side, height: side, rgb }))),
            captions: vec![format!("a {} square on {}", inner.0, outer.0), format!("{} around {}", outer.0, inner.0)],
            phrases: vec![phrase],
            tiers: Some(Tiers {
                positive: ["a shape", "a square"]
                    .map(str::to_owned)
                    .into_iter()
                    .chain([format!("a {} square", inner.0), format!("a {} square on {}", inner.0, outer.0)])
                    .collect(),
                negative: ["a sound", "a circle", "no square", "a square alone"].map(str::to_owned).to_vec(),
            }),
            ..Sample::default()
        })
    }

    fn views(&self) -> &[View] {
        &[View::Pair, View::Boxes, View::Chain, View::Edges]
    }

    fn fingerprint(&self) -> String {
        format!("{}-{}", self.name, self.size)
    }
}

fn squares() -> Arc<dyn Source> {
    Arc::new(Squares { size: 60, name: "squares" })
}

/// The smallest experiment that uses every component: 12 steps, an epoch of 7 batches, two blocks in each tower.
fn config(method: &str, out: &Path, more: &str) -> Config {
    let text = format!(
        "seed = 11
         [data]
         max_broken_share = 0.2
         augment = {{ hflip = 0.5 }}
         [tokenizer]
         kind = 'train'
         vocab_size = 540
         [model]
         embed_dim = 16
         visual = {{ kind = 'vit', image_size = 16, patch = 8, width = 16, depth = 2, heads = 2 }}
         textual = {{ kind = 'text_transformer', vocabulary = 540, context = 10, width = 16, depth = 2, heads = 2 }}
         [method]
         kind = '{method}'
         [optim]
         lr = 3e-3
         warmup_steps = 3
         [train]
         steps = 12
         batch_size = 8
         log_every = 1
         checkpoint_every = 0"
    );
    let sets: Vec<String> = more.split_whitespace().map(str::to_owned).collect();
    let mut config = Config::parse("test.toml", &text, &sets).unwrap();
    config.train.out = out.to_owned();
    config
}

/// Runs until the end, or until `stop_at` updates. Returns the losses of the steps.
fn run(trainer: &mut Trainer, stop_at: u64) -> (Outcome, Vec<f64>) {
    let stop = AtomicBool::new(false);
    let mut losses = Vec::new();
    let outcome = trainer.run(&stop, &mut |event: &Event<'_>| {
        if let Event::Step(record) = event {
            losses.push(record.loss);
            stop.store(record.step >= stop_at, Ordering::Relaxed);
        }
    });
    (outcome.unwrap(), losses)
}

fn fresh(method: &str, out: &Path, more: &str) -> Trainer {
    Trainer::new(config(method, out, more), squares(), &Device::flex()).unwrap()
}

/// Every file of the newest checkpoint except the config, which holds the path of the run.
fn newest(run: &Path) -> BTreeMap<String, Vec<u8>> {
    let folder = latest_checkpoint(run).unwrap();
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let files =
        entries.map(|entry| (entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path()).unwrap()));
    files.filter(|(name, _)| name != CONFIG).collect()
}

#[test]
fn a_stopped_and_resumed_run_ends_with_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    // Accumulation, clipping, and a schedule that changes beta1 have state that a resumed run must restore.
    let more = "optim.accumulate=2 optim.clip_norm=0.5 optim.schedule=one_cycle optim.warmup_steps=0";
    let straight = folder.path().join("straight");
    let (outcome, losses) = run(&mut fresh("phyclip", &straight, more), u64::MAX);
    assert_eq!((outcome, losses.len()), (Outcome::Finished, 12));

    let broken = folder.path().join("stopped");
    let (outcome, first) = run(&mut fresh("phyclip", &broken, more), 5);
    assert_eq!((outcome, first.len()), (Outcome::Stopped, 5));
    let moved = folder.path().join("moved elsewhere");
    fs::rename(&broken, &moved).unwrap();
    let mut resumed = Trainer::resume(&moved, squares(), &Device::flex()).unwrap();
    assert_eq!(resumed.step(), 5);
    let (outcome, second) = run(&mut resumed, u64::MAX);
    assert_eq!(outcome, Outcome::Finished);

    assert_eq!([first, second].concat(), losses);
    let (straight, moved) = (newest(&straight), newest(&moved));
    assert_eq!(straight.keys().collect::<Vec<_>>(), moved.keys().collect::<Vec<_>>());
    for (name, bytes) in &straight {
        assert!(*bytes == moved[name], "{name} differs");
    }
}

#[test]
fn a_killed_run_resumes_with_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let more = "train.checkpoint_every=3";
    let straight = folder.path().join("straight");
    run(&mut fresh("hycoclip", &straight, more), u64::MAX);

    let killed = folder.path().join("killed");
    let mut trainer = fresh("hycoclip", &killed, more);
    let died = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        trainer.run(&AtomicBool::new(false), &mut |event: &Event<'_>| {
            if let Event::Step(record) = event {
                assert!(record.step < 8, "the machine dies here");
            }
        })
    }));
    assert!(died.is_err());
    drop(trainer);
    // Leftovers of a process that was killed during a save.
    fs::create_dir_all(killed.join("checkpoints/.step_00000009.writing")).unwrap();
    fs::write(killed.join("checkpoints/.step_00000009.writing/weights.safetensors"), b"torn").unwrap();

    let mut resumed = Trainer::resume(&killed, squares(), &Device::flex()).unwrap();
    assert_eq!(resumed.step(), 6);
    run(&mut resumed, u64::MAX);
    assert!(newest(&straight)[WEIGHTS] == newest(&killed)[WEIGHTS]);
    let steps: Vec<u64> = read_metrics(&killed.join(METRICS_FILE)).unwrap().iter().map(|record| record.step).collect();
    assert_eq!(steps, (1..=12).collect::<Vec<_>>(), "no step is logged twice or missing");
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    let folder = tempfile::tempdir().unwrap();
    let with_threads = |threads: usize| {
        let out = folder.path().join(threads.to_string());
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let losses = pool.install(|| run(&mut fresh("phyclip", &out, &format!("data.workers={threads}")), 10).1);
        (losses, newest(&out).remove(WEIGHTS).unwrap())
    };
    let (one, two) = (with_threads(1), with_threads(2));
    assert_eq!(one.0, two.0);
    assert!(one.1 == two.1);
}

/// Recipe: our own run, `cargo test -p conifer-train ten_steps -- --nocapture`, printed losses. The test detects
/// accidental changes. For an intended change, replace the numbers and give the reason in the commit message.
#[test]
fn ten_steps_have_the_recorded_losses() {
    let folder = tempfile::tempdir().unwrap();
    let recorded: [(&str, [f64; 10]); 4] = [
        ("clip", [4.751051, 3.600392, 2.731323, 2.348285, 2.131246, 2.148706, 2.134712, 2.086023, 2.101021, 2.118195]),
        ("meru", [4.164757, 4.454090, 2.879261, 3.100123, 2.507374, 2.699727, 2.614663, 2.351937, 2.452559, 2.693464]),
        (
            "hycoclip",
            [4.231772, 4.818668, 3.922927, 3.407656, 2.924739, 3.132645, 3.025774, 2.961801, 2.917788, 2.890309],
        ),
        (
            "phyclip",
            [4.255200, 4.290936, 3.850338, 3.361021, 3.510942, 3.412524, 3.389822, 3.221046, 3.209754, 3.093830],
        ),
    ];
    let found = recorded.map(|(method, _)| {
        let losses = run(&mut fresh(method, &folder.path().join(method), ""), 10).1;
        eprintln!("(\"{method}\", {losses:?}),");
        losses
    });
    for ((method, recorded), losses) in recorded.into_iter().zip(found) {
        for (step, (found, recorded)) in losses.iter().zip(recorded).enumerate() {
            assert!(
                (found - recorded).abs() < 1e-5 * recorded,
                "{method}, step {}: {found} against {recorded}",
                step + 1
            );
        }
    }
}

#[test]
fn every_trainable_parameter_gets_a_finite_gradient_that_is_not_zero() {
    let folder = tempfile::tempdir().unwrap();
    for entry in METHODS.iter().filter(|entry| View::Photo.is_in(entry.views) && !entry.views.contains(&View::Edges)) {
        let mut trainer = fresh(entry.name, &folder.path().join(entry.name), "");
        let batch = trainer.loader.next().unwrap().unwrap();
        let mut inputs = step::PassInputs {
            method: trainer.method.as_ref(),
            frozen: None,
            momentum: None,
            root: None,
            features: None,
            noise: DropoutNoise::new(0, 1, 0),
            end_of_text: trainer.tokenizer.end_of_text(),
            micro_batch: None,
            loss_rows: RowShare::default(),
            ranks: &trainer.ranks,
            device: &trainer.device,
        };
        let mut pass = step::pass(&trainer.model, &batch, &mut inputs, 1).unwrap();
        let mut sizes = ParamSizes::default();
        visit_params(&trainer.model, &mut sizes);
        let mut expected: Vec<String> =
            sizes.0.into_iter().filter(|(.., trained)| *trained).map(|(name, ..)| name).collect();
        expected.sort_unstable();
        let norms = pass.gradients.norms();
        assert_eq!(norms.iter().map(|(name, _)| *name).collect::<Vec<_>>(), expected, "{}", entry.name);
        for (name, norm) in norms {
            assert!(norm.is_finite() && norm > 0.0, "{}: gradient of `{name}` has norm {norm}", entry.name);
        }
    }
}

#[test]
fn the_loss_falls() {
    let folder = tempfile::tempdir().unwrap();
    for entry in METHODS.iter().filter(|entry| View::Photo.is_in(entry.views) && !entry.views.contains(&View::Edges)) {
        let more = "train.steps=300 optim.warmup_steps=4 train.batch_size=16";
        let (_, losses) = run(&mut fresh(entry.name, &folder.path().join(entry.name), more), u64::MAX);
        let mean = |losses: &[f64]| losses.iter().sum::<f64>() / losses.len() as f64;
        let (start, end) = (mean(&losses[..3]), mean(&losses[losses.len() - 3..]));
        // A loss with negative terms may fall below zero.
        assert!(end < start - 0.2 * start.abs(), "{}: from {start} to {end}", entry.name);
    }
}

/// Radial fine-tuning of a trained CLIP: every kind of root, frozen towers, and resumed runs.
#[test]
fn fine_tuning_from_a_checkpoint_changes_only_trainable_parts() {
    let folder = tempfile::tempdir().unwrap();
    let clip = folder.path().join("clip");
    run(&mut fresh("clip", &clip, ""), u64::MAX);
    let before = checkpoint::load(&latest_checkpoint(&clip).unwrap(), &Device::flex()).unwrap().0;
    let before = checkpoint::export(&before);
    let changed = |run: &Path| -> BTreeMap<String, bool> {
        let model = checkpoint::load(&latest_checkpoint(run).unwrap(), &Device::flex()).unwrap().0;
        checkpoint::export(&model).into_iter().map(|(name, array)| (name.clone(), array != before[&name])).collect()
    };
    let init = format!("model.init={}", clip.display());
    let freeze = "train.freeze=['visual','visual_proj','head']";
    for root in ["text", "fixed_text", "fixed_mean", "origin", "learned"] {
        let out = folder.path().join(root);
        let more = format!("{init} {freeze} root.kind={root} train.checkpoint_every=5");
        let mut trainer = fresh("radial", &out, &more);
        assert_eq!(trainer.config().model.textual.reads().vocabulary, trainer.tokenizer().vocab_size());
        run(&mut trainer, u64::MAX);
        for (name, changed) in changed(&out) {
            let trained = name.starts_with("textual.") && name != "textual.attn_mask" || name == "textual_proj.weight";
            assert_eq!(changed, trained, "root {root}: {name}");
        }
        let manifest = trainer.manifest();
        assert_eq!(manifest.root.is_some(), ["fixed_text", "fixed_mean", "learned"].contains(&root), "{root}");
        // The evaluation must use the same root as the training.
        let apex = match root {
            "text" => Some(Apex::Text(String::new())),
            "origin" => Some(Apex::Origin),
            _ => None,
        };
        assert_eq!(manifest.apex, apex, "{root}");
        let used = trainer.model().head.space().unwrap().root;
        let measured = Embedder::open(&out, &Device::flex()).unwrap().root().unwrap();
        match (used, measured) {
            (RootT::Origin, Root::Origin) => assert_eq!(root, "origin"),
            (RootT::Origin, Root::Point(_)) => assert_eq!(root, "text"),
            (RootT::Point(used), Root::Point(measured)) => {
                let used: Vec<f64> = used.into_data().iter::<f64>().collect();
                assert!(used.iter().zip(&measured).all(|(a, b)| (a - b).abs() < 1e-6), "{root}: {used:?} {measured:?}");
            }
            (used, measured) => panic!("{root}: trained with {used:?}, measured with {measured:?}"),
        }

        let stopped = folder.path().join(format!("{root}_stopped"));
        run(&mut fresh("radial", &stopped, &more), 7);
        run(&mut Trainer::resume(&stopped, squares(), &Device::flex()).unwrap(), u64::MAX);
        assert!(newest(&stopped) == newest(&out), "root {root}: not the same bits after a stop");
    }

    let out = folder.path().join("eukarya");
    run(&mut fresh("radial", &out, &format!("{init} {freeze} root.text=Eukarya")), u64::MAX);
    let embedder = Embedder::open(&out, &Device::flex()).unwrap();
    let text = |text: &str| -> Vec<f64> {
        embedder.texts(&[text], &mut |_, _| {}).unwrap().into_iter().map(f64::from).collect()
    };
    let near = |root: Root, text: Vec<f64>| matches!(root, Root::Point(at) if at.iter().zip(text).all(|(a, b)| (a - b).abs() < 1e-6));
    assert!(near(embedder.root().unwrap(), text("Eukarya")));
    assert!(near(Embedder::open(&out, &Device::flex()).unwrap().with_root_text("").root().unwrap(), text("")));

    // "Only learning root": the towers stay the same, the root changes.
    let out = folder.path().join("only_root");
    let freeze = "train.freeze=['visual','visual_proj','textual','textual_proj','head']";
    let mut trainer = fresh("radial", &out, &format!("{init} {freeze} root.kind=learned method.terms.prior=false"));
    let first = trainer.manifest().root.unwrap();
    run(&mut trainer, u64::MAX);
    assert!(changed(&out).values().all(|changed| !changed));
    assert_ne!(trainer.manifest().root.unwrap(), first);

    let out = folder.path().join("nothing");
    let mut trainer = fresh("radial", &out, &format!("{init} {freeze} method.terms.prior=false root.kind=fixed_text"));
    let message = trainer.run(&AtomicBool::new(false), &mut |_: &Event<'_>| {}).unwrap_err().to_string();
    assert!(message.contains("train.freeze"), "{message}");
}

/// Starts from a folder in the layout of Hugging Face, with the tokenizer of the folder or else of the config.
#[test]
fn fine_tuning_starts_from_a_published_model() {
    let folder = tempfile::tempdir().unwrap();
    let clip = folder.path().join("clip");
    let visual = "{kind='clip_vit',image_size=16,patch=8,width=16,depth=2,heads=2,activation='gelu'}";
    run(&mut fresh("clip", &clip, &format!("model.visual={visual} model.textual.activation=gelu")), u64::MAX);
    let newest_clip = latest_checkpoint(&clip).unwrap();
    let (model, manifest) = checkpoint::load(&newest_clip, &Device::flex()).unwrap();
    let tokenizer = checkpoint::load_tokenizer(&newest_clip, &manifest).unwrap();
    let published = folder.path().join("published");
    published::export_folder("hf-clip", &model, &manifest, Some(&tokenizer), &published).unwrap();

    let start = |init: &Path, name: &str, more: &str| {
        let more = format!("model.init={} train.checkpoint_every=5 {more}", init.display());
        Trainer::new(config("radial", &folder.path().join(name), &more), squares(), &Device::flex())
    };
    let towers = |trainer: &Trainer| {
        let weights = checkpoint::export(trainer.model()).into_iter();
        weights.filter(|(name, _)| name.starts_with("visual") || name.starts_with("textual")).collect::<Vec<_>>()
    };
    let ours = start(&clip, "ours", "").unwrap();
    let mut theirs = start(&published, "theirs", "").unwrap();
    assert!(towers(&ours) == towers(&theirs), "not the weights that were published");
    run(&mut theirs, u64::MAX);
    run(&mut start(&published, "stopped", "").unwrap(), 7);
    let stopped = folder.path().join("stopped");
    run(&mut Trainer::resume(&stopped, squares(), &Device::flex()).unwrap(), u64::MAX);
    assert!(newest(&stopped) == newest(&folder.path().join("theirs")), "not the same bits after a stop");

    let elsewhere = folder.path().join("tokenizer.json");
    fs::rename(published.join("tokenizer.json"), &elsewhere).unwrap();
    let message = start(&published, "without", "").err().unwrap().to_string();
    assert!(message.contains("tokenizer.kind") && message.contains("clip_merges"), "{message}");
    let file = format!("tokenizer={{kind='file',path='{}'}}", elsewhere.display());
    let given = start(&published, "given", &file).unwrap();
    assert!(towers(&given) == towers(&ours));
    let message = start(&folder.path().join("absent"), "absent", "").err().unwrap().to_string();
    assert!(message.contains("absent"), "{message}");
}

/// Training on photos and boxes alone: from the towers of a CLIP with a new projection and from a MoCo ResNet, with
/// resumed runs.
#[test]
fn image_only_training_starts_from_a_checkpoint_or_from_moco() {
    let folder = tempfile::tempdir().unwrap();
    let clip = folder.path().join("clip");
    run(&mut fresh("clip", &clip, ""), u64::MAX);
    let mut starts =
        vec![("clip", format!("model.init={} model.new_projection=true model.embed_dim=8", clip.display()))];
    let moco = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/goldens/models/moco_v2_resnet/checkpoint.pth.tar");
    match Path::new(moco).exists() {
        true => starts.push(("moco", format!("model.init_visual={moco} model.embed_dim=8"))),
        false => eprintln!("partly skipped: ../shared/goldens/models not found"),
    }
    for method in ["visual_hierarchies", "hcl"] {
        for (name, start) in &starts {
            let out = |kind: &str| folder.path().join(format!("{method}_{name}_{kind}"));
            let more =
                format!("{start} train.freeze=['textual','textual_proj'] data.edges.copies=2 train.checkpoint_every=5");
            let mut trainer = fresh(method, &out("whole"), &more);
            run(&mut trainer, u64::MAX);
            assert_eq!(trainer.model().head.spec().dim, 8, "{method} {name}");
            assert_eq!(matches!(trainer.config().model.visual, VisualConfig::ResNet(_)), *name == "moco");
            run(&mut fresh(method, &out("stopped"), &more), 7);
            run(&mut Trainer::resume(&out("stopped"), squares(), &Device::flex()).unwrap(), u64::MAX);
            assert!(
                newest(&out("stopped")) == newest(&out("whole")),
                "{method} {name}: not the same bits after a stop"
            );
        }
    }
    let message = Trainer::new(
        config("hcl", &folder.path().join("no_init"), "model.new_projection=true"),
        squares(),
        &Device::flex(),
    );
    assert!(message.err().unwrap().to_string().contains("model.init to be set"));
    let mut both = config("hcl", &folder.path().join("both"), "");
    (both.model.init, both.model.init_visual) = (Some(clip), Some("x.pth".into()));
    let message = both.check().unwrap_err().to_string();
    assert!(message.contains("model.visual.init"), "{message}");
}

#[test]
fn events_and_logs_record_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let mut trainer = fresh("meru", folder.path(), "train.checkpoint_every=5 train.log_every=4 train.keep=2");
    let mut seen = Vec::new();
    trainer
        .run(&AtomicBool::new(false), &mut |event: &Event<'_>| {
            seen.push(match event {
                Event::Features { .. } => unreachable!("no tower is frozen"),
                Event::Started { step, steps, samples, batches_per_epoch, parameters } => {
                    assert!(*parameters > 10_000);
                    format!("started {step} {steps} {samples} {batches_per_epoch}")
                }
                Event::Step(record) => record.step.to_string(),
                Event::Checkpoint { step, path } => {
                    assert_eq!(*path, checkpoint_path(folder.path(), *step));
                    format!("saved {step}")
                }
                Event::Stopped { step, .. } => format!("stopped {step}"),
                Event::Finished { step, .. } => format!("finished {step}"),
            });
        })
        .unwrap();
    let expected = "started 0 12 60 7,saved 0,1,2,3,4,5,saved 5,6,7,8,9,10,saved 10,11,12,saved 12,finished 12";
    assert_eq!(seen.join(","), expected);

    let records = read_metrics(&folder.path().join(METRICS_FILE)).unwrap();
    assert_eq!(records.iter().map(|record| record.step).collect::<Vec<_>>(), [4, 8, 12]);
    let last = &records[2];
    assert_eq!((last.samples, last.epoch, last.eta_seconds), (96, 1, 0.0));
    assert!(last.broken > 0 && last.samples_per_second > 0.0 && last.gradient_norm > 0.0);
    assert_eq!(last.peak_rss_mb.is_some_and(|it| it > 1.0), cfg!(target_os = "linux"));
    assert!(last.terms.contains_key("contrastive") && last.terms.contains_key("entailment"), "{:?}", last.terms);
    for scalar in ["curv", "visual_alpha", "textual_alpha", "logit_scale"] {
        assert!(last.scalars[scalar].as_f64().unwrap() > 0.0, "{scalar}");
    }
    let remaining: Vec<_> =
        fs::read_dir(folder.path().join(CHECKPOINTS)).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert_eq!(remaining.iter().filter(|name| name.to_string_lossy().starts_with("step_")).count(), 2);
    assert!(Config::load(&folder.path().join(CONFIG), &[]).unwrap() == *trainer.config());
}

/// Measures the norm of the text embeddings; fails after `fails_after` updates.
struct MeasuringObserver {
    at: Vec<u64>,
    fails_after: u64,
}

impl Observer for MeasuringObserver {
    fn on(&mut self, _: &Event<'_>) {}

    fn evaluate(
        &mut self,
        now: &ModelSnapshot<'_>,
    ) -> Result<Vec<(String, f64)>, Box<dyn std::error::Error + Send + Sync>> {
        if now.step > self.fails_after {
            return Err("no photos left".into());
        }
        self.at.push(now.step);
        let embedder = Embedder::new("now", now.model, now.manifest.clone(), now.tokenizer.clone())?;
        let points = embedder.texts(&["a red square"], &mut |_, _| {})?;
        Ok(vec![("norm".to_owned(), points.iter().map(|x| f64::from(x * x)).sum::<f64>().sqrt())])
    }
}

#[test]
fn an_evaluation_is_logged_with_its_step_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let straight = folder.path().join("straight");
    run(&mut fresh("meru", &straight, "train.log_every=4"), u64::MAX);

    let measured = folder.path().join("measured");
    let mut observer = MeasuringObserver { at: Vec::new(), fails_after: u64::MAX };
    let mut trainer = fresh("meru", &measured, "train.log_every=4 eval.every=6");
    trainer.run(&AtomicBool::new(false), &mut observer).unwrap();
    assert_eq!(observer.at, [6, 12]);
    let records = read_metrics(&measured.join(METRICS_FILE)).unwrap();
    let logged: Vec<_> = records.iter().map(|record| (record.step, record.eval.contains_key("norm"))).collect();
    assert_eq!(logged, [(4, false), (6, true), (8, false), (12, true)]);
    assert!(records[1].eval["norm"].as_f64().unwrap() > 0.0);
    assert!(newest(&straight)[WEIGHTS] == newest(&measured)[WEIGHTS]);
}

#[test]
fn an_evaluation_that_fails_ends_the_run_after_a_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let mut trainer = fresh("meru", folder.path(), "eval.every=3");
    let mut observer = MeasuringObserver { at: Vec::new(), fails_after: 3 };
    let message = trainer.run(&AtomicBool::new(false), &mut observer).unwrap_err().to_string();
    assert_eq!(message, "train: the evaluation after step 6 failed: no photos left");
    assert_eq!(Trainer::resume(folder.path(), squares(), &Device::flex()).unwrap().step(), 6);
}

mod adaptation;
mod checkpointing;
mod ema;
mod faults;
mod features;
mod micro_batch;
mod momentum;
mod ranks;
mod vectors;
