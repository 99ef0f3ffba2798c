//! Levels of the taxa: number of nodes, and how they branch.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Value, json};

/// The nodes at a depth.
pub(super) struct TaxonomyLevel {
    pub(super) depth: usize,
    pub(super) nodes: usize,
    /// Number of nodes that have children.
    pub(super) inner: usize,
    /// Mean and maximum number of children of an inner node.
    pub(super) mean_children: f64,
    pub(super) most_children: usize,
    /// Number of samples whose taxon ends at this depth.
    pub(super) ends: usize,
    /// A node with the most children.
    pub(super) widest: String,
}

/// The levels of taxa, which are paths of names from general to specific.
pub(super) fn levels(taxa: &BTreeMap<Vec<String>, usize>) -> Vec<TaxonomyLevel> {
    let depth = taxa.keys().map(Vec::len).max().unwrap_or(0);
    let level = |depth: usize| {
        let mut children: HashMap<&[String], Vec<&str>> = HashMap::new();
        for path in taxa.keys().filter(|it| it.len() >= depth) {
            let of_node = children.entry(&path[..depth]).or_default();
            // The paths are sorted, so equal children are neighbours.
            if let Some(child) = path.get(depth)
                && of_node.last() != Some(&child.as_str())
            {
                of_node.push(child);
            }
        }
        let inner = children.values().filter(|it| !it.is_empty()).count();
        let all: usize = children.values().map(Vec::len).sum();
        let widest = children.iter().max_by(|a, b| a.1.len().cmp(&b.1.len()).then(b.0.cmp(a.0)));
        TaxonomyLevel {
            depth,
            nodes: children.len(),
            inner,
            mean_children: if inner > 0 { all as f64 / inner as f64 } else { 0.0 },
            most_children: widest.map_or(0, |it| it.1.len()),
            ends: taxa.iter().filter(|(path, _)| path.len() == depth).map(|(_, count)| count).sum(),
            widest: widest.filter(|it| !it.1.is_empty()).and_then(|it| it.0.last()).cloned().unwrap_or_default(),
        }
    };
    (1..=depth).map(level).collect()
}

pub(super) fn json(taxa: &BTreeMap<Vec<String>, usize>) -> Value {
    let level = |it: TaxonomyLevel| {
        json!({
            "depth": it.depth, "nodes": it.nodes, "inner": it.inner, "mean_children": it.mean_children,
            "most_children": it.most_children, "widest": it.widest, "samples_that_end_here": it.ends,
        })
    };
    levels(taxa).into_iter().map(level).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branching_by_hand() {
        let path = |text: &str| text.split('>').map(str::to_owned).collect::<Vec<_>>();
        let taxa = [("bird>owl>tawny", 3), ("bird>owl>barn", 1), ("bird>duck", 2), ("fish>eel>moray", 1)];
        let found = levels(&taxa.iter().map(|(text, count)| (path(text), *count)).collect());
        let numbers: Vec<_> = found.iter().map(|it| (it.nodes, it.inner, it.most_children, it.ends)).collect();
        assert_eq!(numbers, [(2, 2, 2, 0), (3, 2, 2, 2), (3, 0, 0, 5)]);
        assert_eq!((found[0].mean_children, found[1].mean_children), (1.5, 1.5));
        assert_eq!((found[0].widest.as_str(), found[1].widest.as_str(), found[2].widest.as_str()), ("bird", "owl", ""));
        assert!(levels(&BTreeMap::new()).is_empty());
    }
}
