//! Readers of published class trees with the words of their nodes. [`TREES`] lists the readers.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;

use conifer_data::error::in_one_line;
use conifer_data::files::open_regular;
use conifer_data::hierarchy::{Tree, TreeBuilder};
use conifer_data::{Error, Result};
use serde::Deserialize;

use crate::import::openimages::read_names;

/// The root of the nouns in WordNet 3.0.
const ENTITY: &str = "n00001740";

/// All supported tree formats.
pub const TREES: &[TreeEntry] = &[
    TreeEntry {
        kind: "wordnet",
        summary: "nouns of WordNet 3.0: a folder with data.noun (Debian: /usr/share/wordnet)",
        read: NamedTree::read_wordnet,
    },
    TreeEntry {
        kind: "breeds",
        summary: "the BREEDS hierarchy: a folder with class_hierarchy.txt and node_names.txt",
        read: NamedTree::read_breeds,
    },
    TreeEntry {
        kind: "open_images",
        summary: "classes of Open Images: bbox_labels_600_hierarchy.json; words from class-descriptions-boxable.csv in the same folder",
        read: NamedTree::read_open_images,
    },
    TreeEntry {
        kind: "edges",
        summary: "one parent and child per line (separated by a tab or space), or .jsonl: ImageNet trees, custom trees",
        read: NamedTree::read_edges,
    },
];

/// A supported file format for class trees.
#[derive(Debug)]
pub struct TreeEntry {
    /// Name of the format on the command line.
    pub kind: &'static str,
    /// Short description for help texts.
    pub summary: &'static str,
    /// Reads a file or folder of this format.
    pub read: fn(&Path) -> Result<NamedTree>,
}

/// A tree with words for its nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedTree {
    /// The tree of identifiers: "n" and eight digits in WordNet, "/m/..." in Open Images.
    pub tree: Tree,
    /// Words of each node, the most common first. Empty if the files have no words for the node.
    pub words: Vec<Vec<String>>,
}

/// A node of the Open Images file. A class can occur several times, and an occurrence may lack some of its descendants.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct OpenImagesNode {
    label_name: String,
    #[serde(default)]
    subcategory: Vec<OpenImagesNode>,
    #[serde(default)]
    part: Vec<OpenImagesNode>,
}

impl NamedTree {
    /// Reads a file of edges, without words: see [`Tree::read_edges`].
    ///
    /// # Errors
    /// The errors of [`Tree::read_edges`].
    pub fn read_edges(path: &Path) -> Result<Self> {
        let tree = Tree::read_edges(path)?;
        Ok(Self { words: vec![Vec::new(); tree.len()], tree })
    }

