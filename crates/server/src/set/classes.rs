//! Builds the class tree of the rows from a file of edges (`--tree`), from the ranks of the data (`--data`), or from
//! the column `label` and taxonomic rank columns.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use conifer_data::hierarchy::Tree;
use conifer_search::LABEL;

use crate::set::state::SAMPLE;

/// Columns that hold a whole path of ranks, from general to specific, in one value.
const PATH_COLUMNS: [&str; 5] = ["taxon", "taxa", "ranks", "taxonomy", "lineage"];
/// Columns that hold one rank each, from general to specific.
const RANK_COLUMNS: [&str; 9] =
    ["domain", "kingdom", "phylum", "class", "order", "family", "subfamily", "genus", "species"];
/// Separators between the ranks of a path. The first separator in this list that occurs in any value of a column
/// applies to all values of the column.
const SEPARATORS: [&str; 7] = [" > ", "\t", "|", ";", " / ", ">", "/"];
/// Prefix of the column `sample` in rows that embed the text of a taxon; the text follows it.
/// `conifer embed --views taxa` writes such rows.
const TAXON_ROW: &str = "taxon:";
/// Name of the root of a tree that is built from columns.
const ROOT: &str = "all";

/// The values of the columns of a set, by column name.
pub(crate) type ColumnMap = BTreeMap<String, Vec<String>>;

/// Source of the classes of the rows.
pub(crate) enum ClassSource {
    /// A tree from a file of edges or from the ranks of the data. A row belongs to the node named by its label.
    Edges(Tree),
    /// The labels and ranks of the rows themselves.
    Columns(RankTree),
}

/// A tree built from the labels and ranks of rows. Nodes are identified by path, because two genera may share a name.
pub(crate) struct RankTree {
    tree: Tree,
    by_path: HashMap<Vec<String>, u32>,
    /// Nodes by the last name of their path, if no other path ends with this name. Used for rows with a label but no
    /// ranks.
    by_name: HashMap<String, u32>,
}

/// How a set stores the ranks of a row.
enum RankColumns<'a> {
    None,
    /// One column with whole paths. Values that are JSON lists are parsed; other values are split at the separator.
    Path(&'a [String], Option<&'static str>),
    /// One column per rank, most general first.
    Each(Vec<&'a [String]>),
}

/// Rows that embed the texts of taxa. A text lists the names of all ranks down to the taxon, separated by spaces. The
/// ancestors of a taxon are the taxa whose texts are prefixes of its text.
struct TaxonRows<'a> {
    /// Text and name of the taxon of each row.
    of_row: Vec<Option<(&'a str, &'a str)>>,
    names: HashMap<&'a str, &'a str>,
}

impl ClassSource {
    /// The classes given by the columns of a set; `None` if no row has a label or a rank.
    ///
    /// # Errors
    /// The errors of [`Tree::from_edges`].
    pub(crate) fn of_columns(columns: &ColumnMap) -> conifer_data::Result<Option<Self>> {
        Ok(RankTree::new(columns)?.map(Self::Columns))
    }

    /// Returns the tree and the node of each row.
    pub(crate) fn assign(self, columns: &ColumnMap, rows: usize) -> (Tree, Vec<Option<u32>>) {
        match self {
            ClassSource::Edges(tree) => {
                let node = |label: &String| tree.find(label).and_then(|node| u32::try_from(node).ok());
                let node_of = columns.get(LABEL).map_or_else(|| vec![None; rows], |it| it.iter().map(node).collect());
                (tree, node_of)
            }
            ClassSource::Columns(classes) => {
                let node_of = paths(columns, rows).iter().map(|path| classes.node(path)).collect();
                (classes.tree, node_of)
            }
        }
    }
}

impl RankTree {
    fn new(columns: &ColumnMap) -> conifer_data::Result<Option<Self>> {
        let rows = columns.values().next().map_or(0, Vec::len);
        let mut ranked: BTreeSet<Vec<String>> = BTreeSet::new();
        let mut labels: BTreeSet<Vec<String>> = BTreeSet::new();
        for path in paths(columns, rows) {
            match path.len() {
                0 => {}
                1 => _ = labels.insert(path),
                length => (1..=length).for_each(|end| _ = ranked.insert(path[..end].to_vec())),
            }
        }
        // A label without ranks belongs to the rank node of that name if there is exactly one. Otherwise it becomes a
        // child of the root.
        let mut same_name: HashMap<&str, usize> = HashMap::new();
        ranked.iter().filter_map(|path| path.last()).for_each(|name| *same_name.entry(name).or_default() += 1);
        let alone: Vec<Vec<String>> =
            labels.into_iter().filter(|path| same_name.get(path[0].as_str()) != Some(&1)).collect();
        drop(same_name);
        ranked.extend(alone);
        if ranked.is_empty() {
            return Ok(None);
        }
        let names = unique_names(&ranked);
        let mut root = ROOT.to_owned();
        while names.values().any(|name| *name == root) {
            root.insert(0, '*');
        }
        let above = |path: &[String]| names.get(&path[..path.len() - 1]).map_or(root.as_str(), String::as_str);
        let tree = Tree::from_edges(ranked.iter().map(|path| (above(path), names[path.as_slice()].as_str())))?;
        let node = |name: &str| tree.find(name).and_then(|node| u32::try_from(node).ok());
        let by_path: HashMap<Vec<String>, u32> =
            ranked.iter().filter_map(|path| Some((path.clone(), node(&names[path.as_slice()])?))).collect();
        let mut by_name: HashMap<String, Option<u32>> = HashMap::new();
        for (path, node) in &by_path {
            let name = path.last().cloned().unwrap_or_default();
            by_name.entry(name).and_modify(|it| *it = None).or_insert(Some(*node));
        }
        let by_name = by_name.into_iter().filter_map(|(name, node)| Some((name, node?))).collect();
        Ok(Some(RankTree { tree, by_path, by_name }))
    }

