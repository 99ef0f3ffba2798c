//! Embeds all photos of a job.

use std::sync::mpsc::sync_channel;
use std::thread;

use conifer_data::Broken;
use conifer_embeddings::sha256_hex;
use conifer_model::head::Tower;
use rayon::prelude::*;

use super::lines::{self, RowMetadata};
use super::stream::{EmbedJob, EmbedStream};

/// Number of samples that are read as one chunk.
const CHUNK: usize = 32;
/// Capacity of the queue of chunks. Reading ahead keeps the model busy; the limit bounds the pixels in memory.
const QUEUED_CHUNKS: usize = 2;

/// The rows of some samples, with their pixels or vectors.
struct PhotoChunk {
    /// Index of the sample after the last one of the chunk.
    end: usize,
    rows: Vec<(RowMetadata, Vec<u8>)>,
    broken: Vec<(usize, Broken)>,
    /// Concatenated hashes of the pixels or vectors, in row order.
    hashes: String,
}

/// Embeds the remaining photos. Returns false if the job was stopped.
///
/// All cores read photos while the model embeds the previous chunk. No batch spans two chunks, so the batches are the
/// same in every run.
pub(super) fn embed(stream: &mut EmbedStream<'_>) -> anyhow::Result<bool> {
    let (job, start) = (stream.job, stream.progress.photos);
    if !job.with_photos() || start == job.source.len() {
        return Ok(true);
    }
    let bar = stream.bar("photos", start);
    let whole = thread::scope(|scope| {
        let (send, chunks) = sync_channel(QUEUED_CHUNKS);
        scope.spawn(move || {
            for first in (start..job.source.len()).step_by(CHUNK) {
                // The receiver is dropped when the job stops or fails.
                if send.send(read(job, first)).is_err() {
                    break;
                }
            }
        });
        for chunk in chunks {
            let end = chunk.end;
            take(stream, chunk)?;
            bar.set_position(end as u64);
            if !stream.tick()? {
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
    let mut chunk = PhotoChunk { end, rows: Vec::new(), broken: Vec::new(), hashes: String::new() };
    for (index, sample) in (first..end).zip(samples) {
        match sample {
            Ok((rows, hashes)) => {
                chunk.rows.extend(rows);
                chunk.hashes += &hashes;
            }
            Err(broken) => chunk.broken.push((index, broken)),
        }
    }
    chunk
}

fn take(stream: &mut EmbedStream<'_>, chunk: PhotoChunk) -> anyhow::Result<()> {
    let embedder = stream.job.embedder.inner();
    for (index, broken) in &chunk.broken {
        stream.leave_out(*index, broken)?;
    }
    let (lines, pixels): (Vec<RowMetadata>, Vec<Vec<u8>>) = chunk.rows.into_iter().unzip();
    for (lines, pixels) in lines.chunks(embedder.batch()).zip(pixels.chunks(embedder.batch())) {
        let points = embedder.image_batch(pixels)?;
        let first = stream.draft.rows();
        for line in lines {
            line.add_to(&mut stream.draft, stream.job.views)?;
        }
        stream.draft.put(first, &points)?;
    }
    stream.add_hashes(&chunk.hashes);
    stream.progress.photos = chunk.end;
    Ok(())
}
