//! Every key of a config: type, range, meaning; and what to say about a key that is none of them.

use std::collections::BTreeSet;

use toml::{Table, Value};

use super::Config;
use crate::encoders::{ENCODERS, TextualConfig, VisualConfig};
use crate::head::Side;
use crate::methods::METHODS;

/// One key, for listings.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct KeyRow {
    /// Dotted path; settings of one method are `method.<key> (<method>)`.
    pub key: String,
    /// Type and, where there is one, range.
    pub expected: String,
    /// The default, as TOML; empty where there is none.
    pub default: String,
    /// What it is for.
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
    for (section, encoder) in [("model.visual", Side::Image), ("model.textual", Side::Text)] {
        let presets = ENCODERS.iter().filter(|entry| entry.side == encoder).flat_map(|entry| (entry.presets)());
        let presets: Vec<_> = presets.collect();
        rows.push(KeyRow {
            key: format!("{section}.preset"),
            expected: format!("one of {}", presets.join(", ")),
            default: String::new(),
            meaning: "a named architecture; other keys beside it change it".to_owned(),
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

/// Whether every key of `table` is known; the message names the first that is not, and the nearest known one.
pub(super) fn check(table: &Table) -> Result<(), String> {
    let known = known();
    for (key, _) in leaves(Some(&Value::Table(table.clone()))) {
        let free = FREE.iter().any(|prefix| key.starts_with(prefix));
        if !free && !known.contains(&key) {
            return Err(format!("unknown key `{key}`; {}", nearest(&key, &known)));
        }
    }
    Ok(())
}

/// Below these a source has its own keys, and checks them itself.
const FREE: &[&str] = &["data.options.", "eval.options."];

/// The keys of all sections, encoders and methods; also the tables themselves, which may stand empty.
fn known() -> BTreeSet<String> {
    let mut known: BTreeSet<String> = KEYS.iter().map(|(key, ..)| (*key).to_owned()).collect();
    for entry in ENCODERS {
        for preset in (entry.presets)() {
            let (section, table) = match entry.side {
                Side::Image => {
                    ("model.visual", VisualConfig::preset(preset).ok().and_then(|it| Value::try_from(it).ok()))
                }
                Side::Text => {
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

/// The known key that was probably meant; else the keys of the same section.
fn nearest(key: &str, known: &BTreeSet<String>) -> String {
    let leaf = |key: &str| key.rsplit('.').next().unwrap_or_default().to_owned();
    let section = |key: &str| key.rsplit_once('.').map_or(String::new(), |(section, _)| section.to_owned());
    // A key in the wrong section is as likely as a slip of the pen.
    let effort = |candidate: &String| {
        let moved = edits(&leaf(key), &leaf(candidate)) + usize::from(section(key) != section(candidate));
        edits(key, candidate).min(moved)
    };
    if let Some(best) = known.iter().min_by_key(|candidate| effort(candidate))
        && effort(best) <= 2.max(leaf(key).len() / 3)
    {
        return format!("did you mean `{best}`?");
    }
    let mut parent = section(key);
    while !parent.is_empty() && !known.contains(&parent) {
        parent = section(&parent);
    }
    let siblings: Vec<String> = known.iter().filter(|it| section(it) == parent).map(|it| leaf(it)).collect();
    let place = if parent.is_empty() { "at the top".to_owned() } else { format!("in `{parent}`") };
    format!("known {place}: {}", siblings.join(", "))
}

/// Levenshtein distance: insertions, deletions and exchanges of one letter.
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

/// The dotted paths of all values that are no tables, and of tables that are empty.
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

/// (key, type and range, meaning). A test holds them to the structs.
#[rustfmt::skip]
pub(super) const KEYS: &[(&str, &str, &str)] = &[
    ("seed", "integer, 0 or more", "of the initial weights, the order of the data and the augmentation"),
    ("reference", "boolean", "as the released code where it differs from the papers; default of method.reference, head.reference and optim.reference"),

    ("data.kind", "string, a kind of source", "where samples come from (conifer data)"),
    ("data.path", "string, optional", "file, folder or pattern of shards, from the working directory"),
    ("data.split", "string, optional", "keep only this split"),
    ("data.roots", "list of strings", "folders, besides that of the data file, in which the photos may be that its records name"),
    ("data.options", "table", "settings of this kind of source"),
    ("data.augment.white_pad", "boolean", "first fit the whole photo into a white square, as HyCoCLIP prepares GRIT"),
    ("data.augment.crop.kind", "random_resized, random_window, center or squeeze", "how a photo becomes a square"),
    ("data.augment.crop.scale", "two numbers in [0, 1]", "random_resized: smallest and largest share of the area"),
    ("data.augment.crop.ratio", "two positive numbers", "random_resized: smallest and largest width / height"),
    ("data.augment.crop.margin", "number, 1 to 100", "random_window: the photo is squeezed to this multiple of the size first"),
    ("data.augment.hflip", "number in [0, 1]", "probability of exchanging left and right"),
    ("data.augment.vflip", "number in [0, 1]", "probability of exchanging top and bottom"),
    ("data.augment.rotation", "number, 0 to 180 degrees", "largest turn either way"),
    ("data.augment.jitter.brightness", "number, 0 or more", "factor uniform in [1 - x, 1 + x]"),
    ("data.augment.jitter.contrast", "number, 0 or more", "factor uniform in [1 - x, 1 + x]"),
    ("data.augment.jitter.saturation", "number, 0 or more", "factor uniform in [1 - x, 1 + x]"),
    ("data.augment.jitter.hue", "number in [0, 0.5]", "largest turn of the hue, as a share of the circle"),
    ("data.augment.blur.kernel", "odd integer up to 99", "pixels that a Gaussian blur covers each way"),
    ("data.augment.blur.sigma", "two positive numbers", "smallest and largest standard deviation, pixels"),
    ("data.augment.blur.probability", "number in [0, 1]", "how often it is applied"),
    ("data.augment.decode_at_scale", "number, 1 to 100, optional", "JPEG files are decoded at 1/2, 1/4 or 1/8 where so many pixels are left for each pixel of the result; not with white_pad or cache_pixels, nor for a photo whose boxes are cut"),
    ("data.caption", "random, first, with_phrase or tier", "which of a photo's captions"),
    ("data.chain.of", "tiers or taxon", "which chain of texts: caption tiers, or the names of the taxon"),
    ("data.chain.tiers", "integer, at least 2", "its links; of a longer chain the last ones"),
    ("data.chain.without", "integer, optional", "a link that is left out, counted from 0, the most general"),
    ("data.chain.negatives", "boolean", "whether each link has a wrong one beside it"),
    ("data.chain.hard", "boolean", "of a taxon: whether the wrong one is a sibling, or the nearest there is, instead of any"),
    ("data.edges.rule.containment", "number in (0, 1]", "a box is a part of another when this share of its area lies inside it"),
    ("data.edges.rule.min_area", "number in [0, 1]", "boxes of a smaller share of the photo are not used"),
    ("data.edges.rule.drop_groups", "boolean", "whether a box around a group is no part of another box"),
    ("data.edges.boxes", "integer, at least 1", "most boxes of a photo"),
    ("data.edges.cross", "integer, 0 or more", "boxes of other photos for each class of the boxes drawn"),
    ("data.edges.copies", "integer, at least 1", "crops of each box (hcl: 2)"),
    ("data.min_box_pixels", "integer, 0 or more", "smaller boxes are not used (published: 1024)"),
    ("data.limits.min_side", "integer", "photos with a shorter side are broken, pixels"),
    ("data.limits.max_aspect", "number", "longer side over shorter side at most"),
    ("data.limits.max_pixels", "integer", "width times height at most"),
    ("data.limits.max_bytes", "integer", "length of the file at most"),
    ("data.drop_last", "boolean", "leave the last, smaller batch of each epoch away"),
    ("data.max_broken_share", "number in [0, 1]", "a run stops when more than this share of the samples was broken"),
    ("data.cache_pixels.bytes", "integer", "keep decoded, shrunken photos in this much memory"),
    ("data.cache_pixels.shorter_side", "number, 1 to 100", "they are shrunk to this multiple of the image size"),
    ("data.workers", "integer; 0: one per core", "threads that read"),
    ("data.prefetch", "integer, at least 1", "batches that may be ready at a time"),

    ("tokenizer.kind", "train, file or clip_merges", "learn byte pairs from the captions, read a tokenizer.json, or read CLIP's merges"),
    ("tokenizer.path", "string", "file, clip_merges: the file"),
    ("tokenizer.vocab_size", "integer, at least 514", "train: largest number of tokens; clip_merges: number of tokens, 49,408 when absent"),

    ("model.init", "string, optional", "checkpoint, run, published model or its name on the hub to start from, in place of new towers"),
    ("model.init_visual", "string, optional", "checkpoint of MoCo v2 that the image encoder comes from"),
    ("model.new_projection", "boolean", "with model.init: new projections of dimension embed_dim, and a new head"),
    ("model.embed_dim", "integer, at least 1", "dimension of the embeddings, over all factors"),
    ("model.gradient_checkpointing", "boolean", "compute cheap activations again in the backward pass: the same numbers with a sixth (batch 8) to a fifth (batch 32) less memory of a ViT-S step, in about a tenth more time"),
    ("model.pixels.mean", "three numbers", "subtracted from pixels in [0, 1] (ImageNet)"),
    ("model.pixels.std", "three positive numbers", "pixels are divided by it"),

    ("manifold.kind", "a space: sphere, euclidean, lorentz, product_l1, product_l2, ...", "the space; absent: the method's own"),
    ("manifold.factors", "integer, a divisor of model.embed_dim", "factors of a product; absent: the method's own"),
    ("manifold.curv", "list of positive numbers", "first curvature of each factor; empty: head.curv"),

    ("root.kind", "origin, text, fixed_text, fixed_mean or learned; optional", "the apex of the cones; absent: the method's own"),
    ("root.text", "string", "the text of such a root"),

    ("head.curv", "number in head.curv_range", "first curvature c (sectional curvature -c) of every factor"),
    ("head.learn_curv", "boolean", "whether the curvature is learned"),
    ("head.curv_range", "two positive numbers", "smallest and largest curvature"),
    ("head.feature_scale", "positive number, optional", "first scale of the features; absent: 1/sqrt(embed_dim)"),
    ("head.learn_feature_scale", "boolean", "whether the scales are learned"),
    ("head.max_feature_scale", "positive number", "largest scale"),
    ("head.feature_scale_per_factor", "boolean", "one scale for each factor of a product instead of one for all"),
    ("head.temperature", "positive number", "first temperature of the contrast"),
    ("head.learn_temperature", "boolean", "whether it is learned"),
    ("head.min_temperature", "positive number", "smallest temperature"),
    ("head.reference", "boolean", "first values as in the released code"),

    ("method.kind", "a method (conifer methods)", "the objective; its own settings stand beside it"),

    ("optim.lr", "number, more than 0", "peak learning rate"),
    ("optim.betas", "two numbers in [0, 1)", "decay of AdamW's running means"),
    ("optim.eps", "number, more than 0", "added to the root of the second mean"),
    ("optim.weight_decay", "number, 0 or more", "decay of the weights, times the learning rate"),
    ("optim.schedule", "cosine, linear, one_cycle or constant", "learning rate after the warm-up"),
    ("optim.warmup_steps", "integer, at most train.steps", "steps of the linear rise at the start; not set, in a run of less than 4000 steps: a tenth of them"),
    ("optim.clip_norm", "number; 0: off", "largest norm over all gradients"),
    ("optim.accumulate", "integer, at least 1", "batches whose gradients are averaged for one step"),
    ("optim.reference", "boolean", "as the released code: norms, biases and per-factor scalars decay too, the first step has learning rate 0"),

    ("train.steps", "integer, at least 1", "updates of the optimiser"),
    ("train.batch_size", "integer, at least 2", "samples in a batch"),
    ("train.log_every", "integer, at least 1", "steps between two records in the logs"),
    ("train.checkpoint_every", "integer; 0: only at the end", "steps between two checkpoints"),
    ("train.keep", "integer, at least 1", "number of checkpoints that are kept"),
    ("train.freeze", "list of visual, textual, visual_proj, textual_proj, head", "parts that are not trained"),
    ("train.out", "string", "folder of the run"),

    ("eval.every", "integer; 0: never", "steps between two evaluations while training"),
    ("eval.benchmarks", "list of benchmarks (conifer benchmarks)", "what is measured then"),
    ("eval.kind", "string, optional", "kind of source; absent: that of data, with its path and options"),
    ("eval.path", "string, optional", "file, folder or pattern of shards; absent: data.path"),
    ("eval.split", "string, optional", "the held-out split"),
    ("eval.options", "table", "settings of the source, over those of data.options"),
    ("eval.tree", "string, optional", "file of `parent child` edges, for benchmarks that need a tree of classes"),
    ("eval.prompts", "string", "templates: a set that conifer eval names, or a file"),
    ("eval.crop", "center or squeeze", "how photos are cut"),
];
