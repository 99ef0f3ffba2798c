use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, ensure};
use conifer_datasets::class_trees::TREES;
use conifer_viz::TreeNode;
use serde_json::json;

use crate::arguments::TreeArgs;
use crate::output::{print, print_json};

/// Prints or writes a class tree or a subtree of it.
pub(super) fn run(args: &TreeArgs, as_json: bool) -> anyhow::Result<()> {
    let kinds = || TREES.iter().map(|it| it.kind).collect::<Vec<_>>().join(", ");
    let (kind, path) = args.tree.split_once(':').with_context(|| {
        format!("{}: expected KIND:PATH, such as wordnet:/usr/share/wordnet; kinds: {}", args.tree, kinds())
    })?;
    let entry = TREES.iter().find(|it| it.kind == kind);
    let entry = entry.with_context(|| format!("unknown tree `{kind}`; known: {}", kinds()))?;
    let named = (entry.read)(Path::new(path))?;
    let (tree, labels) = (&named.tree, named.labels());
    let top = args.below.as_deref().map(|name| named.find(name)).transpose().context("--below")?.unwrap_or(0);
    let label = |node: usize| if args.ids { tree.name(node) } else { &labels[node] };
    let level = |node: usize| tree.depth(node) - tree.depth(top);
    let shown: Vec<_> = tree.subtree(top).filter(|&node| level(node) <= args.depth.unwrap_or(usize::MAX)).collect();
    let edges = || shown[1..].iter().filter_map(|&node| Some((label(tree.parent(node)?), label(node))));
    if let Some(out) = &args.out {
        ensure!(shown.len() > 1, "`{}` has no children; expected a node with children", label(top));
        let text = match out.extension().is_some_and(|it| it == "svg") {
            true => {
                let node =
                    |&it: &usize| TreeNode { depth: level(it), label: label(it).to_owned(), ..TreeNode::default() };
                conifer_viz::tree(label(top), &shown.iter().map(node).collect::<Vec<_>>())
            }
            false => edges().map(|(parent, child)| format!("{parent}\t{child}\n")).collect(),
        };
        fs::write(out, text).with_context(|| out.display().to_string())?;
    }
    let leaves = |node: usize| tree.leaves_below(node).count();
    if as_json {
        let edges: Vec<_> = edges().collect();
        return print_json(&json!({ "root": label(top), "nodes": shown.len(), "leaves": leaves(top), "edges": edges }));
    }
    if let Some(out) = &args.out {
        return print(&format!("{} edges below {} -> {}\n", shown.len() - 1, label(top), out.display()));
    }
    let mut text = String::new();
    for &node in &shown {
        let hidden = tree.children(node).next().is_some() && Some(level(node)) == args.depth;
        let more = if hidden { format!("  ({} leaves)", leaves(node)) } else { String::new() };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{:1$}{2}{more}", "", 2 * level(node), label(node));
    }
    print(&text)
}
