#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use conifer_geometry::ManifoldKind;
use toml::{Table, Value};

use super::*;

fn parse(text: &str) -> Result<Config> {
    Config::parse("test.toml", text, &[])
}

fn message(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

#[test]
fn an_empty_config_resolves_to_the_defaults() {
    let config = parse("").unwrap();
    assert_eq!(config.manifold.kind, Some(ManifoldKind::ProductL1));
    assert_eq!(config.manifold.factors, Some(8));
    assert_eq!(config.method.settings["entailment_weight"].as_float(), Some(0.2));
    assert_eq!(config.root.kind, Some(RootKind::Origin));
    assert_eq!(
        Config {
            manifold: Default::default(),
            method: Default::default(),
            root: Default::default(),
            train: TrainConfig { features: None, ..config.train },
            ..config
        },
        Config::default()
    );
}

#[test]
fn to_toml_round_trips() {
    for kind in crate::methods::METHODS.iter().map(|entry| entry.name) {
        let config = parse(&format!(
            "seed = 3\n[data]\npath = 'a/b'\nsplit = 'train'\n[data.options]\nx = 1\n[method]\nkind = '{kind}'"
        ))
        .unwrap();
        assert_eq!(Config::parse("again", &config.to_toml(), &[]).unwrap(), config, "{}", config.to_toml());
    }
}

#[test]
fn unknown_keys_are_reported_with_the_nearest_known_key() {
    for (text, expected) in [
        (
            "[optim]\nlr = 1e-3\nweight_decey = 0.1",
            "unknown key `optim.weight_decey`; did you mean `optim.weight_decay`?",
        ),
        ("[train]\nlr = 1e-3", "unknown key `train.lr`; did you mean `optim.lr`?"),
        ("sede = 1", "unknown key `sede`; did you mean `seed`?"),
        ("[data.augment]\nhflop = 0.5", "unknown key `data.augment.hflop`; did you mean `data.augment.hflip`?"),
        ("[method]\nkind = 'meru'\nentailment_wieght = 1", "did you mean `method.entailment_weight`?"),
        ("[model]\nvisual = { preset = 'vit_nano', patches = 4 }", "did you mean `model.visual.patch`?"),
        ("[train]\nhorsepower = 3", "unknown key `train.horsepower`; known in `train`: batch_size, checkpoint_every, "),
        ("[trainer]\nbatches = 3", "unknown key `trainer.batches`"),
    ] {
        let found = message(text);
        assert!(found.contains("test.toml") && found.contains(expected), "{found}");
    }
    let set = |set: &str| Config::parse("x", "", &[set.to_owned()]).unwrap_err().to_string();
    assert!(set("optim.larning_rate=1").contains("`optim.larning_rate`"));
    assert!(set("optim.lr").contains("`--set` is optim.lr"));
}

#[test]
fn a_key_of_another_method_is_refused() {
    let found = message("[method]\nkind = 'clip'\naperture_scale = { inter = 1.0 }");
    assert!(found.contains("method") && found.contains("aperture_scale"), "{found}");
}

#[test]
fn wrong_types_and_values_out_of_range_are_reported() {
    for (text, words) in [
        ("[optim]\nlr = 'fast'", ["optim.lr", "test.toml"]),
        ("[optim]\nbetas = [0.9]", ["optim.betas", "test.toml"]),
        ("[data]\ncaption = 'longest'", ["data.caption", "with_phrase"]),
        ("[optim]\nlr = 0", ["`optim.lr` is 0", "more than 0"]),
        ("[optim]\nlr = nan", ["`optim.lr` is NaN", "more than 0"]),
        ("[optim]\nbetas = [0.9, 1.0]", ["`optim.betas[1]` is 1", "less than 1"]),
        ("[optim]\nschedule = 'stairs'", ["schedule `stairs`", "cosine, linear, one_cycle, constant"]),
        (
            "[train]\nsteps = 10\n[optim]\nwarmup_steps = 4000",
            ["`optim.warmup_steps` is 4000", "at most train.steps = 10"],
        ),
        ("[train]\nbatch_size = 1", ["`train.batch_size` is 1", "at least 2"]),
        ("[train]\nmicro_batch = 0", ["`train.micro_batch` is 0", "1 to train.batch_size = 128"]),
        (
            "[train]\nbatch_size = 8\nmicro_batch = 9",
            ["`train.micro_batch` is 9; expected 1 to train.batch_size = 8", "one call for each view"],
        ),
        ("[train]\nema = 1", ["`train.ema` is 1", "less than 1"]),
        ("[train]\nema = -0.5", ["`train.ema` is -0.5", "0 or more"]),
        ("[train]\nloss_rows = 'mine'", ["train.loss_rows", "own"]),
        ("[train]\nmicro_batch = -1", ["train.micro_batch", "test.toml"]),
        ("[data]\nprefetch = 0", ["`prefetch` is 0", "1 to 10000 batches"]),
        ("[model]\nembed_dim = 60\n[manifold]\nfactors = 7", ["factors", "divisor"]),
        ("[method]\nkind = 'moco'", ["method `moco`", "known: clip, meru"]),
        ("[tokenizer]\nkind = 'words'", ["tokenizer", "clip_merges"]),
        ("seed = ", ["test.toml", "not valid TOML"]),
    ] {
        let found = message(text);
        assert!(words.iter().all(|word| found.contains(word)), "{text}: {found}");
    }
}

#[test]
fn overrides_are_typed_and_need_no_quotes() {
    let sets =
        ["optim.lr=1e-3", "data.path=/some where/x.jsonl", "optim.betas=[0.9, 0.95]", "method.kind=clip", "seed=7"];
    let config = Config::parse("x", "", &sets.map(str::to_owned)).unwrap();
    assert_eq!(config.optim.lr, 1e-3);
    assert_eq!(config.data.path.as_deref(), Some(Path::new("/some where/x.jsonl")));
    assert_eq!(config.optim.betas, [0.9, 0.95]);
    assert_eq!((config.method.kind.as_str(), config.seed), ("clip", 7));
    assert_eq!(config.manifold.kind, Some(ManifoldKind::Sphere));
}

#[test]
fn the_order_of_overrides_does_not_matter() {
    let text = "[data]\npath = 'old'\nsplit = 'train'\n[method]\nkind = 'meru'\nmin_radius = 0.2\n";
    let mut sets = ["data.path=new.jsonl", "data.kind=jsonl", "method.entailment_weight=0.5", "method.kind=hycoclip"];
    let read = |sets: &[&str]| {
        Config::parse("a.toml", text, &sets.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>()).unwrap()
    };
    let config = read(&sets);
    assert_eq!((config.data.path, config.data.split), (Some("new.jsonl".into()), None));
    assert_eq!(config.method.settings["entailment_weight"].as_float(), Some(0.5));
    assert_eq!(config.method.settings["min_radius"].as_float(), Some(0.1));
    let config = read(&sets);
    sets.reverse();
    assert!(read(&sets) == config);
}

#[test]
fn files_extend_files_key_by_key_and_a_new_kind_replaces_its_table() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write(
        "base.toml",
        "[optim]\nlr = 1e-3\nwarmup_steps = 5\n[method]\nkind = 'meru'\nmin_radius = 0.2\n[data]\nworkers = 3\npath = 'old'\n",
    );
    fs::create_dir(folder.path().join("sub")).unwrap();
    write("sub/middle.toml", "extends = '../base.toml'\n[optim]\nlr = 2e-3\n[method]\nmin_radius = 0.3\n");
    write("top.toml", "extends = 'sub/middle.toml'\nseed = 4\n");
    let config = Config::load(&folder.path().join("top.toml"), &[]).unwrap();
    assert_eq!((config.seed, config.optim.lr, config.optim.warmup_steps), (4, 2e-3, 5));
    assert_eq!(config.method.settings["min_radius"].as_float(), Some(0.3));

    write("other.toml", "extends = 'top.toml'\n[method]\nkind = 'clip'\n[data]\nkind = 'image_folder'\n");
    let config = Config::load(&folder.path().join("other.toml"), &[]).unwrap();
    assert!(!config.method.settings.contains_key("min_radius"));
    assert_eq!((config.data.workers, config.data.path), (3, None));

    write("a.toml", "extends = 'b.toml'");
    write("b.toml", "extends = 'a.toml'");
    let found = Config::load(&folder.path().join("a.toml"), &[]).unwrap_err().to_string();
    assert!(found.contains("leads back"), "{found}");
    write("c.toml", "extends = 'absent.toml'");
    let found = Config::load(&folder.path().join("c.toml"), &[]).unwrap_err().to_string();
    assert!(found.contains("absent.toml"), "{found}");
    write("d.toml", "extends = 'e.toml'");
    write("e.toml", "[optim]\nlrr = 1");
    let found = Config::load(&folder.path().join("d.toml"), &[]).unwrap_err().to_string();
    assert!(found.contains("e.toml: unknown key"), "the file with the typo is named: {found}");
}

