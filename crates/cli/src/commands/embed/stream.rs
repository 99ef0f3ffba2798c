//! Writes the embeddings of a source to a set on disk: first all photos, then all texts, in batches that depend only on
//! the data.
//!
//! With n processes, process r embeds the batches r, r + n, r + 2n, ... The processes exchange the points after each
//! round of batches, and rank 0 writes the set, with the same bytes as one process.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use conifer_data::Source;
use conifer_data::transform::EvalCrop;
use conifer_embeddings::{Draft, DraftPlan, Element, Provenance, sha256_hex};
use conifer_train::ranks::Ranks;
use indicatif::ProgressBar;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{lines, photos, texts};
use crate::arguments::{EmbedView, ViewArg};
use crate::embedder::ModelEmbedder;
use crate::progress;

/// Name of the setting that identifies the records of the data of a set: [`Source::fingerprint`].
pub(crate) const DATA_RECORDS: &str = "the records of the data";

/// The inputs of an embedding job.
pub(crate) struct EmbedJob<'a> {
    pub(crate) embedder: &'a ModelEmbedder,
    pub(crate) source: &'a dyn Source,
    pub(crate) views: &'a [EmbedView],
    pub(crate) crop: EvalCrop,
    /// The name of the data set on the command line. The embedding set records this name.
    pub(crate) data: &'a str,
    pub(crate) element: Element,
    /// Further settings that determine the rows, by display name.
    pub(crate) identity: BTreeMap<String, String>,
    /// The processes that embed together.
    pub(crate) ranks: Ranks,
}

/// The result of a job.
pub(crate) struct EmbedSummary {
    /// Number of rows of the set that have a point.
    pub(crate) rows: u64,
    /// Number of samples that cannot be read.
    pub(crate) left_out: usize,
    /// Error messages of the first unreadable samples.
    pub(crate) first_left_out: Vec<String>,
    /// True if the job was stopped before the end.
    pub(crate) stopped: bool,
}

/// Progress of a job. Every commit saves it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EmbedJobProgress {
    /// Number of samples whose photos are done.
    pub(super) photos: usize,
    /// Number of samples before the current window of texts.
    pub(super) texts: usize,
    /// The current window, once its rows are in the draft.
    pub(super) window: Option<TextWindow>,
    /// Hash chain over the pixels, vectors and token ids of the rows so far.
    pub(super) seen: String,
}

/// A partly embedded window of texts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TextWindow {
    /// Row of the first text of the window.
    pub(super) row: u64,
    /// Hash over the token ids of the texts.
    pub(super) texts: String,
    /// Number of finished batches of the window.
    pub(super) batches: usize,
}

/// A running job.
pub(super) struct EmbedStream<'a> {
    pub(super) job: &'a EmbedJob<'a>,
    /// The set on disk; `None` on the ranks that do not write it.
    pub(super) draft: Option<Draft>,
    pub(super) progress: EmbedJobProgress,
    /// Indices of the samples that cannot be read.
    pub(super) left_out: HashSet<usize>,
    first_left_out: Vec<String>,
    stop: &'a AtomicBool,
    committed: Instant,
    /// Minimum time until the next commit.
    pause: Duration,
}

/// Minimum time between two commits.
const PAUSE: Duration = Duration::from_secs(1);
/// The pause after a commit is at least this many times as long as the commit took.
const PAUSE_FACTOR: u32 = 20;
/// Maximum number of unreadable samples that are reported.
const MAX_REPORTED: usize = 5;

