use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{Better, Sheet, SheetCell, SheetRow, SheetRowKind, Suite, SuiteReport, sheets};

/// Output format of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableFormat {
    /// Aligned columns for a terminal.
    Text,
    /// Markdown tables.
    Markdown,
    /// One line per cell, quoted as in RFC 4180.
    Csv,
    /// `booktabs` tables. Missing data sets and failed tasks are comments.
    Latex,
}

/// Writes the tables of a suite with the measured rows, then the missing data sets and failed tasks.
pub fn render(format: TableFormat, suite: &Suite, report: &SuiteReport, model: &str) -> String {
    let sheets = sheets(suite, report, model);
    match format {
        TableFormat::Text => text(suite, &sheets, report),
        TableFormat::Markdown => markdown(suite, &sheets, report),
        TableFormat::Csv => csv(&sheets, report),
        TableFormat::Latex => latex(suite, &sheets, report),
    }
}

/// Writes every record as a line of JSON. The line contains the settings of the task (`task`) and `produced_by`,
/// extended by the data and the settings.
///
/// # Errors
/// A record cannot be serialised.
///
/// # Panics
/// `produced_by` is neither a JSON object nor null.
pub fn jsonl(report: &SuiteReport, produced_by: &Value) -> serde_json::Result<String> {
    let mut lines = String::new();
    for run in &report.measured {
        let mut by = produced_by.clone();
        by["data"] = json!(run.setting.data);
        by["data_sha256"] = json!(run.data_sha256);
        by["settings"] = run.settings.clone();
        by["settings"]["root_text"] = produced_by["root_text"].clone();
        for record in &run.records {
            let mut line = serde_json::to_value(record)?;
            line["task"] = serde_json::to_value(&run.setting)?;
            line["produced_by"] = by.clone();
            lines += &format!("{line}\n");
        }
    }
    Ok(lines)
}

/// Text of a cell. `mark` formats the numbers of its footnotes. `pm` is the text between the value and half the width
/// of the interval.
fn words(sheet: &Sheet, kind: SheetRowKind, cell: &SheetCell, pm: &str, mark: fn(&[usize]) -> String) -> String {
    let digits = sheet.digits;
    let body = match (kind, cell.value, cell.half, cell.n) {
        (SheetRowKind::Queries, _, _, Some(n)) => n.to_string(),
        (_, Some(value), Some(half), _) => format!("{value:.digits$}{pm}{half:.digits$}"),
        (_, Some(value), None, _) => format!("{value:.digits$}"),
        _ => "-".into(),
    };
    body + &mark(&cell.notes)
}

fn brackets(notes: &[usize]) -> String {
    notes.iter().map(|note| format!(" [{note}]")).collect()
}

fn superscripts(notes: &[usize]) -> String {
    notes.iter().map(|note| format!("\\textsuperscript{{{note}}}")).collect()
}

fn arrow(better: Better) -> &'static str {
    match better {
        Better::Higher => "",
        Better::Lower => " ↓",
    }
}

/// Header and body as text. The first column is the model. If `apart` is true, the groups are a separate header row;
/// otherwise they are part of the column headers.
fn grid(sheet: &Sheet, pm: &str, apart: bool) -> Vec<Vec<String>> {
    let mut rows: Vec<Vec<String>> = Vec::new();
    if apart && sheet.heads.iter().any(|head| !head.group.is_empty()) {
        let mut row = vec![String::new()];
        for heads in sheet.heads.chunk_by(|a, b| a.group == b.group) {
            row.extend(heads.iter().enumerate().map(|(at, head)| match at {
                0 => head.group.clone(),
                _ => String::new(),
            }));
        }
        rows.push(row);
    }
    let head = sheet.heads.iter().map(|it| {
        let name = if apart { it.header.clone() } else { [it.group.as_str(), it.header.as_str()].join(" ") };
        name.trim().to_owned() + arrow(it.better)
    });
    rows.push(std::iter::once("model".to_owned()).chain(head).collect());
    for row in &sheet.rows {
        let cells = row.cells.iter().map(|cell| words(sheet, row.kind, cell, pm, brackets));
        rows.push(std::iter::once(label(row) + &brackets(&row.notes)).chain(cells).collect());
    }
    rows
}