#[test]
fn top_level_reference_sets_every_section() {
    let config = parse("reference = true\n[head]\nreference = false").unwrap();
    assert!(config.optim.reference && !config.head.reference);
    assert_eq!(config.method.settings["reference"].as_bool(), Some(true));
    assert_eq!(config.method.settings["box_candidates"].as_str(), Some("wholes"));
}

#[test]
fn the_space_defaults_to_that_of_the_method() {
    let space = |text: &str| parse(text).unwrap().space().unwrap();
    let dim = "[model]\nembed_dim = 32\n";
    assert_eq!(space(&format!("{dim}[method]\nkind = 'clip'")).kind.name(), "sphere");
    assert_eq!(space(&format!("{dim}[method]\nkind = 'hycoclip'")).kind.name(), "lorentz");
    let product = space(&format!("{dim}[method]\nkind = 'hycoclip'\n[manifold]\nkind = 'product_l2'"));
    assert_eq!((product.kind.name(), product.factors, product.dim), ("product_l2", 4, 32));
    let flat = space(&format!("{dim}[manifold]\nkind = 'lorentz'"));
    assert_eq!((flat.kind.name(), flat.factors), ("lorentz", 1));
}

#[test]
fn loader_settings_come_from_their_sections() {
    let config =
        parse("seed = 5\n[train]\nbatch_size = 6\n[model]\nvisual = { preset = 'vit_nano', image_size = 40 }").unwrap();
    let loader = config.loader(config.method().unwrap().views());
    assert_eq!(
        (loader.seed, loader.batch_size, loader.image_size, loader.views.as_slice()),
        (5, 6, 40, [View::Pair, View::Boxes].as_slice())
    );
    assert_eq!(loader.context, config.model.textual.reads().context);
    assert_eq!(config.architecture(777).unwrap().textual.reads().vocabulary, 777);
    let pairs = parse("[method]\nkind = 'clip'").unwrap();
    assert_eq!(pairs.loader(pairs.method().unwrap().views()).views, [View::Pair]);
}

