//! From the bits of a block to its samples, at any scale.

use super::headers::{Component, Frame};
use super::huffman::{Bits, Code};
use super::inverse::{flat, inverse};

/// Reads the blocks of one component.
pub(super) struct Reader<'a> {
    codes: [&'a Code; 2],
    /// Blocks in a unit.
    pub(super) across: usize,
    pub(super) down: usize,
    /// Samples that a block becomes.
    pub(super) width: usize,
    pub(super) height: usize,
    /// Of each coefficient, in the order of the file: where it is in the block `[row][column]`, and its factor.
    places: [(u8, i32); 64],
    /// What one of each coefficient, in the order of the file, adds to each sample: `[64, height * width]`; empty where a block becomes 64.
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
    pub(super) fn new(frame: &'a Frame<'_>, component: &Component, scale: u32) -> Option<Self> {
        let (across, down) = frame.most()?;
        let samples = |most: u32, own: u32| match scale {
            1 => Some(8),
            _ => Some(8 * most / (own * scale)).filter(|it| (1..=8).contains(it)),
        };
        let (width, height) = (samples(across, component.across)? as usize, samples(down, component.down)? as usize);
        let quantiser = frame.quantisers[component.quantiser].as_ref()?;
        let mut places = [(0, 0); 64];
        let mut patterns = Vec::new();
        for ((place, (column, row)), &factor) in places.iter_mut().zip(zigzag()).zip(quantiser) {
            *place = ((8 * row + column) as u8, factor.into());
            if width * height < 64 {
                let (x, y) = (means_of_cosine(column, width), means_of_cosine(row, height));
                patterns.extend(y.iter().flat_map(|y| x.iter().map(move |x| (x * y * f64::from(factor)) as f32)));
            }
        }
        Some(Self {
            codes: [frame.means.get(component.mean)?.as_ref()?, frame.others.get(component.other)?.as_ref()?],
            across: component.across as usize,
            down: component.down as usize,
            width,
            height,
            places,
            patterns,
        })
    }

    #[inline(always)]
    pub(super) fn pass_over(&self, bits: &mut Bits<'_>, mean: &mut i32) -> Option<()> {
        bits.block(self.codes, mean, |_, _| ())
    }

    /// The next block, to the first samples of `width` of `height` rows.
    #[inline(always)]
    pub(super) fn read(&self, bits: &mut Bits<'_>, mean: &mut i32, samples: &mut [u8], stride: usize) -> Option<()> {
        match self.width * self.height {
            1 => self.place(&self.sum::<1>(bits, mean)?, samples, stride),
            2 => self.place(&self.sum::<2>(bits, mean)?, samples, stride),
            4 => self.place(&self.sum::<4>(bits, mean)?, samples, stride),
            8 => self.place(&self.sum::<8>(bits, mean)?, samples, stride),
            16 => self.place(&self.sum::<16>(bits, mean)?, samples, stride),
            32 => self.place(&self.sum::<32>(bits, mean)?, samples, stride),
            _ => self.transform(bits, mean, samples, stride)?,
        }
        Some(())
    }

    /// All 64 samples.
    #[inline(always)]
    fn transform(&self, bits: &mut Bits<'_>, mean: &mut i32, samples: &mut [u8], stride: usize) -> Option<()> {
        let mut block = [0; 64];
        let mut last = 0;
        bits.block(self.codes, mean, |k, value| {
            let (place, factor) = self.places[k & 63];
            block[usize::from(place & 63)] = value.wrapping_mul(factor);
            last = k;
        })?;
        let rows = if last == 0 { [[flat(block[0]); 8]; 8] } else { inverse(&block) };
        for (samples, row) in samples.chunks_mut(stride).zip(rows) {
            samples[..8].copy_from_slice(&row);
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
        let (patterns, _) = self.patterns.as_chunks::<N>();
        let mut sums = [0.0; N];
        bits.block(self.codes, mean, |k, value| {
            // A single sample is the mean: no other coefficient changes it.
            if N > 1 || k == 0 {
                add(&mut sums, &patterns[k], value as f32);
            }
        })?;
        Some(sums)
    }
}

#[inline(always)]
fn add<const N: usize>(sums: &mut [f32; N], pattern: &[f32; N], value: f32) {
    for i in 0..N {
        sums[i] += pattern[i] * value;
    }
}
