//! Reads JPEG files with several scans: progressive files, and sequential files that store components in separate
//! scans. All coefficients stay in memory until the last scan has been read.

use super::JpegError;
use super::blocks::{CodedBlock, JpegBlock};
use super::headers::{JpegComponent, JpegHeaders, JpegTables, NextScan, ScanHeader};
use super::huffman::{BitReader, HuffmanCode, HuffmanKind, ScanData};
use super::progressive::{SpectralBand, dc_first, dc_refine};
use super::smoothing;
use crate::wide::{SimdWork, widest};

/// A scan can visit every block of the photo with almost no bytes, and a file can have any number of scans. The total
/// number of visits is therefore limited to this many per block of the photo, plus [`FREE_VISITS`].
const VISITS_PER_BLOCK: u64 = 32;
/// Extra visits for every file, so that small photos may have several hundred scans.
const FREE_VISITS: u64 = 1 << 24;

/// Value in [`JpegCoefficients::lowest_bits`] of a coefficient for which no scan has sent a bit.
pub(super) const UNKNOWN: i8 = -1;

/// The quantised coefficients of one component.
pub(super) struct JpegCoefficients {
    /// 64 coefficients per block in zigzag order; blocks row by row.
    values: Vec<i16>,
    /// Blocks per row of `values`, a whole number of MCUs.
    stride: usize,
    /// Blocks across and down, without the padding blocks of the last MCUs.
    pub(super) columns: usize,
    pub(super) rows: usize,
    /// Lowest bit that was sent of each coefficient: 0 if it is complete, [`UNKNOWN`] if nothing was sent.
    pub(super) lowest_bits: [i8; 64],
    /// The quantisation table that was current when the component's first scan began.
    pub(super) quantiser: Option<[u16; 64]>,
}

impl JpegCoefficients {
    fn new(headers: &JpegHeaders<'_>, component: &JpegComponent) -> Self {
        let (columns, rows) = headers.blocks(component);
        let stride = columns.next_multiple_of(component.across as usize);
        let padded = stride * rows.next_multiple_of(component.down as usize);
        let values = vec![0; 64 * padded];
        Self { values, stride, columns, rows, lowest_bits: [UNKNOWN; 64], quantiser: None }
    }

    /// `row` and `column` may address padding blocks of the last MCUs.
    #[inline(always)]
    pub(super) fn block(&self, row: usize, column: usize) -> &[i16; 64] {
        &self.values.as_chunks().0[row * self.stride + column]
    }

    /// DC of a block; 0 for padding rows that `values` does not hold.
    pub(super) fn dc(&self, row: usize, column: usize) -> i16 {
        self.values.as_chunks::<64>().0.get(row * self.stride + column).map_or(0, |block| block[0])
    }

    #[inline(always)]
    pub(super) fn block_mut(&mut self, row: usize, column: usize) -> &mut [i16; 64] {
        &mut self.values.as_chunks_mut().0[row * self.stride + column]
    }
}

fn damaged(number: usize) -> JpegError {
    JpegError::new(format!("JPEG has damaged data in scan {number}"), "a whole image")
}

