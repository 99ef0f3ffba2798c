//! The class hierarchy with numbers of rows: what a person opens level by level.

use std::collections::{BTreeMap, HashMap};

use conifer_data::hierarchy::Tree;

/// A tree of classes and how many rows carry each.
pub(crate) struct ClassTree {
    tree: Tree,
    /// Rows whose label lies in the subtree of a node.
    counts: Vec<usize>,
    /// Rows with a label that no node carries.
    outside: usize,
}

/// A node as it is listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) name: String,
    /// Rows whose label is this class or one below it.
    pub(crate) count: usize,
    /// How many children it has.
    pub(crate) children: usize,
}

/// A node, the way to it and what lies directly below.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct View {
    pub(crate) node: Node,
    /// Names from the root to the node, both included.
    pub(crate) path: Vec<String>,
    /// In the order of the tree.
    pub(crate) children: Vec<Node>,
}

impl ClassTree {
    /// Counts the labels of rows in a tree; an empty label is none.
    pub(crate) fn new(tree: Tree, labels: &[String]) -> Self {
        let mut counts = vec![0; tree.len()];
        let mut outside = 0;
        for (label, rows) in tally(labels) {
            match tree.find(label) {
                Some(node) => {
                    counts[node] += rows;
                    tree.ancestors(node).for_each(|above| counts[above] += rows);
                }
                None => outside += rows,
            }
        }
        ClassTree { tree, counts, outside }
    }

    /// Of a set without a tree: every label below one root, in alphabetical order; nothing when no row has a label.
    pub(crate) fn flat(labels: &[String]) -> conifer_data::Result<Option<Self>> {
        let known = tally(labels);
        if known.is_empty() {
            return Ok(None);
        }
        // The root needs a name that no class has.
        let mut root = "all".to_owned();
        while known.contains_key(root.as_str()) {
            root.insert(0, '*');
        }
        let tree = Tree::from_edges(known.keys().map(|label| (root.as_str(), *label)))?;
        Ok(Some(Self::new(tree, labels)))
    }

    /// A node by its name, the root without one; nothing when there is no such class.
    pub(crate) fn view(&self, name: Option<&str>) -> Option<View> {
        let node = name.map_or(Some(self.tree.root()), |name| self.tree.find(name))?;
        Some(View {
            node: self.node(node),
            path: self.tree.path(node).into_iter().map(|it| self.tree.name(it).to_owned()).collect(),
            children: self.tree.children(node).map(|it| self.node(it)).collect(),
        })
    }

    /// Rows with a label that the tree does not know.
    pub(crate) fn outside(&self) -> usize {
        self.outside
    }

    /// The name of the root.
    pub(crate) fn root(&self) -> &str {
        self.tree.name(self.tree.root())
    }

    fn node(&self, node: usize) -> Node {
        Node {
            name: self.tree.name(node).to_owned(),
            count: self.counts[node],
            children: self.tree.children(node).count(),
        }
    }
}

/// How many rows carry each label that is not empty, in alphabetical order.
fn tally(labels: &[String]) -> BTreeMap<&str, usize> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for label in labels.iter().filter(|it| !it.is_empty()) {
        *counts.entry(label).or_default() += 1;
    }
    counts.into_iter().collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn labels(text: &str) -> Vec<String> {
        text.split(',').map(str::to_owned).collect()
    }

    #[test]
    fn rows_count_for_their_class_and_all_above() {
        let tree = Tree::from_edges([("thing", "animal"), ("animal", "dog"), ("animal", "cat"), ("thing", "car")]);
        let tree = ClassTree::new(tree.unwrap(), &labels("dog,dog,cat,animal,car,,ghost,ghost"));
        let top = tree.view(None).unwrap();
        let node = |name: &str, count, children| Node { name: name.to_owned(), count, children };
        assert_eq!(top.node, node("thing", 5, 2));
        assert_eq!(top.children, [node("animal", 4, 2), node("car", 1, 0)]);
        let animal = tree.view(Some("animal")).unwrap();
        assert_eq!(animal.path, ["thing", "animal"]);
        assert_eq!(animal.children, [node("dog", 2, 0), node("cat", 1, 0)]);
        assert_eq!(tree.view(Some("ghost")), None);
        assert_eq!(tree.outside(), 2);
    }

    #[test]
    fn labels_without_a_tree_lie_below_one_root() {
        let tree = ClassTree::flat(&labels("b,a,b,,all")).unwrap().unwrap();
        let top = tree.view(None).unwrap();
        assert_eq!((tree.root(), top.node.count), ("*all", 4));
        let listed: Vec<_> = top.children.iter().map(|it| (it.name.as_str(), it.count)).collect();
        assert_eq!(listed, [("a", 1), ("all", 1), ("b", 2)]);
        assert!(ClassTree::flat(&labels(",,")).unwrap().is_none());
    }
}
