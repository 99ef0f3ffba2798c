//! `conifer store`: a store of embeddings on disk.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail, ensure};
use conifer_embeddings::{Element, EmbeddingSet};
use conifer_geometry::Root;
use conifer_index::store::{Appended, Duplicates, Version};
use conifer_index::{Error, Store};
use serde_json::json;

use crate::arguments::{StoreCommand, StoreElementArg};
use crate::output::{columns, note, print, print_json};
use crate::progress;
use crate::request::note_interrupted;

pub(crate) fn run(command: StoreCommand, as_json: bool) -> anyhow::Result<()> {
    match command {
        StoreCommand::Create { store, sets, dtype, repeated } => {
            create(&store, &sets, dtype, repeated.duplicates(), as_json)
        }
        StoreCommand::Append { store, sets, repeated } => {
            let store = Store::open(&store)?;
            // Each set becomes one version, which is reported as soon as it is on disk.
            sets.iter()
                .try_for_each(|set| print_appended(&append(&store, &load(set)?, repeated.duplicates())?, as_json))
        }
        StoreCommand::Delete { store, id, ids, rows, of } => {
            let store = Store::open(&store)?;
            let deletion = match of {
                Some(version) => store.delete_rows(version, &rows)?,
                None => store.delete(&ids_to_delete(id, ids.as_deref())?)?,
            };
            if as_json {
                let (rows, absent) = (deletion.rows, &deletion.absent);
                return print_json(&json!({ "deleted": rows, "absent": absent, "version": deletion.version }));
            }
            if let Some(id) = deletion.absent.first() {
                note(&format!("{} of the ids match no row, e.g. `{id}`", deletion.absent.len()));
            }
            print(&format!("deleted {} rows\n{}", deletion.rows, line(&deletion.version)))
        }
        StoreCommand::Compact { store, keep } => {
            let store = Store::open(&store)?;
            let bar = progress::bar("rows", store.version()?.rows);
            let version = store.compact(&mut |rows| bar.set_position(rows as u64))?;
            bar.finish_and_clear();
            let removed = store.gc(keep as usize)?;
            let unlisted = unlisted(&store)?;
            if as_json {
                let removed = removed.versions;
                return print_json(&json!({ "version": version, "versions_removed": removed, "unlisted": unlisted }));
            }
            print(&format!("{}removed {} old versions\n", line(&version), removed.versions))?;
            note_unlisted(&unlisted);
            Ok(())
        }
        StoreCommand::Check { store } => check(&Store::open_any(&store)?, as_json),
        StoreCommand::Versions { store } => {
            let versions = Store::open(&store)?.versions()?;
            if as_json {
                return print_json(&versions);
            }
            let head = ["version", "made by", "rows", "deleted", "pieces", "MiB", "UTC"].map(String::from).to_vec();
            let row = |it: &Version| {
                let size = format!("{:.1}", it.bytes as f64 / f64::from(1 << 20));
                let numbers = [it.rows, it.deleted, it.segments].map(|it| it.to_string());
                let mut row = vec![it.number.to_string(), it.made.clone()];
                row.extend(numbers);
                row.extend([size, utc(it.time)]);
                row
            };
            print(&columns(&[vec![head], versions.iter().map(row).collect()].concat()))
        }
        StoreCommand::Info { store } => info(&Store::open(&store)?, as_json),
    }
}

fn load(path: &Path) -> anyhow::Result<EmbeddingSet> {
    ensure!(
        !Store::is_store(path),
        "{}: a store; expected an embedding set, as `conifer embed` writes it",
        path.display()
    );
    note_interrupted(path);
    Ok(EmbeddingSet::load(path)?)
}

fn create(
    dir: &Path,
    sets: &[PathBuf],
    dtype: StoreElementArg,
    duplicates: Duplicates,
    as_json: bool,
) -> anyhow::Result<()> {
    let (first, rest) = sets.split_first().context("expected an embedding set")?;
    let first = load(first)?;
    let element = match dtype {
        StoreElementArg::F32 => Element::F32,
        StoreElementArg::F16 => Element::F16,
    };
    let (spec, root) = (first.spec.clone(), first.root.clone());
    let mut first = Some(first);
    // Create the store with the rows of all sets, or not at all: a full disk must not leave an empty store.
    let (_, appended) = Store::create_with(dir, spec, root, element, |store| -> anyhow::Result<Vec<Appended>> {
        let sets = first.take().map(Ok).into_iter().chain(rest.iter().map(|it| load(it)));
        sets.map(|set| append(store, &set?, duplicates)).collect()
    })?;
    appended.iter().try_for_each(|it| print_appended(it, as_json))
}

