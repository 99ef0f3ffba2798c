//! Parses the marker segments of a JPEG (ITU-T T.81, annex B): frame header, tables, scan headers, and the
//! application segments that decide the conversion to RGB.

use super::JpegError;
use super::huffman::{HuffmanCode, HuffmanKind};

/// Maximum number of blocks in one MCU of an interleaved scan (T.81, B.2.3).
const MAX_BLOCKS_PER_MCU: u32 = 10;

const WHOLE_IMAGE: &str = "a whole image";
const SUPPORTED: &str =
    "baseline or progressive JPEG with Huffman coding and 8 bits (convert the photo with an image editor)";

/// Colour space of the components, which decides the conversion to RGB.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ColourModel {
    Grey,
    YCbCr,
    Rgb,
    Cmyk,
    Ycck,
}

/// All headers before the data of the first scan.
pub(super) struct JpegHeaders<'a> {
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) progressive: bool,
    pub(super) components: Vec<JpegComponent>,
    pub(super) colours: ColourModel,
    pub(super) tables: JpegTables<'a>,
    pub(super) first_scan: ScanHeader,
    /// The file from the first byte of the first scan's data on.
    pub(super) data: &'a [u8],
    /// The EXIF block, starting at its TIFF header.
    pub(super) exif: Option<Vec<u8>>,
}

#[derive(Clone, Copy)]
pub(super) struct JpegComponent {
    id: u8,
    /// Sampling factors: blocks per MCU of an interleaved scan, across and down.
    pub(super) across: u32,
    pub(super) down: u32,
    /// Vertical factor from the frame header. `down` is 1 in files of one component, whatever this factor is; libjpeg
    /// uses this factor when it counts rows of blocks.
    pub(super) declared_down: u32,
    /// Index of the quantisation table.
    pub(super) quantiser: usize,
}

/// A Huffman table in the form that the file stores.
#[derive(Clone, Copy)]
struct CodeLengths<'a> {
    /// Number of codes of each length, 1 to 16.
    counts: &'a [u8; 16],
    symbols: &'a [u8],
}

/// The current tables. Segments between two scans can replace them.
#[derive(Clone, Default)]
pub(super) struct JpegTables<'a> {
    /// Quantisation factors in zigzag order.
    quantisers: [Option<[u16; 64]>; 4],
    dc: [Option<CodeLengths<'a>>; 4],
    ac: [Option<CodeLengths<'a>>; 4],
    /// MCUs between restart markers; 0 means no restart markers.
    pub(super) restart_interval: usize,
}

#[derive(Clone)]
pub(super) struct ScanHeader {
    pub(super) members: Vec<ScanMember>,
    /// First and last coefficient of the scan, in zigzag order.
    pub(super) from: usize,
    pub(super) to: usize,
    /// Successive approximation bit positions: `high` is the lowest bit sent by earlier scans (0 for none), `low` the
    /// lowest bit of this scan.
    pub(super) high: u8,
    pub(super) low: u8,
}

/// A component of a scan, with the indices of its Huffman tables.
#[derive(Clone, Copy)]
pub(super) struct ScanMember {
    /// Index of the component in the frame.
    pub(super) component: usize,
    pub(super) dc: usize,
    pub(super) ac: usize,
}

/// Result of reading the segments before or between scans.
pub(super) enum NextScan<'a> {
    /// A scan header, and the bytes from its data to the end of the file.
    Scan(ScanHeader, &'a [u8]),
    End,
}

/// Iterates over the marker segments of a file. Bytes outside segments are skipped, as libjpeg and Pillow do.
struct MarkerSegments<'a>(&'a [u8]);

impl<'a> MarkerSegments<'a> {
    /// Marker and content of the next segment; `None` at the end of the file. The content of EOI and SOI is empty.
    fn next(&mut self) -> Result<Option<(u8, &'a [u8])>, JpegError> {
        while let Some(at) = self.0.iter().position(|&byte| byte == 0xff) {
            self.0 = &self.0[at..];
            let Some(&marker) = self.0.get(1) else { return Ok(None) };
            match marker {
                // A fill byte before a marker.
                0xff => self.0 = &self.0[1..],
                // A stuffed byte, TEM and RSTn have no content.
                0x00 | 0x01 | 0xd0..=0xd7 => self.0 = &self.0[2..],
                0xd8 | 0xd9 => {
                    self.0 = &self.0[2..];
                    return Ok(Some((marker, &[])));
                }
                _ => {
                    let after = &self.0[2..];
                    let length = after.first_chunk().map_or(0, |&two| usize::from(u16::from_be_bytes(two)));
                    let (Some(content), Some(rest)) = (after.get(2..length), after.get(length..)) else {
                        return Err(JpegError::new(
                            format!("JPEG segment ff {marker:02x} has length {length}"),
                            WHOLE_IMAGE,
                        ));
                    };
                    self.0 = rest;
                    return Ok(Some((marker, content)));
                }
            }
        }
        Ok(None)
    }
}

