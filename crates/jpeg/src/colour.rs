//! Upsamples the components and converts them to RGB pixels.

use crate::JpegPixels;
use crate::decode::ComponentPlane;
use crate::headers::{ColourModel, JpegHeaders};

/// Upsampling of a component to the size of the photo, with the integer arithmetic and rounding of libjpeg-turbo's
/// "fancy" upsampling.
#[derive(Clone, Copy)]
pub(super) struct Upsampling {
    filter: UpsamplingFilter,
    /// Size of the whole component in samples. Beyond the border, the outermost samples are repeated.
    width: usize,
    height: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum UpsamplingFilter {
    /// One sample per pixel.
    None,
    /// One sample per two pixels across, down or both: triangle filter, 3/4 of the nearer sample plus 1/4 of the
    /// next.
    Triangle { across: bool, down: bool },
    /// Any other ratio: each sample is repeated.
    Repeat { across: usize, down: usize },
}

/// Upsampling of each component for decoding in full size.
pub(super) fn upsamplings(headers: &JpegHeaders<'_>) -> Vec<Upsampling> {
    let most = headers.max_sampling();
    let of = |own: (u32, u32)| {
        let (width, height) = (headers.width * own.0, headers.height * own.1);
        let (width, height) = (width.div_ceil(most.0) as usize, height.div_ceil(most.1) as usize);
        let filter = match (most.0 / own.0, most.1 / own.1) {
            (1, 1) => UpsamplingFilter::None,
            (1, 2) => UpsamplingFilter::Triangle { across: false, down: true },
            // libjpeg repeats samples if the component has at most two columns.
            (2, down @ (1 | 2)) if width > 2 => UpsamplingFilter::Triangle { across: true, down: down == 2 },
            (across, down) => UpsamplingFilter::Repeat { across: across as usize, down: down as usize },
        };
        Upsampling { filter, width, height }
    };
    headers.components.iter().map(|it| of((it.across, it.down))).collect()
}

impl Upsampling {
    /// True if the filter reads neighbouring samples.
    pub(super) fn reads_neighbours(self) -> bool {
        matches!(self.filter, UpsamplingFilter::Triangle { .. })
    }

    /// Pixels `x1..x2` of row `y`. `sums` and `pixels` are scratch buffers.
    #[inline(always)]
    fn row<'a>(
        self,
        plane: &'a ComponentPlane,
        y: usize,
        [x1, x2]: [usize; 2],
        sums: &mut Vec<u16>,
        pixels: &'a mut Vec<u8>,
    ) -> &'a [u8] {
        let row = |y: usize| &plane.values[(y - plane.top) * plane.stride..];
        let (wide, down) = match self.filter {
            UpsamplingFilter::None => return &row(y)[x1 - plane.left..x2 - plane.left],
            UpsamplingFilter::Repeat { across, down } => {
                let samples = row(y / down);
                pixels.clear();
                pixels.extend((x1..x2).map(|x| samples[x / across - plane.left]));
                return pixels;
            }
            UpsamplingFilter::Triangle { across, down } => (across, down),
        };
        let near = row(if down { y / 2 } else { y });
        let below = y % 2 == 1;
        let far = match (down, below) {
            (false, _) => near,
            (true, false) => row((y / 2).saturating_sub(1)),
            (true, true) => row((y / 2 + 1).min(self.height - 1)),
        };
        if !wide {
            let pairs = near.iter().zip(far).skip(x1 - plane.left);
            let bias = if below { 2 } else { 1 };
            pixels.clear();
            pixels.extend(
                pairs.take(x2 - x1).map(|(&near, &far)| ((3 * u16::from(near) + u16::from(far) + bias) >> 2) as u8),
            );
            return pixels;
        }
        // Samples under the requested pixels, plus one on each side.
        let (first, last) = (x1 / 2, (x2 - 1) / 2);
        let (from, to) = (first.saturating_sub(1), (last + 1).min(self.width - 1));
        let inside = from - plane.left..to + 1 - plane.left;
        sums.clear();
        sums.extend((first == 0).then_some(0));
        sums.extend(
            near[inside.clone()].iter().zip(&far[inside]).map(|(&near, &far)| 3 * u16::from(near) + u16::from(far)),
        );
        sums.extend((last + 1 == self.width).then_some(0));
        // At both ends of the whole row, the outermost sample replaces its missing neighbour.
        if first == 0 {
            sums[0] = sums[1];
        }
        if last + 1 == self.width {
            let n = sums.len();
            sums[n - 1] = sums[n - 2];
        }
        let [left, right] = if down { [8, 7] } else { [4, 8] };
        let n = last - first + 1;
        pixels.resize(2 * n, 0);
        let (pairs, _) = pixels.as_chunks_mut::<2>();
        let three = sums[..n].iter().zip(&sums[1..]).zip(&sums[2..]);
        for (pair, ((&before, &own), &after)) in pairs.iter_mut().zip(three) {
            *pair = [((3 * own + before + left) >> 4) as u8, ((3 * own + after + right) >> 4) as u8];
        }
        &pixels[x1 - 2 * first..x2 - 2 * first]
    }
}

