//! Resampling with Pillow's algorithm, so that bicubic and Lanczos results equal Pillow's. Each output pixel is a
//! weighted sum of input pixels, first along rows, then along columns. Kernels are stretched by the scale when
//! shrinking, and weights are fixed-point numbers with 22 fraction bits.
//!
//! `fast_image_resize` is not used, because it rounds weights to 16 bits and processes columns first, which differs
//! from Pillow by one level. Also, version 6.1 can read outside its buffers when it resamples a window of a photo
//! (see [`ResampleRegion::Window`]), because it assumes that the last kernel reaches furthest.

use super::white;
use crate::sample::Picture;
use conifer_jpeg::wide::{SimdWork, widest};

/// Resampling kernel.
#[derive(Clone, Copy, Debug)]
pub(super) enum ResampleFilter {
    /// Keys' cubic with a = -0.5: Pillow's BICUBIC.
    Bicubic,
    /// Mean over the area that an output pixel covers, including parts of pixels: OpenCV's INTER_AREA.
    Area,
    /// Three-lobed windowed sinc: Pillow's LANCZOS.
    Lanczos,
}

/// The part of a picture that is resampled, in pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ResampleRegion {
    /// A window of a larger photo. Borders can lie between pixels, and kernels read beyond them into the picture.
    Window { left: f64, top: f64, width: f64, height: f64 },
    /// A part that is cropped before resampling: kernels do not read beyond its borders.
    Cut { left: u32, top: u32, width: u32, height: u32 },
}

impl ResampleRegion {
    pub(super) fn whole(picture: &Picture) -> Self {
        let (width, height) = (picture.width, picture.height);
        Self::Cut { left: 0, top: 0, width, height }
    }
}

/// Resamples `region` of the picture to `width` x `height`. The result is white if the region contains no pixel.
pub(super) fn resample(
    picture: &Picture,
    region: ResampleRegion,
    width: u32,
    height: u32,
    filter: ResampleFilter,
) -> Picture {
    match Resampling::new((picture.width, picture.height), region, width, height, filter) {
        Some(resampling) => resampling.apply(picture, (0, 0)),
        None => white(width, height),
    }
}

/// Precomputed weights for resampling a region of a photo.
pub(super) struct Resampling {
    across: Taps,
    down: Taps,
}

impl Resampling {
    /// Weights for resampling `region` of a photo of `size` to `width` x `height`; `None` if the region or the result
    /// contains no pixel.
    pub(super) fn new(
        size: (u32, u32),
        region: ResampleRegion,
        width: u32,
        height: u32,
        filter: ResampleFilter,
    ) -> Option<Self> {
        let axis = |side: u32, start: f64, length: f64, len: u32| Taps::new(0..side, start, length, len, filter);
        let cut = |side: u32, start: u32, length: u32, len: u32| {
            Taps::new(start..(start + length).min(side), start.into(), length.into(), len, filter)
        };
        let (across, down) = match region {
            ResampleRegion::Window { left, top, width: w, height: h } => {
                (axis(size.0, left, w, width), axis(size.1, top, h, height))
            }
            ResampleRegion::Cut { left, top, width: w, height: h } => {
                (cut(size.0, left, w, width), cut(size.1, top, h, height))
            }
        };
        Some(Self { across: across?, down: down? })
    }

    /// Columns and rows `[x1, y1, x2, y2]` (half open) of the photo that are read.
    pub(super) fn reads(&self) -> [u32; 4] {
        [self.across.first, self.down.first, self.across.last, self.down.last].map(|it| it as u32)
    }

    /// Resamples the region. `pixels` starts at column and row `origin` of the photo and must contain everything in
    /// [`Resampling::reads`].
    pub(super) fn apply(&self, pixels: &Picture, origin: (u32, u32)) -> Picture {
        let rows = resample_rows(pixels, origin, &self.across, &self.down);
        let (width, height) = (self.across.spans.len(), self.down.spans.len());
        let mut rgb = vec![0; width * height * 3];
        convolve(&rows, width * 3, &self.down, &mut rgb);
        Picture { width: width as u32, height: height as u32, rgb }
    }
}

