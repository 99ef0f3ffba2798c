//! Builds the class tree from the taxa and labels of samples.

use std::collections::{HashMap, HashSet};

use super::Tree;
use crate::source::Source;

/// Candidate names of an artificial root, which is added if the taxa differ in their first name. The first candidate
/// that is not the name of a node is used.
const ROOTS: [&str; 3] = ["all", "all taxa", "the root of all taxa"];

/// Builds the tree over `classes`; each is a taxon (general to specific) and a label.
///
/// Every label becomes the name of a node. If the label equals the last name of the taxon or is a binomial of the last
/// two names, it names the last node. If the label equals the name of a higher rank, it names that node. Otherwise it
/// becomes a child of the last node. If a name occurs in several paths, a later occurrence is extended by the name of
/// its parent: "Prunella (Lamiaceae)".
///
/// `None` if no taxon has two ranks, if a label belongs to two taxa, which a tree cannot represent, or if other nodes
/// have taken all candidate names of a node.
pub fn class_tree<'a>(classes: impl IntoIterator<Item = (&'a [String], &'a str)>) -> Option<Tree> {
    let mut classes: Vec<(&[String], &str)> = classes.into_iter().filter(|(taxon, _)| !taxon.is_empty()).collect();
    let mut seen = HashSet::new();
    classes.retain(|class| seen.insert(*class));
    if classes.iter().all(|(taxon, _)| taxon.len() < 2) {
        return None;
    }
    // Nodes are identified by their paths. A label below its taxon extends the path by one name.
    let mut name_of: HashMap<Vec<&str>, String> = HashMap::new();
    let mut path_of: HashMap<String, Vec<&str>> = HashMap::new();
    let mut paths = Vec::with_capacity(classes.len());
    for (taxon, label) in classes {
        let mut path: Vec<&str> = taxon.iter().map(String::as_str).collect();
        let is_last = path.last() == Some(&label)
            || matches!(path[..], [.., genus, epithet] if label.split_once(' ') == Some((genus, epithet)));
        let node = match path.iter().rposition(|name| *name == label) {
            _ if is_last || label.is_empty() => path.clone(),
            Some(rank) => path[..=rank].to_vec(),
            None => {
                path.push(label);
                path.clone()
            }
        };
        if !label.is_empty() {
            match path_of.get(label) {
                Some(other) if *other != node => return None,
                _ => path_of.insert(label.to_owned(), node.clone()),
            };
            name_of.insert(node, label.to_owned());
        }
        paths.push(path);
    }
    for path in &paths {
        for end in 1..=path.len() {
            let here = &path[..end];
            if name_of.contains_key(here) {
                continue;
            }
            let (last, above) = (here[end - 1], here[..end - 1].last().copied().unwrap_or_default());
            let names = [last.to_owned(), format!("{last} ({above})"), here.join(" > ")];
            let name = names.into_iter().find(|name| !path_of.contains_key(name))?;
            path_of.insert(name.clone(), here.to_vec());
            name_of.insert(here.to_vec(), name);
        }
    }
    let firsts: HashSet<&str> = paths.iter().map(|path| path[0]).collect();
    let root = match firsts.len() {
        1 => None,
        _ => Some(*ROOTS.iter().find(|name| !path_of.contains_key(**name))?),
    };
    let mut edges: Vec<(&str, &str)> = Vec::new();
    for path in &paths {
        edges.extend(root.map(|root| (root, name_of[&path[..1]].as_str())));
        edges.extend((1..path.len()).map(|end| (name_of[&path[..end]].as_str(), name_of[&path[..=end]].as_str())));
    }
    Tree::from_edges(edges).ok()
}

/// The tree of all readable samples of a source. `None` in the cases of [`class_tree`], and if a sample has a label but
/// no taxon.
pub fn of_samples(source: &dyn Source) -> Option<Tree> {
    let mut classes = HashSet::new();
    for sample in (0..source.len()).filter_map(|index| source.get(index).ok()) {
        match sample.label {
            Some(_) if sample.taxon.is_empty() => return None,
            label => _ = classes.insert((sample.taxon, label.unwrap_or_default())),
        }
    }
    // Sort: the iteration order of hash sets is random.
    let mut classes: Vec<_> = classes.into_iter().collect();
    classes.sort();
    class_tree(classes.iter().map(|(taxon, label)| (&taxon[..], label.as_str())))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn tree(classes: &[(&str, &str)]) -> Option<Tree> {
        let names = |text: &str| text.split('>').map(str::to_owned).collect::<Vec<_>>();
        let classes: Vec<_> = classes.iter().map(|(taxon, label)| (names(taxon), *label)).collect();
        class_tree(classes.iter().map(|(taxon, label)| (&taxon[..], *label)))
    }

    fn path(tree: &Tree, label: &str) -> String {
        let node = tree.find(label).unwrap();
        tree.path(node).into_iter().map(|it| tree.name(it)).collect::<Vec<_>>().join(">")
    }

    #[test]
    fn shared_epithets_are_separate_classes() {
        let found = tree(&[
            ("Aves>Pellorneidae>Malacocincla>abbotti", "Malacocincla abbotti"),
            ("Aves>Sulidae>Papasula>abbotti", "Papasula abbotti"),
            ("Aves>Sulidae>Papasula>abbotti", "Papasula abbotti"),
        ])
        .unwrap();
        assert_eq!(path(&found, "Malacocincla abbotti"), "Aves>Pellorneidae>Malacocincla>Malacocincla abbotti");
        assert_eq!(path(&found, "Papasula abbotti"), "Aves>Sulidae>Papasula>Papasula abbotti");
        assert_eq!(found.leaves().count(), 2);
    }

    #[test]
    fn labels_become_nodes() {
        // The input has a name that occurs in two paths, a label that is not in its taxon, and a label that equals a
        // higher rank.
        let found = tree(&[("A>x>1", "one"), ("B>x>2", "2"), ("B>y>3", "y"), ("B>y>4", "y")]).unwrap();
        assert_eq!(path(&found, "one"), "all>A>x>1>one");
        assert_eq!(path(&found, "2"), "all>B>x (B)>2");
        assert_eq!(path(&found, "y"), "all>B>y");
        assert_eq!(found.children(found.find("y").unwrap()).count(), 2);
        // Two adjacent ranks with the same name.
        assert_eq!(path(&tree(&[("A>A>1", "1"), ("A>b>2", "2")]).unwrap(), "1"), "A>A (A)>1");
        // Cases that a tree cannot represent.
        assert_eq!(tree(&[("A", "A"), ("B", "B")]), None);
        assert_eq!(tree(&[("A>x", "dog"), ("B>y", "dog")]), None);
        assert_eq!(tree(&[]), None);
    }
}
