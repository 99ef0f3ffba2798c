//! All photos of a job.

use std::sync::mpsc::sync_channel;
use std::thread;

use conifer_data::Broken;
use conifer_space::points::sha256_hex;
use rayon::prelude::*;

use super::lines::{self, Line};
use super::stream::{Job, Stream};

/// Samples that are read together.
const CHUNK: usize = 32;
/// Chunks that wait for the model: it never waits for a photo that was slow to read, and no more pixels than these are in memory.
const AHEAD: usize = 2;

/// Rows and pixels of some samples.
struct Chunk {
    /// Samples up to here are in it or before it.
    end: usize,
    rows: Vec<(Line, Vec<u8>)>,
    broken: Vec<(usize, Broken)>,
    /// Hashes of the pixels, in order.
    hashes: String,
}

/// Embeds what is left of the photos; false if it was told to stop before.
///
/// Photos are read by all cores while the model is at work on those before. Batches end with a chunk, so they are the same in every run.
pub(super) fn embed(stream: &mut Stream<'_>) -> anyhow::Result<bool> {
    let (job, start) = (stream.job, stream.place.photos);
    if !job.with_photos() || start == job.source.len() {
        return Ok(true);
    }
    let bar = stream.bar("photos", start);
    let whole = thread::scope(|scope| {
        let (send, chunks) = sync_channel(AHEAD);
        scope.spawn(move || {
            for first in (start..job.source.len()).step_by(CHUNK) {
                // The other end is gone when the job has stopped or failed.
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

/// Reads, cuts and shrinks the photos of a chunk; one photo a core is in memory as a whole.
fn read(job: &Job<'_>, first: usize) -> Chunk {
    let end = (first + CHUNK).min(job.source.len());
    let see = |index: usize| {
        let pixels = |picture: &_| job.embedder.inner().pixels(picture, job.crop);
        lines::of_sample(job.source, index, |sample| lines::photos(&sample, job.views, pixels))
    };
    let hashed = |index: usize| {
        see(index).map(|rows| {
            let hashes: Vec<String> = rows.iter().map(|(_, pixels)| sha256_hex(pixels)).collect();
            (rows, hashes.concat())
        })
    };
    let samples: Vec<_> = (first..end).into_par_iter().map(hashed).collect();
    let mut chunk = Chunk { end, rows: Vec::new(), broken: Vec::new(), hashes: String::new() };
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

fn take(stream: &mut Stream<'_>, chunk: Chunk) -> anyhow::Result<()> {
    let embedder = stream.job.embedder.inner();
    for (index, broken) in &chunk.broken {
        stream.leave_out(*index, broken)?;
    }
    let (lines, pixels): (Vec<Line>, Vec<Vec<u8>>) = chunk.rows.into_iter().unzip();
    for (lines, pixels) in lines.chunks(embedder.batch()).zip(pixels.chunks(embedder.batch())) {
        let points = embedder.image_batch(pixels)?;
        let first = stream.draft.rows();
        for line in lines {
            line.add_to(&mut stream.draft)?;
        }
        stream.draft.put(first, &points)?;
    }
    stream.saw(&chunk.hashes);
    stream.place.photos = chunk.end;
    Ok(())
}
