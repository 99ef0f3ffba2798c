//! Shared code of sources of photos with taxa: interned taxonomic paths and a check that they form a valid taxonomy.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;

use conifer_data::hierarchy::{Tree, class_tree};
use conifer_data::shard::hex;
use conifer_data::{Broken, Cause, Error, ImageRef, Result, Sample, Source, View};
use sha2::{Digest, Sha256};

use super::inat_folders;

/// Photos with taxa. Memory holds the photo names, and each distinct path once.
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
}

/// Interned paths from general to specific, each with the file and line where it first occurs.
#[derive(Default)]
pub(super) struct TaxonPaths {
    names: Vec<Vec<String>>,
    places: Vec<String>,
    numbers: HashMap<Vec<String>, u32>,
}

impl TaxonPaths {
    /// Interns a path and returns its index. `place` returns the file and line where it occurs; `ranks` are the
    /// expected ranks, for messages.
    ///
    /// # Errors
    /// The path is empty, has an empty name, or has a name that recurs further down.
    pub(super) fn enter(
        &mut self,
        names: Vec<String>,
        ranks: &[String],
        place: impl FnOnce() -> String,
    ) -> Result<u32, String> {
        if let Some(&number) = self.numbers.get(&names) {
            return Ok(number);
        }
        if names.is_empty() {
            return Err("no taxon; expected names from general to specific".to_owned());
        }
        if let Some(empty) = names.iter().position(|name| name.trim().is_empty()) {
            let rank = ranks.get(empty).map_or(String::new(), |rank| format!(" `{rank}`"));
            return Err(format!("rank{rank} is empty in {}; expected a name at every rank", names.join(" > ")));
        }
        // Adjacent ranks may have the same name, such as a family and its only genus in common names.
        let mut known = HashSet::new();
        let mut last = None;
        if let Some(again) =
            names.iter().find(|name| last.replace(name.as_str()) != Some(name.as_str()) && !known.insert(*name))
        {
            return Err(format!("`{again}` is above itself in {}; expected no cycle", names.join(" > ")));
        }
        let number = self.names.len() as u32;
        self.numbers.insert(names.clone(), number);
        self.names.push(names);
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
        for (number, names) in self.names.iter().enumerate() {
            for pair in names.windows(2).filter(|pair| pair[0] != pair[1]) {
                below.entry(&pair[0]).or_default().entry(&pair[1]).or_insert(number);
            }
        }
        // Topological sort (Kahn): remove names without a parent. The names that remain are on a cycle or below one.
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
        // A remaining name may only be below a cycle; following parents from there leads into the cycle.
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

    /// The names of a path.
    pub(super) fn get(&self, number: u32) -> &[String] {
        &self.names[number as usize]
    }
}

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
        views.extend(rows.iter().any(|row| row.caption.is_some()).then_some(View::Pair));
        views.extend(paths.names.iter().any(|names| names.len() > 1).then_some(View::Chain));
        let mut hash = Sha256::new();
        for row in &rows {
            let names = row.path.as_ref().ok().map_or(&[][..], |&number| paths.get(number));
            let texts = [&row.id].into_iter().chain(names).chain(&row.label).chain(&row.caption);
            for text in texts {
                hash.update(text);
                hash.update([0]);
            }
            hash.update([1]);
        }
        Ok(Self { kind, split, rows, paths, views, fingerprint: hex(hash) })
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
        let taxon = match &row.path {
            Ok(number) => self.paths.get(*number).to_vec(),
            Err(broken) => return Err((**broken).clone()),
        };
        let sample = Sample {
            id: row.id.clone(),
            image: Some(ImageRef::File(row.image.clone())),
            captions: row.caption.iter().cloned().collect(),
            label: Some(row.label.clone().unwrap_or_else(|| class_name(&taxon))),
            taxon,
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
                let taxon = self.paths.get(number);
                (taxon, row.label.clone().unwrap_or_else(|| class_name(taxon)))
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

/// The class name of a path that ends in genus and epithet. An epithet alone is ambiguous: many species are called
/// "alba".
pub(super) fn binomial(names: &[String]) -> Option<String> {
    let [.., genus, epithet] = names else { return None };
    Some(format!("{genus} {epithet}"))
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

/// A broken photo whose taxon cannot be read.
pub(super) fn no_taxon(id: &str, detail: String) -> Box<Broken> {
    Box::new(Broken::new(id, Cause::BadRecord, detail))
}
