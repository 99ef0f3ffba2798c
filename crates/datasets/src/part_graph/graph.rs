//! The graph of part-of relations between classes.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use conifer_data::{Error, Result};
use serde::{Deserialize, Serialize};

use super::counts::PartCounts;

/// Thresholds that separate part-of relations from coincidences (Wang et al., App. A).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PartThresholds {
    /// Minimum number of box pairs.
    pub min_count: u64,
    /// Minimum fraction of the boxes of the whole's class that have such a part, in [0, 1].
    pub min_share: f64,
}

impl Default for PartThresholds {
    /// The values for OpenImages: 50 pairs, 10 %. For LVIS the paper uses 5 pairs and 5 %.
    fn default() -> Self {
        Self { min_count: 50, min_share: 0.1 }
    }
}

impl PartThresholds {
    /// Checks that `min_share` is in [0, 1].
    ///
    /// # Errors
    /// `min_share` outside [0, 1] or not a number.
    pub fn check(&self) -> Result<()> {
        if (0.0..=1.0).contains(&self.min_share) {
            return Ok(());
        }
        Err(Error::invalid("min_share", self.min_share.to_string(), "a share, 0 to 1"))
    }
}

/// A part-of relation between two classes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PartEdge {
    /// Class of the whole.
    pub parent: String,
    /// Class of the part.
    pub child: String,
    /// Number of box pairs.
    pub count: u64,
    /// `wholes with such a part / boxes of the whole's class`, in (0, 1].
    pub share: f64,
}

/// An acyclic graph of classes and their parts. A class may be a part of several classes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PartGraph {
    /// Edges grouped by parent, sorted by decreasing `share` within a parent.
    pub edges: Vec<PartEdge>,
    /// Relations that pass the thresholds but would close a cycle with stronger relations, or that relate a class to
    /// itself. They are in the order in which they were rejected.
    pub refused: Vec<PartEdge>,
}

/// An occurrence of a class in the tree view of the graph.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PartRow<'a> {
    /// Number of edges between the root of this row and this occurrence.
    pub depth: usize,
    /// Name of the class.
    pub name: &'a str,
    /// True if the class has parts and they are listed below an earlier row.
    pub again: bool,
    /// The relation to the class of the parent row; `None` for a root.
    pub edge: Option<&'a PartEdge>,
}

/// The artificial root in [`PartGraph::tree_edges`], which represents the whole photo.
pub const SCENE: &str = "(scene)";

impl PartGraph {
    /// Builds the graph from the pairs with `count >= min_count` and `share >= min_share`.
    ///
    /// Edges are added in order of decreasing `share`, then decreasing count, then names of whole and part. An edge is
    /// rejected if a path already leads from its part to its whole, because the edge would close a cycle. The order
    /// does not depend on the order of the input, so the graph is deterministic.
    ///
    /// `display` maps counted names to display names. The counted name is used if there is no display name or if two
    /// classes have the same display name.
    pub fn new(counts: &PartCounts, thresholds: &PartThresholds, display: &HashMap<String, String>) -> Self {
        let names = shown(counts, display);
        let mut found: Vec<PartEdge> = (counts.pairs().into_iter())
            .filter_map(|(whole, part, pair)| {
                let share = pair.wholes as f64 / counts.instances(whole) as f64;
                let kept = pair.count >= thresholds.min_count && share >= thresholds.min_share;
                let name = |class| names[counts.name(class)].clone();
                kept.then(|| PartEdge { parent: name(whole), child: name(part), count: pair.count, share })
            })
            .collect();
        found.sort_by(|a, b| {
            let names = (&a.parent, &a.child).cmp(&(&b.parent, &b.child));
            b.share.total_cmp(&a.share).then(b.count.cmp(&a.count)).then(names)
        });
        let mut it = Self::default();
        let mut below: HashMap<String, Vec<String>> = HashMap::new();
        for edge in found {
            if reaches(&below, &edge.child, &edge.parent) {
                it.refused.push(edge);
            } else {
                below.entry(edge.parent.clone()).or_default().push(edge.child.clone());
                it.edges.push(edge);
            }
        }
        it.edges.sort_by(|a, b| a.parent.cmp(&b.parent));
        it
    }

    /// The edges as lines of `parent<TAB>child`.
    pub fn edge_lines(&self) -> String {
        self.edges.iter().map(|edge| format!("{}\t{}\n", edge.parent, edge.child)).collect()
    }

