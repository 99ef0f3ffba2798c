//! `conifer embed`: embeds photos and texts to a set on disk, in bounded memory, resumable over several runs, and in
//! one process or several.

mod finished;
mod lines;
mod photos;
mod stream;
mod texts;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use anyhow::Context as _;
use burn::tensor::Device;
use conifer_data::Source;
use conifer_data::transform::EvalCrop;
use conifer_embeddings::{Draft, Element, Modality};
use conifer_train::ranks::Ranks;
use serde_json::json;

pub(crate) use finished::finished_rows;
pub(crate) use stream::{DATA_RECORDS, EmbedJob, EmbedSummary};

use crate::arguments::{CropArg, ElementArg, EmbedArgs, EmbedView, ViewArg};
use crate::embedder::ModelEmbedder;
use crate::job::Job;
use crate::output::{note, print, print_json};
use crate::request::open_source;
use crate::signal;

pub(crate) fn run(args: EmbedArgs, as_json: bool, device: &Device) -> anyhow::Result<()> {
    let job = Job::join("embedding")?;
    let result = embed(&args, as_json, device, &job.ranks());
    job.finish(result)
}

fn embed(args: &EmbedArgs, as_json: bool, device: &Device, ranks: &Ranks) -> anyhow::Result<()> {
    let (embedder, source) = ranks.agree(open(args, device))?;
    if args.overwrite {
        ranks.lead(|| anyhow::Ok(Draft::discard(&args.out)?))?;
    }
    let job = EmbedJob {
        embedder: &embedder,
        source: source.as_ref(),
        views: &args.views,
        crop: embedder.crop(args.crop),
        data: &args.data.data,
        element: args.dtype.into(),
        identity: identity(args, device),
        ranks: ranks.clone(),
    };
    let finished = if args.overwrite { None } else { ranks.lead(|| finished_rows(&job, &args.out))?.flatten() };
    if ranks.any(finished.is_some()) {
        return finished.map_or(Ok(()), |rows| report_finished(&job, &args.out, rows, as_json));
    }
    let stop = ranks.agree(signal::stop_flag())?;
    let done = job.run(&args.out, stop.as_ref()).with_context(|| {
        let out = args.out.display();
        match Draft::is_begun(&args.out) {
            true => format!(
                "{out} (incomplete: repeat the command that began it to continue, or use --overwrite to start over)"
            ),
            false => out.to_string(),
        }
    })?;
    if !ranks.leads() {
        return Ok(());
    }
    for line in &done.first_left_out {
        note(&format!("skipped: {line}"));
    }
    if !done.stopped {
        warn_repeated_ids(&args.out)?;
    }
    if as_json {
        let (out, space) = (&args.out, embedder.inner().spec());
        return print_json(&json!({
            "out": out, "rows": done.rows, "skipped": done.left_out, "space": space, "stopped": done.stopped,
        }));
    }
    let (rows, out, skipped) = (done.rows, args.out.display(), done.left_out);
    print(&match done.stopped {
        true => format!("stopped after {rows} rows; run the same command again to continue\n"),
        false => format!("{rows} rows -> {out} ({skipped} samples skipped)\n"),
    })
}

/// The model and the data of the arguments.
fn open(args: &EmbedArgs, device: &Device) -> anyhow::Result<(ModelEmbedder, Box<dyn Source>)> {
    let embedder = ModelEmbedder::open(&args.checkpoint, device)?.with_root_text(args.root_text.as_deref());
    let embedder = embedder.with_batch(args.batch_size).with_features(&crate::cache::feature_cache());
    let source = open_source(&args.data)?;
    let embedder = embedder.with_text_vectors(source.as_ref())?;
    Ok((embedder, source))
}

/// Reports that an earlier run of the same command has already finished the set.
fn report_finished(job: &EmbedJob<'_>, out: &Path, rows: usize, as_json: bool) -> anyhow::Result<()> {
    if as_json {
        let space = job.embedder.inner().spec();
        return print_json(&json!({ "out": out, "rows": rows, "space": space, "stopped": false, "unchanged": true }));
    }
    print(&format!("{rows} rows in {}: already complete, nothing to do (--overwrite embeds again)\n", out.display()))
}

/// Arguments that determine the rows, besides those that [`EmbedJob`] adds to its identity.
fn identity(args: &EmbedArgs, device: &Device) -> BTreeMap<String, String> {
    let split = args.data.split.clone().unwrap_or_default();
    let mut identity = BTreeMap::from([
        ("--split".to_owned(), split),
        ("--data-option".to_owned(), args.data.data_options.join(" ")),
        ("--device".to_owned(), format!("{device:?}")),
        // The hash of the manifest covers the root text, too, but does not show it.
        ("--root-text".to_owned(), args.root_text.clone().unwrap_or_default()),
    ]);
    if !args.data.roots.is_empty() {
        let roots = args.data.roots.iter().map(|it| it.display().to_string()).collect::<Vec<_>>();
        identity.insert("--root".to_owned(), roots.join(" "));
    }
    identity
}

/// Warns if several rows have the same id, because a search by id finds only the first.
fn warn_repeated_ids(set: &Path) -> anyhow::Result<()> {
    if let Some((count, first)) = lines::repeated(&set.join("rows.jsonl"))? {
        note(&format!("repeated ids: {count} (first: `{first}`); a search by id finds the earliest row"));
    }
    Ok(())
}

/// Embeds everything in one run that cannot be stopped; `quickstart` uses it.
pub(crate) fn embed_all(job: &EmbedJob<'_>, out: &Path) -> anyhow::Result<EmbedSummary> {
    Draft::discard(out)?;
    job.run(out, &AtomicBool::new(false))
}

impl From<CropArg> for EvalCrop {
    fn from(it: CropArg) -> Self {
        match it {
            CropArg::Center => Self::Center,
            CropArg::Squeeze => Self::Squeeze,
        }
    }
}

impl From<ElementArg> for Element {
    fn from(it: ElementArg) -> Self {
        match it {
            ElementArg::F32 => Self::F32,
            ElementArg::F16 => Self::F16,
            ElementArg::Bf16 => Self::BF16,
        }
    }
}

impl EmbedView {
    /// The name on the command line, with underscores instead of dashes.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Modality(view) => Modality::from(view).name(),
            Self::Taxa => "taxa",
            Self::Tiers => "tiers",
        }
    }
}

impl From<ViewArg> for Modality {
    fn from(it: ViewArg) -> Self {
        match it {
            ViewArg::Image => Self::Image,
            ViewArg::Text => Self::Text,
            ViewArg::BoxImage => Self::BoxImage,
            ViewArg::BoxText => Self::BoxText,
        }
    }
}
