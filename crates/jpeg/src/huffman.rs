//! Reads the compressed bits of a scan: Huffman codes, restart intervals and blocks of sequential scans.

/// Number of bits of the lookup table's index. Longer codes are rare.
const LOOKUP_BITS: u32 = 10;

/// A Huffman code (ITU-T T.81, annex C) as a lookup table over the next bits of the data.
pub(super) struct HuffmanCode {
    /// Symbol by the next [`LOOKUP_BITS`] bits; [`NO_SYMBOL`] if the code is longer.
    short: Box<[HuffmanSymbol; 1 << LOOKUP_BITS]>,
    /// By code length: one past the last code of that length, left-aligned in 16 bits.
    limits: [u32; 17],
    /// By code length: the number to add to a code to get its index in `symbols`.
    offsets: [i32; 17],
    /// Symbols in the order of their codes.
    symbols: Vec<HuffmanSymbol>,
}

/// Decoded meaning of a Huffman code.
#[derive(Clone, Copy)]
struct HuffmanSymbol {
    /// Bits of the code and of the value that follows it; 0 for [`NO_SYMBOL`].
    total: u8,
    /// Bits of the code.
    length: u8,
    /// Bits of the value: at most 11 for DC and 10 for AC (T.81, tables F.1 and F.2).
    size: u8,
    /// [`HuffmanKind::Ac`]: the number of zeros before this coefficient plus one, which is the step to its index, or
    /// [`END_OF_BLOCK`]. [`HuffmanKind::AcBand`]: the number of zeros.
    steps: u8,
}

const NO_SYMBOL: HuffmanSymbol = HuffmanSymbol { total: 0, length: 0, size: 0, steps: 0 };
const END_OF_BLOCK: u8 = 128;

/// Meaning of the symbols of a code.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum HuffmanKind {
    /// Symbols are sizes of DC differences.
    Dc,
    /// Symbols are zero runs and sizes of AC coefficients, in sequential scans.
    Ac,
    /// Like [`HuffmanKind::Ac`], for progressive scans, where a symbol with size 0 and a run below 15 is an EOB run
    /// (T.81, G.1.2.2).
    AcBand,
}

impl HuffmanKind {
    /// Interprets `symbol`; returns [`NO_SYMBOL`] for symbols that cannot occur in a photo with 8 bits per sample.
    fn meaning(self, symbol: u8, length: u8) -> HuffmanSymbol {
        let (zeros, size) = (symbol >> 4, symbol & 15);
        let (size, steps) = match self {
            Self::Dc if symbol <= 11 => (symbol, 0),
            Self::Ac if size == 0 && zeros < 15 => (0, END_OF_BLOCK),
            Self::Ac if size <= 10 => (size, zeros + 1),
            Self::AcBand if size <= 10 => (size, zeros),
            _ => return NO_SYMBOL,
        };
        HuffmanSymbol { total: length + size, length, size, steps }
    }
}

impl HuffmanCode {
    /// Builds the code from the number of codes of each length (1 to 16) and the symbols in the order of their codes.
    /// Returns `None` if there are more codes than the lengths allow, or fewer symbols than codes.
    pub(super) fn new(kind: HuffmanKind, counts: &[u8; 16], values: &[u8]) -> Option<Self> {
        let mut short = vec![NO_SYMBOL; 1 << LOOKUP_BITS];
        let (mut limits, mut offsets, mut symbols) = ([0; 17], [0; 17], Vec::with_capacity(values.len()));
        let mut next = 0_u32;
        for (length, &count) in (1..=16_u8).zip(counts) {
            offsets[usize::from(length)] = symbols.len() as i32 - next as i32;
            for _ in 0..count {
                let symbol = kind.meaning(*values.get(symbols.len())?, length);
                if u32::from(length) <= LOOKUP_BITS {
                    let rest = LOOKUP_BITS - u32::from(length);
                    let first = (next << rest) as usize;
                    short.get_mut(first..first + (1 << rest))?.fill(symbol);
                }
                next += 1;
                symbols.push(symbol);
            }
            if next > 1 << length {
                return None;
            }
            limits[usize::from(length)] = next << (16 - length);
            next <<= 1;
        }
        Some(Self { short: short.into_boxed_slice().try_into().ok()?, limits, offsets, symbols })
    }

    /// Decodes the symbol at the start of `next`, whose code is longer than [`LOOKUP_BITS`] bits; `None` for invalid
    /// codes.
    #[cold]
    #[inline(never)]
    fn decode_long(&self, next: u64) -> Option<HuffmanSymbol> {
        let bits = (next >> 48) as u32;
        let length = (LOOKUP_BITS as usize + 1..=16).find(|&length| bits < self.limits[length])?;
        let index = (bits >> (16 - length)) as i32 + self.offsets[length];
        let symbol = *self.symbols.get(usize::try_from(index).ok()?)?;
        (symbol.total > 0).then_some(symbol)
    }
}

/// The entropy-coded data of a scan without stuffed bytes, in one piece per restart interval.
#[derive(Default)]
pub(super) struct ScanData {
    bytes: Vec<u8>,
    /// End of each piece in `bytes`.
    ends: Vec<usize>,
}

/// Zero bytes after the last piece, so that reading ahead stays within `bytes`.
const PADDING: usize = 16;

