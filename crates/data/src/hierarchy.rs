//! Trees and graphs of classes: is-a hierarchies, taxonomies, part-of hierarchies.

mod class_graph;
pub mod ranks;
pub mod taxonomy;

use std::collections::HashMap;
use std::fs;
use std::ops::Range;
use std::path::Path;

use serde::Deserialize;

pub use class_graph::ClassGraph;
pub use ranks::class_tree;
pub use taxonomy::{TaxonId, Taxonomy};

use crate::error::{Error, Result};

/// A tree with one root and one parent for every other node.
///
/// Nodes are numbered in preorder: a parent before its children, children in order of appearance. The root is 0, and a
/// subtree is a range of numbers. A node number is valid only in the tree that returned it; methods panic if it is
/// `>= len()`, like slice indexing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    names: Vec<String>,
    numbers: HashMap<String, usize>,
    /// The root is its own parent.
    parents: Vec<usize>,
    depths: Vec<usize>,
    /// One past the last node of each subtree.
    ends: Vec<usize>,
}

impl Tree {
    /// Builds a tree from (parent, child) pairs in any order. Edges may repeat.
    ///
    /// # Errors
    /// No edge, a node with two parents, a cycle, or several roots. The message names the nodes.
    pub fn from_edges<P, C>(edges: impl IntoIterator<Item = (P, C)>) -> Result<Self>
    where
        P: AsRef<str>,
        C: AsRef<str>,
    {
        let mut builder = TreeBuilder::default();
        for (parent, child) in edges {
            builder.edge(parent.as_ref(), child.as_ref())?;
        }
        builder.finish()
    }

    /// Builds a tree from paths of names, general to specific, below `root`. A path may begin with `root`.
    ///
    /// # Errors
    /// The errors of [`Tree::from_edges`]. A name with different parents in two paths is an error.
    pub fn from_paths<S: AsRef<str>>(root: &str, paths: impl IntoIterator<Item = impl AsRef<[S]>>) -> Result<Self> {
        let mut builder = TreeBuilder::default();
        builder.number(root);
        for path in paths {
            let path = path.as_ref();
            let skip = usize::from(path.first().is_some_and(|first| first.as_ref() == root));
            let mut parent = root;
            for name in &path[skip..] {
                builder.edge(parent, name.as_ref())?;
                parent = name.as_ref();
            }
        }
        builder.finish()
    }

    /// Reads edges from a text file. A line is a parent and a child, separated by a tab (then names may contain spaces)
    /// or by spaces. In a `.jsonl` file a line is `{"parent": "animal", "child": "dog"}`. Empty lines and lines that
    /// begin with `#` are skipped.
    ///
    /// # Errors
    /// A file that cannot be read, a line that is not an edge (with its number), or edges that do not form a tree.
    pub fn read_edges(path: &Path) -> Result<Self> {
        Self::from_edges(read_edge_list(path)?)
    }

    /// Number of nodes; at least 1.
    #[expect(clippy::len_without_is_empty, reason = "a tree has a root")]
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Number of the root, which is 0.
    pub fn root(&self) -> usize {
        0
    }

    /// The name of a node.
    pub fn name(&self, node: usize) -> &str {
        &self.names[node]
    }