impl EmbedJob<'_> {
    /// Embeds into the set `out`, and continues where an earlier run of the same job stopped. When `stop` is set, the
    /// job stops after the current chunk of photos or batch of texts.
    ///
    /// # Errors
    /// There is an unfinished set of another job; the jobs of the ranks differ; there is nothing to embed; the model or
    /// the disk fails. Committed work is kept.
    pub(crate) fn run(&self, out: &Path, stop: &AtomicBool) -> anyhow::Result<EmbedSummary> {
        let ranks = &self.ranks;
        let identity = ranks.agree(self.identity())?;
        let hash = sha256_hex(serde_json::to_string(&identity)?.as_bytes());
        ranks.same("embedding job", &hash, "give all ranks the same program, arguments, model and data")?;
        let mut stream = EmbedStream {
            job: self,
            draft: ranks.lead(|| self.open_draft(out, identity))?,
            progress: EmbedJobProgress::default(),
            left_out: HashSet::new(),
            first_left_out: Vec::new(),
            stop,
            committed: Instant::now(),
            pause: PAUSE,
        };
        let read = stream.recall();
        ranks.agree(read)?;
        stream.share_start()?;
        let stopped = !(photos::embed(&mut stream)? && texts::embed(&mut stream)?);
        let done = EmbedSummary {
            rows: stream.draft.as_ref().map_or(0, Draft::points),
            left_out: stream.left_out.len(),
            first_left_out: stream.first_left_out.clone(),
            stopped,
        };
        ranks.lead(|| self.finish(stream, &done, out))?;
        Ok(done)
    }

    fn open_draft(&self, out: &Path, identity: BTreeMap<String, String>) -> anyhow::Result<Draft> {
        let embedder = self.embedder.inner();
        let plan = DraftPlan {
            spec: embedder.spec().clone(),
            root: embedder.root()?,
            columns: lines::columns(self.views),
            element: self.element,
            identity,
        };
        Ok(Draft::open(out, plan)?)
    }

    /// Moves the set to its path, or saves the progress if the job was stopped.
    fn finish(&self, mut stream: EmbedStream<'_>, done: &EmbedSummary, out: &Path) -> anyhow::Result<()> {
        let embedder = self.embedder.inner();
        if done.stopped {
            return stream.commit();
        }
        let Some(draft) = stream.draft else { return Ok(()) };
        if draft.rows() == 0 {
            drop(draft);
            Draft::discard(out)?;
            let samples = self.source.len();
            match done.first_left_out.first() {
                Some(first) if done.left_out == samples => {
                    anyhow::bail!("nothing to embed: all {samples} samples are broken. First: {first}")
                }
                Some(first) => anyhow::bail!(
                    "nothing to embed: {} of {samples} samples are broken, the others have none of the requested views. First: {first}",
                    done.left_out
                ),
                None => anyhow::bail!("nothing to embed: no sample has any of the requested views"),
            }
        }
        let weights = embedder.fingerprint();
        draft.finish(Provenance {
            model: embedder.name().to_owned(),
            data: self.data.to_owned(),
            hash: sha256_hex(format!("{weights}{}", stream.progress.seen).as_bytes()),
            conifer: env!("CARGO_PKG_VERSION").to_owned(),
            weights: weights.to_owned(),
        })?;
        Ok(())
    }

    pub(super) fn with_photos(&self) -> bool {
        self.views.iter().any(|it| matches!(it, EmbedView::Modality(ViewArg::Image | ViewArg::BoxImage)))
    }

    pub(super) fn with_texts(&self) -> bool {
        self.views.iter().any(|it| !matches!(it, EmbedView::Modality(ViewArg::Image | ViewArg::BoxImage)))
    }

    /// True if a view has texts that many samples share.
    pub(super) fn with_shared_texts(&self) -> bool {
        self.views.iter().any(|it| matches!(it, EmbedView::Taxa | EmbedView::Tiers))
    }

    /// All inputs that determine the bytes of the set, by display name.
    pub(super) fn identity(&self) -> anyhow::Result<BTreeMap<String, String>> {
        let embedder = self.embedder.inner();
        let mut identity = self.identity.clone();
        let views: BTreeSet<&str> = self.views.iter().map(|it| it.name()).collect();
        let pairs = [
            ("the model's weights", embedder.fingerprint().to_owned()),
            ("the model's tokenizer", embedder.tokenizer_fingerprint()?),
            ("the model's manifest", sha256_hex(toml::to_string(embedder.manifest())?.as_bytes())),
            ("the model", embedder.name().to_owned()),
            ("--data", self.data.to_owned()),
            (DATA_RECORDS, self.source.fingerprint()),
            ("--views", views.into_iter().collect::<Vec<_>>().join(",")),
            ("--crop", format!("{:?}", self.crop)),
            ("--dtype", self.element.name().to_owned()),
            ("--batch-size", embedder.batch().to_string()),
            ("the version of conifer", env!("CARGO_PKG_VERSION").to_owned()),
        ];
        identity.extend(pairs.map(|(name, value)| (name.to_owned(), value)));
        Ok(identity)
    }
}

