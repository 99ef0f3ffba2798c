//! Writes one Parquet file: `row`, `id`, `modality`, `vector` (a list of floats of one length), `time` on a single
//! hyperboloid, and a column `column_NAME` for each column of the set.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{DoubleType, FloatType, Int64Type};
use parquet::errors::Result;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnPath, Type};

use super::ExportRows;
use crate::parquet_columns::{number_field, text_field, write_numbers, write_texts};

/// Number of rows per row group. A group is held in memory; its vectors take 17 MB if they have 514 numbers.
const GROUP: usize = 8192;

pub(super) fn write(rows: &ExportRows<'_>, path: &Path, progress: &mut dyn FnMut(usize)) -> anyhow::Result<()> {
    let (set, dim) = (rows.rows, rows.vectors.dim());
    let created = concat!("conifer version ", env!("CARGO_PKG_VERSION")).to_owned();
    // The numbers of vectors rarely repeat, so a dictionary would cost time and save no space.
    let properties = WriterProperties::builder()
        .set_created_by(created)
        .set_column_dictionary_enabled(
            ColumnPath::from(["vector", "list", "element"].map(str::to_owned).to_vec()),
            false,
        )
        .build();
    let file = File::create(path)?;
    let synced = file.try_clone()?;
    let mut writer = SerializedFileWriter::new(file, Arc::new(schema(rows)?), Arc::new(properties))?;
    for first in (0..set.len()).step_by(GROUP) {
        let at = first..(first + GROUP).min(set.len());
        let mut group = writer.next_row_group()?;
        write_numbers::<Int64Type>(&mut group, &at.clone().map(|row| row as i64).collect::<Vec<_>>(), None)?;
        write_texts(&mut group, at.clone().map(|row| set.ids[row].as_str()))?;
        write_texts(&mut group, at.clone().map(|row| set.modality[row].name()))?;
        let mut vectors = Vec::with_capacity(at.len() * dim);
        for row in at.clone() {
            vectors.extend(rows.vector(row)?);
        }
        write_numbers::<FloatType>(&mut group, &vectors, Some(dim))?;
        let times: Option<Vec<f64>> = at.clone().map(|row| rows.time(row)).collect();
        if let Some(times) = times {
            write_numbers::<DoubleType>(&mut group, &times, None)?;
        }
        for values in set.columns.values() {
            write_texts(&mut group, at.clone().map(|row| values[row].as_str()))?;
        }
        group.close()?;
        progress(at.end);
    }
    writer.close()?;
    synced.sync_all()?;
    Ok(())
}

fn schema(rows: &ExportRows<'_>) -> Result<Type> {
    let items = Type::group_type_builder("list")
        .with_repetition(Repetition::REPEATED)
        .with_fields(vec![number_field("element", Physical::FLOAT)?])
        .build()?;
    let vector = Type::group_type_builder("vector")
        .with_repetition(Repetition::REQUIRED)
        .with_logical_type(Some(LogicalType::List))
        .with_fields(vec![Arc::new(items)]);
    let mut fields = vec![
        number_field("row", Physical::INT64)?,
        text_field("id")?,
        text_field("modality")?,
        Arc::new(vector.build()?),
    ];
    if rows.time(0).is_some() {
        fields.push(number_field("time", Physical::DOUBLE)?);
    }
    for name in rows.rows.columns.keys() {
        fields.push(text_field(&format!("column_{name}"))?);
    }
    Type::group_type_builder("conifer").with_fields(fields).build()
}
