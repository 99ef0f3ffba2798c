//! CSV or TSV tables of photos with taxa. A row is a photo. Its ranks are columns of the table, or come from a second
//! table, the taxonomy.
//!
//! With the option `taxonomy`, the ranks come from the row whose `taxonomy_key` equals the photo's `key`. Keys are
//! compared by letters and digits only, ignoring case: "ABBOTTS BABBLER" equals "Abbott's Babbler". A rank is taken
//! from the taxonomy if it has such a column, otherwise from the table. An empty field is a missing rank; a photo
//! without a name at any rank is broken.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use conifer_data::files::open_regular;
use conifer_data::sources::name_list;
use conifer_data::{Broken, Cause, Error, Result, SourceEntry, SourceSpec};
use csv::StringRecord;
use serde::Deserialize;

use super::taxa::{TaxonPaths, TaxonPhotos, TaxonRow, binomial, no_taxon};

pub(super) const ENTRY: SourceEntry = SourceEntry {
    kind: "taxon_table",
    summary: "CSV or TSV of photos with a column for each rank of a taxonomy",
    inputs: "path: the table, with a header; split: the value of split_column; options: ranks (columns separated by commas, general to specific: ranks=kingdom,phylum), \
             image (column, default \"image\"), label (column; default: the last rank, or genus and epithet for species), caption (column), common_name (column with the everyday name of the species), split_column, folder (of the \
             photos, relative to the table), delimiter (default: tab for .tsv, otherwise comma), taxonomy (a second table with the ranks, relative to this \
             one), key (column of this table) and taxonomy_key (column of the taxonomy) on which the two are joined",
    read: |spec| Ok(Box::new(open(spec)?)),
};

#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct TaxonTableOptions {
    image: String,
    #[serde(deserialize_with = "name_list")]
    ranks: Vec<String>,
    label: Option<String>,
    caption: Option<String>,
    common_name: Option<String>,
    split_column: Option<String>,
    folder: PathBuf,
    delimiter: Option<char>,
    taxonomy: Option<PathBuf>,
    key: Option<String>,
    taxonomy_key: Option<String>,
}

impl Default for TaxonTableOptions {
    fn default() -> Self {
        Self {
            image: "image".to_owned(),
            ranks: Vec::new(),
            label: None,
            caption: None,
            common_name: None,
            split_column: None,
            folder: PathBuf::new(),
            delimiter: None,
            taxonomy: None,
            key: None,
            taxonomy_key: None,
        }
    }
}

struct TaxonTable {
    path: PathBuf,
    columns: Vec<String>,
    reader: csv::Reader<File>,
}

/// The table that contains the column of a rank, and the index of the column.
enum RankColumn {
    Table(usize),
    Taxonomy(usize),
}

/// The ranks that the taxonomy has for a name.
struct TaxonomyEntry {
    names: Vec<String>,
    line: u64,
    /// Line of another row with the same name but different ranks.
    other: Option<u64>,
}

