//! Vectors and tables in Apache Parquet files (<https://parquet.apache.org/docs/file-format/>), as pandas, Polars,
//! DuckDB and Spark write them.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::{Compression, Type as Physical};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::DataType;
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use parquet::schema::types::{ColumnDescriptor, Type};
use serde_json::{Map, Number, Value};

use super::{MAX_WIDTH, VectorMatrix, finite_matrix};
use crate::error::{Error, Result};
use crate::files::open_regular;
use crate::guard::catch_panic;

/// Number of rows that are read at once.
const CHUNK_ROWS: usize = 4096;
/// The column with the ids of the rows.
const ID: &str = "id";
/// The column with the texts of the rows.
const TEXT: &str = "text";

/// The columns found in the file, and the rows as JSON objects.
pub(crate) type TableRows = (Vec<String>, Vec<Map<String, Value>>);

/// Vectors with the ids of their rows.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedVectors {
    /// One row per vector.
    pub matrix: VectorMatrix,
    /// Id of each row, from the column `id`.
    pub ids: Vec<String>,
    /// Text of each row, from the column `text`. `None` if the file has no such column.
    pub texts: Option<Vec<String>>,
}

/// Reads the vectors of a Parquet file: a column of lists of float or double, all of one length, and the column `id`.
/// `column` selects one of several such columns.
///
/// # Errors
/// The file cannot be read, is damaged, or uses a compression other than Snappy and gzip; there is no such column, or
/// no column `id`; a row has no id, no vector or a vector of another length, or no text although there is a column
/// `text`; a value is not finite. The message names the row.
pub fn read_named(path: &Path, column: Option<&str>) -> Result<NamedVectors> {
    let place = format!("`{}`", path.display());
    let reader = open(path, &place)?;
    let fault = |found: String, expected: &str| Error::format(&place, found, expected);
    let (columns, rows) = records(&reader, &place, &[ID, TEXT])?;
    if !columns.iter().any(|name| name == ID) {
        let names = names(&reader).join(", ");
        return Err(fault(format!("the columns {names}"), "a column `id` that names each row"));
    }
    let (mut ids, mut texts) = (Vec::with_capacity(rows.len()), Vec::new());
    for (row, record) in rows.iter().enumerate() {
        let text = |name: &str| match record.get(name) {
            Some(Value::String(text)) => Some(text.trim().to_owned()),
            Some(Value::Number(number)) => Some(number.to_string()),
            _ => None,
        };
        let id = text(ID).filter(|id| !id.is_empty());
        ids.push(id.ok_or_else(|| fault(format!("row {row} has no id"), "a string or an integer in each row"))?);
        texts.push(text(TEXT));
    }
    let texts = match columns.iter().any(|name| name == TEXT) {
        false => None,
        true => match texts.iter().position(|text| text.as_ref().is_none_or(String::is_empty)) {
            None => Some(texts.into_iter().flatten().collect()),
            Some(row) => {
                return Err(fault(format!("row {row} has no text"), "a string in each row, or no column `text`"));
            }
        },
    };
    let matrix = matrix(&reader, &place, column)?;
    if matrix.len() != ids.len() {
        return Err(fault(format!("{} vectors and {} ids", matrix.len(), ids.len()), "one vector per row"));
    }
    Ok(NamedVectors { matrix, ids, texts })
}

/// Reads a table. Returns the names of those `columns` that the file has, and the rows as JSON objects with these
/// columns.
///
/// # Errors
/// The file cannot be read, is damaged, or uses a compression other than Snappy and gzip.
pub(crate) fn read_rows(path: &Path, columns: &[&str]) -> Result<TableRows> {
    let place = format!("`{}`", path.display());
    records(&open(path, &place)?, &place, columns)
}

