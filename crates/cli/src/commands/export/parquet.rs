//! Writes one Parquet file: `row`, `id`, `modality`, `vector` (a list of floats of one length), `time` on a single
//! hyperboloid, and a column `column_NAME` for each column of the set.
//!
//! This module writes the format (<https://parquet.apache.org/docs/file-format/>) directly: one uncompressed page of
//! plain values per column and row group, and a footer in Thrift's compact protocol with their offsets. That subset is
//! enough for non-null numbers and strings. The `parquet` crate is not used because it enables another feature of the
//! `bytes` crate and would force a rebuild of the tensor engine.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;

use super::ExportRows;

/// Rows per row group. A group is held in memory; its vectors take 17 MB if they have 514 numbers.
const GROUP: usize = 8192;
const MAGIC: &[u8] = b"PAR1";

pub(super) fn write(rows: &ExportRows<'_>, path: &Path, progress: &mut dyn FnMut(usize)) -> anyhow::Result<()> {
    let (set, timed) = (rows.rows, rows.time(0).is_some());
    let mut columns = vec![
        ParquetColumn::new("row", ParquetType::Integer),
        ParquetColumn::new("id", ParquetType::Text),
        ParquetColumn::new("modality", ParquetType::Text),
        ParquetColumn::new("vector", ParquetType::Floats(rows.vectors.dim())),
    ];
    columns.extend(timed.then(|| ParquetColumn::new("time", ParquetType::Double)));
    columns.extend(set.columns.keys().map(|name| ParquetColumn::new(&format!("column_{name}"), ParquetType::Text)));
    let mut out = ParquetWriter { file: BufWriter::new(File::create(path)?), at: 0 };
    out.write(MAGIC)?;
    let mut groups = Vec::new();
    for first in (0..set.len()).step_by(GROUP) {
        let at = first..(first + GROUP).min(set.len());
        let mut pages = vec![Vec::new(); columns.len()];
        for row in at.clone() {
            pages[0].extend_from_slice(&(row as i64).to_le_bytes());
            text(&mut pages[1], &set.ids[row]);
            text(&mut pages[2], set.modality[row].name());
            pages[3].extend(rows.vector(row)?.iter().flat_map(|v| v.to_le_bytes()));
            if let Some(time) = rows.time(row) {
                pages[4].extend_from_slice(&time.to_le_bytes());
            }
            for (page, values) in pages[4 + usize::from(timed)..].iter_mut().zip(set.columns.values()) {
                text(page, &values[row]);
            }
        }
        let chunks = columns.iter().zip(pages).map(|(column, values)| column.write(at.len(), &values, &mut out));
        groups.push((at.len(), chunks.collect::<anyhow::Result<Vec<ColumnChunk>>>()?));
        progress(at.end);
    }
    let footer = footer(&columns, &groups, set.len());
    out.write(&footer)?;
    out.write(&u32::try_from(footer.len())?.to_le_bytes())?;
    out.write(MAGIC)?;
    out.file.into_inner()?.sync_all()?;
    Ok(())
}

struct ParquetWriter {
    file: BufWriter<File>,
    at: usize,
}

impl ParquetWriter {
    fn write(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.file.write_all(bytes)?;
        self.at += bytes.len();
        Ok(())
    }
}

struct ParquetColumn {
    name: String,
    kind: ParquetType,
}

#[derive(Clone, Copy)]
enum ParquetType {
    Integer,
    Double,
    Text,
    /// Number of floats per row.
    Floats(usize),
}

/// Location of the page of a column.
struct ColumnChunk {
    start: usize,
    bytes: usize,
    values: usize,
}

impl ParquetColumn {
    fn new(name: &str, kind: ParquetType) -> Self {
        ParquetColumn { name: name.to_owned(), kind }
    }

