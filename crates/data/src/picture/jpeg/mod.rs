//! A part of a JPEG at 1/2, 1/4 or 1/8 of its size, straight from its coefficients: every pixel is the mean of the 4, 16 or 64 it stands for
//! (a box filter, as libjpeg-turbo's reduced transforms), and what is larger is never computed.
//!
//! For the plain files that photo collections consist of: baseline, 8 bits, grey or YCbCr, all components in one scan, Huffman codes. Others,
//! and damaged ones, are left to the decoder that reads whole photos.

mod huffman;

use huffman::{Bits, Code, END};

use crate::sample::Picture;

/// A decoded part of a photo.
pub(super) struct Part {
    /// Scaled pixels, from (`left`, `top`) on.
    pub(super) picture: Picture,
    pub(super) left: u32,
    pub(super) top: u32,
}

/// Those pixels of the photo at 1/`scale` (2, 4 or 8) that the columns and rows `[x1, y1, x2, y2]` (half open, of the whole photo) have a part
/// in. `None` for what this decoder does not read.
pub(super) fn decode(bytes: &[u8], scale: u32, part: [u32; 4]) -> Option<Part> {
    let frame = Frame::read(bytes)?;
    let [x1, y1, x2, y2] = part;
    if !matches!(scale, 2 | 4 | 8) || x1 >= x2 || y1 >= y2 || x2 > frame.width || y2 > frame.height {
        return None;
    }
    let planes = frame.planes(scale, part)?;
    let (left, top) = (x1 / scale, y1 / scale);
    let (width, height) = (x2.div_ceil(scale) - left, y2.div_ceil(scale) - top);
    let mut rgb = vec![0; width as usize * height as usize * 3];
    let (right, below) = ((left - planes.left) as usize, (top - planes.top) as usize);
    for (y, row) in rgb.chunks_exact_mut(width as usize * 3).enumerate() {
        let values = |plane: &'_ Vec<u8>| {
            let start = (below + y) * planes.stride + right;
            start..(start + width as usize).min(plane.len())
        };
        match planes.values.as_slice() {
            [grey] => {
                let grey = &grey[values(grey)];
                row.as_chunks_mut::<3>().0.iter_mut().zip(grey).for_each(|(pixel, &value)| *pixel = [value; 3]);
            }
            [luma, blue, red] => {
                let all = luma[values(luma)].iter().zip(&blue[values(blue)]).zip(&red[values(red)]);
                for (pixel, ((&luma, &blue), &red)) in row.as_chunks_mut::<3>().0.iter_mut().zip(all) {
                    *pixel = colour(luma, blue, red);
                }
            }
            _ => return None,
        }
    }
    Some(Part { picture: Picture { width, height, rgb }, left, top })
}

/// YCbCr to RGB (JFIF, ITU-R 601), 16 bits behind the point, rounded to the nearest level.
#[inline(always)]
fn colour(luma: u8, blue: u8, red: u8) -> [u8; 3] {
    let (luma, blue, red) = ((i32::from(luma) << 16) + (1 << 15), i32::from(blue) - 128, i32::from(red) - 128);
    [luma + 91_881 * red, luma - 22_554 * blue - 46_802 * red, luma + 116_130 * blue]
        .map(|value| (value >> 16).clamp(0, 255) as u8)
}

/// What the headers say.
struct Frame<'a> {
    width: u32,
    height: u32,
    components: Vec<Component>,
    /// Factors of coefficients, in the order of the file.
    quantisers: [Option<[u16; 64]>; 4],
    /// Codes of means and of the other coefficients.
    means: [Option<Code>; 4],
    others: [Option<Code>; 4],
    /// Units between restart markers; 0 for none.
    restarts: usize,
    scan: &'a [u8],
}

#[derive(Clone, Copy)]
struct Component {
    id: u8,
    /// Blocks in a unit.
    across: u32,
    down: u32,
    quantiser: usize,
    mean: usize,
    other: usize,
}

/// Samples of the components, all of one size.
struct Planes {
    values: Vec<Vec<u8>>,
    stride: usize,
    /// Scaled pixel of their first sample.
    left: u32,
    top: u32,
}