/// Kernels along one axis: the input pixels and weights of each output pixel.
struct Taps {
    /// For each output pixel: first input pixel and number of input pixels.
    spans: Vec<(usize, usize)>,
    /// Weights of all output pixels, concatenated. The weights of an output pixel add up to `1 << PRECISION` up to
    /// rounding.
    weights: Vec<i32>,
    /// Range `first..last` of the input pixels that are read.
    first: usize,
    last: usize,
}

/// Fraction bits of a weight. With 8 bits for the pixel and 2 for kernels that overshoot, sums fit in 32 bits.
const PRECISION: u32 = 22;

impl Taps {
    /// Kernels for `len` output pixels that cover the range `start .. start + width` of input pixels. Only input pixels
    /// in `source` are used; `None` if there are none, or if `len` or `width` is 0.
    fn new(source: std::ops::Range<u32>, start: f64, width: f64, len: u32, filter: ResampleFilter) -> Option<Self> {
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

    /// First input pixel and weights of each output pixel, in order.
    fn sums(&self) -> impl Iterator<Item = (usize, &[i32])> {
        let mut rest = self.weights.as_slice();
        self.spans.iter().map(move |&(from, n)| {
            let (weights, after) = rest.split_at(n);
            rest = after;
            (from, weights)
        })
    }
}

impl ResampleFilter {
    /// Radius of the kernel at scale 1.
    fn radius(self) -> f64 {
        match self {
            Self::Bicubic => 2.0,
            Self::Area => 0.5,
            Self::Lanczos => 3.0,
        }
    }

    /// Range of pixels (half open) with non-zero weight.
    fn reach(self, center: f64, radius: f64) -> (f64, f64) {
        match self {
            Self::Area => ((center - radius).floor(), (center + radius).ceil()),
            // Pixels whose centre is inside, with Pillow's rounding.
            _ => ((center - radius + 0.5).floor(), (center + radius + 0.5).floor()),
        }
    }

    /// Weight of a pixel whose centre is at distance `x`, for a kernel that is `stretch` times as wide as at scale 1.
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

/// Resamples the rows that `down` needs to the output width: `[rows, output width, 3]`.
///
/// Blocks of rows are transposed, so that sums along a row run over adjacent bytes, as sums along a column do. Both
/// passes can then use [`convolve`], which the compiler vectorises.
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

/// Number of bytes that are summed together: a multiple of 3 (the channels) and of [`VECTOR`].
const LANES: usize = 48;

/// `result[i][j]` = sum over `p` of `weight[i][p] * values[p][j]`, rounded and clamped to 0..=255. `values` is
/// `[taps.first..taps.last, stride]`, `result` is `[output pixels, stride]`.
fn convolve(values: &[u8], stride: usize, taps: &Taps, result: &mut [u8]) {
    widest(ConvolveWork { values, stride, taps, result });
}

struct ConvolveWork<'a> {
    values: &'a [u8],
    stride: usize,
    taps: &'a Taps,
    result: &'a mut [u8],
}

impl SimdWork for ConvolveWork<'_> {
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

/// Bytes `at..at + LANES` of a weighted sum of rows. The sums are three small arrays, because the compiler keeps
/// those in registers. An array of [`LANES`] would be stored to memory for every weight.
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

/// Number of 32-bit integers in the widest supported vector.
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

/// Shrinks the picture so that its shorter side has `limit` pixels, with the same aspect ratio. `None` if the shorter
/// side has at most `limit` pixels, or if `limit` is 0. The cache of decoded photos uses it to hold more photos.
pub fn shrink(picture: &Picture, limit: u32) -> Option<Picture> {
    let (width, height) = (picture.width, picture.height);
    let shorter = width.min(height);
    if shorter <= limit || limit == 0 {
        return None;
    }
    let scaled = |side: u32| ((f64::from(side) * f64::from(limit) / f64::from(shorter)).round() as u32).max(1);
    Some(resample(picture, ResampleRegion::whole(picture), scaled(width), scaled(height), ResampleFilter::Bicubic))
}