impl ScanData {
    /// Replaces the content with the data up to the first marker that is not the expected restart marker. Returns the
    /// remaining data, starting at that marker.
    #[inline(always)]
    pub(super) fn read<'a>(&mut self, data: &'a [u8]) -> &'a [u8] {
        self.bytes.clear();
        self.ends.clear();
        self.bytes.reserve(data.len() + PADDING);
        let mut rest = data;
        loop {
            // Fast path for runs of 32 bytes without a marker.
            while let Some((plain, after)) = rest.split_first_chunk::<32>()
                && !plain.iter().fold(false, |found, &byte| found | (byte == 0xff))
            {
                self.bytes.extend_from_slice(plain);
                rest = after;
            }
            let plain = rest.iter().position(|&byte| byte == 0xff).unwrap_or(rest.len());
            self.bytes.extend_from_slice(&rest[..plain]);
            rest = &rest[plain..];
            // A marker may be preceded by any number of fill bytes.
            let fill = rest.iter().position(|&byte| byte != 0xff).unwrap_or(rest.len());
            match rest.get(fill) {
                Some(0) => self.bytes.push(0xff),
                Some(&marker @ 0xd0..=0xd7) if marker == 0xd0 + (self.ends.len() % 8) as u8 => {
                    self.ends.push(self.bytes.len());
                }
                _ => break,
            }
            rest = &rest[fill + 1..];
        }
        self.ends.push(self.bytes.len());
        self.bytes.resize(self.bytes.len() + PADDING, 0);
        rest
    }

    /// A bit reader at the start of piece `number`.
    pub(super) fn piece(&self, number: usize) -> Option<BitReader<'_>> {
        let end = *self.ends.get(number)?;
        let at = if number == 0 { 0 } else { self.ends[number - 1] };
        Some(BitReader { bytes: &self.bytes, end, at, next: 0, count: 0 })
    }
}

/// A bit reader. It is `Copy` because a local copy stays in registers while a block is decoded.
#[derive(Clone, Copy)]
pub(super) struct BitReader<'a> {
    bytes: &'a [u8],
    /// End of the piece in `bytes`.
    end: usize,
    at: usize,
    /// The next bits, left-aligned.
    next: u64,
    /// Number of bits at the top of `next` that come from bytes before `at`. `fill` reads the bits after them again.
    count: u32,
}

impl BitReader<'_> {
    /// Number of unread bits of the piece; negative if more bits were read than the piece has.
    #[inline(always)]
    pub(super) fn left(&self) -> i64 {
        8 * (self.end as i64 - self.at as i64) + i64::from(self.count)
    }

    /// Loads at least 56 bits; `None` if fewer than 8 bytes are left in `bytes`, which includes [`PADDING`].
    #[inline(always)]
    fn fill(&mut self) -> Option<()> {
        let word = u64::from_be_bytes(*self.bytes.get(self.at..)?.first_chunk()?);
        self.next |= word >> self.count;
        self.at += ((63 - self.count) >> 3) as usize;
        self.count |= 56;
        Some(())
    }

    /// Decodes the next symbol and the number that follows it from the loaded bits.
    #[inline(always)]
    fn number(&mut self, code: &HuffmanCode) -> Option<(HuffmanSymbol, i32)> {
        let mut symbol = code.short[(self.next >> (64 - LOOKUP_BITS)) as usize];
        if symbol.total == 0 {
            symbol = code.decode_long(self.next)?;
        }
        let after_code = self.next << symbol.length;
        self.next <<= symbol.total;
        self.count -= u32::from(symbol.total);
        // Numbers that begin with a 0 bit are negative, with all bits inverted (T.81, figure F.12).
        let negative = !(after_code as i64 >> 63);
        let size = after_code ^ negative as u64;
        let size = (size >> 1 >> (63 - symbol.size)) as i32;
        Some((symbol, (size ^ negative as i32) - negative as i32))
    }

    /// The next DC difference of a [`HuffmanKind::Dc`] code.
    #[inline(always)]
    pub(super) fn dc_difference(&mut self, code: &HuffmanCode) -> Option<i32> {
        self.fill()?;
        Some(self.number(code)?.1)
    }

    /// Run, size and number of the next symbol of a [`HuffmanKind::AcBand`] code.
    #[inline(always)]
    pub(super) fn band_symbol(&mut self, code: &HuffmanCode) -> Option<(usize, u8, i32)> {
        self.fill()?;
        let (symbol, value) = self.number(code)?;
        Some((symbol.steps.into(), symbol.size, value))
    }

    /// The next `count` bits (at most 16) as a number.
    #[inline(always)]
    pub(super) fn take(&mut self, count: u32) -> Option<u32> {
        if self.count < count {
            self.fill()?;
        }
        let value = self.next >> 1 >> (63 - count);
        self.next <<= count;
        self.count -= count;
        Some(value as u32)
    }

    /// Decodes the next block of a sequential scan. Calls `each` with the zigzag index and value of DC and then of
    /// every non-zero AC coefficient. Symbols for long runs of zeros also call it with value 0. Returns `None` if the
    /// data are damaged.
    #[inline(always)]
    pub(super) fn block(
        &mut self,
        [dc, ac]: [&HuffmanCode; 2],
        predicted: &mut i32,
        mut each: impl FnMut(usize, i32),
    ) -> Option<()> {
        let mut bits = *self;
        bits.fill()?;
        let (_, difference) = bits.number(dc)?;
        *predicted = predicted.wrapping_add(difference);
        each(0, *predicted);
        let mut k = 0;
        loop {
            bits.fill()?;
            // A symbol and its number take at most 26 bits, so 56 bits hold two of them.
            for _ in 0..2 {
                let (symbol, value) = bits.number(ac)?;
                k += usize::from(symbol.steps);
                if k < 63 {
                    each(k, value);
                    continue;
                }
                if k == 63 {
                    each(k, value);
                } else if k < END_OF_BLOCK.into() {
                    return None;
                }
                *self = bits;
                return Some(());
            }
        }
    }
}
