//! Writes an embedding set while its rows are produced. The work may span several runs of the program.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use conifer_files::{Lock, operation};
use conifer_geometry::{ManifoldSpec, Root};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::element::{Element, HEADER};
use crate::error::{Error, Result};
use crate::manifest::{FileChecksum, RESERVED, SetManifest, may_replace};
use crate::modality::Modality;
use crate::point_check::PointCheck;
use crate::provenance::Provenance;
use crate::save;

#[cfg(test)]
mod tests;

/// Space, root, columns and storage type of the set that a [`Draft`] writes, and the settings that determine its rows.
#[derive(Clone, Debug)]
pub struct DraftPlan {
    /// The space of the points.
    pub spec: ManifoldSpec,
    /// The root: the most general point, from which depths and cones are measured.
    pub root: Root,
    /// Names of the columns, in alphabetical order.
    pub columns: Vec<String>,
    /// Storage type of the points.
    pub element: Element,
    /// Everything else that the rows depend on (model, data, settings), by name. A draft can be continued only with the
    /// same identity; the other fields of the plan are not compared.
    pub identity: BTreeMap<String, String>,
}

/// An unfinished set, stored in the folder `.NAME.unfinished` beside the path of the set `NAME`.
///
/// [`Draft::add`] appends a row without its point; [`Draft::put`] writes the points of rows that were added, in any
/// order. Rows are not kept in memory. [`Draft::commit`] flushes the progress to the disk, together with a state of the
/// caller. After an interruption, even if the process was killed, the next [`Draft::open`] continues from the last
/// commit. [`Draft::finish`] moves the complete set to its path.
///
/// The same rows and points give the same bytes, regardless of interruptions. With [`Element::F32`], points, rows and
/// manifest equal the output of [`EmbeddingSet::save`](crate::EmbeddingSet::save).
pub struct Draft {
    /// Path of the finished set.
    dir: PathBuf,
    /// Folder of the draft.
    home: PathBuf,
    plan: DraftPlan,
    check: PointCheck,
    points: File,
    names: File,
    log: File,
    progress: DraftProgress,
    bytes: Vec<u8>,
    _lock: Lock,
}

/// `state.json`: the committed progress of a draft.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DraftProgress {
    version: u32,
    identity: BTreeMap<String, String>,
    /// Number of rows added.
    rows: u64,
    /// Number of rows with a point.
    points: u64,
    /// Lengths of `rows.jsonl` and of the log, in bytes.
    names_bytes: u64,
    log_bytes: u64,
    /// State that the caller passed to the last commit.
    state: Value,
}

impl DraftProgress {
    const VERSION: u32 = 1;
    const FILE: &str = "state.json";
    /// Folder of the set within the draft.
    const SET: &str = "set";
    const LOG: &str = "log.jsonl";
    const LOCK: &str = "lock";
}

impl Draft {
    /// Continues the committed draft of the set `dir`, or starts a new one.
    ///
    /// # Errors
    /// The existing draft was started with another [`DraftPlan::identity`] (the error names the first difference), is
    /// damaged, or has another version; another process works on the draft; the plan is invalid; `dir` holds foreign
    /// files or is a symbolic link; the operating system reports an error.
    pub fn open(dir: &Path, plan: DraftPlan) -> Result<Self> {
        conifer_files::check_target(dir, &may_replace)?;
        plan.root.check(&plan.spec)?;
        if let Some(name) = plan.columns.iter().find(|name| RESERVED.contains(&name.as_str())) {
            let expected = "a name other than `id` and `modality`, which every row has";
            return Err(Error::invalid("embedding set: a column", format!("`{name}`"), expected));
        }
        if !plan.columns.is_sorted() {
            return Err(Error::invalid("columns of a draft", plan.columns.join(", "), "names in alphabetical order"));
        }
        let home = unfinished(dir)?;
        let set = home.join(DraftProgress::SET);
        operation::create_dir_all(&home)?;
        let lock = lock(&home, dir)?;
        for file in [home.join(DraftProgress::FILE), set.join(SetManifest::FILE), set.join(SetManifest::IDENTITY)] {
            conifer_files::remove_abandoned(&file);
        }
        let begun = read_progress(&home)?.filter(|_| set.is_dir());
        if let Some(begun) = &begun {
            check_same(&home, &begun.identity, &plan.identity)?;
        }
        operation::create_dir_all(&set)?;
        let fresh = begun.is_none();
        let progress = begun.unwrap_or_else(|| DraftProgress {
            version: DraftProgress::VERSION,
            identity: plan.identity.clone(),
            ..DraftProgress::default()
        });
        // Rows and log entries after the last commit are truncated. Points after the last commit stay in the file and
        // are overwritten later.
        let row = (plan.spec.dim * plan.element.size()) as u64;
        let least = if progress.points == 0 { 0 } else { HEADER as u64 + progress.points * row };
        Ok(Draft {
            check: PointCheck::new(&plan.spec)?,
            points: committed(&set.join(SetManifest::POINTS), least, fresh)?,
            names: committed(&set.join(SetManifest::ROWS), progress.names_bytes, true)?,
            log: committed(&home.join(DraftProgress::LOG), progress.log_bytes, true)?,
            dir: dir.to_owned(),
            home,
            plan,
            progress,
            bytes: Vec::new(),
            _lock: lock,
        })
    }

