use std::collections::BTreeMap;

use super::{Better, ProtocolVariant, Suite, SuiteColumn, SuiteReport, SuiteTable};
use crate::Record;

/// A table of the paper with measured rows next to the published ones, in the unit of the paper, ready to be formatted.
#[derive(Clone, Debug)]
pub struct Sheet {
    /// Title of the table.
    pub title: String,
    /// Location in the paper.
    pub source: String,
    /// Number of decimal places.
    pub digits: usize,
    /// Column headers.
    pub heads: Vec<SheetHeader>,
    /// Rows in the order published, measured, trivial, number of queries.
    pub rows: Vec<SheetRow>,
    /// Footnotes, numbered from 1.
    pub notes: Vec<String>,
}

/// Header of a column.
#[derive(Clone, Debug)]
pub struct SheetHeader {
    /// Header above several columns; may be empty.
    pub group: String,
    /// Header of this column.
    pub header: String,
    /// Direction of improvement.
    pub better: Better,
}

/// Kind of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SheetRowKind {
    /// Printed in the paper.
    Published,
    /// Measured in this run.
    Ours,
    /// Value of a trivial answer on the same data.
    Trivial,
    /// Number of queries of the measured cells.
    Queries,
}

/// A row of a sheet.
#[derive(Clone, Debug)]
pub struct SheetRow {
    /// Kind of the row.
    pub kind: SheetRowKind,
    /// Name of the model.
    pub name: String,
    /// Numbers of the footnotes of the row.
    pub notes: Vec<usize>,
    /// One cell per column.
    pub cells: Vec<SheetCell>,
}

/// A cell of a row. Its fields are empty if there is nothing to show.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SheetCell {
    /// The number; `None` if no number was published or measured.
    pub value: Option<f64>,
    /// Half the width of the 95 % interval.
    pub half: Option<f64>,
    /// Number of queries.
    pub n: Option<usize>,
    /// Numbers of the footnotes of the cell.
    pub notes: Vec<usize>,
}

/// Fills the tables of a suite with the measured numbers of `model`.
pub fn sheets(suite: &Suite, report: &SuiteReport, model: &str) -> Vec<Sheet> {
    suite.tables.iter().map(|table| fill(suite, table, report, model)).collect()
}

#[derive(Default)]
struct Footnotes(Vec<String>);

impl Footnotes {
    fn number(&mut self, text: &str) -> usize {
        match self.0.iter().position(|it| it == text) {
            Some(at) => at + 1,
            None => {
                self.0.push(text.to_owned());
                self.0.len()
            }
        }
    }
}

fn fill(suite: &Suite, table: &SuiteTable, report: &SuiteReport, model: &str) -> Sheet {
    let mut notes = Footnotes::default();
    let mut rows = Vec::new();
    for row in &table.rows {
        rows.push(SheetRow {
            kind: SheetRowKind::Published,
            name: row.model.clone(),
            notes: row.note.iter().map(|note| notes.number(note)).collect(),
            cells: row
                .values
                .iter()
                .map(|&value| SheetCell { value: (!value.is_nan()).then_some(value), ..SheetCell::default() })
                .collect(),
        });
    }
    let plain = [ProtocolVariant::default()];
    let variants = if table.variants.is_empty() { &plain[..] } else { &table.variants };
    let (mut trivial, mut queries) = (MergedRows::default(), MergedRows::default());
    for variant in variants {
        let mut contents: BTreeMap<String, CellContent> = BTreeMap::new();
        let mut cells = Vec::new();
        let (mut baselines, mut counts) = (Vec::new(), Vec::new());
        for column in &table.columns {
            let content = if column.mean_of.is_empty() {
                let parts: Vec<CellContent> =
                    column.parts().iter().map(|part| content(table, part, variant, report)).collect();
                mean(parts.iter())
            } else {
                mean(column.mean_of.iter().filter_map(|name| contents.get(name)))
            };
            let (n, baseline) = match &content {
                CellContent::Number { n, baseline, .. } => (*n, baseline.clone()),
                CellContent::Empty(_) => (None, None),
            };
            counts.push(n);
            baselines.push(baseline);
            cells.push(content.cell(&mut notes));
            contents.insert(column.name(), content);
        }
        trivial.add(&variant.name, baselines);
        queries.add(&variant.name, counts);
        let name = named(model, &variant.name);
        rows.push(SheetRow { kind: SheetRowKind::Ours, name, notes: Vec::new(), cells });
    }
    for (name, row) in trivial.rows() {
        let cells = row.into_iter().map(|it| trivial_cell(it, &mut notes)).collect();
        rows.push(SheetRow {
            kind: SheetRowKind::Trivial,
            name: named("chance / trivial", &name),
            notes: Vec::new(),
            cells,
        });
    }
    for (name, row) in queries.rows() {
        let cells = row.into_iter().map(|n| SheetCell { n, ..SheetCell::default() }).collect();
        rows.push(SheetRow { kind: SheetRowKind::Queries, name: named("n", &name), notes: Vec::new(), cells });
    }
    table.notes.iter().chain(&suite.notes).for_each(|note| {
        notes.number(note);
    });
    Sheet {
        title: table.title.clone(),
        source: table.source.clone(),
        digits: table.digits,
        heads: table
            .columns
            .iter()
            .map(|it| SheetHeader { group: it.group.clone(), header: it.header.clone(), better: it.better })
            .collect(),
        rows,
        notes: notes.0,
    }
}

