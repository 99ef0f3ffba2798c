mod compare;
mod suite;

use std::io::Write as _;
use std::path::Path;

use anyhow::Context as _;
use burn::tensor::Device;
use conifer_data::Source;
use conifer_data::hierarchy::Tree;
use conifer_eval::benchmarks::{find, prompts};
use conifer_eval::{Context, Options, Record, Score, measure, table};
use serde_json::json;

use crate::cache::CachedEmbedder;
use crate::cli::{DataSet, Eval, ScoreArg};
use crate::embedder::ModelEmbedder;
use crate::output::{columns, print, print_json};
use crate::request::open_source;

pub(crate) fn run(args: Eval, as_json: bool, device: &Device) -> anyhow::Result<()> {
    if let [first, second] = args.compare.as_slice() {
        return compare::run(first, second, args.seed, as_json);
    }
    if let Some(name) = &args.suite {
        return suite::run(name, &args, as_json, device);
    }
    let lacking =
        "conifer eval needs a model with --data and --benchmark, a model with --suite and --root, or --compare";
    let checkpoint = args.checkpoint.as_deref().with_context(|| format!("the model is missing: {lacking}"))?;
    let data = args.data.clone().with_context(|| format!("--data is missing: {lacking}"))?;
    anyhow::ensure!(!args.benchmarks.is_empty(), "--benchmark is missing: {lacking}");
    let data = DataSet { data, split: args.split.clone(), data_options: args.data_options.clone() };
    let right = (0.0..=std::f64::consts::PI).contains(&args.gate);
    anyhow::ensure!(right, "--gate is {}; expected an angle in radians, 0 to 3.1416", args.gate);
    let benchmarks = args.benchmarks.iter().map(|name| find(name)).collect::<Result<Vec<_>, _>>()?;
    let tree = args.tree.as_deref().map(Tree::read_edges).transpose()?;
    let source = open_source(&data)?;
    // Opened before the work, so that a path that cannot be written shows before it, too.
    let log = args.out.as_deref().map(open_log).transpose()?;
    let model = ModelEmbedder::open(checkpoint, device)?.with_root_text(args.root_text.as_deref());
    let embedder = CachedEmbedder::new(model, args.cache.folder().as_deref());
    let options = Options {
        prompts: args.prompts.clone(),
        templates: templates(&args.prompts)?,
        score: match args.score {
            ScoreArg::Similarity => Score::Similarity,
            ScoreArg::Inner => Score::Inner,
        },
        crop: args.crop.into(),
        gate: args.gate,
        steps: args.steps.clone(),
        partial: args.partial,
        seed: args.seed,
    };
    let context = Context::new(&embedder, source.as_ref(), tree.as_ref(), &options);
    let mut records = Vec::new();
    for benchmark in benchmarks {
        records.extend(measure(benchmark, &context)?);
    }
    if as_json {
        print_json(&records.iter().map(Record::without_outcomes).collect::<Vec<_>>())?
    } else {
        print(&columns(&table(&records)))?
    }
    match (log, &args.out) {
        (Some(log), Some(path)) => append(log, path, &records, &args, embedder.model(), source.as_ref()),
        _ => Ok(()),
    }
}

fn open_log(path: &Path) -> anyhow::Result<std::fs::File> {
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    file.with_context(|| format!("--out {}", path.display()))
}

/// The templates of a named set or of a file.
pub(crate) fn templates(name: &str) -> anyhow::Result<Vec<String>> {
    if let Some((_, set)) = prompts::SETS.iter().find(|(known, _)| *known == name) {
        return Ok(set.iter().map(|&it| it.into()).collect());
    }
    if let Some((family, data_set)) = name.split_once(':')
        && let Some(&family) = prompts::Family::ALL.iter().find(|it| it.name() == family)
    {
        let templates = prompts::for_data_set(family, data_set)
            .with_context(|| format!("--prompts {name}: there are none for data set `{data_set}`"))?;
        return Ok(templates.iter().map(|&it| it.into()).collect());
    }
    let known: Vec<_> = prompts::SETS.iter().map(|(known, _)| *known).collect();
    let text = std::fs::read_to_string(name)
        .with_context(|| format!("--prompts {name}: neither {} nor a file that can be read", known.join(", ")))?;
    Ok(text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect())
}

/// Appends the records with what produced them: model, data, protocol, version.
fn append(
    mut file: std::fs::File,
    path: &Path,
    records: &[Record],
    args: &Eval,
    embedder: &ModelEmbedder,
    source: &dyn Source,
) -> anyhow::Result<()> {
    let produced_by = json!({
        "conifer": env!("CARGO_PKG_VERSION"),
        "checkpoint": embedder.inner().name(),
        "root_text": args.root_text,
        "weights_sha256": embedder.inner().fingerprint(),
        "data": args.data,
        "split": args.split,
        "data_sha256": source.fingerprint(),
    });
    let mut lines = String::new();
    for record in records {
        let mut line = serde_json::to_value(record)?;
        line["produced_by"] = produced_by.clone();
        lines += &format!("{line}\n");
    }
    let place = || format!("--out {}: nothing was appended", path.display());
    let length = file.metadata().with_context(place)?.len();
    file.write_all(lines.as_bytes())
        .or_else(|error| {
            // Half a line would spoil the next record as well.
            file.set_len(length)?;
            Err(error)
        })
        .with_context(place)
}
