//! The BREEDS tasks (Santurkar et al. 2021): superclasses at one level of the hierarchy, with ImageNet classes as
//! subclasses.

mod mersenne;

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::Path;

use conifer_data::error::in_one_line;
use conifer_data::{Error, Result};

use crate::class_trees::NamedTree;
use mersenne::Mersenne;

/// The seed of the four published tasks.
const SEED: u32 = 2;

/// The four published tasks.
pub const BREEDS_TASKS: &[BreedsTask] = &[
    BreedsTask { name: "entity13", level: 3, ancestor: None, subclasses: 20 },
    BreedsTask { name: "entity30", level: 4, ancestor: None, subclasses: 8 },
    BreedsTask { name: "living17", level: 5, ancestor: Some("n00004258"), subclasses: 4 },
    BreedsTask { name: "nonliving26", level: 5, ancestor: Some("n00021939"), subclasses: 4 },
];

/// Definition of a task. Its superclasses are the nodes of a level that have enough subclasses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreedsTask {
    /// The published name, in lower case.
    pub name: &'static str,
    /// Depth of the superclasses (number of edges from the root).
    pub level: usize,
    /// If set, only this node and its descendants can be superclasses.
    pub ancestor: Option<&'static str>,
    /// Number of subclasses of each superclass. Superclasses with fewer subclasses are excluded. If a superclass has
    /// more subclasses, a random subset is drawn.
    pub subclasses: usize,
}

/// How the subclasses of a superclass are divided into a source and a target domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BreedsSplit {
    /// All subclasses are in the source domain.
    #[default]
    None,
    /// A random half of the subclasses is in each domain.
    Rand,
    /// Similar subclasses are divided between both domains.
    Good,
    /// Similar subclasses are in the same domain.
    Bad,
}

/// A superclass with its subclasses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superclass {
    /// WordNet identifier of the node.
    pub wnid: String,
    /// Source subclasses: indices in [`BreedsHierarchy::classes`], in the order of the draw.
    pub source: Vec<usize>,
    /// Target subclasses; empty for [`BreedsSplit::None`].
    pub target: Vec<usize>,
}

/// A class of ImageNet, the data set from which the tasks are derived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BreedsClass {
    /// WordNet identifier, such as "n01614925".
    pub wnid: String,
    /// The names, the most common first: "bald eagle", "American eagle", ...
    pub words: Vec<String>,
}

/// Result of [`BreedsHierarchy::look_up`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameLookup {
    /// The class of this index in [`BreedsHierarchy::classes`].
    Class(usize),
    /// The indices of several classes with this name.
    Several(Vec<usize>),
    /// A node of the hierarchy that is not a class.
    Inner,
    /// Neither a class nor a node of the hierarchy.
    Unknown,
}

/// The "info" folder of BREEDS: its hierarchy and the classes of ImageNet.
#[derive(Clone, Debug)]
pub struct BreedsHierarchy {
    named: NamedTree,
    classes: Vec<BreedsClass>,
    of_wnid: HashMap<String, usize>,
    of_words: HashMap<String, Vec<usize>>,
    inner_words: BTreeSet<String>,
}

impl BreedsHierarchy {
    /// Reads `class_hierarchy.txt` and `node_names.txt` (see [`NamedTree::read_breeds`]), and
    /// `dataset_class_info.json`. The latter is a list of `[number, wnid, "name, other name"]`, numbered from 0. Some
    /// classes of ImageNet are not in the hierarchy.
    ///
    /// # Errors
    /// A file cannot be read or has another format, or a class occurs twice.
    pub fn read(folder: &Path) -> Result<Self> {
        let named = NamedTree::read_breeds(folder)?;
        let path = folder.join("dataset_class_info.json");
        let fault = |found: String, expected: &str| Error::format(format!("`{}`", path.display()), found, expected);
        let text = fs::read_to_string(&path).map_err(Error::io("read", &path))?;
        let rows: Vec<(usize, String, String)> = serde_json::from_str(&text)
            .map_err(|error| fault(in_one_line(&error), "a list of [number, \"wnid\", \"names\"]"))?;
        let mut classes = Vec::with_capacity(rows.len());
        let (mut of_wnid, mut of_words) = (HashMap::new(), HashMap::<String, Vec<usize>>::new());
        for (index, (number, wnid, names)) in rows.into_iter().enumerate() {
            if number != index {
                return Err(fault(
                    format!("class `{wnid}` has number {number}"),
                    &format!("{index}, its position in the list"),
                ));
            }
            if of_wnid.insert(wnid.clone(), index).is_some() {
                return Err(fault(format!("class `{wnid}` twice"), "each class once"));
            }
            let words: Vec<_> = names.split(", ").map(|name| name.trim().to_owned()).collect();
            let spellings: BTreeSet<_> = words.iter().map(|word| spelling(word)).collect();
            spellings.into_iter().for_each(|word| of_words.entry(word).or_default().push(index));
            classes.push(BreedsClass { wnid, words });
        }
        let inner = (0..named.tree.len()).filter(|&node| !of_wnid.contains_key(named.tree.name(node)));
        let inner_words = inner.flat_map(|node| named.words(node)).map(|word| spelling(word)).collect();
        Ok(Self { named, classes, of_wnid, of_words, inner_words })
    }

