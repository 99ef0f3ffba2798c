//! Photos and texts as vectors that another program computed, and a table that relates them.
//!
//! Two files hold the vectors, one row per photo (or box) and one per text. Each row of the table refers to rows of
//! these files. Table rows with the same image form one sample.

mod table;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use sha2::{Digest, Sha256};

use self::table::{FeatureRecord, OwnVectors, read_table};
use super::{SourceEntry, name_list};
use crate::error::{Error, Result};
use crate::hierarchy::Tree;
use crate::hierarchy::ranks::of_samples;
use crate::sample::{Broken, ImageRef, Phrase, Sample, Tiers, View};
use crate::source::{Source, SourceSpec};
use crate::vectors::{SharedVector, TextVectors, VectorMatrix, le_bytes, read_named};

/// Name of this kind of source.
pub const KIND: &str = "features";
/// Name of the option for the file with the vectors of photos.
pub const IMAGES: &str = "images";
/// Name of the option for the file with the vectors of texts.
pub const TEXTS: &str = "texts";

/// Entry of this kind of source in `conifer_datasets::SOURCES`.
pub const ENTRY: SourceEntry = SourceEntry {
    kind: KIND,
    summary: "vectors of photos and texts from another program (CLIP, SigLIP, DINO, ...), with a table of what belongs together",
    inputs: "path: the table, .csv, .tsv, .jsonl or .parquet, with the columns image (row number in `images`, from 0, or an id), text (row numbers in `texts`, separated by ;), \
             caption (the text itself), label, split, tiers (row numbers in `texts`, general to specific, separated by >), box and phrase (a row of `images` and one of `texts`); \
             split: the value of `split`; options: images, texts (.npy, .npz, .safetensors or .parquet, relative to the table), image_array, text_array (names of the arrays or columns, if a \
             file holds several), image_ids (a file with the id of each row of `images`, one per line), captions (a file with the text of each row of `texts`, one per line), \
             ranks (columns of a taxonomy, general to specific, separated by commas), delimiter",
    read: |spec| Ok(Box::new(FeatureTable::open(spec)?)),
};