fn label(row: &SheetRow) -> String {
    match row.kind {
        SheetRowKind::Ours => format!("> {}", row.name),
        _ => row.name.clone(),
    }
}

impl SuiteReport {
    /// Missing data sets and failed tasks, one line each.
    pub fn remains(&self) -> Vec<String> {
        let missing = self
            .missing
            .iter()
            .map(|it| format!("missing: {} (data set {}): {}; get it: {}", it.task, it.data, it.layout, it.get));
        let failed = self.failed.iter().map(|it| format!("failed: {} (data set {}): {}", it.task, it.data, it.error));
        missing.chain(failed).collect()
    }
}

/// Explanation of intervals and symbols at the top of a report.
const LEGEND: &str = "Rows marked with > were measured here; +- is half the width of the 95 % bootstrap interval over queries; in columns marked with ↓, less is better.";

fn text(suite: &Suite, sheets: &[Sheet], report: &SuiteReport) -> String {
    let mut out = format!("{}: {} ({})\n{LEGEND}\n", suite.name, suite.title, suite.reference);
    for sheet in sheets {
        _ = write!(out, "\n{}: {}\n\n", sheet.source, sheet.title);
        let rows = grid(sheet, " +- ", true);
        let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &rows {
            let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, &w)| format!("{cell:<w$}")).collect();
            out += cells.join("  ").trim_end();
            out.push('\n');
        }
        for (at, note) in sheet.notes.iter().enumerate() {
            _ = writeln!(out, "[{}] {note}", at + 1);
        }
    }
    report.remains().iter().for_each(|line| _ = write!(out, "\n{line}"));
    if !out.ends_with('\n') {
        out.push('\n');
    }
    out
}

fn markdown(suite: &Suite, sheets: &[Sheet], report: &SuiteReport) -> String {
    let safe = |text: &str| text.replace('\\', "\\\\").replace('|', "\\|").replace('\n', " ");
    let mut out = format!("# {}: {}\n\n{}. {LEGEND}\n", suite.name, safe(&suite.title), safe(&suite.reference));
    for sheet in sheets {
        _ = write!(out, "\n## {}: {}\n\n", sheet.source, safe(&sheet.title));
        for (at, row) in grid(sheet, " ± ", false).iter().enumerate() {
            let cells: Vec<String> = row.iter().map(|cell| safe(cell).replace('>', "\\>")).collect();
            _ = writeln!(out, "| {} |", cells.join(" | "));
            if at == 0 {
                _ = writeln!(out, "| --- |{}", " ---: |".repeat(row.len().saturating_sub(1)));
            }
        }
        out.push('\n');
        for (at, note) in sheet.notes.iter().enumerate() {
            _ = writeln!(out, "- [{}] {}", at + 1, safe(note));
        }
    }
    let remains = report.remains();
    if !remains.is_empty() {
        out += "\n## Not measured\n\n";
        remains.iter().for_each(|line| _ = writeln!(out, "- {}", safe(line)));
    }
    out
}

fn csv(sheets: &[Sheet], report: &SuiteReport) -> String {
    let quoted = |field: &str| match field.contains(['"', ',', '\n', '\r']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field.to_owned(),
    };
    let line = |fields: &[String]| fields.iter().map(|it| quoted(it)).collect::<Vec<_>>().join(",") + "\n";
    let mut out = String::from("table,kind,model,group,column,value,half_width,n,notes\n");
    for sheet in sheets {
        let number = |value: Option<f64>| value.map_or_else(String::new, |it| it.to_string());
        for row in &sheet.rows {
            let kind = match row.kind {
                SheetRowKind::Published => "published",
                SheetRowKind::Ours => "measured",
                SheetRowKind::Trivial => "trivial",
                SheetRowKind::Queries => continue,
            };
            for (head, cell) in sheet.heads.iter().zip(&row.cells) {
                let notes = row.notes.iter().chain(&cell.notes);
                let notes: Vec<&str> = notes.filter_map(|note| sheet.notes.get(note - 1)).map(String::as_str).collect();
                out += &line(&[
                    sheet.source.clone(),
                    kind.into(),
                    row.name.clone(),
                    head.group.clone(),
                    head.header.clone(),
                    number(cell.value),
                    number(cell.half),
                    cell.n.map_or_else(String::new, |n| n.to_string()),
                    notes.join("; "),
                ]);
            }
        }
    }
    let mut tell = |kind: &str, data: &str, task: &str, what: String| {
        let [data, task, none] = [data, task, ""].map(str::to_owned);
        let cells = [none.clone(), kind.into(), none.clone(), data, task, none.clone(), none.clone(), none, what];
        out += &line(&cells);
    };
    for it in &report.missing {
        tell("missing", &it.data, &it.task, format!("{}; get it: {}", it.layout, it.get));
    }
    for it in &report.failed {
        tell("failed", &it.data, &it.task, it.error.clone());
    }
    out
}