fn named(what: &str, variant: &str) -> String {
    if variant.is_empty() { what.to_owned() } else { format!("{what} ({variant})") }
}

/// Rows of the variants. Rows that are equal in every column where both have a value are merged, and the merged row is
/// named after their variants.
struct MergedRows<T>(Vec<(String, Vec<Option<T>>)>);

impl<T> Default for MergedRows<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: PartialEq> MergedRows<T> {
    /// Returns the merged rows. If there is only one, its name is empty, because it needs no distinction.
    fn rows(mut self) -> Vec<(String, Vec<Option<T>>)> {
        if let [(name, _)] = self.0.as_mut_slice() {
            name.clear();
        }
        self.0
    }

    fn add(&mut self, variant: &str, row: Vec<Option<T>>) {
        if row.iter().all(Option::is_none) {
            return;
        }
        let agrees = |known: &[Option<T>]| known.iter().zip(&row).all(|(a, b)| a.is_none() || b.is_none() || a == b);
        match self.0.iter_mut().find(|(_, known)| agrees(known)) {
            Some((names, known)) => {
                *names = [names.as_str(), variant].join("; ");
                for (known, new) in known.iter_mut().zip(row) {
                    *known = known.take().or(new);
                }
            }
            None => self.0.push((variant.to_owned(), row)),
        }
    }
}

fn trivial_cell(baseline: Option<(String, f64)>, notes: &mut Footnotes) -> SheetCell {
    let Some((name, value)) = baseline else { return SheetCell::default() };
    SheetCell {
        value: Some(value),
        notes: vec![notes.number(&format!("trivial answer: {name}"))],
        ..SheetCell::default()
    }
}

/// The measured number of a cell.
#[derive(Clone)]
enum CellContent {
    Number {
        value: f64,
        half: Option<f64>,
        n: Option<usize>,
        baseline: Option<(String, f64)>,
        notes: Vec<String>,
    },
    /// Reason why there is no number.
    Empty(String),
}

impl CellContent {
    fn cell(&self, notes: &mut Footnotes) -> SheetCell {
        match self {
            Self::Number { value, half, n, notes: texts, .. } => SheetCell {
                value: Some(*value),
                half: *half,
                n: *n,
                notes: texts.iter().map(|note| notes.number(note)).collect(),
            },
            Self::Empty(why) => SheetCell { notes: vec![notes.number(why)], ..SheetCell::default() },
        }
    }
}

