//! Output files of `predict`: CSV, JSON and an HTML page.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use conifer_data::Sample;
use conifer_files::write_whole;

use super::page::page;
use super::summary::PredictionReport;

/// A file for predictions. Its extension decides the format.
pub(super) struct OutputFile {
    path: PathBuf,
    format: PredictionFormat,
}

#[derive(Clone, Copy)]
enum PredictionFormat {
    Csv,
    Json,
    Html,
}

impl OutputFile {
    /// # Errors
    /// The extension is unknown. Also returns the errors of [`check_target`].
    pub(super) fn of(path: &Path, overwrite: bool) -> anyhow::Result<Self> {
        let format = match path.extension().and_then(|it| it.to_str()) {
            Some("csv") => PredictionFormat::Csv,
            Some("json") => PredictionFormat::Json,
            Some("html") => PredictionFormat::Html,
            _ => bail!("--out {}: unknown format; expected a .csv, .json or .html file", path.display()),
        };
        check_target("--out", path, overwrite)?;
        Ok(Self { path: path.into(), format })
    }

    /// Writes the predictions, or replaces the file.
    pub(super) fn write(&self, report: &PredictionReport, samples: &[Sample]) -> anyhow::Result<()> {
        let text = match self.format {
            PredictionFormat::Csv => csv(report),
            PredictionFormat::Json => serde_json::to_string_pretty(report)? + "\n",
            PredictionFormat::Html => page(report, samples).html(),
        };
        write("--out", &self.path, text.as_bytes())
    }
}

/// # Errors
/// The file is a folder, its folder does not exist, or it exists and `overwrite` is not set.
pub(super) fn check_target(option: &str, path: &Path, overwrite: bool) -> anyhow::Result<()> {
    let place = path.display();
    ensure!(!path.is_dir(), "{option} {place} is a folder; expected a file");
    ensure!(overwrite || !path.exists(), "{option} {place} exists; name another file, or replace it with --overwrite");
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
    ensure!(
        folder.is_none_or(Path::is_dir),
        "{option} {place}: its folder does not exist; expected an existing folder"
    );
    Ok(())
}

/// Writes a file atomically, or a device directly.
pub(super) fn write(option: &str, path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    // A device such as /dev/stdout cannot be replaced by a new file.
    if path.exists() && !path.is_file() {
        return std::fs::write(path, bytes).with_context(|| format!("{option} {}", path.display()));
    }
    write_whole(path, bytes).with_context(|| format!("{option} {}", path.display()))
}

/// One line per photo. The names of the path are joined by ` > `.
fn csv(report: &PredictionReport) -> String {
    let mut lines = vec!["id,answer,depth,probability,path,class,class_probability,label,right\n".to_owned()];
    for it in &report.predictions {
        let path: Vec<&str> = it.path.iter().map(|step| step.name.as_str()).collect();
        let cells = [
            it.id.clone(),
            it.answer.clone(),
            it.depth.to_string(),
            it.probability.to_string(),
            path.join(" > "),
            it.class.clone(),
            it.class_probability.to_string(),
            it.label.clone().unwrap_or_default(),
            it.right.map_or_else(String::new, |right| right.to_string()),
        ];
        lines.push(cells.iter().map(|cell| quoted(cell)).collect::<Vec<_>>().join(",") + "\n");
    }
    lines.concat()
}

/// A CSV cell (RFC 4180): quoted if it has a comma, a quote or a line break.
fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell.to_owned() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn cells_with_separators_are_quoted() {
        assert_eq!(quoted("a b"), "a b");
        assert_eq!(quoted("a,\"b\"\n"), "\"a,\"\"b\"\"\n\"");
    }

    #[test]
    fn outputs_are_checked_before_the_work() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("a.csv"), "mine").unwrap();
        let said = |name: &str, overwrite| OutputFile::of(&at(name), overwrite).err().unwrap().to_string();
        assert!(said("a.csv", false).contains("a.csv exists") && OutputFile::of(&at("a.csv"), true).is_ok());
        assert!(said("a.txt", false).contains("expected a .csv, .json or .html file"));
        assert!(said("absent/a.csv", false).contains("its folder does not exist"));
        std::fs::create_dir(at("b.json")).unwrap();
        assert!(said("b.json", true).contains("is a folder"));
    }
}
