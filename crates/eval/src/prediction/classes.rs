use conifer_data::hierarchy::Tree;

use super::ScoredPath;
use crate::{Error, Result};

/// The classes that a model chooses from, and the tree above them.
#[derive(Clone, Debug)]
pub struct PredictionTree {
    tree: Tree,
    /// Node of each class, in the order of the scores.
    classes: Vec<usize>,
    is_class: Vec<bool>,
    /// The lowest common ancestor of all classes. This node and its ancestors are correct answers for every photo whose
    /// class is one of `classes`.
    common: usize,
}

/// The true class of a photo in a class tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TruePosition {
    /// The node of the class, or the deepest known node above an unknown class.
    pub node: usize,
    /// True if the node is a class that the model chooses from, or is below such a class. Otherwise only an inner node
    /// is a right answer.
    pub seen: bool,
}

impl PredictionTree {
    /// Uses the leaves of the tree as classes.
    ///
    /// # Errors
    /// The tree has fewer than two leaves.
    pub fn of_leaves(tree: Tree) -> Result<Self> {
        let leaves = tree.leaves().collect();
        Self::of_nodes(tree, leaves)
    }

    /// Uses the nodes with these names as classes.
    ///
    /// # Errors
    /// A name is not in the tree, occurs twice, or is above another name; or there are fewer than two names.
    pub fn of_names<S: AsRef<str>>(tree: Tree, names: &[S]) -> Result<Self> {
        let node = |name: &S| {
            tree.find(name.as_ref()).ok_or_else(|| Error::UnknownLabel {
                label: name.as_ref().into(),
                known: "node of the class tree",
                count: tree.len(),
                example: tree.leaves().next().map_or_else(String::new, |leaf| tree.name(leaf).to_owned()),
            })
        };
        let nodes = names.iter().map(node).collect::<Result<Vec<usize>>>()?;
        Self::of_nodes(tree, nodes)
    }

    fn of_nodes(tree: Tree, classes: Vec<usize>) -> Result<Self> {
        if classes.len() < 2 {
            return Err(Error::Invalid {
                name: "the class tree".into(),
                found: format!("{} class below `{}`", classes.len(), tree.name(tree.root())),
                expected: "at least two classes to choose from".into(),
            });
        }
        let mut sorted = classes.clone();
        sorted.sort_unstable();
        // Nodes are in preorder: a node above or equal to another class contains the next class in its subtree.
        if let Some(pair) = sorted.windows(2).find(|pair| tree.subtree(pair[0]).contains(&pair[1])) {
            let found = match pair[0] == pair[1] {
                true => format!("`{}`, twice", tree.name(pair[0])),
                false => format!("`{}`, which is above `{}`", tree.name(pair[0]), tree.name(pair[1])),
            };
            return Err(Error::Invalid {
                name: "the list of classes".into(),
                found,
                expected: "different classes, none above another".into(),
            });
        }
        let mut is_class = vec![false; tree.len()];
        classes.iter().for_each(|&node| is_class[node] = true);
        let common = tree.lca(sorted[0], sorted[sorted.len() - 1]);
        Ok(Self { tree, classes, is_class, common })
    }

    /// The tree.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// The node of each class, in the order of the scores.
    pub fn classes(&self) -> &[usize] {
        &self.classes
    }

    /// Number of edges from the lowest common ancestor of all classes down to `node`. It is 0 for nodes above this
    /// ancestor, because they are right for every photo of a class.
    pub fn depth(&self, node: usize) -> usize {
        self.tree.depth(node).saturating_sub(self.tree.depth(self.common))
    }

    /// Probability of each node: the sum of `softmax(scores / temperature)` over the classes at or below the node.
    ///
    /// `scores` has one similarity per class, in the order of [`PredictionTree::classes`]. A node without a class below
    /// it has probability 0.
    ///
    /// # Errors
    /// The number of scores is wrong, a score is not finite, or the temperature is not a positive number.
    pub fn node_probabilities(&self, scores: &[f32], temperature: f64) -> Result<Vec<f64>> {
        let wrong =
            |name: &str, found: String, expected: String| Err(Error::Invalid { name: name.into(), found, expected });
        if scores.len() != self.classes.len() {
            return wrong("the scores of a photo", scores.len().to_string(), format!("{} numbers", self.classes.len()));
        }
        if !(temperature > 0.0 && temperature.is_finite()) {
            return wrong("the temperature", temperature.to_string(), "a positive number".into());
        }
        if let Some(class) = scores.iter().position(|score| !score.is_finite()) {
            let name = format!("the score of class `{}`", self.tree.name(self.classes[class]));
            return wrong(&name, scores[class].to_string(), "a finite number".into());
        }
        let max = f64::from(scores.iter().copied().fold(f32::NEG_INFINITY, f32::max));
        let weights: Vec<f64> = scores.iter().map(|&score| ((f64::from(score) - max) / temperature).exp()).collect();
        let sum: f64 = weights.iter().sum();
        let mut probabilities = vec![0.0; self.tree.len()];
        for (&node, weight) in self.classes.iter().zip(weights) {
            probabilities[node] = weight / sum;
        }
        // A parent has a smaller index than its children, so its sum is complete when it is added to its own parent.
        for node in (1..self.tree.len()).rev() {
            if let Some(parent) = self.tree.parent(node) {
                probabilities[parent] += probabilities[node];
            }
        }
        Ok(probabilities)
    }

