//! TreeOfLife-10M shards as packed by BioCLIP (<https://github.com/Imageomics/bioclip>): photos with text members.
//!
//! The taxon comes from the first of these members that exists (a `.taxonTag.txt` must begin with a rank):
//! * `.taxonTag.txt` ("a photo of kingdom Animalia phylum Chordata ... ."). A rank without a name is missing.
//! * `.taxonomic_name.txt` ("Animalia Chordata ... Turdus merula"), then `.taxon.txt` ("a photo of Animalia Chordata
//!   ... ."). The first six words are kingdom to genus, the rest is the epithet. Missing ranks cannot be detected.
//!
//! A photo that is identified to a higher rank only has a taxon with fewer names. The label is genus and epithet if
//! both are known, or else the last available name. `.common_name.txt` contains the common name.

use conifer_data::hierarchy::Tree;
use conifer_data::hierarchy::ranks::of_samples;
use conifer_data::shard::Shards;
use conifer_data::sources::name_list;
use conifer_data::{Broken, Cause, MissingRank, Result, Sample, Source, SourceEntry, SourceSpec, View};
use serde::Deserialize;

use super::taxa::{RANKS, binomial};

pub(super) const ENTRY: SourceEntry = SourceEntry {
    kind: "tree_of_life",
    summary: "TreeOfLife WebDataset shards: photos with seven ranks and captions",
    inputs: "path: pattern of .tar shards; options: text (caption members, separated by commas; members that do not exist are skipped; default \
             sci, com, taxon, sci_com, taxon_com)",
    read: |spec| Ok(Box::new(TreeOfLife::open(spec)?)),
};

/// Shards of photos with taxa.
pub struct TreeOfLife {
    shards: Shards,
    options: TreeOfLifeOptions,
}

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct TreeOfLifeOptions {
    /// Names of members without `.txt`.
    #[serde(deserialize_with = "name_list")]
    text: Vec<String>,
}

impl Default for TreeOfLifeOptions {
    fn default() -> Self {
        Self { text: ["sci", "com", "taxon", "sci_com", "taxon_com"].map(str::to_owned).into() }
    }
}

impl TreeOfLife {
    /// Indexes the shards.
    ///
    /// # Errors
    /// The errors of [`Shards::open`]; an option is invalid, or a split is set.
    pub fn open(spec: &SourceSpec) -> Result<Self> {
        let options = spec.parse_options()?;
        spec.no_split()?;
        Ok(Self { shards: Shards::open(spec.need_path()?)?, options })
    }
}

impl Source for TreeOfLife {
    fn name(&self) -> &str {
        ENTRY.kind
    }

    fn len(&self) -> usize {
        self.shards.len()
    }

    fn get(&self, index: usize) -> Result<Sample, Broken> {
        let record = self.shards.record(index)?;
        // The shard reader converts member names to lower case.
        let tagged = record.text("taxontag.txt")?.and_then(|text| Some((tagged(&text)?, text)));
        let (by_rank, text) = match tagged {
            Some(found) => found,
            None => {
                let text = match record.text("taxonomic_name.txt")? {
                    Some(text) => text,
                    None => record.need_text("taxon.txt")?,
                };
                (names(&text), text)
            }
        };
        let missing_ranks = MissingRank::of_names(&by_rank, &RANKS);
        let last_two =
            by_rank.last_chunk::<2>().filter(|it| by_rank.len() == RANKS.len() && !it.contains(&String::new()));
        let full = last_two.map(|[genus, epithet]| binomial([genus, epithet]));
        let taxon: Vec<String> = by_rank.into_iter().filter(|name| !name.is_empty()).collect();
        if taxon.is_empty() {
            let detail = format!("taxon is {text:?}; expected names from general to specific");
            return Err(record.broken(Cause::NoChain, detail));
        }
        let mut captions = Vec::new();
        for member in &self.options.text {
            captions.extend(record.text(&format!("{member}.txt"))?.map(|text| text.trim().to_owned()));
        }
        let common_name = record.text("common_name.txt")?.map(|text| text.trim().to_owned());
        let sample = Sample {
            image: Some(record.need_image("")?),
            captions,
            label: full.or_else(|| taxon.last().cloned()),
            taxon,
            missing_ranks,
            common_name: common_name.filter(|name| !name.is_empty()),
            id: record.key,
            ..Sample::default()
        };
        sample.check()?;
        Ok(sample)
    }

    fn class_tree(&self) -> Option<Tree> {
        of_samples(self)
    }

    fn views(&self) -> &[View] {
        &[View::Pair, View::Chain]
    }

    fn fingerprint(&self) -> String {
        self.shards.fingerprint().to_owned()
    }
}

/// Parses "a photo of kingdom Animalia phylum Chordata ... species merula with common name Blackbird." to a name for
/// each rank, which is empty for a missing rank. `None` if the text does not begin with a rank.
fn tagged(text: &str) -> Option<Vec<String>> {
    let mut found: [Vec<&str>; RANKS.len()] = Default::default();
    let mut now = None;
    for word in bare(text).split_whitespace() {
        // Ranks must occur in order. A later word that equals a higher rank is part of a name.
        match RANKS.iter().position(|&rank| rank == word).filter(|&rank| now.is_none_or(|now| rank > now)) {
            Some(rank) => now = Some(rank),
            None => found[now?].push(word),
        }
    }
    now?;
    Some(found.iter().map(|name| name.join(" ")).collect())
}

/// Strips the words around the names.
fn bare(text: &str) -> &str {
    let text = text.trim();
    let text = text.strip_prefix("a photo of ").unwrap_or(text).trim_end_matches('.');
    text.split(" with common name ").next().unwrap_or(text)
}

/// Parses "a photo of Animalia Chordata Aves Passeriformes Turdidae Turdus merula with common name Blackbird."
fn names(text: &str) -> Vec<String> {
    let words: Vec<_> = bare(text).split_whitespace().collect();
    let ranks = RANKS.len() - 1;
    let mut names: Vec<String> = words.iter().take(ranks).map(|&word| word.to_owned()).collect();
    names.extend((words.len() > ranks).then(|| words[ranks..].join(" ")));
    names
}
