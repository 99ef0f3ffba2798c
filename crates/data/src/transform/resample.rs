//! Resampling, byte for byte what Pillow does: for each pixel of the result a weighted sum of pixels of the photo,
//! first along rows, then along columns, kernels stretched by the scale when shrinking, in fixed point with 22 bits.
//!
//! Written here and not taken from `fast_image_resize`: that crate rounds weights to 16 bits and goes along columns
//! first, which differs from Pillow by a level; and resampling a window of a photo (see [`Region::Window`]) can make
//! its version 6.1 read outside its buffers, because it takes the last kernel for the one that reaches furthest.

use super::white;
use crate::sample::Picture;
use crate::wide::{Work, widest};

/// How pixels are weighted.
#[derive(Clone, Copy, Debug)]
pub(super) enum Filter {
    /// Keys' cubic with a = -0.5: Pillow's BICUBIC.
    Bicubic,
    /// The mean of the area that a pixel of the result covers, parts of pixels included: OpenCV's INTER_AREA.
    Area,
    /// Three-lobed windowed sinc: Pillow's LANCZOS.
    Lanczos,
}

/// The part of a picture that is resampled, in pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Region {
    /// A window in a larger resampling: borders may fall between pixels, and kernels reach beyond them into the
    /// picture.
    Window { left: f64, top: f64, width: f64, height: f64 },
    /// Cut out first: kernels see nothing beyond the borders.
    Cut { left: u32, top: u32, width: u32, height: u32 },
}

impl Region {
    pub(super) fn whole(picture: &Picture) -> Self {
        let (width, height) = (picture.width, picture.height);
        Self::Cut { left: 0, top: 0, width, height }
    }
}

/// `region` of the picture, at `width` x `height`. White where the region holds no pixel.
pub(super) fn resample(picture: &Picture, region: Region, width: u32, height: u32, filter: Filter) -> Picture {
    match Resampling::new((picture.width, picture.height), region, width, height, filter) {
        Some(resampling) => resampling.apply(picture, (0, 0)),
        None => white(width, height),
    }
}

/// How a region of a photo is resampled.
pub(super) struct Resampling {
    across: Taps,
    down: Taps,
}

impl Resampling {
    /// `region` of a photo of `size`, at `width` x `height`; `None` where the region holds no pixel.
    pub(super) fn new(size: (u32, u32), region: Region, width: u32, height: u32, filter: Filter) -> Option<Self> {
        let axis = |side: u32, start: f64, length: f64, len: u32| Taps::new(0..side, start, length, len, filter);
        let cut = |side: u32, start: u32, length: u32, len: u32| {
            Taps::new(start..(start + length).min(side), start.into(), length.into(), len, filter)
        };
        let (across, down) = match region {
            Region::Window { left, top, width: w, height: h } => {
                (axis(size.0, left, w, width), axis(size.1, top, h, height))
            }
            Region::Cut { left, top, width: w, height: h } => {
                (cut(size.0, left, w, width), cut(size.1, top, h, height))
            }
        };
        Some(Self { across: across?, down: down? })
    }

    /// Columns and rows `[x1, y1, x2, y2]` (half open) of the photo that it reads.
    pub(super) fn reads(&self) -> [u32; 4] {
        [self.across.first, self.down.first, self.across.last, self.down.last].map(|it| it as u32)
    }

    /// The region, from pixels of the photo that begin at column and row `origin` and hold all that it reads.
    pub(super) fn apply(&self, pixels: &Picture, origin: (u32, u32)) -> Picture {
        let rows = resample_rows(pixels, origin, &self.across, &self.down);
        let (width, height) = (self.across.spans.len(), self.down.spans.len());
        let mut rgb = vec![0; width * height * 3];
        convolve(&rows, width * 3, &self.down, &mut rgb);
        Picture { width: width as u32, height: height as u32, rgb }
    }
}

/// Which pixels of a row (or column), and how much of each, make each pixel of the result.
struct Taps {
    /// First pixel and number of pixels of each sum.
    spans: Vec<(usize, usize)>,
    /// The weights of all sums, one after the other; each sum's add up to `1 << PRECISION`, but for rounding.
    weights: Vec<i32>,
    /// The pixels that any sum needs.
    first: usize,
    last: usize,
}

/// Bits of a weight: 8 more for the pixel and two for kernels that overshoot fill 32.
const PRECISION: u32 = 22;

