use std::collections::BTreeMap;

use serde::Deserialize;

use super::*;

/// Twelve classes in two trees. A wheel is a part of cars, bicycles and carts.
fn wheels() -> ClassGraph {
    ClassGraph::from_edges([
        ("vehicle", "car"),
        ("vehicle", "bicycle"),
        ("vehicle", "cart"),
        ("car", "wheel"),
        ("car", "door"),
        ("bicycle", "wheel"),
        ("bicycle", "saddle"),
        ("cart", "wheel"),
        ("wheel", "tyre"),
        ("wheel", "spoke"),
        ("door", "handle"),
        ("person", "hand"),
    ])
    .unwrap()
}

#[test]
fn several_parents_by_hand() {
    let graph = wheels();
    let at = |name: &str| graph.get(name).unwrap();
    let scores = |predicted, truth| hierarchical_scores(&graph, at(predicted), at(truth));
    // A saddle and a tyre are both below bicycle, by one and two edges. The ancestors of the saddle are bicycle and
    // vehicle; those of the tyre also include wheel, car and cart.
    let it = scores("saddle", "tyre");
    assert_eq!((it.tree_induced_error, it.lca, it.lca_released), (3.0, 2.0, 1.0));
    assert_eq!((it.jaccard, it.precision, it.recall), (0.4, 1.0, 0.4));
    // The shortest path from a handle to a saddle leads up to car, down to wheel, and up to bicycle. Their only common
    // ancestor is vehicle, three edges above the handle.
    let it = scores("handle", "saddle");
    assert_eq!((it.tree_induced_error, it.lca, it.lca_released), (5.0, 3.0, 3.0));
    assert_eq!((it.jaccard, it.precision, it.recall), (0.25, 1.0 / 3.0, 0.5));
    // Car and bicycle have a common child and a common parent.
    assert_eq!((scores("car", "bicycle").tree_induced_error, scores("car", "bicycle").lca), (2.0, 1.0));
    // The common ancestor is the virtual parent of both roots: two edges above a hand and four above a tyre.
    let it = scores("hand", "tyre");
    assert_eq!((it.tree_induced_error, it.lca, it.lca_released, it.jaccard), (6.0, 4.0, 2.0, 0.0));
}

#[test]
fn a_shortcut_does_not_change_which_ancestor_is_lowest() {
    // The lowest common ancestor of c and d is b, two edges above both, although the root is one edge above both.
    let graph = ClassGraph::from_edges([
        ("root", "b"),
        ("b", "x"),
        ("b", "y"),
        ("x", "c"),
        ("y", "d"),
        ("root", "c"),
        ("root", "d"),
    ])
    .unwrap();
    let it = hierarchical_scores(&graph, graph.get("c").unwrap(), graph.get("d").unwrap());
    assert_eq!((it.tree_induced_error, it.lca), (2.0, 2.0));
}

#[derive(Deserialize)]
struct Expected {
    edges: Vec<(String, String)>,
    descendants: BTreeMap<String, Vec<String>>,
    scores: Vec<ExpectedScores>,
}

#[derive(Deserialize)]
struct ExpectedScores {
    predicted: String,
    truth: String,
    tie: f64,
    lca: f64,
    lca_released: f64,
    jaccard: f64,
    precision: f64,
    recall: f64,
}

/// Compares with the scores of networkx in `fixtures/class_graph.json` (see `fixtures/RECIPE.md`).
#[test]
fn scores_of_networkx() {
    let file = include_str!("../../../../../fixtures/class_graph.json");
    let expected: Expected = serde_json::from_str(file).unwrap();
    let graph = ClassGraph::from_edges(expected.edges.iter().map(|(parent, child)| (parent, child))).unwrap();
    assert!((0..graph.len()).filter(|&node| graph.parents(node).len() > 1).count() >= 5);
    for (name, below) in &expected.descendants {
        let node = graph.get(name).unwrap();
        let mut found: Vec<_> = graph.descendants(node).into_keys().filter(|&it| it != node).collect();
        found.sort_unstable_by_key(|&it| graph.name(it));
        assert_eq!(found.iter().map(|&it| graph.name(it)).collect::<Vec<_>>(), *below, "{name}");
    }
    assert_eq!(expected.scores.len(), 200);
    for it in &expected.scores {
        let found = hierarchical_scores(&graph, graph.get(&it.predicted).unwrap(), graph.get(&it.truth).unwrap());
        let pairs = [
            (found.tree_induced_error, it.tie),
            (found.lca, it.lca),
            (found.lca_released, it.lca_released),
            (found.jaccard, it.jaccard),
            (found.precision, it.precision),
            (found.recall, it.recall),
        ];
        let close = pairs.iter().all(|(found, expected)| (found - expected).abs() < 1e-12);
        assert!(close, "{} for {}: {found:?}", it.predicted, it.truth);
    }
}

/// For a tree, the class graph gives the same numbers as the tree.
#[test]
fn a_tree_is_a_graph() {
    let edges = [("root", "animal"), ("animal", "dog"), ("root", "car"), ("animal", "cat"), ("car", "taxi")];
    let tree = conifer_data::hierarchy::Tree::from_edges(edges).unwrap();
    let graph = ClassGraph::from_edges(edges).unwrap();
    assert_eq!(ClassGraph::from(&tree), graph);
    assert_eq!(graph.to_tree().unwrap(), tree);
    for (a, b) in (0..tree.len()).flat_map(|a| (0..tree.len()).map(move |b| (a, b))) {
        let scores = hierarchical_scores(&graph, a, b);
        assert_eq!(scores.tree_induced_error, tree.distance(a, b) as f64);
        assert_eq!(graph.descendants(a).contains_key(&b), tree.subtree(a).contains(&b));
    }
}
