//! Measures noun chunks against the phrases of Flickr30k Entities for Flickr8k: precision, recall and F1 of equal and
//! of overlapping spans, by split. Change the rules on the training photos only.
//!
//!     cargo run --release -p conifer-construct --example phrase_table -- FOLDER [CHUNKS.jsonl] [--errors]
//!
//! FOLDER has captions.csv (image, caption), phrase_boxes.tsv (image, phrase, box) and
//! Flickr_8k.{train,dev,test}Images.txt. CHUNKS.jsonl is a file of `bench/spacy_chunks.py`; without it, the built-in
//! chunker is measured. The published phrases of a photo are those of one of its captions, in order; photos for which
//! no caption, or more than one, has all of them are left out. With --errors, the most frequent heads of wrong chunks
//! and examples of missed phrases are listed.
#![allow(clippy::print_stdout)]

use std::collections::{BTreeMap, HashMap, HashSet};
use std::error::Error;
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use conifer_construct::Hypernyms;
use conifer_construct::grounding::{AbstractNouns, ChunkTable, Chunker};

/// A caption with the character ranges of its published phrases.
struct AnnotatedCaption {
    caption: String,
    phrases: Vec<Range<usize>>,
}

/// Counts of chunks and phrases.
#[derive(Default)]
struct SpanCounts {
    chunks: usize,
    phrases: usize,
    equal: usize,
    chunks_that_overlap: usize,
    phrases_that_overlap: usize,
}

fn main() -> Result<(), Box<dyn Error>> {
    let (flags, paths): (Vec<String>, Vec<String>) = std::env::args().skip(1).partition(|it| it.starts_with("--"));
    let folder = paths.first().ok_or("expected the folder of Flickr8k's captions and phrases")?;
    let chunker = match paths.get(1) {
        Some(path) => Chunker::Table(ChunkTable::read(Path::new(path))?),
        None => Chunker::Rules(Arc::default()),
    };
    let (abstract_nouns, nouns) = (AbstractNouns::default(), Hypernyms::default());
    let photos = annotated(Path::new(folder))?;
    for split in ["train", "dev", "test"] {
        let list = fs::read_to_string(Path::new(folder).join(format!("Flickr_8k.{split}Images.txt")))?;
        let names: HashSet<&str> = list.lines().map(str::trim).collect();
        let captions: Vec<&AnnotatedCaption> =
            photos.iter().filter(|(name, _)| names.contains(name.as_str())).map(|(_, it)| it).collect();
        println!("{split}: {} photos with one annotated caption", captions.len());
        for filtered in [false, true] {
            let mut counts = SpanCounts::default();
            let (mut wrong, mut missed) = (HashMap::<String, usize>::new(), Vec::new());
            for it in &captions {
                let text: Vec<char> = it.caption.chars().collect();
                let words = |span: &Range<usize>| text[span.clone()].iter().collect::<String>();
                let chunks = chunker.chunks(&it.caption).ok_or("the file of chunks lacks a caption")?;
                let mut chunks: Vec<Range<usize>> = chunks.into_iter().map(|chunk| chunk.range).collect();
                chunks.retain(|chunk| !filtered || !abstract_nouns.contains(&words(chunk), &nouns));
                counts.add(&chunks, &it.phrases);
                for chunk in chunks.iter().filter(|chunk| !it.phrases.iter().any(|phrase| overlap(chunk, phrase))) {
                    let head = words(chunk).split(' ').next_back().unwrap_or_default().to_lowercase();
                    *wrong.entry(head).or_default() += 1;
                }
                for phrase in it.phrases.iter().filter(|phrase| !chunks.contains(phrase)) {
                    let found: Vec<String> = chunks.iter().filter(|it| overlap(it, phrase)).map(words).collect();
                    missed.push(format!("{:?} found {found:?} in {}", words(phrase), it.caption));
                }
            }
            let name = if filtered { "without abstract nouns" } else { "all chunks" };
            println!("  {name:<23} {}", counts.table());
            if filtered && flags.iter().any(|it| it == "--errors") {
                let mut wrong: Vec<_> = wrong.into_iter().collect();
                wrong.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
                println!("    heads of chunks without a phrase: {:?}", &wrong[..wrong.len().min(60)]);
                for line in missed.iter().step_by((missed.len() / 60).max(1)) {
                    println!("    missed {line}");
                }
            }
        }
    }
    Ok(())
}

