use std::collections::{BTreeSet, HashMap, HashSet};

use conifer_data::hierarchy::Tree;

use crate::benchmarks::Context;
use crate::{Error, Result};

/// The labels in class order: preorder of the tree, so that those below one follow it; by name where there is no tree.
pub(super) struct Labels {
    numbers: HashMap<String, u32>,
    /// One past the last label below each.
    ends: Vec<u32>,
    /// For the protocol.
    pub(super) described: &'static str,
}

impl Labels {
    /// All labels of the tree, and all that are used.
    ///
    /// A tree that has none of them is one of other things (of the photos' labels), and is not asked. One that has some and lacks others is an
    /// error, unless `partial`: then these stand alone.
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

    /// These labels and all below them, in class order.
    pub(super) fn with_below(&self, labels: &HashSet<u32>) -> Vec<u32> {
        let below: BTreeSet<u32> = labels.iter().flat_map(|&label| label..self.ends[label as usize]).collect();
        below.into_iter().collect()
    }
}
