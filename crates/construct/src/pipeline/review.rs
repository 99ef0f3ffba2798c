//! Decisions of a person on hierarchies, in a CSV file that a later run applies.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{HierarchyRow, TIERS};
use crate::negatives::draw;
use crate::{Error, Result};

/// Columns of the file.
const COLUMNS: [&str; 6] = ["id", "decision", "tier1", "tier2", "tier3", "tier4"];

/// Decision of a reviewer on a hierarchy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Use the tiers of the review file, which the reviewer did not change.
    Accept,
    /// Use the tiers of the review file, which the reviewer changed.
    Edit,
    /// Drop the caption.
    Reject,
}

/// A decided row of a review file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReviewRow {
    /// Id of the hierarchy, which is the id of its caption.
    pub id: String,
    /// The decision.
    pub decision: Decision,
    /// Positive tiers.
    pub tiers: [String; TIERS],
}

/// Reads the decided rows of a review file: columns id, decision (accept, edit, reject, or empty), tier1 to tier4.
///
/// # Errors
/// The file cannot be read, lacks a column, or has an unknown decision or an empty tier (with its line).
pub fn read_review(path: &Path) -> Result<Vec<ReviewRow>> {
    let place = |number: u64| format!("--review: line {number} of `{}`", path.display());
    let mut reader = csv::Reader::from_path(path).map_err(|error| table_error(path, &error))?;
    let header = reader.headers().map_err(|error| table_error(path, &error))?.clone();
    let mut columns = [0; COLUMNS.len()];
    for (column, name) in columns.iter_mut().zip(COLUMNS) {
        *column = header.iter().position(|it| it == name).ok_or_else(|| {
            let found = format!("columns {:?}", header.iter().collect::<Vec<_>>());
            Error::invalid(format!("--review `{}`", path.display()), found, COLUMNS.join(", "))
        })?;
    }
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|error| table_error(path, &error))?;
        let number = record.position().map_or(0, csv::Position::line);
        let cell = |column: usize| record.get(columns[column]).unwrap_or_default().trim().to_owned();
        let decision = match cell(1).as_str() {
            "" => continue,
            "accept" => Decision::Accept,
            "edit" => Decision::Edit,
            "reject" => Decision::Reject,
            other => {
                let found = format!("decision {other:?}");
                return Err(Error::invalid(place(number), found, "accept, edit, reject, or nothing"));
            }
        };
        let tiers: [String; TIERS] = std::array::from_fn(|tier| cell(tier + 2));
        if decision != Decision::Reject
            && let Some(tier) = tiers.iter().position(String::is_empty)
        {
            return Err(Error::invalid(place(number), format!("tier{} is empty", tier + 1), "a text"));
        }
        rows.push(ReviewRow { id: cell(0), decision, tiers });
    }
    Ok(rows)
}

/// A table for review with some of the rows, chosen by the seed and their ids; the column of decisions is empty.
pub(super) fn review_table(
    rows: impl Iterator<Item = Result<HierarchyRow>>,
    count: usize,
    seed: u64,
) -> Result<Vec<u8>> {
    let mut chosen: Vec<(usize, HierarchyRow)> = Vec::new();
    for row in rows {
        let row = row?;
        chosen.push((draw(seed, &row.id, usize::MAX), row));
        if chosen.len() > 4 * count {
            chosen.sort_by_key(|(order, _)| *order);
            chosen.truncate(count);
        }
    }
    chosen.sort_by_key(|(order, _)| *order);
    chosen.truncate(count);
    let mut table = csv::Writer::from_writer(Vec::new());
    let fault = |error: csv::Error| Error::invalid("review table", error.to_string(), "texts");
    table.write_record(COLUMNS).map_err(fault)?;
    for (_, row) in chosen {
        let cells = [row.id, String::new()].into_iter().chain(row.positive);
        table.write_record(cells.collect::<Vec<_>>()).map_err(fault)?;
    }
    table.into_inner().map_err(|error| Error::invalid("review table", error.to_string(), "texts"))
}

fn table_error(path: &Path, error: &csv::Error) -> Error {
    Error::invalid(format!("--review `{}`", path.display()), error.to_string(), "a CSV table")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use conifer_data::fixtures::FixtureFolder;

    use super::*;

    #[test]
    fn decisions_are_read_and_faults_name_the_line() {
        let folder = FixtureFolder::new();
        let read = |text: &str| read_review(&folder.write("review.csv", text));
        let head = "id,decision,tier1,tier2,tier3,tier4\n";
        let rows = read(&format!("{head}1,accept,a,b,c,d\n2,,a,b,c,d\n3,reject,,,,\n4,edit,x,b,\"c, c\",d\n")).unwrap();
        assert_eq!(
            rows.iter().map(|row| row.decision).collect::<Vec<_>>(),
            [Decision::Accept, Decision::Reject, Decision::Edit]
        );
        assert_eq!(rows[2].tiers, ["x", "b", "c, c", "d"]);
        let said = |text: &str| read(text).unwrap_err().to_string();
        let text = said(&format!("{head}1,yes,a,b,c,d\n"));
        assert!(text.contains("line 2 of ") && text.contains("\"yes\"; expected accept, edit, reject"), "{text}");
        assert!(said(&format!("{head}1,edit,a,,c,d\n")).contains("tier2 is empty"));
        assert!(said("id,tier1\n1,a\n").contains("expected id, decision, tier1"));
    }
}
