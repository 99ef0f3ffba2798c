//! The maps that `conifer serve` shows as layers: folders and files that `conifer project` wrote.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use conifer_server::ServedMap;
use serde_json::{Map, Value};

use crate::output::note;
use crate::point_table::PointTable;
use crate::set_model::set_of;

/// Folder of a set in which maps are found.
const MAPS: &str = "maps";
/// Files of a map, the one that is faster to read first.
const TABLES: [&str; 2] = ["points.parquet", "points.csv"];
/// Settings of a projection, beside its points.
const REPORT: &str = "projection.json";

/// Reads the maps `given` by the user and those in the folder `maps` of the set. `ids` are the ids of all rows.
///
/// # Errors
/// A given map cannot be read, belongs to another set, or has the name of another one. A map that was found is left out
/// with a note instead.
pub(super) fn served_maps(set: &Path, given: &[PathBuf], ids: &[String]) -> anyhow::Result<Vec<ServedMap>> {
    let mut maps: Vec<ServedMap> = Vec::new();
    for path in given {
        let map = read_map(path, ids).with_context(|| format!("--map {}", path.display()))?;
        if maps.iter().any(|it| it.name == map.name) {
            bail!("--map {}: another map is called `{}`; expected another name", path.display(), map.name);
        }
        maps.push(map);
    }
    for path in found_maps(&maps_folder(set)) {
        match read_map(&path, ids) {
            Ok(map) if maps.iter().any(|it| it.name == map.name) => {}
            Ok(map) => maps.push(map),
            Err(error) => note(&format!("{}: not shown: {error:#}", path.display())),
        }
    }
    maps.iter().for_each(|map| note(&format!("map {}: {} rows", map.title, map.rows.len())));
    Ok(maps)
}

/// The folder of a set in which maps are found.
pub(super) fn maps_folder(set: &Path) -> PathBuf {
    conifer_files::resolve(&set_of(set)).join(MAPS)
}

/// The subfolders with points, by name.
fn found_maps(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut found: Vec<PathBuf> = entries.flatten().map(|it| it.path()).filter(|it| table_in(it).is_some()).collect();
    found.sort();
    found
}

fn table_in(folder: &Path) -> Option<PathBuf> {
    TABLES.iter().map(|name| folder.join(name)).find(|it| it.is_file())
}

fn read_map(path: &Path, ids: &[String]) -> anyhow::Result<ServedMap> {
    let table = if path.is_dir() {
        table_in(path).with_context(|| format!("the folder has no {}; expected a map", TABLES.join(" and no ")))?
    } else {
        path.to_owned()
    };
    let report = report_beside(&table)?;
    let PointTable { rows, positions } = PointTable::read(&table, ids)?;
    let name = path.file_stem().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
    let root = report.get("root").and_then(Value::as_array).and_then(|it| {
        let y = it.get(1).map_or(Some(0.0), Value::as_f64);
        Some([it.first()?.as_f64()?, y?])
    });
    let map = ServedMap { title: title(&name, &report), name, rows, positions, is_disc: is_disc(&report), root };
    map.check(ids.len()).with_context(|| table.display().to_string())?;
    Ok(map)
}

/// The settings beside a table; empty without a file.
fn report_beside(table: &Path) -> anyhow::Result<Map<String, Value>> {
    let path = table.with_file_name(REPORT);
    if !path.is_file() {
        return Ok(Map::new());
    }
    let place = || path.display().to_string();
    serde_json::from_slice(&fs::read(&path).with_context(place)?).with_context(place)
}

/// True if the report says that the map is a Poincare disc. Reports of older versions name only the projection.
fn is_disc(report: &Map<String, Value>) -> bool {
    let text = |name: &str| report.get(name).and_then(Value::as_str).unwrap_or_default();
    let by_name = ["horopca", "cosne", "depth"].contains(&text("by")) || text("target") == "disc";
    report.get("disc").and_then(Value::as_bool).unwrap_or(by_name)
}