/// Reads the table, and the taxonomy if there is one.
fn open(spec: &SourceSpec) -> Result<TaxonPhotos> {
    let options: TaxonTableOptions = spec.parse_options()?;
    let path = spec.need_path()?;
    let beside = path.parent().unwrap_or(Path::new(""));
    // Open the table before checking the options: a wrong path is the more likely mistake.
    let mut table = TaxonTable::open(path, options.delimiter)?;
    check_ranks(&options.ranks)?;
    let mut taxonomy = match (&options.taxonomy, &options.key, &options.taxonomy_key) {
        (None, None, None) => None,
        (Some(other), Some(key), Some(other_key)) => {
            let other = TaxonTable::open(&beside.join(other), None)?;
            Some((table.column(key)?, other.column(other_key)?, other))
        }
        _ => return Err(Error::invalid("taxonomy, key, taxonomy_key", "only some of them", "all three, or none")),
    };
    if spec.split.is_some() && options.split_column.is_none() {
        return Err(Error::invalid("split_column", "not given", "a column name, because a split is set"));
    }
    let image = table.column(&options.image)?;
    let label = options.label.as_deref().map(|it| table.column(it)).transpose()?;
    let caption = options.caption.as_deref().map(|it| table.column(it)).transpose()?;
    let common_name = options.common_name.as_deref().map(|it| table.column(it)).transpose()?;
    let split = options.split_column.as_deref().map(|it| table.column(it)).transpose()?;
    let place = |rank: &String| match &taxonomy {
        Some((.., other)) if other.columns.contains(rank) => other.column(rank).map(RankColumn::Taxonomy),
        _ => table.column(rank).map(RankColumn::Table),
    };
    let places = options.ranks.iter().map(place).collect::<Result<Vec<_>>>()?;
    let entries = match &mut taxonomy {
        Some((_, key, other)) => other.read_entries(*key, &places)?,
        None => HashMap::new(),
    };
    let folder = beside.join(&options.folder);
    let of_species = ends_in_species(&options.ranks);
    let (mut rows, mut paths) = (Vec::new(), TaxonPaths::default());
    let mut record = StringRecord::new();
    while let Some(line) = table.next(&mut record)? {
        let field = |column: usize| record.get(column).unwrap_or_default().trim();
        if let (Some(wanted), Some(column)) = (&spec.split, split)
            && field(column) != wanted
        {
            continue;
        }
        let place = || format!("line {line} of `{}`", path.display());
        let id = field(image).to_owned();
        let joined = taxonomy.as_ref().map(|(key, _, other)| join(&entries, field(*key), other)).transpose();
        let joined = joined.map_err(|detail| (Cause::BadRecord, detail));
        let number = joined.and_then(|joined| {
            let mut joined = joined.into_iter().flatten();
            let names = places.iter().map(|place| match place {
                RankColumn::Table(column) => field(*column).to_owned(),
                RankColumn::Taxonomy(_) => joined.next().cloned().unwrap_or_default(),
            });
            paths.enter(names.collect(), &options.ranks, place)
        });
        let number = match number {
            _ if record.len() != table.columns.len() => {
                let detail = format!("{} fields; expected {}", record.len(), table.columns.len());
                Err(no_taxon(&id, &place(), (Cause::BadRecord, detail)))
            }
            _ if id.is_empty() => {
                let detail = format!("`{}` is empty; expected a file", options.image);
                Err(Box::new(Broken::new(place(), Cause::NoImage, detail)))
            }
            Ok(number) => Ok(number),
            Err(fault) => Err(no_taxon(&id, &place(), fault)),
        };
        let text = |column: Option<usize>| column.map(&field).filter(|text| !text.is_empty()).map(str::to_owned);
        let path = number.as_ref().ok().filter(|_| of_species).map(|&it| paths.get(it));
        let label = text(label).or_else(|| path?.genus_and_species(places.len()).map(species));
        let (image, caption, common_name) = (folder.join(&id), text(caption), text(common_name));
        rows.push(TaxonRow { image, path: number, label, caption, common_name, id });
    }
    TaxonPhotos::new(ENTRY.kind, spec.split.clone(), rows, paths, || {
        let rows = spec
            .split
            .as_ref()
            .map_or("at least one row after the header".to_owned(), |it| format!("rows of split `{it}`"));
        (format!("`{}`", path.display()), rows)
    })
}

/// Returns whether the last two ranks are genus and species.
fn ends_in_species(ranks: &[String]) -> bool {
    let is = |rank: &str, names: &[&str]| names.iter().any(|name| rank.eq_ignore_ascii_case(name));
    matches!(ranks, [.., genus, last] if is(genus, &["genus"]) && is(last, &["species", "specific_epithet", "epithet"]))
}

/// Genus and epithet; the last name alone if it already includes the genus.
fn species([genus, species]: [&String; 2]) -> String {
    let whole = plain(species).starts_with(&plain(genus)) && species.contains(char::is_whitespace);
    if whole { species.clone() } else { binomial([genus, species]) }
}