    /// All classes, in the order of their numbers.
    pub fn classes(&self) -> &[BreedsClass] {
        &self.classes
    }

    /// The display name of a node: its first word, or its identifier if it has none.
    pub fn word<'a>(&'a self, wnid: &'a str) -> &'a str {
        let words = self.named.tree.find(wnid).and_then(|node| self.named.words(node).first());
        words.map_or(wnid, String::as_str)
    }

    /// Looks up a name: a WordNet identifier, or any word of a class regardless of case and word separators
    /// ("BALD_EAGLE").
    pub fn look_up(&self, name: &str) -> NameLookup {
        if let Some(&class) = self.of_wnid.get(name) {
            return NameLookup::Class(class);
        }
        let word = spelling(name);
        match self.of_words.get(&word).map(Vec::as_slice) {
            Some(&[class]) => NameLookup::Class(class),
            Some(several) => NameLookup::Several(several.to_vec()),
            None if self.named.tree.find(name).is_some() || self.inner_words.contains(&word) => NameLookup::Inner,
            None => NameLookup::Unknown,
        }
    }

    /// The superclasses of a task with their subclasses, sorted by identifier. The result equals that of the BREEDS
    /// code (`breeds_helpers.py`, balanced) on the same files.
    ///
    /// # Errors
    /// The hierarchy does not contain the task's ancestor, no superclass has enough subclasses, or the split cannot
    /// divide the subclasses into halves.
    pub fn superclasses(&self, task: &BreedsTask, split: BreedsSplit) -> Result<Vec<Superclass>> {
        let tree = &self.named.tree;
        let below = task.ancestor.map_or(Ok(0), |name| tree.get(name))?;
        let level = tree.subtree(below).filter(|&node| tree.depth(node) == task.level);
        let mut found: Vec<_> = level
            .map(|node| (tree.name(node), node, self.classes_below(node)))
            .filter(|(_, _, classes)| classes.len() >= task.subclasses)
            .collect();
        found.sort_unstable();
        if found.is_empty() {
            let expected = format!("nodes of level {} with {} classes below each", task.level, task.subclasses);
            return Err(Error::Hierarchy { found: format!("no superclass of {}", task.name), expected });
        }
        // All superclasses share one generator, so a draw depends on the previous draws.
        let mut generator = Mersenne::new(SEED);
        found
            .into_iter()
            .map(|(wnid, node, classes)| {
                let [source, target] = match split {
                    BreedsSplit::None => [generator.choose(&classes, task.subclasses), Vec::new()],
                    BreedsSplit::Rand => {
                        let mut source = generator.choose(&classes, task.subclasses / 2 * 2);
                        let target = source.split_off(source.len() / 2);
                        [source, target]
                    }
                    BreedsSplit::Good => good_halves(&self.kinds(node), task.subclasses / 2),
                    BreedsSplit::Bad => bad_halves(&self.kinds(node), task.subclasses / 2),
                };
                let halved = 2 * source.len() == task.subclasses && source.len() == target.len();
                if split != BreedsSplit::None && !halved {
                    return Err(Error::Hierarchy {
                        found: format!("{} and {} subclasses of `{wnid}`", source.len(), target.len()),
                        expected: format!("two halves of {}", task.subclasses),
                    });
                }
                let number = |wnids: Vec<&str>| wnids.into_iter().map(|wnid| self.of_wnid[wnid]).collect();
                Ok(Superclass { wnid: wnid.to_owned(), source: number(source), target: number(target) })
            })
            .collect()
    }

