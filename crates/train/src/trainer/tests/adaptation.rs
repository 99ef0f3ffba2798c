//! Runs that fine-tune encoders: low-rank updates, layer-wise learning rates, gradual unfreezing.

use burn::module::Module as _;
use conifer_model::checkpoint::Weights;
use conifer_model::features::FeatureStage;

use super::*;

/// The weights of the checkpoint after `step` updates, with separate low-rank updates.
fn weights_at(run: &Path, step: u64) -> Weights {
    checkpoint::export(&checkpoint::load(&checkpoint_path(run, step), &Device::flex()).unwrap().0)
}

/// Names of the tower tensors that differ.
fn changed(before: &Weights, after: &Weights) -> Vec<String> {
    let in_tower = |name: &str| name.starts_with("visual.") || name.starts_with("textual.");
    after
        .iter()
        .filter(|(name, array)| in_tower(name) && before[*name] != **array)
        .map(|(name, _)| name.clone())
        .collect()
}

const LORA: &str = "model.visual_lora.rank=2 model.textual_lora={rank=3,blocks=1,targets=['attention','feed_forward']}";

#[test]
fn low_rank_updates_learn_alone_and_resume_with_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let more = format!("{LORA} train.keep=20 train.checkpoint_every=6");
    let (_, losses) = run(&mut fresh("hycoclip", &path("lora"), &more), u64::MAX);
    let (_, plain) = run(&mut fresh("hycoclip", &path("plain"), ""), 1);
    assert_eq!(losses[0], plain[0], "the first step starts from the same model");

    let (before, after) = (weights_at(&path("lora"), 0), weights_at(&path("lora"), 12));
    let found = changed(&before, &after);
    // Image tower: two blocks with two attention weights each. Text tower: one block with four. Each weight has two
    // low-rank matrices.
    assert_eq!(found.len(), 2 * (2 * 2 + 4));
    assert!(found.iter().all(|name| name.ends_with(".lora.a") || name.ends_with(".lora.b")), "{found:?}");
    assert!(found.contains(&"visual.blocks.0.attn.qkv.weight.lora.a".to_owned()));
    assert!(found.contains(&"textual.resblocks.1.mlp.c_fc.weight.lora.b".to_owned()));
    assert_ne!(before["visual_proj.weight"], after["visual_proj.weight"], "the projections learn");

    run(&mut fresh("hycoclip", &path("stopped"), &more), 5);
    let mut resumed = Trainer::resume(&path("stopped"), squares(), &Device::flex()).unwrap();
    run(&mut resumed, u64::MAX);
    assert!(newest(&path("stopped")) == newest(&path("lora")), "not the same bits after a stop");

    let manifest = latest_checkpoint(&path("stopped")).unwrap().join(checkpoint::MANIFEST);
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, text.replace("rank = 2\n", "rank = 99\n")).unwrap();
    let message = Trainer::resume(&path("stopped"), squares(), &Device::flex()).err().unwrap().to_string();
    assert!(message.contains("manifest.toml") && message.contains("`model.visual_lora.rank` is 99"), "{message}");
}

#[test]
fn a_model_is_opened_and_exported_with_merged_updates() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let mut trainer = fresh("clip", &path("run"), LORA);
    run(&mut trainer, u64::MAX);
    let images: Vec<_> = (0..3).map(|index| squares().get(index).unwrap().image.unwrap()).collect();
    let texts = ["a red square on white", "green around blue"];
    let points = |embedder: &Embedder| {
        let mut points = embedder.texts(&texts, &mut |_, _| {}).unwrap();
        points.extend(embedder.images(&images, Default::default(), &mut |_, _| {}).unwrap());
        points
    };
    let in_run = Embedder::new("now", trainer.model(), trainer.manifest(), trainer.tokenizer().clone()).unwrap();
    let opened = Embedder::open(&path("run"), &Device::flex()).unwrap();
    assert_eq!(in_run.fingerprint(), opened.fingerprint());
    assert!(opened.manifest().model.visual_lora.is_none() && opened.manifest().model.textual_lora.is_none());
    assert_eq!(points(&in_run), points(&opened));

    // The model of the run adds the updates to the weights in every forward pass.
    let model = trainer.model().valid();
    let batch = TokenBatch::from_rows(&opened.tokenize(&texts).unwrap(), trainer.tokenizer().end_of_text());
    let unmerged = model.embed_texts(conifer_model::model::tokens(&batch, &Device::flex())).unwrap();
    let unmerged: Vec<f32> = unmerged.into_data().iter::<f32>().collect();
    let merged = opened.texts(&texts, &mut |_, _| {}).unwrap();
    assert!(unmerged.iter().zip(&merged).all(|(a, b)| (a - b).abs() < 1e-5), "{unmerged:?} {merged:?}");

    // A saved copy and a published file have the plain architecture.
    checkpoint::save(&path("copy"), trainer.model(), &trainer.manifest(), Some(trainer.tokenizer())).unwrap();
    published::export(trainer.model(), &path("weights.safetensors"), checkpoint::Precision::F32).unwrap();
    let copy = checkpoint::load(&path("copy"), &Device::flex()).unwrap();
    assert!(copy.1.model.visual_lora.is_none());
    assert!(checkpoint::export(&copy.0).keys().all(|name| !name.contains("lora")));
    let exported = checkpoint::export(&copy.0);
    // The names and shapes do not determine the number of heads.
    let heads = published::ImportOptions { visual_heads: Some(2), textual_heads: Some(2), ..Default::default() };
    let file = checkpoint::open(&path("weights.safetensors"), &heads, &Device::flex()).unwrap();
    assert!(checkpoint::export(&file.model) == exported);
    assert_eq!(points(&Embedder::open(&path("copy"), &Device::flex()).unwrap()), points(&opened));

    // Another run starts from the merged weights and trains all of them.
    let more = format!(
        "model.init={} train.keep=9 train.checkpoint_every=1 train.steps=2 optim.warmup_steps=0",
        path("run").display()
    );
    run(&mut fresh("clip", &path("full"), &more), u64::MAX);
    let (before, after) = (weights_at(&path("full"), 0), weights_at(&path("full"), 2));
    assert!(before == exported);
    assert!(changed(&before, &after).contains(&"visual.blocks.0.attn.qkv.weight".to_owned()));
    // A run with new low-rank updates of the merged weights.
    run(&mut fresh("clip", &path("again"), &format!("{more} {LORA}")), u64::MAX);
    let found = changed(&weights_at(&path("again"), 0), &weights_at(&path("again"), 2));
    assert!(!found.is_empty() && found.iter().all(|name| name.contains(".lora.")), "{found:?}");
}