fn check_ranks(ranks: &[String]) -> Result<()> {
    let shown = || format!("[{}]", ranks.iter().map(|rank| format!("`{rank}`")).collect::<Vec<_>>().join(", "));
    if ranks.is_empty() {
        return Err(Error::invalid("ranks", "not given", "columns from general to specific"));
    }
    if ranks.iter().any(|rank| rank.trim().is_empty()) {
        return Err(Error::invalid("ranks", shown(), "names of columns, none of them empty"));
    }
    if let Some(twice) = (1..ranks.len()).find(|&i| ranks[..i].contains(&ranks[i])) {
        return Err(Error::invalid("ranks", format!("{} with `{}` twice", shown(), ranks[twice]), "each rank once"));
    }
    Ok(())
}

/// Looks up a name in the taxonomy and returns its ranks.
fn join<'a>(
    entries: &'a HashMap<String, TaxonomyEntry>,
    name: &str,
    other: &TaxonTable,
) -> Result<&'a [String], String> {
    let place = other.path.display();
    match entries.get(&plain(name)) {
        Some(TaxonomyEntry { names, other: None, .. }) => Ok(names),
        Some(TaxonomyEntry { line, other: Some(second), .. }) => {
            Err(format!("`{name}` is in lines {line} and {second} of `{place}` with different ranks; expected one"))
        }
        None => Err(format!("`{name}` is not in `{place}`; expected one of its {} names", entries.len())),
    }
}

/// Join key: letters and digits in lower case.
fn plain(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

impl TaxonTable {
    fn open(path: &Path, delimiter: Option<char>) -> Result<Self> {
        let tabs = path.extension().is_some_and(|e| e.eq_ignore_ascii_case("tsv"));
        let delimiter = delimiter.unwrap_or(if tabs { '\t' } else { ',' });
        let delimiter = u8::try_from(delimiter)
            .ok()
            .filter(u8::is_ascii)
            .ok_or_else(|| Error::invalid("delimiter", format!("{delimiter:?}"), "an ASCII character"))?;
        let file = open_regular(path).map_err(Error::io("read", path))?;
        let mut reader = csv::ReaderBuilder::new().flexible(true).delimiter(delimiter).quoting(!tabs).from_reader(file);
        let broken = |error: csv::Error| Error::format(format!("`{}`", path.display()), error.to_string(), "a table");
        let columns = reader.headers().map_err(broken)?.iter();
        let columns = columns.map(|name| name.trim_start_matches('\u{feff}').trim().to_owned()).collect();
        Ok(Self { path: path.to_owned(), columns, reader })
    }

    fn column(&self, name: &str) -> Result<usize> {
        let mut places = (0..self.columns.len()).filter(|&it| self.columns[it] == name);
        let fault = |found: String| {
            let expected = format!("one of {}", self.columns.join(", "));
            Error::format(format!("line 1 of `{}`", self.path.display()), found, expected)
        };
        match (places.next(), places.next()) {
            (Some(place), None) => Ok(place),
            (None, _) => Err(fault(format!("no column `{name}`"))),
            (Some(_), Some(_)) => Err(fault(format!("column `{name}` twice"))),
        }
    }

    /// Reads the next row and returns its line number; `None` at the end of the file.
    fn next(&mut self, record: &mut StringRecord) -> Result<Option<u64>> {
        let there = self.reader.read_record(record).map_err(|error| {
            Error::format(format!("`{}`", self.path.display()), error.to_string(), "a table in UTF-8")
        })?;
        Ok(there.then(|| record.position().map_or(0, csv::Position::line)))
    }

    /// Reads the ranks of all names in the taxonomy.
    fn read_entries(&mut self, key: usize, places: &[RankColumn]) -> Result<HashMap<String, TaxonomyEntry>> {
        let mut entries: HashMap<String, TaxonomyEntry> = HashMap::new();
        let mut record = StringRecord::new();
        while let Some(line) = self.next(&mut record)? {
            let name = plain(record.get(key).unwrap_or_default());
            let names: Vec<_> = (places.iter())
                .filter_map(|place| match place {
                    RankColumn::Taxonomy(column) => Some(record.get(*column).unwrap_or_default().trim().to_owned()),
                    RankColumn::Table(_) => None,
                })
                .collect();
            if name.is_empty() {
                continue;
            }
            let it = entries.entry(name).or_insert_with(|| TaxonomyEntry { names: names.clone(), line, other: None });
            if it.names != names && it.other.is_none() {
                it.other = Some(line);
            }
        }
        Ok(entries)
    }
}
