//! The stored features of one encoder: vector files of bounded size in a folder.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use conifer_embeddings::Element;

use super::mapped::MappedVectors;
use super::{ContentKey, VectorFile, VectorLayout};
use crate::head::Tower;
use crate::{Error, Result};

/// Default number of rows after which a new shard begins.
pub const SHARD_ROWS: u64 = 1 << 18;
/// Number of hexadecimal digits of an encoder's fingerprint in file names.
const DIGITS: usize = 24;

/// Location and number format of the features that are stored between runs.
#[derive(Clone, Debug)]
pub struct FeatureStore {
    /// The folder; `None`: features are kept in memory only.
    pub folder: Option<PathBuf>,
    /// Number format on disk. `None`: the format of the stored features, or f32 if there are none.
    pub element: Option<Element>,
    /// Number of rows after which a new shard begins.
    pub shard_rows: u64,
    /// Purpose of the folder.
    pub purpose: StorePurpose,
}

/// Purpose of the folder of a [`FeatureStore`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StorePurpose {
    /// A cache for all encoders. If another process writes to it, new features are kept in memory.
    #[default]
    Cache,
    /// A folder that the user named for a model. It is an error if it holds features of another encoder and none of
    /// this one.
    Named,
    /// A folder to fill with features. It is an error if another process writes to it, or if its files cannot be
    /// locked.
    Fill,
}

impl Default for FeatureStore {
    fn default() -> Self {
        Self { folder: None, element: None, shard_rows: SHARD_ROWS, purpose: StorePurpose::default() }
    }
}

/// The shards of one encoder, `image-FINGERPRINT.0000.features` and so on. Rows are appended to the last one.
#[derive(Debug)]
pub(crate) struct FeatureShards {
    /// Path of the shards without number and extension.
    stem: PathBuf,
    identity: String,
    width: usize,
    element: Element,
    shard_rows: u64,
    shards: Vec<VectorFile>,
    notes: Vec<String>,
}

/// Position of a row: index of the shard, and index of the row in it.
pub(crate) type ShardPosition = (u32, u64);

impl FeatureStore {
    /// A cache in `folder`.
    pub fn cache(folder: Option<PathBuf>) -> Self {
        Self { folder, ..Self::default() }
    }

    /// Opens the shards of the encoder with this identity, for rows of this width; `None` without a folder.
    ///
    /// # Errors
    /// [`Error::Io`] if a file cannot be opened, or its header does not match the encoder and the width;
    /// [`Error::Invalid`] for a folder that [`StorePurpose`] excludes.
    pub(crate) fn open(&self, tower: Tower, identity: &str, width: usize) -> Result<Option<FeatureShards>> {
        let Some(folder) = &self.folder else { return Ok(None) };
        fs::create_dir_all(folder).map_err(Error::io(folder))?;
        let prefix = match tower {
            Tower::Image => "image",
            Tower::Text => "text",
        };
        let digits = &identity[..identity.len().min(DIGITS)];
        let stem = format!("{prefix}-{digits}");
        let (mut numbers, mut others) = (Vec::new(), Vec::new());
        for entry in fs::read_dir(folder).map_err(Error::io(folder))? {
            let name = entry.map_err(Error::io(folder))?.file_name().to_string_lossy().into_owned();
            match shard_of(&name) {
                Some((found, number)) if found == stem => numbers.push(number),
                Some((found, _)) if found.starts_with(&format!("{prefix}-")) => others.push(found.to_owned()),
                _ => {}
            }
        }
        others.sort_unstable();
        if let (StorePurpose::Named, true, Some(other)) = (self.purpose, numbers.is_empty(), others.first()) {
            let found = format!("`{}`, which holds features of another {prefix} encoder ({other})", folder.display());
            let expected = format!(
                "features of the frozen {prefix} encoder of this model ({stem}); `conifer features` adds them to the folder"
            );
            return Err(Error::invalid("train.feature_store", found, expected));
        }
        numbers.sort_unstable();
        let mut shards = FeatureShards {
            stem: folder.join(stem),
            identity: identity.to_owned(),
            width,
            element: self.element.unwrap_or_default(),
            shard_rows: self.shard_rows.max(1),
            shards: Vec::new(),
            notes: Vec::new(),
        };
        let mut element = self.element;
        for number in numbers {
            shards.open_shard(number, element)?;
            element = shards.shards.last().map(VectorFile::element);
        }
        match element {
            Some(element) if !shards.shards.is_empty() => shards.element = element,
            _ => shards.open_shard(0, Some(shards.element))?,
        }
        if self.purpose == StorePurpose::Fill && !shards.writes() {
            let expected = "a folder that no other conifer run writes to, on a file system with file locks";
            return Err(Error::invalid("the folder of the features", format!("`{}`", folder.display()), expected));
        }
        Ok(Some(shards))
    }
}

