use std::io::Write as _;
use std::path::Path;

use anyhow::Context as _;
use burn::tensor::Device;
use conifer_data::Source;
use conifer_data::hierarchy::Tree;
use conifer_eval::benchmarks::{find, prompts};
use conifer_eval::{Context, Options, Record, Score, table};
use serde_json::json;

use crate::cli::{Eval, ScoreArg};
use crate::embedder::ModelEmbedder;
use crate::output::{columns, print, print_json};
use crate::request::open_source;

pub(crate) fn run(args: Eval, as_json: bool, device: &Device) -> anyhow::Result<()> {
    let benchmarks = args.benchmarks.iter().map(|name| find(name)).collect::<Result<Vec<_>, _>>()?;
    let tree = args.tree.as_deref().map(Tree::read_edges).transpose()?;
    let source = open_source(&args.data)?;
    let embedder = ModelEmbedder::open(&args.checkpoint, device)?;
    let options = Options {
        templates: templates(&args.prompts)?,
        score: match args.score {
            ScoreArg::Similarity => Score::Similarity,
            ScoreArg::Inner => Score::Inner,
        },
        crop: args.crop.into(),
        steps: args.steps,
        seed: args.seed,
    };
    let context = Context { embedder: &embedder, source: source.as_ref(), tree: tree.as_ref(), options: &options };
    let mut records = Vec::new();
    for benchmark in benchmarks {
        records.extend(benchmark.run(&context)?);
    }
    if let Some(path) = &args.out {
        append(path, &records, &args, &embedder, source.as_ref())?;
    }
    if as_json { print_json(&records) } else { print(&columns(&table(&records))) }
}

/// The templates of a named set or of a file.
pub(crate) fn templates(name: &str) -> anyhow::Result<Vec<String>> {
    if let Some((_, set)) = prompts::SETS.iter().find(|(known, _)| *known == name) {
        return Ok(set.iter().map(|&it| it.into()).collect());
    }
    let known: Vec<_> = prompts::SETS.iter().map(|(known, _)| *known).collect();
    let text = std::fs::read_to_string(name)
        .with_context(|| format!("--prompts {name}: neither {} nor a file that can be read", known.join(", ")))?;
    Ok(text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect())
}

/// Appends the records with what produced them: model, data, protocol, version.
fn append(
    path: &Path,
    records: &[Record],
    args: &Eval,
    embedder: &ModelEmbedder,
    source: &dyn Source,
) -> anyhow::Result<()> {
    let produced_by = json!({
        "conifer": env!("CARGO_PKG_VERSION"),
        "checkpoint": args.checkpoint,
        "weights_sha256": embedder.weights_hash()?,
        "data": args.data.data,
        "split": args.data.split,
        "data_sha256": source.fingerprint(),
    });
    let mut lines = String::new();
    for record in records {
        let mut line = serde_json::to_value(record)?;
        line["produced_by"] = produced_by.clone();
        lines += &format!("{line}\n");
    }
    let mut file =
        std::fs::OpenOptions::new().create(true).append(true).open(path).with_context(|| path.display().to_string())?;
    file.write_all(lines.as_bytes()).with_context(|| path.display().to_string())
}
