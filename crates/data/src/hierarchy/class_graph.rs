//! Class graphs: is-a or part-of relations in which a class may have several parents.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::Path;

use super::{Tree, read_edge_list};
use crate::error::{Error, Result};

/// Classes and edges between them, from parent to child, without a cycle.
///
/// A class may have several parents: a wheel is a part of a car and of a bicycle. Several classes may have no parent.
/// The ancestors of a class are the classes from which a directed path leads to it; its descendants are the classes to
/// which a directed path leads from it.
///
/// Nodes are numbered in the order of the first visit of a depth-first walk from the roots, children in order of
/// appearance; for a tree, the numbers are those of [`Tree`]. Methods panic if a node is `>= len()`, like slice
/// indexing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassGraph {
    names: Vec<String>,
    numbers: HashMap<String, usize>,
    parents: Vec<Vec<usize>>,
    children: Vec<Vec<usize>>,
}

impl ClassGraph {
    /// Builds a graph from (parent, child) pairs in any order. Edges may repeat.
    ///
    /// # Errors
    /// No edge, an empty name, or a cycle. The message names the nodes.
    pub fn from_edges<P, C>(edges: impl IntoIterator<Item = (P, C)>) -> Result<Self>
    where
        P: AsRef<str>,
        C: AsRef<str>,
    {
        let mut names = Vec::new();
        let mut numbers = HashMap::new();
        let mut number = |name: &str| {
            *numbers.entry(name.to_owned()).or_insert_with(|| {
                names.push(name.to_owned());
                names.len() - 1
            })
        };
        let mut pairs = Vec::new();
        for (parent, child) in edges {
            let (parent, child) = (parent.as_ref(), child.as_ref());
            if parent.is_empty() || child.is_empty() {
                return Err(hierarchy(format!("the edge from `{parent}` to `{child}`"), "a name for each node"));
            }
            pairs.push((number(parent), number(child)));
        }
        if pairs.is_empty() {
            return Err(hierarchy("no edges".to_owned(), "at least one"));
        }
        pairs.sort_unstable();
        pairs.dedup();
        let mut children = vec![Vec::new(); names.len()];
        pairs.iter().for_each(|&(parent, child)| children[parent].push(child));
        if let Some(cycle) = find_cycle(&children) {
            let path: Vec<_> = cycle.iter().map(|&node| format!("`{}`", names[node])).collect();
            return Err(hierarchy(format!("a cycle, {}", path.join(" > ")), "no cycle"));
        }
        Ok(Self::numbered_in_preorder(&names, &children))
    }

    /// Reads edges from a text file, in the format of [`Tree::read_edges`].
    ///
    /// # Errors
    /// A file that cannot be read, a line that is not an edge (with its number), no edge, or a cycle.
    pub fn read_edges(path: &Path) -> Result<Self> {
        Self::from_edges(read_edge_list(path)?)
    }

    fn numbered_in_preorder(names: &[String], children: &[Vec<usize>]) -> Self {
        let mut has_parent = vec![false; names.len()];
        children.iter().flatten().for_each(|&child| has_parent[child] = true);
        let mut order = Vec::with_capacity(names.len());
        let mut renumbered = vec![usize::MAX; names.len()];
        let mut stack: Vec<usize> = (0..names.len()).rev().filter(|&node| !has_parent[node]).collect();
        while let Some(node) = stack.pop() {
            if renumbered[node] == usize::MAX {
                renumbered[node] = order.len();
                order.push(node);
                stack.extend(children[node].iter().rev());
            }
        }
        let mut it = Self {
            names: order.iter().map(|&node| names[node].clone()).collect(),
            numbers: HashMap::new(),
            parents: vec![Vec::new(); order.len()],
            children: vec![Vec::new(); order.len()],
        };
        it.numbers = it.names.iter().cloned().zip(0..).collect();
        for (parent, &old) in order.iter().enumerate() {
            for &child in &children[old] {
                it.children[parent].push(renumbered[child]);
                it.parents[renumbered[child]].push(parent);
            }
        }
        it
    }

    /// Number of nodes; at least 2.
    #[expect(clippy::len_without_is_empty, reason = "a graph has an edge")]
    pub fn len(&self) -> usize {
        self.names.len()
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
        let known = format!("one of {} nodes, such as `{}`", self.len(), self.name(0));
        self.find(name).ok_or_else(|| hierarchy(format!("no node `{name}`"), &known))
    }

    /// The parents, in the order of their numbers.
    pub fn parents(&self, node: usize) -> &[usize] {
        &self.parents[node]
    }

