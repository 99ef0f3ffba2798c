//! The class hierarchy with row counts, for browsing level by level.

use conifer_data::hierarchy::Tree;

use crate::api::replies::{ClassReply, ClassSummary};

/// A class tree with row counts.
pub(crate) struct ClassTree {
    tree: Tree,
    /// Number of rows in the subtree of each node.
    counts: Vec<usize>,
    /// Number of rows with a label that is not in the tree.
    outside: usize,
}

impl ClassTree {
    /// Counts the rows of every node. A row without a node counts as `outside` if it has a label.
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

    /// Looks up a node by name, or the root if `name` is `None`. Returns `None` if there is no such class.
    pub(crate) fn view(&self, name: Option<&str>) -> Option<ClassReply> {
        let node = name.map_or(Some(self.tree.root()), |name| self.tree.find(name))?;
        Some(ClassReply {
            node: self.node(node),
            path: self.tree.path(node).into_iter().map(|it| self.tree.name(it).to_owned()).collect(),
            children: self.tree.children(node).map(|it| self.node(it)).collect(),
            outside: self.outside,
        })
    }

    pub(crate) fn root(&self) -> &str {
        self.tree.name(self.tree.root())
    }

    fn node(&self, node: usize) -> ClassSummary {
        ClassSummary {
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
    fn rows_are_counted_for_their_class_and_its_ancestors() {
        let tree = Tree::from_edges([("thing", "animal"), ("animal", "dog"), ("animal", "cat"), ("thing", "car")]);
        let tree = tree.unwrap();
        let labels = labels("dog,dog,cat,animal,car,,ghost,ghost");
        let node_of: Vec<Option<u32>> = labels.iter().map(|it| tree.find(it).map(|node| node as u32)).collect();
        let tree = ClassTree::new(tree, &node_of, Some(&labels));
        let top = tree.view(None).unwrap();
        let node = |name: &str, count, children| ClassSummary { name: name.to_owned(), count, children };
        assert_eq!(top.node, node("thing", 5, 2));
        assert_eq!(top.children, [node("animal", 4, 2), node("car", 1, 0)]);
        let animal = tree.view(Some("animal")).unwrap();
        assert_eq!(animal.path, ["thing", "animal"]);
        assert_eq!(animal.children, [node("dog", 2, 0), node("cat", 1, 0)]);
        assert_eq!(tree.view(Some("ghost")), None);
        assert_eq!(top.outside, 2);
    }
}