impl Taps {
    /// For `len` pixels that cover `start .. start + width`, from the pixels `source`; `None` when there are none.
    fn new(source: std::ops::Range<u32>, start: f64, width: f64, len: u32, filter: Filter) -> Option<Self> {
        if source.is_empty() || len == 0 || width <= 0.0 {
            return None;
        }
        let scale = width / f64::from(len);
        let stretch = scale.max(1.0);
        let radius = filter.radius() * stretch;
        let mut taps = Self { spans: Vec::new(), weights: Vec::new(), first: usize::MAX, last: 0 };
        let mut sum = Vec::new();
        for i in 0..len {
            let center = start + (f64::from(i) + 0.5) * scale;
            let (low, high) = filter.reach(center, radius);
            let from = low.max(source.start.into()) as usize;
            let to = (high.min(source.end.into()) as usize).max(from);
            sum.clear();
            sum.extend((from..to).map(|pixel| filter.weight(pixel as f64 + 0.5 - center, stretch)));
            let total: f64 = sum.iter().sum();
            let one = f64::from(1 << PRECISION);
            taps.weights.extend(sum.iter().map(|w| (w / total * one).round() as i32));
            taps.spans.push((from, to - from));
            taps.first = taps.first.min(from);
            taps.last = taps.last.max(to);
        }
        Some(taps)
    }

    /// First pixel and weights of each sum, in order.
    fn sums(&self) -> impl Iterator<Item = (usize, &[i32])> {
        let mut rest = self.weights.as_slice();
        self.spans.iter().map(move |&(from, n)| {
            let (weights, after) = rest.split_at(n);
            rest = after;
            (from, weights)
        })
    }
}

impl Filter {
    /// Beyond it the weight is zero, at scale 1.
    fn radius(self) -> f64 {
        match self {
            Self::Bicubic => 2.0,
            Self::Area => 0.5,
            Self::Lanczos => 3.0,
        }
    }

    /// First pixel, and one past the last, whose weight counts.
    fn reach(self, center: f64, radius: f64) -> (f64, f64) {
        match self {
            // Pixels that the area touches.
            Self::Area => ((center - radius).floor(), (center + radius).ceil()),
            // Pixels whose middle is inside, as Pillow rounds it.
            _ => ((center - radius + 0.5).floor(), (center + radius + 0.5).floor()),
        }
    }

    /// Of a pixel whose middle is `x` pixels away, for a kernel `stretch` times as wide as at scale 1.
    fn weight(self, x: f64, stretch: f64) -> f64 {
        let t = (x / stretch).abs();
        match self {
            Self::Area => ((x.abs() + 0.5).min(stretch / 2.0) - (x.abs() - 0.5).max(-stretch / 2.0)).max(0.0),
            Self::Bicubic if t < 1.0 => (1.5 * t - 2.5) * t * t + 1.0,
            Self::Bicubic if t < 2.0 => ((-0.5 * t + 2.5) * t - 4.0) * t + 2.0,
            Self::Lanczos if t < 3.0 => sinc(t) * sinc(t / 3.0),
            Self::Bicubic | Self::Lanczos => 0.0,
        }
    }
}

fn sinc(x: f64) -> f64 {
    let x = std::f64::consts::PI * x;
    if x == 0.0 { 1.0 } else { x.sin() / x }
}

/// The rows that `down` needs, resampled along their length: `[rows, width of the result, 3]`.
///
/// Rows are turned into columns, some at a time, so that sums along a row run over neighbouring bytes as sums along a
/// column do: both passes are [`convolve`], which the compiler turns into vector instructions.
fn resample_rows(picture: &Picture, (left, top): (u32, u32), across: &Taps, down: &Taps) -> Vec<u8> {
    const ROWS: usize = LANES / 3;
    let (row_bytes, new_row_bytes) = (picture.width as usize * 3, across.spans.len() * 3);
    let columns_read = across.first - left as usize..across.last - left as usize;
    let rows_read = down.first - top as usize..down.last - top as usize;
    let needed = &picture.rgb[rows_read.start * row_bytes..rows_read.end * row_bytes];
    let mut result = vec![0; (down.last - down.first) * new_row_bytes];
    let mut columns = vec![0; (across.last - across.first) * LANES];
    let mut new_columns = vec![0; across.spans.len() * LANES];
    for (rows, new_rows) in needed.chunks(ROWS * row_bytes).zip(result.chunks_mut(ROWS * new_row_bytes)) {
        for (r, row) in rows.chunks_exact(row_bytes).enumerate() {
            let pixels = row[columns_read.start * 3..columns_read.end * 3].chunks_exact(3);
            for (column, pixel) in columns.chunks_exact_mut(LANES).zip(pixels) {
                column[r * 3..r * 3 + 3].copy_from_slice(pixel);
            }
        }
        convolve(&columns, LANES, across, &mut new_columns);
        for (r, row) in new_rows.chunks_exact_mut(new_row_bytes).enumerate() {
            for (column, pixel) in new_columns.chunks_exact(LANES).zip(row.chunks_exact_mut(3)) {
                pixel.copy_from_slice(&column[r * 3..r * 3 + 3]);
            }
        }
    }
    result
}

