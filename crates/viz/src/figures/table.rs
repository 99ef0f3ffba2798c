use std::collections::HashMap;

use crate::{Error, Result};

/// A column of the data of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FigureColumn {
    /// Name in the header of the CSV file.
    pub name: &'static str,
    /// Type of the values.
    pub kind: FigureColumnKind,
    /// Meaning of the values, for users.
    pub help: &'static str,
}

/// Type of the values of a [`FigureColumn`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FigureColumnKind {
    /// Any text.
    Text,
    /// A finite number.
    Number,
    /// A finite number, or an empty cell.
    Optional,
    /// A PNG file, or an empty cell. The CSV file contains the name of the PNG file.
    Picture,
}

/// A value of a [`FigureTable`].
#[derive(Clone, Debug, PartialEq)]
pub enum FigureCell {
    /// A text.
    Text(String),
    /// A number.
    Number(f64),
    /// The bytes of a PNG file.
    Picture(Vec<u8>),
    /// No value.
    Empty,
}

impl From<&str> for FigureCell {
    fn from(text: &str) -> Self {
        FigureCell::Text(text.to_owned())
    }
}

impl From<String> for FigureCell {
    fn from(text: String) -> Self {
        FigureCell::Text(text)
    }
}

impl From<f64> for FigureCell {
    fn from(number: f64) -> Self {
        FigureCell::Number(number)
    }
}

impl From<Option<f64>> for FigureCell {
    fn from(number: Option<f64>) -> Self {
        number.map_or(FigureCell::Empty, FigureCell::Number)
    }
}

impl From<Option<Vec<u8>>> for FigureCell {
    fn from(png: Option<Vec<u8>>) -> Self {
        png.map_or(FigureCell::Empty, FigureCell::Picture)
    }
}

/// The data of a figure: rows of the columns that its [`super::FigureEntry`] declares.
#[derive(Clone, Debug, PartialEq)]
pub struct FigureTable {
    columns: &'static [FigureColumn],
    rows: Vec<Vec<FigureCell>>,
}

/// A row of a [`FigureTable`].
#[derive(Clone, Copy)]
pub(super) struct FigureRow<'a> {
    columns: &'static [FigureColumn],
    cells: &'a [FigureCell],
}

impl FigureTable {
    /// A table without rows.
    pub fn new(columns: &'static [FigureColumn]) -> Self {
        FigureTable { columns, rows: Vec::new() }
    }

    /// Appends a row.
    ///
    /// # Errors
    /// The number of cells differs from that of the columns; a cell has another kind than its column; a number is not
    /// finite.
    pub fn push(&mut self, cells: Vec<FigureCell>) -> Result<()> {
        let place = |name: &str| format!("row {}, column {name}", self.rows.len());
        if cells.len() != self.columns.len() {
            return Err(Error::invalid(
                place("count"),
                format!("{} cells", cells.len()),
                format!("{} cells", self.columns.len()),
            ));
        }
        for (column, cell) in self.columns.iter().zip(&cells) {
            let is_right = match (column.kind, cell) {
                (FigureColumnKind::Text, FigureCell::Text(_)) => true,
                (FigureColumnKind::Number | FigureColumnKind::Optional, FigureCell::Number(it)) => it.is_finite(),
                (FigureColumnKind::Optional | FigureColumnKind::Picture, FigureCell::Empty) => true,
                (FigureColumnKind::Picture, FigureCell::Picture(_)) => true,
                _ => false,
            };
            if !is_right {
                let found = match cell {
                    FigureCell::Text(text) => format!("the text `{text}`"),
                    FigureCell::Number(number) => number.to_string(),
                    FigureCell::Picture(_) => "a picture".to_owned(),
                    FigureCell::Empty => "nothing".to_owned(),
                };
                return Err(Error::invalid(place(column.name), found, column.kind.expectation()));
            }
        }
        self.rows.push(cells);
        Ok(())
    }

