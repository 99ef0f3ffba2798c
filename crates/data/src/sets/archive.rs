//! Where a data set's files lie, and what its classes are called.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::DataSet;
use crate::error::{Error, Result};
use crate::import::shared::{open_text, read_json};

/// A data set's folder. What its archive unpacks to may lie in it, or be it.
pub(super) struct Archive<'a> {
    pub(super) set: &'static DataSet,
    folder: &'a Path,
    /// The archive's own folder.
    pub(super) base: PathBuf,
}

impl<'a> Archive<'a> {
    /// `inner` are the names of the archive's own folder; the first that is there is taken, and else the set's folder.
    pub(super) fn new(set: &'static DataSet, folder: &'a Path, inner: &[&str]) -> Self {
        let base = inner.iter().map(|name| folder.join(name)).find(|path| path.is_dir());
        Self { set, folder, base: base.unwrap_or_else(|| folder.to_owned()) }
    }

    /// The first of these files or folders that is there: in the archive's folder, or in that of the set.
    ///
    /// # Errors
    /// None is; the message says what is needed, and where to get it.
    pub(super) fn find(&self, names: &[&str]) -> Result<PathBuf> {
        let places = names.iter().flat_map(|name| [self.base.join(name), self.folder.join(name)]);
        let mut places: Vec<_> = places.collect();
        match places.iter().position(|path| path.exists()) {
            Some(at) => Ok(places.swap_remove(at)),
            None => {
                let wanted = names.first().map_or_else(|| self.base.clone(), |name| self.base.join(name));
                Err(self.lacks(&wanted))
            }
        }
    }

    /// The error for a file that is not there.
    pub(super) fn lacks(&self, path: &Path) -> Error {
        let DataSet { name, layout, get, .. } = self.set;
        let place = format!("data set {name}: `{}`", path.display());
        Error::format(place, "not there", format!("{layout}; get it: {get}"))
    }

    /// The lines of a text file that are not empty, with their numbers from 1.
    pub(super) fn lines(&self, names: &[&str]) -> Result<(PathBuf, Vec<(usize, String)>)> {
        let path = self.find(names)?;
        let text = fs::read_to_string(&path).map_err(Error::io("read", &path))?;
        let lines = text.lines().map(str::trim).enumerate().filter(|(_, line)| !line.is_empty());
        let lines = lines.map(|(at, line)| (at + 1, line.to_owned())).collect();
        Ok((path, lines))
    }

    /// A file's bytes, unpacked where only its packed form is there.
    pub(super) fn unpacked(&self, name: &str) -> Result<(PathBuf, Vec<u8>)> {
        let path = self.find(&[name, &format!("{name}.gz")])?;
        let mut bytes = Vec::new();
        open_text(&path)?.read_to_end(&mut bytes).map_err(Error::io("read", &path))?;
        Ok((path, bytes))
    }

    /// What prompts call the classes, in the order of the data set: of `class_names.json` in the set's folder or the one
    /// above it, where that file names this set; else `own`.
    ///
    /// # Errors
    /// Neither is there, or the file has another number of names than the set has classes.
    pub(super) fn names(&self, own: Option<Vec<String>>) -> Result<Vec<String>> {
        let above = self.folder.parent().filter(|path| !path.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let files = [self.folder.join(NAMES), above.join(NAMES)];
        for path in files.iter().filter(|path| path.exists()) {
            let lists: BTreeMap<String, serde_json::Value> = read_json(path, "lists of names by data set")?;
            let keys = [self.set.name].into_iter().chain(key(self.set.name));
            let Some((key, list)) = keys.into_iter().find_map(|key| lists.get_key_value(key)) else { continue };
            let place = format!("`{key}` of `{}`", path.display());
            let expected = format!("{} names, one for each class of {}", self.set.classes, self.set.name);
            let names: Vec<String> = serde_json::from_value(list.clone())
                .map_err(|error| Error::format(&place, error.to_string(), &expected))?;
            if names.len() != self.set.classes {
                return Err(Error::format(place, format!("{} names", names.len()), expected));
            }
            return Ok(names);
        }
        own.ok_or_else(|| {
            let key = key(self.set.name).unwrap_or(self.set.name);
            let place = format!("names of the classes of {}: `{}`", self.set.name, files[1].display());
            let expected = format!(
                "{{\"{key}\": [{} names], ...}}; get it: {NAMES_FROM}, save it under this name",
                self.set.classes
            );
            Error::format(place, "not there, or without this set", expected)
        })
    }
}

const NAMES: &str = "class_names.json";

/// MIT licence; its lists are OpenAI's, from the data/prompts.md of openai/CLIP.
const NAMES_FROM: &str = "https://github.com/LAION-AI/CLIP_benchmark, file clip_benchmark/datasets/en_classnames.json";

/// What that file calls a set, where it is not our name.
fn key(set: &str) -> Option<&'static str> {
    match set {
        "imagenet" => Some("imagenet1k"),
        "flowers102" => Some("flowers"),
        _ => None,
    }
}