    /// Reads the is-a tree of the boxable classes of Open Images, `bbox_labels_600_hierarchy.json`: nested objects with
    /// `LabelName`, `Subcategory` and `Part`.
    ///
    /// The published hierarchy is a graph. If a class has several parents, the first in the file is used. `Part` edges
    /// are part-of relations, so they are not added to the tree, but the subcategories of a part are. A class that
    /// occurs only as a part is excluded; if it has subcategories, it becomes a second root, which is an error. Words
    /// come from `class-descriptions-boxable.csv` in the same folder, if it exists.
    ///
    /// # Errors
    /// The file cannot be read or has another format, a class is only a part and has subcategories, or the edges form a
    /// cycle.
    pub fn read_open_images(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).map_err(Error::io("read", path))?;
        let root: OpenImagesNode = serde_json::from_str(&text).map_err(|error| {
            let expected = "nested objects with `LabelName`, `Subcategory` and `Part`";
            Error::format(format!("`{}`", path.display()), in_one_line(&error), expected)
        })?;
        let mut builder = TreeBuilder::default();
        let mut placed = HashSet::new();
        // Visits the nodes in the order of the file. Parsing cannot overflow the stack, because serde_json limits the
        // nesting depth.
        let mut stack = vec![&root];
        while let Some(node) = stack.pop() {
            for child in &node.subcategory {
                if placed.insert(&child.label_name) {
                    builder.edge(&node.label_name, &child.label_name)?;
                }
            }
            stack.extend(node.part.iter().rev());
            stack.extend(node.subcategory.iter().rev());
        }
        let names = path.with_file_name("class-descriptions-boxable.csv");
        let names = if names.is_file() { read_names(&names)? } else { HashMap::new() };
        Self::new(builder, names.into_iter().map(|(label, name)| (label, vec![name])).collect())
    }

    /// Reads the nouns of WordNet from the dictionary folder (Debian's package `wordnet-base`: `/usr/share/wordnet`) or
    /// from `data.noun` itself; the format is `wndb(5WN)`.
    ///
    /// The identifier of a node is "n" followed by the offset of its synset. For version 3.0 it equals the ImageNet
    /// identifier. The nouns form a graph. If a noun has several hypernyms, the first in the file is the parent. An
    /// instance (pointer `@i`; for example a river or a person) without a hypernym is below the first class that it is
    /// an instance of.
    ///
    /// # Errors
    /// The file cannot be read, a line has another format, several nouns have no hypernym, or the edges form a cycle.
    pub fn read_wordnet(path: &Path) -> Result<Self> {
        let path = if path.is_dir() { path.join("data.noun") } else { path.to_owned() };
        let file = BufReader::new(open_regular(&path).map_err(Error::io("read", &path))?);
        let mut builder = TreeBuilder::default();
        let mut words = HashMap::new();
        for (number, line) in file.split(b'\n').enumerate() {
            let line = line.map_err(Error::io("read", &path))?;
            // In some editions the glosses are not UTF-8. The fields that are read are ASCII.
            let line = String::from_utf8_lossy(&line);
            // The licence at the top of the file is indented.
            if line.starts_with("  ") || line.trim().is_empty() {
                continue;
            }
            let synset = synset(&line).ok_or_else(|| {
                let head: String = line.chars().take(60).collect();
                let expected = "offset, file, `n`, words, pointers as in wndb(5WN)";
                Error::format(format!("line {} of `{}`", number + 1, path.display()), format!("{head:?}"), expected)
            })?;
            match &synset.parent {
                Some(parent) => builder.edge(parent, &synset.id)?,
                None => _ = builder.number(&synset.id),
            }
            words.insert(synset.id, synset.words);
        }
        Self::new(builder, words)
    }

    /// Reads the BREEDS hierarchy (Santurkar et al.; the "info" folder of its code): `class_hierarchy.txt` with a
    /// parent and a child per line, and `node_names.txt` with a node and its names per line.
    ///
    /// The modified hierarchy is a tree. In the WordNet hierarchy, the parent of a node is the first parent in the
    /// file, and a node without a parent (an instance whose class is not in the file) is placed below "entity", the
    /// root of all nouns.
    ///
    /// # Errors
    /// A file cannot be read, a line has another format, there are several roots, or the edges form a cycle.
    pub fn read_breeds(folder: &Path) -> Result<Self> {
        let read = |name: &str| {
            let path = folder.join(name);
            fs::read_to_string(&path).map_err(Error::io("read", &path)).map(|text| (path, text))
        };
        let fault = |path: &Path, number: usize, line: &str, expected: &str| {
            Error::format(format!("line {} of `{}`", number + 1, path.display()), format!("{line:?}"), expected)
        };
        let (path, text) = read("class_hierarchy.txt")?;
        let mut builder = TreeBuilder::default();
        let mut placed = HashSet::new();
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let [parent, child] = line.split_whitespace().collect::<Vec<_>>()[..] else {
                return Err(fault(&path, number, line, "a parent and a child"));
            };
            if placed.insert(child) {
                builder.edge(parent, child)?;
            }
        }
        if builder.names().iter().any(|it| it == ENTITY) {
            let roots: Vec<_> =
                builder.names().iter().filter(|it| *it != ENTITY && !placed.contains(it.as_str())).cloned().collect();
            roots.iter().try_for_each(|root| builder.edge(ENTITY, root))?;
        }
        let (path, text) = read("node_names.txt")?;
        let mut words = HashMap::new();
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let Some((node, names)) = line.split_once('\t') else {
                return Err(fault(&path, number, line, "a node, a tab and its names"));
            };
            words.insert(node.to_owned(), names.split(", ").map(|name| name.trim().to_owned()).collect());
        }
        Self::new(builder, words)
    }

    /// Words of a node, the most common first. Empty if the files have no words for the node.
    pub fn words(&self, node: usize) -> &[String] {
        &self.words[node]
    }

    /// Returns the node with this identifier, or the only node with this word.
    ///
    /// # Errors
    /// No node or several nodes have this word. The message lists the nodes.
    pub fn find(&self, name: &str) -> Result<usize> {
        if let Some(node) = self.tree.find(name) {
            return Ok(node);
        }
        let found: Vec<_> = (0..self.tree.len()).filter(|&node| self.words[node].iter().any(|it| it == name)).collect();
        match found[..] {
            [node] => Ok(node),
            [] => self.tree.get(name),
            _ => {
                let ids: Vec<_> = found.iter().map(|&node| format!("`{}`", self.tree.name(node))).collect();
                let found = format!("{} nodes called `{name}`: {}", ids.len(), ids.join(", "));
                Err(Error::Hierarchy { found, expected: "one of them".to_owned() })
            }
        }
    }

    /// A unique label of each node: its first word. If the word is ambiguous, the identifier is appended. Without a
    /// word, the identifier alone is the label.
    pub fn labels(&self) -> Vec<String> {
        let mut uses: HashMap<&str, usize> = HashMap::new();
        self.words.iter().filter_map(|words| words.first()).for_each(|word| *uses.entry(word).or_default() += 1);
        let label = |node: usize| {
            let name = self.tree.name(node);
            match self.words[node].first() {
                None => name.to_owned(),
                Some(word) if uses[word.as_str()] == 1 && (word == name || self.tree.find(word).is_none()) => {
                    word.clone()
                }
                Some(word) => format!("{word} ({name})"),
            }
        };
        (0..self.tree.len()).map(label).collect()
    }

    fn new(builder: TreeBuilder, mut words: HashMap<String, Vec<String>>) -> Result<Self> {
        let tree = builder.finish()?;
        let words = (0..tree.len()).map(|node| words.remove(tree.name(node)).unwrap_or_default()).collect();
        Ok(Self { tree, words })
    }
}

