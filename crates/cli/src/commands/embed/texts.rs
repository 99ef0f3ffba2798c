//! Embeds all texts of a job.

use std::collections::BTreeMap;

use anyhow::bail;
use conifer_data::{Broken, Sample};
use conifer_embeddings::sha256_hex;
use conifer_model::embed::by_length;
use conifer_train::ranks::Ranks;
use rayon::prelude::*;

use super::lines::{self, RowMetadata, SharedTexts};
use super::stream::{EmbedStream, TextWindow};

/// A window is full when it has this many texts. Within a window, texts are sorted by length, and equal texts are
/// embedded once.
const WINDOW: usize = 1 << 16;
/// Number of samples per chunk. The samples of a chunk are read in parallel.
const CHUNK: usize = 1024;

/// Embeds the remaining texts. Returns false if the job was stopped.
///
/// A window starts and ends at a sample boundary. The rows of a window are first added to the draft without points.
/// Their points are then written batch by batch, shortest texts first. Every rank reads all texts, and embeds one batch
/// of each round.
pub(super) fn embed(stream: &mut EmbedStream<'_>) -> anyhow::Result<bool> {
    let samples = stream.job.source.len();
    if !stream.job.with_texts() {
        return Ok(true);
    }
    let bar = stream.bar("texts", stream.progress.texts);
    let mut shared = SharedTexts::new();
    // The samples before the current window were handled by earlier runs. Their shared texts must not become rows
    // again.
    let before = stream.progress.texts;
    if stream.job.with_shared_texts() {
        for index in (0..before).filter(|index| !stream.left_out.contains(index)) {
            if let Ok(sample) = lines::of_sample(stream.job.source, index, Ok) {
                shared.rows(&sample, stream.job.views);
            }
        }
    }
    while stream.progress.texts < samples {
        let start = stream.progress.texts;
        let (lines, end) = gather(stream, &mut shared, start)?;
        let share = |done: usize| (start + (end - start) * done / lines.len().max(1)) as u64;
        if !window(stream, &lines, |done| bar.set_position(share(done)))? {
            return Ok(false);
        }
        stream.progress.texts = end;
        stream.progress.window = None;
        bar.set_position(end as u64);
    }
    bar.finish_and_clear();
    Ok(true)
}

/// The text rows of the samples from `start` until the window is full, and the index of the next sample.
fn gather(
    stream: &mut EmbedStream<'_>,
    shared: &mut SharedTexts,
    start: usize,
) -> anyhow::Result<(Vec<RowMetadata>, usize)> {
    let job = stream.job;
    let ranks = &job.ranks;
    let (mut lines, mut next) = (Vec::new(), start);
    while next < job.source.len() && lines.len() < WINDOW {
        let end = (next + CHUNK).min(job.source.len());
        let some: Vec<Result<Sample, Broken>> =
            (next..end).into_par_iter().map(|index| lines::of_sample(job.source, index, Ok)).collect();
        let broken =
            (next..end).zip(&some).filter_map(|(index, sample)| Some((index, sample.as_ref().err()?.to_string())));
        let noted = broken_on_any(ranks, broken.collect())
            .and_then(|all| all.iter().try_for_each(|(index, message)| stream.leave_out(*index, message)));
        ranks.agree(noted)?;
        for (_, sample) in (next..end).zip(some).filter(|(index, _)| !stream.left_out.contains(index)) {
            let Ok(sample) = sample else { continue };
            lines.extend(lines::texts(&sample, job.views));
            lines.extend(shared.rows(&sample, job.views));
        }
        next = end;
    }
    Ok((lines, next))
}

/// The samples that at least one rank cannot read, by index, with the reason of the first such rank.
fn broken_on_any(ranks: &Ranks, mine: BTreeMap<usize, String>) -> anyhow::Result<BTreeMap<usize, String>> {
    if ranks.size() == 1 {
        return Ok(mine);
    }
    let mut all = BTreeMap::new();
    for bytes in ranks.gather_bytes(&serde_json::to_vec(&mine)?) {
        let found: BTreeMap<usize, String> = serde_json::from_slice(&bytes)?;
        found.into_iter().for_each(|(index, message)| _ = all.entry(index).or_insert(message));
    }
    Ok(all)
}

/// Embeds a window, starting at the batch where an earlier run stopped. Calls `report` with the number of finished
/// texts.
fn window(stream: &mut EmbedStream<'_>, lines: &[RowMetadata], report: impl Fn(usize)) -> anyhow::Result<bool> {
    let (embedder, ranks) = (stream.job.embedder.inner(), &stream.job.ranks);
    let texts: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
    let rows = ranks.agree(embedder.tokenize(&texts).map_err(anyhow::Error::from))?;
    let hash = |ids: &Vec<u32>| sha256_hex(&ids.iter().flat_map(|id| id.to_le_bytes()).collect::<Vec<_>>());
    let hashes = rows.par_iter().map(hash).collect::<Vec<_>>().concat();
    let name = sha256_hex(hashes.as_bytes());
    ranks.same("texts of the data", &name, "give all ranks the same data")?;
    let mut current = match stream.progress.window.take() {
        Some(current) if current.texts == name => current,
        Some(_) => bail!("the texts of the data have changed since the set was begun; use --overwrite to start over"),
        None => {
            let row = ranks.agree(add_rows(stream, lines))?;
            stream.add_hashes(&hashes);
            TextWindow { row, texts: name, batches: 0 }
        }
    };
    let dim = embedder.spec().dim;
    let different = by_length(&rows);
    let batches: Vec<_> = different.chunks(embedder.batch()).collect();
    let count = |batch: &&[(&[u32], Vec<usize>)]| batch.iter().map(|(_, positions)| positions.len()).sum::<usize>();
    let mut done: usize = batches.iter().take(current.batches).map(count).sum();
    while current.batches < batches.len() {
        let round = &batches[current.batches..batches.len().min(current.batches + ranks.size())];
        let points = round.get(ranks.rank()).map_or(Ok(Vec::new()), |batch| {
            embedder.token_batch(&batch.iter().map(|(ids, _)| *ids).collect::<Vec<_>>())
        });
        // The points are in the order of the ranks, as are the batches of the round.
        let points = ranks.gather(&ranks.agree(points.map_err(anyhow::Error::from))?);
        let written = put(stream, current.row, round.iter().copied().flatten(), points.chunks_exact(dim));
        done += round.iter().map(count).sum::<usize>();
        current.batches += round.len();
        stream.progress.window = Some(current.clone());
        report(done);
        if !stream.tick(written)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Adds rows without points, and returns the number of the first.
fn add_rows(stream: &mut EmbedStream<'_>, lines: &[RowMetadata]) -> anyhow::Result<u64> {
    let Some(draft) = &mut stream.draft else { return Ok(0) };
    let first = draft.rows();
    for line in lines {
        line.add_to(draft, stream.job.views)?;
    }
    Ok(first)
}

/// Writes the point of each text to its positions after row `first`.
fn put<'a>(
    stream: &mut EmbedStream<'_>,
    first: u64,
    texts: impl Iterator<Item = &'a (&'a [u32], Vec<usize>)>,
    points: impl Iterator<Item = &'a [f32]>,
) -> anyhow::Result<()> {
    let Some(draft) = &mut stream.draft else { return Ok(()) };
    for ((_, positions), point) in texts.zip(points) {
        for &position in positions {
            draft.put(first + position as u64, point)?;
        }
    }
    Ok(())
}