    /// Removes the draft of the set `dir`, if it exists.
    ///
    /// # Errors
    /// Another process works on the draft; the operating system reports an error.
    pub fn discard(dir: &Path) -> Result<()> {
        let home = unfinished(dir)?;
        if !home.exists() {
            return Ok(());
        }
        let _lock = lock(&home, dir)?;
        Ok(operation::remove_dir_all(&home)?)
    }

    /// Returns true if a committed draft of the set `dir` exists.
    pub fn is_begun(dir: &Path) -> bool {
        // If the set folder is missing, the draft was finished and only its removal was interrupted.
        unfinished(dir)
            .is_ok_and(|home| home.join(DraftProgress::FILE).exists() && home.join(DraftProgress::SET).is_dir())
    }

    /// The state of the last commit; null in a new draft.
    pub fn state(&self) -> &Value {
        &self.progress.state
    }

    /// Number of rows added so far.
    pub fn rows(&self) -> u64 {
        self.progress.rows
    }

    /// Number of points written so far, at most one per row.
    pub fn points(&self) -> u64 {
        self.progress.points
    }

    /// Appends the next row, without its point, and returns the index of the row. `columns` has one string per column
    /// of the plan.
    ///
    /// # Errors
    /// The number of columns is wrong; the row is longer than 16 MiB in `rows.jsonl`; the operating system reports an
    /// error.
    pub fn add(&mut self, id: &str, modality: Modality, columns: &[&str]) -> Result<u64> {
        if columns.len() != self.plan.columns.len() {
            let expected = format!("{}, one per column", self.plan.columns.len());
            return Err(Error::invalid("number of columns of a row", columns.len(), expected));
        }
        let path = || self.home.join(DraftProgress::SET).join(SetManifest::ROWS);
        let named = self.plan.columns.iter().map(String::as_str).zip(columns.iter().copied());
        let line = save::line(id, modality, named).map_err(Error::io("encode", &path()))?;
        self.names.write_all(&line).map_err(Error::io("write", &path()))?;
        self.progress.names_bytes += line.len() as u64;
        self.progress.rows += 1;
        Ok(self.progress.rows - 1)
    }

    /// Writes the points `[n, dim]` of the rows from `first` on. The rows must have been added. Each row must be
    /// written exactly once, which is not checked.
    ///
    /// # Errors
    /// The length of `points` is no multiple of `dim`; a row was not added; a number is not finite, or becomes infinite
    /// in the storage type; a row is not on the space, or is farther out than [`conifer_geometry::safe::FARTHEST`]; the
    /// operating system reports an error.
    pub fn put(&mut self, first: u64, points: &[f32]) -> Result<()> {
        let dim = self.plan.spec.dim;
        let count = (points.len() / dim) as u64;
        if !points.len().is_multiple_of(dim) || first + count > self.progress.rows {
            let found = format!("{} numbers from row {first} on", points.len());
            return Err(Error::invalid(
                "points of a draft",
                found,
                format!("whole rows of {dim} numbers, with row numbers below {}", self.progress.rows),
            ));
        }
        self.bytes.clear();
        self.plan.element.encode(points, &mut self.bytes);
        self.check_points(first, points)?;
        let row = (dim * self.plan.element.size()) as u64;
        let path = || self.home.join(DraftProgress::SET).join(SetManifest::POINTS);
        let position = SeekFrom::Start(HEADER as u64 + first * row);
        operation::run("write", &path(), || {
            self.points.seek(position).and_then(|_| self.points.write_all(&self.bytes))
        })?;
        self.progress.points += count;
        Ok(())
    }

