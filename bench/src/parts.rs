//! Case `part_hierarchy`: a class graph from as many boxes as OpenImages has (14 million boxes, 1.9 million photos, 600
//! classes), read from a CSV in a temporary folder.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::ops::ControlFlow;
use std::path::Path;

use anyhow::Context as _;
use conifer_datasets::part_graph::{PartsSpec, build};

use crate::BenchCase;

/// Writes `BENCH_BOXES` boxes (default 14 million) once, then measures everything that `conifer data parts` does with
/// them, including parsing. The result is the number of relations found.
pub(crate) fn case() -> anyhow::Result<BenchCase> {
    let boxes = std::env::var("BENCH_BOXES").map_or(Ok(14_000_000), |it| it.parse()).context("BENCH_BOXES")?;
    let folder = tempfile::tempdir()?;
    let table = folder.path().join("boxes.csv");
    let photos = write_table(&table, boxes)?;
    let megabytes = std::fs::metadata(&table)?.len() / 1_000_000;
    writeln!(std::io::stderr(), "part_hierarchy: {boxes} boxes, {photos} photos, {megabytes} MB")?;
    let mut turn = 0;
    Ok(Box::new(move || {
        turn += 1;
        // A new folder each time, because the work is already done in the previous one.
        let out = folder.path().join(turn.to_string());
        let spec = PartsSpec { boxes: vec![table.clone()], out: out.clone(), ..PartsSpec::default() };
        let built = build(&spec, |_| ControlFlow::Continue(()))?.context("stopped")?;
        anyhow::ensure!(built.counts.boxes == boxes && built.counts.broken.is_empty(), "boxes were lost");
        std::fs::remove_dir_all(out)?;
        Ok(built.graph.edges.len() as f32)
    }))
}

/// Writes boxes with a distribution as in OpenImages, and returns the number of photos.
///
/// A photo has 7.4 boxes on average, and some have hundreds. A few classes are frequent and most are rare. Sides of the
/// outer boxes range from a tenth of the photo to the whole photo. One box in twenty is a group. About half of the
/// boxes after the first of a photo lie inside the previous box, and these mostly have a class that is determined by
/// the class of that box.
fn write_table(path: &Path, boxes: u64) -> anyhow::Result<u64> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    out.write_all(b"ImageID,Source,LabelName,Confidence,XMin,XMax,YMin,YMax,IsOccluded,IsTruncated,IsGroupOf,IsDepiction,IsInside\n")?;
    let mut dice = BenchRng(1);
    let (mut photo, mut written) = (0_u64, 0_u64);
    while written < boxes {
        // Ascending, as in the published files.
        let id = photo << 40;
        photo += 1;
        // Exponential distribution. The mean of its integer part plus one is 7.37.
        let count = 1 + (-(1.0 - dice.draw()).ln() * 6.86) as u64;
        let mut last = (0_u64, [0.0_f64, 1.0, 0.0, 1.0]);
        for number in 0..count.min(boxes - written) {
            // The outer box must be large enough for six digits to distinguish the borders of nested boxes.
            let wide = last.1[1] - last.1[0] > 0.02 && last.1[3] - last.1[2] > 0.02;
            let inside = number > 0 && wide && dice.draw() < 0.5;
            let around = if inside { last.1 } else { [0.0, 1.0, 0.0, 1.0] };
            let least: f64 = if inside { 0.25 } else { 0.1 };
            let mut side = |from: f64, to: f64| {
                let length = (to - from) * least.powf(dice.draw());
                let start = from + dice.draw() * (to - from - length);
                (start, start + length)
            };
            let ((x1, x2), (y1, y2)) = (side(around[0], around[1]), side(around[2], around[3]));
            let class = match inside && dice.draw() < 0.7 {
                true => (last.0 * 7 + 3) % 600,
                // The frequency of a class is about inversely proportional to its index.
                false => 600_f64.powf(dice.draw()) as u64 % 600,
            };
            let group = u8::from(dice.draw() < 0.05);
            writeln!(out, "{id:016x},xclick,/m/0{class:03},1,{x1:.6},{x2:.6},{y1:.6},{y2:.6},0,0,{group},0,0")?;
            last = (class, [x1, x2, y1, y2]);
        }
        written += count.min(boxes - written);
    }
    out.flush()?;
    Ok(photo)
}

/// SplitMix64 (Steele et al., 2014).
struct BenchRng(u64);

impl BenchRng {
    /// Uniform in [0, 1).
    fn draw(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}