fn damaged(marker: u8) -> JpegError {
    JpegError::new(format!("JPEG segment ff {marker:02x} is damaged"), WHOLE_IMAGE)
}

impl<'a> JpegHeaders<'a> {
    /// # Errors
    /// The file is not a JPEG, is damaged, or uses arithmetic coding or a process or sampling that libjpeg-turbo does
    /// not decode either.
    pub(super) fn read(bytes: &'a [u8]) -> Result<Self, JpegError> {
        let Some(rest) = bytes.strip_prefix(&[0xff, 0xd8]) else {
            return Err(JpegError::new("JPEG does not begin with ff d8".to_owned(), WHOLE_IMAGE));
        };
        let mut segments = MarkerSegments(rest);
        let mut tables = JpegTables::default();
        let mut frame: Option<JpegFrame> = None;
        let (mut adobe, mut jfif, mut exif) = (None, false, None::<Vec<u8>>);
        while let Some((marker, content)) = segments.next()? {
            match marker {
                0xc0..=0xc2 if frame.is_none() => frame = Some(JpegFrame::read(marker, content)?),
                0xc0..=0xc2 => return Err(JpegError::new("JPEG has two frame headers".to_owned(), "one")),
                0xc3 => return Err(unsupported("is lossless", marker)),
                0xc5..=0xc7 => return Err(unsupported("is hierarchical", marker)),
                0xc9..=0xcb | 0xcd..=0xcf => return Err(unsupported("has arithmetic coding", marker)),
                0xda => {
                    let Some(JpegFrame { width, height, progressive, components }) = frame else {
                        return Err(JpegError::new("JPEG has a scan before its frame header".to_owned(), WHOLE_IMAGE));
                    };
                    let first_scan = ScanHeader::read(content, &components)?;
                    let colours = colour_model(&components, jfif, adobe);
                    let data = segments.0;
                    return Ok(Self {
                        width,
                        height,
                        progressive,
                        components,
                        colours,
                        tables,
                        first_scan,
                        data,
                        exif,
                    });
                }
                0xd9 => break,
                0xe0 => jfif |= content.len() >= 14 && content.starts_with(b"JFIF\0"),
                0xe1 if content.starts_with(b"Exif\0\0") => exif.get_or_insert_default().extend(&content[6..]),
                0xee if content.len() >= 12 && content.starts_with(b"Adobe") => adobe = Some(content[11]),
                _ => tables.read(marker, content)?,
            }
        }
        Err(JpegError::new("JPEG has no scan".to_owned(), WHOLE_IMAGE))
    }

    /// Largest sampling factors of all components: blocks per MCU, across and down.
    pub(super) fn max_sampling(&self) -> (u32, u32) {
        max_sampling(&self.components)
    }

    /// Number of blocks of a component, across and down, without the padding blocks of the last MCUs.
    pub(super) fn blocks(&self, component: &JpegComponent) -> (usize, usize) {
        let (across, down) = self.max_sampling();
        let blocks = |side: u32, own: u32, most: u32| (side * own).div_ceil(8 * most) as usize;
        (blocks(self.width, component.across, across), blocks(self.height, component.down, down))
    }

    /// True if the file has one sequential scan with all components in frame order.
    pub(super) fn is_single_scan(&self) -> bool {
        let members = self.first_scan.members.iter().map(|it| it.component);
        !self.progressive && members.eq(0..self.components.len())
    }
}

fn max_sampling(components: &[JpegComponent]) -> (u32, u32) {
    components.iter().fold((1, 1), |(across, down), it| (across.max(it.across), down.max(it.down)))
}

fn unsupported(what: &str, marker: u8) -> JpegError {
    JpegError::new(format!("JPEG {what} (marker ff {marker:02x})"), SUPPORTED)
}

/// Detects the colour space as libjpeg does: by JFIF, then by Adobe's segment, then by the component identifiers.
fn colour_model(components: &[JpegComponent], jfif: bool, adobe: Option<u8>) -> ColourModel {
    let ids: Vec<u8> = components.iter().map(|it| it.id).collect();
    match (components.len(), adobe) {
        (1, _) => ColourModel::Grey,
        (4, None | Some(0)) => ColourModel::Cmyk,
        (4, Some(_)) => ColourModel::Ycck,
        _ if jfif => ColourModel::YCbCr,
        (_, Some(0)) => ColourModel::Rgb,
        (_, None) if ids == *b"RGB" => ColourModel::Rgb,
        _ => ColourModel::YCbCr,
    }
}

