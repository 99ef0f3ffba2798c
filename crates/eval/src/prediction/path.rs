use conifer_data::hierarchy::Tree;

/// A path from the root of a class tree, with a confidence for each node.
///
/// The answer at a threshold is the deepest node whose confidence exceeds the threshold, or the root if there is none.
///
/// Confidences never increase along the path ([`ScoredPath::push`] enforces it). Hence the answer at a higher
/// threshold is the same node or one above it: the nodes with confidence > t form a prefix of the path, and the prefix
/// for t' >= t is a prefix of the prefix for t. An answer is right if it is the true node or an ancestor of it. All
/// ancestors of a right answer are right, so the loss (1 for a wrong answer, else 0) never increases with the
/// threshold. Conformal risk control requires exactly this.
///
/// The comparison is strict, because the loss is then right-continuous in the threshold, and a smallest threshold at
/// which a bound on the risk holds exists.
#[derive(Clone, Debug, PartialEq)]
pub struct ScoredPath {
    nodes: Vec<usize>,
    scores: Vec<f64>,
}

impl ScoredPath {
    /// Creates a path that consists of the root.
    pub fn new(root: usize, score: f64) -> Self {
        Self { nodes: vec![root], scores: vec![score] }
    }

    /// Appends a node below the last one. If its confidence exceeds the confidence of the last node, it is lowered to
    /// that confidence: the sum of all probabilities may be rounded to less than 1.
    pub fn push(&mut self, node: usize, score: f64) {
        let above = self.scores.last().copied().unwrap_or(f64::INFINITY);
        self.nodes.push(node);
        self.scores.push(score.min(above));
    }

    /// The nodes, from the root.
    pub fn nodes(&self) -> &[usize] {
        &self.nodes
    }

    /// The confidence of each node.
    pub fn scores(&self) -> &[f64] {
        &self.scores
    }

    /// Number of nodes from the root to the answer, both included. At least 1.
    pub fn answer_len(&self, threshold: Option<f64>) -> usize {
        threshold.map_or(1, |threshold| self.scores.partition_point(|&score| score > threshold).max(1))
    }

    /// The answer at a threshold. `None` stands for a threshold that no confidence exceeds: the answer is the root.
    pub fn answer(&self, threshold: Option<f64>) -> usize {
        self.nodes[self.answer_len(threshold) - 1]
    }

    /// The confidence of the first node that is neither `truth` nor above it. The answer is wrong exactly at the
    /// thresholds below this value. `None` if every node of the path is right. The root is always right.
    pub fn critical(&self, tree: &Tree, truth: usize) -> Option<f64> {
        let wrong = |&node: &usize| node != tree.root() && !tree.subtree(node).contains(&truth);
        self.nodes.iter().position(wrong).map(|first| self.scores[first])
    }
}