impl<'a> Frame<'a> {
    fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut frame = Self {
            width: 0,
            height: 0,
            components: Vec::new(),
            quantisers: [None; 4],
            means: [const { None }; 4],
            others: [const { None }; 4],
            restarts: 0,
            scan: &[],
        };
        let mut rest = bytes.strip_prefix(&[0xff, 0xd8])?;
        let (mut adobe, mut jfif) = (None, false);
        loop {
            let (marker, after) = match rest {
                [0xff, 0xff, ..] => {
                    rest = &rest[1..];
                    continue;
                }
                [0xff, marker, after @ ..] => (*marker, after),
                _ => return None,
            };
            let length = usize::from(u16::from_be_bytes(*after.first_chunk()?));
            let segment = after.get(2..length)?;
            rest = after.get(length..)?;
            match marker {
                0xc0 | 0xc1 if frame.components.is_empty() => frame.read_frame(segment)?,
                0xc4 => frame.read_codes(segment)?,
                0xdb => frame.read_quantisers(segment)?,
                0xdd => frame.restarts = u16::from_be_bytes(*segment.first_chunk()?).into(),
                0xda => {
                    frame.read_scan(segment)?;
                    frame.scan = rest;
                    break;
                }
                0xe0 => jfif |= segment.starts_with(b"JFIF"),
                0xee if segment.starts_with(b"Adobe") => adobe = segment.get(11).copied(),
                0xe1..=0xef | 0xfe => {}
                // Progressive, lossless, arithmetic and other frames; a height that comes after the scan; anything unknown.
                _ => return None,
            }
        }
        // Three components are YCbCr unless the file says that they are not.
        let ids: Vec<u8> = frame.components.iter().map(|it| it.id).collect();
        let is_rgb = adobe == Some(0) || (adobe.is_none() && !jfif && ids == *b"RGB");
        (ids.len() == 1 || !is_rgb).then_some(frame)
    }

    fn read_frame(&mut self, segment: &[u8]) -> Option<()> {
        let &[8, h1, h0, w1, w0, count, ref components @ ..] = segment else { return None };
        self.width = u16::from_be_bytes([w1, w0]).into();
        self.height = u16::from_be_bytes([h1, h0]).into();
        if !matches!(count, 1 | 3) || components.len() != 3 * usize::from(count) || self.width * self.height == 0 {
            return None;
        }
        for &[id, sampling, quantiser] in components.as_chunks::<3>().0 {
            let (across, down) = match count {
                // The units of a single component are its blocks.
                1 => (1, 1),
                _ => (u32::from(sampling >> 4), u32::from(sampling & 15)),
            };
            if !matches!(across, 1 | 2) || !matches!(down, 1 | 2) || quantiser > 3 {
                return None;
            }
            self.components.push(Component { id, across, down, quantiser: quantiser.into(), mean: 0, other: 0 });
        }
        Some(())
    }

    fn read_codes(&mut self, mut segment: &[u8]) -> Option<()> {
        while let [kind, after @ ..] = segment {
            let counts: &[u8; 16] = after.first_chunk()?;
            let total = counts.iter().map(|&count| usize::from(count)).sum::<usize>();
            let values = after.get(16..16 + total)?;
            segment = &after[16 + total..];
            let codes = match kind >> 4 {
                0 => &mut self.means,
                1 => &mut self.others,
                _ => return None,
            };
            *codes.get_mut(usize::from(kind & 15))? = Some(Code::new(counts, values)?);
        }
        Some(())
    }

    fn read_quantisers(&mut self, mut segment: &[u8]) -> Option<()> {
        while let [kind, after @ ..] = segment {
            let wide = usize::from(kind >> 4);
            if wide > 1 {
                return None;
            }
            let numbers = after.get(..64 << wide)?;
            segment = &after[64 << wide..];
            let quantiser = std::array::from_fn(|k| match wide {
                0 => numbers[k].into(),
                _ => u16::from_be_bytes([numbers[2 * k], numbers[2 * k + 1]]),
            });
            *self.quantisers.get_mut(usize::from(kind & 15))? = Some(quantiser);
        }
        Some(())
    }

    fn read_scan(&mut self, segment: &[u8]) -> Option<()> {
        let (&count, after) = segment.split_first()?;
        // All components at once, all coefficients, all bits.
        let n = self.components.len();
        if n == 0 || usize::from(count) != n || after.get(2 * n..)? != [0, 63, 0] {
            return None;
        }
        for (component, &[id, codes]) in self.components.iter_mut().zip(after.as_chunks::<2>().0) {
            if component.id != id {
                return None;
            }
            (component.mean, component.other) = (usize::from(codes >> 4), usize::from(codes & 15));
        }
        Some(())
    }

    /// The samples of all units that the part touches.
    fn planes(&self, scale: u32, [x1, y1, x2, y2]: [u32; 4]) -> Option<Planes> {
        let across = self.components.iter().map(|it| it.across).max()?;
        let down = self.components.iter().map(|it| it.down).max()?;
        let (unit_width, unit_height) = (8 * across, 8 * down);
        let columns = x1 / unit_width..x2.div_ceil(unit_width);
        let rows = y1 / unit_height..y2.div_ceil(unit_height);
        let (step_x, step_y) = ((unit_width / scale) as usize, (unit_height / scale) as usize);
        let stride = columns.len() * step_x;
        let mut values = vec![vec![0; stride * rows.len() * step_y]; self.components.len()];
        let readers = self.components.iter().map(|it| Reader::new(self, it, scale, across, down));
        let readers: Vec<Reader<'_>> = readers.collect::<Option<_>>()?;
        let mut means = vec![0; readers.len()];
        let mut bits = Bits::new(self.scan);
        let units = self.width.div_ceil(unit_width);
        let mut unit = 0_usize;
        for row in 0..rows.end {
            for column in 0..units {
                if self.restarts > 0 && unit > 0 && unit.is_multiple_of(self.restarts) {
                    bits.restart(((unit / self.restarts - 1) % 8) as u8)?;
                    means.fill(0);
                }
                unit += 1;
                let wanted = rows.contains(&row) && columns.contains(&column);
                for ((reader, plane), mean) in readers.iter().zip(&mut values).zip(&mut means) {
                    for down in 0..reader.down {
                        for across in 0..reader.across {
                            if !wanted {
                                reader.pass_over(&mut bits, mean)?;
                                continue;
                            }
                            let x = (column - columns.start) as usize * step_x + across * reader.width;
                            let y = (row - rows.start) as usize * step_y + down * reader.height;
                            reader.read(&mut bits, mean, &mut plane[y * stride + x..], stride)?;
                        }
                    }
                }
            }
            if bits.is_over() {
                return None;
            }
        }
        let (left, top) = (columns.start * unit_width / scale, rows.start * unit_height / scale);
        Some(Planes { values, stride, left, top })
    }
}

