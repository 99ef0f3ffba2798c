//! Decodes the pixels of a part of a photo from the blocks of its components.

use crate::blocks::{BlockTransform, CodedBlock, JpegBlock, StoredBlock};
use crate::headers::JpegHeaders;
use crate::huffman::{HuffmanCode, HuffmanKind, ScanData};
use crate::scans::{self, JpegCoefficients};
use crate::wide::{SimdWork, widest};
use crate::{JpegError, JpegPart, colour};

/// Decodes the pixels of the photo at 1/`scale` (1, 2, 4 or 8) that overlap the columns and rows `[x1, y1, x2, y2]`
/// (half open, in pixels of the whole photo).
///
/// # Errors
/// The file is damaged or not supported, its sampling does not allow `scale`, or the part is not inside the photo.
pub fn decode(bytes: &[u8], scale: u32, part: [u32; 4]) -> Result<JpegPart, JpegError> {
    let headers = JpegHeaders::read(bytes)?;
    let [x1, y1, x2, y2] = part;
    let (width, height) = (headers.width, headers.height);
    if x1 >= x2 || y1 >= y2 || x2 > width || y2 > height || !matches!(scale, 1 | 2 | 4 | 8) {
        return Err(JpegError::new(
            format!("part {part:?} at 1/{scale} of {width} x {height} pixels"),
            "a part of the photo",
        ));
    }
    // Every block takes at least one bit, and at least two in sequential scans (DC code and end of block). This check
    // comes before memory is allocated for the blocks.
    let blocks: usize =
        headers.components.iter().map(|it| headers.blocks(it)).map(|(columns, rows)| columns * rows).sum();
    let bytes_at_least = if headers.progressive { blocks / 8 } else { blocks / 4 };
    if headers.data.len() < bytes_at_least {
        let found = format!("JPEG of {width} x {height} pixels has {} bytes of data", headers.data.len());
        return Err(JpegError::new(found, "a whole image"));
    }
    let transform = |quantiser: &[u16; 64], number: usize| {
        let component = &headers.components[number];
        BlockTransform::new(&headers, component, quantiser, scale)
            .ok_or_else(|| JpegError::new(format!("JPEG sampling does not allow decoding at 1/{scale}"), "full size"))
    };
    // Check every component before reading data, because the caller may retry with another scale.
    for number in 0..headers.components.len() {
        transform(&[1; 64], number)?;
    }
    let content = if headers.is_single_scan() {
        let members = &headers.first_scan.members;
        let quantisers = headers.components.iter().map(|it| headers.tables.quantiser(it));
        let transforms = quantisers.enumerate().map(|(i, it)| transform(&it?, i)).collect::<Result<_, _>>()?;
        // Components can use the same Huffman tables, so build each code once.
        let mut codes = HuffmanCodes::default();
        for member in members {
            if codes.dc[member.dc].is_none() {
                codes.dc[member.dc] = Some(headers.tables.dc(member.dc)?);
            }
            if codes.ac[member.ac].is_none() {
                codes.ac[member.ac] = Some(headers.tables.ac(member.ac, HuffmanKind::Ac)?);
            }
        }
        JpegContent { transforms, blocks: JpegBlocks::Coded(Box::new(codes)) }
    } else {
        let coefficients = scans::read(&headers)?;
        let quantisers = coefficients.iter().map(|it| it.quantiser.unwrap_or([1; 64]));
        let transforms = quantisers.enumerate().map(|(i, it)| transform(&it, i)).collect::<Result<_, _>>()?;
        JpegContent { transforms, blocks: JpegBlocks::Stored(coefficients) }
    };
    widest(JpegDecodeWork { headers: &headers, content, scale, part })
        .ok_or_else(|| JpegError::new("JPEG has damaged data".to_owned(), "a whole image"))
}

/// The blocks of the file, and the transform of each component.
struct JpegContent {
    transforms: Vec<BlockTransform>,
    blocks: JpegBlocks,
}

enum JpegBlocks {
    /// The Huffman codes of the only scan. The blocks of the scan are decoded together with their pixels.
    Coded(Box<HuffmanCodes>),
    /// Coefficients of all scans.
    Stored(Vec<JpegCoefficients>),
}

/// Huffman codes, indexed by table number.
#[derive(Default)]
struct HuffmanCodes {
    dc: [Option<HuffmanCode>; 4],
    ac: [Option<HuffmanCode>; 4],
}

struct JpegDecodeWork<'a> {
    headers: &'a JpegHeaders<'a>,
    content: JpegContent,
    scale: u32,
    part: [u32; 4],
}

/// Samples of a component.
pub(crate) struct ComponentPlane {
    pub(crate) values: Vec<u8>,
    pub(crate) stride: usize,
    /// Position in the whole component (at scale) of the first sample.
    pub(crate) left: usize,
    pub(crate) top: usize,
}

/// Columns and rows of the MCUs that are needed to decode a part.
struct McuRegion {
    columns: std::ops::Range<usize>,
    rows: std::ops::Range<usize>,
}

impl ComponentPlane {
    /// A plane of zeros for all blocks of the region.
    fn new(headers: &JpegHeaders<'_>, number: usize, transform: &BlockTransform, region: &McuRegion) -> Self {
        let component = &headers.components[number];
        let (width, height) = (component.across as usize * transform.width, component.down as usize * transform.height);
        let stride = region.columns.len() * width;
        let values = vec![0; stride * region.rows.len() * height];
        Self { values, stride, left: region.columns.start * width, top: region.rows.start * height }
    }
}