struct JpegFrame {
    width: u32,
    height: u32,
    progressive: bool,
    components: Vec<JpegComponent>,
}

impl JpegFrame {
    fn read(marker: u8, content: &[u8]) -> Result<Self, JpegError> {
        let &[bits, h1, h0, w1, w0, count, ref components @ ..] = content else { return Err(damaged(marker)) };
        let (width, height) = (u16::from_be_bytes([w1, w0]).into(), u16::from_be_bytes([h1, h0]).into());
        if bits != 8 {
            return Err(JpegError::new(format!("JPEG has {bits} bits per sample"), SUPPORTED));
        }
        if width == 0 || height == 0 {
            return Err(JpegError::new(format!("JPEG header says {width} x {height} pixels"), "at least 1 x 1"));
        }
        if !matches!(count, 1 | 3 | 4) {
            return Err(JpegError::new(
                format!("JPEG has {count} components"),
                "1 (grey), 3 (YCbCr or RGB) or 4 (CMYK or YCCK)",
            ));
        }
        if components.len() != 3 * usize::from(count) {
            return Err(damaged(marker));
        }
        let component = |&[id, sampling, quantiser]: &[u8; 3]| {
            let (across, down) = (u32::from(sampling >> 4), u32::from(sampling & 15));
            if !(1..=4).contains(&across) || !(1..=4).contains(&down) || quantiser > 3 {
                return Err(damaged(marker));
            }
            let declared_down = down;
            // The MCU of a single component is one block, whatever its sampling factors are.
            let (across, down) = if count == 1 { (1, 1) } else { (across, down) };
            Ok(JpegComponent { id, across, down, declared_down, quantiser: quantiser.into() })
        };
        let components: Vec<JpegComponent> =
            components.as_chunks().0.iter().map(component).collect::<Result<_, _>>()?;
        let (across, down) = max_sampling(&components);
        if let Some(it) = components.iter().find(|it| across % it.across != 0 || down % it.down != 0) {
            return Err(JpegError::new(
                format!("JPEG has a component sampled {} x {} in MCUs of {across} x {down}", it.across, it.down),
                "factors that divide the largest ones (convert the photo with an image editor)",
            ));
        }
        Ok(Self { width, height, progressive: marker == 0xc2, components })
    }
}

impl ScanHeader {
    fn read(content: &[u8], components: &[JpegComponent]) -> Result<Self, JpegError> {
        let broken = || damaged(0xda);
        let (&count, after) = content.split_first().ok_or_else(broken)?;
        let count = usize::from(count);
        let &[from, to, bits] = after.get(2 * count..).unwrap_or_default() else { return Err(broken()) };
        let mut members: Vec<ScanMember> = Vec::new();
        for &[id, codes] in after[..2 * count].as_chunks().0 {
            // Files with duplicate component identifiers exist, so each component is used once.
            let mut found = (0..components.len()).filter(|&it| components[it].id == id);
            let component = found.find(|it| members.iter().all(|member| member.component != *it)).ok_or_else(broken)?;
            let (dc, ac) = (usize::from(codes >> 4), usize::from(codes & 15));
            if dc > 3 || ac > 3 {
                return Err(broken());
            }
            members.push(ScanMember { component, dc, ac });
        }
        let blocks = |it: &ScanMember| components[it.component].across * components[it.component].down;
        if members.is_empty() || (count > 1 && members.iter().map(blocks).sum::<u32>() > MAX_BLOCKS_PER_MCU) {
            return Err(broken());
        }
        Ok(Self { members, from: from.into(), to: to.into(), high: bits >> 4, low: bits & 15 })
    }
}

