//! The compressed bits of a scan.

/// Bits of a look-up: nearly every code and, of the short ones, their values too.
const LOOK: u32 = 11;

/// A Huffman code (ITU-T T.81, annex C), as tables that are asked with the next bits.
pub(super) struct Code {
    /// By the next [`LOOK`] bits: symbol and length of its code; length 0 where the code is longer.
    symbols: Vec<(u8, u8)>,
    /// By the next [`LOOK`] bits: a whole coefficient, where its code and its value fit in.
    whole: Vec<Coefficient>,
    /// By length: one past the last code, filled up to 16 bits with the codes of greater length.
    limits: [u32; 17],
    /// By length: what makes a code an index of `values`.
    offsets: [i32; 17],
    values: Vec<u8>,
}

/// A coefficient and the zeros before it; `bits` 0 stands for none.
#[derive(Clone, Copy, Default)]
pub(super) struct Coefficient {
    pub(super) value: i16,
    /// Zeros before it; [`END`] for the end of the block.
    pub(super) zeros: u8,
    bits: u8,
}

/// [`Coefficient::zeros`] at the end of a block.
pub(super) const END: u8 = 64;

impl Code {
    /// From the number of codes of each length, 1 to 16, and the symbols in the order of their codes; `None` for more codes than there can be.
    pub(super) fn new(counts: &[u8; 16], values: &[u8]) -> Option<Self> {
        let mut code = Self {
            symbols: vec![(0, 0); 1 << LOOK],
            whole: vec![Coefficient::default(); 1 << LOOK],
            limits: [0; 17],
            offsets: [0; 17],
            values: values.to_vec(),
        };
        let (mut next, mut index) = (0_u32, 0_usize);
        for length in 1..=16 {
            let count = u32::from(counts[length as usize - 1]);
            code.offsets[length as usize] = index as i32 - next as i32;
            for _ in 0..count {
                let symbol = *values.get(index)?;
                if length <= LOOK {
                    let first = (next << (LOOK - length)) as usize;
                    code.symbols.get_mut(first..first + (1 << (LOOK - length)))?.fill((symbol, length as u8));
                }
                next += 1;
                index += 1;
            }
            if next > 1 << length {
                return None;
            }
            code.limits[length as usize] = next << (16 - length);
            next <<= 1;
        }
        for (bits, whole) in code.whole.iter_mut().enumerate() {
            let (symbol, length) = code.symbols[bits];
            let (zeros, size) = (symbol >> 4, symbol & 15);
            let all = u32::from(length) + u32::from(size);
            if length == 0 || all > LOOK {
                continue;
            }
            *whole = match (zeros, size) {
                (0..15, 0) => Coefficient { value: 0, zeros: END, bits: length },
                (15, 0) => Coefficient::default(),
                _ => {
                    let raw = (bits as u32 >> (LOOK - all)) & ((1 << size) - 1);
                    Coefficient { value: extended(raw, size.into()) as i16, zeros, bits: all as u8 }
                }
            };
        }
        Some(code)
    }
}

/// The value of `size` bits (T.81, figure F.12): the lower half of them stands for negative numbers.
#[inline(always)]
fn extended(raw: u32, size: u32) -> i32 {
    let raw = raw as i32;
    if size > 0 && raw < 1 << (size - 1) { raw - (1 << size) + 1 } else { raw }
}

/// Reads a scan bit by bit, up to the next marker. A copy while a block is read stays in registers.
#[derive(Clone, Copy)]
pub(super) struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The next bits, the first one highest.
    next: u64,
    /// How many of them count.
    count: u32,
    /// How many were made up behind the end.
    made_up: u32,
}

