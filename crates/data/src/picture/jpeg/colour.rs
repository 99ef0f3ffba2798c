//! From the samples of the components to pixels.

use super::Plane;
use super::headers::Frame;
use crate::sample::Picture;

/// How a component that has a sample for two pixels, across or down, is brought to the size of the photo: libjpeg's triangle filter, three
/// quarters of the nearer sample and one of the next, in its whole numbers and with its roundings.
#[derive(Clone, Copy)]
pub(super) struct Interpolation {
    across: bool,
    down: bool,
    /// Samples of the whole component: beyond them its outermost ones are repeated.
    width: usize,
    height: usize,
}

/// Of each component, in full size. `None` for what libjpeg does not interpolate, having too few columns.
pub(super) fn interpolations(frame: &Frame<'_>) -> Option<Vec<Interpolation>> {
    let most = frame.most()?;
    let of = |own: (u32, u32)| {
        let (width, height) = (frame.width * own.0, frame.height * own.1);
        let (across, down) = (own.0 < most.0, own.1 < most.1);
        let (width, height) = (width.div_ceil(most.0) as usize, height.div_ceil(most.1) as usize);
        (!across || width > 2).then_some(Interpolation { across, down, width, height })
    };
    frame.components.iter().map(|it| of((it.across, it.down))).collect()
}

impl Interpolation {
    /// Whether it looks at samples beside those of a pixel.
    pub(super) fn reaches(self) -> bool {
        self.across || self.down
    }

    /// Pixels `x1..x2` of row `y`; `sums` and `pixels` are for use on the way.
    #[inline(always)]
    fn row<'a>(
        self,
        plane: &'a Plane,
        y: usize,
        [x1, x2]: [usize; 2],
        sums: &mut Vec<u16>,
        pixels: &'a mut Vec<u8>,
    ) -> &'a [u8] {
        let row = |y: usize| &plane.values[(y - plane.top) * plane.stride..];
        let near = row(if self.down { y / 2 } else { y });
        if !self.reaches() {
            return &near[x1 - plane.left..x2 - plane.left];
        }
        let below = y % 2 == 1;
        let far = match (self.down, below) {
            (false, _) => near,
            (true, false) => row((y / 2).saturating_sub(1)),
            (true, true) => row((y / 2 + 1).min(self.height - 1)),
        };
        if !self.across {
            let pairs = near.iter().zip(far).skip(x1 - plane.left);
            let bias = if below { 2 } else { 1 };
            pixels.clear();
            pixels.extend(
                pairs.take(x2 - x1).map(|(&near, &far)| ((3 * u16::from(near) + u16::from(far) + bias) >> 2) as u8),
            );
            return pixels;
        }
        // Samples that the pixels lie in, and one more at either side.
        let (first, last) = (x1 / 2, (x2 - 1) / 2);
        let (from, to) = (first.saturating_sub(1), (last + 1).min(self.width - 1));
        let inside = from - plane.left..to + 1 - plane.left;
        sums.clear();
        sums.extend((first == 0).then_some(0));
        sums.extend(
            near[inside.clone()].iter().zip(&far[inside]).map(|(&near, &far)| 3 * u16::from(near) + u16::from(far)),
        );
        sums.extend((last + 1 == self.width).then_some(0));
        // Sums of a whole row: one sample has four parts.
        if first == 0 {
            sums[0] = sums[1];
        }
        if last + 1 == self.width {
            let n = sums.len();
            sums[n - 1] = sums[n - 2];
        }
        let [left, right] = if self.down { [8, 7] } else { [4, 8] };
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

/// The pixels `[x1, y1, x2, y2]` (at scale) of one component (grey) or three (YCbCr); without `interpolations` where all have a sample for each.
#[inline(always)]
pub(super) fn picture(planes: &[Plane], interpolations: &[Interpolation], part: [u32; 4]) -> Option<Picture> {
    let [x1, y1, x2, y2] = part.map(|it| it as usize);
    let (width, height) = (x2 - x1, y2 - y1);
    let mut rgb = vec![0; width * height * 3];
    let mut sums = Vec::new();
    let mut scratch: [Vec<u8>; 3] = Default::default();
    let plain = Interpolation { across: false, down: false, width: 0, height: 0 };
    let of = |component: usize| interpolations.get(component).copied().unwrap_or(plain);
    for (y, row) in (y1..y2).zip(rgb.chunks_exact_mut(width * 3)) {
        let (pixels, _) = row.as_chunks_mut::<3>();
        let [a, b, c] = &mut scratch;
        match planes {
            [grey] => {
                let grey = of(0).row(grey, y, [x1, x2], &mut sums, a);
                pixels.iter_mut().zip(grey).for_each(|(pixel, &value)| *pixel = [value; 3]);
            }
            [luma, blue, red] => {
                let luma = of(0).row(luma, y, [x1, x2], &mut sums, a);
                let blue = of(1).row(blue, y, [x1, x2], &mut sums, b);
                let red = of(2).row(red, y, [x1, x2], &mut sums, c);
                for (pixel, ((&luma, &blue), &red)) in pixels.iter_mut().zip(luma.iter().zip(blue).zip(red)) {
                    *pixel = colour(luma, blue, red);
                }
            }
            _ => return None,
        }
    }
    Some(Picture { width: width as u32, height: height as u32, rgb })
}

/// YCbCr to RGB (JFIF, ITU-R 601), 16 bits behind the point, rounded to the nearest level.
#[inline(always)]
fn colour(luma: u8, blue: u8, red: u8) -> [u8; 3] {
    let (luma, blue, red) = ((i32::from(luma) << 16) + (1 << 15), i32::from(blue) - 128, i32::from(red) - 128);
    [luma + 91_881 * red, luma - 22_554 * blue - 46_802 * red, luma + 116_130 * blue]
        .map(|value| (value >> 16).clamp(0, 255) as u8)
}
