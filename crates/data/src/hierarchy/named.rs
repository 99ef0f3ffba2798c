//! Trees whose nodes are numbers of WordNet ("n02084071"), with the words people use for them: WordNet itself, and the hierarchy of BREEDS.
//! Trees over the classes of ImageNet without words are files of edges: [`Tree::read_edges`].

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::Path;

use super::{Draft, Tree};
use crate::error::{Error, Result};

/// The noun above all others in WordNet 3.0.
const ENTITY: &str = "n00001740";

/// A tree of numbered nodes and their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedTree {
    /// By number: "n" and eight digits in WordNet.
    pub tree: Tree,
    /// By node of the tree; the most usual word first. Empty where the files give none.
    pub words: Vec<Vec<String>>,
}

impl NamedTree {
    /// The nouns of WordNet, from the folder of its dictionary (Debian's package `wordnet-base`: `/usr/share/wordnet`) or from `data.noun`
    /// itself; the format is `wndb(5WN)`. Nodes are "n" and the offset, as in ImageNet when the version is 3.0. Nouns are no tree but a
    /// graph: of several hypernyms the first in the file is the parent, and an instance (`@i`: a river, a person) is below its first class
    /// where it has no hypernym.
    ///
    /// # Errors
    /// A file that cannot be read, a line (named by its number) of another format, several nouns without a hypernym, a cycle.
    pub fn read_wordnet(path: &Path) -> Result<Self> {
        let path = if path.is_dir() { path.join("data.noun") } else { path.to_owned() };
        let file = BufReader::new(File::open(&path).map_err(Error::io("read", &path))?);
        let mut draft = Draft::default();
        let mut words = HashMap::new();
        for (number, line) in file.split(b'\n').enumerate() {
            let line = line.map_err(Error::io("read", &path))?;
            // Glosses hold other encodings in some editions; what is read of a line is ASCII.
            let line = String::from_utf8_lossy(&line);
            // The licence stands at the top, indented.
            if line.starts_with("  ") || line.trim().is_empty() {
                continue;
            }
            let synset = synset(&line).ok_or_else(|| {
                let head: String = line.chars().take(60).collect();
                let expected = "offset, file, `n`, words, pointers as in wndb(5WN)";
                Error::format(format!("line {} of `{}`", number + 1, path.display()), format!("{head:?}"), expected)
            })?;
            match &synset.parent {
                Some(parent) => draft.edge(parent, &synset.id)?,
                None => _ = draft.number(&synset.id),
            }
            words.insert(synset.id, synset.words);
        }
        Self::new(draft, words)
    }

    /// The hierarchy of BREEDS (Santurkar et al.; its code's "info" folder): `class_hierarchy.txt`, a parent and a child a line, and
    /// `node_names.txt`, a node and its names a line. The modified hierarchy is a tree; in the one of WordNet a node keeps the parent that the
    /// file names first, and what has none (instances: their classes are not in the file) is put below entity, which is above every noun.
    ///
    /// # Errors
    /// A file that cannot be read, a line (named by its number) of another format, several roots, a cycle.
    pub fn read_breeds(folder: &Path) -> Result<Self> {
        let read = |name: &str| {
            let path = folder.join(name);
            fs::read_to_string(&path).map_err(Error::io("read", &path)).map(|text| (path, text))
        };
        let fault = |path: &Path, number: usize, line: &str, expected: &str| {
            Error::format(format!("line {} of `{}`", number + 1, path.display()), format!("{line:?}"), expected)
        };
        let (path, text) = read("class_hierarchy.txt")?;
        let mut draft = Draft::default();
        let mut placed = HashSet::new();
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let [parent, child] = line.split_whitespace().collect::<Vec<_>>()[..] else {
                return Err(fault(&path, number, line, "a parent and a child"));
            };
            if placed.insert(child) {
                draft.edge(parent, child)?;
            }
        }
        if draft.numbers.contains_key(ENTITY) {
            let roots: Vec<_> =
                draft.names.iter().filter(|it| *it != ENTITY && !placed.contains(it.as_str())).cloned().collect();
            roots.iter().try_for_each(|root| draft.edge(ENTITY, root))?;
        }
        let (path, text) = read("node_names.txt")?;
        let mut words = HashMap::new();
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let Some((node, names)) = line.split_once('\t') else {
                return Err(fault(&path, number, line, "a node, a tab and its names"));
            };
            words.insert(node.to_owned(), names.split(", ").map(|name| name.trim().to_owned()).collect());
        }
        Self::new(draft, words)
    }

    /// The words of a node; empty where there are none.
    pub fn words(&self, node: usize) -> &[String] {
        &self.words[node]
    }

    fn new(draft: Draft, mut words: HashMap<String, Vec<String>>) -> Result<Self> {
        let tree = draft.finish()?;
        let words = (0..tree.len()).map(|node| words.remove(tree.name(node)).unwrap_or_default()).collect();
        Ok(Self { tree, words })
    }
}