impl<'a> Bits<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, next: 0, count: 0, made_up: 0 }
    }

    /// Whether more was read than is there.
    pub(super) fn is_over(&self) -> bool {
        self.made_up > self.count
    }

    /// Goes behind restart marker `number` (0 to 7); `None` where another one or none follows.
    pub(super) fn restart(&mut self, number: u8) -> Option<()> {
        if self.is_over() {
            return None;
        }
        // What is left of the last byte is filling. Bits of further bytes would mean data before the marker.
        if self.count - self.made_up >= 8 || self.bytes.get(self.at..self.at + 2)? != [0xff, 0xd0 + number] {
            return None;
        }
        *self = Self { at: self.at + 2, ..Self::new(self.bytes) };
        Some(())
    }

    /// At least 32 bits.
    #[inline(always)]
    fn fill(&mut self) {
        if self.count >= 32 {
            return;
        }
        if let Some(eight) = self.bytes.get(self.at..).and_then(|rest| rest.first_chunk()) {
            let word = u64::from_be_bytes(*eight);
            // No byte 0xff among them: then they are data as they stand.
            let inverse = !word;
            if inverse.wrapping_sub(0x0101_0101_0101_0101) & word & 0x8080_8080_8080_8080 == 0 {
                self.next |= word >> self.count;
                self.at += ((63 - self.count) >> 3) as usize;
                self.count |= 56;
                return;
            }
        }
        *self = self.filled_slowly();
    }

    #[inline(never)]
    fn filled_slowly(mut self) -> Self {
        // What a fast fill left below `count` are the bytes that come now, so that setting them again changes nothing; but a marker's
        // zeros must not meet them.
        self.next = self.next.checked_shr(64 - self.count).unwrap_or(0).checked_shl(64 - self.count).unwrap_or(0);
        while self.count <= 56 {
            let byte = match (self.bytes.get(self.at), self.bytes.get(self.at + 1)) {
                (Some(0xff), Some(0)) => {
                    self.at += 2;
                    0xff
                }
                (Some(0xff), _) | (None, _) => {
                    self.made_up += 8;
                    0
                }
                (Some(&byte), _) => {
                    self.at += 1;
                    byte
                }
            };
            self.next |= u64::from(byte) << (56 - self.count);
            self.count += 8;
        }
        self
    }

    #[inline(always)]
    fn skip(&mut self, bits: u32) {
        self.next <<= bits;
        self.count -= bits;
    }

    /// A symbol; 32 bits are there, of which it takes up to 16.
    #[inline(always)]
    fn symbol(&mut self, code: &Code) -> Option<u8> {
        let (symbol, length) = code.symbols[(self.next >> (64 - LOOK)) as usize];
        if length > 0 {
            self.skip(length.into());
            return Some(symbol);
        }
        let bits = (self.next >> 48) as u32;
        let length = (LOOK + 1..=16).find(|&length| bits < code.limits[length as usize])?;
        let index = (bits >> (16 - length)) as i32 + code.offsets[length as usize];
        self.skip(length);
        code.values.get(usize::try_from(index).ok()?).copied()
    }

    /// A number of `size` bits, up to 16.
    #[inline(always)]
    fn number(&mut self, size: u32) -> i32 {
        if size == 0 {
            return 0;
        }
        let raw = (self.next >> (64 - size)) as u32;
        self.skip(size);
        extended(raw, size)
    }

    /// By how much the mean of a block differs from that of the one before; `None` for what is no code.
    #[inline(always)]
    pub(super) fn difference(&mut self, code: &Code) -> Option<i32> {
        self.fill();
        let size = self.symbol(code)?;
        if size > 11 {
            return None;
        }
        Some(self.number(size.into()))
    }

    /// The next coefficient that is not zero, or the end of the block; sixteen zeros are a coefficient of 0 after fifteen.
    #[inline(always)]
    pub(super) fn coefficient(&mut self, code: &Code) -> Option<Coefficient> {
        self.fill();
        let whole = code.whole[(self.next >> (64 - LOOK)) as usize];
        if whole.bits > 0 {
            self.skip(whole.bits.into());
            return Some(whole);
        }
        let symbol = self.symbol(code)?;
        let (zeros, size) = (symbol >> 4, symbol & 15);
        if size == 0 && zeros < 15 {
            return Some(Coefficient { value: 0, zeros: END, bits: 0 });
        }
        Some(Coefficient { value: self.number(size.into()) as i16, zeros, bits: 0 })
    }
}