    /// The path from the root that descends to the most probable child until it reaches a class. Of equal children the
    /// first is taken. The confidence of a node is its probability; the confidence of the root is 1.
    pub fn greedy_path(&self, probabilities: &[f64]) -> ScoredPath {
        let mut path = ScoredPath::new(self.tree.root(), 1.0);
        let mut node = self.tree.root();
        while !self.is_class[node] {
            let better = |best: Option<usize>, child: usize| match best {
                Some(best) if probabilities[best] >= probabilities[child] => Some(best),
                _ => Some(child),
            };
            let Some(child) = self.tree.children(node).filter(|&it| probabilities[it] > 0.0).fold(None, better) else {
                break;
            };
            path.push(child, probabilities[child]);
            node = child;
        }
        path
    }

    /// A flat classifier that backs off, for comparison: the path to the most probable class, which has the probability
    /// p. The confidence of the node that is h edges above the class is `p * 2^h`: the class is answered if p > t, its
    /// parent if p > t / 2, the node above if p > t / 4, and so on. It has one threshold t for all levels and does not
    /// sum over classes.
    pub fn flat_path(&self, probabilities: &[f64]) -> ScoredPath {
        let class = self.most_probable(probabilities);
        let nodes = self.tree.path(class);
        let height = |index: usize| (nodes.len() - 1 - index) as f64;
        let score = |index: usize| probabilities[class] * height(index).exp2();
        let mut path = ScoredPath::new(nodes[0], f64::INFINITY);
        nodes.iter().enumerate().skip(1).for_each(|(index, &node)| path.push(node, score(index)));
        path
    }

    /// A flat classifier with rejection, for comparison: the most probable class if its probability exceeds the
    /// threshold, else the root.
    pub fn reject_path(&self, probabilities: &[f64]) -> ScoredPath {
        let class = self.most_probable(probabilities);
        let mut path = ScoredPath::new(self.tree.root(), f64::INFINITY);
        path.push(class, probabilities[class]);
        path
    }

    /// The most probable class; of equal classes the first.
    pub fn most_probable(&self, probabilities: &[f64]) -> usize {
        let better = |best: usize, class: usize| if probabilities[class] > probabilities[best] { class } else { best };
        self.classes.iter().copied().fold(self.classes[0], better)
    }

    /// The position of a photo with this label and taxon (names from general to specific). `None` if neither the label
    /// nor a name of the taxon is in the tree.
    ///
    /// A label that is not in the tree is placed at the deepest node that the taxon names. Each name of the taxon is
    /// searched below the previous name; names that are not in the tree are skipped. A node may have the bare name, the
    /// binomial of genus and epithet, or a name that [`conifer_data::hierarchy::class_tree`] makes unique: `Prunella
    /// (Lamiaceae)`.
    pub fn position(&self, label: Option<&str>, taxon: &[String]) -> Option<TruePosition> {
        let node = label.and_then(|label| self.tree.find(label)).or_else(|| self.deepest_of(taxon))?;
        let seen = self.is_class[node] || self.tree.ancestors(node).any(|above| self.is_class[above]);
        Some(TruePosition { node, seen })
    }

    fn deepest_of(&self, taxon: &[String]) -> Option<usize> {
        let mut found = None;
        for (i, name) in taxon.iter().enumerate() {
            let above = taxon[..i].last().map_or("", String::as_str);
            let names = [taxon[..=i].join(" > "), format!("{name} ({above})"), format!("{above} {name}"), name.clone()];
            let below = self.tree.subtree(found.unwrap_or(self.tree.root()));
            found = names.iter().find_map(|name| self.tree.find(name).filter(|node| below.contains(node))).or(found);
        }
        found
    }

    /// True if `answer` is the true node or an ancestor of it. The root is right for every photo.
    pub fn is_right(&self, answer: usize, truth: usize) -> bool {
        answer == self.tree.root() || self.tree.subtree(answer).contains(&truth)
    }
}
