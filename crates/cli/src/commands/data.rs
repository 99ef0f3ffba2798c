mod check;
mod class_tree;
mod parts;
mod profile;
mod sets;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use conifer_data::PixelLimits;
use conifer_data::export::{self, CropSettings, ExportReport, ExportTarget, FolderShare};
use conifer_data::shard::ShardSize;
use conifer_datasets::SOURCES;
use conifer_datasets::class_trees::TREES;
use conifer_datasets::import::{IMPORTERS, ImportSpec, import};
use conifer_toy::write_folder;
use conifer_toy::{ToyConfig, ToySplit, ToyWorld, tree};
use serde_json::json;

use crate::arguments::{DataCommand, ImportArgs, SampleFormatArg, TargetArgs};
use crate::output::{note, print, print_json};
use crate::request::{open_source, source_spec};

pub(crate) fn run(args: DataCommand, as_json: bool) -> anyhow::Result<()> {
    match args {
        DataCommand::List => list(as_json),
        DataCommand::Sets { root } => sets::run(root.as_deref(), as_json),
        DataCommand::Toy { out, size, resolution, seed } => {
            toy(&out, ToyConfig { size, resolution, seed, ..ToyConfig::default() }, as_json)
        }
        DataCommand::Import(args) => import_files(args, as_json),
        DataCommand::Export(args) => {
            let source = open_source(&args.data)?;
            let from = source_spec(&args.data)?.path;
            let same = |path: &Path| path.canonicalize().ok();
            if from.is_some_and(|from| same(&from).is_some() && same(&from) == same(&args.target.out)) {
                bail!("--out {} is the data set itself; expected another path", args.target.out.display());
            }
            print_report(
                &export::write(
                    export::samples(source.as_ref()),
                    &source.roots(),
                    &target(&args.target)?,
                    &PixelLimits::default(),
                )?,
                as_json,
            )
        }
        DataCommand::Parts(args) => parts::run(args, as_json),
        DataCommand::Tree(args) => class_tree::run(&args, as_json),
        DataCommand::Profile(args) => profile::run(&args, as_json),
        DataCommand::Check { data, pixels } => check::run(&data, pixels, as_json),
    }
}

fn list(as_json: bool) -> anyhow::Result<()> {
    let inputs = |entry: &conifer_datasets::import::ImporterEntry| {
        let one = |it: &conifer_datasets::import::ImporterInput| {
            format!("{}{}: {}", it.name, if it.required { "" } else { " (optional)" }, it.help)
        };
        entry.inputs.iter().map(one).collect::<Vec<_>>()
    };
    let options = |entry: &conifer_datasets::import::ImporterEntry| {
        entry.options.iter().map(|it| format!("{}: {}", it.name, it.help)).collect::<Vec<_>>()
    };
    if as_json {
        let sources: Vec<_> =
            SOURCES.iter().map(|it| json!({ "kind": it.kind, "summary": it.summary, "inputs": it.inputs })).collect();
        let importers: Vec<_> = IMPORTERS
            .iter()
            .map(|it| json!({ "name": it.name, "summary": it.summary, "inputs": inputs(it), "options": options(it) }))
            .collect();
        let trees: Vec<_> = TREES.iter().map(|it| json!({ "kind": it.kind, "summary": it.summary })).collect();
        return print_json(&json!({ "sources": sources, "importers": importers, "trees": trees }));
    }
    let mut text = String::from("Sources, for --data KIND:PATH and the [data] of a config\n");
    for it in SOURCES {
        text += &format!("\n  {}  {}\n      {}\n", it.kind, it.summary, it.inputs);
    }
    text += "\nFormats, for conifer data import\n";
    for it in IMPORTERS {
        text += &format!("\n  {}  {}\n", it.name, it.summary);
        for input in inputs(it) {
            text += &format!("      --input {input}\n");
        }
        for option in options(it) {
            text += &format!("      --option {option}\n");
        }
    }
    text += "\nTrees of classes, for conifer data tree KIND:PATH\n\n";
    for it in TREES {
        text += &format!("  {}  {}\n", it.kind, it.summary);
    }
    print(&text)
}