    /// Appends the rows of a table with the same columns.
    pub fn append(&mut self, mut other: FigureTable) {
        self.rows.append(&mut other.rows);
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns true if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = FigureRow<'_>> + Clone {
        self.rows.iter().map(|cells| FigureRow { columns: self.columns, cells })
    }

    /// The table as CSV (RFC 4180). The cell of a picture is the name that `picture` returns for its number.
    pub fn csv(&self, picture: impl Fn(usize) -> String) -> String {
        let mut out = self.columns.iter().map(|it| it.name).collect::<Vec<_>>().join(",") + "\n";
        let mut number = 0;
        for row in &self.rows {
            let cells = row.iter().map(|cell| match cell {
                FigureCell::Text(text) => csv_cell(text),
                FigureCell::Number(number) => number.to_string(),
                FigureCell::Empty => String::new(),
                FigureCell::Picture(_) => {
                    number += 1;
                    csv_cell(&picture(number - 1))
                }
            });
            out += &(cells.collect::<Vec<_>>().join(",") + "\n");
        }
        out
    }

    /// The pictures in the order of their numbers.
    pub fn pictures(&self) -> impl Iterator<Item = &[u8]> {
        self.rows.iter().flatten().filter_map(|cell| match cell {
            FigureCell::Picture(png) => Some(png.as_slice()),
            _ => None,
        })
    }

    /// Reads the CSV text of a table; further columns are ignored. `picture` returns the PNG file of a name.
    ///
    /// # Errors
    /// The text is not CSV or lacks a column; a cell does not have the type of its column; `picture` fails.
    pub fn read_csv(
        columns: &'static [FigureColumn],
        text: &str,
        mut picture: impl FnMut(&str) -> Result<Vec<u8>>,
    ) -> Result<Self> {
        let bad = |cause: csv::Error| Error::invalid("CSV", cause, "rows of equal length (RFC 4180)");
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let header = reader.headers().map_err(bad)?.clone();
        let mut places = Vec::new();
        for column in columns {
            let place =
                header.iter().position(|it| it.trim_start_matches('\u{feff}') == column.name).ok_or_else(|| {
                    let names = |all: &mut dyn Iterator<Item = &str>| all.collect::<Vec<_>>().join(",");
                    Error::invalid(
                        "header",
                        names(&mut header.iter()),
                        format!("the columns {}", names(&mut columns.iter().map(|it| it.name))),
                    )
                })?;
            places.push(place);
        }
        let mut table = FigureTable::new(columns);
        for record in reader.records() {
            let record = record.map_err(bad)?;
            let mut cells = Vec::new();
            for (column, place) in columns.iter().zip(&places) {
                let text = &record[*place];
                let number = || text.trim().parse::<f64>().map_or_else(|_| FigureCell::from(text), FigureCell::Number);
                cells.push(match column.kind {
                    FigureColumnKind::Text => FigureCell::from(text),
                    FigureColumnKind::Number => number(),
                    FigureColumnKind::Optional | FigureColumnKind::Picture if text.is_empty() => FigureCell::Empty,
                    FigureColumnKind::Optional => number(),
                    FigureColumnKind::Picture => FigureCell::Picture(picture(text)?),
                });
            }
            table.push(cells)?;
        }
        Ok(table)
    }
}

impl FigureColumnKind {
    fn expectation(self) -> &'static str {
        match self {
            FigureColumnKind::Text => "a text",
            FigureColumnKind::Number => "a finite number",
            FigureColumnKind::Optional => "a finite number or nothing",
            FigureColumnKind::Picture => "a picture or nothing",
        }
    }
}

