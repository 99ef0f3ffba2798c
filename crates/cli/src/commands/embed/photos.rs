//! Embeds all photos of a job.

use std::sync::mpsc::sync_channel;
use std::thread;

use anyhow::Context as _;
use conifer_embeddings::sha256_hex;
use conifer_model::head::Tower;
use conifer_train::ranks::Ranks;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::lines::{self, RowMetadata};
use super::stream::{EmbedJob, EmbedStream};

/// Number of samples that are read as one chunk. A chunk is embedded by one process.
const CHUNK: usize = 32;
/// Capacity of the queue of chunks. Reading ahead keeps the model busy; the limit bounds the pixels in memory.
const QUEUED_CHUNKS: usize = 2;

/// The rows of some samples, with their pixels or vectors.
struct PhotoChunk {
    rows: EmbeddedChunk,
    inputs: Vec<Vec<u8>>,
}

/// The rows of some samples, with their points.
#[derive(Default, Serialize, Deserialize)]
struct EmbeddedChunk {
    /// Index of the sample after the last one of the chunk.
    end: usize,
    rows: Vec<RowMetadata>,
    /// Indices of the samples that cannot be read, with the reasons.
    broken: Vec<(usize, String)>,
    /// Concatenated hashes of the pixels or vectors, in row order.
    hashes: String,
    #[serde(skip)]
    points: Vec<f32>,
}

/// Embeds the remaining photos. Returns false if the job was stopped.
///
/// In each round, every rank embeds one chunk. All cores read photos while the model embeds the previous chunk. No
/// batch spans two chunks, so the batches are the same in every run.
pub(super) fn embed(stream: &mut EmbedStream<'_>) -> anyhow::Result<bool> {
    let (job, start) = (stream.job, stream.progress.photos);
    let (ranks, samples) = (&job.ranks, job.source.len());
    if !job.with_photos() || start == samples {
        return Ok(true);
    }
    let bar = stream.bar("photos", start);
    let own_chunks = (start + CHUNK * ranks.rank()..samples).step_by(CHUNK * ranks.size());
    let whole = thread::scope(|scope| {
        let (send, chunks) = sync_channel(QUEUED_CHUNKS);
        scope.spawn(move || {
            for first in own_chunks {
                // The receiver is dropped when the job stops or fails.
                if send.send(read(job, first)).is_err() {
                    break;
                }
            }
        });
        while stream.progress.photos < samples {
            // The last round may have no chunk for this rank.
            let has_chunk = stream.progress.photos + CHUNK * ranks.rank() < samples;
            let own = has_chunk.then(|| embed_chunk(job, chunks.recv().context("the reader of photos has ended")?));
            let own = ranks.agree(own.transpose())?;
            let round = ranks.agree(exchange(ranks, own, job.embedder.inner().spec().dim))?;
            let written = round.into_iter().try_for_each(|chunk| take(stream, chunk));
            bar.set_position(stream.progress.photos as u64);
            if !stream.tick(written)? {
                return Ok(false);
            }
        }
        anyhow::Ok(true)
    })?;
    bar.finish_and_clear();
    Ok(whole)
}

/// Reads, crops and resizes the photos of a chunk. Each core holds one photo at full size.
fn read(job: &EmbedJob<'_>, first: usize) -> PhotoChunk {
    let end = (first + CHUNK).min(job.source.len());
    let see = |index: usize| {
        let embedder = job.embedder.inner();
        let pixels = |picture: &_| embedder.pixels(picture, job.crop);
        lines::of_sample(job.source, index, |sample| match embedder.vector_width(Tower::Image) {
            Some(_) => lines::vectors(&sample, job.views, |image| embedder.image_input(image, job.crop)),
            None => lines::photos(&sample, job.views, pixels),
        })
    };
    let hashed = |index: usize| {
        see(index).map(|rows| {
            let hashes: Vec<String> = rows.iter().map(|(_, pixels)| sha256_hex(pixels)).collect();
            (rows, hashes.concat())
        })
    };
    let samples: Vec<_> = (first..end).into_par_iter().map(hashed).collect();
    let mut chunk = PhotoChunk { rows: EmbeddedChunk { end, ..EmbeddedChunk::default() }, inputs: Vec::new() };
    for (index, sample) in (first..end).zip(samples) {
        match sample {
            Ok((rows, hashes)) => {
                let (rows, inputs): (Vec<_>, Vec<_>) = rows.into_iter().unzip();
                chunk.rows.rows.extend(rows);
                chunk.inputs.extend(inputs);
                chunk.rows.hashes += &hashes;
            }
            Err(broken) => chunk.rows.broken.push((index, broken.to_string())),
        }
    }
    chunk
}

fn embed_chunk(job: &EmbedJob<'_>, chunk: PhotoChunk) -> anyhow::Result<EmbeddedChunk> {
    let embedder = job.embedder.inner();
    let PhotoChunk { mut rows, inputs } = chunk;
    for batch in inputs.chunks(embedder.batch()) {
        rows.points.extend(embedder.image_batch(batch)?);
    }
    Ok(rows)
}

/// The chunks of all ranks, in their order. Points have `dim` numbers.
fn exchange(ranks: &Ranks, own: Option<EmbeddedChunk>, dim: usize) -> anyhow::Result<Vec<EmbeddedChunk>> {
    if ranks.size() == 1 {
        return Ok(own.into_iter().collect());
    }
    let rows = ranks.gather_bytes(&own.as_ref().map(serde_json::to_vec).transpose()?.unwrap_or_default());
    let all_points = ranks.gather(own.as_ref().map_or(&[], |own| &own.points));
    let (mut chunks, mut points) = (Vec::new(), all_points.as_slice());
    for bytes in rows.iter().filter(|bytes| !bytes.is_empty()) {
        let chunk: EmbeddedChunk = serde_json::from_slice(bytes)?;
        let (own, later) = points.split_at(chunk.rows.len() * dim);
        chunks.push(EmbeddedChunk { points: own.to_vec(), ..chunk });
        points = later;
    }
    Ok(chunks)
}

/// Adds a chunk to the set.
fn take(stream: &mut EmbedStream<'_>, chunk: EmbeddedChunk) -> anyhow::Result<()> {
    for (index, message) in &chunk.broken {
        stream.leave_out(*index, message)?;
    }
    if let Some(draft) = &mut stream.draft {
        let first = draft.rows();
        for row in &chunk.rows {
            row.add_to(draft, stream.job.views)?;
        }
        draft.put(first, &chunk.points)?;
    }
    stream.add_hashes(&chunk.hashes);
    stream.progress.photos = chunk.end;
    Ok(())
}
