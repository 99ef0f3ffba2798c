//! A part of a JPEG, in full size or at 1/2, 1/4 or 1/8 of it, with nothing decoded that the part does not need: rows behind it are not read,
//! blocks beside it only passed over.
//!
//! In full size the samples, the interpolated colours and the pixels are, byte for byte, those of libjpeg-turbo's defaults, which Pillow and
//! torchvision show. At a scale every pixel is the mean of the 4, 16 or 64 it stands for (a box filter, as libjpeg-turbo's reduced transforms),
//! straight from the coefficients, and what is larger is never computed.
//!
//! For the plain files that photo collections consist of: baseline, 8 bits, grey or YCbCr, all components in one scan, Huffman codes. Others,
//! and damaged ones as far as they were read, are left to the decoder that reads whole photos.

mod blocks;
mod colour;
mod headers;
mod huffman;
mod inverse;

use blocks::Reader;
use headers::Frame;
use huffman::Scan;

use crate::sample::Picture;
use crate::wide::{Work, widest};

/// A decoded part of a photo.
pub(super) struct Part {
    /// Scaled pixels, from (`left`, `top`) on.
    pub(super) picture: Picture,
    pub(super) left: u32,
    pub(super) top: u32,
}

/// Those pixels of the photo at 1/`scale` (1, 2, 4 or 8) that the columns and rows `[x1, y1, x2, y2]` (half open, of the whole photo of `size`)
/// have a part in. `None` for what this decoder does not read.
pub(super) fn decode(bytes: &[u8], size: (u32, u32), scale: u32, part: [u32; 4]) -> Option<Part> {
    let frame = Frame::read(bytes)?;
    let [x1, y1, x2, y2] = part;
    if size != (frame.width, frame.height) || !matches!(scale, 1 | 2 | 4 | 8) {
        return None;
    }
    if x1 >= x2 || y1 >= y2 || x2 > frame.width || y2 > frame.height {
        return None;
    }
    widest(Decode { frame, scale, part })
}

struct Decode<'a> {
    frame: Frame<'a>,
    scale: u32,
    part: [u32; 4],
}

/// Samples of a component.
struct Plane {
    values: Vec<u8>,
    stride: usize,
    /// Sample of the whole component (at scale) that they begin with.
    left: usize,
    top: usize,
}

impl Work for Decode<'_> {
    type Output = Option<Part>;

    #[inline(always)]
    fn run(self) -> Option<Part> {
        let Self { frame, scale, part: [x1, y1, x2, y2] } = self;
        let scaled = [x1 / scale, y1 / scale, x2.div_ceil(scale), y2.div_ceil(scale)];
        let interpolations = match scale {
            1 => colour::interpolations(&frame)?,
            // Every component is read at a size of its own, which makes all of them equal.
            _ => Vec::new(),
        };
        let around = if interpolations.iter().any(|it| it.reaches()) { 2 } else { 0 };
        let samples = [
            x1.saturating_sub(around),
            y1.saturating_sub(around),
            (x2 + around).min(frame.width),
            (y2 + around).min(frame.height),
        ];
        let planes = planes(&frame, scale, samples)?;
        let picture = colour::picture(&planes, &interpolations, scaled)?;
        Some(Part { picture, left: scaled[0], top: scaled[1] })
    }
}

/// The samples of all units that the part touches.
#[inline(always)]
fn planes(frame: &Frame<'_>, scale: u32, [x1, y1, x2, y2]: [u32; 4]) -> Option<Vec<Plane>> {
    let (across, down) = frame.most()?;
    let (unit_width, unit_height) = (8 * across, 8 * down);
    let columns = (x1 / unit_width) as usize..x2.div_ceil(unit_width) as usize;
    let rows = (y1 / unit_height) as usize..y2.div_ceil(unit_height) as usize;
    let readers = frame.components.iter().map(|it| Reader::new(frame, it, scale));
    let readers: Vec<Reader<'_>> = readers.collect::<Option<_>>()?;
    let plane = |reader: &Reader<'_>| {
        let (width, height) = (reader.across * reader.width, reader.down * reader.height);
        let stride = columns.len() * width;
        let values = vec![0; stride * rows.len() * height];
        Plane { values, stride, left: columns.start * width, top: rows.start * height }
    };
    let mut planes: Vec<Plane> = readers.iter().map(plane).collect();
    let mut means = [0; 3];
    let scan = Scan::new(frame.scan);
    let mut piece = 0;
    let mut bits = scan.piece(piece)?;
    let units = frame.width.div_ceil(unit_width) as usize;
    let mut until_restart = frame.restarts;
    for row in 0..rows.end {
        for column in 0..units {
            if frame.restarts > 0 && until_restart == 0 {
                // What is left of the last byte is filling; more would mean data before the marker.
                if !(0..8).contains(&bits.left()) {
                    return None;
                }
                piece += 1;
                bits = scan.piece(piece)?;
                means = [0; 3];
                until_restart = frame.restarts;
            }
            until_restart = until_restart.wrapping_sub(1);
            let wanted = rows.contains(&row) && columns.contains(&column);
            for ((reader, plane), mean) in readers.iter().zip(&mut planes).zip(&mut means) {
                for down in 0..reader.down {
                    for across in 0..reader.across {
                        if !wanted {
                            reader.pass_over(&mut bits, mean)?;
                            continue;
                        }
                        let x = ((column - columns.start) * reader.across + across) * reader.width;
                        let y = ((row - rows.start) * reader.down + down) * reader.height;
                        reader.read(&mut bits, mean, &mut plane.values[y * plane.stride + x..], plane.stride)?;
                    }
                }
            }
        }
        if bits.left() < 0 {
            return None;
        }
    }
    Some(planes)
}

#[cfg(test)]
mod tests;
