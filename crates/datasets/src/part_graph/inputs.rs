//! Splits files of boxes into blocks of whole photos, and counts the pairs of a block.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use conifer_data::error::in_one_line;
use conifer_data::files::open_regular;
use conifer_data::grounded::GroundedRecord;
use conifer_data::{Broken, Cause, Error, PartRule, Result};
use rayon::prelude::*;

use super::counts::{ClassBox, ClassId, PartCounts};
use crate::import::instances;
use crate::import::instances::InstancePhoto;
use crate::import::openimages::OpenImagesColumns;

/// A file of boxes; the extension determines its format.
pub(super) struct BoxFile {
    pub(super) path: PathBuf,
    /// Size in bytes when it was opened.
    pub(super) len: u64,
    /// Start of the first block; in a table, the first row after the header.
    pub(super) start: FilePosition,
    format: BoxFormat,
}

enum BoxFormat {
    /// OpenImages CSV.
    Table(OpenImagesColumns),
    /// Grounded JSONL.
    Jsonl,
    /// COCO or LVIS JSON, loaded as a whole because photos and boxes are separate lists.
    Json,
}

/// A position in a file, between two photos.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FilePosition {
    pub(super) byte: u64,
    /// Number of lines before the position.
    pub(super) line: u64,
}

/// A contiguous range of bytes of a file.
pub(super) struct FileBlock {
    start: u64,
    bytes: Vec<u8>,
}

/// Result of counting a block.
#[derive(Default)]
pub(super) struct BlockCounts {
    pub(super) counts: PartCounts,
    /// Hashes of the photo ids, with the line of their first box (counted from 0 in the block). Filled only for formats
    /// in which the rows of a photo might not be adjacent.
    pub(super) photos: Vec<(u64, u64)>,
    pub(super) lines: u64,
    /// File offset of the end of the block.
    pub(super) end: u64,
    /// Faults as (line in the block counted from 0, cause, message). [`BlockCounts::named`] adds the line number in the
    /// file.
    pub(super) faults: Vec<(u64, Cause, String)>,
}

/// Maximum size of a block, in bytes. A file in which one photo has more bytes of boxes is rejected.
const MAX_BLOCK: usize = 1 << 28;

impl BoxFile {
    /// Opens the file and, for a table, locates its columns.
    ///
    /// # Errors
    /// The extension is not .csv, .jsonl or .json, the file cannot be read, or a table lacks a required column.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let file = open_regular(path).map_err(Error::io("read", path))?;
        let len = file.metadata().map_err(Error::io("read", path))?.len();
        let mut start = FilePosition::default();
        let format = match path.extension().and_then(|it| it.to_str()) {
            Some("csv") => {
                let mut header = Vec::new();
                // Limits the memory for a file without line breaks. A header is much shorter.
                let limit = file.take(1 << 16);
                BufReader::new(limit).read_until(b'\n', &mut header).map_err(Error::io("read", path))?;
                start = FilePosition { byte: header.len() as u64, line: 1 };
                BoxFormat::Table(OpenImagesColumns::new(path, &header)?)
            }
            Some("jsonl") => BoxFormat::Jsonl,
            Some("json") => BoxFormat::Json,
            _ => {
                let expected =
                    "a file of boxes: .csv (OpenImages), .json (COCO or LVIS instances), .jsonl (grounded); unpacked";
                return Err(Error::invalid("boxes", format!("`{}`", path.display()), expected));
            }
        };
        Ok(Self { path: path.to_owned(), len, start, format })
    }

    /// Reads the next block: about `size` bytes, up to the end of a photo. `None` at the end of the file.
    ///
    /// # Errors
    /// The file cannot be read or has become shorter, or more than 256 MiB contain no end of a photo.
    pub(super) fn block(&self, start: u64, size: usize) -> Result<Option<FileBlock>> {
        if start >= self.len {
            return Ok(None);
        }
        if matches!(self.format, BoxFormat::Json) {
            return Ok(Some(FileBlock { start, bytes: Vec::new() }));
        }
        let mut file = open_regular(&self.path).map_err(Error::io("read", &self.path))?;
        file.seek(SeekFrom::Start(start)).map_err(Error::io("read", &self.path))?;
        let (mut bytes, mut size) = (Vec::new(), size.max(1));
        loop {
            let wanted = (self.len - start).min(size as u64);
            let missing = wanted - bytes.len() as u64;
            let found = (&mut file).take(missing).read_to_end(&mut bytes).map_err(Error::io("read", &self.path))?;
            if (found as u64) < missing {
                let place = format!("`{}`", self.path.display());
                let found = format!("ends {} bytes after byte {start}", bytes.len());
                return Err(Error::format(place, found, format!("{} bytes, the size when it was opened", self.len)));
            }
            if start + wanted == self.len {
                return Ok(Some(FileBlock { start, bytes }));
            }
            if let Some(end) = self.cut(&bytes) {
                bytes.truncate(end);
                return Ok(Some(FileBlock { start, bytes }));
            }
            if size >= MAX_BLOCK {
                let place = format!("`{}` from byte {start}", self.path.display());
                return Err(Error::format(
                    place,
                    format!("{size} bytes without the end of a photo"),
                    "at most this many bytes for the boxes of one photo",
                ));
            }
            size *= 2;
        }
    }

    /// Offset at which `bytes` is cut. The block then ends with a whole photo. In a table this is the start of the last
    /// photo, which may continue after these bytes. `None` if no whole photo ends in `bytes`. Malformed lines are
    /// skipped, as in [`count_rows`].
    fn cut(&self, bytes: &[u8]) -> Option<usize> {
        let end = bytes.iter().rposition(|&byte| byte == b'\n')? + 1;
        let BoxFormat::Table(columns) = &self.format else { return Some(end) };
        let (mut end, mut last) = (end, None);
        while end > 0 {
            let begin = bytes[..end - 1].iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
            if let Ok(row) = columns.row(bytes[begin..end].trim_ascii()) {
                if last.is_some_and(|last| last != row.image) {
                    return Some(end);
                }
                last = Some(row.image);
            }
            end = begin;
        }
        None
    }

    /// Counts the pairs of a block.
    ///
    /// # Errors
    /// A file that is loaded as a whole cannot be read or has another format.
    pub(super) fn count(&self, block: &FileBlock, rule: &PartRule) -> Result<BlockCounts> {
        match &self.format {
            BoxFormat::Table(columns) => Ok(count_rows(columns, block, rule)),
            BoxFormat::Jsonl => Ok(count_records(block, rule)),
            BoxFormat::Json => self.count_all(rule),
        }
    }

    fn count_all(&self, rule: &PartRule) -> Result<BlockCounts> {
        let (photos, faults) = instances::read_photos(&self.path)?;
        let count = |photos: &[InstancePhoto]| {
            let mut counts = PartCounts::default();
            let mut boxes = Vec::new();
            for photo in photos {
                boxes.clear();
                let boxed = photo.boxes.iter();
                boxes.extend(boxed.map(|(name, bbox, crowd)| (counts.class(name), *bbox, *crowd)).map(class_box));
                counts.add_photo(&boxes, rule);
            }
            counts
        };
        let parts: Vec<_> = photos.par_chunks(1024).map(count).collect();
        let mut counts = PartCounts::default();
        faults.into_iter().for_each(|fault| counts.add_broken(fault));
        parts.into_iter().for_each(|part| counts.merge(part));
        Ok(BlockCounts { counts, end: self.len, ..BlockCounts::default() })
    }
}