    fn node(&self, path: &[String]) -> Option<u32> {
        let found = self.by_path.get(path);
        found.or_else(|| if let [label] = path { self.by_name.get(label) } else { None }).copied()
    }
}

/// The class path of every row, from general to specific: its ranks, then its label unless a rank has the same name.
fn paths(columns: &ColumnMap, rows: usize) -> Vec<Vec<String>> {
    let ranks = RankColumns::of(columns);
    let taxa = TaxonRows::of(columns, rows);
    let labels = columns.get(LABEL);
    let path = |row: usize| {
        let mut path = ranks.of_row(row);
        if path.is_empty() {
            path = taxa.path(row);
        }
        let label = labels.map_or("", |it| it[row].trim());
        let known = path.iter().any(|name| name.eq_ignore_ascii_case(label));
        if label.is_empty() || known {
            return path;
        }
        // The species column may hold only the second word of the name: ranks `Canis`, `lupus` and label `Canis lupus`.
        // The label then replaces the last rank.
        if let Some(last) = path.last_mut()
            && label.to_lowercase().ends_with(&format!(" {}", last.to_lowercase()))
        {
            label.clone_into(last);
        } else {
            path.push(label.to_owned());
        }
        path
    };
    (0..rows).map(path).collect()
}

impl<'a> TaxonRows<'a> {
    fn of(columns: &'a ColumnMap, rows: usize) -> Self {
        let samples = columns.get(SAMPLE);
        let taxon = |row: usize| {
            let text = samples?[row].strip_prefix(TAXON_ROW)?;
            let label = columns.get(LABEL).map_or("", |labels| labels[row].as_str());
            Some((text, label))
        };
        let of_row: Vec<Option<(&str, &str)>> = (0..rows).map(taxon).collect();
        let names = of_row.iter().flatten().copied().collect();
        TaxonRows { of_row, names }
    }

    /// The names of the taxon of a row and of its ancestors, from general to specific; empty for rows without a taxon.
    fn path(&self, row: usize) -> Vec<String> {
        let Some((text, _)) = self.of_row[row] else { return Vec::new() };
        let ends = text.match_indices(' ').map(|(end, _)| end).chain([text.len()]);
        let mut path = Vec::new();
        let mut above = 0;
        for end in ends {
            if let Some(&label) = self.names.get(&text[..end]) {
                let name = if label.is_empty() { text[above..end].trim() } else { label };
                path.push(name.to_owned());
                above = end;
            }
        }
        path
    }
}

impl<'a> RankColumns<'a> {
    fn of(columns: &'a ColumnMap) -> Self {
        let named = |name: &str| columns.iter().find(|(it, _)| it.eq_ignore_ascii_case(name)).map(|(_, values)| values);
        let each: Vec<&[String]> = RANK_COLUMNS.iter().filter_map(|name| named(name)).map(Vec::as_slice).collect();
        // Require at least three columns, because `class` and `order` alone may not be taxonomic ranks.
        if each.len() >= 3 {
            return RankColumns::Each(each);
        }
        for values in PATH_COLUMNS.iter().filter_map(|name| named(name)) {
            let separator = SEPARATORS.into_iter().find(|it| values.iter().any(|value| value.contains(it)));
            let listed = values.iter().any(|value| value.starts_with('['));
            if separator.is_some() || listed {
                return RankColumns::Path(values, separator);
            }
        }
        RankColumns::None
    }

    fn of_row(&self, row: usize) -> Vec<String> {
        let named = |name: &str| Some(name.trim().to_owned()).filter(|it| !it.is_empty());
        match self {
            RankColumns::None => Vec::new(),
            RankColumns::Each(columns) => columns.iter().filter_map(|values| named(&values[row])).collect(),
            RankColumns::Path(values, separator) => {
                let value = &values[row];
                if let Ok(names) = serde_json::from_str::<Vec<String>>(value) {
                    return names.iter().filter_map(|name| named(name)).collect();
                }
                match separator {
                    Some(separator) => value.split(separator).filter_map(named).collect(),
                    None => named(value).into_iter().collect(),
                }
            }
        }
    }
}