impl<'a> FigureRow<'a> {
    fn cell(&self, name: &str) -> Option<&'a FigureCell> {
        self.columns.iter().position(|it| it.name == name).and_then(|at| self.cells.get(at))
    }

    /// The text of a column; empty if the table has no such column.
    pub(super) fn text(&self, name: &str) -> &'a str {
        match self.cell(name) {
            Some(FigureCell::Text(text)) => text,
            _ => "",
        }
    }

    /// The number of a column, if there is one.
    pub(super) fn optional(&self, name: &str) -> Option<f64> {
        match self.cell(name) {
            Some(FigureCell::Number(number)) => Some(*number),
            _ => None,
        }
    }

    /// The number of a column; zero if there is none.
    pub(super) fn number(&self, name: &str) -> f64 {
        self.optional(name).unwrap_or(0.0)
    }

    pub(super) fn picture(&self, name: &str) -> Option<&'a [u8]> {
        match self.cell(name) {
            Some(FigureCell::Picture(png)) => Some(png),
            _ => None,
        }
    }
}

/// Groups rows by key, in the order of the first row of each group.
pub(super) fn groups<'a, R: Clone>(
    rows: impl Iterator<Item = R>,
    key: impl Fn(&R) -> &'a str,
) -> Vec<(&'a str, Vec<R>)> {
    let (mut found, mut places) = (Vec::<(&str, Vec<R>)>::new(), HashMap::new());
    for row in rows {
        let name = key(&row);
        let at = *places.entry(name).or_insert_with(|| {
            found.push((name, Vec::new()));
            found.len() - 1
        });
        found[at].1.push(row);
    }
    found
}

/// A cell of a CSV file, quoted if needed.
fn csv_cell(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell.to_owned() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const COLUMNS: &[FigureColumn] = &[
        FigureColumn { name: "name", kind: FigureColumnKind::Text, help: "" },
        FigureColumn { name: "value", kind: FigureColumnKind::Number, help: "" },
        FigureColumn { name: "low", kind: FigureColumnKind::Optional, help: "" },
        FigureColumn { name: "photo", kind: FigureColumnKind::Picture, help: "" },
    ];

    #[test]
    fn csv_is_read_as_it_was_written() {
        let mut table = FigureTable::new(COLUMNS);
        let row = |name: &str, value: f64, low: Option<f64>, photo: Option<Vec<u8>>| -> Vec<FigureCell> {
            vec![name.into(), value.into(), low.into(), photo.into()]
        };
        table.push(row("a \"b\",\nc", 0.1 + 0.2, None, Some(vec![1, 2]))).unwrap();
        table.push(row("", -1e-300, Some(2.0), None)).unwrap();
        table.push(row("7", 3.0, None, Some(vec![3]))).unwrap();
        let text = table.csv(|number| format!("p-{number}.png"));
        assert!(text.starts_with("name,value,low,photo\n\"a \"\"b\"\",\nc\",0.30000000000000004,,p-0.png\n"), "{text}");
        let pictures = |name: &str| Ok(if name == "p-0.png" { vec![1, 2] } else { vec![3] });
        assert_eq!(FigureTable::read_csv(COLUMNS, &text, pictures).unwrap(), table);
        assert_eq!(table.pictures().collect::<Vec<_>>(), [&[1, 2][..], &[3]]);
    }

    #[test]
    fn bad_cells_are_refused() {
        let refused = |text: &str| FigureTable::read_csv(COLUMNS, text, |_| Ok(Vec::new())).unwrap_err().to_string();
        let message = refused("name,low,photo\n");
        assert!(message.contains("name,low,photo") && message.contains("name,value,low,photo"), "{message}");
        for (value, found) in [("NaN", "NaN"), ("inf", "inf"), ("x", "the text `x`"), ("", "the text ``")] {
            let message = refused(&format!("name,value,low,photo\na,1,,\nb,{value},,\n"));
            assert!(message.contains("row 1, column value") && message.contains(found), "{message}");
        }
        assert!(refused("name,value,low,photo\na,1\n").contains("equal length"));
        assert!(FigureTable::new(COLUMNS).push(vec!["a".into()]).unwrap_err().to_string().contains("1 cells"));
    }
}