/// Reads all scans up to the end marker.
///
/// # Errors
/// The data are damaged or incomplete, or the file has too many scans.
pub(super) fn read(headers: &JpegHeaders<'_>) -> Result<Vec<JpegCoefficients>, JpegError> {
    let mut components: Vec<JpegCoefficients> =
        headers.components.iter().map(|it| JpegCoefficients::new(headers, it)).collect();
    let blocks = |it: &JpegCoefficients| (it.columns * it.rows) as u64;
    let mut visits = VISITS_PER_BLOCK * components.iter().map(blocks).sum::<u64>() + FREE_VISITS;
    let mut tables = headers.tables.clone();
    let mut next = NextScan::Scan(headers.first_scan.clone(), headers.data);
    let mut content = ScanData::default();
    for number in 1.. {
        let NextScan::Scan(scan, data) = next else { break };
        let used = scan.members.iter().map(|it| blocks(&components[it.component])).sum();
        let Some(left) = visits.checked_sub(used) else {
            let found = format!("JPEG has at least {number} scans of {} x {} pixels", headers.width, headers.height);
            return Err(JpegError::new(found, "at most 32 full scans for a photo of this size"));
        };
        visits = left;
        for member in &scan.members {
            let quantiser = &mut components[member.component].quantiser;
            if quantiser.is_none() {
                *quantiser = Some(tables.quantiser(&headers.components[member.component])?);
            }
        }
        let rest = content.read(data);
        let coding = ScanCoding::new(headers.progressive, &scan, &tables, &components, number)?;
        let reader = ScanReader { headers, scan: &scan, coding, interval: tables.restart_interval, content: &content };
        widest(JpegScanWork { reader, components: &mut components }).ok_or_else(|| damaged(number))?;
        let to = if headers.progressive { scan.to } else { 63 };
        let from = if headers.progressive { scan.from } else { 0 };
        for member in &scan.members {
            let low = if headers.progressive { scan.low as i8 } else { 0 };
            components[member.component].lowest_bits[from..=to].fill(low);
        }
        next = tables.read_until_scan(rest, &headers.components)?;
    }
    if let Some(missing) = components.iter().position(|it| it.lowest_bits[0] == UNKNOWN) {
        return Err(JpegError::new(format!("JPEG has no scan of component {}", missing + 1), "one of each component"));
    }
    if headers.progressive {
        let down: Vec<usize> = headers.components.iter().map(|it| it.declared_down as usize).collect();
        smoothing::smooth(&mut components, &down);
    }
    Ok(components)
}

/// How the blocks of a scan are coded, with the Huffman codes of each member.
enum ScanCoding {
    Sequential { dc: Vec<HuffmanCode>, ac: Vec<HuffmanCode> },
    DcFirst { codes: Vec<HuffmanCode> },
    DcRefine,
    AcFirst { code: HuffmanCode },
    AcRefine { code: HuffmanCode },
}

impl ScanCoding {
    fn new(
        progressive: bool,
        scan: &ScanHeader,
        tables: &JpegTables<'_>,
        components: &[JpegCoefficients],
        number: usize,
    ) -> Result<Self, JpegError> {
        let dc = || scan.members.iter().map(|it| tables.dc(it.dc)).collect::<Result<Vec<_>, _>>();
        if !progressive {
            if scan.members.iter().any(|it| components[it.component].lowest_bits[0] != UNKNOWN) {
                let found = format!("JPEG repeats a component in scan {number}");
                return Err(JpegError::new(found, "one scan of each component"));
            }
            let ac = scan.members.iter().map(|it| tables.ac(it.ac, HuffmanKind::Ac)).collect::<Result<_, _>>()?;
            return Ok(Self::Sequential { dc: dc()?, ac });
        }
        let &ScanHeader { from, to, high, low, ref members } = scan;
        let is_band = if from == 0 { to == 0 } else { from <= to && to < 64 && members.len() == 1 };
        if !is_band || low > 13 || (high != 0 && low != high - 1) {
            let found = format!(
                "JPEG has coefficients {from} to {to}, bits {high} to {low}, of {} components in scan {number}",
                members.len()
            );
            return Err(JpegError::new(found, "a valid progressive scan"));
        }
        Ok(match (from, high) {
            (0, 0) => Self::DcFirst { codes: dc()? },
            (0, _) => Self::DcRefine,
            (_, 0) => Self::AcFirst { code: tables.ac(members[0].ac, HuffmanKind::AcBand)? },
            (_, _) => Self::AcRefine { code: tables.ac(members[0].ac, HuffmanKind::AcBand)? },
        })
    }
}

struct ScanReader<'a> {
    headers: &'a JpegHeaders<'a>,
    scan: &'a ScanHeader,
    coding: ScanCoding,
    /// MCUs between restart markers; 0 means no restart markers.
    interval: usize,
    content: &'a ScanData,
}

