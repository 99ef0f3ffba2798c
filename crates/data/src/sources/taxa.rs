//! What the sources of photos with a taxon share: paths of names kept once, and a look at whether they can be a taxonomy.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;

use sha2::{Digest, Sha256};

use super::{Source, inat_folders};
use crate::error::{Error, Result};
use crate::hierarchy::{Tree, class_tree};
use crate::sample::{Broken, Cause, ImageRef, Sample, View};
use crate::shard::hex;

/// Photos, each with a taxon; in memory are their names and every path once.
pub(super) struct Taxa {
    kind: &'static str,
    split: Option<String>,
    rows: Vec<Row>,
    paths: Paths,
    views: Vec<View>,
    fingerprint: String,
}

/// A photo.
pub(super) struct Row {
    pub(super) id: String,
    pub(super) image: PathBuf,
    /// The number of its path, or why it has none.
    pub(super) path: Result<u32, Box<Broken>>,
    pub(super) label: Option<String>,
    pub(super) caption: Option<String>,
}

/// Distinct paths from general to specific, by number, each with the place where it first stands.
#[derive(Default)]
pub(super) struct Paths {
    names: Vec<Vec<String>>,
    places: Vec<String>,
    numbers: HashMap<Vec<String>, u32>,
}

impl Paths {
    /// The number of a path. `place` says where it stands, for messages.
    ///
    /// # Errors
    /// No name, an empty name, or a name that comes again further down; `ranks` are what the names should be, for the message.
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
        // Neighbours may share their name, as the only genus of a family does in common names.
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

    /// Looks for a name that is above itself by way of several paths: `A > B` in one and `B > A` in another. The same name at two places
    /// (genera of two kingdoms) is no fault.
    ///
    /// # Errors
    /// A cycle, with the place of each of its links.
    pub(super) fn check(&self) -> Result<()> {
        let mut below: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
        for (number, names) in self.names.iter().enumerate() {
            for pair in names.windows(2).filter(|pair| pair[0] != pair[1]) {
                below.entry(&pair[0]).or_default().entry(&pair[1]).or_insert(number);
            }
        }
        // Names are taken away while nothing is above them; what remains is in a cycle or below one.
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
        // Names with parts left that no cycle holds lie below one; the way up from there leads into it.
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

impl Taxa {
    /// # Errors
    /// A cycle, or no photo; `place` and `expected` are for the message.
    pub(super) fn new(
        kind: &'static str,
        split: Option<String>,
        rows: Vec<Row>,
        paths: Paths,
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

impl Source for Taxa {
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

/// The seven ranks of BioCLIP, RCME and iNaturalist.
pub(super) const RANKS: [&str; 7] = ["kingdom", "phylum", "class", "order", "family", "genus", "species"];

/// What the class of a taxon is called, where the data give it no name: its last name. An epithet ("abbotti") says nothing without its
/// genus, so a species is called by both. A name is taken for an epithet if it is one word in lower case behind one in upper case.
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

/// The class of a path that ends in genus and epithet: epithets alone ("alba") are shared by many species.
pub(super) fn binomial(names: &[String]) -> Option<String> {
    let [.., genus, epithet] = names else { return None };
    Some(format!("{genus} {epithet}"))
}

/// The seven names in a folder of iNaturalist 2021, `00007_Animalia_Arthropoda_Arachnida_Araneae_Araneidae_Agalenatea_redii`.
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

/// A photo whose taxon cannot be read.
pub(super) fn no_taxon(id: &str, detail: String) -> Box<Broken> {
    Box::new(Broken::new(id, Cause::BadRecord, detail))
}
