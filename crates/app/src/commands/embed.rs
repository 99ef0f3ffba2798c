//! `conifer embed`: any number of photos and texts to a set on disk, in bounded memory, over several runs if need be.

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
use conifer_data::transform::EvalCrop;
use conifer_space::Modality;
use conifer_space::points::{Draft, Element};
use serde_json::json;

pub(crate) use finished::finished_rows;
pub(crate) use stream::{Embedded, Job};

use crate::cli::{CropArg, ElementArg, Embed, EmbedView, ViewArg};
use crate::embedder::ModelEmbedder;
use crate::output::{note, print, print_json};
use crate::request::open_source;
use crate::signal;

pub(crate) fn run(args: Embed, as_json: bool, device: &Device) -> anyhow::Result<()> {
    let embedder = ModelEmbedder::open(&args.checkpoint, device)?.with_root_text(args.root_text.as_deref());
    let embedder = embedder.with_batch(args.batch_size);
    let source = open_source(&args.data)?;
    if args.overwrite {
        Draft::discard(&args.out)?;
    }
    let job = Job {
        embedder: &embedder,
        source: source.as_ref(),
        views: &args.views,
        crop: args.crop.into(),
        data: &args.data.data,
        element: args.dtype.into(),
        identity: identity(&args, device),
    };
    if !args.overwrite
        && let Some(rows) = finished_rows(&job, &args.out)?
    {
        return tell_finished(&job, &args.out, rows, as_json);
    }
    let done = job.run(&args.out, signal::stop_flag()?.as_ref()).with_context(|| {
        let out = args.out.display();
        match Draft::is_begun(&args.out) {
            true => format!("{out} (half done: the command that began it goes on from there; --overwrite starts anew)"),
            false => out.to_string(),
        }
    })?;
    for line in &done.first_left_out {
        note(&format!("skipped: {line}"));
    }
    if !done.stopped {
        tell_repeated(&args.out)?;
    }
    if as_json {
        let (out, space) = (&args.out, embedder.inner().spec());
        return print_json(&json!({
            "out": out, "rows": done.rows, "skipped": done.left_out, "space": space, "stopped": done.stopped,
        }));
    }
    let (rows, out, skipped) = (done.rows, args.out.display(), done.left_out);
    print(&match done.stopped {
        true => format!("stopped after {rows} rows; the same command goes on from there\n"),
        false => format!("{rows} rows -> {out} ({skipped} samples skipped)\n"),
    })
}

/// The same command has written this set already.
fn tell_finished(job: &Job<'_>, out: &Path, rows: usize, as_json: bool) -> anyhow::Result<()> {
    if as_json {
        let space = job.embedder.inner().spec();
        return print_json(&json!({ "out": out, "rows": rows, "space": space, "stopped": false, "unchanged": true }));
    }
    print(&format!("{rows} rows in {}: complete already, nothing was done (--overwrite starts anew)\n", out.display()))
}

/// What was typed that decides the rows, besides what the job knows itself.
fn identity(args: &Embed, device: &Device) -> BTreeMap<String, String> {
    let split = args.data.split.clone().unwrap_or_default();
    let mut identity = BTreeMap::from([
        ("--split".to_owned(), split),
        ("--data-option".to_owned(), args.data.data_options.join(" ")),
        ("--device".to_owned(), format!("{device:?}")),
        // Told by the manifest's hash, too, but not so that one could read it.
        ("--root-text".to_owned(), args.root_text.clone().unwrap_or_default()),
    ]);
    if !args.data.roots.is_empty() {
        let roots = args.data.roots.iter().map(|it| it.display().to_string()).collect::<Vec<_>>();
        identity.insert("--root".to_owned(), roots.join(" "));
    }
    identity
}

/// Says when an id stands twice in a set: who searches by it should know. Keeps eight bytes a row.
fn tell_repeated(set: &Path) -> anyhow::Result<()> {
    if let Some((count, first)) = lines::repeated(&set.join("rows.jsonl"))? {
        note(&format!("{count} x the id of an earlier one (`{first}`): a search by it finds the earliest"));
    }
    Ok(())
}

/// Embeds what is known to be there, without stopping (for `quickstart`).
pub(crate) fn embed_all(job: &Job<'_>, out: &Path) -> anyhow::Result<Embedded> {
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
    /// As it is typed, with underscores.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Image => "image",
            Self::Text => "text",
            Self::BoxImage => "box_image",
            Self::BoxText => "box_text",
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