/// Reads the blocks of one component.
struct Reader<'a> {
    mean: &'a Code,
    other: &'a Code,
    /// Blocks in a unit.
    across: usize,
    down: usize,
    /// Samples that a block becomes.
    width: usize,
    height: usize,
    /// What one of each coefficient, in the order of the file, adds to each sample: `[64, height * width]`.
    patterns: Vec<f32>,
}

/// Column and row of each coefficient, in the order of the file (T.81, figure A.6).
fn zigzag() -> impl Iterator<Item = (usize, usize)> {
    (0..15_usize).flat_map(|sum| {
        let low = sum.saturating_sub(7);
        (low..=sum.min(7)).map(move |i| if sum % 2 == 0 { (i, sum - i) } else { (sum - i, i) })
    })
}

/// Means of the `k`-th cosine of eight points over `n` equal parts.
fn means_of_cosine(k: usize, n: usize) -> Vec<f64> {
    let height = if k == 0 { 0.125_f64.sqrt() } else { 0.5 };
    let cosine = |x: usize| height * ((2 * x + 1) as f64 * k as f64 * std::f64::consts::PI / 16.0).cos();
    let each = 8 / n;
    (0..n).map(|part| (part * each..(part + 1) * each).map(cosine).sum::<f64>() / each as f64).collect()
}