/// Configs that use every key between them.
const EVERYTHING: [&str; 4] = [
    "[data]\npath = 'p'\nsplit = 's'\nroots = ['r']\noptions = { x = 1 }\ncache_pixels = { bytes = 5 }\nchain = { without = 1 }\naugment = { decode_at_scale = 1.5, blur = { kernel = 3, sigma = [1, 2] } }
     [tokenizer]\nkind = 'clip_merges'\npath = 'm'\nvocab_size = 600\n[head]\nfeature_scale = 0.5\n[manifold]\ncurv = [1, 1, 1, 1, 1, 1, 1, 1]
     [model]\ninit = 'runs/a'\n[eval]\nkind = 'jsonl'\npath = 'p'\nsplit = 's'\noptions = { x = 1 }\ntree = 't'",
    "[data.augment]\ncopies = 2\n[data.augment.crop]\nkind = 'random_window'\nmargin = 1.2\n[model]\ninit_visual = 'moco.pth.tar'\ninit_image_size = 64\ninit_textual = 'b'\ncrop = 'squeeze'\nvisual_adapter = {}\ntextual_adapter = {}\nvisual_lora = {}\ntextual_lora = {}\n[eval]\ncrop = 'center'",
    "[data.augment.crop]\nkind = 'random_resized'\n[train]\nmicro_batch = 5\nloss_rows = 'own'\nema = 0.99\nfreeze = ['visual']\nfeatures = true\nfeature_store = 's'\nunfreeze = { every = 5, towers = ['textual'] }",
    "[method]\nkind = 'uncha'",
];