/// The features of the frozen tower are stored. The adapted tower is evaluated in every step.
#[test]
fn features_of_an_adapted_tower_are_not_stored() {
    let folder = tempfile::tempdir().unwrap();
    let towers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/towers");
    let sets = format!(
        "model.visual.init={} model.textual.init={} train.freeze=[\"visual\"] train.keep=9 train.checkpoint_every=6 \
         model.textual_lora.rank=2",
        towers.join("efficientnet_lite/model.pth").display(),
        towers.join("sentence_mean").display(),
    );
    let mut trainer = fresh("clip", folder.path(), &sets);
    let (mut photos, mut texts) = (0, 0);
    let count = &mut |event: &Event<'_>| match event {
        Event::Features { stage: FeatureStage::Photos, total, .. } => photos = *total,
        Event::Features { stage: FeatureStage::Texts, total, .. } => texts = *total,
        _ => {}
    };
    trainer.run(&AtomicBool::new(false), count).unwrap();
    assert!(photos > 10 && texts == 0, "{photos} photos, {texts} texts");
    let manifest = trainer.manifest();
    assert!(manifest.frozen.visual.is_some() && manifest.frozen.textual.is_none());
    let found = changed(&weights_at(folder.path(), 0), &weights_at(folder.path(), 12));
    assert!(!found.is_empty() && found.iter().all(|name| name.starts_with("textual.") && name.contains(".lora.")));
}

/// The first update of Adam moves each element with a gradient by the learning rate (eps is far below the gradients).
#[test]
fn the_learning_rate_falls_from_layer_to_layer() {
    let folder = tempfile::tempdir().unwrap();
    let more = "optim.layer_decay=0.5 optim.tower_lr_factor=0.4 optim.lr=1e-3 optim.weight_decay=0 optim.warmup_steps=0 \
                train.steps=1 optim.schedule=constant train.keep=9";
    run(&mut fresh("clip", folder.path(), more), u64::MAX);
    let (before, after) = (weights_at(folder.path(), 0), weights_at(folder.path(), 1));
    let largest = |name: &str| {
        let values = |weights: &Weights| weights[name].floats().unwrap().to_vec();
        let moved = values(&before).into_iter().zip(values(&after)).map(|(a, b)| f64::from((a - b).abs()));
        moved.fold(0.0, f64::max)
    };
    // Each tower has two blocks, so the last norm is layer 3.
    for (name, expected) in [
        ("visual_proj.weight", 1e-3),
        ("textual_proj.weight", 1e-3),
        ("visual.norm.weight", 0.4e-3),
        ("visual.blocks.1.mlp.fc1.weight", 0.2e-3),
        ("visual.blocks.0.attn.proj.weight", 0.1e-3),
        ("visual.patch_embed.proj.weight", 0.05e-3),
        ("textual.ln_final.bias", 0.4e-3),
        ("textual.resblocks.1.attn.in_proj_weight", 0.2e-3),
        ("textual.resblocks.0.mlp.c_proj.bias", 0.1e-3),
        ("textual.token_embed.weight", 0.05e-3),
    ] {
        // The difference of two f32 numbers around 1 is exact to 6e-8.
        let found = largest(name);
        assert!((found - expected).abs() < 0.02 * expected, "{name}: {found} instead of {expected}");
    }
}

