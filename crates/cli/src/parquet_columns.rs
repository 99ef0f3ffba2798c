//! Declares and writes columns of Parquet files.

use std::fs::File;
use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DataType};
use parquet::errors::Result;
use parquet::file::writer::SerializedRowGroupWriter;
use parquet::schema::types::{Type, TypePtr};

/// A required column of numbers.
pub(crate) fn number_field(name: &str, physical: Physical) -> Result<TypePtr> {
    let field = Type::primitive_type_builder(name, physical).with_repetition(Repetition::REQUIRED);
    Ok(Arc::new(field.build()?))
}

/// A required column of UTF-8 text.
pub(crate) fn text_field(name: &str) -> Result<TypePtr> {
    let field = Type::primitive_type_builder(name, Physical::BYTE_ARRAY).with_repetition(Repetition::REQUIRED);
    Ok(Arc::new(field.with_logical_type(Some(LogicalType::String)).build()?))
}

/// Writes the next column. With `list`, the values form lists of this length.
pub(crate) fn write_numbers<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, File>,
    values: &[T::T],
    list: Option<usize>,
) -> Result<()> {
    let Some(mut column) = group.next_column()? else { return Ok(()) };
    // Definition level 1: every value is present. Repetition level 0 begins a list.
    let levels = list.map(|length| {
        let starts = (0..values.len()).map(|at| i16::from(!at.is_multiple_of(length.max(1)))).collect::<Vec<_>>();
        (vec![1; values.len()], starts)
    });
    let (defined, starts) =
        levels.as_ref().map_or((None, None), |(defined, starts)| (Some(&defined[..]), Some(&starts[..])));
    column.typed::<T>().write_batch(values, defined, starts)?;
    column.close()
}

/// Writes the next column, of texts.
pub(crate) fn write_texts<'a>(
    group: &mut SerializedRowGroupWriter<'_, File>,
    values: impl Iterator<Item = &'a str>,
) -> Result<()> {
    write_numbers::<ByteArrayType>(group, &values.map(ByteArray::from).collect::<Vec<_>>(), None)
}
