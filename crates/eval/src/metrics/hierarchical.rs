use conifer_data::hierarchy::Tree;

/// Distances in a class tree between predictions and true classes, for a single sample or averaged over samples.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HierarchicalScores {
    /// Tree-induced error: number of edges on the path between prediction and truth; 0 is correct.
    pub tree_induced_error: f64,
    /// LCA distance as the papers define it: number of edges from the deeper of the two nodes to their lowest common
    /// ancestor; 0 is correct.
    pub lca: f64,
    /// LCA as the released evaluator computes it: `|anc(pred)| - |anc(pred) ∩ anc(true)| + 1` over strict ancestors. It
    /// is one-sided; a correct answer scores 1, and so does a sibling.
    pub lca_released: f64,
    /// Jaccard similarity of the strict ancestor sets.
    pub jaccard: f64,
    /// Hierarchical precision `|∩| / |anc(pred)|`.
    pub precision: f64,
    /// Hierarchical recall `|∩| / |anc(true)|`.
    pub recall: f64,
}

/// Hierarchical scores of a pair of nodes (HyCoCLIP section 4.2 and appendix C).
///
/// Ancestor sets exclude the node itself, as in the released evaluator, so siblings have equal sets. The root has no
/// strict ancestor. A ratio with an empty denominator is 1.
pub fn hierarchical_scores(tree: &Tree, predicted: usize, truth: usize) -> HierarchicalScores {
    let up_predicted: Vec<usize> = tree.ancestors(predicted).collect();
    let up_truth: Vec<usize> = tree.ancestors(truth).collect();
    let shared = up_predicted.iter().filter(|node| up_truth.contains(node)).count();
    let common = tree.lca(predicted, truth);
    let below = |node: usize| (tree.depth(node) - tree.depth(common)) as f64;
    let ratio = |part: usize, whole: usize| if whole == 0 { 1.0 } else { part as f64 / whole as f64 };
    HierarchicalScores {
        tree_induced_error: below(predicted) + below(truth),
        lca: below(predicted).max(below(truth)),
        lca_released: (up_predicted.len() - shared + 1) as f64,
        jaccard: ratio(shared, up_predicted.len() + up_truth.len() - shared),
        precision: ratio(shared, up_predicted.len()),
        recall: ratio(shared, up_truth.len()),
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

    /// `(name, value)` of each score, in the order the papers print them.
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
pub fn random_hierarchical_scores(tree: &Tree, classes: &[usize], labels: &[usize]) -> HierarchicalScores {
    let mut count = std::collections::BTreeMap::<usize, usize>::new();
    for &label in labels {
        *count.entry(label).or_default() += 1;
    }
    let per_label: Vec<(HierarchicalScores, usize)> = count
        .into_iter()
        .map(|(label, times)| {
            let row: Vec<_> = classes.iter().map(|&class| hierarchical_scores(tree, class, label)).collect();
            (HierarchicalScores::mean(&row), times)
        })
        .collect();
    let all: Vec<HierarchicalScores> =
        per_label.iter().flat_map(|&(scores, times)| std::iter::repeat_n(scores, times)).collect();
    HierarchicalScores::mean(&all)
}