impl<'a> JpegTables<'a> {
    /// Reads the segments between two scans; `rest` begins after the data of the first scan.
    pub(super) fn read_until_scan(
        &mut self,
        rest: &'a [u8],
        components: &[JpegComponent],
    ) -> Result<NextScan<'a>, JpegError> {
        let mut segments = MarkerSegments(rest);
        while let Some((marker, content)) = segments.next()? {
            match marker {
                0xda => return Ok(NextScan::Scan(ScanHeader::read(content, components)?, segments.0)),
                0xd9 => return Ok(NextScan::End),
                _ => self.read(marker, content)?,
            }
        }
        Err(JpegError::new("JPEG stops between two scans without its end marker".to_owned(), WHOLE_IMAGE))
    }

    /// Reads a segment that is allowed anywhere before the end marker.
    fn read(&mut self, marker: u8, content: &'a [u8]) -> Result<(), JpegError> {
        let read = match marker {
            0xc4 => self.read_codes(content),
            0xdb => self.read_quantisers(content),
            0xdd => content.first_chunk().map(|&two| self.restart_interval = u16::from_be_bytes(two).into()),
            // Application data, comments, arithmetic coding conditioning, and DNL (number of lines), which libjpeg
            // ignores.
            0xe0..=0xef | 0xfe | 0xcc | 0xdc => Some(()),
            _ => return Err(JpegError::new(format!("JPEG has a marker ff {marker:02x}"), SUPPORTED)),
        };
        read.ok_or_else(|| damaged(marker))
    }

    fn read_codes(&mut self, mut content: &'a [u8]) -> Option<()> {
        while let [kind, after @ ..] = content {
            let counts: &[u8; 16] = after.first_chunk()?;
            let total = counts.iter().map(|&count| usize::from(count)).sum::<usize>();
            let symbols = after.get(16..16 + total)?;
            content = &after[16 + total..];
            let codes = match kind >> 4 {
                0 => &mut self.dc,
                1 => &mut self.ac,
                _ => return None,
            };
            *codes.get_mut(usize::from(kind & 15))? = Some(CodeLengths { counts, symbols });
        }
        Some(())
    }

    fn read_quantisers(&mut self, mut content: &[u8]) -> Option<()> {
        while let [kind, after @ ..] = content {
            let wide = usize::from(kind >> 4);
            if wide > 1 {
                return None;
            }
            let numbers = after.get(..64 << wide)?;
            content = &after[64 << wide..];
            let quantiser = std::array::from_fn(|k| match wide {
                0 => numbers[k].into(),
                _ => u16::from_be_bytes([numbers[2 * k], numbers[2 * k + 1]]),
            });
            *self.quantisers.get_mut(usize::from(kind & 15))? = Some(quantiser);
        }
        Some(())
    }

    /// The quantisation factors of a component, in zigzag order.
    pub(super) fn quantiser(&self, component: &JpegComponent) -> Result<[u16; 64], JpegError> {
        let missing = || JpegError::new(format!("JPEG has no quantisation table {}", component.quantiser), WHOLE_IMAGE);
        self.quantisers[component.quantiser].ok_or_else(missing)
    }

    pub(super) fn dc(&self, number: usize) -> Result<HuffmanCode, JpegError> {
        code(self.dc[number], HuffmanKind::Dc, number)
    }

    /// `kind` is [`HuffmanKind::Ac`] or [`HuffmanKind::AcBand`].
    pub(super) fn ac(&self, number: usize, kind: HuffmanKind) -> Result<HuffmanCode, JpegError> {
        code(self.ac[number], kind, number)
    }
}

fn code(lengths: Option<CodeLengths<'_>>, kind: HuffmanKind, number: usize) -> Result<HuffmanCode, JpegError> {
    let missing = || JpegError::new(format!("JPEG has no Huffman table {kind:?} {number}"), WHOLE_IMAGE);
    let CodeLengths { counts, symbols } = lengths.ok_or_else(missing)?;
    HuffmanCode::new(kind, counts, symbols).ok_or_else(|| damaged(0xc4))
}

/// True if the file has its end marker (EOI). Most files end with the marker. If other bytes follow, the function walks
/// over the marker segments by their lengths. This skips the thumbnail in the EXIF segment, which has an end marker
/// too.
pub fn has_end_marker(bytes: &[u8]) -> bool {
    if bytes.ends_with(&[0xff, 0xd9]) {
        return true;
    }
    let mut at = 0;
    while let Some(step) = bytes.get(at..).and_then(|rest| rest.iter().position(|&b| b == 0xff)) {
        at += step;
        match bytes.get(at + 1) {
            Some(0xd9) => return true,
            // A fill byte; the marker code follows later.
            Some(0xff) => at += 1,
            // Markers without a length field (start of image, restarts), and 0xff inside the compressed data.
            Some(0x00 | 0x01 | 0xd0..=0xd8) => at += 2,
            Some(_) => match bytes.get(at + 2..at + 4) {
                Some(len) => at += 2 + usize::from(u16::from_be_bytes([len[0], len[1]])),
                None => return false,
            },
            None => return false,
        }
    }
    false
}