/// Measured number of a column for a variant. All records that match must have the same value.
fn content(table: &SuiteTable, column: &SuiteColumn, variant: &ProtocolVariant, report: &SuiteReport) -> CellContent {
    let Some(task) = &column.task else {
        return CellContent::Empty(column.unanswered.clone().unwrap_or_default());
    };
    let records: Vec<&Record> =
        report.measured.iter().filter(|it| it.setting.task == *task).flat_map(|it| &it.records).collect();
    if records.is_empty() {
        return CellContent::Empty(why_unmeasured(task, report));
    }
    let metric = variant.metrics.get(&column.metric).unwrap_or(&column.metric);
    let matches_column = |record: &&&Record| {
        let (protocol, _) = protocol_of(record);
        record.split == column.split
            && record.metric == *metric
            && column.protocol.iter().chain(&variant.protocol).all(|piece| protocol.contains(piece.as_str()))
            && column.exact.iter().chain(&variant.exact).all(|whole| protocol == whole)
    };
    let found: Vec<&Record> = records.iter().filter(matches_column).copied().collect();
    let Some(first) = found.first() else {
        let protocol: Vec<&str> = [&column.protocol, &variant.protocol]
            .into_iter()
            .flatten()
            .chain(&column.exact)
            .chain(&variant.exact)
            .map(String::as_str)
            .collect();
        let protocol = if protocol.is_empty() { "any".into() } else { protocol.join(" + ") };
        return CellContent::Empty(format!(
            "task {task} has no number `{metric}` for split `{}`, protocol {protocol}",
            column.split
        ));
    };
    if let Some(other) = found.iter().find(|it| it.value.to_bits() != first.value.to_bits()) {
        return CellContent::Empty(format!(
            "task {task} has several numbers `{metric}` for split `{}`: protocols `{}` and `{}`",
            column.split, first.protocol, other.protocol
        ));
    }
    let factor = column.factor.unwrap_or(table.factor);
    let better = |a: f64, b: f64| if column.better == Better::Lower { a < b } else { a > b };
    let baselines = found.iter().filter_map(|it| it.baseline.as_ref());
    // Show the strongest of the baselines.
    let baseline = baselines.reduce(|best, it| if better(it.value, best.value) { it } else { best });
    CellContent::Number {
        value: first.value * factor,
        half: first.interval.map(|[low, high]| (high - low) / 2.0 * factor),
        n: Some(first.n),
        baseline: baseline.map(|it| (it.name.clone(), it.value * factor)),
        notes: protocol_of(first).1.map(|left_out| format!("{task}: partial: {left_out}")).into_iter().collect(),
    }
}

/// Splits the protocol of a record at the note on what was left out.
fn protocol_of(record: &Record) -> (&str, Option<&str>) {
    match record.protocol.split_once(", partial: ") {
        Some((protocol, left_out)) => (protocol, Some(left_out)),
        None => (&record.protocol, None),
    }
}

fn why_unmeasured(task: &str, report: &SuiteReport) -> String {
    if report.missing.iter().any(|it| it.task == task) {
        // All missing data sets share one footnote. The end of the report lists where to get each of them.
        return "its data set is missing: see the end of the report".to_owned();
    }
    match report.failed.iter().find(|it| it.task == task) {
        Some(it) => format!("task {task} failed: {}", it.error),
        None => format!("task {task} was not measured"),
    }
}

impl SuiteColumn {
    /// The columns of single records whose mean this column is; the column itself if it is not a mean.
    fn parts(&self) -> Vec<Self> {
        let tasks = self.tasks.iter().map(|task| Self { task: Some(task.clone()), ..self.clone() });
        let splits = self.splits.iter().map(|split| Self { split: split.clone(), ..self.clone() });
        let parts: Vec<Self> = tasks.chain(splits).collect();
        if parts.is_empty() { vec![self.clone()] } else { parts }
    }
}

/// The mean of several numbers, or the only number. A mean has no interval, because its parts may share queries.
fn mean<'a>(parts: impl Iterator<Item = &'a CellContent>) -> CellContent {
    let parts: Vec<&CellContent> = parts.collect();
    if let [one] = parts.as_slice() {
        return (*one).clone();
    }
    let (mut sum, mut trivial, mut notes) =
        (0.0, Some(0.0), vec!["a mean of several numbers, without an interval".to_owned()]);
    for part in &parts {
        match part {
            CellContent::Number { value, baseline, notes: more, .. } => {
                sum += value;
                trivial = trivial.zip(baseline.as_ref()).map(|(sum, (_, value))| sum + value);
                notes.extend(more.iter().cloned());
            }
            CellContent::Empty(why) => {
                return CellContent::Empty(format!("a mean of which one number is missing: {why}"));
            }
        }
    }
    let count = parts.len() as f64;
    let baseline = trivial.map(|sum| ("mean of the trivial answers".into(), sum / count));
    CellContent::Number { value: sum / count, half: None, n: None, baseline, notes }
}