    /// The classes below a node (for a class: itself), sorted.
    fn classes_below(&self, node: usize) -> Vec<&str> {
        let tree = &self.named.tree;
        let names = tree.subtree(node).map(|it| tree.name(it));
        let mut classes: Vec<_> = names.filter(|&name| self.of_wnid.contains_key(name)).collect();
        classes.sort_unstable();
        classes
    }

    /// Groups of classes below `node`. Descends from `node` as long as the node has exactly one child. Each child of
    /// the first node with several children forms a group. The largest group is first; groups of equal size are sorted
    /// by the identifier of the child.
    fn kinds(&self, node: usize) -> Vec<Vec<&str>> {
        let tree = &self.named.tree;
        let children = |node: usize| {
            let mut children: Vec<_> = tree.children(node).map(|child| (tree.name(child), child)).collect();
            children.sort_unstable();
            children
        };
        let mut below = children(node);
        while let [(_, only)] = below[..] {
            below = children(only);
        }
        let groups = below.into_iter().map(|(_, child)| self.classes_below(child));
        let mut groups: Vec<_> = groups.filter(|classes| !classes.is_empty()).collect();
        groups.sort_by_key(|classes| std::cmp::Reverse(classes.len()));
        groups
    }
}

impl BreedsTask {
    /// The task with this name.
    ///
    /// # Errors
    /// No task has this name. The message lists the known tasks.
    pub fn named(name: &str) -> Result<&'static Self> {
        BREEDS_TASKS.iter().find(|task| task.name == name).ok_or_else(|| Error::Unknown {
            what: "task of BREEDS",
            found: name.to_owned(),
            known: BREEDS_TASKS.iter().map(|task| task.name).collect::<Vec<_>>().join(", "),
        })
    }
}

impl BreedsSplit {
    const ALL: [Self; 4] = [Self::None, Self::Rand, Self::Good, Self::Bad];

    /// The name used in options: "none", "rand", "good", "bad".
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Rand => "rand",
            Self::Good => "good",
            Self::Bad => "bad",
        }
    }

    /// The split with this name.
    ///
    /// # Errors
    /// No split has this name. The message lists the known splits.
    pub fn named(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|split| split.name() == name).ok_or_else(|| Error::Unknown {
            what: "split of BREEDS",
            found: name.to_owned(),
            known: Self::ALL.map(Self::name).join(", "),
        })
    }
}

/// Divides each group evenly between source and target. Each of them has at most `half` classes.
fn good_halves<'a>(groups: &[Vec<&'a str>], half: usize) -> [Vec<&'a str>; 2] {
    let [mut source, mut target] = [Vec::new(), Vec::new()];
    for group in groups {
        let (room, other_room) = (half - source.len().min(half), half - target.len().min(half));
        let first = match group.len() {
            1 => room.min(1),
            several => (several / 2).min(room),
        };
        source.extend(&group[..first]);
        target.extend(group[first..].iter().take(other_room));
    }
    [source, target]
}

/// Assigns each group to the source if the source is no larger than the target and not full, otherwise to the target,
/// until both are full. Classes of a group that do not fit into its side are spare classes. At the end they are added
/// to the side that has too few classes.
fn bad_halves<'a>(groups: &[Vec<&'a str>], half: usize) -> [Vec<&'a str>; 2] {
    let [mut source, mut target, mut spare] = [Vec::new(), Vec::new(), Vec::new()];
    for group in groups {
        let side = if source.len() <= target.len() && source.len() < half { &mut source } else { &mut target };
        if side.len() >= half {
            continue;
        }
        let (taken, left) = group.split_at(group.len().min(half - side.len()));
        side.extend(taken);
        spare.extend(left);
    }
    let short = |side: &Vec<&str>| half - side.len();
    let (source_short, target_short) = (short(&source), short(&target));
    // As in the published code, both sides take spare classes from the front. At most one side takes spare classes,
    // because the other side is full.
    source.extend(spare.iter().take(source_short));
    target.extend(spare.iter().take(target_short));
    [source, target]
}

/// Normalises the spelling: letters and digits in lower case, one space between words. "Bald_Eagle", "bald-eagle" and
/// "bald eagle" are equal. Apostrophes are removed ("lady's", "LADYS").
fn spelling(name: &str) -> String {
    let joined: String = name.chars().filter(|letter| !matches!(letter, '\'' | '\u{2019}')).collect();
    let words = joined.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ").to_lowercase()
}

#[cfg(test)]
mod tests;