/// Escapes LaTeX's special characters.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => {
                out.push('\\');
                out.push(character);
            }
            '\\' => out += "\\textbackslash{}",
            '~' => out += "\\textasciitilde{}",
            '^' => out += "\\textasciicircum{}",
            '<' => out += "\\textless{}",
            '>' => out += "\\textgreater{}",
            '|' => out += "\\textbar{}",
            '\n' => out.push(' '),
            _ => out.push(character),
        }
    }
    out
}

fn latex(suite: &Suite, sheets: &[Sheet], report: &SuiteReport) -> String {
    let mut out = format!("% {}; needs \\usepackage{{booktabs}}\n", suite.name);
    for sheet in sheets {
        _ = write!(out, "\n\\begin{{table}}\n\\centering\n\\caption{{{}", escaped(&sheet.title));
        _ = writeln!(out, " ({}, {}).}}", escaped(&suite.reference), escaped(&sheet.source));
        _ = writeln!(out, "\\begin{{tabular}}{{l{}}}\n\\toprule", "r".repeat(sheet.heads.len()));
        out += &latex_heads(sheet);
        out += "\\midrule\n";
        let mut before = SheetRowKind::Published;
        for row in &sheet.rows {
            if before == SheetRowKind::Published && row.kind != SheetRowKind::Published {
                out += "\\midrule\n";
            }
            before = row.kind;
            let cells = row.cells.iter().map(|cell| words(sheet, row.kind, cell, " $\\pm$ ", superscripts));
            let name = escaped(&row.name) + &superscripts(&row.notes);
            _ = writeln!(out, "{} \\\\", std::iter::once(name).chain(cells).collect::<Vec<_>>().join(" & "));
        }
        out += "\\bottomrule\n\\end{tabular}\n";
        for (at, note) in sheet.notes.iter().enumerate() {
            _ = writeln!(out, "\n\\textsuperscript{{{}}} {}", at + 1, escaped(note));
        }
        out += "\\end{table}\n";
    }
    report.remains().iter().for_each(|line| _ = write!(out, "\n% {}", line.replace('\n', " ")));
    if !out.ends_with('\n') {
        out.push('\n');
    }
    out
}

/// Group headers with their rules, then column headers with arrows.
fn latex_heads(sheet: &Sheet) -> String {
    let mut out = String::new();
    if sheet.heads.iter().any(|head| !head.group.is_empty()) {
        let (mut names, mut rules, mut column) = (String::new(), String::new(), 2);
        for heads in sheet.heads.chunk_by(|a, b| a.group == b.group) {
            let group = heads.first().map_or("", |head| head.group.as_str());
            _ = write!(names, " & \\multicolumn{{{}}}{{c}}{{{}}}", heads.len(), escaped(group));
            if !group.is_empty() {
                _ = write!(rules, "\\cmidrule(lr){{{column}-{}}}", column + heads.len() - 1);
            }
            column += heads.len();
        }
        _ = writeln!(out, "{names} \\\\\n{rules}");
    }
    for head in &sheet.heads {
        let arrow = match head.better {
            Better::Higher => "$\\uparrow$",
            Better::Lower => "$\\downarrow$",
        };
        _ = write!(out, " & {} {arrow}", escaped(&head.header));
    }
    out + " \\\\\n"
}
