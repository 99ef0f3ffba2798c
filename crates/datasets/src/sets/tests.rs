#![allow(clippy::unwrap_used)]

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;

use conifer_data::fixtures::{FixtureFolder, jpeg, shared_data};
use conifer_data::{ImageRef, PixelLimits};

use super::*;

mod boxes;
mod layouts;
mod mats;
mod real;

fn open(folder: &FixtureFolder, name: &str) -> Result<Box<dyn Source>> {
    find(name)?.open(&folder.path().join(name))
}

fn message(folder: &FixtureFolder, name: &str) -> String {
    open(folder, name).err().unwrap().to_string()
}

/// (id, label) of every sample.
fn rows(source: &dyn Source) -> Vec<(String, String)> {
    let row = |index| {
        let sample = source.get(index).unwrap();
        (sample.id, sample.label.unwrap())
    };
    (0..source.len()).map(row).collect()
}

fn pairs(rows: &[(&str, &str)]) -> Vec<(String, String)> {
    rows.iter().map(|(id, label)| ((*id).to_owned(), (*label).to_owned())).collect()
}

/// (label, name) of class `index`.
fn class(source: &dyn Source, index: usize) -> (String, String) {
    let class = source.classes().swap_remove(index);
    (class.label, class.name)
}

/// `c000`, `c001`, ..., one per line.
fn labels(count: usize) -> String {
    (0..count).fold(String::new(), |mut text, i| {
        writeln!(text, "c{i:03}").unwrap();
        text
    })
}

/// Writes a file of class names: `name 0`, `name 1`, ... under each key.
fn names(folder: &FixtureFolder, path: &str, lists: &[(&str, usize)]) {
    let list = |count| (0..count).map(|i| format!("name {i}")).collect::<Vec<_>>();
    let file: serde_json::Map<_, _> = lists.iter().map(|&(key, n)| (key.to_owned(), list(n).into())).collect();
    folder.write(path, serde_json::to_vec(&file).unwrap());
}

fn pixel(source: &dyn Source, index: usize, x: usize, y: usize) -> [u8; 3] {
    let picture = source.get(index).unwrap().image.unwrap().open(&PixelLimits::default()).unwrap();
    let at = 3 * (y * picture.width as usize + x);
    [picture.rgb[at], picture.rgb[at + 1], picture.rgb[at + 2]]
}

#[test]
fn set_names_are_unique_and_missing_files_are_reported() {
    let folder = FixtureFolder::new();
    let mut known: Vec<_> = DATA_SETS.iter().map(|set| set.name).collect();
    assert_eq!(
        find("svhn").err().unwrap().to_string(),
        format!("data: data set `svhn` is unknown; expected one of: {}", known.join(", "))
    );
    for set in DATA_SETS {
        let text = message(&folder, set.name);
        assert!(text.starts_with(&format!("data: data set {}: `", set.name)), "{text}");
        assert!(text.ends_with(&format!("not found; expected {}; download: {}", set.layout, set.get)), "{text}");
    }
    known.sort_unstable();
    known.dedup();
    assert_eq!(known.len(), 38);
}
