//! Shared code of sources of photos with taxa: interned taxonomic paths and a check that they form a valid taxonomy.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;

use conifer_data::hierarchy::{Tree, class_tree};
use conifer_data::{Broken, Cause, Error, ImageRef, MissingRank, Result, Sample, Source, View};
use sha2::{Digest, Sha256};

use super::inat_folders;

/// Photos with taxa. Stores the name of each photo, and each distinct path once.
pub(super) struct TaxonPhotos {
    kind: &'static str,
    split: Option<String>,
    rows: Vec<TaxonRow>,
    paths: TaxonPaths,
    views: Vec<View>,
    fingerprint: String,
}

pub(super) struct TaxonRow {
    pub(super) id: String,
    pub(super) image: PathBuf,
    /// The index of the photo's path in [`TaxonPaths`], or the error that explains why there is none.
    pub(super) path: Result<u32, Box<Broken>>,
    pub(super) label: Option<String>,
    pub(super) caption: Option<String>,
    pub(super) common_name: Option<String>,
}

/// A taxonomic path from general to specific.
pub(super) struct TaxonPath {
    /// The names, without missing ranks.
    pub(super) names: Vec<String>,
    pub(super) missing: Vec<MissingRank>,
}

/// Interned paths from general to specific, each with the file and line where it first occurs.
#[derive(Default)]
pub(super) struct TaxonPaths {
    paths: Vec<TaxonPath>,
    places: Vec<String>,
    /// Index of each path. The key has an empty name for a missing rank.
    numbers: HashMap<Vec<String>, u32>,
}

impl TaxonPaths {
    /// Interns a path by rank, in which an empty name is a missing rank, and returns its index. `place` returns the
    /// file and line of the path. `ranks` are the names of the ranks.
    ///
    /// # Errors
    /// No rank has a name, or two ranks that are not adjacent have the same name.
    pub(super) fn enter(
        &mut self,
        by_rank: Vec<String>,
        ranks: &[String],
        place: impl FnOnce() -> String,
    ) -> Result<u32, TaxonFault> {
        if let Some(&number) = self.numbers.get(&by_rank) {
            return Ok(number);
        }
        let missing = MissingRank::of_names(&by_rank, ranks);
        let names: Vec<String> = by_rank.iter().filter(|name| !name.trim().is_empty()).cloned().collect();
        if names.is_empty() {
            let detail = format!("no name at the ranks {}; expected at least one", ranks.join(", "));
            return Err((Cause::NoChain, detail));
        }
        // Adjacent ranks may have the same name, such as a family and its only genus in common names.
        let mut known = HashSet::new();
        let mut last = None;
        if let Some(again) =
            names.iter().find(|name| last.replace(name.as_str()) != Some(name.as_str()) && !known.insert(*name))
        {
            let detail = format!("`{again}` is above itself in {}; expected no cycle", names.join(" > "));
            return Err((Cause::BadRecord, detail));
        }
        let number = self.paths.len() as u32;
        self.numbers.insert(by_rank, number);
        self.paths.push(TaxonPath { names, missing });
        self.places.push(place());
        Ok(number)
    }

    /// Detects cycles across several paths: `A > B` in one path and `B > A` in another. The same name below two parents
    /// (genera of two kingdoms) is allowed.
    ///
    /// # Errors
    /// A cycle; the message contains the file and line of each of its edges.
    pub(super) fn check(&self) -> Result<()> {
        let mut below: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
        for (number, path) in self.paths.iter().enumerate() {
            for pair in path.names.windows(2).filter(|pair| pair[0] != pair[1]) {
                below.entry(&pair[0]).or_default().entry(&pair[1]).or_insert(number);
            }
        }
        // Topological sort (Kahn): remove names without a parent. The names that remain are on a cycle or below a
        // cycle.
        let mut above: HashMap<&str, usize> = HashMap::new();
        for child in below.values().flat_map(|children| children.keys().copied()) {
            *above.entry(child).or_default() += 1;
        }
        let mut free: Vec<&str> = below.keys().copied().filter(|name| !above.contains_key(name)).collect();
        while let Some(name) = free.pop() {
            for child in below.remove(name).into_iter().flatten().map(|(child, _)| child) {
                if let Some(count) = above.get_mut(child) {
                    *count -= 1;
                    if *count == 0 {
                        free.push(child);
                    }
                }
            }
        }
        // A remaining name may be below a cycle rather than on it. Following its parents leads into the cycle.
        let Some((&start, _)) = below.first_key_value() else { return Ok(()) };
        let mut parents: HashMap<&str, &str> = HashMap::new();
        for (parent, children) in &below {
            children.keys().for_each(|&child| _ = parents.entry(child).or_insert(parent));
        }
        let up = |name: &str| parents.get(name).copied();
        let inside = std::iter::successors(Some(start), |name| up(name)).nth(below.len()).unwrap_or(start);
        let mut links = Vec::new();
        let mut child = inside;
        while let Some(parent) = up(child) {
            links.push(format!("`{parent}` > `{child}` ({})", self.places[below[parent][child]]));
            child = parent;
            if child == inside {
                break;
            }
        }
        links.reverse();
        Err(Error::Hierarchy { found: format!("a cycle, {}", links.join(", ")), expected: "no cycle".to_owned() })
    }

    pub(super) fn get(&self, number: u32) -> &TaxonPath {
        &self.paths[number as usize]
    }
}

impl TaxonPath {
    /// Genus and species, if the path has names at both of the last two of `ranks` ranks.
    pub(super) fn genus_and_species(&self, ranks: usize) -> Option<[&String; 2]> {
        match &self.names[..] {
            [.., genus, species] if self.missing.iter().all(|it| it.position + 2 < ranks) => Some([genus, species]),
            _ => None,
        }
    }