    /// Value of the physical type in the enum `Type` of `parquet.thrift`.
    fn physical(&self) -> i64 {
        match self.kind {
            ParquetType::Integer => 2,
            ParquetType::Floats(_) => 4,
            ParquetType::Double => 5,
            ParquetType::Text => 6,
        }
    }

    /// Schema path of the values.
    fn path(&self) -> Vec<&str> {
        match self.kind {
            ParquetType::Floats(_) => vec![&self.name, "list", "element"],
            _ => vec![&self.name],
        }
    }

    /// Writes the values of `rows` rows as a page.
    fn write(&self, rows: usize, values: &[u8], out: &mut ParquetWriter) -> anyhow::Result<ColumnChunk> {
        let (mut levels, mut count) = (Vec::new(), rows);
        if let ParquetType::Floats(dim) = self.kind {
            count = rows * dim;
            // Repetition levels: 0 starts a list, 1 continues it. An RLE run is the varint of twice its length, then
            // the level.
            let mut repeated = Vec::new();
            for _ in 0..rows {
                for (length, level) in [(1, 0), (dim - 1, 1)] {
                    if length > 0 {
                        varint(&mut repeated, 2 * length as u64);
                        repeated.push(level);
                    }
                }
            }
            // Definition levels: 1 for every value, because no list is empty and no value is null.
            let mut defined = Vec::new();
            varint(&mut defined, 2 * count as u64);
            defined.push(1);
            for part in [repeated, defined] {
                levels.extend_from_slice(&u32::try_from(part.len())?.to_le_bytes());
                levels.extend(part);
            }
        }
        let size = i32::try_from(levels.len() + values.len())?;
        let mut header = ThriftStruct::default();
        header.integer(1, I32, 0).integer(2, I32, size.into()).integer(3, I32, size.into());
        let mut page = ThriftStruct::default();
        page.integer(1, I32, i32::try_from(count)?.into()).integer(2, I32, 0).integer(3, I32, 3).integer(4, I32, 3);
        header.inner(5, page);
        let start = out.at;
        for part in [&header.end(), &levels, values] {
            out.write(part)?;
        }
        Ok(ColumnChunk { start, bytes: out.at - start, values: count })
    }
}

/// Serialises `FileMetaData`.
fn footer(columns: &[ParquetColumn], groups: &[(usize, Vec<ColumnChunk>)], rows: usize) -> Vec<u8> {
    const REQUIRED: i64 = 0;
    const REPEATED: i64 = 2;
    let mut schema = vec![named("conifer", None, Some(columns.len()))];
    for column in columns {
        let physical = Some(column.physical());
        match column.kind {
            ParquetType::Floats(_) => {
                let mut list = ThriftStruct::default();
                list.integer(3, I32, REQUIRED).text(4, &column.name).integer(5, I32, 1).integer(6, I32, 3);
                list.inner(10, union(3));
                schema.push(list);
                schema.push(named("list", Some(REPEATED), Some(1)));
                schema.push(leaf("element", physical, REQUIRED));
            }
            ParquetType::Text => {
                let mut field = leaf(&column.name, physical, REQUIRED);
                field.integer(6, I32, 0).inner(10, union(1));
                schema.push(field);
            }
            ParquetType::Integer | ParquetType::Double => schema.push(leaf(&column.name, physical, REQUIRED)),
        }
    }
    let group = |(rows, chunks): &(usize, Vec<ColumnChunk>)| {
        let all = columns.iter().zip(chunks).map(|(column, chunk)| {
            let mut metadata = ThriftStruct::default();
            metadata.integer(1, I32, column.physical());
            metadata.list(2, I32, vec![zigzag(0), zigzag(3)]);
            metadata.list(3, BINARY, column.path().into_iter().map(binary).collect());
            metadata.integer(4, I32, 0).integer(5, I64, chunk.values as i64);
            metadata.integer(6, I64, chunk.bytes as i64).integer(7, I64, chunk.bytes as i64);
            metadata.integer(9, I64, chunk.start as i64);
            let mut column = ThriftStruct::default();
            column.integer(2, I64, chunk.start as i64).inner(3, metadata);
            column.end()
        });
        let mut group = ThriftStruct::default();
        group.list(1, STRUCT, all.collect());
        let bytes: usize = chunks.iter().map(|it| it.bytes).sum();
        group.integer(2, I64, bytes as i64).integer(3, I64, *rows as i64);
        group.end()
    };
    let mut file = ThriftStruct::default();
    file.integer(1, I32, 1).list(2, STRUCT, schema.into_iter().map(ThriftStruct::end).collect());
    file.integer(3, I64, rows as i64).list(4, STRUCT, groups.iter().map(group).collect());
    file.text(6, concat!("conifer version ", env!("CARGO_PKG_VERSION")));
    file.end()
}