    /// Appends a line to the log. The log is deleted with the draft.
    ///
    /// # Errors
    /// The operating system reports an error.
    pub fn note(&mut self, entry: &Value) -> Result<()> {
        let line = format!("{entry}\n");
        self.log.write_all(line.as_bytes()).map_err(Error::io("write", &self.home.join(DraftProgress::LOG)))?;
        self.progress.log_bytes += line.len() as u64;
        Ok(())
    }

    /// The lines of the log.
    ///
    /// # Errors
    /// The log cannot be read or is damaged.
    pub fn notes(&self) -> Result<Vec<Value>> {
        let path = self.home.join(DraftProgress::LOG);
        let file = File::open(&path).map_err(Error::io("read", &path))?;
        let read = |line: std::io::Result<String>| {
            let line = line.map_err(Error::io("read", &path))?;
            serde_json::from_str(&line).map_err(Error::json(&path, "a line", "JSON"))
        };
        BufReader::new(file).lines().map(read).collect()
    }

    /// Flushes everything written so far to the disk, together with `state`. The next [`Draft::open`] continues from
    /// here.
    ///
    /// # Errors
    /// The operating system reports an error.
    pub fn commit(&mut self, state: Value) -> Result<()> {
        for file in [&self.points, &self.names, &self.log] {
            operation::run("flush", &self.home, || file.sync_data())?;
        }
        self.progress.state = state;
        let path = self.home.join(DraftProgress::FILE);
        let json =
            serde_json::to_vec(&self.progress).map_err(|e| Error::io("encode", &path)(std::io::Error::other(e)))?;
        Ok(conifer_files::write_whole(&path, &json)?)
    }

    /// Moves the finished set to its path and removes the draft.
    ///
    /// # Errors
    /// A row has no point; a source hash is not sha256; the operating system reports an error. The committed draft is
    /// kept, unless the set was already moved.
    pub fn finish(mut self, source: Provenance) -> Result<()> {
        let DraftProgress { rows, points, .. } = self.progress;
        if rows != points {
            return Err(Error::invalid(
                "draft of an embedding set",
                format!("{points} points"),
                format!("{rows}, one per row"),
            ));
        }
        source.check()?;
        let set = self.home.join(DraftProgress::SET);
        let path = set.join(SetManifest::POINTS);
        let (rows, dim, element) = (usize::try_from(rows).unwrap_or(usize::MAX), self.plan.spec.dim, self.plan.element);
        let length = (HEADER + rows * dim * element.size()) as u64;
        operation::run("write", &path, || {
            self.points.seek(SeekFrom::Start(0))?;
            self.points.write_all(&element.header(rows, dim))?;
            self.points.set_len(length)
        })?;
        operation::run("flush", &path, || self.points.sync_all())?;
        operation::run("flush", &set, || self.names.sync_all())?;
        let checksum = |name: &str| Ok((name.to_owned(), FileChecksum::of_file(&set.join(name))?));
        let manifest = SetManifest {
            format: SetManifest::FORMAT.to_owned(),
            version: SetManifest::version_of(element),
            rows,
            columns: self.plan.columns.clone(),
            spec: self.plan.spec.clone(),
            root: self.plan.root.clone(),
            source,
            files: [SetManifest::POINTS, SetManifest::ROWS].into_iter().map(checksum).collect::<Result<_>>()?,
        };
        let identity = set.join(SetManifest::IDENTITY);
        if self.plan.identity.is_empty() {
            operation::remove_file(&identity)?;
        } else {
            let encoded = serde_json::to_vec_pretty(&self.plan.identity);
            let encoded = encoded.map_err(|e| Error::io("encode", &identity)(std::io::Error::other(e)))?;
            conifer_files::write_whole(&identity, &encoded)?;
        }
        manifest.write(&set)?;
        conifer_files::publish(&set, &self.dir, may_replace)?;
        Ok(operation::remove_dir_all(&self.home)?)
    }

