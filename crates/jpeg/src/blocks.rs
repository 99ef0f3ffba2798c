//! Transforms the coefficients of a block to samples, at any scale.

use super::headers::{JpegComponent, JpegHeaders};
use super::huffman::{BitReader, HuffmanCode};
use super::inverse::{flat, inverse};

/// The quantised coefficients of one block.
pub(super) trait JpegBlock {
    /// Calls `each` with the zigzag index and value of DC and then of every non-zero AC coefficient, in ascending order
    /// of the index. A coded block may also pass AC coefficients that are zero. Returns `None` if the data are damaged.
    fn each(self, each: impl FnMut(usize, i32)) -> Option<()>;
}

/// The next block of a sequential scan, not yet decoded.
pub(super) struct CodedBlock<'a, 'b> {
    pub(super) bits: &'a mut BitReader<'b>,
    /// Huffman codes for DC and for AC.
    pub(super) codes: [&'a HuffmanCode; 2],
    /// DC of the component's previous block.
    pub(super) predicted: &'a mut i32,
}

impl JpegBlock for CodedBlock<'_, '_> {
    #[inline(always)]
    fn each(self, each: impl FnMut(usize, i32)) -> Option<()> {
        self.bits.block(self.codes, self.predicted, each)
    }
}

/// A block in zigzag order, after all scans have been read.
pub(super) struct StoredBlock<'a>(pub(super) &'a [i16; 64]);

impl JpegBlock for StoredBlock<'_> {
    #[inline(always)]
    fn each(self, mut each: impl FnMut(usize, i32)) -> Option<()> {
        each(0, self.0[0].into());
        for (k, &value) in self.0.iter().enumerate().skip(1) {
            if value != 0 {
                each(k, value.into());
            }
        }
        Some(())
    }
}

/// Transforms the blocks of one component to samples.
pub(super) struct BlockTransform {
    /// Samples per block, across and down.
    pub(super) width: usize,
    pub(super) height: usize,
    /// For each coefficient in zigzag order: its index in a block `[row][column]`, and its quantisation factor.
    positions: [(u8, i32); 64],
    /// Basis images: the contribution of each coefficient with value 1 to the samples, `[64, height * width]` in zigzag
    /// order. Empty at full size, where [`inverse`] computes the 64 samples of a block.
    patterns: Vec<f32>,
}

/// Column and row of each coefficient, in zigzag order (T.81, figure A.6).
fn zigzag() -> impl Iterator<Item = (usize, usize)> {
    (0..15_usize).flat_map(|sum| {
        let low = sum.saturating_sub(7);
        (low..=sum.min(7)).map(move |i| if sum % 2 == 0 { (i, sum - i) } else { (sum - i, i) })
    })
}

/// The `k`-th cosine basis function of eight points, averaged over `n` equal parts.
fn means_of_cosine(k: usize, n: usize) -> Vec<f64> {
    let height = if k == 0 { 0.125_f64.sqrt() } else { 0.5 };
    let cosine = |x: usize| height * ((2 * x + 1) as f64 * k as f64 * std::f64::consts::PI / 16.0).cos();
    let each = 8 / n;
    (0..n).map(|part| (part * each..(part + 1) * each).map(cosine).sum::<f64>() / each as f64).collect()
}

impl BlockTransform {
    /// Returns `None` if a block would have more than 8 samples across or down, or a number of samples that is not a
    /// power of two. Files with such a component are decoded in full size only.
    pub(super) fn new(
        headers: &JpegHeaders<'_>,
        component: &JpegComponent,
        quantiser: &[u16; 64],
        scale: u32,
    ) -> Option<Self> {
        let (across, down) = headers.max_sampling();
        let samples = |most: u32, own: u32| match scale {
            1 => Some(8),
            _ => {
                Some(8 * most / (own * scale)).filter(|it| matches!(it, 1 | 2 | 4 | 8) && it * own * scale == 8 * most)
            }
        };
        let (width, height) = (samples(across, component.across)? as usize, samples(down, component.down)? as usize);
        let mut positions = [(0, 0); 64];
        let mut patterns = Vec::new();
        for ((position, (column, row)), &factor) in positions.iter_mut().zip(zigzag()).zip(quantiser) {
            *position = ((8 * row + column) as u8, factor.into());
            if width * height < 64 {
                let (x, y) = (means_of_cosine(column, width), means_of_cosine(row, height));
                patterns.extend(y.iter().flat_map(|y| x.iter().map(move |x| (x * y * f64::from(factor)) as f32)));
            }
        }
        Some(Self { width, height, positions, patterns })
    }

    /// Writes the samples of a block to the first `width` columns of `height` rows.
    #[inline(always)]
    pub(super) fn write(&self, block: impl JpegBlock, samples: &mut [u8], stride: usize) -> Option<()> {
        match self.width * self.height {
            1 => self.write_sums(&self.sum::<1>(block)?, samples, stride),
            2 => self.write_sums(&self.sum::<2>(block)?, samples, stride),
            4 => self.write_sums(&self.sum::<4>(block)?, samples, stride),
            8 => self.write_sums(&self.sum::<8>(block)?, samples, stride),
            16 => self.write_sums(&self.sum::<16>(block)?, samples, stride),
            32 => self.write_sums(&self.sum::<32>(block)?, samples, stride),
            _ => self.transform(block, samples, stride)?,
        }
        Some(())
    }

    #[inline(always)]
    fn transform(&self, block: impl JpegBlock, samples: &mut [u8], stride: usize) -> Option<()> {
        let mut factored = [0; 64];
        let mut last = 0;
        block.each(|k, value| {
            let (position, factor) = self.positions[k & 63];
            factored[usize::from(position & 63)] = value.wrapping_mul(factor);
            last = k;
        })?;
        let rows = if last == 0 { [[flat(factored[0]); 8]; 8] } else { inverse(&factored) };
        for (samples, row) in samples.chunks_mut(stride).zip(rows) {
            samples[..8].copy_from_slice(&row);
        }
        Some(())
    }

    #[inline(always)]
    fn write_sums<const N: usize>(&self, sums: &[f32; N], samples: &mut [u8], stride: usize) {
        // The cast clamps to 0..=255.
        let bytes = sums.map(|sum| (sum + 128.5) as u8);
        for (row, from) in samples.chunks_mut(stride).zip(bytes.chunks_exact(self.width)) {
            row[..self.width].copy_from_slice(from);
        }
    }

    /// The `N` samples of a block, centred on 0.
    #[inline(always)]
    fn sum<const N: usize>(&self, block: impl JpegBlock) -> Option<[f32; N]> {
        let (patterns, _) = self.patterns.as_chunks::<N>();
        let mut sums = [0.0; N];
        block.each(|k, value| {
            // A single sample is the mean of the block, which depends on DC only.
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