fn title(name: &str, report: &Map<String, Value>) -> String {
    let factor = report.get("factor").and_then(Value::as_u64).and_then(|it| usize::try_from(it).ok());
    map_title(name, report.get("by").and_then(Value::as_str), factor)
}

/// The title of a map with this name, of a projection and a factor.
pub(super) fn map_title(name: &str, by: Option<&str>, factor: Option<usize>) -> String {
    let mut title = name.to_owned();
    title.extend(by.filter(|by| *by != name).map(|by| format!(" · {by}")));
    title.extend(factor.map(|factor| format!(", factor {factor}")));
    title
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn ids() -> Vec<String> {
        ["a", "b", "c"].map(str::to_owned).to_vec()
    }

    /// The map of a CSV file, or the message of the error.
    fn of_csv(text: &str) -> Result<ServedMap, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mine.csv");
        fs::write(&path, text).unwrap();
        read_map(&path, &ids()).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn rows_of_a_table_are_sorted() {
        let map = of_csv("x1,row,x0,id,more\n4,2,3,c,x\n-1.5,0,1,a,y\n").unwrap();
        assert_eq!((map.name.as_str(), map.title.as_str(), map.is_disc, map.root), ("mine", "mine", false, None));
        assert_eq!((map.rows, map.positions), (vec![0, 2], vec![[1.0, -1.5], [3.0, 4.0]]));
        assert_eq!(of_csv("row,id,x0\n1,b,2\n").unwrap().positions, [[2.0, 0.0]]);
    }

    #[test]
    fn wrong_tables_are_refused() {
        for (text, expected) in [
            ("row,id,x1\n0,a,1\n", "no column `x0`"),
            ("row,id,x0\n", "has no rows"),
            ("row,id,x0\n0,a,left\n", "line 2: `x0` is `left`; expected a number"),
            ("row,id,x0\n-,a,1\n", "line 2: `row` is `-`"),
            ("row,id,x0\n3,d,1\n", "row 3; expected a number below 3"),
            ("row,id,x0\n-1,d,1\n", "row -1; expected a number below 3"),
            ("row,id,x0\n1,a,1\n", "row 1 has the id `a`, but `b` in the set"),
            ("row,id,x0\n1,b,1\n1,b,2\n", "row 1 is given twice"),
            ("row,id,x0\n1,b\n", "found record with 2 fields"),
        ] {
            let error = of_csv(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("points.parquet");
        fs::write(&path, "PAR1 is not enough PAR1").unwrap();
        assert!(read_map(&path, &ids()).is_err());
        assert!(read_map(folder.path().join("absent").as_path(), &ids()).is_err());
    }

    #[test]
    fn found_maps_that_do_not_fit_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, file: &str, text: &str| {
            fs::create_dir_all(folder.path().join(MAPS).join(name)).unwrap();
            fs::write(folder.path().join(MAPS).join(name).join(file), text).unwrap();
        };
        write("umap", "points.csv", "row,id,x0,x1\n0,a,0.5,0\n");
        write("umap", REPORT, r#"{"by":"umap","target":"disc","factor":1}"#);
        write("outside", "points.csv", "row,id,x0,x1\n0,a,1.5,0\n");
        write("outside", REPORT, r#"{"disc":true}"#);
        write("old", "points.csv", "row,id,x0,x1\n0,z,0.5,0\n");
        write("notes", "readme.txt", "no map");
        let maps = served_maps(folder.path(), &[], &ids()).unwrap();
        assert_eq!(maps.iter().map(|it| it.title.as_str()).collect::<Vec<_>>(), ["umap, factor 1"]);
        assert!(maps[0].is_disc);
        // A given map replaces the found one of the same name, and must be readable.
        let given = [folder.path().join("maps/umap/points.csv"), folder.path().join("maps/old")];
        let error = served_maps(folder.path(), &given, &ids()).unwrap_err();
        assert!(format!("{error:#}").contains("--map"), "{error:#}");
        let maps = served_maps(folder.path(), &[folder.path().join("maps/umap")], &ids()).unwrap();
        assert_eq!(maps.len(), 1);
    }
}