/// Appends a set as one version.
fn append(store: &Store, set: &EmbeddingSet, duplicates: Duplicates) -> anyhow::Result<Appended> {
    let bar = progress::bar("rows", set.len());
    let appended = store.append_with(set, duplicates, &mut |rows| bar.set_position(rows as u64));
    bar.finish_and_clear();
    appended.map_err(|error| match error {
        error @ Error::Repeated { .. } => {
            anyhow!("{error}; use --if-absent to skip these rows, or --allow-duplicates to add them again")
        }
        error => error.into(),
    })
}

fn print_appended(appended: &Appended, as_json: bool) -> anyhow::Result<()> {
    let Appended { version, skipped } = appended;
    if as_json {
        let mut object = serde_json::to_value(version)?;
        object["skipped"] = json!(skipped);
        return print_json(&object);
    }
    if *skipped > 0 {
        note(&format!("{skipped} rows skipped: their ids are already in the store"));
    }
    print(&line(version))
}

fn ids_to_delete(mut ids: Vec<String>, file: Option<&Path>) -> anyhow::Result<Vec<String>> {
    if let Some(file) = file {
        let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
        ids.extend(text.lines().filter(|line| !line.is_empty()).map(str::to_owned));
    }
    ensure!(!ids.is_empty(), "no rows to delete; expected --id, --ids or --rows");
    Ok(ids)
}

fn check(store: &Store, as_json: bool) -> anyhow::Result<()> {
    let bar = progress::bar("MiB", 0);
    let report = store.check(&mut |bytes| bar.set_position(bytes >> 20))?;
    bar.finish_and_clear();
    let damage: Vec<String> = report.damage.iter().map(ToString::to_string).collect();
    let unlisted = unlisted(store)?;
    if as_json {
        print_json(&json!({
            "versions": report.versions, "files": report.files, "bytes": report.bytes, "damage": damage, "unlisted": unlisted,
        }))?;
    } else {
        let size = report.bytes >> 20;
        print(&format!("{} versions, {} files, {size} MiB read\n", report.versions, report.files))?;
        damage.iter().for_each(|it| note(it));
        note_unlisted(&unlisted);
    }
    if !damage.is_empty() {
        bail!("{}: {} files are damaged", store.dir().display(), damage.len());
    }
    Ok(())
}

fn unlisted(store: &Store) -> anyhow::Result<Vec<String>> {
    Ok(store.unlisted()?.iter().map(|it| it.display().to_string()).collect())
}

fn note_unlisted(paths: &[String]) {
    for path in paths {
        note(&format!("{path}: belongs to no readable version and was not removed"));
    }
}

fn info(store: &Store, as_json: bool) -> anyhow::Result<()> {
    let (version, rows) = (store.version()?, store.snapshot()?);
    let mut modality: BTreeMap<&str, usize> = BTreeMap::new();
    rows.modality.iter().for_each(|it| *modality.entry(it.name()).or_default() += 1);
    let names: Vec<&String> = rows.columns.keys().collect();
    let element = store.element()?.name();
    if as_json {
        return print_json(&json!({
            "version": version, "spec": rows.spec, "root": rows.root, "dtype": element, "source": rows.source,
            "modality": modality, "columns": names,
        }));
    }
    let root = if rows.root == Root::Origin { "the origin" } else { "a point" };
    let counts: Vec<String> = modality.iter().map(|(name, count)| format!("{count} {name}")).collect();
    let text = |names: &[&String]| names.iter().map(|it| it.as_str()).collect::<Vec<_>>().join(", ");
    let lines = [
        ["version", &version.number.to_string()],
        ["rows", &version.rows.to_string()],
        ["", &counts.join(", ")],
        ["space", &rows.spec.to_string()],
        ["root", root],
        ["numbers", element],
        ["model", &rows.source.model],
        ["data", &rows.source.data],
        ["columns", &text(&names)],
        ["pieces", &version.segments.to_string()],
        ["deleted, not yet compacted", &version.deleted.to_string()],
    ];
    print(&columns(&lines.map(|line| line.map(str::to_owned).to_vec())))
}

fn line(version: &Version) -> String {
    format!("version {}: {} rows\n", version.number, version.rows)
}

/// Formats seconds since 1970 as UTC date and time (proleptic Gregorian calendar). The computation uses years that
/// start in March, so that a leap day is the last day of its year.
fn utc(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (day, month) = (day - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    let year = era * 400 + year + u64::from(month <= 2);
    format!("{year}-{month:02}-{day:02} {:02}:{:02}:{:02}", rest / 3600, rest / 60 % 60, rest % 60)
}

#[cfg(test)]
mod tests {
    use super::utc;

    /// Expected values from `date -u -d @SECONDS`.
    #[test]
    fn utc_formats_dates() {
        assert_eq!(utc(0), "1970-01-01 00:00:00");
        assert_eq!(utc(951_782_399), "2000-02-28 23:59:59");
        assert_eq!(utc(951_782_400), "2000-02-29 00:00:00");
        assert_eq!(utc(1_709_251_199), "2024-02-29 23:59:59");
        assert_eq!(utc(4_107_542_400), "2100-03-01 00:00:00");
    }
}