    /// The class name of a photo without a label.
    fn class_name(&self) -> String {
        let ranks = self.names.len() + self.missing.len();
        match (self.missing.is_empty(), self.genus_and_species(ranks)) {
            (false, None) => self.names.last().cloned().unwrap_or_default(),
            _ => class_name(&self.names),
        }
    }
}

/// Cause and message for a photo without a valid taxonomic path.
pub(super) type TaxonFault = (Cause, String);

impl TaxonPhotos {
    /// # Errors
    /// A cycle, or no photo. `place` returns the location and the expected content for the message about missing
    /// photos.
    pub(super) fn new(
        kind: &'static str,
        split: Option<String>,
        rows: Vec<TaxonRow>,
        paths: TaxonPaths,
        place: impl FnOnce() -> (String, String),
    ) -> Result<Self> {
        if rows.is_empty() {
            let (place, expected) = place();
            return Err(Error::Empty { place, expected });
        }
        paths.check()?;
        let mut views = Vec::new();
        views.push(if rows.iter().any(|row| row.caption.is_some()) { View::Pair } else { View::Photo });
        views.extend(paths.paths.iter().any(|path| path.names.len() > 1).then_some(View::Chain));
        let mut hash = Sha256::new();
        for row in &rows {
            let path = row.path.as_ref().ok().map(|&number| paths.get(number));
            let names = path.into_iter().flat_map(|path| &path.names);
            let missing = path.into_iter().flat_map(|path| &path.missing).map(|it| &it.name);
            let texts = [&row.id].into_iter().chain(names).chain(&row.label).chain(&row.caption).chain(missing);
            for text in texts {
                hash.update(text);
                hash.update([0]);
            }
            hash.update([1]);
        }
        Ok(Self { kind, split, rows, paths, views, fingerprint: hex::encode(hash.finalize()) })
    }
}

impl Source for TaxonPhotos {
    fn name(&self) -> &str {
        self.kind
    }

    fn len(&self) -> usize {
        self.rows.len()
    }

    fn get(&self, index: usize) -> Result<Sample, Broken> {
        let row = &self.rows[index];
        let path = match &row.path {
            Ok(number) => self.paths.get(*number),
            Err(broken) => return Err((**broken).clone()),
        };
        let sample = Sample {
            id: row.id.clone(),
            image: Some(ImageRef::File(row.image.clone())),
            captions: row.caption.iter().cloned().collect(),
            label: Some(row.label.clone().unwrap_or_else(|| path.class_name())),
            taxon: path.names.clone(),
            missing_ranks: path.missing.clone(),
            common_name: row.common_name.clone(),
            split: self.split.clone(),
            ..Sample::default()
        };
        sample.check()?;
        Ok(sample)
    }

    fn lists_files(&self) -> bool {
        self.kind == inat_folders::ENTRY.kind
    }

    fn class_tree(&self) -> Option<Tree> {
        let readable = self.rows.iter().filter_map(|row| Some((row, row.path.as_ref().ok()?)));
        let classes: Vec<(&[String], String)> = readable
            .map(|(row, &number)| {
                let path = self.paths.get(number);
                (&path.names[..], row.label.clone().unwrap_or_else(|| path.class_name()))
            })
            .collect();
        class_tree(classes.iter().map(|(taxon, label)| (*taxon, label.as_str())))
    }

    fn views(&self) -> &[View] {
        &self.views
    }

    fn fingerprint(&self) -> String {
        self.fingerprint.clone()
    }
}

/// The seven ranks used by BioCLIP, RCME and iNaturalist.
pub(super) const RANKS: [&str; 7] = ["kingdom", "phylum", "class", "order", "family", "genus", "species"];

/// The class name of a taxon without a label: its last name. An epithet alone ("abbotti") is ambiguous, so a species
/// gets genus and epithet. The last name counts as an epithet if it is one lower-case word after one capitalised word.
pub fn class_name(taxon: &[String]) -> String {
    let begins = |name: &str, is: fn(char) -> bool| name.chars().next().is_some_and(is);
    match taxon {
        [.., genus, epithet]
            if begins(genus, char::is_uppercase)
                && begins(epithet, char::is_lowercase)
                && !genus.contains(char::is_whitespace)
                && !epithet.contains(char::is_whitespace) =>
        {
            format!("{genus} {epithet}")
        }
        [.., last] => last.clone(),
        [] => String::new(),
    }
}

/// The class name of a species. An epithet alone is ambiguous: "alba" is the epithet of many species.
pub(super) fn binomial([genus, epithet]: [&String; 2]) -> String {
    format!("{genus} {epithet}")
}

/// The seven names in a folder name of iNaturalist 2021,
/// `00007_Animalia_Arthropoda_Arachnida_Araneae_Araneidae_Agalenatea_redii`.
pub(super) fn inat_names(folder: &str) -> Result<Vec<String>, String> {
    let parts: Vec<_> = folder.splitn(8, '_').collect();
    match &parts[..] {
        [number, names @ ..]
            if names.len() == 7 && number.chars().all(|c| c.is_ascii_digit()) && !number.is_empty() =>
        {
            Ok(names.iter().map(|name| name.replace('_', " ")).collect())
        }
        _ => Err(format!("folder `{folder}`; expected NNNNN_Kingdom_Phylum_Class_Order_Family_Genus_species")),
    }
}

/// A broken photo whose taxon cannot be read. `place` is the file and line.
pub(super) fn no_taxon(id: &str, place: &str, (cause, detail): TaxonFault) -> Box<Broken> {
    let at = if place.is_empty() { String::new() } else { format!("{place}: ") };
    Box::new(Broken::new(id, cause, format!("{at}{detail}")))
}