    /// Number of the node with this name; `None` if there is no such node.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.numbers.get(name).copied()
    }

    /// Number of the node with this name.
    ///
    /// # Errors
    /// No node has this name.
    pub fn get(&self, name: &str) -> Result<usize> {
        self.find(name).ok_or_else(|| Error::Hierarchy {
            found: format!("no node `{name}`"),
            expected: format!("one of {} nodes below `{}`", self.len(), self.name(0)),
        })
    }

    /// The parent; `None` for the root.
    pub fn parent(&self, node: usize) -> Option<usize> {
        (node != self.root()).then(|| self.parents[node])
    }

    /// Children in order of appearance.
    pub fn children(&self, node: usize) -> impl Iterator<Item = usize> {
        let end = self.ends[node];
        // The first child follows its parent. Each further child follows the subtree of the previous child.
        let next = move |child: usize| (child < end).then_some(child);
        std::iter::successors(next(node + 1), move |&child| next(self.ends[child]))
    }

    /// Number of edges between the root and the node; 0 for the root.
    pub fn depth(&self, node: usize) -> usize {
        self.depths[node]
    }

    /// The strict ancestors, from the parent to the root.
    pub fn ancestors(&self, node: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(self.parent(node), |&n| self.parent(n))
    }

    /// The nodes from the root to `node`, both included.
    pub fn path(&self, node: usize) -> Vec<usize> {
        let mut path: Vec<_> = std::iter::once(node).chain(self.ancestors(node)).collect();
        path.reverse();
        path
    }

    /// Returns true if `parent` is a strict ancestor of `child`.
    pub fn is_ancestor(&self, parent: usize, child: usize) -> bool {
        parent < child && child < self.ends[parent]
    }

    /// The lowest common ancestor. If one node is an ancestor of the other, the result is that node.
    pub fn lca(&self, a: usize, b: usize) -> usize {
        let (mut above, below) = (a.min(b), a.max(b));
        // Nodes are in preorder, so the lowest common ancestor is `above` itself or its first ancestor whose subtree
        // ends after `below`.
        while self.ends[above] <= below {
            above = self.parents[above];
        }
        above
    }

    /// Number of edges between two nodes: depth(a) + depth(b) - 2 depth(lca).
    pub fn distance(&self, a: usize, b: usize) -> usize {
        self.depth(a) + self.depth(b) - 2 * self.depth(self.lca(a, b))
    }

    /// The node and all its descendants.
    pub fn subtree(&self, node: usize) -> Range<usize> {
        node..self.ends[node]
    }

    /// Returns true if the node has no children.
    pub fn is_leaf(&self, node: usize) -> bool {
        self.ends[node] == node + 1
    }

    /// All leaves, in preorder.
    pub fn leaves(&self) -> impl Iterator<Item = usize> {
        self.leaves_below(self.root())
    }

    /// The leaves of a subtree, in preorder. For a leaf, the result is the leaf itself.
    pub fn leaves_below(&self, node: usize) -> impl Iterator<Item = usize> {
        self.subtree(node).filter(|&n| self.is_leaf(n))
    }
}

/// A tree under construction: nodes in order of appearance; parents may still be unknown.
#[derive(Default)]
pub struct TreeBuilder {
    names: Vec<String>,
    numbers: HashMap<String, usize>,
    parents: Vec<Option<usize>>,
}

impl TreeBuilder {
    /// The number of a node in order of appearance; adds the node if it is new.
    pub fn number(&mut self, name: &str) -> usize {
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        let number = self.names.len();
        self.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        self.parents.push(None);
        number
    }

    /// The names of all nodes, in order of appearance.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Adds an edge. Edges may repeat.
    ///
    /// # Errors
    /// The child already has another parent, or is its own parent.
    pub fn edge(&mut self, parent: &str, child: &str) -> Result<()> {
        let (p, c) = (self.number(parent), self.number(child));
        match self.parents[c] {
            Some(other) if other != p => Err(Error::Hierarchy {
                found: format!("node `{child}` has two parents, `{}` and `{parent}`", self.names[other]),
                expected: "one parent a node".to_owned(),
            }),
            _ if p == c => Err(Error::Hierarchy {
                found: format!("node `{child}` is its own parent"),
                expected: "no cycle".to_owned(),
            }),
            _ => {
                self.parents[c] = Some(p);
                Ok(())
            }
        }
    }