    /// The children in order of appearance.
    pub fn children(&self, node: usize) -> &[usize] {
        &self.children[node]
    }

    /// Nodes without a parent.
    pub fn roots(&self) -> impl Iterator<Item = usize> {
        (0..self.len()).filter(|&node| self.parents[node].is_empty())
    }

    /// Nodes without a child.
    pub fn leaves(&self) -> impl Iterator<Item = usize> {
        (0..self.len()).filter(|&node| self.children[node].is_empty())
    }

    /// All edges, as (parent, child) names.
    pub fn edges(&self) -> impl Iterator<Item = (&str, &str)> {
        let parents = self.children.iter().enumerate();
        parents.flat_map(move |(node, children)| children.iter().map(move |&child| (self.name(node), self.name(child))))
    }

    /// The node and its ancestors, each with the number of edges of the shortest directed path to the node.
    pub fn ancestors(&self, node: usize) -> BTreeMap<usize, usize> {
        distances(node, |node| &self.parents[node])
    }

    /// The node and its descendants, each with the number of edges of the shortest directed path from the node.
    pub fn descendants(&self, node: usize) -> BTreeMap<usize, usize> {
        distances(node, |node| &self.children[node])
    }

    /// Number of edges of the shortest path between `node` and each other node, in either direction of the edges.
    /// `None` if no path exists.
    pub fn distances_from(&self, node: usize) -> Vec<Option<usize>> {
        let mut all = vec![None; self.len()];
        all[node] = Some(0);
        let mut queue = VecDeque::from([node]);
        while let Some(here) = queue.pop_front() {
            let next = all[here].map(|it| it + 1);
            for &other in self.parents[here].iter().chain(&self.children[here]) {
                if all[other].is_none() {
                    all[other] = next;
                    queue.push_back(other);
                }
            }
        }
        all
    }

    /// The graph as a tree.
    ///
    /// # Errors
    /// A class has several parents, or several classes have none.
    pub fn to_tree(&self) -> Result<Tree> {
        Tree::from_edges(self.edges())
    }
}

impl From<&Tree> for ClassGraph {
    fn from(tree: &Tree) -> Self {
        let parents = |node| tree.parent(node).into_iter().collect();
        let names: Vec<_> = (0..tree.len()).map(|node| tree.name(node).to_owned()).collect();
        Self {
            numbers: names.iter().cloned().zip(0..).collect(),
            names,
            parents: (0..tree.len()).map(parents).collect(),
            children: (0..tree.len()).map(|node| tree.children(node).collect()).collect(),
        }
    }
}

fn hierarchy(found: String, expected: &str) -> Error {
    Error::Hierarchy { found, expected: expected.to_owned() }
}

/// Breadth-first search along `next`.
fn distances<'a>(start: usize, next: impl Fn(usize) -> &'a [usize]) -> BTreeMap<usize, usize> {
    let mut reached = BTreeMap::from([(start, 0)]);
    let mut queue = VecDeque::from([(start, 0)]);
    while let Some((here, distance)) = queue.pop_front() {
        for &other in next(here) {
            reached.entry(other).or_insert_with(|| {
                queue.push_back((other, distance + 1));
                distance + 1
            });
        }
    }
    reached
}

/// The nodes of a cycle, with the first node repeated at the end. `None` if the graph has no cycle.
fn find_cycle(children: &[Vec<usize>]) -> Option<Vec<usize>> {
    let mut missing_parents = vec![0usize; children.len()];
    children.iter().flatten().for_each(|&child| missing_parents[child] += 1);
    let mut ready: Vec<usize> = (0..children.len()).filter(|&node| missing_parents[node] == 0).collect();
    while let Some(node) = ready.pop() {
        for &child in &children[node] {
            missing_parents[child] -= 1;
            if missing_parents[child] == 0 {
                ready.push(child);
            }
        }
    }
    // Each remaining node has a remaining parent. Going from parent to parent ends in a cycle.
    let remains = |node: usize| missing_parents[node] > 0;
    let start = (0..children.len()).find(|&node| remains(node))?;
    let mut parent_of = vec![usize::MAX; children.len()];
    for node in (0..children.len()).filter(|&node| remains(node)) {
        children[node].iter().for_each(|&child| parent_of[child] = node);
    }
    let mut position = HashMap::new();
    let mut walk = vec![];
    let mut node = start;
    while !position.contains_key(&node) {
        position.insert(node, walk.len());
        walk.push(node);
        node = parent_of[node];
    }
    let mut cycle = walk.split_off(position[&node]);
    cycle.reverse();
    cycle.extend(cycle.first().copied());
    Some(cycle)
}