impl EmbedStream<'_> {
    /// Reads the progress of earlier runs from the draft, and the samples that they could not read.
    fn recall(&mut self) -> anyhow::Result<()> {
        let Some(draft) = &self.draft else { return Ok(()) };
        if !draft.state().is_null() {
            self.progress = serde_json::from_value(draft.state().clone()).context(
                "the unfinished set was written by another version of conifer; use --overwrite to start over",
            )?;
        }
        for entry in draft.notes()? {
            if let Some(index) = entry["index"].as_u64() {
                self.left_out.insert(usize::try_from(index)?);
            }
            if let (Some(message), true) = (entry["message"].as_str(), self.first_left_out.len() < MAX_REPORTED) {
                self.first_left_out.push(message.to_owned());
            }
        }
        Ok(())
    }

    /// Sends the progress that rank 0 has read from the draft to all ranks.
    fn share_start(&mut self) -> anyhow::Result<()> {
        let mine = serde_json::to_vec(&(&self.progress, &self.left_out))?;
        (self.progress, self.left_out) = serde_json::from_slice(&self.job.ranks.from_rank_0(&mine))?;
        Ok(())
    }

    /// Records a sample as unreadable.
    pub(super) fn leave_out(&mut self, index: usize, message: &str) -> anyhow::Result<()> {
        if self.left_out.insert(index) {
            if let Some(draft) = &mut self.draft {
                draft.note(&json!({ "index": index, "message": message }))?;
            }
            if self.first_left_out.len() < MAX_REPORTED {
                self.first_left_out.push(message.to_owned());
            }
        }
        Ok(())
    }

    /// Adds hashes of encoder inputs to the hash chain.
    pub(super) fn add_hashes(&mut self, hashes: &str) {
        self.progress.seen = sha256_hex(format!("{}{hashes}", self.progress.seen).as_bytes());
    }

    /// Ends a round, in which rank 0 has `written` to the draft. Commits if enough time has passed. Returns false if
    /// the job should stop.
    pub(super) fn tick(&mut self, written: anyhow::Result<()>) -> anyhow::Result<bool> {
        let is_due = self.committed.elapsed() >= self.pause;
        let committed = written.and_then(|()| if is_due { self.commit() } else { Ok(()) });
        self.job.ranks.agree(committed)?;
        Ok(!self.job.ranks.any(self.stop.load(Ordering::Relaxed)))
    }

    fn commit(&mut self) -> anyhow::Result<()> {
        let Some(draft) = &mut self.draft else { return Ok(()) };
        let started = Instant::now();
        draft.commit(serde_json::to_value(&self.progress)?)?;
        self.pause = PAUSE.max(started.elapsed() * PAUSE_FACTOR);
        self.committed = Instant::now();
        Ok(())
    }

    /// A progress bar over the samples, starting at `done`.
    pub(super) fn bar(&self, what: &str, done: usize) -> ProgressBar {
        let bar = progress::bar(what, self.job.source.len());
        bar.set_position(done as u64);
        bar.reset_eta();
        bar
    }
}
