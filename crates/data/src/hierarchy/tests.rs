#![allow(clippy::unwrap_used)]
use super::*;
use crate::fixtures::shared_data;

/// thing > { animal > { dog > { puppy }, cat }, plant }
fn tree() -> Tree {
    // The edges are deliberately out of order.
    Tree::from_edges([
        ("dog", "puppy"),
        ("thing", "animal"),
        ("animal", "dog"),
        ("thing", "plant"),
        ("animal", "cat"),
        ("animal", "cat"),
    ])
    .unwrap()
}

fn names(tree: &Tree, nodes: impl IntoIterator<Item = usize>) -> Vec<&str> {
    nodes.into_iter().map(|n| tree.name(n)).collect()
}

fn message(edges: &[(&str, &str)]) -> String {
    Tree::from_edges(edges.iter().copied()).unwrap_err().to_string()
}

#[test]
fn nodes_are_numbered_in_preorder() {
    let tree = tree();
    assert_eq!(names(&tree, 0..tree.len()), ["thing", "animal", "dog", "puppy", "cat", "plant"]);
    for node in 0..tree.len() {
        assert_eq!(tree.get(tree.name(node)).unwrap(), node);
    }
    assert_eq!(tree.find("stone"), None);
    assert_eq!(
        tree.get("stone").unwrap_err().to_string(),
        "data: hierarchy: no node `stone`; expected one of 6 nodes below `thing`"
    );
}

#[test]
fn relations() {
    let tree = tree();
    let [thing, animal, dog, puppy, cat, plant] = std::array::from_fn(|n| n);
    assert_eq!(tree.parent(thing), None);
    assert_eq!(tree.parent(dog), Some(animal));
    assert_eq!(tree.depth(puppy), 3);
    assert_eq!(tree.ancestors(puppy).collect::<Vec<_>>(), [dog, animal, thing]);
    assert_eq!(tree.path(puppy), [thing, animal, dog, puppy]);
    assert_eq!(tree.path(thing), [thing]);
    assert_eq!(tree.children(animal).collect::<Vec<_>>(), [dog, cat]);
    assert_eq!(tree.children(thing).collect::<Vec<_>>(), [animal, plant]);
    assert_eq!(tree.children(plant).count(), 0);
    assert_eq!(tree.subtree(animal), animal..plant);
    assert_eq!(tree.leaves().collect::<Vec<_>>(), [puppy, cat, plant]);
    assert_eq!(tree.leaves_below(dog).collect::<Vec<_>>(), [puppy]);
    assert_eq!(tree.leaves_below(cat).collect::<Vec<_>>(), [cat]);
    assert!(tree.is_ancestor(thing, puppy) && tree.is_ancestor(animal, cat));
    assert!(!tree.is_ancestor(dog, cat) && !tree.is_ancestor(dog, dog));
    assert!(!tree.is_ancestor(puppy, dog));
}

/// Compares with the definition: the last common node of the two paths from the root.
#[test]
fn lca_and_distance_agree_with_the_paths() {
    let tree = tree();
    for a in 0..tree.len() {
        for b in 0..tree.len() {
            let (pa, pb) = (tree.path(a), tree.path(b));
            let shared = pa.iter().zip(&pb).take_while(|(x, y)| x == y).count();
            assert_eq!(tree.lca(a, b), pa[shared - 1], "{a} {b}");
            assert_eq!(tree.distance(a, b), pa.len() + pb.len() - 2 * shared);
        }
    }
}

#[test]
fn paths_with_and_without_the_root_make_the_same_tree() {
    let with = Tree::from_paths("thing", [vec!["thing", "animal", "dog"], vec!["thing", "animal", "cat"]]);
    let without = Tree::from_paths("thing", [["animal", "dog"], ["animal", "cat"]]);
    assert_eq!(with.unwrap(), without.unwrap());
    let lone = Tree::from_paths::<&str>("thing", Vec::<Vec<&str>>::new()).unwrap();
    assert_eq!((lone.len(), lone.is_leaf(0)), (1, true));
}

#[test]
fn two_parents() {
    assert_eq!(
        message(&[("thing", "fruit"), ("thing", "food"), ("fruit", "apple"), ("food", "apple")]),
        "data: hierarchy: node `apple` has two parents, `fruit` and `food`; expected one parent a node"
    );
}

