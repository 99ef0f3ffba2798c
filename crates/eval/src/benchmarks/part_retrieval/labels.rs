use std::collections::{BTreeSet, HashMap, HashSet};

use conifer_data::hierarchy::ClassGraph;

use crate::benchmarks::Context;
use crate::{Error, Result};

/// Indices of the labels in class order: with a class graph the order of its nodes (for a tree, the preorder), without
/// one the alphabetical order.
pub(super) struct LabelNumbers {
    numbers: HashMap<String, u32>,
    /// For each label, the label and its descendants, in class order.
    below: Vec<Vec<u32>>,
    pub(super) has_graph: bool,
    /// Part of the protocol name: whether descendants count.
    pub(super) described: &'static str,
}

impl LabelNumbers {
    /// Assigns an index to each label of the graph and to each used label.
    ///
    /// A graph without any of the used labels is ignored, because it describes other labels, such as those of the
    /// photos. A graph with only some of the used labels is an error. With `partial` it is accepted, and the other
    /// labels have no descendants.
    pub(super) fn new<'a>(context: &Context<'_>, used: impl Iterator<Item = &'a str>) -> Result<Self> {
        let used: BTreeSet<&str> = used.collect();
        let graph = context.graph.filter(|graph: &&ClassGraph| used.iter().any(|label| graph.find(label).is_some()));
        let below = |graph: &ClassGraph, node| graph.descendants(node).into_keys().map(|it| it as u32).collect();
        let mut it = match graph {
            None => Self { numbers: HashMap::new(), below: Vec::new(), has_graph: false, described: "labels alone" },
            Some(graph) => Self {
                numbers: (0..graph.len()).map(|node| (graph.name(node).to_owned(), node as u32)).collect(),
                below: (0..graph.len()).map(|node| below(graph, node)).collect(),
                has_graph: true,
                described: "labels and those below",
            },
        };
        let alone: Vec<&str> = used.iter().copied().filter(|label| !it.numbers.contains_key(*label)).collect();
        if let (Some(graph), Some(first)) = (graph, alone.first()) {
            if !context.options.partial {
                return Err(Error::UnknownLabel {
                    label: (*first).to_owned(),
                    known: "node of the class tree",
                    count: graph.len(),
                    example: graph.leaves().next().map_or_else(String::new, |leaf| graph.name(leaf).to_owned()),
                });
            }
            context.leaves_out(format!("{} of {} labels stand in the tree", used.len() - alone.len(), used.len()));
        }
        for label in alone {
            let number = it.below.len() as u32;
            it.numbers.insert(label.to_owned(), number);
            it.below.push(vec![number]);
        }
        Ok(it)
    }

    pub(super) fn number(&self, label: &str) -> Option<u32> {
        self.numbers.get(label).copied()
    }

    /// The given labels and all their descendants, in class order.
    pub(super) fn with_below(&self, labels: &HashSet<u32>) -> Vec<u32> {
        let below: BTreeSet<u32> =
            labels.iter().flat_map(|&label| self.below[label as usize].iter().copied()).collect();
        below.into_iter().collect()
    }
}