struct Synset {
    id: String,
    words: Vec<String>,
    parent: Option<String>,
}

/// Parses `offset lex_filenum ss_type w_cnt (word lex_id)... p_cnt (symbol offset pos source/target)... | gloss`. The
/// field `w_cnt` is hexadecimal. `None` if the line is not a noun synset of this form.
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
    use conifer_data::fixtures::{FixtureFolder, shared_data};

    use super::*;

    /// Made-up lines in the WordNet 3.0 format: an entity, two of its children, a dog below both, and an instance of
    /// dog.
    const NOUNS: &str = "  1 This software and database is being provided to you.\n\
        00001740 03 n 01 entity 0 002 ~ 00001930 n 0000 ~ 00002137 n 0000 | that which exists | or not\n\
        00001930 03 n 01 physical_entity 0 001 @ 00001740 n 0000 | a thing\n\
        00002137 03 n 02 abstraction 0 abstract_entity 0 001 @ 00001740 n 0000 | a concept\n\
        02084071 05 n 0a dog 0 b 0 c 0 d 0 e 0 f 0 g 0 h 0 i 0 domestic_dog 0 003 ~ 02085374 n 0000 @ 00001930 n 0000 @ 00002137 n 0000 | barks\n\
        02085374 05 n 01 Rex 0 001 @i 02084071 n 0000 | a dog\n";

    #[test]
    fn wordnet_nodes_are_below_their_first_hypernym() {
        let folder = FixtureFolder::new();
        folder.write("data.noun", NOUNS);
        let NamedTree { tree, words } = NamedTree::read_wordnet(folder.path()).unwrap();
        let path = |name: &str| tree.path(tree.get(name).unwrap()).iter().map(|&n| tree.name(n)).collect::<Vec<_>>();
        assert_eq!(path("n02085374"), ["n00001740", "n00001930", "n02084071", "n02085374"]);
        let dog = &words[tree.get("n02084071").unwrap()];
        assert_eq!((dog.len(), &*dog[0], &*dog[9]), (10, "dog", "domestic dog"));
        assert_eq!(words[tree.get("n00002137").unwrap()], ["abstraction", "abstract entity"]);
    }

    #[test]
    fn malformed_lines_are_reported_with_their_number() {
        let folder = FixtureFolder::new();
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
    fn breeds_nodes_are_below_their_first_parent() {
        let folder = FixtureFolder::new();
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
    fn open_images_nodes_are_below_their_first_parent() {
        let folder = FixtureFolder::new();
        let path = folder.write(
            "hierarchy.json",
            r#"{"LabelName": "/m/0", "Subcategory": [
                {"LabelName": "/m/house", "Part": [{"LabelName": "/m/oven", "Subcategory": [{"LabelName": "/m/gas"}]}]},
                {"LabelName": "/m/device", "Subcategory": [{"LabelName": "/m/oven"}, {"LabelName": "/m/gas"}]}]}"#,
        );
        let named = NamedTree::read_open_images(&path).unwrap();
        let above = |name: &str| named.tree.name(named.tree.parent(named.tree.get(name).unwrap()).unwrap());
        assert_eq!((above("/m/oven"), above("/m/gas"), above("/m/house")), ("/m/device", "/m/oven", "/m/0"));
        assert_eq!(named.labels()[0], "/m/0");
        folder.write("class-descriptions-boxable.csv", "/m/oven,Oven\n/m/gas,Oven\n/m/device,Device\n");
        let named = NamedTree::read_open_images(&path).unwrap();
        let labels = named.labels();
        for (name, label) in [("/m/oven", "Oven (/m/oven)"), ("/m/device", "Device"), ("/m/house", "/m/house")] {
            assert_eq!(labels[named.find(name).unwrap()], label);
        }
        assert_eq!(named.find("Device").unwrap(), named.tree.get("/m/device").unwrap());
        let text = named.find("Oven").unwrap_err().to_string();
        assert!(text.contains("2 nodes called `Oven`: `/m/oven`, `/m/gas`"), "{text}");
        assert!(named.find("Boat").unwrap_err().to_string().contains("no node `Boat`"));

        let read = |text: &str| NamedTree::read_open_images(&folder.write("x.json", text)).unwrap_err().to_string();
        assert!(read(r#"{"Subcategory": []}"#).contains("`LabelName`"));
        assert!(read("[").contains("x.json"));
        assert!(read(r#"{"LabelName": "/m/0"}"#).contains("no edges"));
        let below = r#"{"LabelName": "/m/0", "Part": [{"LabelName": "a", "Subcategory": [{"LabelName": "b"}]}],
            "Subcategory": [{"LabelName": "c"}]}"#;
        assert!(read(below).contains("several roots"));
    }

    #[test]
    fn published_hierarchies() {
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
        let Some(path) = shared_data("openimages/bbox_labels_600_hierarchy.json") else { return };
        let named = NamedTree::read_open_images(&path).unwrap();
        let oven = named.find("Oven").unwrap();
        let path: Vec<_> = named.tree.path(oven).into_iter().map(|node| named.labels()[node].clone()).collect();
        assert_eq!(path, ["/m/0bl9f", "Home appliance", "Oven"]);
        assert_eq!(named.tree.len(), 602);
    }

    /// Uses Debian's WordNet package if it is installed.
    #[test]
    fn published_wordnet() {
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