struct JpegScanWork<'a> {
    reader: ScanReader<'a>,
    components: &'a mut [JpegCoefficients],
}

impl SimdWork for JpegScanWork<'_> {
    type Output = Option<()>;

    #[inline(always)]
    fn run(self) -> Option<()> {
        let Self { reader, components } = self;
        let (from, to, low) = (reader.scan.from, reader.scan.to, reader.scan.low);
        match &reader.coding {
            ScanCoding::Sequential { dc, ac } => reader.each_block(components, |bits, member, state, block| {
                let codes = [&dc[member], &ac[member]];
                let predicted = &mut state.predicted[member];
                CodedBlock { bits, codes, predicted }.each(|k, value| block[k & 63] = value as i16)
            }),
            ScanCoding::DcFirst { codes } => reader.each_block(components, |bits, member, state, block| {
                dc_first(bits, &codes[member], low, &mut state.predicted[member], block)
            }),
            ScanCoding::DcRefine => reader.each_block(components, |bits, _, _, block| dc_refine(bits, low, block)),
            ScanCoding::AcFirst { code } => {
                let band = SpectralBand { code, from, to, low };
                reader.each_block(components, |bits, _, state, block| band.first(bits, &mut state.eob_run, block))
            }
            ScanCoding::AcRefine { code } => {
                let band = SpectralBand { code, from, to, low };
                reader.each_block(components, |bits, _, state, block| band.refine(bits, &mut state.eob_run, block))
            }
        }
    }
}

/// Decoder state that a restart marker resets.
#[derive(Default)]
struct RestartState {
    /// DC of the previous block of each scan member.
    predicted: [i32; 4],
    eob_run: u32,
}

impl ScanReader<'_> {
    /// Calls `read` for the blocks of the scan in order, with the index of the scan member that each block belongs
    /// to.
    #[inline(always)]
    fn each_block(
        &self,
        components: &mut [JpegCoefficients],
        mut read: impl FnMut(&mut BitReader<'_>, usize, &mut RestartState, &mut [i16; 64]) -> Option<()>,
    ) -> Option<()> {
        let members = &self.scan.members;
        // Columns and rows of MCUs. In a scan of a single component, an MCU is one block, and there are no padding
        // blocks.
        let (columns, rows) = match members[..] {
            [only] => (components[only.component].columns, components[only.component].rows),
            _ => {
                let (across, down) = self.headers.max_sampling();
                let count = |side: u32, most: u32| side.div_ceil(8 * most) as usize;
                (count(self.headers.width, across), count(self.headers.height, down))
            }
        };
        let mut piece = 0;
        let mut bits = self.content.piece(piece)?;
        let mut state = RestartState::default();
        let mut until_restart = self.interval;
        for row in 0..rows {
            for column in 0..columns {
                if self.interval > 0 {
                    if until_restart == 0 {
                        // Up to 7 unread bits are padding. More unread bits are undecoded data before the marker.
                        if !(0..8).contains(&bits.left()) {
                            return None;
                        }
                        piece += 1;
                        bits = self.content.piece(piece)?;
                        state = RestartState::default();
                        until_restart = self.interval;
                    }
                    until_restart -= 1;
                }
                if let [only] = members[..] {
                    read(&mut bits, 0, &mut state, components[only.component].block_mut(row, column))?;
                    continue;
                }
                for (number, member) in members.iter().enumerate() {
                    let JpegComponent { across, down, .. } = self.headers.components[member.component];
                    let coefficients = &mut components[member.component];
                    for y in 0..down as usize {
                        for x in 0..across as usize {
                            let block = coefficients.block_mut(row * down as usize + y, column * across as usize + x);
                            read(&mut bits, number, &mut state, block)?;
                        }
                    }
                }
            }
            if bits.left() < 0 {
                return None;
            }
        }
        Some(())
    }
}
