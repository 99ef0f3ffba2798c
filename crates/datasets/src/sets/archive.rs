//! Locates the files of a data set and the names of its classes.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use conifer_data::{Error, Result};

use super::DataSet;
use crate::import::shared::{open_text, read_json};

/// The folder of a data set. It contains the unpacked archive, either directly or in the archive's own subfolder.
pub(super) struct Archive<'a> {
    pub(super) set: &'static DataSet,
    folder: &'a Path,
    /// The folder with the content of the archive.
    pub(super) base: PathBuf,
}

impl<'a> Archive<'a> {
    /// `inner` are candidate names of the archive's own subfolder. If none exists, the set's folder is used.
    pub(super) fn new(set: &'static DataSet, folder: &'a Path, inner: &[&str]) -> Self {
        let base = inner.iter().map(|name| folder.join(name)).find(|path| path.is_dir());
        Self { set, folder, base: base.unwrap_or_else(|| folder.to_owned()) }
    }

    /// The first of these files or folders that exists, in the archive's folder or in the set's folder.
    ///
    /// # Errors
    /// None of the files exists. The message lists the required files and the download location.
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

    pub(super) fn lacks(&self, path: &Path) -> Error {
        let DataSet { name, layout, get, .. } = self.set;
        let place = format!("data set {name}: `{}`", path.display());
        Error::format(place, "not found", format!("{layout}; download: {get}"))
    }

    /// The non-empty lines of a text file, with line numbers from 1.
    pub(super) fn lines(&self, names: &[&str]) -> Result<(PathBuf, Vec<(usize, String)>)> {
        let path = self.find(names)?;
        let text = fs::read_to_string(&path).map_err(Error::io("read", &path))?;
        let lines = text.lines().map(str::trim).enumerate().filter(|(_, line)| !line.is_empty());
        let lines = lines.map(|(at, line)| (at + 1, line.to_owned())).collect();
        Ok((path, lines))
    }

    /// The content of a file; reads the gzip version if the plain file does not exist.
    pub(super) fn unpacked(&self, name: &str) -> Result<(PathBuf, Vec<u8>)> {
        let path = self.find(&[name, &format!("{name}.gz")])?;
        let mut bytes = Vec::new();
        open_text(&path)?.read_to_end(&mut bytes).map_err(Error::io("read", &path))?;
        Ok((path, bytes))
    }

    /// The class names for prompts, in the order of the data set. They come from `class_names.json` in the set's folder
    /// or its parent, if that file has an entry for this set; otherwise from `own`.
    ///
    /// # Errors
    /// There are no names, or the file has the wrong number of names.
    pub(super) fn names(&self, own: Option<Vec<String>>) -> Result<Vec<String>> {
        let above = self.folder.parent().filter(|path| !path.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let files = [self.folder.join(NAMES), above.join(NAMES)];
        for path in files.iter().filter(|path| path.exists()) {
            let lists: BTreeMap<String, serde_json::Value> =
                read_json(path, "an object with a list of class names per data set")?;
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
                "{{\"{key}\": [{} names], ...}}; download: {NAMES_FROM}, save it under this name",
                self.set.classes
            );
            Error::format(place, "not found, or has no entry for this set", expected)
        })
    }
}

const NAMES: &str = "class_names.json";

/// Where to download the class names (MIT licence). The lists come from data/prompts.md of openai/CLIP.
const NAMES_FROM: &str = "https://github.com/LAION-AI/CLIP_benchmark, file clip_benchmark/datasets/en_classnames.json";

/// The key of a set in `class_names.json`, if it differs from the name of the set.
fn key(set: &str) -> Option<&'static str> {
    match set {
        "imagenet" => Some("imagenet1k"),
        "flowers102" => Some("flowers"),
        _ => None,
    }
}