    /// Builds the tree.
    ///
    /// # Errors
    /// No edge, several roots, or a cycle.
    pub fn finish(self) -> Result<Tree> {
        let root = self.the_root()?;
        let count = self.names.len();
        let mut children = vec![Vec::new(); count];
        for (node, parent) in self.parents.iter().enumerate() {
            if let Some(parent) = parent {
                children[*parent].push(node);
            }
        }
        // Preorder with an explicit stack: recursion would overflow the stack on a chain of a million nodes.
        let mut order = Vec::with_capacity(count);
        let mut renumbered = vec![usize::MAX; count];
        let mut stack = vec![root];
        while let Some(node) = stack.pop() {
            renumbered[node] = order.len();
            order.push(node);
            stack.extend(children[node].iter().rev());
        }
        if order.len() < count {
            return Err(self.cycle(&renumbered));
        }
        let mut parents = Vec::with_capacity(count);
        let mut depths: Vec<usize> = Vec::with_capacity(count);
        for &node in &order {
            let parent = self.parents[node].map(|p| renumbered[p]);
            depths.push(parent.map_or(0, |p| depths[p] + 1));
            parents.push(parent.unwrap_or(0));
        }
        let mut ends: Vec<usize> = (1..=count).collect();
        for node in (1..count).rev() {
            ends[parents[node]] = ends[parents[node]].max(ends[node]);
        }
        let mut names = self.names;
        let names: Vec<_> = order.iter().map(|&n| std::mem::take(&mut names[n])).collect();
        let numbers = names.iter().cloned().zip(0..).collect();
        Ok(Tree { names, numbers, parents, depths, ends })
    }

    fn the_root(&self) -> Result<usize> {
        let mut roots = (0..self.names.len()).filter(|&n| self.parents[n].is_none());
        match (roots.next(), roots.next()) {
            (Some(root), None) => Ok(root),
            (Some(one), Some(two)) => {
                let more = roots.count();
                let (one, two) = (&self.names[one], &self.names[two]);
                Err(Error::Hierarchy {
                    found: format!("several roots: `{one}`, `{two}` and {more} more"),
                    expected: "one node without a parent".to_owned(),
                })
            }
            (None, _) if self.names.is_empty() => {
                Err(Error::Hierarchy { found: "no edges".to_owned(), expected: "at least one".to_owned() })
            }
            (None, _) => Err(self.cycle(&vec![usize::MAX; self.names.len()])),
        }
    }

    /// Describes a cycle among the nodes that are not reachable from the root.
    fn cycle(&self, renumbered: &[usize]) -> Error {
        let start = renumbered.iter().position(|&n| n == usize::MAX);
        let up = |node: &usize| self.parents[*node];
        // Following parents from an unreached node never ends at the root, so after `len` steps the walk is on the
        // cycle.
        let inside = std::iter::successors(start, up).nth(self.names.len()).unwrap_or(0);
        let mut members: Vec<_> = std::iter::successors(Some(inside), up)
            .skip(1)
            .take_while(|&node| node != inside)
            .chain([inside])
            .map(|node| format!("`{}`", self.names[node]))
            .collect();
        members.reverse();
        let first = members[0].clone();
        members.push(first);
        Error::Hierarchy { found: format!("a cycle, {}", members.join(" > ")), expected: "no cycle".to_owned() }
    }
}

/// Reads a file of edges, in the format of [`Tree::read_edges`].
fn read_edge_list(path: &Path) -> Result<Vec<(String, String)>> {
    let text = fs::read_to_string(path).map_err(Error::io("read", path))?;
    let json = path.extension().is_some_and(|e| e == "jsonl");
    let lines = text.lines().map(str::trim).enumerate();
    let edges = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')).map(|(number, line)| {
        if json { json_edge(line) } else { text_edge(line) }.map_err(|expected| {
            let place = format!("line {} of `{}`", number + 1, path.display());
            Error::format(place, format!("{line:?}"), expected)
        })
    });
    edges.collect()
}

fn text_edge(line: &str) -> Result<(String, String), String> {
    let fields: Vec<_> =
        if line.contains('\t') { line.split('\t').map(str::trim).collect() } else { line.split_whitespace().collect() };
    match fields[..] {
        [parent, child] if !parent.is_empty() && !child.is_empty() => Ok((parent.to_owned(), child.to_owned())),
        _ => Err("a parent and a child, separated by a tab or by spaces".to_owned()),
    }
}

fn json_edge(line: &str) -> Result<(String, String), String> {
    #[derive(Deserialize)]
    struct JsonEdge {
        parent: String,
        child: String,
    }
    serde_json::from_str(line)
        .map(|JsonEdge { parent, child }| (parent, child))
        .map_err(|error| format!("{{\"parent\": ..., \"child\": ...}} ({error})"))
}

#[cfg(test)]
mod tests;