#[test]
fn the_schema_lists_exactly_the_keys_that_exist() {
    fn paths(prefix: &str, value: &Value, found: &mut BTreeSet<String>) {
        let free = ["model.visual", "model.textual", "data.options", "eval.options"].contains(&prefix);
        match value {
            Value::Table(table) if !free => {
                for (key, value) in table {
                    let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
                    paths(&path, value, found);
                }
            }
            _ => {
                found.insert(prefix.to_owned());
            }
        }
    }
    let mut found = BTreeSet::new();
    for text in EVERYTHING {
        let table = Table::try_from(parse(text).unwrap()).unwrap();
        paths("", &Value::Table(table), &mut found);
    }
    found.retain(|key| !["model.visual", "model.textual"].contains(&key.as_str()));
    found.retain(|key| !key.starts_with("method.") || key == "method.kind");
    let rows = schema();
    let mut listed: BTreeSet<String> = rows.iter().map(|row| row.key.clone()).collect();
    listed.retain(|key| !["model.visual.", "model.textual.", "method."].iter().any(|it| key.starts_with(it)));
    found.remove("method.kind");
    assert_eq!(found, listed);
    for row in &rows {
        assert!(!row.expected.is_empty() && !row.meaning.is_empty(), "{row:?}");
        assert!(!row.meaning.contains("](") && !row.meaning.contains("[`"), "a link in the listing: {row:?}");
    }

    let row = |key: &str| rows.iter().find(|row| row.key == key).unwrap_or_else(|| panic!("no row {key}"));
    assert_eq!(row("optim.lr").default, "0.0005");
    assert_eq!(row("method.entailment_weight (hycoclip)").default, "0.1");
    assert!(row("model.visual.preset").expected.contains("vit_b16"));
}

#[test]
fn smoke_shrinks_the_experiment_and_keeps_the_method() {
    let text = "[method]\nkind = 'phyclip'\n[model]\nembed_dim = 512\nvisual = { preset = 'vit_b16' }\ntextual = { preset = 'text_l12_w512' }
                [data]\nkind = 'grit_processed'\npath = 'x'\n[tokenizer]\nkind = 'file'\npath = 'y'\n[train]\nsteps = 500000\nbatch_size = 768";
    let smoke = parse(text).unwrap().smoke().unwrap();
    assert_eq!((smoke.data.kind.as_str(), smoke.data.path.is_none()), ("toy", true));
    assert_eq!((smoke.train.steps, smoke.train.batch_size, smoke.model.embed_dim), (20, 8, 32));
    let space = smoke.space().unwrap();
    assert_eq!((space.kind.name(), space.factors), ("product_l1", 4));
    assert_eq!(smoke.method.kind, "phyclip");
    let three = parse("[method]\nkind = 'phyclip'\n[model]\nembed_dim = 96\n[manifold]\nfactors = 3").unwrap();
    assert_eq!(three.smoke().unwrap().space().unwrap().factors, 2);
}

#[test]
fn too_few_samples_are_rejected_with_a_valid_batch_size() {
    let config = parse("[train]\nbatch_size = 64").unwrap();
    config.check_samples(64).unwrap();
    let message = config.check_samples(60).unwrap_err().to_string();
    assert!(
        message.contains(
            "`train.batch_size` is 64; expected at most 60, the number of samples, such as --set train.batch_size=32"
        ),
        "{message}"
    );
    parse("[data]\ndrop_last = false").unwrap().check_samples(3).unwrap();
    assert!(config.check_samples(1).unwrap_err().to_string().contains("data of two samples or more"));
}