/// Samples whose photos, boxes and texts are vectors.
pub struct FeatureTable {
    images: Option<VectorRows>,
    texts: Option<Arc<TextVectors>>,
    /// The text of each row of the file of text vectors; without such a file, the text of each caption.
    names: Vec<String>,
    samples: Vec<FeatureSample>,
    views: Vec<View>,
    has_taxa: bool,
    fingerprint: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct FeatureOptions {
    images: Option<PathBuf>,
    texts: Option<PathBuf>,
    image_array: Option<String>,
    text_array: Option<String>,
    image_ids: Option<PathBuf>,
    captions: Option<PathBuf>,
    #[serde(deserialize_with = "name_list")]
    ranks: Vec<String>,
    delimiter: Option<char>,
}

/// A file of vectors, and the ids of its rows if the file has ids.
struct VectorRows {
    path: PathBuf,
    matrix: Arc<VectorMatrix>,
    ids: Option<RowIds>,
    /// The text of each row, if the file contains texts.
    texts: Option<Vec<String>>,
}

/// The row number of each id, and the file that contains the ids.
struct RowIds {
    path: PathBuf,
    rows: HashMap<String, u32>,
}

/// A sample whose image and texts are row numbers.
#[derive(Default)]
struct FeatureSample {
    id: String,
    image: Option<u32>,
    captions: Vec<u32>,
    /// Row numbers of the vectors of (box, phrase).
    boxes: Vec<(u32, u32)>,
    tiers: Vec<u32>,
    taxon: Vec<String>,
    label: Option<String>,
    split: Option<String>,
}

impl FeatureTable {
    /// Reads the vectors and the table.
    ///
    /// # Errors
    /// A file cannot be read or has another format, a row of the table names a vector that does not exist, or the table
    /// has no row (of the split).
    pub fn open(spec: &SourceSpec) -> Result<Self> {
        let options: FeatureOptions = spec.parse_options()?;
        let path = spec.need_path()?;
        let beside = path.parent().unwrap_or(Path::new(""));
        // Read the table before the vectors: a wrong path is the more likely mistake.
        let holds = |file: &Option<PathBuf>| file.as_ref().is_some_and(|file| beside.join(file) == *path);
        let own = OwnVectors { images: holds(&options.images), texts: holds(&options.texts) };
        let records = read_table(path, &options.ranks, options.delimiter, own)?;
        if options.images.is_none() && options.texts.is_none() {
            let expected =
                "the option images or texts (or both): files of vectors (.npy, .npz, .safetensors or .parquet)";
            return Err(Error::invalid(format!("options of source {KIND}"), "without vectors", expected));
        }
        if let (None, Some(ids)) = (&options.images, &options.image_ids) {
            let expected = "the option images too: these are the ids of its rows";
            return Err(Error::invalid("image_ids", format!("`{}`", ids.display()), expected));
        }
        let images = match &options.images {
            None => None,
            Some(file) => Some(VectorRows::read(
                &beside.join(file),
                options.image_array.as_deref(),
                options.image_ids.as_ref().map(|ids| beside.join(ids)).as_deref(),
            )?),
        };
        let texts = match &options.texts {
            None => None,
            Some(file) => Some(VectorRows::read(&beside.join(file), options.text_array.as_deref(), None)?),
        };
        let captions = match (&options.captions, &texts) {
            (None, texts) => texts.as_ref().and_then(|texts| texts.texts.clone()),
            (Some(file), Some(texts)) => Some(lines_of(&beside.join(file), &texts.path, texts.matrix.len())?),
            (Some(file), None) => {
                let expected = "the option texts too: captions are the texts of its rows";
                return Err(Error::invalid("captions", format!("`{}`", file.display()), expected));
            }
        };
        let mut builder = FeatureTableBuilder {
            path,
            split: spec.split.as_deref(),
            images: images.as_ref(),
            texts: texts.as_ref(),
            names: TextNames::new(captions, texts.as_ref().map_or(0, |texts| texts.matrix.len())),
            samples: Vec::new(),
            of_image: HashMap::new(),
            hash: Sha256::new(),
        };
        for record in &records {
            builder.add(record)?;
        }
        let FeatureTableBuilder { names, samples, mut hash, .. } = builder;
        if samples.is_empty() {
            let expected = match &spec.split {
                Some(split) => format!("rows of split `{split}`"),
                None => "at least one row".to_owned(),
            };
            return Err(Error::Empty { place: format!("`{}`", path.display()), expected });
        }
        let names = names.finish();
        for row in images.iter().flat_map(|images| images.matrix.rows()) {
            hash.update(le_bytes(row));
        }
        let texts = match texts {
            Some(texts) => Some(Arc::new(TextVectors::new(texts.matrix, &names)?)),
            None => None,
        };
        hash.update(texts.as_ref().map_or("", |texts| texts.fingerprint()));
        Ok(Self {
            views: views(&samples),
            has_taxa: samples.iter().any(|sample| sample.taxon.len() > 1),
            images,
            texts,
            names,
            samples,
            fingerprint: hex::encode(hash.finalize()),
        })
    }

    fn name(&self, row: u32) -> String {
        self.names.get(row as usize).cloned().unwrap_or_default()
    }

    fn vector(&self, row: u32) -> Option<ImageRef> {
        SharedVector::new(self.images.as_ref()?.matrix.clone(), row).map(ImageRef::Vector)
    }
}

impl Source for FeatureTable {
    fn name(&self) -> &str {
        KIND
    }

    fn len(&self) -> usize {
        self.samples.len()
    }

