//! What a JPEG says before its data.

use super::huffman::{Code, Kind};

/// What the headers say.
pub(super) struct Frame<'a> {
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) components: Vec<Component>,
    /// Factors of coefficients, in the order of the file.
    pub(super) quantisers: [Option<[u16; 64]>; 4],
    /// Codes of means and of the other coefficients.
    pub(super) means: [Option<Code>; 4],
    pub(super) others: [Option<Code>; 4],
    /// Units between restart markers; 0 for none.
    pub(super) restarts: usize,
    pub(super) scan: &'a [u8],
}

#[derive(Clone, Copy)]
pub(super) struct Component {
    pub(super) id: u8,
    /// Blocks in a unit.
    pub(super) across: u32,
    pub(super) down: u32,
    pub(super) quantiser: usize,
    pub(super) mean: usize,
    pub(super) other: usize,
}

impl<'a> Frame<'a> {
    /// `None` for what this decoder does not read.
    pub(super) fn read(bytes: &'a [u8]) -> Option<Self> {
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
            let (codes, of) = match kind >> 4 {
                0 => (&mut self.means, Kind::Means),
                1 => (&mut self.others, Kind::Others),
                _ => return None,
            };
            *codes.get_mut(usize::from(kind & 15))? = Some(Code::new(of, counts, values)?);
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

    /// Blocks of a unit, across and down: those of the component that has most.
    pub(super) fn most(&self) -> Option<(u32, u32)> {
        let across = self.components.iter().map(|it| it.across).max()?;
        Some((across, self.components.iter().map(|it| it.down).max()?))
    }
}
