//! Every key of a config, with its type, range and meaning, and suggestions for unknown keys.

use std::collections::BTreeSet;

use conifer_model::encoders::{ENCODERS, TextualConfig, VisualConfig};
use conifer_model::head::Tower;
use toml::{Table, Value};

use super::Config;
use crate::methods::METHODS;

/// One key, for listings.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct KeyRow {
    /// Dotted path; settings of one method are `method.<key> (<method>)`.
    pub key: String,
    /// Type, and range if it has one.
    pub expected: String,
    /// The default, as TOML; empty if there is none.
    pub default: String,
    /// Purpose of the key.
    pub meaning: String,
}

/// Every key, in order of the sections.
pub fn schema() -> Vec<KeyRow> {
    let defaults = Config::default();
    let defaults = Table::try_from(&defaults).unwrap_or_default();
    let mut rows: Vec<KeyRow> = KEYS
        .iter()
        .map(|&(key, expected, meaning)| KeyRow {
            key: key.to_owned(),
            expected: expected.to_owned(),
            default: lookup(&defaults, key).map(Value::to_string).unwrap_or_default(),
            meaning: meaning.to_owned(),
        })
        .collect();
    for (section, tower) in [("model.visual", Tower::Image), ("model.textual", Tower::Text)] {
        let presets = ENCODERS.iter().filter(|entry| entry.tower == tower).flat_map(|entry| (entry.presets)());
        let presets: Vec<_> = presets.collect();
        rows.push(KeyRow {
            key: format!("{section}.init"),
            expected: "string, optional".to_owned(),
            default: String::new(),
            meaning: "take the encoder from this file, folder or name on the hub".to_owned(),
        });
        rows.push(KeyRow {
            key: format!("{section}.preset"),
            expected: format!("one of {}", presets.join(", ")),
            default: String::new(),
            meaning: "a named architecture; other keys override its values".to_owned(),
        });
        for (key, value) in leaves(lookup(&defaults, section)) {
            rows.push(KeyRow {
                key: format!("{section}.{key}"),
                expected: value.type_str().to_owned(),
                default: value.to_string(),
                meaning: "see the encoder's documentation".to_owned(),
            });
        }
    }
    rows.extend(ONNX_KEYS.iter().map(|&(key, expected, meaning)| KeyRow {
        key: key.to_owned(),
        expected: format!("{expected} (kind = \"onnx\")"),
        default: String::new(),
        meaning: meaning.to_owned(),
    }));
    for entry in &METHODS {
        for (key, value) in leaves((entry.resolve)(&Table::new()).ok().map(Value::Table).as_ref()) {
            rows.push(KeyRow {
                key: format!("method.{key} ({})", entry.name),
                expected: value.type_str().to_owned(),
                default: value.to_string(),
                meaning: format!("see docs/methods/{}.md", entry.name),
            });
        }
    }
    rows
}

/// Checks that every key of `table` is known. The message names the first unknown key and the nearest known one.
pub(super) fn check(table: &Table) -> Result<(), String> {
    let known = known();
    for (key, _) in leaves(Some(&Value::Table(table.clone()))) {
        let is_source_option = SOURCE_OPTIONS.iter().any(|prefix| key.starts_with(prefix));
        if !is_source_option && !known.contains(&key) {
            return Err(format!("unknown key `{key}`; {}", nearest(&key, &known)));
        }
    }
    Ok(())
}

/// Prefixes of keys that the data source checks.
const SOURCE_OPTIONS: &[&str] = &["data.options.", "eval.options."];

/// The keys of all sections, encoders and methods, and of the tables themselves, which may be empty.
fn known() -> BTreeSet<String> {
    let mut known: BTreeSet<String> = KEYS.iter().map(|(key, ..)| (*key).to_owned()).collect();
    known.extend(["model.visual.init", "model.textual.init"].map(str::to_owned));
    known.extend(ONNX_KEYS.iter().map(|(key, ..)| (*key).to_owned()));
    for entry in ENCODERS {
        for preset in (entry.presets)() {
            let (section, table) = match entry.tower {
                Tower::Image => {
                    ("model.visual", VisualConfig::preset(preset).ok().and_then(|it| Value::try_from(it).ok()))
                }
                Tower::Text => {
                    ("model.textual", TextualConfig::preset(preset).ok().and_then(|it| Value::try_from(it).ok()))
                }
            };
            known.insert(format!("{section}.preset"));
            known.extend(leaves(table.as_ref()).into_iter().map(|(key, _)| format!("{section}.{key}")));
        }
    }
    for entry in &METHODS {
        let settings = (entry.resolve)(&Table::new()).ok().map(Value::Table);
        known.extend(leaves(settings.as_ref()).into_iter().map(|(key, _)| format!("method.{key}")));
    }
    let sections: Vec<String> =
        known.iter().flat_map(|key| key.match_indices('.').map(|(dot, _)| key[..dot].to_owned())).collect();
    known.extend(sections);
    known
}