/// Bytes summed together: a multiple of 3 and of every vector length.
const LANES: usize = 48;

/// `result[i][j]` = sum over `p` of `weight[i][p] * values[p][j]`, rounded and cut to 0..=255. `values` is
/// `[taps.first..taps.last, stride]`, `result` is `[sums, stride]`.
fn convolve(values: &[u8], stride: usize, taps: &Taps, result: &mut [u8]) {
    widest(Convolve { values, stride, taps, result });
}

struct Convolve<'a> {
    values: &'a [u8],
    stride: usize,
    taps: &'a Taps,
    result: &'a mut [u8],
}

impl Work for Convolve<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { values, stride, taps, result } = self;
        convolve_portable(values, stride, taps, result);
    }
}

const HALF: i32 = 1 << (PRECISION - 1);

#[inline(always)]
fn convolve_portable(values: &[u8], stride: usize, taps: &Taps, result: &mut [u8]) {
    for ((from, weights), out) in taps.sums().zip(result.chunks_exact_mut(stride)) {
        let values = &values[(from - taps.first) * stride..];
        let (blocks, rest) = out.as_chunks_mut::<LANES>();
        let mut at = 0;
        for block in blocks {
            *block = weighted(values, stride, at, weights);
            at += LANES;
        }
        let (blocks, rest) = rest.as_chunks_mut::<VECTOR>();
        for block in blocks {
            let mut sums = [HALF; VECTOR];
            for (p, &weight) in weights.iter().enumerate() {
                if let Some(row) = values[p * stride + at..].first_chunk() {
                    add(&mut sums, row, weight);
                }
            }
            *block = sums.map(to_byte);
            at += VECTOR;
        }
        for (j, byte) in rest.iter_mut().enumerate() {
            let terms = values.chunks_exact(stride).zip(weights).map(|(row, weight)| i32::from(row[at + j]) * weight);
            *byte = to_byte(HALF + terms.sum::<i32>());
        }
    }
}

/// Bytes `at..at + LANES` of a weighted sum of rows. Three small arrays: the compiler keeps them in registers, where one of [`LANES`] goes
/// through memory with every weight.
#[inline(always)]
fn weighted(values: &[u8], stride: usize, at: usize, weights: &[i32]) -> [u8; LANES] {
    let mut sums = [[HALF; VECTOR]; LANES / VECTOR];
    let [a, b, c] = &mut sums;
    for (p, &weight) in weights.iter().enumerate() {
        let Some(row) = values[p * stride + at..].first_chunk::<LANES>() else { continue };
        let (parts, _) = row.as_chunks::<VECTOR>();
        if let [x, y, z] = parts {
            add(a, x, weight);
            add(b, y, weight);
            add(c, z, weight);
        }
    }
    let mut bytes = [0; LANES];
    for (part, sums) in bytes.as_chunks_mut::<VECTOR>().0.iter_mut().zip(sums) {
        *part = sums.map(to_byte);
    }
    bytes
}

/// 32-bit numbers in the widest vector there is.
const VECTOR: usize = 16;

#[inline(always)]
fn add(sums: &mut [i32; VECTOR], values: &[u8; VECTOR], weight: i32) {
    for (sum, value) in sums.iter_mut().zip(values) {
        *sum += i32::from(*value) * weight;
    }
}

#[inline(always)]
fn to_byte(sum: i32) -> u8 {
    (sum >> PRECISION).clamp(0, 255) as u8
}

/// The picture with its shorter side brought down to `limit` pixels, its shape kept; `None` when it is not larger. For
/// keeping many decoded photos in memory.
pub fn shrink(picture: &Picture, limit: u32) -> Option<Picture> {
    let (width, height) = (picture.width, picture.height);
    let shorter = width.min(height);
    if shorter <= limit || limit == 0 {
        return None;
    }
    let scaled = |side: u32| ((f64::from(side) * f64::from(limit) / f64::from(shorter)).round() as u32).max(1);
    Some(resample(picture, Region::whole(picture), scaled(width), scaled(height), Filter::Bicubic))
}
