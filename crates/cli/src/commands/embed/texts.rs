//! Embeds all texts of a job.

use anyhow::bail;
use conifer_data::{Broken, Sample};
use conifer_embeddings::sha256_hex;
use conifer_model::embed::by_length;
use rayon::prelude::*;

use super::lines::{self, RowMetadata, SharedTexts};
use super::stream::{EmbedStream, TextWindow};

/// A window is full when it has this many texts. Within a window, texts are sorted by length, and equal texts are
/// embedded once.
const WINDOW: usize = 1 << 16;
/// Number of samples that are read in parallel.
const CHUNK: usize = 1024;

/// Embeds the remaining texts. Returns false if the job was stopped.
///
/// A window starts and ends at a sample boundary. The rows of a window are first added to the draft without points.
/// Their points are then written batch by batch, shortest texts first.
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
    let (mut lines, mut next) = (Vec::new(), start);
    while next < job.source.len() && lines.len() < WINDOW {
        let end = (next + CHUNK).min(job.source.len());
        let some: Vec<Result<Sample, Broken>> =
            (next..end).into_par_iter().map(|index| lines::of_sample(job.source, index, Ok)).collect();
        for (index, sample) in (next..end).zip(some) {
            match sample {
                Ok(_) if stream.left_out.contains(&index) => {}
                Ok(sample) => {
                    lines.extend(lines::texts(&sample, job.views));
                    lines.extend(shared.rows(&sample, job.views));
                }
                Err(broken) => stream.leave_out(index, &broken)?,
            }
        }
        next = end;
    }
    Ok((lines, next))
}

/// Embeds a window, starting at the batch where an earlier run stopped. Calls `report` with the number of finished
/// texts.
fn window(stream: &mut EmbedStream<'_>, lines: &[RowMetadata], report: impl Fn(usize)) -> anyhow::Result<bool> {
    let embedder = stream.job.embedder.inner();
    let texts: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
    let rows = embedder.tokenize(&texts)?;
    let hash = |ids: &Vec<u32>| sha256_hex(&ids.iter().flat_map(|id| id.to_le_bytes()).collect::<Vec<_>>());
    let hashes = rows.par_iter().map(hash).collect::<Vec<_>>().concat();
    let name = sha256_hex(hashes.as_bytes());
    let mut current = match stream.progress.window.take() {
        Some(current) if current.texts == name => current,
        Some(_) => bail!("the texts of the data have changed since the set was begun; use --overwrite to start over"),
        None => {
            let row = stream.draft.rows();
            for line in lines {
                line.add_to(&mut stream.draft, stream.job.views)?;
            }
            stream.add_hashes(&hashes);
            TextWindow { row, texts: name, batches: 0 }
        }
    };
    let dim = embedder.spec().dim;
    let different = by_length(&rows);
    let mut done = 0;
    for (number, batch) in different.chunks(embedder.batch()).enumerate() {
        done += batch.iter().map(|(_, positions)| positions.len()).sum::<usize>();
        if number < current.batches {
            continue;
        }
        let ids: Vec<&[u32]> = batch.iter().map(|(ids, _)| *ids).collect();
        let points = embedder.token_batch(&ids)?;
        for ((_, positions), point) in batch.iter().zip(points.chunks_exact(dim)) {
            for &position in positions {
                stream.draft.put(current.row + position as u64, point)?;
            }
        }
        current.batches = number + 1;
        stream.progress.window = Some(current.clone());
        report(done);
        if !stream.tick()? {
            return Ok(false);
        }
    }
    Ok(true)
}
