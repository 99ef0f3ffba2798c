//! Decodes image files with `conifer`'s decoder, for comparison with other decoders.
//!
//! Reads file names from stdin, one per line, and writes the pixels of each to NAME.ppm. Prints one line per file:
//! `ok SECONDS`, `refused SECONDS WHY` or `panic SECONDS`. `fixtures/make_jpegs.py` compares the pixels with
//! Pillow's.
//!
//! With `--time ROUNDS FILE..` it decodes each file ROUNDS times on one thread, and prints the sum of the shortest
//! time per file.

use std::hint::black_box;
use std::io::{self, Write};
use std::time::Instant;

use conifer_data::{Broken, ImageRef, Picture, PixelLimits};

fn open(path: &str) -> Result<Picture, Broken> {
    let limits = PixelLimits { min_side: 1, max_aspect: 65_535.0, ..PixelLimits::default() };
    ImageRef::File(path.into()).open(&limits)
}

fn main() -> io::Result<()> {
    let mut out = io::stdout().lock();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [option, rounds, files @ ..] = &arguments[..]
        && option == "--time"
    {
        let rounds: usize = rounds.parse().map_err(io::Error::other)?;
        let mut sum = 0.0;
        for path in files {
            let mut best = f64::INFINITY;
            for _ in 0..rounds {
                let start = Instant::now();
                black_box(open(path).map_err(io::Error::other)?);
                best = best.min(start.elapsed().as_secs_f64());
            }
            sum += best;
        }
        return writeln!(out, "{} files: {:.2} ms", files.len(), 1e3 * sum);
    }
    for path in io::stdin().lines() {
        let path = path?;
        let start = Instant::now();
        let result = open(&path);
        let seconds = start.elapsed().as_secs_f64();
        match result {
            Ok(Picture { width, height, rgb }) => {
                let ppm = [format!("P6\n{width} {height}\n255\n").as_bytes(), &rgb].concat();
                std::fs::write(format!("{path}.ppm"), ppm)?;
                writeln!(out, "ok {seconds:.4}")?;
            }
            Err(broken) if broken.detail.contains("panicked") => writeln!(out, "panic {seconds:.4}")?,
            Err(broken) => writeln!(out, "refused {seconds:.4} {}", broken.detail)?,
        }
    }
    Ok(())
}