/// Suggests the known key that was probably meant, or else lists the keys of the same section.
fn nearest(key: &str, known: &BTreeSet<String>) -> String {
    let leaf = |key: &str| key.rsplit('.').next().unwrap_or_default().to_owned();
    let section = |key: &str| key.rsplit_once('.').map_or(String::new(), |(section, _)| section.to_owned());
    // A key in the wrong section costs as much as a typo of one character.
    let cost = |candidate: &String| {
        let moved = edits(&leaf(key), &leaf(candidate)) + usize::from(section(key) != section(candidate));
        edits(key, candidate).min(moved)
    };
    if let Some(best) = known.iter().min_by_key(|candidate| cost(candidate))
        && cost(best) <= 2.max(leaf(key).len() / 3)
    {
        return format!("did you mean `{best}`?");
    }
    let mut parent = section(key);
    while !parent.is_empty() && !known.contains(&parent) {
        parent = section(&parent);
    }
    let siblings: Vec<String> = known.iter().filter(|it| section(it) == parent).map(|it| leaf(it)).collect();
    let location = if parent.is_empty() { "at the top level".to_owned() } else { format!("in `{parent}`") };
    format!("known {location}: {}", siblings.join(", "))
}

/// Levenshtein distance: insertions, deletions and substitutions of one character.
pub fn edits(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &b) in to.iter().enumerate() {
            let exchange = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = exchange.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

/// The dotted paths of all values that are not tables, and of empty tables.
fn leaves(value: Option<&Value>) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    if let Some(Value::Table(table)) = value {
        for (key, value) in table {
            let below = leaves(Some(value));
            if below.is_empty() {
                found.push((key.clone(), value.clone()));
            }
            found.extend(below.into_iter().map(|(rest, value)| (format!("{key}.{rest}"), value)));
        }
    }
    found
}

fn lookup<'a>(table: &'a Table, path: &str) -> Option<&'a Value> {
    let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
    let value = table.get(first)?;
    match rest {
        None => Some(value),
        Some(rest) => lookup(value.as_table()?, rest),
    }
}

#[rustfmt::skip]
/// Keys of the encoders of kind `onnx` that no other encoder has.
const ONNX_KEYS: &[(&str, &str, &str)] = &[
    ("model.visual.file", "string", "ONNX file of the image encoder"),
    ("model.visual.input", "string, optional", "input of the pixels; absent: the only input"),
    ("model.visual.output", "string, optional", "output [B, width]; absent: the only output"),
    ("model.visual.layout", "nchw or nhwc", "order of the axes of the pixels"),
    ("model.textual.file", "string", "ONNX file of the text encoder; needs tokenizer.kind = \"file\""),
    ("model.textual.inputs.ids", "string, optional", "input of the token ids; absent: input_ids, or the only input"),
    ("model.textual.inputs.mask", "string, optional", "input of the mask of tokens; absent: attention_mask, if the file has it"),
    ("model.textual.inputs.types", "string, optional", "input of the segment types; absent: token_type_ids, if the file has it"),
    ("model.textual.output", "string, optional", "output [B, width], or [B, L, width] with pooling; absent: the only output"),
    ("model.textual.pooling", "first, mean or max; optional", "how the tokens of an output [B, L, width] become one row"),
    ("model.textual.normalize", "boolean", "divide the features by their Euclidean norm"),
];