fn open(path: &Path, place: &str) -> Result<SerializedFileReader<File>> {
    let file = open_regular(path).map_err(Error::io("read", path))?;
    let reader = guarded(place, || SerializedFileReader::new(file))?;
    let codecs = reader.metadata().row_groups().iter().flat_map(|group| group.columns()).map(|it| it.compression());
    for codec in codecs {
        if !matches!(codec, Compression::UNCOMPRESSED | Compression::SNAPPY | Compression::GZIP(_)) {
            let name = format!("{codec:?}");
            let name = name.split('(').next().unwrap_or_default();
            let expected = "Snappy, gzip or none (Polars: write_parquet(path, compression=\"snappy\"))";
            return Err(Error::format(place, format!("compression {name}"), expected));
        }
    }
    Ok(reader)
}

/// Runs the parser, whose errors and panics mean that the file is damaged.
fn guarded<T>(place: &str, parse: impl FnOnce() -> Result<T, ParquetError>) -> Result<T> {
    let damaged = |found: String| Error::format(place, found, "a complete Parquet file");
    catch_panic(parse).map_err(damaged)?.map_err(|error| damaged(error.to_string()))
}

fn names(reader: &SerializedFileReader<File>) -> Vec<String> {
    let root = reader.metadata().file_metadata().schema_descr().root_schema();
    root.get_fields().iter().map(|field| field.name().to_owned()).collect()
}

fn records(reader: &SerializedFileReader<File>, place: &str, columns: &[&str]) -> Result<TableRows> {
    let root = reader.metadata().file_metadata().schema_descr().root_schema();
    let fields: Vec<_> = root.get_fields().iter().filter(|field| columns.contains(&field.name())).cloned().collect();
    let found: Vec<String> = fields.iter().map(|field| field.name().to_owned()).collect();
    if fields.is_empty() {
        let rows = usize::try_from(reader.metadata().file_metadata().num_rows()).unwrap_or_default();
        return Ok((found, vec![Map::new(); rows]));
    }
    let rows = guarded(place, || {
        let projection = Type::group_type_builder(root.name()).with_fields(fields).build()?;
        let row = |row: Result<parquet::record::Row, ParquetError>| {
            Ok(row?.into_columns().into_iter().map(|(name, field)| (name, value(&field))).collect())
        };
        reader.get_row_iter(Some(projection))?.map(row).collect::<Result<Vec<_>, ParquetError>>()
    })?;
    Ok((found, rows))
}

/// A field as JSON. An unsupported type becomes an empty object.
fn value(field: &Field) -> Value {
    let float = |x: f64| Number::from_f64(x).map_or(Value::Null, Value::Number);
    match field {
        Field::Null => Value::Null,
        Field::Bool(x) => Value::Bool(*x),
        Field::Byte(x) => (*x).into(),
        Field::Short(x) => (*x).into(),
        Field::Int(x) => (*x).into(),
        Field::Long(x) => (*x).into(),
        Field::UByte(x) => (*x).into(),
        Field::UShort(x) => (*x).into(),
        Field::UInt(x) => (*x).into(),
        Field::ULong(x) => (*x).into(),
        Field::Float(x) => float(f64::from(*x)),
        Field::Double(x) => float(*x),
        Field::Str(text) => Value::String(text.clone()),
        Field::Bytes(bytes) => Value::String(String::from_utf8_lossy(bytes.data()).into_owned()),
        Field::ListInternal(list) => list.elements().iter().map(value).collect(),
        _ => Value::Object(Map::new()),
    }
}

/// True for a column of lists of floats.
fn is_vector(column: &ColumnDescriptor) -> bool {
    column.max_rep_level() == 1 && matches!(column.physical_type(), Physical::FLOAT | Physical::DOUBLE)
}