    fn get(&self, index: usize) -> Result<Sample, Broken> {
        let it = &self.samples[index];
        let phrase =
            |&(bbox, text): &(u32, u32)| Phrase { text: self.name(text), crop: self.vector(bbox), ..Phrase::default() };
        let tiers =
            |rows: &[u32]| Tiers { positive: rows.iter().map(|&row| self.name(row)).collect(), negative: Vec::new() };
        let sample = Sample {
            id: it.id.clone(),
            image: it.image.and_then(|row| self.vector(row)),
            captions: it.captions.iter().map(|&row| self.name(row)).collect(),
            phrases: it.boxes.iter().map(phrase).collect(),
            tiers: (!it.tiers.is_empty()).then(|| tiers(&it.tiers)),
            taxon: it.taxon.clone(),
            label: it.label.clone(),
            split: it.split.clone(),
            ..Sample::default()
        };
        sample.check()?;
        Ok(sample)
    }

    fn views(&self) -> &[View] {
        &self.views
    }

    fn fingerprint(&self) -> String {
        self.fingerprint.clone()
    }

    fn class_tree(&self) -> Option<Tree> {
        if self.has_taxa { of_samples(self) } else { None }
    }

    fn text_vectors(&self) -> Option<Arc<TextVectors>> {
        self.texts.clone()
    }
}

fn views(samples: &[FeatureSample]) -> Vec<View> {
    let pair = |it: &FeatureSample| it.image.is_some() && !it.captions.is_empty();
    let any = |has: &dyn Fn(&FeatureSample) -> bool| samples.iter().any(has);
    let mut views = Vec::new();
    views.extend(any(&pair).then_some(View::Pair));
    views.extend(any(&|it| pair(it) && !it.boxes.is_empty()).then_some(View::Boxes));
    views.extend(any(&|it| !it.tiers.is_empty() || it.taxon.len() > 1).then_some(View::Chain));
    let photo = any(&|it| it.image.is_some()) && !View::Photo.is_in(&views);
    views.extend(photo.then_some(View::Photo));
    views
}

/// Makes samples from the rows of a table.
struct FeatureTableBuilder<'a> {
    path: &'a Path,
    split: Option<&'a str>,
    images: Option<&'a VectorRows>,
    texts: Option<&'a VectorRows>,
    names: TextNames,
    samples: Vec<FeatureSample>,
    /// Index of the sample of an image.
    of_image: HashMap<u32, usize>,
    hash: Sha256,
}

