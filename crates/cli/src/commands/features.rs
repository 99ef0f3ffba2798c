//! `conifer features`: encodes each photo, box and text of a data set once, into the store that training reads.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, bail, ensure};
use burn::tensor::Device;
use conifer_data::Source;
use conifer_model::checkpoint;
use conifer_model::checkpoint::published::ImportOptions;
use conifer_model::features::{FeatureBank, FeatureReport, FeatureRequest, FeatureStore, StorePurpose, model_features};
use conifer_model::model::Model;
use conifer_train::config::Config;
use conifer_train::frozen_features::config_features;
use serde_json::json;

use crate::arguments::{DataArgs, FeaturesArgs};
use crate::output::{note, print, print_json};
use crate::progress::FeatureBars;
use crate::request::{note_interrupted, open_source};
use crate::{cache, signal};

/// Maximum number of broken samples that the message names.
const NAMED: usize = 5;

pub(crate) fn run(args: FeaturesArgs, as_json: bool, device: &Device) -> anyhow::Result<()> {
    let data = args.data.clone().map(|data| DataArgs {
        data,
        split: args.split.clone(),
        data_options: args.data_options.clone(),
        roots: args.roots.clone(),
    });
    let source: Option<Arc<dyn Source>> = data.as_ref().map(open_source).transpose()?.map(Arc::from);
    let is_config = args.model.extension().is_some_and(|it| it.eq_ignore_ascii_case("toml"));
    let (model, request, folder) = if is_config {
        let config = Config::load(&args.model, &args.set)?;
        let source = match source {
            Some(source) => source,
            None => conifer_datasets::open(&config.source())?.into(),
        };
        let folder = config.train.feature_store.clone();
        let (model, request) = config_features(config, source, device)?;
        (model, request, folder)
    } else {
        ensure!(args.set.is_empty(), "--set {}: a model has no config keys; expected none", args.set.join(" "));
        let source = source.context("--data is missing; a model needs a data set (a config names its own)")?;
        let (model, request) = of_model(&args.model, source, device)?;
        (model, request, None)
    };
    let cache = cache::feature_cache();
    let Some(folder) = args.out.clone().or(folder).or(cache.folder) else {
        bail!("there is no folder for the features, because neither XDG_CACHE_HOME nor HOME is set; expected --out");
    };
    let store = FeatureStore {
        folder: Some(folder.clone()),
        element: args.dtype.map(Into::into),
        shard_rows: args.shard_rows,
        purpose: StorePurpose::Fill,
    };
    let mut bars = FeatureBars::default();
    let stop = signal::stop_flag()?;
    let mut progress = |stage, done, total| bars.set(stage, done, total);
    let bank = FeatureBank::collect(&model, &request, &store, stop.as_ref(), &mut progress)?;
    bars.finish();
    match bank {
        Some(bank) => report(bank.report(), &folder, as_json),
        None if as_json => print_json(&json!({ "out": folder, "stopped": true })),
        None => print("stopped; run the same command again to continue\n"),
    }
}

fn of_model(path: &Path, source: Arc<dyn Source>, device: &Device) -> anyhow::Result<(Model, FeatureRequest)> {
    note_interrupted(path);
    let opened = checkpoint::open(path, &ImportOptions::default(), device)?;
    let request = model_features(&opened.model, &opened.manifest, opened.need_tokenizer()?, source);
    ensure!(
        request.images || request.texts,
        "{}: the model reads vectors and has no encoder, so there is nothing to encode",
        path.display()
    );
    Ok((opened.model, request))
}

fn report(found: &FeatureReport, folder: &Path, as_json: bool) -> anyhow::Result<()> {
    found.notes.iter().for_each(|line| note(line));
    found.broken.values().take(NAMED).for_each(|broken| note(&format!("skipped: {broken}")));
    let FeatureReport { images, texts, broken, .. } = found;
    let bytes = images.bytes + texts.bytes;
    if as_json {
        return print_json(&json!({
            "out": folder,
            "encoded": { "images": images.encoded, "texts": texts.encoded },
            "reused": { "images": images.reused, "texts": texts.reused },
            "broken": broken.len(),
            "bytes": bytes,
            "stopped": false,
        }));
    }
    print(&format!(
        "encoded {} photos and boxes and {} texts, reused {} and {}, {} samples skipped -> {} ({:.1} MB)\n",
        images.encoded,
        texts.encoded,
        images.reused,
        texts.reused,
        broken.len(),
        folder.display(),
        bytes as f64 / 1e6
    ))
}