/// (key, type and range, meaning). A test compares them with the structs.
#[rustfmt::skip]
pub(super) const KEYS: &[(&str, &str, &str)] = &[
    ("seed", "integer, 0 or more", "seed of the initial weights, the data order and the augmentation"),
    ("reference", "boolean", "follow the released code where it differs from the papers; default of method.reference, head.reference and optim.reference"),

    ("data.kind", "string, a kind of source", "source of the samples (conifer data)"),
    ("data.path", "string, optional", "file, folder or shard pattern, relative to the working directory"),
    ("data.split", "string, optional", "use only this split"),
    ("data.roots", "list of strings", "folders to search for the photos, besides that of the data file"),
    ("data.options", "table", "options of this kind of source"),
    ("data.augment.white_pad", "boolean", "pad the photo to a white square first, as HyCoCLIP prepares GRIT"),
    ("data.augment.crop.kind", "random_resized, random_window, center or squeeze", "how a photo is made square"),
    ("data.augment.crop.scale", "two numbers in [0, 1]", "random_resized: smallest and largest share of the area"),
    ("data.augment.crop.ratio", "two positive numbers", "random_resized: smallest and largest width / height"),
    ("data.augment.crop.margin", "number, 1 to 100", "random_window: the photo is squeezed to this multiple of the size first"),
    ("data.augment.copies", "integer, 0 or more", "with stored features: augmented copies of each photo and box; 0: one, with the crop of an evaluation"),
    ("data.augment.hflip", "number in [0, 1]", "probability of a horizontal flip"),
    ("data.augment.vflip", "number in [0, 1]", "probability of a vertical flip"),
    ("data.augment.rotation", "number, 0 to 180 degrees", "largest rotation in either direction"),
    ("data.augment.jitter.brightness", "number, 0 or more", "factor uniform in [1 - x, 1 + x]"),
    ("data.augment.jitter.contrast", "number, 0 or more", "factor uniform in [1 - x, 1 + x]"),
    ("data.augment.jitter.saturation", "number, 0 or more", "factor uniform in [1 - x, 1 + x]"),
    ("data.augment.jitter.hue", "number in [0, 0.5]", "largest shift of the hue, as a share of the colour circle"),
    ("data.augment.blur.kernel", "odd integer up to 99", "width and height of the Gaussian kernel, in pixels"),
    ("data.augment.blur.sigma", "two positive numbers", "smallest and largest standard deviation, pixels"),
    ("data.augment.blur.probability", "number in [0, 1]", "probability of the blur"),
    ("data.augment.decode_at_scale", "number, 1 to 100, optional", "decode JPEG files at 1/2, 1/4 or 1/8 if that leaves at least this many pixels per pixel of the result; not with white_pad or cache_pixels, nor for a photo whose boxes are cropped"),
    ("data.caption", "random, first, with_phrase or tier", "which of a photo's captions to use"),
    ("data.chain.of", "tiers or taxon", "which chain of texts to use: caption tiers, or the names of the taxon"),
    (
        "data.chain.tiers",
        "integer, at least 2",
        "number of links; of a longer chain the last ones are used; a taxon that lacks ranks has a shorter chain",
    ),
    ("data.chain.without", "integer, optional", "index of a link to leave out; 0 is the most general"),
    ("data.chain.negatives", "boolean", "whether each link has a wrong text"),
    ("data.chain.hard", "boolean", "for a taxon: whether the wrong text is a near taxon, instead of any"),
    (
        "data.chain.hard_kind",
        "sibling or cousin",
        "which near taxon: a sibling, or a child of a sibling of the parent; else the nearest taxon",
    ),
    ("data.edges.rule.containment", "number in (0, 1]", "a box is a part of another if this share of its area lies inside it"),
    ("data.edges.rule.min_area", "number in [0, 1]", "boxes with a smaller share of the photo's area are not used"),
    ("data.edges.rule.drop_groups", "boolean", "whether a box around a group is never part of another box"),
    ("data.edges.boxes", "integer, at least 1", "largest number of boxes per photo"),
    ("data.edges.cross", "integer, 0 or more", "boxes of other photos per class of the drawn boxes"),
    ("data.edges.copies", "integer, at least 1", "crops per box (hcl: 2)"),
    ("data.min_box_pixels", "integer, 0 or more", "smallest area of a box in pixels of its photo; crops of grit_processed are not checked again (HyCoCLIP's preparation of GRIT drops boxes up to 1024)"),
    ("data.limits.min_side", "integer", "shortest allowed side of a photo, in pixels"),
    ("data.limits.max_aspect", "number", "largest ratio of the longer to the shorter side"),
    ("data.limits.max_pixels", "integer", "largest width times height"),
    ("data.limits.max_bytes", "integer", "largest file size"),
    ("data.drop_last", "boolean", "drop the last, smaller batch of each epoch"),
    ("data.max_broken_share", "number in [0, 1]", "the run stops if more than this share of the samples is broken"),
    ("data.cache_pixels.bytes", "integer", "memory for a cache of decoded, downscaled photos"),
    ("data.cache_pixels.shorter_side", "number, 1 to 100", "shorter side of a cached photo, as a multiple of the image size"),
    ("data.workers", "integer; 0: one per core", "reader threads"),
    ("data.prefetch", "integer, at least 1", "batches to prepare ahead"),

    ("tokenizer.kind", "train, file or clip_merges", "train byte pairs on the captions, read a tokenizer.json, or read CLIP's merges"),
    ("tokenizer.path", "string", "file, clip_merges: the file"),
    ("tokenizer.vocab_size", "integer, at least 514", "train: largest number of tokens; clip_merges: number of tokens, 49,408 if absent"),

    ("model.init", "string, optional", "checkpoint, run, published model or its name on the hub to start from, instead of new towers"),
    ("model.init_visual", "string, optional", "the same as model.visual.init: file, folder or name on the hub to take the image encoder from (conifer encoders --long)"),
    ("model.init_textual", "string, optional", "the same as model.textual.init: folder or name on the hub to take the text encoder and its tokenizer from"),
    ("model.crop", "center or squeeze; optional", "crop of photos in an evaluation and for stored features; absent: that of the image encoder's checkpoint"),
    ("model.visual_adapter.input", "none, standardise or rms", "scaling of the image encoder's features; standardise needs a frozen encoder"),
    ("model.visual_adapter.widths", "list of integers", "hidden layers between image encoder and projection; empty: linear"),
    ("model.visual_adapter.activation", "gelu, relu, silu or tanh", "non-linearity of the hidden layers"),
    ("model.visual_adapter.dropout", "number in [0, 1)", "share of values set to zero in training, before each layer and the projection"),
    ("model.visual_adapter.residual", "boolean", "add the input of each hidden layer to its output"),
    ("model.textual_adapter.input", "none, standardise or rms", "as model.visual_adapter.input, for texts"),
    ("model.textual_adapter.widths", "list of integers", "as model.visual_adapter.widths, for texts"),
    ("model.textual_adapter.activation", "gelu, relu, silu or tanh", "as model.visual_adapter.activation, for texts"),
    ("model.textual_adapter.dropout", "number in [0, 1)", "as model.visual_adapter.dropout, for texts"),
    ("model.textual_adapter.residual", "boolean", "as model.visual_adapter.residual, for texts"),
    ("model.visual_lora.rank", "integer, at least 1", "rank of the low-rank updates of the image encoder (LoRA); its other parameters are frozen"),
    ("model.visual_lora.alpha", "number, more than 0", "the updates are multiplied by alpha / rank"),
    ("model.visual_lora.blocks", "all, a number of last blocks, or a list of block numbers", "blocks whose weights are updated; the first block is 0"),
    ("model.visual_lora.targets", "list of attention, feed_forward", "weights of a block that are updated"),
    ("model.textual_lora.rank", "integer, at least 1", "as model.visual_lora.rank, for the text encoder"),
    ("model.textual_lora.alpha", "number, more than 0", "as model.visual_lora.alpha, for the text encoder"),
    ("model.textual_lora.blocks", "all, a number of last blocks, or a list of block numbers", "as model.visual_lora.blocks, for the text encoder"),
    ("model.textual_lora.targets", "list of attention, feed_forward", "as model.visual_lora.targets, for the text encoder"),
    ("model.new_projection", "boolean", "with model.init: new projections of dimension embed_dim, and a new head"),
    ("model.embed_dim", "integer, at least 1", "dimension of the embeddings, over all factors"),
    ("model.gradient_checkpointing", "boolean", "recompute cheap activations in the backward pass: a ViT-S step needs a sixth (batch 8) to a fifth (batch 32) less memory and about a tenth more time, with the same results"),
    ("model.pixels.mean", "three numbers", "subtracted from pixels in [0, 1] (ImageNet)"),
    ("model.pixels.std", "three positive numbers", "divisor of the pixels after that"),

    ("manifold.kind", "a space: sphere, euclidean, lorentz, product_l1, product_l2, ...", "the space; absent: the method's default"),
    ("manifold.factors", "integer, a divisor of model.embed_dim", "number of factors of a product; absent: the method's default"),
    ("manifold.curv", "list of positive numbers", "initial curvature of each factor; empty: head.curv"),

    ("root.kind", "origin, text, fixed_text, fixed_mean or learned; optional", "the apex of the cones; absent: the method's default"),
    ("root.text", "string", "the text of a text, fixed_text or learned root"),

    ("head.curv", "number in head.curv_range", "initial curvature c (sectional curvature -c) of every factor"),
    ("head.learn_curv", "boolean", "whether the curvature is learned"),
    ("head.curv_range", "two positive numbers", "smallest and largest curvature"),
    ("head.feature_scale", "positive number, optional", "initial scale of the features; absent: 1/sqrt(embed_dim)"),
    ("head.learn_feature_scale", "boolean", "whether the scales are learned"),
    ("head.max_feature_scale", "positive number", "largest scale"),
    ("head.feature_scale_per_factor", "boolean", "one scale per factor of a product instead of one for all"),
    ("head.temperature", "positive number", "initial temperature of the contrastive loss"),
    ("head.temperatures", "list of three positive numbers, or empty", "initial temperatures of a method with three softmaxes (uncha): wholes, boxes, wholes with boxes as queries; absent: the method's values"),
    ("head.learn_temperature", "boolean", "whether the temperature is learned"),
    ("head.min_temperature", "positive number", "smallest temperature"),
    ("head.reference", "boolean", "use the initial values of the released code"),

    ("method.kind", "a method (conifer methods)", "the objective; its own settings go into the same table"),

    ("optim.lr", "number, more than 0", "peak learning rate"),
    ("optim.betas", "two numbers in [0, 1)", "decay rates of AdamW's running means; schedule one_cycle sets the first one itself"),
    ("optim.eps", "number, more than 0", "added to the square root of the second mean"),
    ("optim.weight_decay", "number, 0 or more", "weight decay, multiplied by the learning rate"),
    ("optim.schedule", "cosine, linear, one_cycle or constant", "learning rate after the warm-up"),
    ("optim.warmup_steps", "integer, at most train.steps", "length of the linear warm-up, in steps; if absent in a run of less than 4000 steps: a tenth of the run"),
    ("optim.clip_norm", "number; 0: off", "largest norm over all gradients"),
    ("optim.tower_lr_factor", "number, more than 0", "factor on the learning rate of both encoders"),
    ("optim.layer_decay", "number, more than 0, at most 1", "factor on the learning rate from each layer of an encoder to the one before it; 1: none"),
    ("optim.accumulate", "integer, at least 1", "batches whose gradients are averaged per step"),
    ("optim.reference", "boolean", "follow the released code: norms, biases and per-factor scalars are decayed too, and the first step has learning rate 0"),

    ("train.steps", "integer, at least 1", "number of optimiser updates"),
    ("train.batch_size", "integer, at least 2", "samples in a batch"),
    ("train.log_every", "integer, at least 1", "steps between two records in the logs"),
    ("train.checkpoint_every", "integer; 0: only at the end", "steps between two checkpoints"),
    ("train.keep", "integer, at least 1", "number of checkpoints to keep"),
    ("train.freeze", "list of visual, textual, visual_adapter, textual_adapter, visual_proj, textual_proj, head", "parts that are not trained"),
    ("train.unfreeze.every", "integer, at least 1", "steps between two unfreezings; before the first one the encoders are frozen"),
    ("train.unfreeze.blocks", "integer, at least 1", "blocks that become trainable at a time, from the last to the first; the embeddings count as the first"),
    ("train.unfreeze.towers", "list of visual, textual", "encoders that are unfrozen gradually"),
    ("train.features", "boolean, optional", "encode each photo, box and text once and train on the stored features of frozen encoders; absent: true if a frozen encoder comes from model.visual.init or model.textual.init, or is an ONNX model"),
    ("train.feature_store", "string, optional", "folder of the stored features, as conifer features --out writes it; features of another encoder in it are an error; absent: a cache of the user"),
    ("train.out", "string", "folder of the run"),

    ("eval.every", "integer; 0: never", "steps between two evaluations while training"),
    ("eval.benchmarks", "list of benchmarks (conifer benchmarks)", "benchmarks of an evaluation"),
    ("eval.kind", "string, optional", "kind of source; absent: that of data, with its path and options"),
    ("eval.path", "string, optional", "file, folder or pattern of shards; absent: data.path"),
    ("eval.split", "string, optional", "the held-out split"),
    ("eval.options", "table", "options of the source; they override data.options if eval.kind is absent"),
    ("eval.tree", "string, optional", "file of `parent child` edges, for benchmarks that need a tree of classes"),
    ("eval.prompts", "string", "prompt templates: a named set (conifer eval), or a file"),
    ("eval.crop", "center or squeeze; optional", "crop of the photos; absent: model.crop"),
];
