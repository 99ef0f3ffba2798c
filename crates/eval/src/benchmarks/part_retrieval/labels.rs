use std::collections::{BTreeSet, HashMap, HashSet};

use conifer_data::hierarchy::Tree;

use crate::benchmarks::Context;
use crate::{Error, Result};

/// Indices of the labels in class order. With a tree this is the preorder, so the descendants of a label follow it.
/// Without a tree it is the order of the names.
pub(super) struct LabelNumbers {
    numbers: HashMap<String, u32>,
    /// For each label, the end (exclusive) of the range of its descendants.
    ends: Vec<u32>,
    /// Part of the protocol name.
    pub(super) described: &'static str,
}

impl LabelNumbers {
    /// Assigns an index to each label of the tree and to each used label.
    ///
    /// A tree without any of the used labels describes something else (such as the labels of the photos) and is
    /// ignored. If the tree has only some of them, that is an error unless `partial` is set; then the others have no
    /// descendants.
    pub(super) fn new<'a>(context: &Context<'_>, used: impl Iterator<Item = &'a str>) -> Result<Self> {
        let used: BTreeSet<&str> = used.collect();
        let tree = context.tree.filter(|tree: &&Tree| used.iter().any(|label| tree.find(label).is_some()));
        let mut it = match tree {
            None => Self { numbers: HashMap::new(), ends: Vec::new(), described: "labels alone" },
            Some(tree) => Self {
                numbers: (0..tree.len()).map(|node| (tree.name(node).to_owned(), node as u32)).collect(),
                ends: (0..tree.len()).map(|node| tree.subtree(node).end as u32).collect(),
                described: "labels and those below",
            },
        };
        let alone: Vec<&str> = used.iter().copied().filter(|label| !it.numbers.contains_key(*label)).collect();
        if let (Some(tree), Some(first)) = (tree, alone.first()) {
            if !context.options.partial {
                return Err(Error::UnknownLabel {
                    label: (*first).to_owned(),
                    known: "node of the class tree",
                    count: tree.len(),
                    example: tree.leaves().next().map_or_else(String::new, |leaf| tree.name(leaf).to_owned()),
                });
            }
            context.leaves_out(format!("{} of {} labels stand in the tree", used.len() - alone.len(), used.len()));
        }
        for label in alone {
            let number = it.ends.len() as u32;
            it.numbers.insert(label.to_owned(), number);
            it.ends.push(number + 1);
        }
        Ok(it)
    }

    pub(super) fn number(&self, label: &str) -> Option<u32> {
        self.numbers.get(label).copied()
    }

    /// These labels and all their descendants, in class order.
    pub(super) fn with_below(&self, labels: &HashSet<u32>) -> Vec<u32> {
        let below: BTreeSet<u32> = labels.iter().flat_map(|&label| label..self.ends[label as usize]).collect();
        below.into_iter().collect()
    }
}