impl SpanCounts {
    fn add(&mut self, chunks: &[Range<usize>], phrases: &[Range<usize>]) {
        self.chunks += chunks.len();
        self.phrases += phrases.len();
        self.equal += chunks.iter().filter(|chunk| phrases.contains(chunk)).count();
        let touches = |span: &Range<usize>, others: &[Range<usize>]| others.iter().any(|other| overlap(span, other));
        self.chunks_that_overlap += chunks.iter().filter(|chunk| touches(chunk, phrases)).count();
        self.phrases_that_overlap += phrases.iter().filter(|phrase| touches(phrase, chunks)).count();
    }

    fn table(&self) -> String {
        let line = |right: usize, found: usize| {
            let (p, r) = (right as f64 / self.chunks.max(1) as f64, found as f64 / self.phrases.max(1) as f64);
            let f = if p + r > 0.0 { 2.0 * p * r / (p + r) } else { 0.0 };
            format!("precision {:.1} recall {:.1} F1 {:.1}", 100.0 * p, 100.0 * r, 100.0 * f)
        };
        format!(
            "equal spans: {}; overlapping: {} ({} chunks, {} phrases)",
            line(self.equal, self.equal),
            line(self.chunks_that_overlap, self.phrases_that_overlap),
            self.chunks,
            self.phrases
        )
    }
}

fn overlap(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start < b.end && b.start < a.end
}

/// For each photo, the caption that has all its published phrases. Photos with no such caption, or several, are left
/// out.
fn annotated(folder: &Path) -> Result<BTreeMap<String, AnnotatedCaption>, Box<dyn Error>> {
    let mut captions: HashMap<String, Vec<String>> = HashMap::new();
    for record in csv::Reader::from_path(folder.join("captions.csv"))?.records() {
        let record = record?;
        captions.entry(record[0].to_owned()).or_default().push(record[1].to_owned());
    }
    let mut phrases: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in fs::read_to_string(folder.join("phrase_boxes.tsv"))?.lines().skip(1) {
        let mut cells = line.split('\t');
        let (Some(photo), Some(phrase)) = (cells.next(), cells.next()) else { continue };
        let of_photo = phrases.entry(photo.to_owned()).or_default();
        // A phrase with several boxes has a line for each.
        if of_photo.last().is_none_or(|last| last != phrase) {
            of_photo.push(phrase.to_owned());
        }
    }
    let total = phrases.len();
    let mut found = BTreeMap::new();
    for (photo, phrases) in phrases {
        let of_photo = captions.get(&photo).map(Vec::as_slice).unwrap_or_default();
        let mut located: Vec<AnnotatedCaption> = of_photo
            .iter()
            .filter_map(|caption| {
                Some(AnnotatedCaption { caption: caption.clone(), phrases: locate(caption, &phrases)? })
            })
            .collect();
        if located.len() == 1 {
            found.extend(located.pop().map(|it| (photo, it)));
        }
    }
    println!("{} of {total} photos have one caption with all published phrases", found.len());
    Ok(found)
}

/// The character ranges of the phrases in a text, in order, as whole words. `None` if a phrase is not found.
fn locate(text: &str, phrases: &[String]) -> Option<Vec<Range<usize>>> {
    let mut from = 0;
    let mut found = Vec::new();
    for phrase in phrases {
        let start = text[from..].match_indices(phrase.as_str()).map(|(at, _)| from + at).find(|&at| {
            let end = at + phrase.len();
            !text[..at].ends_with(char::is_alphanumeric) && !text[end..].starts_with(char::is_alphanumeric)
        })?;
        from = start + phrase.len();
        let first = text[..start].chars().count();
        found.push(first..first + phrase.chars().count());
    }
    Some(found)
}