impl FeatureShards {
    fn open_shard(&mut self, number: u32, element: Option<Element>) -> Result<()> {
        let path = self.path(number);
        let layout = VectorLayout { identity: &self.identity, width: self.width, element };
        let (shard, notes) = VectorFile::open(&path, &layout).map_err(Error::io(&path))?;
        self.shards.push(shard);
        self.notes.extend(notes);
        Ok(())
    }

    fn path(&self, number: u32) -> PathBuf {
        let name = self.stem.file_name().unwrap_or_default().to_string_lossy();
        self.stem.with_file_name(format!("{name}.{number:04}.features"))
    }

    /// True if this process may add rows.
    pub(crate) fn writes(&self) -> bool {
        self.shards.iter().all(VectorFile::writes)
    }

    /// Messages for the user about damaged or locked shards.
    pub(crate) fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Size of all shards in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.shards.iter().map(VectorFile::bytes).sum()
    }

    /// Position of the row with this key.
    pub(crate) fn position(&self, key: &ContentKey) -> Option<ShardPosition> {
        let found = |(shard, file): (usize, &VectorFile)| Some((shard as u32, file.position(key)?));
        // If several rows have this key, the last one is returned.
        self.shards.iter().enumerate().rev().find_map(found)
    }

    /// The stored rows with these keys. Keys without a row are absent.
    ///
    /// # Errors
    /// [`Error::Io`] if a shard cannot be read.
    pub(crate) fn find(&mut self, keys: &[ContentKey]) -> Result<HashMap<ContentKey, Vec<f32>>> {
        let mut found = HashMap::new();
        for shard in &mut self.shards {
            found.extend(shard.find(keys).map_err(Error::io(shard.path()))?);
        }
        Ok(found)
    }

    /// Appends rows. After a kill, a later run finds all of them or none. Does nothing unless
    /// [`FeatureShards::writes`].
    ///
    /// # Errors
    /// [`Error::Io`] if the shard cannot be written, or a number does not fit its format.
    pub(crate) fn add(&mut self, rows: &[(ContentKey, Vec<f32>)]) -> Result<()> {
        if !self.writes() || rows.is_empty() {
            return Ok(());
        }
        if self.shards.last().is_none_or(|shard| shard.rows() >= self.shard_rows) {
            let number = self.shards.last().and_then(|last| number_of(last.path())).map_or(0, |last| last + 1);
            self.open_shard(number, Some(self.element))?;
        }
        match self.shards.last_mut() {
            Some(shard) => shard.add(rows).map_err(Error::io(shard.path())),
            None => Ok(()),
        }
    }

    /// Maps all shards and releases their locks.
    ///
    /// # Errors
    /// [`Error::Io`] if a shard cannot be mapped.
    pub(crate) fn into_mapped(self) -> Result<Vec<Option<MappedVectors>>> {
        let map = |shard: &VectorFile| match shard.rows() {
            0 => Ok(None),
            _ => shard.map().map(Some).map_err(Error::io(shard.path())),
        };
        self.shards.iter().map(map).collect()
    }
}

/// Stem and number of the file name of a shard.
fn shard_of(name: &str) -> Option<(&str, u32)> {
    let (stem, number) = name.strip_suffix(".features")?.rsplit_once('.')?;
    Some((stem, number.parse().ok()?))
}