impl<'a> Reader<'a> {
    /// `None` where a table is missing, or the component is so coarse that it has fewer samples than the scaled photo.
    fn new(frame: &'a Frame<'_>, component: &Component, scale: u32, across: u32, down: u32) -> Option<Self> {
        let samples = |most: u32, own: u32| Some(8 * most / (own * scale)).filter(|it| (1..=8).contains(it));
        let (width, height) = (samples(across, component.across)? as usize, samples(down, component.down)? as usize);
        let quantiser = frame.quantisers[component.quantiser].as_ref()?;
        let mut patterns = Vec::with_capacity(64 * width * height);
        for ((column, row), &factor) in zigzag().zip(quantiser) {
            let (x, y) = (means_of_cosine(column, width), means_of_cosine(row, height));
            patterns.extend(y.iter().flat_map(|y| x.iter().map(move |x| (x * y * f64::from(factor)) as f32)));
        }
        Some(Self {
            mean: frame.means.get(component.mean)?.as_ref()?,
            other: frame.others.get(component.other)?.as_ref()?,
            across: component.across as usize,
            down: component.down as usize,
            width,
            height,
            patterns,
        })
    }

    #[inline(always)]
    fn pass_over(&self, bits: &mut Bits<'_>, mean: &mut i32) -> Option<()> {
        self.sum::<0>(bits, mean).map(|_| ())
    }

    /// The next block, to the first samples of `width` of `height` rows.
    #[inline(always)]
    fn read(&self, bits: &mut Bits<'_>, mean: &mut i32, samples: &mut [u8], stride: usize) -> Option<()> {
        match self.width * self.height {
            1 => self.place(&self.sum::<1>(bits, mean)?, samples, stride),
            2 => self.place(&self.sum::<2>(bits, mean)?, samples, stride),
            4 => self.place(&self.sum::<4>(bits, mean)?, samples, stride),
            8 => self.place(&self.sum::<8>(bits, mean)?, samples, stride),
            16 => self.place(&self.sum::<16>(bits, mean)?, samples, stride),
            32 => self.place(&self.sum::<32>(bits, mean)?, samples, stride),
            _ => self.place(&self.sum::<64>(bits, mean)?, samples, stride),
        }
        Some(())
    }

    #[inline(always)]
    fn place<const N: usize>(&self, sums: &[f32; N], samples: &mut [u8], stride: usize) {
        // The cast cuts to 0..=255.
        let bytes = sums.map(|sum| (sum + 128.5) as u8);
        for (row, from) in samples.chunks_mut(stride).zip(bytes.chunks_exact(self.width)) {
            row[..self.width].copy_from_slice(from);
        }
    }

    /// The `N` samples of the next block, around 0.
    #[inline(always)]
    fn sum<const N: usize>(&self, bits: &mut Bits<'_>, mean: &mut i32) -> Option<[f32; N]> {
        let mut reader = *bits;
        *mean = mean.wrapping_add(reader.difference(self.mean)?);
        let mut sums = [0.0; N];
        if N > 0 {
            add(&mut sums, self.patterns.first_chunk()?, *mean as f32);
        }
        let mut k = 1;
        while k < 64 {
            let found = reader.coefficient(self.other)?;
            if found.zeros == END {
                break;
            }
            k += usize::from(found.zeros);
            if k > 63 {
                return None;
            }
            // A single sample is the mean: no other coefficient changes it.
            if N > 1 {
                add(&mut sums, self.patterns[k * N..].first_chunk()?, f32::from(found.value));
            }
            k += 1;
        }
        *bits = reader;
        Some(sums)
    }
}

#[inline(always)]
fn add<const N: usize>(sums: &mut [f32; N], pattern: &[f32; N], value: f32) {
    for i in 0..N {
        sums[i] += pattern[i] * value;
    }
}

#[cfg(test)]
mod tests;