/// A `SchemaElement` for the root or a group.
fn named(name: &str, repetition: Option<i64>, children: Option<usize>) -> ThriftStruct {
    let mut field = ThriftStruct::default();
    if let Some(repetition) = repetition {
        field.integer(3, I32, repetition);
    }
    field.text(4, name);
    if let Some(children) = children {
        field.integer(5, I32, children as i64);
    }
    field
}

/// A `SchemaElement` for a leaf column.
fn leaf(name: &str, physical: Option<i64>, repetition: i64) -> ThriftStruct {
    let mut field = ThriftStruct::default();
    if let Some(physical) = physical {
        field.integer(1, I32, physical);
    }
    field.integer(3, I32, repetition).text(4, name);
    field
}

/// A `LogicalType` without parameters.
fn union(field: u8) -> ThriftStruct {
    let mut kind = ThriftStruct::default();
    kind.inner(field, ThriftStruct::default());
    kind
}

/// Appends a string to the values of a page.
fn text(page: &mut Vec<u8>, value: &str) {
    page.extend_from_slice(&(value.len() as u32).to_le_bytes());
    page.extend_from_slice(value.as_bytes());
}

// Types of Thrift's compact protocol.
const I32: u8 = 5;
const I64: u8 = 6;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const STRUCT: u8 = 12;

/// A Thrift struct, serialised field by field in ascending field order.
#[derive(Default)]
struct ThriftStruct {
    bytes: Vec<u8>,
    last: u8,
}

impl ThriftStruct {
    fn field(&mut self, number: u8, kind: u8) {
        // The short form holds field number differences below 16.
        self.bytes.push((number - self.last) << 4 | kind);
        self.last = number;
    }

    fn integer(&mut self, number: u8, kind: u8, value: i64) -> &mut Self {
        self.field(number, kind);
        self.bytes.extend(zigzag(value));
        self
    }

    fn text(&mut self, number: u8, value: &str) -> &mut Self {
        self.field(number, BINARY);
        self.bytes.extend(binary(value));
        self
    }

    fn inner(&mut self, number: u8, value: ThriftStruct) -> &mut Self {
        self.field(number, STRUCT);
        self.bytes.extend(value.end());
        self
    }

    fn list(&mut self, number: u8, kind: u8, values: Vec<Vec<u8>>) -> &mut Self {
        self.field(number, LIST);
        if values.len() < 15 {
            self.bytes.push((values.len() as u8) << 4 | kind);
        } else {
            self.bytes.push(0xf0 | kind);
            varint(&mut self.bytes, values.len() as u64);
        }
        self.bytes.extend(values.concat());
        self
    }

    fn end(mut self) -> Vec<u8> {
        self.bytes.push(0);
        self.bytes
    }
}

fn zigzag(value: i64) -> Vec<u8> {
    let mut bytes = Vec::new();
    varint(&mut bytes, (value << 1 ^ value >> 63) as u64);
    bytes
}

fn binary(value: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    varint(&mut bytes, value.len() as u64);
    bytes.extend_from_slice(value.as_bytes());
    bytes
}

fn varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}
