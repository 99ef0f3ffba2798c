use std::collections::{BTreeMap, BTreeSet};

use conifer_data::hierarchy::ClassGraph;

/// Distances in a class tree between predictions and true classes, for a single sample or averaged over samples.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HierarchicalScores {
    /// Tree-induced error: number of edges on the path between prediction and truth; 0 is correct.
    pub tree_induced_error: f64,
    /// LCA distance as the papers define it: number of edges from the deeper of the two nodes to their lowest common
    /// ancestor; 0 is correct.
    pub lca: f64,
    /// LCA as the released evaluator computes it: `|anc(pred)| - |anc(pred) ∩ anc(true)| + 1` over strict ancestors. It
    /// is one-sided. A correct answer and a sibling both score 1.
    pub lca_released: f64,
    /// Jaccard similarity of the strict ancestor sets.
    pub jaccard: f64,
    /// Hierarchical precision `|anc(pred) ∩ anc(true)| / |anc(pred)|`.
    pub precision: f64,
    /// Hierarchical recall `|anc(pred) ∩ anc(true)| / |anc(true)|`.
    pub recall: f64,
}

/// Hierarchical scores of a pair of nodes (HyCoCLIP section 4.2 and appendix C).
///
/// Ancestor sets exclude the node itself, as in the released evaluator, so siblings have equal sets. The root has no
/// strict ancestor. A ratio with an empty denominator is 1.
///
/// If a class has several parents, its ancestors are all classes on paths upwards. TIE is the length of the shortest
/// path, which may go up and down (as in the released evaluator). Distances to ancestors are lengths of shortest paths.
/// Of several lowest common ancestors the one with the smallest LCA counts. Two nodes without a common ancestor are
/// scored as if one more class were the parent of all roots.
pub fn hierarchical_scores(graph: &ClassGraph, predicted: usize, truth: usize) -> HierarchicalScores {
    let (predicted, truth) = (NodeAncestors::new(graph, predicted), NodeAncestors::new(graph, truth));
    predicted.scores(graph, &truth, &graph.distances_from(truth.node))
}

/// A node with the distances to its ancestors, including itself.
struct NodeAncestors {
    node: usize,
    up: BTreeMap<usize, usize>,
}

impl NodeAncestors {
    fn new(graph: &ClassGraph, node: usize) -> Self {
        Self { node, up: graph.ancestors(node) }
    }

    /// Number of edges to a virtual parent of all roots.
    fn to_top(&self, graph: &ClassGraph) -> usize {
        let roots = self.up.iter().filter(|(node, _)| graph.parents(**node).is_empty());
        roots.map(|(_, distance)| distance + 1).min().unwrap_or(1)
    }

    /// The scores of this prediction. `from_truth` is [`ClassGraph::distances_from`] the true node.
    fn scores(&self, graph: &ClassGraph, truth: &Self, from_truth: &[Option<usize>]) -> HierarchicalScores {
        let common: BTreeSet<usize> = self.up.keys().filter(|node| truth.up.contains_key(node)).copied().collect();
        // The lowest common ancestors have no common ancestor below them. Every class on a path between two common
        // ancestors is a common ancestor, so it is enough to remove the parents of common ancestors.
        let higher: BTreeSet<usize> = common.iter().flat_map(|&node| graph.parents(node)).copied().collect();
        let lca = common.difference(&higher).map(|node| self.up[node].max(truth.up[node])).min();
        let shared = common.iter().filter(|&&node| node != self.node && node != truth.node).count();
        let (above_predicted, above_truth) = (self.up.len() - 1, truth.up.len() - 1);
        let (to_top, truth_to_top) = (self.to_top(graph), truth.to_top(graph));
        let ratio = |part: usize, whole: usize| if whole == 0 { 1.0 } else { part as f64 / whole as f64 };
        HierarchicalScores {
            tree_induced_error: from_truth[self.node].unwrap_or(to_top + truth_to_top) as f64,
            lca: lca.unwrap_or(to_top.max(truth_to_top)) as f64,
            lca_released: (above_predicted - shared + 1) as f64,
            jaccard: ratio(shared, above_predicted + above_truth - shared),
            precision: ratio(shared, above_predicted),
            recall: ratio(shared, above_truth),
        }
    }
}

impl HierarchicalScores {
    /// Mean over samples, or zeros if there are none.
    pub fn mean(scores: &[Self]) -> Self {
        let n = scores.len().max(1) as f64;
        let sum = |field: fn(&Self) -> f64| scores.iter().map(field).sum::<f64>() / n;
        Self {
            tree_induced_error: sum(|s| s.tree_induced_error),
            lca: sum(|s| s.lca),
            lca_released: sum(|s| s.lca_released),
            jaccard: sum(|s| s.jaccard),
            precision: sum(|s| s.precision),
            recall: sum(|s| s.recall),
        }
    }

    /// `(name, value)` of each score, in the order of the tables in the papers.
    pub fn named(&self) -> [(&'static str, f64); 6] {
        [
            ("TIE", self.tree_induced_error),
            ("LCA", self.lca),
            ("LCA released", self.lca_released),
            ("Jaccard", self.jaccard),
            ("P_H", self.precision),
            ("R_H", self.recall),
        ]
    }
}

/// Expected scores of a predictor that draws one of `classes` uniformly, with the truth drawn from `labels`.
pub fn random_hierarchical_scores(graph: &ClassGraph, classes: &[usize], labels: &[usize]) -> HierarchicalScores {
    let mut count = BTreeMap::<usize, usize>::new();
    for &label in labels {
        *count.entry(label).or_default() += 1;
    }
    let classes: Vec<_> = classes.iter().map(|&class| NodeAncestors::new(graph, class)).collect();
    let per_label = count.into_iter().map(|(label, times)| {
        let (truth, distances) = (NodeAncestors::new(graph, label), graph.distances_from(label));
        let row: Vec<_> = classes.iter().map(|class| class.scores(graph, &truth, &distances)).collect();
        (HierarchicalScores::mean(&row), times)
    });
    let all: Vec<HierarchicalScores> =
        per_label.flat_map(|(scores, times)| std::iter::repeat_n(scores, times)).collect();
    HierarchicalScores::mean(&all)
}