/// The vectors of the column `name`, or of the only column of vectors.
fn matrix(reader: &SerializedFileReader<File>, place: &str, name: Option<&str>) -> Result<VectorMatrix> {
    let schema = reader.metadata().file_metadata().schema_descr();
    let column_name = |column: &Arc<ColumnDescriptor>| column.path().parts().first().cloned().unwrap_or_default();
    let vectors: Vec<(usize, String)> = (0..)
        .zip(schema.columns())
        .filter(|(_, column)| is_vector(column))
        .map(|(at, column)| (at, column_name(column)))
        .collect();
    let selected = match (name, &vectors[..]) {
        (Some(name), vectors) => vectors.iter().find(|(_, found)| found == name),
        (None, [only]) => Some(only),
        (None, _) => None,
    };
    let Some((at, name)) = selected else {
        let known = vectors.iter().map(|(_, name)| name.as_str()).collect::<Vec<_>>().join(", ");
        let found = match name {
            Some(name) => format!("no column `{name}` of lists of float or double"),
            None => format!("{} columns of lists of float or double, none selected", vectors.len()),
        };
        let expected = if known.is_empty() { "one such column".to_owned() } else { format!("one of: {known}") };
        return Err(Error::format(place, found, expected));
    };
    let place = format!("column `{name}` of {place}");
    let mut lists = ListReader { most: schema.column(*at).max_def_level(), ..ListReader::default() };
    for group in 0..reader.num_row_groups() {
        let column = guarded(&place, || reader.get_row_group(group)?.get_column_reader(*at))?;
        match column {
            ColumnReader::FloatColumnReader(column) => lists.read(&place, column, |x| x)?,
            ColumnReader::DoubleColumnReader(column) => lists.read(&place, column, |x| x as f32)?,
            _ => return Err(Error::format(&place, "another type than its schema says", "lists of float or double")),
        }
    }
    let ListReader { width, values, .. } = lists;
    match width {
        Some(width) if (1..=MAX_WIDTH).contains(&width) => finite_matrix(&place, width, values),
        Some(width) => {
            Err(Error::format(place, format!("vectors of {width} numbers"), format!("1 to {MAX_WIDTH} numbers")))
        }
        None => Err(Error::format(place, "no row", "at least one row")),
    }
}

/// Reads lists of equal length and concatenates their values.
#[derive(Default)]
struct ListReader {
    /// Maximum definition level of the column, which is the level of a value that is not null.
    most: i16,
    /// Length of the first list.
    width: Option<usize>,
    rows: usize,
    values: Vec<f32>,
}

impl ListReader {
    /// Reads the lists of a row group.
    fn read<T: DataType>(
        &mut self,
        place: &str,
        mut column: ColumnReaderImpl<T>,
        number: impl Fn(T::T) -> f32,
    ) -> Result<()> {
        loop {
            let (mut levels, mut starts, mut values) = (Vec::new(), Vec::new(), Vec::new());
            let read = || column.read_records(CHUNK_ROWS, Some(&mut levels), Some(&mut starts), &mut values);
            let (rows, ..) = guarded(place, read)?;
            if rows == 0 {
                return Ok(());
            }
            // Every list begins with repetition level 0. The definition level of a null value is below the maximum of
            // its column.
            for (list, levels) in split_lists(&starts, &levels).enumerate() {
                let row = self.rows + list;
                if levels.iter().any(|&level| level < self.most) {
                    let expected = "a list of numbers in each row";
                    return Err(Error::format(place, format!("row {row} has no vector, or a gap in it"), expected));
                }
                let width = *self.width.get_or_insert(levels.len());
                if levels.len() != width {
                    let found = format!("row {row} has {} numbers", levels.len());
                    return Err(Error::format(place, found, format!("{width}, as row 0")));
                }
            }
            self.rows += rows;
            self.values.extend(values.into_iter().map(&number));
        }
    }
}

/// The definition levels of each list. `starts` are the repetition levels, which are 0 where a list begins.
fn split_lists<'a>(starts: &'a [i16], levels: &'a [i16]) -> impl Iterator<Item = &'a [i16]> {
    let mut rest = starts.iter().enumerate().filter(|(_, start)| **start == 0).map(|(at, _)| at).peekable();
    std::iter::from_fn(move || {
        let from = rest.next()?;
        Some(&levels[from..rest.peek().copied().unwrap_or(levels.len())])
    })
}

#[cfg(test)]
#[path = "parquet_tests.rs"]
pub(crate) mod tests;