impl FeatureTableBuilder<'_> {
    fn add(&mut self, record: &FeatureRecord) -> Result<()> {
        let (path, images, texts) = (self.path, self.images, self.texts);
        let place = || record.place(path);
        let captions = self.captions(record)?;
        // Store the captions of all splits, because an evaluation may use the captions of another split.
        if self.split.is_some_and(|split| split != record.split) {
            return Ok(());
        }
        record.hash(&mut self.hash);
        let text = |column: &str, value: &str| find(texts, TEXTS, column, value, &place);
        let image = |column: &str, value: &str| find(images, IMAGES, column, value, &place);
        let tiers = items(&record.tiers, '>').map(|it| text("tiers", it)).collect::<Result<Vec<_>>>()?;
        let row = items(&record.image, ';').map(|it| image("image", it)).collect::<Result<Vec<_>>>()?;
        let boxed = match (record.bbox.is_empty(), record.phrase.is_empty()) {
            (true, true) => None,
            (false, false) => Some((image("box", &record.bbox)?, text("phrase", &record.phrase)?)),
            _ => {
                let found = format!("box is `{}` and phrase is `{}`", record.bbox, record.phrase);
                return Err(Error::format(place(), found, "both, or neither"));
            }
        };
        let row = match row[..] {
            [] => None,
            [row] => Some(row),
            _ => return Err(Error::format(place(), format!("image is `{}`", record.image), "one image per row")),
        };
        if row.is_none() && boxed.is_some() {
            return Err(Error::format(place(), "a box without an image", "the row of the whole image too"));
        }
        if row.is_none() && captions.is_empty() && tiers.is_empty() && record.taxon().is_empty() {
            return Err(Error::format(place(), "neither image nor text nor tiers", "at least one of them"));
        }
        let next = self.samples.len();
        let index = row.map_or(next, |row| *self.of_image.entry(row).or_insert(next));
        if index == next {
            let id = if row.is_some() {
                record.image.clone()
            } else {
                format!("row {}", record.number.rsplit(' ').next().unwrap_or_default())
            };
            self.samples.push(FeatureSample { id, image: row, ..FeatureSample::default() });
        }
        let sample = &mut self.samples[index];
        for caption in captions {
            if !sample.captions.contains(&caption) {
                sample.captions.push(caption);
            }
        }
        sample.boxes.extend(boxed);
        let value = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        set_once(&mut sample.tiers, tiers, "tiers", &place)?;
        set_once(&mut sample.taxon, record.taxon(), "taxon", &place)?;
        set_once(&mut sample.label, value(&record.label), "label", &place)?;
        set_once(&mut sample.split, value(&record.split), "split", &place)
    }

    /// Row numbers of the captions of a table row. The column `text` refers to rows of the text vectors, and the column
    /// `caption` gives the text of such a row. Without text vectors, the caption is added as a new row.
    fn captions(&mut self, record: &FeatureRecord) -> Result<Vec<u32>> {
        let (path, texts) = (self.path, self.texts);
        let place = || record.place(path);
        if texts.is_none() && record.text.is_empty() {
            return Ok(match record.caption.as_str() {
                "" => Vec::new(),
                caption => vec![self.names.push(caption)],
            });
        }
        let rows = items(&record.text, ';').map(|it| find(texts, TEXTS, "text", it, &place));
        let rows = rows.collect::<Result<Vec<_>>>()?;
        match (&rows[..], record.caption.as_str()) {
            (_, "") => {}
            (&[row], caption) => self
                .names
                .set(row, caption)
                .map_err(|found| Error::format(place(), found, "one text per row of the vectors"))?,
            (rows, _) => {
                let expected = "one text in a table row with a caption (or the option captions, a file with all texts)";
                return Err(Error::format(place(), format!("{} texts and one caption", rows.len()), expected));
            }
        }
        Ok(rows)
    }
}

/// The row number of the vector to which `value`, a field of the table, refers. `value` is an id if the vectors have
/// ids, otherwise a row number.
fn find(rows: Option<&VectorRows>, option: &str, column: &str, value: &str, place: &dyn Fn() -> String) -> Result<u32> {
    let found = format!("{column} is `{value}`");
    let Some(VectorRows { path, matrix, ids, .. }) = rows else {
        return Err(Error::format(place(), found, format!("no value, because the option {option} is not given")));
    };
    let (row, expected) = match ids {
        Some(RowIds { path, rows }) => {
            (rows.get(value).copied(), format!("one of the {} ids in `{}`", rows.len(), path.display()))
        }
        None => {
            let last = matrix.len().saturating_sub(1);
            // pandas writes a column of integers with gaps as "3.0".
            let row = value.strip_suffix(".0").unwrap_or(value).parse::<u32>().ok();
            (row.filter(|&row| row as usize <= last), format!("a row of `{}`, 0 to {last}", path.display()))
        }
    };
    row.ok_or_else(|| Error::format(place(), found, expected))
}

/// The items of a field, trimmed, without empty items.
fn items(field: &str, separator: char) -> impl Iterator<Item = &str> {
    field.split(separator).map(str::trim).filter(|it| !it.is_empty())
}

/// Sets a value of a sample. Several table rows of one image may give the same value.
fn set_once<T: Default + PartialEq>(slot: &mut T, value: T, column: &str, place: &dyn Fn() -> String) -> Result<()> {
    let empty = T::default();
    if value == empty || *slot == value {
        return Ok(());
    }
    if *slot != empty {
        let found = format!("another `{column}` than an earlier row of the same image");
        return Err(Error::format(place(), found, "the same value, or none"));
    }
    *slot = value;
    Ok(())
}

/// The text of each row of a file of vectors, `None` while unknown. Texts without a vector are
/// appended.
struct TextNames {
    names: Vec<Option<String>>,
}