fn number_of(path: &Path) -> Option<u32> {
    Some(shard_of(path.file_name()?.to_str()?)?.1)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const IDENTITY: &str = "0123456789abcdef0123456789abcdef";

    fn store(folder: &Path, purpose: StorePurpose) -> FeatureStore {
        FeatureStore { folder: Some(folder.to_owned()), shard_rows: 2, purpose, ..FeatureStore::default() }
    }

    fn rows(range: std::ops::Range<u8>) -> Vec<(ContentKey, Vec<f32>)> {
        range.map(|i| ([i; 32], vec![f32::from(i), 0.5])).collect()
    }

    fn open(store: &FeatureStore) -> FeatureShards {
        store.open(Tower::Image, IDENTITY, 2).unwrap().unwrap()
    }

    fn message(store: &FeatureStore, tower: Tower, identity: &str) -> String {
        store.open(tower, identity, 2).unwrap_err().to_string()
    }

    #[test]
    fn rows_fill_one_shard_after_the_other() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(folder.path(), StorePurpose::Cache);
        let mut shards = open(&store);
        // Rows of one call of `add` are written to the same shard.
        shards.add(&rows(0..3)).unwrap();
        shards.add(&rows(3..4)).unwrap();
        assert_eq!(shards.shards.len(), 2);
        drop(shards);
        let mut shards = open(&store);
        shards.add(&rows(4..5)).unwrap();
        shards.add(&rows(5..6)).unwrap();
        assert_eq!(shards.shards.iter().map(VectorFile::rows).collect::<Vec<_>>(), [3, 2, 1]);
        let keys: Vec<ContentKey> = rows(0..7).into_iter().map(|row| row.0).collect();
        let found = shards.find(&keys).unwrap();
        assert_eq!(found, rows(0..6).into_iter().collect());
        assert_eq!((shards.position(&keys[4]), shards.position(&keys[6])), (Some((1, 1)), None));
        let names = ["0000", "0001", "0002"].map(|number| format!("image-{}.{number}.features", &IDENTITY[..24]));
        assert!(names.iter().all(|name| folder.path().join(name).exists()));
        let size: u64 = names.iter().map(|name| fs::metadata(folder.path().join(name)).unwrap().len()).sum();
        assert_eq!(shards.bytes(), size);
        let maps = shards.into_mapped().unwrap();
        let mut row = Vec::new();
        maps[1].as_ref().unwrap().read(1, &mut row);
        assert_eq!(row, [4.0, 0.5]);
    }

    #[test]
    fn folders_of_another_encoder_or_format_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let named = store(folder.path(), StorePurpose::Named);
        open(&named).add(&rows(0..1)).unwrap();
        let found = message(&named, Tower::Image, &"f".repeat(64));
        assert!(found.contains("`train.feature_store` is `") && found.contains("another image encoder"), "{found}");
        assert!(found.contains("expected features of the frozen image encoder of this model (image-ffff"), "{found}");
        // A folder may hold both towers, and a cache any number of encoders.
        assert!(named.open(Tower::Text, &"f".repeat(64), 2).is_ok());
        assert!(store(folder.path(), StorePurpose::Cache).open(Tower::Image, &"e".repeat(64), 2).is_ok());

        let half = FeatureStore { element: Some(Element::F16), ..named.clone() };
        let found = message(&half, Tower::Image, IDENTITY);
        assert!(found.contains(".0000.features: vectors stored as F32; expected F16"), "{found}");
        // The shard has the file name of this encoder, but belongs to another one.
        let other = format!("{}{}", &IDENTITY[..24], "0".repeat(40));
        let found = message(&named, Tower::Image, &other);
        assert!(found.contains("vectors of another encoder"), "{found}");

        let _writer = open(&named);
        let fill = store(folder.path(), StorePurpose::Fill);
        let found = message(&fill, Tower::Image, IDENTITY);
        assert!(found.contains("expected a folder that no other conifer run writes to"), "{found}");
        let reader = open(&named);
        assert!(!reader.writes() && reader.notes()[0].contains("another conifer run is writing"));
    }
}
