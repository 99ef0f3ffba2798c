use std::path::{Path, PathBuf};

use conifer_data::hierarchy::{ClassGraph, Tree};
use conifer_data::transform::EvalCrop;
use conifer_embeddings::sha256_hex;
use serde_json::{Value, json};

use crate::benchmarks::Benchmark;
use crate::{Error, Options, Result};

/// A class tree or graph and the file it was read from.
#[derive(Clone, Debug)]
pub struct TreeFile {
    /// The graph of the classes. It is a tree if every class except one has exactly one parent; see
    /// [`ClassGraph::to_tree`].
    pub graph: ClassGraph,
    /// Path of the file.
    pub path: PathBuf,
    /// SHA-256 of the file, hexadecimal.
    pub sha256: String,
}

impl TreeFile {
    /// Wraps the tree of the taxonomic ranks in a data set. The hash is computed from its edges, written as in an edge
    /// file.
    pub fn of_ranks(tree: &Tree) -> Self {
        let edge = |node| Some(format!("{}\t{}\n", tree.name(tree.parent(node)?), tree.name(node)));
        let edges: String = (0..tree.len()).filter_map(edge).collect();
        let sha256 = sha256_hex(edges.as_bytes());
        Self { path: PathBuf::from("the ranks of the data"), sha256, graph: ClassGraph::from(tree) }
    }

    /// Reads a file of edges.
    ///
    /// # Errors
    /// The errors of [`ClassGraph::read_edges`].
    pub fn read(path: &Path) -> Result<Self> {
        let graph = ClassGraph::read_edges(path)?;
        let bytes = std::fs::read(path).map_err(|error| Error::Invalid {
            name: path.display().to_string(),
            found: error.to_string(),
            expected: "a readable file of edges".into(),
        })?;
        Ok(Self { graph, path: path.into(), sha256: sha256_hex(&bytes) })
    }
}

/// Settings of a benchmark run, stored as `produced_by.settings` in result files. Model, data and settings together
/// determine the number. `crop`, `prompts` and `tree` are null if the benchmark does not use them.
pub fn settings(
    benchmark: &dyn Benchmark,
    options: &Options,
    tree: Option<&TreeFile>,
    root_text: Option<&str>,
) -> Value {
    let crop = benchmark.uses_photos().then_some(match options.crop {
        EvalCrop::Center => "center",
        EvalCrop::Squeeze => "squeeze",
    });
    let prompts = benchmark.prompts().then(|| {
        let templates = options.templates.join("\n");
        json!({ "name": options.prompts, "sha256": sha256_hex(templates.as_bytes()) })
    });
    let tree = tree.filter(|_| benchmark.looks_at_tree());
    let mut settings = json!({
        "crop": crop,
        "prompts": prompts,
        "gate": options.gate,
        "steps": options.steps,
        "partial": options.partial,
        "seed": options.seed,
        "tree": tree.map(|it| json!({ "path": it.path.display().to_string(), "sha256": it.sha256 })),
        "root_text": root_text,
    });
    if let Some(queries) = options.queries.filter(|_| benchmark.draws_queries()) {
        settings["queries"] = queries.into();
    }
    settings
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::benchmarks::find;

    #[test]
    fn unused_settings_are_null() {
        let folder = std::env::temp_dir().join(format!("conifer-settings-{}", std::process::id()));
        std::fs::write(&folder, "root a\nroot b\n").unwrap();
        let tree = TreeFile::read(&folder);
        std::fs::remove_file(&folder).unwrap();
        let (tree, options) = (tree.unwrap(), Options::default());
        let of = |name: &str| settings(find(name).unwrap(), &options, Some(&tree), Some("Eukarya"));
        let tied = of("hierarchical_classification");
        assert_eq!(tied["tree"]["sha256"], sha256_hex(b"root a\nroot b\n"));
        assert_eq!(tied["prompts"]["sha256"], sha256_hex(b"a photo of a {}."));
        assert_eq!((&tied["crop"], &tied["root_text"]), (&json!("center"), &json!("Eukarya")));
        assert_eq!(of("pep")["crop"], "center");
        let words = of("hyperlex");
        let drawn = Options { queries: Some(5), ..Options::default() };
        let queries = |name: &str| settings(find(name).unwrap(), &drawn, None, None)["queries"].clone();
        assert_eq!((queries("part_retrieval"), queries("hyperlex")), (json!(5), Value::Null));
        assert!(words["crop"].is_null() && words["prompts"].is_null() && words["tree"].is_null(), "{words}");
    }
}