    /// The graph as a tree, for [`conifer_data::hierarchy::Tree::read_edges`]. The parent of each class is the parent
    /// of its edge with the largest `share` (ties: the largest count, then the first parent name). Classes that have
    /// parts and are a part of no other class are below [`SCENE`]. Classes without an edge are left out.
    pub fn tree_edges(&self) -> String {
        let mut best: HashMap<&str, &PartEdge> = HashMap::new();
        for edge in &self.edges {
            let held = best.entry(&edge.child).or_insert(edge);
            let order = edge.share.total_cmp(&held.share).then(edge.count.cmp(&held.count));
            // Edges are sorted by parent, so the first parent name is used if edges are equal.
            if order.is_gt() {
                *held = edge;
            }
        }
        let mut lines: Vec<_> = best.values().map(|edge| format!("{}\t{}\n", edge.parent, edge.child)).collect();
        lines.extend(self.roots().into_iter().map(|root| format!("{SCENE}\t{root}\n")));
        lines.sort_unstable();
        lines.concat()
    }

    /// Classes that have parts and are not a part of any class, sorted by name.
    pub fn roots(&self) -> Vec<&str> {
        let children: HashSet<_> = self.edges.iter().map(|edge| edge.child.as_str()).collect();
        let mut roots: Vec<_> = self.edges.iter().map(|edge| edge.parent.as_str()).collect();
        roots.dedup();
        roots.retain(|root| !children.contains(root));
        roots
    }

    /// The graph as rows of a tree in preorder. A class is listed below every class that it is a part of. Its own parts
    /// are listed at its first occurrence only, and [`PartRow::again`] marks later occurrences: a full expansion of a
    /// graph with 600 classes can have millions of rows.
    pub fn rows(&self) -> Vec<PartRow<'_>> {
        let mut below: HashMap<&str, Vec<&PartEdge>> = HashMap::new();
        for edge in &self.edges {
            below.entry(&edge.parent).or_default().push(edge);
        }
        let mut rows = Vec::new();
        let mut expanded = HashSet::new();
        // (name, depth, incoming edge). The stack is explicit, because recursion could overflow the stack on long
        // chains.
        let mut stack: Vec<(&str, usize, Option<&PartEdge>)> =
            self.roots().into_iter().rev().map(|root| (root, 0, None)).collect();
        while let Some((name, depth, edge)) = stack.pop() {
            let parts = below.get(name).map_or(&[][..], Vec::as_slice);
            let first = expanded.insert(name);
            rows.push(PartRow { depth, name, again: !first && !parts.is_empty(), edge });
            if first {
                stack.extend(parts.iter().rev().map(|edge| (edge.child.as_str(), depth + 1, Some(*edge))));
            }
        }
        rows
    }

    /// [`PartGraph::rows`] as indented text.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for PartRow { depth, name, again, edge } in self.rows() {
            let more = if again { " ..." } else { "" };
            let numbers = edge.map_or(String::new(), |edge| format!("  {:.1} % {}", 100.0 * edge.share, edge.count));
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{:1$}{name}{more}{numbers}", "", 2 * depth);
        }
        text
    }
}

/// The displayed name of each class. Classes that share a display name are displayed with their own names.
fn shown<'a>(counts: &'a PartCounts, display: &HashMap<String, String>) -> HashMap<&'a str, String> {
    let mut uses: HashMap<&str, usize> = HashMap::new();
    let named = |name: &str| display.get(name).map(String::as_str);
    for class in counts.classes() {
        let name = counts.name(class);
        *uses.entry(named(name).unwrap_or(name)).or_default() += 1;
    }
    let one = |class| {
        let name = counts.name(class);
        let unique = named(name).filter(|it| uses.get(it) == Some(&1));
        (name, unique.unwrap_or(name).to_owned())
    };
    counts.classes().map(one).collect()
}

/// Returns whether a path leads from one class to another. A class reaches itself.
fn reaches(below: &HashMap<String, Vec<String>>, from: &str, to: &str) -> bool {
    let mut seen = HashSet::from([from]);
    let mut stack = vec![from];
    while let Some(here) = stack.pop() {
        if here == to {
            return true;
        }
        let parts = below.get(here).into_iter().flatten().map(String::as_str);
        stack.extend(parts.filter(|part| seen.insert(*part)));
    }
    false
}