/// A line of `data.noun`.
struct Synset {
    id: String,
    words: Vec<String>,
    parent: Option<String>,
}

/// `offset lex_filenum ss_type w_cnt (word lex_id)... p_cnt (symbol offset pos source/target)... | gloss`; `w_cnt` is hexadecimal.
fn synset(line: &str) -> Option<Synset> {
    let offset = |text: &str| {
        let digits = text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| format!("n{text}"))
    };
    let mut fields = line.split(" | ").next()?.split_whitespace();
    let id = offset(fields.next()?)?;
    let (_, kind) = (fields.next()?, fields.next()?);
    if kind != "n" {
        return None;
    }
    let mut words = Vec::new();
    for _ in 0..usize::from_str_radix(fields.next()?, 16).ok()? {
        words.push(fields.next()?.replace('_', " "));
        fields.next()?;
    }
    let (mut hypernym, mut class) = (None, None);
    for _ in 0..fields.next()?.parse::<usize>().ok()? {
        let (symbol, target) = (fields.next()?, fields.next()?);
        fields.next()?;
        fields.next()?;
        match symbol {
            "@" if hypernym.is_none() => hypernym = Some(offset(target)?),
            "@i" if class.is_none() => class = Some(offset(target)?),
            _ => {}
        }
    }
    Some(Synset { id, words, parent: hypernym.or(class) })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::fixtures::{Folder, shared_data};

    /// Lines in the format of WordNet 3.0, made up: an entity, two things, a dog of both, a dog that is an instance.
    const NOUNS: &str = "  1 This software and database is being provided to you.\n\
        00001740 03 n 01 entity 0 002 ~ 00001930 n 0000 ~ 00002137 n 0000 | that which exists | or not\n\
        00001930 03 n 01 physical_entity 0 001 @ 00001740 n 0000 | a thing\n\
        00002137 03 n 02 abstraction 0 abstract_entity 0 001 @ 00001740 n 0000 | a concept\n\
        02084071 05 n 0a dog 0 b 0 c 0 d 0 e 0 f 0 g 0 h 0 i 0 domestic_dog 0 003 ~ 02085374 n 0000 @ 00001930 n 0000 @ 00002137 n 0000 | barks\n\
        02085374 05 n 01 Rex 0 001 @i 02084071 n 0000 | a dog\n";

    #[test]
    fn wordnet_by_first_hypernyms() {
        let folder = Folder::new();
        folder.write("data.noun", NOUNS);
        let NamedTree { tree, words } = NamedTree::read_wordnet(folder.path()).unwrap();
        let path = |name: &str| tree.path(tree.get(name).unwrap()).iter().map(|&n| tree.name(n)).collect::<Vec<_>>();
        assert_eq!(path("n02085374"), ["n00001740", "n00001930", "n02084071", "n02085374"]);
        let dog = &words[tree.get("n02084071").unwrap()];
        assert_eq!((dog.len(), &*dog[0], &*dog[9]), (10, "dog", "domestic dog"));
        assert_eq!(words[tree.get("n00002137").unwrap()], ["abstraction", "abstract entity"]);
    }

    #[test]
    fn lines_that_are_no_nouns_are_named() {
        let folder = Folder::new();
        let read = |text: &str| NamedTree::read_wordnet(&folder.write("data.noun", text)).unwrap_err().to_string();
        let text = read(&NOUNS.replace("n 01 physical", "v 01 physical"));
        assert!(text.contains("line 3 of ") && text.contains("\"00001930 03 v 01 physical_entity"), "{text}");
        assert!(text.ends_with("; expected offset, file, `n`, words, pointers as in wndb(5WN)"), "{text}");
        assert!(read(&NOUNS.replace("Rex 0 001", "Rex 0 002")).contains("line 6 of "));
        assert!(read(&NOUNS.replace("0 001 @ 00001740 n 0000 | a thing", "0 000 | a thing")).contains("several roots"));
        let circle = NOUNS.replace("@ 00001740 n 0000 | a thing", "@ 02085374 n 0000 | a thing");
        assert!(read(&circle).contains("a cycle, `n0"));
        assert!(read("").contains("no edges"));
    }

    #[test]
    fn breeds_by_first_parents() {
        let folder = Folder::new();
        folder.write("node_names.txt", "a\tthing\nb\tdog, domestic dog\n");
        folder.write("class_hierarchy.txt", "a b\na c\nb d\nc d\n");
        let NamedTree { tree, words } = NamedTree::read_breeds(folder.path()).unwrap();
        assert_eq!(tree.name(tree.parent(tree.get("d").unwrap()).unwrap()), "b");
        assert_eq!(words[tree.get("b").unwrap()], ["dog", "domestic dog"]);
        assert!(words[tree.get("c").unwrap()].is_empty());
        folder.write("class_hierarchy.txt", "a b\nc d\n");
        assert!(NamedTree::read_breeds(folder.path()).unwrap_err().to_string().contains("several roots: `a`, `c`"));
        folder.write("class_hierarchy.txt", "c d\nn00001740 b\n");
        let tree = NamedTree::read_breeds(folder.path()).unwrap().tree;
        assert_eq!((tree.name(0), tree.depth(tree.get("d").unwrap())), (ENTITY, 2));
        folder.write("class_hierarchy.txt", "a b\na\n");
        let text = NamedTree::read_breeds(folder.path()).unwrap_err().to_string();
        assert!(text.contains("line 2 of ") && text.ends_with(": \"a\"; expected a parent and a child"), "{text}");
    }

    #[test]
    fn hierarchies_as_published() {
        let (Some(breeds), Some(wordnet), Some(imagenet)) = (
            shared_data("breeds/modified"),
            shared_data("breeds/wordnet"),
            shared_data("imagenet_hierarchy/cvjena/ILSVRC/wordnet.parent-child.mintree.txt"),
        ) else {
            return;
        };
        let NamedTree { tree, words } = NamedTree::read_breeds(&breeds).unwrap();
        assert_eq!((tree.len(), tree.name(0), &*words[0][0], tree.leaves().count()), (1328, ENTITY, "entity", 890));
        let whole = NamedTree::read_breeds(&wordnet).unwrap();
        assert_eq!((whole.tree.len(), whole.tree.name(0), &*whole.words[0][0]), (74_401, ENTITY, "entity"));
        let dog = whole.tree.get("n02084071").unwrap();
        assert_eq!(whole.words(dog)[0], "dog");
        assert!(whole.tree.is_ancestor(whole.tree.get("n00001930").unwrap(), dog));
        assert_eq!(Tree::read_edges(&imagenet).unwrap().len(), 1785);
    }

    /// Debian's package, where it is installed.
    #[test]
    fn wordnet_as_published() {
        let folder = Path::new("/usr/share/wordnet");
        if !folder.join("data.noun").exists() {
            eprintln!("skipped: {} not found", folder.display());
            return;
        }
        let whole = NamedTree::read_wordnet(folder).unwrap();
        // WordNet 3.0 has 82,115 nouns.
        assert_eq!((whole.tree.len(), whole.words(0)), (82_115, &["entity".to_owned()][..]));
        let dog = whole.tree.get("n02084071").unwrap();
        assert_eq!(whole.words(dog)[0], "dog");
    }
}