/// A unique name for every path: its last name. If other paths share the last name, the parent follows in brackets; if
/// that is taken too, the name is the whole path.
fn unique_names(paths: &BTreeSet<Vec<String>>) -> HashMap<&[String], String> {
    let mut sharing: HashMap<&str, usize> = HashMap::new();
    let last = |path: &[String]| path.last().cloned().unwrap_or_default();
    for path in paths {
        *sharing.entry(path.last().map_or("", String::as_str)).or_default() += 1;
    }
    let alone = |path: &&Vec<String>| sharing.get(last(path).as_str()) == Some(&1);
    let mut used: HashSet<String> = paths.iter().filter(alone).map(|path| last(path)).collect();
    let mut names = HashMap::new();
    for path in paths {
        let mut name = last(path);
        if !alone(&path) {
            if let [.., above, own] = path.as_slice() {
                name = format!("{own} ({above})");
            }
            if used.contains(&name) {
                name = path.join(" > ");
            }
            while !used.insert(name.clone()) {
                name.push('*');
            }
        }
        names.insert(path.as_slice(), name);
    }
    names
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn columns(all: &[(&str, &[&str])]) -> ColumnMap {
        let owned = |values: &[&str]| values.iter().map(|it| (*it).to_owned()).collect();
        all.iter().map(|(name, values)| ((*name).to_owned(), owned(values))).collect()
    }

    /// The class path of every row, as node names joined by `/`.
    fn classes(columns: &ColumnMap) -> Vec<String> {
        let rows = columns.values().next().unwrap().len();
        let (tree, node_of) = ClassSource::of_columns(columns).unwrap().unwrap().assign(columns, rows);
        let path = |node: u32| {
            let path = tree.path(node as usize);
            path.into_iter().map(|it| tree.name(it)).collect::<Vec<_>>().join("/")
        };
        node_of.into_iter().map(|node| node.map_or_else(String::new, path)).collect()
    }

    #[test]
    fn labels_become_children_of_one_root() {
        let found = classes(&columns(&[("label", &["b", "a", "b", "", "all"])]));
        assert_eq!(found, ["*all/b", "*all/a", "*all/b", "", "*all/all"]);
        assert!(ClassSource::of_columns(&columns(&[("label", &["", ""])])).unwrap().is_none());
        assert!(ClassSource::of_columns(&columns(&[("text", &["a"])])).unwrap().is_none());
    }

    #[test]
    fn all_rank_formats_give_the_same_tree() {
        let expected = ["all/Aves/Sula/Sula sula", "all/Aves", "all/Aves/Sula", ""];
        let label = ("label", &["Sula sula", "", "Sula", ""][..]);
        for written in [
            ["[\"Aves\",\"Sula\",\"sula\"]", "[\"Aves\"]", "", ""],
            ["Aves > Sula > sula", "Aves", "", ""],
            ["Aves;Sula;sula", "Aves", "", ""],
            ["Aves/Sula/Sula sula", "Aves/", "", ""],
        ] {
            assert_eq!(classes(&columns(&[label, ("taxon", &written)])), expected, "{written:?}");
        }
        let each = [
            label,
            ("class", &["Aves", "Aves", "", ""]),
            ("Genus", &["Sula", "", "", ""]),
            ("order", &["", "", "", ""]),
            ("species", &["sula", "", "", ""]),
        ];
        assert_eq!(classes(&columns(&each)), expected);
    }

    #[test]
    fn taxon_rows_give_the_ancestors_of_labels() {
        let found = classes(&columns(&[
            ("label", &["Sula sula", "Animalia", "Sula sula", "Sula", "Aves", "dog"]),
            (
                "sample",
                &[
                    "a",
                    "taxon:Animalia",
                    "taxon:Animalia Aves Sula sula",
                    "taxon:Animalia Aves Sula",
                    "taxon:Animalia Aves",
                    "b",
                ],
            ),
        ]));
        let leaf = "all/Animalia/Aves/Sula/Sula sula";
        assert_eq!(found, [leaf, "all/Animalia", leaf, "all/Animalia/Aves/Sula", "all/Animalia/Aves", "all/dog"]);
    }

    #[test]
    fn taxa_with_the_same_name_stay_distinct() {
        let paths =
            ["Aves > Papasula > abbotti", "Aves > Abbottia > abbotti", "Aves > Gorilla > Gorilla", "Mus > Mus (x)"];
        assert_eq!(
            classes(&columns(&[("ranks", &paths)])),
            [
                "all/Aves/Papasula/abbotti (Papasula)",
                "all/Aves/Abbottia/abbotti (Abbottia)",
                "all/Aves/Gorilla (Aves)/Gorilla (Gorilla)",
                "all/Mus/Mus (x)",
            ]
        );
        // A label without ranks that two taxa share belongs to neither.
        let both = columns(&[("ranks", &[paths[0], paths[1], ""]), ("label", &["", "", "abbotti"])]);
        assert_eq!(classes(&both)[2], "all/abbotti");
    }
}