impl TextNames {
    fn new(captions: Option<Vec<String>>, rows: usize) -> Self {
        let names = match captions {
            Some(captions) => captions.into_iter().map(Some).collect(),
            None => vec![None; rows],
        };
        Self { names }
    }

    /// Adds a text that has no vector.
    fn push(&mut self, text: &str) -> u32 {
        self.names.push(Some(text.to_owned()));
        (self.names.len() - 1) as u32
    }

    /// Sets the text of a row. `Err` describes the conflict if the row already has another text.
    fn set(&mut self, row: u32, text: &str) -> Result<(), String> {
        let slot = &mut self.names[row as usize];
        match slot {
            Some(known) if known.as_str() != text => {
                Err(format!("caption {text:?} of text {row}, which is also {known:?}"))
            }
            _ => {
                *slot = Some(text.to_owned());
                Ok(())
            }
        }
    }

    fn finish(self) -> Vec<String> {
        let named = |(row, name): (usize, Option<String>)| name.unwrap_or_else(|| format!("text {row}"));
        self.names.into_iter().enumerate().map(named).collect()
    }
}

impl VectorRows {
    /// Reads the vectors and the ids of the rows. The ids come from the file `ids`, or from the column `id` of a
    /// Parquet file.
    fn read(path: &Path, array: Option<&str>, ids: Option<&Path>) -> Result<Self> {
        let is_parquet = path.extension().is_some_and(|it| it.eq_ignore_ascii_case("parquet"));
        let (matrix, ids, texts) = match (is_parquet, ids) {
            (true, Some(ids)) => {
                let expected = format!("no value, because the column id of `{}` names its rows", path.display());
                return Err(Error::invalid("image_ids", format!("`{}`", ids.display()), expected));
            }
            (true, None) => {
                let named = read_named(path, array)?;
                (named.matrix, Some(RowIds::new(path, named.ids, "row", 0)?), named.texts)
            }
            (false, ids) => {
                let matrix = VectorMatrix::read(path, array)?;
                let lines =
                    ids.map(|ids| RowIds::new(ids, lines_of(ids, path, matrix.len())?, "line", 1)).transpose()?;
                (matrix, lines, None)
            }
        };
        Ok(Self { path: path.to_owned(), matrix: Arc::new(matrix), ids, texts })
    }
}

impl RowIds {
    /// Maps `ids` to row numbers. Messages refer to a row of `path` by `unit` and a number that starts at `first`:
    /// `line 1`.
    fn new(path: &Path, ids: Vec<String>, unit: &str, first: u32) -> Result<Self> {
        let mut rows: HashMap<String, u32> = HashMap::with_capacity(ids.len());
        for (row, id) in (0..).zip(ids) {
            match rows.entry(id) {
                Entry::Vacant(entry) => _ = entry.insert(row),
                Entry::Occupied(entry) => {
                    let place = format!("{unit} {} of `{}`", row + first, path.display());
                    let other = format!("`{}` again, as in {unit} {}", entry.key(), entry.get() + first);
                    return Err(Error::format(place, other, "each id once"));
                }
            }
        }
        Ok(Self { path: path.to_owned(), rows })
    }
}

/// Reads the lines of a file. The file must have `rows` lines, one per row of the file `vectors`.
fn lines_of(path: &Path, vectors: &Path, rows: usize) -> Result<Vec<String>> {
    let text = fs::read_to_string(path).map_err(Error::io("read", path))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let lines: Vec<String> = text.lines().map(|line| line.trim().to_owned()).collect();
    if lines.len() != rows {
        let expected = format!("{rows} lines, one per row of `{}`", vectors.display());
        return Err(Error::format(format!("`{}`", path.display()), format!("{} lines", lines.len()), expected));
    }
    match lines.iter().position(String::is_empty) {
        None => Ok(lines),
        Some(line) => {
            let place = format!("line {} of `{}`", line + 1, path.display());
            Err(Error::format(place, "an empty line", "an id or text"))
        }
    }
}
