use std::io::Write as _;

use conifer_data::printable::{lines, one_line};

/// Writes text to stdout. A closed pipe (`| head`) is not an error.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(anyhow::Error::new(error).context("cannot write to standard output"))
        }
        _ => Ok(()),
    }
}

/// Writes a line to stderr. Control characters are escaped, because messages quote ids, captions and file names. Write
/// errors (a closed pipe, a full disk) are ignored.
pub(crate) fn note(line: &str) {
    _ = writeln!(std::io::stderr().lock(), "{}", lines(line));
}

/// Writes a value as one line of JSON to stdout.
pub(crate) fn print_json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    print(&(serde_json::to_string(value)? + "\n"))
}

/// Formats rows as aligned columns; the first row is the header. Control characters in cells are escaped (`\n`).
pub(crate) fn columns(rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<_>> = rows.iter().map(|row| row.iter().map(|cell| one_line(cell)).collect()).collect();
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width: Vec<usize> = (0..count)
        .map(|c| rows.iter().filter_map(|r| r.get(c)).map(|s| s.chars().count()).max().unwrap_or(0))
        .collect();
    let mut out = String::new();
    for row in &rows {
        let cells: Vec<String> = row.iter().zip(&width).map(|(cell, &w)| format!("{cell:<w$}")).collect();
        out.push_str(cells.join("  ").trim_end());
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_escape_control_characters() {
        let rows = [["id", "text"], ["a\nb", "\u{1b}[31mred"], ["\u{e4}\u{2603}", "x"]]
            .map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(columns(&rows), "id    text\na\\nb  \\u{1b}[31mred\n\u{e4}\u{2603}    x\n");
    }
}