/// Writes the scenes of every split as one grounded file, single objects as class folders, and the class tree.
fn toy(out: &Path, config: ToyConfig, as_json: bool) -> anyhow::Result<()> {
    std::fs::create_dir_all(out).with_context(|| out.display().to_string())?;
    let worlds = ToySplit::ALL
        .iter()
        .map(|&split| {
            // The other splits are an eighth of the training split.
            let size = if split == ToySplit::Train { config.size } else { config.size.div_ceil(8) };
            ToyWorld::new(ToyConfig { split, size, ..config })
        })
        .collect::<Result<Vec<_>, _>>()?;
    let path = out.join("scenes.jsonl");
    let samples = worlds.iter().flat_map(|world| export::samples(world));
    let report = export::write(samples, &[], &ExportTarget::Grounded { path: path.clone() }, &PixelLimits::default())?;
    write_folder(&ToyWorld::new(config)?.gallery(10)?, &out.join("classes"))?;
    let tree = tree()?;
    let edges =
        (0..tree.len()).filter_map(|node| Some(format!("{}\t{}\n", tree.name(tree.parent(node)?), tree.name(node))));
    std::fs::write(out.join("tree.txt"), edges.collect::<String>()).with_context(|| out.display().to_string())?;
    if as_json {
        let (classes, tree) = (out.join("classes"), out.join("tree.txt"));
        return print_json(&json!({ "scenes": report.written, "grounded": path, "classes": classes, "tree": tree }));
    }
    print(&format!(
        "{} scenes -> {}\nclass folders -> {}\nclass tree -> {}\n",
        report.written,
        path.display(),
        out.join("classes").display(),
        out.join("tree.txt").display()
    ))
}

fn import_files(args: ImportArgs, as_json: bool) -> anyhow::Result<()> {
    let inputs = args
        .inputs
        .iter()
        .map(|text| {
            let (name, path) = text.split_once('=').with_context(|| format!("--input {text}: expected NAME=PATH"))?;
            Ok((name.to_owned(), PathBuf::from(path)))
        })
        .collect::<anyhow::Result<BTreeMap<_, _>>>()?;
    let options = args
        .options
        .iter()
        .map(|text| {
            let (name, value) =
                text.split_once('=').with_context(|| format!("--option {text}: expected NAME=VALUE"))?;
            Ok((name.to_owned(), value.to_owned()))
        })
        .collect::<anyhow::Result<BTreeMap<_, _>>>()?;
    let spec = ImportSpec { kind: args.format, inputs, options, split: args.split, roots: args.roots };
    print_report(&import(&spec, &target(&args.target)?, &PixelLimits::default())?, as_json)
}

/// The export target that the arguments name.
fn target(args: &TargetArgs) -> anyhow::Result<ExportTarget> {
    let folder = args.out.clone();
    let size = ShardSize { samples: args.shard_samples, ..ShardSize::default() };
    if args.to != SampleFormatArg::Grounded && args.out.is_file() {
        bail!("--out {} is a file; expected a folder for shards", args.out.display());
    }
    Ok(match args.to {
        SampleFormatArg::Grounded => ExportTarget::Grounded { path: folder },
        SampleFormatArg::Pairs => ExportTarget::Pairs { folder, size },
        SampleFormatArg::Boxes => {
            ExportTarget::Boxes { folder, size, cut: CropSettings { side: args.side, ..CropSettings::default() } }
        }
    })
}

fn print_report(report: &ExportReport, as_json: bool) -> anyhow::Result<()> {
    if as_json {
        return print_json(report);
    }
    for it in &report.examples {
        note(&format!("skipped: {it}"));
    }
    let mut text = match &report.folder {
        // A folder may hold photos without annotations, and annotated photos may fail to export.
        Some(FolderShare { photos, without_record: 0 }) => format!("{} of {photos} photos written", report.written),
        Some(FolderShare { photos, without_record }) => {
            format!("{} of {photos} photos written: {without_record} have no annotations", report.written)
        }
        None => format!("{} samples written", report.written),
    };
    for (cause, count) in &report.skipped {
        text += &format!(", {count} x {}", cause.name());
    }
    for file in &report.files {
        text += &format!("\n{}", file.display());
    }
    print(&(text + "\n"))
}