impl SimdWork for JpegDecodeWork<'_> {
    type Output = Option<JpegPart>;

    #[inline(always)]
    fn run(self) -> Option<JpegPart> {
        let Self { headers, content: JpegContent { transforms, blocks }, scale, part: [x1, y1, x2, y2] } = self;
        let scaled = [x1 / scale, y1 / scale, x2.div_ceil(scale), y2.div_ceil(scale)];
        let upsamplings = match scale {
            1 => colour::upsamplings(headers),
            // At a reduced scale, every component is decoded at the size of the output, so no upsampling is needed.
            _ => Vec::new(),
        };
        let border = if upsamplings.iter().any(|it| it.reads_neighbours()) { 2 } else { 0 };
        let (across, down) = headers.max_sampling();
        let mcus = |from: u32, to: u32, side: u32, most: u32| {
            let last = (to + border).min(side).div_ceil(8 * most);
            (from.saturating_sub(border) / (8 * most)) as usize..last as usize
        };
        let region =
            McuRegion { columns: mcus(x1, x2, headers.width, across), rows: mcus(y1, y2, headers.height, down) };
        let planes = match blocks {
            JpegBlocks::Coded(codes) => coded_planes(headers, &transforms, &codes, &region)?,
            JpegBlocks::Stored(components) => stored_planes(headers, &transforms, components, &region)?,
        };
        let pixels = colour::pixels(&planes, &upsamplings, headers.colours, scaled);
        Some(JpegPart { pixels, left: scaled[0], top: scaled[1] })
    }
}

/// Decoder of one component's blocks from the data of the only scan.
struct BlockReader<'a> {
    codes: [&'a HuffmanCode; 2],
    transform: &'a BlockTransform,
    across: usize,
    down: usize,
}

/// Decodes the samples of the region from the data of the only scan.
#[inline(always)]
fn coded_planes(
    headers: &JpegHeaders<'_>,
    transforms: &[BlockTransform],
    codes: &HuffmanCodes,
    McuRegion { columns, rows }: &McuRegion,
) -> Option<Vec<ComponentPlane>> {
    let region = &McuRegion { columns: columns.clone(), rows: rows.clone() };
    let reader = |(number, transform): (usize, _)| {
        let (component, member) = (&headers.components[number], &headers.first_scan.members[number]);
        let codes = [codes.dc[member.dc].as_ref()?, codes.ac[member.ac].as_ref()?];
        Some(BlockReader { codes, transform, across: component.across as usize, down: component.down as usize })
    };
    let readers: Vec<BlockReader<'_>> = transforms.iter().enumerate().map(reader).collect::<Option<_>>()?;
    let planes = transforms.iter().enumerate().map(|(number, it)| ComponentPlane::new(headers, number, it, region));
    let mut planes: Vec<ComponentPlane> = planes.collect();
    let mut predicted = [0; 4];
    let mut scan = ScanData::default();
    scan.read(headers.data);
    let mut piece = 0;
    let mut bits = scan.piece(piece)?;
    let mcus = headers.width.div_ceil(8 * headers.max_sampling().0) as usize;
    let interval = headers.tables.restart_interval;
    let mut until_restart = interval;
    for row in 0..rows.end {
        for column in 0..mcus {
            if interval > 0 && until_restart == 0 {
                // Up to 7 unread bits are padding. More unread bits are undecoded data before the marker.
                if !(0..8).contains(&bits.left()) {
                    return None;
                }
                piece += 1;
                bits = scan.piece(piece)?;
                predicted = [0; 4];
                until_restart = interval;
            }
            until_restart = until_restart.wrapping_sub(1);
            let in_region = rows.contains(&row) && columns.contains(&column);
            for ((reader, plane), predicted) in readers.iter().zip(&mut planes).zip(&mut predicted) {
                let &BlockReader { codes, transform, across, down } = reader;
                for y in 0..down {
                    for x in 0..across {
                        let block = CodedBlock { bits: &mut bits, codes, predicted };
                        if !in_region {
                            block.each(|_, _| ())?;
                            continue;
                        }
                        let x = ((column - columns.start) * across + x) * transform.width;
                        let y = ((row - rows.start) * down + y) * transform.height;
                        transform.write(block, &mut plane.values[y * plane.stride + x..], plane.stride)?;
                    }
                }
            }
        }
        if bits.left() < 0 {
            return None;
        }
    }
    Some(planes)
}

/// Transforms the coefficients of the region to samples. Each component's coefficients are freed after its transform.
#[inline(always)]
fn stored_planes(
    headers: &JpegHeaders<'_>,
    transforms: &[BlockTransform],
    components: Vec<JpegCoefficients>,
    region: &McuRegion,
) -> Option<Vec<ComponentPlane>> {
    let mut planes = Vec::with_capacity(components.len());
    for (number, (coefficients, transform)) in components.into_iter().zip(transforms).enumerate() {
        let mut plane = ComponentPlane::new(headers, number, transform, region);
        let (across, down) = (headers.components[number].across as usize, headers.components[number].down as usize);
        let (left, top) = (region.columns.start * across, region.rows.start * down);
        for row in top..region.rows.end * down {
            for column in left..region.columns.end * across {
                let at = (row - top) * transform.height * plane.stride + (column - left) * transform.width;
                let block = StoredBlock(coefficients.block(row, column));
                transform.write(block, &mut plane.values[at..], plane.stride)?;
            }
        }
        planes.push(plane);
    }
    Some(planes)
}
