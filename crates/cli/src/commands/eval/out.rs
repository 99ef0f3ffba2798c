//! Output files of `eval`: a log that is appended to, and a report that is replaced atomically.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use conifer_files::NewFile;

/// A JSONL file of records that results are appended to.
pub(super) struct ResultLog {
    file: File,
    path: PathBuf,
    /// True if the last line has no line break.
    open_line: bool,
}

impl ResultLog {
    /// Opens or creates the file. Rejects a file whose first line is not a record.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let place = || format!("--out {}", path.display());
        anyhow::ensure!(!path.is_dir(), "{} is a folder; expected a file", place());
        let special = path.exists() && !path.is_file();
        let mut file = OpenOptions::new().create(true).append(true).read(!special).open(path).with_context(place)?;
        let open_line = !special && file.metadata().with_context(place)?.len() > 0;
        if !open_line {
            return Ok(Self { file, path: path.into(), open_line });
        }
        let mut first = Vec::new();
        BufReader::new(&file).read_until(b'\n', &mut first).with_context(place)?;
        if !is_record(&first) {
            let shown: String = String::from_utf8_lossy(&first).trim().chars().take(40).collect();
            anyhow::bail!(
                "{}: its first line is `{shown}`; expected an empty file, or one with records of conifer",
                place()
            );
        }
        let mut last = [0];
        file.seek(SeekFrom::End(-1)).and_then(|_| file.read_exact(&mut last)).with_context(place)?;
        Ok(Self { file, path: path.into(), open_line: last != *b"\n" })
    }

    /// Appends all lines. After a failed write, truncates the file to its previous length.
    pub(super) fn append(mut self, lines: &str) -> anyhow::Result<()> {
        let place = format!("--out {}", self.path.display());
        let text = if self.open_line { format!("\n{lines}") } else { lines.to_owned() };
        let length = self.file.metadata().with_context(|| place.clone())?.len();
        let Err(error) = self.file.write_all(text.as_bytes()) else { return Ok(()) };
        // A partial line would corrupt the next record too.
        let what = match self.file.set_len(length) {
            Ok(()) => "nothing was appended",
            Err(_) => "not everything was written",
        };
        Err(error).context(format!("{place}: {what}"))
    }
}

/// Returns true for a record as written by [`ResultLog`].
fn is_record(line: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct RecordProbe {
        #[serde(rename = "benchmark")]
        _benchmark: String,
    }
    serde_json::from_slice::<RecordProbe>(line).is_ok() && line.trim_ascii_start().starts_with(b"{")
}

/// Destination of a report. A regular file is replaced atomically once the report is complete.
pub(super) struct ReportFile {
    out: ReportTarget,
    /// The path that the user gave.
    named: PathBuf,
    /// The path with symbolic links resolved.
    target: PathBuf,
    overwrite: bool,
}

enum ReportTarget {
    /// A regular file, replaced atomically.
    File(NewFile),
    /// A pipe or a terminal, written directly.
    Stream(File),
}

impl ReportFile {
    /// Creates the temporary file. Fails if the target is a regular file that exists, unless `overwrite` is set.
    pub(super) fn create(named: &Path, overwrite: bool) -> anyhow::Result<Self> {
        let place = || format!("--out {}", named.display());
        anyhow::ensure!(!named.is_dir(), "{} is a folder; expected a file", place());
        if named.exists() && !named.is_file() {
            let file = OpenOptions::new().write(true).open(named).with_context(place)?;
            return Ok(Self { out: ReportTarget::Stream(file), named: named.into(), target: named.into(), overwrite });
        }
        let target = followed(named);
        absent(named, &target, overwrite)?;
        let file = NewFile::create(&target).with_context(place)?;
        file.keep_permissions().with_context(place)?;
        Ok(Self { out: ReportTarget::File(file), named: named.into(), target, overwrite })
    }

    pub(super) fn finish(self, bytes: &[u8]) -> anyhow::Result<()> {
        let place = || format!("--out {}: nothing was written", self.named.display());
        match self.out {
            ReportTarget::Stream(mut file) => {
                file.write_all(bytes).with_context(|| format!("--out {}", self.named.display()))
            }
            ReportTarget::File(mut file) => {
                // The target may have been created during the evaluation.
                absent(&self.named, &self.target, self.overwrite)?;
                file.write_all(bytes).with_context(place)?;
                file.finish().with_context(place)
            }
        }
    }
}