fn class_box((class, bbox, group_of): (ClassId, conifer_data::BBox, bool)) -> ClassBox {
    ClassBox { class, bbox, group_of }
}

fn count_rows(columns: &OpenImagesColumns, block: &FileBlock, rule: &PartRule) -> BlockCounts {
    let mut it = BlockCounts { end: block.start + block.bytes.len() as u64, ..BlockCounts::default() };
    let mut boxes: Vec<ClassBox> = Vec::new();
    let mut now = "";
    // Avoids an allocation for the label of every row.
    let mut classes: HashMap<&str, ClassId> = HashMap::new();
    for line in lines(&block.bytes) {
        let number = it.lines;
        it.lines += 1;
        if line.is_empty() {
            continue;
        }
        let row = match columns.row(line) {
            Ok(row) => row,
            Err((cause, detail)) => {
                it.faults.push((number, cause, detail));
                continue;
            }
        };
        if row.image != now {
            it.counts.add_photo(&boxes, rule);
            boxes.clear();
            now = row.image;
            it.photos.push((fnv(now.as_bytes()), number));
        }
        let class = *classes.entry(row.label).or_insert_with(|| it.counts.class(row.label));
        boxes.push(ClassBox { class, bbox: row.bbox, group_of: row.group_of });
    }
    it.counts.add_photo(&boxes, rule);
    it
}

fn count_records(block: &FileBlock, rule: &PartRule) -> BlockCounts {
    let mut it = BlockCounts { end: block.start + block.bytes.len() as u64, ..BlockCounts::default() };
    let mut boxes = Vec::new();
    for line in lines(&block.bytes) {
        let number = it.lines;
        it.lines += 1;
        let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        if line.is_empty() {
            continue;
        }
        let record = serde_json::from_slice::<GroundedRecord>(line).map_err(|error| {
            (Cause::BadRecord, format!("{}; expected a record of grounded JSONL", in_one_line(&error)))
        });
        let sample = record.and_then(|record| {
            record.into_sample(Path::new(""), number).map_err(|broken| (broken.cause, broken.detail))
        });
        match sample {
            Err((cause, detail)) => it.faults.push((number, cause, detail)),
            Ok(sample) => {
                boxes.clear();
                for phrase in &sample.phrases {
                    // Tabs and line breaks are separators in the edge files.
                    let name = phrase.text.split_whitespace().collect::<Vec<_>>().join(" ");
                    let class = it.counts.class(&name);
                    boxes.extend(phrase.boxes.iter().map(|&bbox| ClassBox { class, bbox, group_of: phrase.group_of }));
                }
                it.counts.add_photo(&boxes, rule);
            }
        }
    }
    it
}

impl FileBlock {
    /// File offset of the end of the block.
    pub(super) fn end(&self, file: &BoxFile) -> u64 {
        match file.format {
            BoxFormat::Json => file.len,
            _ => self.start + self.bytes.len() as u64,
        }
    }
}

impl BlockCounts {
    /// The counts, with the faults named by their lines in the file. `start` is the position of the block.
    pub(super) fn named(self, file: &BoxFile, start: FilePosition) -> PartCounts {
        let mut counts = self.counts;
        for (line, cause, detail) in self.faults {
            let place = format!("line {} of `{}`", start.line + line + 1, file.path.display());
            counts.add_broken(Broken::new(place, cause, detail));
        }
        counts
    }
}

/// Lines without surrounding whitespace. The last line may lack its line break.
fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    bytes.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii)
}

/// FNV-1a, 64 bits. Among two million photos the probability of a collision is about one in ten million. The hash of
/// the standard library is unsuitable because it may change between versions and these hashes are stored on disk.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}