#[test]
fn a_warmup_that_is_not_set_fits_a_short_run() {
    assert_eq!(parse("[train]\nsteps = 300").unwrap().optim.warmup_steps, 30);
    assert_eq!(parse("[train]\nsteps = 5000").unwrap().optim.warmup_steps, 4000);
    assert_eq!(parse("[train]\nsteps = 300\n[optim]\nwarmup_steps = 7").unwrap().optim.warmup_steps, 7);
    let found = message("[train]\nsteps = 300\n[optim]\nwarmup_steps = 400");
    assert!(found.contains("expected at most train.steps = 300, such as --set optim.warmup_steps=30"), "{found}");
}

#[test]
fn the_data_kind_is_inferred_from_the_path() {
    let source = |text: &str, sets: &[&str]| {
        let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
        let config = Config::parse("test.toml", text, &sets).unwrap();
        (config.data.kind.clone(), config.data.path.clone(), config.data.options.len())
    };
    let named = |kind: &str, path: &str, options: usize| (kind.to_owned(), Some(path.into()), options);
    let table = "[data]\nkind = 'taxon_table'\npath = 'a.csv'\n[data.options]\nranks = ['a']";
    assert_eq!(source("[data]\npath = 'a.csv'", &[]), named("csv_pairs", "a.csv", 0));
    assert_eq!(source("", &["data.path=a.jsonl"]), named("jsonl", "a.jsonl", 0));
    // An existing kind that can read the new file stays, with its options. Otherwise kind and options are replaced.
    assert_eq!(source(table, &["data.path=b.csv"]), named("taxon_table", "b.csv", 1));
    assert_eq!(source(table, &["data.path=jsonl:b.jsonl"]), named("jsonl", "b.jsonl", 0));
    assert_eq!(source(table, &["data.path=b.csv", "data.kind=csv_pairs"]), named("csv_pairs", "b.csv", 0));
    let jsonl = "[data]\nkind = 'jsonl'\npath = 'a.jsonl'\n[data.options]\nx = 1";
    assert_eq!(source(jsonl, &["data.path=b.csv", "data.options.image=file"]), named("csv_pairs", "b.csv", 1));
    assert_eq!(source("[data]\nroots = ['p']", &[]).0, "toy");
}

#[test]
fn settings_for_fine_tuning_that_contradict_each_other_are_refused() {
    let features = "[data]\nkind = 'features'\n[data.options]\nimages = 'x.npy'\n";
    for (text, expected) in [
        ("[model.visual_lora]\nrank = 0", "`model.visual_lora.rank` is 0; expected at least 1"),
        ("[model.textual_lora]\nrnak = 4", "did you mean `model.textual_lora.rank`?"),
        ("[model.textual_lora]\nblocks = 'last'", "\"all\", a number of last blocks, or a list of block numbers"),
        ("[model.textual_lora]\ntargets = ['mlp']", "feed_forward"),
        (
            "[model.visual_lora]\nrank = 4\n[train]\nfreeze = ['visual']",
            "`train.freeze` is visual; expected no visual, because model.visual_lora already freezes all but",
        ),
        (&format!("{features}[model.visual_lora]\nrank = 4"), "this tower reads vectors and has no weights"),
        ("[optim]\nlayer_decay = 0", "`optim.layer_decay` is 0; expected more than 0, at most 1"),
        ("[optim]\nlayer_decay = 1.1", "`optim.layer_decay` is 1.1; expected more than 0, at most 1"),
        ("[optim]\ntower_lr_factor = 0", "`optim.tower_lr_factor` is 0; expected more than 0"),
        ("[train.unfreeze]\nblocks = 1", "missing field `every`"),
        ("[train.unfreeze]\nevery = 0", "`train.unfreeze.every` is 0; expected at least 1"),
        ("[train.unfreeze]\nevery = 9\nblocks = 0", "`train.unfreeze.blocks` is 0; expected at least 1"),
        (
            "[train]\nsteps = 9\nunfreeze = { every = 9 }",
            "`train.unfreeze.every` is 9; expected less than train.steps = 9, or nothing is unfrozen",
        ),
        (
            "[train.unfreeze]\nevery = 9\ntowers = []",
            "`train.unfreeze.towers` is empty; expected visual, textual or both",
        ),
        (
            "[train.unfreeze]\nevery = 9\ntowers = ['head']",
            "`train.unfreeze.towers` is head; expected visual, textual or both",
        ),
        (
            "[train]\nfreeze = ['textual']\nunfreeze = { every = 9 }",
            "`train.unfreeze.towers` is textual; expected an encoder that is not in train.freeze",
        ),
        (
            "[model.visual_lora]\nrank = 4\n[train.unfreeze]\nevery = 9",
            "`train.unfreeze.towers` is visual; expected an encoder that is not adapted by model.visual_lora",
        ),
        (
            "[train]\nfeatures = true\nunfreeze = { every = 9 }",
            "`train.features` is true; expected visual or textual in train.freeze",
        ),
        (
            "[model.visual_lora]\nrank = 4\n[train]\nfeatures = true",
            "`train.features` is true; expected visual or textual in train.freeze",
        ),
    ] {
        let found = message(text);
        assert!(found.contains(expected), "{text}: {found}");
    }
    let smoke =
        parse("[train.unfreeze]\nevery = 1000\n[model.textual_lora]\nblocks = [11]\n[model.visual_lora]\nrank = 4");
    assert!(smoke.is_err(), "an encoder cannot be adapted and unfrozen");
    let smoke =
        parse("[train.unfreeze]\nevery = 1000\ntowers = ['visual']\n[model.textual_lora]\nblocks = [11]").unwrap();
    let smoke = smoke.smoke().unwrap();
    assert_eq!(smoke.train.unfreeze.map(|it| it.every), Some(5));
    assert_eq!(smoke.model.textual_lora, None);
}