    /// Checks the points after rounding to the storage type (`self.bytes`).
    fn check_points(&self, first: u64, points: &[f32]) -> Result<()> {
        let dim = self.plan.spec.dim;
        let mut stored = Vec::with_capacity(points.len());
        self.plan.element.decode(&self.bytes, &mut stored);
        for (i, row) in stored.chunks_exact(dim).enumerate() {
            let name = || format!("embedding set: row {}", first + i as u64);
            let component =
                |at: usize| format!("{} ({} as {})", points[i * dim + at], row[at], self.plan.element.name());
            self.check.row(row, name, component)?;
        }
        Ok(())
    }
}

impl std::fmt::Debug for Draft {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Draft").field("dir", &self.dir).field("progress", &self.progress).finish_non_exhaustive()
    }
}

/// Opens a file of a draft, positioned at the end. The file must have at least the committed length `bytes`; with
/// `cut`, anything longer is truncated.
fn committed(path: &Path, bytes: u64, cut: bool) -> Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    let mut file = options.open(path).map_err(Error::io("open", path))?;
    let found = file.metadata().map_err(Error::io("read", path))?.len();
    if found < bytes {
        let expected = format!("at least the {bytes} committed bytes: the file was changed or damaged");
        return Err(Error::format(path, "length", format!("{found} bytes"), expected));
    }
    if cut {
        file.set_len(bytes).map_err(Error::io("truncate", path))?;
    }
    file.seek(SeekFrom::End(0)).map_err(Error::io("read", path))?;
    Ok(file)
}

/// Locks a draft, so that only one process works on it.
fn lock(home: &Path, dir: &Path) -> Result<Lock> {
    let path = home.join(DraftProgress::LOCK);
    let file = operation::create_file(&path)?;
    Lock::take(file).map_err(Error::io("lock", &path))?.ok_or_else(|| {
        let found = format!("`{}`, which another process is writing", dir.display());
        Error::invalid("folder to write", found, "a folder that no other process is writing")
    })
}

fn read_progress(home: &Path) -> Result<Option<DraftProgress>> {
    let path = home.join(DraftProgress::FILE);
    if !path.exists() {
        return Ok(None);
    }
    let bytes = fs::read(&path).map_err(Error::io("read", &path))?;
    let value: Value = serde_json::from_slice(&bytes).map_err(Error::json(&path, "the file", "JSON"))?;
    // The version is checked first, because another version may have other fields.
    let version = value.get("version").cloned().unwrap_or(Value::Null);
    if version != DraftProgress::VERSION {
        return Err(Error::format(
            &path,
            "`version`",
            version,
            format!("{}, which this build supports", DraftProgress::VERSION),
        ));
    }
    serde_json::from_value(value).map(Some).map_err(Error::json(&path, "the file", "the state of a draft"))
}

/// Checks that a draft is continued with the settings with which it was started.
fn check_same(home: &Path, begun: &BTreeMap<String, String>, now: &BTreeMap<String, String>) -> Result<()> {
    match first_difference(begun, now) {
        None => Ok(()),
        Some(SettingDifference { name, before, after }) => {
            let expected =
                format!("`{after}`, the value of this command: the unfinished set was started with other settings");
            Err(Error::format(home, format!("`{name}`"), format!("`{before}`"), expected))
        }
    }
}

/// A setting that has different values in two identities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingDifference {
    /// The name of the setting.
    pub name: String,
    /// Its earlier value; empty if it had none.
    pub before: String,
    /// Its value now; empty if it has none.
    pub after: String,
}

/// The first setting, by name, in which two identities ([`DraftPlan::identity`]) differ.
pub fn first_difference(
    before: &BTreeMap<String, String>,
    after: &BTreeMap<String, String>,
) -> Option<SettingDifference> {
    let value = |of: &BTreeMap<String, String>, name: &str| of.get(name).cloned().unwrap_or_default();
    let names: std::collections::BTreeSet<_> = before.keys().chain(after.keys()).collect();
    names
        .into_iter()
        .map(|name| SettingDifference { name: name.clone(), before: value(before, name), after: value(after, name) })
        .find(|it| it.before != it.after)
}

/// The folder of the draft of the set `dir`.
fn unfinished(dir: &Path) -> Result<PathBuf> {
    Ok(conifer_files::sibling(dir, ".unfinished")?)
}