#[test]
fn cycles() {
    assert_eq!(
        message(&[("root", "x"), ("d", "a"), ("a", "b"), ("b", "c"), ("c", "a")][1..]),
        "data: hierarchy: node `a` has two parents, `d` and `c`; expected one parent a node"
    );
    assert_eq!(
        message(&[("root", "x"), ("a", "b"), ("b", "c"), ("c", "a"), ("c", "tail")]),
        "data: hierarchy: a cycle, `a` > `b` > `c` > `a`; expected no cycle"
    );
    assert_eq!(message(&[("a", "b"), ("b", "a")]), "data: hierarchy: a cycle, `a` > `b` > `a`; expected no cycle");
    assert_eq!(message(&[("a", "a")]), "data: hierarchy: node `a` is its own parent; expected no cycle");
}

#[test]
fn several_roots_or_none() {
    assert_eq!(
        message(&[("a", "b"), ("c", "d"), ("e", "f")]),
        "data: hierarchy: several roots: `a`, `c` and 1 more; expected one node without a parent"
    );
    assert_eq!(message(&[]), "data: hierarchy: no edges; expected at least one");
}

#[test]
fn edge_files() {
    let folder = tempfile::tempdir().unwrap();
    let read = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        Tree::read_edges(&path)
    };
    let spaced = read("a.txt", "# is-a\nthing animal\n\nanimal dog\n").unwrap();
    let tabbed = read("a.tsv", "thing\tanimal\nanimal\tblack dog\n").unwrap();
    let json =
        read("a.jsonl", "{\"parent\":\"thing\",\"child\":\"animal\"}\n{\"parent\":\"animal\",\"child\":\"dog\"}\n");
    assert_eq!(spaced, json.unwrap());
    assert_eq!(names(&tabbed, 0..3), ["thing", "animal", "black dog"]);

    let error = read("bad.txt", "a b\na b c\n").unwrap_err().to_string();
    assert!(
        error.ends_with("bad.txt`: \"a b c\"; expected a parent and a child, separated by a tab or by spaces"),
        "{error}"
    );
    assert!(error.starts_with("data: line 2 of `"), "{error}");
    let error = Tree::read_edges(&folder.path().join("none.txt")).unwrap_err();
    assert!(error.to_string().contains("cannot read `"), "{error}");
}

/// A chain deep enough to overflow the stack of a recursive build.
#[test]
fn deep_chains_do_not_overflow_the_stack() {
    let edges = (0..200_000).map(|i| (i.to_string(), (i + 1).to_string()));
    let tree = Tree::from_edges(edges).unwrap();
    assert_eq!(tree.depth(tree.get("200000").unwrap()), 200_000);
}

/// Node counts from the README of `../shared/data` (edges: hycoclip 1,371; cvjena 1,784; breeds 1,327).
#[test]
fn published_trees() {
    for (file, nodes) in [
        ("imagenet_hierarchy/hycoclip_NC/imagenet_isa.txt", 1372),
        ("imagenet_hierarchy/cvjena/ILSVRC/wordnet.parent-child.mintree.txt", 1785),
        ("breeds/modified/class_hierarchy.txt", 1328),
    ] {
        if let Some(path) = shared_data(file) {
            assert_eq!(Tree::read_edges(&path).unwrap().len(), nodes, "{file}");
        }
    }
}

#[test]
fn graphs_that_are_wrong() {
    let message = |edges: &[(&str, &str)]| ClassGraph::from_edges(edges.iter().copied()).unwrap_err().to_string();
    assert_eq!(message(&[]), "data: hierarchy: no edges; expected at least one");
    assert_eq!(message(&[("a", "")]), "data: hierarchy: the edge from `a` to ``; expected a name for each node");
    let cycle = message(&[("top", "a"), ("a", "b"), ("b", "c"), ("c", "a"), ("c", "leaf")]);
    assert_eq!(cycle, "data: hierarchy: a cycle, `b` > `c` > `a` > `b`; expected no cycle");
    assert_eq!(message(&[("a", "a")]), "data: hierarchy: a cycle, `a` > `a`; expected no cycle");
    let wheel = ClassGraph::from_edges([("car", "wheel"), ("bicycle", "wheel")]).unwrap();
    assert_eq!(wheel.roots().map(|it| wheel.name(it)).collect::<Vec<_>>(), ["car", "bicycle"]);
    let parents = wheel.to_tree().unwrap_err().to_string();
    assert!(parents.contains("node `wheel` has two parents, `car` and `bicycle`"), "{parents}");
    assert_eq!(
        wheel.get("moon").unwrap_err().to_string(),
        "data: hierarchy: no node `moon`; expected one of 3 nodes, such as `car`"
    );
}
