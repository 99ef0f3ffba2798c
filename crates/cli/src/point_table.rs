//! The tables of points of maps: `points.parquet` and `points.csv`, as `conifer project` writes them.

use std::collections::HashSet;
use std::fs::File;
use std::path::Path;

use anyhow::{Context as _, anyhow, bail, ensure};
use conifer_data::guard::catch_panic;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType};
use parquet::file::reader::{FileReader as _, SerializedFileReader};

/// The rows of a map and their positions.
#[derive(Debug, PartialEq)]
pub(crate) struct PointTable {
    /// Row numbers of the set, ascending, each once.
    pub(crate) rows: Vec<u32>,
    /// The position of each row. A map of one dimension has 0 as the second coordinate.
    pub(crate) positions: Vec<[f64; 2]>,
}

/// The columns of a table, as read.
#[derive(Default)]
struct PointColumns {
    rows: Vec<i64>,
    ids: Vec<String>,
    x: Vec<f64>,
    /// Empty if the map has one dimension.
    y: Vec<f64>,
}

impl PointTable {
    /// Reads a `.csv` or `.parquet` file. `ids` are the ids of all rows of the set.
    ///
    /// # Errors
    /// The file is not readable, a column is missing, or a row is given twice or is not a row of the set.
    pub(crate) fn read(path: &Path, ids: &[String]) -> anyhow::Result<Self> {
        let columns = match path.extension().and_then(|it| it.to_str()) {
            // The reader of the library may panic on damaged files.
            Some("parquet") => catch_panic(|| PointColumns::of_parquet(path))
                .unwrap_or_else(|_| Err(anyhow!("the file is damaged; expected Parquet"))),
            Some("csv") => PointColumns::of_csv(path),
            _ => bail!("the file is not a table; expected a folder, a .csv or a .parquet file"),
        };
        columns.and_then(|it| it.sorted(ids)).with_context(|| path.display().to_string())
    }
}

impl PointColumns {
    fn of_csv(path: &Path) -> anyhow::Result<Self> {
        let mut reader = csv::Reader::from_path(path)?;
        let header = reader.headers()?.clone();
        let find = |name: &str| header.iter().position(|it| it == name);
        let column = |name: &str| find(name).with_context(|| missing(name));
        let (row, id, x, y) = (column("row")?, column("id")?, column("x0")?, find("x1"));
        let mut table = PointColumns::default();
        let mut record = csv::StringRecord::new();
        while reader.read_record(&mut record)? {
            let line = || record.position().map_or(0, csv::Position::line);
            let cell = |at: usize| record.get(at).unwrap_or_default();
            let number = |at: usize| {
                let (name, found) = (&header[at], cell(at));
                found
                    .parse::<f64>()
                    .with_context(|| format!("line {}: `{name}` is `{found}`; expected a number", line()))
            };
            let found = cell(row);
            let row = found
                .parse::<i64>()
                .with_context(|| format!("line {}: `row` is `{found}`; expected a row number", line()))?;
            table.rows.push(row);
            table.ids.push(cell(id).to_owned());
            table.x.push(number(x)?);
            table.y.extend(y.map(number).transpose()?);
        }
        Ok(table)
    }

    fn of_parquet(path: &Path) -> anyhow::Result<Self> {
        let reader = SerializedFileReader::new(File::open(path)?)?;
        let schema = reader.metadata().file_metadata().schema_descr_ptr();
        let find = |name: &str| schema.columns().iter().position(|it| it.name() == name);
        let column = |name: &str| find(name).with_context(|| missing(name));
        let (row, id, x, y) = (column("row")?, column("id")?, column("x0")?, find("x1"));
        let mut table = PointColumns::default();
        for group in 0..reader.num_row_groups() {
            let group = reader.get_row_group(group)?;
            let count = usize::try_from(group.metadata().num_rows())?;
            table.rows.extend(whole_numbers(group.get_column_reader(row)?, "row", count)?);
            for id in texts(group.get_column_reader(id)?, "id", count)? {
                table.ids.push(String::from_utf8(id.data().to_vec()).context("`id` is not UTF-8")?);
            }
            table.x.extend(numbers(group.get_column_reader(x)?, "x0", count)?);
            if let Some(y) = y {
                table.y.extend(numbers(group.get_column_reader(y)?, "x1", count)?);
            }
        }
        Ok(table)
    }

    /// Checks that the rows are those of the set, and sorts them.
    fn sorted(self, ids: &[String]) -> anyhow::Result<PointTable> {
        ensure!(!self.rows.is_empty(), "the table has no rows; expected at least one");
        let mut seen = HashSet::new();
        let mut points = Vec::with_capacity(self.rows.len());
        for (at, row) in self.rows.iter().enumerate() {
            let known = usize::try_from(*row).ok().and_then(|row| Some((u32::try_from(row).ok()?, ids.get(row)?)));
            let (number, id) = known
                .with_context(|| format!("row {row}; expected a number below {}, the rows of the set", ids.len()))?;
            let found = &self.ids[at];
            ensure!(
                found == id,
                "row {row} has the id `{found}`, but `{id}` in the set; expected a map of this set: run \
                 `conifer project` again"
            );
            ensure!(seen.insert(number), "row {row} is given twice; expected it once");
            points.push((number, [self.x[at], self.y.get(at).copied().unwrap_or(0.0)]));
        }
        points.sort_unstable_by_key(|(row, _)| *row);
        let (rows, positions) = points.into_iter().unzip();
        Ok(PointTable { rows, positions })
    }
}

fn missing(name: &str) -> String {
    format!("the table has no column `{name}`; expected the columns row, id, x0 and x1")
}

fn whole_numbers(column: ColumnReader, name: &str, count: usize) -> anyhow::Result<Vec<i64>> {
    match column {
        ColumnReader::Int64ColumnReader(column) => values(column, name, count),
        ColumnReader::Int32ColumnReader(column) => {
            Ok(values(column, name, count)?.into_iter().map(i64::from).collect())
        }
        _ => bail!("`{name}` is not a column of whole numbers; expected INT64"),
    }
}

fn numbers(column: ColumnReader, name: &str, count: usize) -> anyhow::Result<Vec<f64>> {
    match column {
        ColumnReader::DoubleColumnReader(column) => values(column, name, count),
        ColumnReader::FloatColumnReader(column) => {
            Ok(values(column, name, count)?.into_iter().map(f64::from).collect())
        }
        _ => bail!("`{name}` is not a column of numbers; expected DOUBLE"),
    }
}

fn texts(column: ColumnReader, name: &str, count: usize) -> anyhow::Result<Vec<ByteArray>> {
    match column {
        ColumnReader::ByteArrayColumnReader(column) => values(column, name, count),
        _ => bail!("`{name}` is not a column of texts; expected BYTE_ARRAY"),
    }
}

/// All values of a column of a row group.
fn values<T: DataType>(mut column: ColumnReaderImpl<T>, name: &str, count: usize) -> anyhow::Result<Vec<T::T>> {
    // Definition levels are needed for columns that may have empty cells, as other programs write them.
    let (mut found, mut levels) = (Vec::new(), Vec::new());
    while found.len() < count {
        let (records, _, _) = column.read_records(count - found.len(), Some(&mut levels), None, &mut found)?;
        if records == 0 {
            break;
        }
    }
    ensure!(found.len() == count, "`{name}` has {} values in {count} rows; expected one in each row", found.len());
    Ok(found)
}
