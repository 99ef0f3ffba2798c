//! The four kinds of scans of a progressive JPEG (T.81, annex G). Each function reads one block and updates its
//! coefficients.

use super::huffman::{BitReader, HuffmanCode};

/// First DC scan: the difference to the previous block, without its lowest `low` bits.
#[inline(always)]
pub(super) fn dc_first(
    bits: &mut BitReader<'_>,
    code: &HuffmanCode,
    low: u8,
    predicted: &mut i32,
    block: &mut [i16; 64],
) -> Option<()> {
    *predicted = predicted.wrapping_add(bits.dc_difference(code)?);
    block[0] = (*predicted << low) as i16;
    Some(())
}

/// Refinement scan of DC: reads one more bit of the coefficient.
#[inline(always)]
pub(super) fn dc_refine(bits: &mut BitReader<'_>, low: u8, block: &mut [i16; 64]) -> Option<()> {
    block[0] |= (bits.take(1)? << low) as i16;
    Some(())
}

/// The coefficients `from..=to` of an AC scan, and the Huffman code of its symbols.
pub(super) struct SpectralBand<'a> {
    pub(super) code: &'a HuffmanCode,
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) low: u8,
}

/// Number of blocks in an EOB run with symbol `run` (0 to 14).
#[inline(always)]
fn covered(bits: &mut BitReader<'_>, run: usize) -> Option<u32> {
    Some((1 << run) + bits.take(run as u32)?)
}

impl SpectralBand<'_> {
    /// First AC scan: coefficients without their lowest `low` bits. `eob_run` is the number of blocks without further
    /// coefficients, including this one.
    #[inline(always)]
    pub(super) fn first(&self, bits: &mut BitReader<'_>, eob_run: &mut u32, block: &mut [i16; 64]) -> Option<()> {
        if *eob_run > 0 {
            *eob_run -= 1;
            return Some(());
        }
        let mut k = self.from;
        while k <= self.to {
            let (run, size, value) = bits.band_symbol(self.code)?;
            if size > 0 {
                k += run;
                if k > self.to {
                    return None;
                }
                block[k & 63] = (value << self.low) as i16;
                k += 1;
            } else if run == 15 {
                k += 16;
            } else {
                *eob_run = covered(bits, run)? - 1;
                break;
            }
        }
        Some(())
    }

    /// Refinement scan of AC: reads one more bit of each non-zero coefficient, and the coefficients that become
    /// non-zero in this scan.
    #[inline(always)]
    pub(super) fn refine(&self, bits: &mut BitReader<'_>, eob_run: &mut u32, block: &mut [i16; 64]) -> Option<()> {
        let mut k = self.from;
        while *eob_run == 0 && k <= self.to {
            let (mut zeros, size, value) = bits.band_symbol(self.code)?;
            match size {
                0 if zeros < 15 => {
                    *eob_run = covered(bits, zeros)?;
                    break;
                }
                0 | 1 => {}
                _ => return None,
            }
            // Skip `zeros` coefficients that stay zero, and refine the non-zero coefficients in between.
            while k <= self.to {
                if block[k & 63] != 0 {
                    self.correct(bits, &mut block[k & 63])?;
                } else if zeros == 0 {
                    break;
                } else {
                    zeros -= 1;
                }
                k += 1;
            }
            if size > 0 {
                if k > self.to {
                    return None;
                }
                block[k & 63] = (value << self.low) as i16;
            }
            k += 1;
        }
        if *eob_run > 0 {
            for coefficient in &mut block[k.min(64)..=self.to] {
                if *coefficient != 0 {
                    self.correct(bits, coefficient)?;
                }
            }
            *eob_run -= 1;
        }
        Some(())
    }

    #[inline(always)]
    fn correct(&self, bits: &mut BitReader<'_>, coefficient: &mut i16) -> Option<()> {
        let bit = 1 << self.low;
        if bits.take(1)? == 1 && *coefficient & bit == 0 {
            *coefficient = coefficient.wrapping_add(if *coefficient >= 0 { bit } else { -bit });
        }
        Some(())
    }
}