#[test]
fn onnx_encoders_are_frozen_and_need_their_own_tokenizer() {
    let text = "[model]\nvisual = { kind = 'onnx', file = 'a.onnx', image_size = 32 }";
    let config = parse(text).unwrap();
    assert_eq!(config.train.freeze, [ModelPart::Visual]);
    assert_eq!(config.train.features, Some(true));
    assert_eq!(Config::parse("again", &config.to_toml(), &[]).unwrap(), config);
    let text = "[model]\ntextual = { kind = 'onnx', file = 'a.onnx', context = 32, inputs = { ids = 'x' } }";
    let found = message(text);
    let expected = "`tokenizer.kind` is train; expected file with tokenizer.path, because an ONNX text encoder";
    assert!(found.contains(expected), "{found}");
    let config = parse(&format!("{text}\n[tokenizer]\nkind = 'file'\npath = 'tokenizer.json'")).unwrap();
    assert_eq!(config.train.freeze, [ModelPart::Textual]);
    let found = message("[model]\nvisual = { kind = 'onnx', image_size = 32 }");
    assert!(found.contains("missing field `file`"), "{found}");
    let found = message("[model]\nvisual = { kind = 'onnx', file = 'a', image_size = 32, layuot = 'nhwc' }");
    assert!(found.contains("did you mean `model.visual.layout`?"), "{found}");
}

#[test]
fn a_method_with_three_softmaxes_sets_three_temperatures() {
    let config = parse("[method]\nkind = 'uncha'").unwrap();
    assert_eq!(config.head.temperatures, [0.07, 0.05, 0.06]);
    let config = parse("[method]\nkind = 'uncha'\n[head]\ntemperatures = [0.1, 0.2, 0.3]").unwrap();
    assert_eq!(config.head.temperatures, [0.1, 0.2, 0.3]);
    let message = |method: &str| {
        let text = format!("[method]\nkind = '{method}'\n[head]\ntemperatures = [0.1, 0.2, 0.3]");
        parse(&text).unwrap_err().to_string()
    };
    assert!(message("meru").contains("`head.temperatures` is [0.1, 0.2, 0.3]"), "{}", message("meru"));
    assert!(message("meru").contains("meru has one temperature"), "{}", message("meru"));
}
