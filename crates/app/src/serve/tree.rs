//! The class hierarchy with numbers of rows: what a person opens level by level.

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
    /// Counts the rows of every node. A row that has no node is outside if it has a label.
    pub(crate) fn new(tree: Tree, node_of: &[Option<u32>], labels: Option<&[String]>) -> Self {
        let mut own = vec![0; tree.len()];
        node_of.iter().flatten().for_each(|node| own[*node as usize] += 1);
        let mut counts = own.clone();
        for (node, rows) in own.into_iter().enumerate().filter(|(_, rows)| *rows > 0) {
            tree.ancestors(node).for_each(|above| counts[above] += rows);
        }
        let labels = labels.into_iter().flatten();
        let outside = labels.zip(node_of).filter(|(label, node)| node.is_none() && !label.is_empty()).count();
        ClassTree { tree, counts, outside }
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
        let tree = tree.unwrap();
        let labels = labels("dog,dog,cat,animal,car,,ghost,ghost");
        let node_of: Vec<Option<u32>> = labels.iter().map(|it| tree.find(it).map(|node| node as u32)).collect();
        let tree = ClassTree::new(tree, &node_of, Some(&labels));
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
}