#[test]
fn blocks_are_unfrozen_from_the_last_to_the_first_and_a_stop_changes_no_bit() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let more = "train.unfreeze.every=3 train.keep=20 train.checkpoint_every=3 optim.clip_norm=0.5";
    run(&mut fresh("clip", &path("straight"), more), u64::MAX);
    let at = |step| weights_at(&path("straight"), step);
    let between = |from: u64, to: u64| changed(&at(from), &at(to));
    assert!(between(0, 3).is_empty(), "both encoders are frozen at first");
    assert_ne!(at(0)["visual_proj.weight"], at(3)["visual_proj.weight"]);
    let learns = |names: &[String], layers: &[&str]| {
        assert!(names.iter().all(|name| layers.iter().any(|layer| name.contains(layer))), "{names:?}");
        for layer in layers {
            assert!(names.iter().any(|name| name.contains(layer)), "{layer} does not learn");
        }
    };
    let last = ["visual.norm.", "visual.blocks.1.", "textual.ln_final.", "textual.resblocks.1."];
    learns(&between(3, 6), &last);
    let first = [last.as_slice(), &["visual.blocks.0.", "textual.resblocks.0."]].concat();
    learns(&between(6, 9), &first);
    let all = [first.as_slice(), &["visual.cls_token", "visual.patch_embed.", "textual.token_embed."]].concat();
    let found = between(9, 12);
    for layer in all {
        assert!(found.iter().any(|name| name.contains(layer)), "{layer} does not learn");
    }
    assert!(!found.contains(&"visual.pos_embed".to_owned()), "a fixed table is never trained");

    // One run stops while a part is frozen, and the other exactly when a block is unfrozen.
    for stop in [4, 6] {
        let name = format!("stopped_{stop}");
        run(&mut fresh("clip", &path(&name), more), stop);
        run(&mut Trainer::resume(&path(&name), squares(), &Device::flex()).unwrap(), u64::MAX);
        assert!(newest(&path(&name)) == newest(&path("straight")), "stopped at {stop}: not the same bits");
    }

    let one = "train.unfreeze={every=3,towers=['textual']}";
    run(&mut fresh("clip", &path("one"), &format!("{one} train.keep=20 train.checkpoint_every=3")), 3);
    let found = changed(&weights_at(&path("one"), 0), &weights_at(&path("one"), 3));
    assert!(found.iter().any(|name| name == "visual.blocks.0.attn.qkv.weight"), "the other encoder learns at once");
    assert!(found.iter().all(|name| name.starts_with("visual.")), "{found:?}");
}

/// Recipe (timm 1.0.31): `timm.optim.param_groups_layer_decay(timm.create_model("vit_tiny_patch16_224", depth=4,
/// num_classes=3), layer_decay=0.5)`, printed `lr_scale` of each group with its names.
/// The final norm has 0.5 in timm; here it has 1, as in BEiT's code (`get_num_layer_for_vit`).
#[test]
fn the_rates_of_the_layers_are_those_of_timm() {
    let folder = tempfile::tempdir().unwrap();
    let trainer = fresh("clip", folder.path(), "optim.layer_decay=0.5 model.visual.depth=4");
    for (name, expected) in [
        ("cls_token", 0.03125),
        ("pos_embed", 0.03125),
        ("patch_embed.proj.bias", 0.03125),
        ("blocks.0.norm1.weight", 0.0625),
        ("blocks.1.attn.qkv.weight", 0.125),
        ("blocks.2.mlp.fc1.weight", 0.25),
        ("blocks.3.attn.proj.weight", 0.5),
    ] {
        assert_eq!(trainer.schedules.of(&format!("visual.{name}")).lr_factor, expected, "{name}");
    }
    assert_eq!(trainer.schedules.of("visual.norm.weight").lr_factor, 1.0);
    assert_eq!(trainer.schedules.of("visual_proj.weight").lr_factor, 1.0, "timm's head");
}

/// UNCHA has three temperatures. A run that starts from a checkpoint with one temperature keeps one, also after it was
/// stopped and resumed.
#[test]
fn a_method_with_three_temperatures_starts_from_a_checkpoint_with_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let softmaxes = |trainer: &Trainer| trainer.model().head.space().unwrap().logit_scale.dims();
    run(&mut fresh("hycoclip", &path("hycoclip"), ""), u64::MAX);
    let init = |name: &str| format!("model.init='{}'", path(name).display());
    for (out, more, count) in [("three", String::new(), 3), ("one", init("hycoclip"), 1)] {
        let mut trainer = fresh("uncha", &path(out), &more);
        assert_eq!(softmaxes(&trainer), [count]);
        run(&mut trainer, 5);
        let mut resumed = Trainer::resume(&path(out), squares(), &Device::flex()).unwrap();
        assert_eq!(softmaxes(&resumed), [count]);
        run(&mut resumed, u64::MAX);
        let (model, manifest) = checkpoint::load(&latest_checkpoint(&path(out)).unwrap(), &Device::flex()).unwrap();
        assert_eq!(model.head.space().unwrap().logit_scale.dims(), [count]);
        assert_eq!(manifest.head.temperatures.is_empty(), count == 1);
    }
    let refused = Trainer::new(config("meru", &path("meru"), &init("three")), squares(), &Device::flex());
    let message = refused.err().unwrap().to_string();
    assert!(message.contains("`head.temperatures`") && message.contains("model.new_projection"), "{message}");
}