/// Converts the pixels `[x1, y1, x2, y2]` of the scaled photo. `upsamplings` may be empty if all components have one
/// sample per pixel.
#[inline(always)]
pub(super) fn pixels(
    planes: &[ComponentPlane],
    upsamplings: &[Upsampling],
    colours: ColourModel,
    part: [u32; 4],
) -> JpegPixels {
    let [x1, y1, x2, y2] = part.map(|it| it as usize);
    let (width, height) = (x2 - x1, y2 - y1);
    let mut rgb = vec![0; width * height * 3];
    let mut sums = Vec::new();
    let mut scratch: [Vec<u8>; 4] = Default::default();
    let plain = Upsampling { filter: UpsamplingFilter::None, width: 0, height: 0 };
    let of = |component: usize| upsamplings.get(component).copied().unwrap_or(plain);
    for (y, row) in (y1..y2).zip(rgb.chunks_exact_mut(width * 3)) {
        let (pixels, _) = row.as_chunks_mut::<3>();
        let mut rows: [&[u8]; 4] = [&[]; 4];
        for (i, ((row, plane), scratch)) in rows.iter_mut().zip(planes).zip(&mut scratch).enumerate() {
            *row = of(i).row(plane, y, [x1, x2], &mut sums, scratch);
        }
        let [a, b, c, d] = rows;
        let three = || a.iter().zip(b).zip(c).map(|((&a, &b), &c)| [a, b, c]);
        match colours {
            ColourModel::Grey => pixels.iter_mut().zip(a).for_each(|(pixel, &value)| *pixel = [value; 3]),
            ColourModel::YCbCr => {
                pixels.iter_mut().zip(three()).for_each(|(pixel, [y, cb, cr])| *pixel = ycc_to_rgb(y, cb, cr));
            }
            ColourModel::Rgb => pixels.iter_mut().zip(three()).for_each(|(pixel, rgb)| *pixel = rgb),
            ColourModel::Cmyk => {
                pixels.iter_mut().zip(three()).zip(d).for_each(|((pixel, cmy), &k)| *pixel = cmyk_to_rgb(cmy, k));
            }
            ColourModel::Ycck => pixels.iter_mut().zip(three()).zip(d).for_each(|((pixel, [y, cb, cr]), &k)| {
                // libjpeg converts YCC to CMY as `255 - RGB`, and Pillow then inverts it.
                *pixel = cmyk_to_rgb(ycc_to_rgb(y, cb, cr).map(|value| 255 - value), k);
            }),
        }
    }
    JpegPixels { width: width as u32, height: height as u32, rgb }
}

/// CMYK as Adobe's programs store it (inverted, 255 means no ink) to RGB, with Pillow's rounding.
#[inline(always)]
fn cmyk_to_rgb(cmy: [u8; 3], k: u8) -> [u8; 3] {
    cmy.map(|value| {
        let covered = u32::from(255 - value) * u32::from(k) + 128;
        k - (((covered >> 8) + covered) >> 8) as u8
    })
}

/// YCbCr to RGB (JFIF, ITU-R 601) with 16 fraction bits, rounded to the nearest level.
#[inline(always)]
fn ycc_to_rgb(y: u8, cb: u8, cr: u8) -> [u8; 3] {
    let (y, cb, cr) = ((i32::from(y) << 16) + (1 << 15), i32::from(cb) - 128, i32::from(cr) - 128);
    [y + 91_881 * cr, y - 22_554 * cb - 46_802 * cr, y + 116_130 * cb].map(|value| (value >> 16).clamp(0, 255) as u8)
}