fn absent(named: &Path, target: &Path, overwrite: bool) -> anyhow::Result<()> {
    let free = overwrite || !target.exists();
    anyhow::ensure!(free, "--out {} exists; name another file, or replace it with --overwrite", named.display());
    Ok(())
}

/// Follows a chain of symbolic links. A dangling link resolves to the file that it points to.
fn followed(path: &Path) -> PathBuf {
    /// Maximum number of links followed, as in Linux.
    const MAX_LINKS: usize = 40;
    let mut at = path.to_owned();
    for _ in 0..MAX_LINKS {
        match std::fs::read_link(&at) {
            Ok(next) => at = at.parent().map_or(next.clone(), |folder| folder.join(next)),
            Err(_) => break,
        }
    }
    at
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const RECORD: &str = "{\"benchmark\":\"b\",\"value\":1}";

    fn said<T>(result: anyhow::Result<T>) -> String {
        format!("{:#}", result.err().unwrap())
    }

    #[test]
    fn report_replaces_the_file_atomically() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.md");
        std::fs::write(&path, "old").unwrap();
        let message = said(ReportFile::create(&path, false));
        assert!(message.contains("report.md exists") && message.contains("--overwrite"), "{message}");
        drop(ReportFile::create(&path, true).unwrap());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
        ReportFile::create(&path, true).unwrap().finish(b"new").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
        let other = folder.path().join("other.md");
        let late = ReportFile::create(&other, false).unwrap();
        std::fs::write(&other, "somebody's").unwrap();
        assert!(said(late.finish(b"new")).contains("exists"));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "nothing is left behind");
        assert!(ReportFile::create(folder.path(), true).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn links_and_permissions_are_kept() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("deep")).unwrap();
        std::fs::write(at("deep/report.md"), "old").unwrap();
        std::fs::set_permissions(at("deep/report.md"), std::fs::Permissions::from_mode(0o640)).unwrap();
        symlink("deep/report.md", at("link.md")).unwrap();
        assert!(said(ReportFile::create(&at("link.md"), false)).contains("link.md exists"));
        ReportFile::create(&at("link.md"), true).unwrap().finish(b"new").unwrap();
        assert!(at("link.md").is_symlink());
        assert_eq!(std::fs::read_to_string(at("deep/report.md")).unwrap(), "new");
        assert_eq!(std::fs::metadata(at("deep/report.md")).unwrap().permissions().mode() & 0o777, 0o640);
        symlink("deep/none.md", at("dangling.md")).unwrap();
        ReportFile::create(&at("dangling.md"), false).unwrap().finish(b"new").unwrap();
        assert!(at("deep/none.md").is_file() && at("dangling.md").is_symlink());
    }

    #[test]
    fn records_are_appended_only_to_record_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl");
        let line = format!("{RECORD}\n");
        ResultLog::open(&path).unwrap().append(&line).unwrap();
        ResultLog::open(&path).unwrap().append(&line).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), line.repeat(2));
        std::fs::write(&path, RECORD).unwrap();
        ResultLog::open(&path).unwrap().append(&line).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), line.repeat(2));
        for other in ["# Report\n", "[\"benchmark\"]\n", "\n", "{\"name\": 1}\n", "{\"benchmark\": \"b\""] {
            std::fs::write(&path, other).unwrap();
            let message = said(ResultLog::open(&path));
            assert!(message.contains("a.jsonl") && message.contains("records of conifer"), "{message}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), other);
        }
        assert!(said(ResultLog::open(folder.path())).contains("is a folder"));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn failed_write_reports_its_cause() {
        let full = Path::new("/dev/full");
        let message = said(ResultLog::open(full).unwrap().append("{}\n"));
        assert!(message.contains("--out /dev/full") && message.contains("No space left"), "{message}");
        let message = said(ReportFile::create(full, false).unwrap().finish(b"new"));
        assert!(message.contains("No space left"), "{message}");
        ReportFile::create(Path::new("/dev/null"), false).unwrap().finish(b"new").unwrap();
        assert!(!Path::new("/dev/null").is_file());
    }
}
