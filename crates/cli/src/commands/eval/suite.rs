use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use burn::tensor::Device;
use conifer_data::SourceSpec;
use conifer_datasets::{open, sets};
use conifer_eval::benchmarks::prompts;
use conifer_eval::suite::{DataSetFinder, DataSetLookup, SuiteSettings, TableFormat, jsonl, render};
use conifer_eval::{Error, Result, Suite, SuiteReport, TreeFile};
use serde::Deserialize;
use serde_json::json;

use crate::arguments::{ReportFormat, SuiteArgs};
use crate::cache::CachedEmbedder;
use crate::embedder::ModelEmbedder;
use crate::output::{note, print, print_json};

use super::out::ReportFile;

/// Evaluates every task of a suite and prints the paper's tables.
pub(super) fn run(args: &SuiteArgs, as_json: bool, device: &Device) -> anyhow::Result<()> {
    if let Some(name) = &args.name {
        let plain = !name.trim().is_empty() && !name.chars().any(char::is_control);
        anyhow::ensure!(plain, "--name is {name:?}; expected a name of one line, without control characters");
    }
    let suite = find(&args.suite)?;
    let (root, checkpoint) = (args.root.as_path(), args.checkpoint.as_path());
    anyhow::ensure!(root.is_dir(), "--root {} is not a folder", root.display());
    // Open the output before the evaluation, so that an unwritable path fails early.
    let out = args.out.as_deref().map(|path| ReportFile::create(path, args.overwrite)).transpose()?;
    let model = ModelEmbedder::open(checkpoint, device)?.with_root_text(args.root_text.as_deref());
    let embedder = CachedEmbedder::new(model, args.cache.folder().as_deref());
    let settings = SuiteSettings { partial: args.partial, seed: args.seed };
    let report = suite.run(&embedder, &FolderFinder(root), settings, &mut |line| note(line));

    let produced_by = json!({
        "conifer": env!("CARGO_PKG_VERSION"),
        "checkpoint": embedder.model().inner().name(),
        "root_text": args.root_text,
        "weights_sha256": embedder.model().inner().fingerprint(),
        "split": null,
    });
    let model = &args.name.clone().unwrap_or_else(|| named_as(checkpoint));
    let written = |format| match format {
        ReportFormat::Text => Ok(render(TableFormat::Text, &suite, &report, model)),
        ReportFormat::Md => Ok(render(TableFormat::Markdown, &suite, &report, model)),
        ReportFormat::Csv => Ok(render(TableFormat::Csv, &suite, &report, model)),
        ReportFormat::Latex => Ok(render(TableFormat::Latex, &suite, &report, model)),
        ReportFormat::Jsonl => jsonl(&report, &produced_by),
    };
    let format = match (args.format, args.out.as_deref().and_then(Path::extension).and_then(|it| it.to_str())) {
        (Some(format), _) => format,
        (None, Some("md")) => ReportFormat::Md,
        (None, Some("csv")) => ReportFormat::Csv,
        (None, Some("tex")) => ReportFormat::Latex,
        (None, Some("jsonl")) => ReportFormat::Jsonl,
        (None, _) => ReportFormat::Text,
    };
    // A report without results does not replace the file. Print the report even if the file cannot be written, so that
    // the work is not lost.
    let saved = out.filter(|_| !report.measured.is_empty()).map(|file| file.finish(written(format)?.as_bytes()));
    if as_json {
        print_json(&report)?;
    } else if args.out.is_some() {
        print(&written(ReportFormat::Text)?)?;
    } else {
        print(&written(format)?)?;
        if format == ReportFormat::Jsonl {
            report.remains().iter().for_each(|line| note(line));
        }
    }
    saved.transpose()?;
    verdict(&report, args.partial)
}

/// Default name of the model in the tables: the last part of its path.
fn named_as(checkpoint: &Path) -> String {
    let whole = || checkpoint.display().to_string();
    checkpoint.file_name().map_or_else(whole, |name| name.to_string_lossy().into_owned())
}

/// Finds the suite of a paper, or reads a user's suite from a TOML file.
fn find(name: &str) -> anyhow::Result<Suite> {
    if !name.ends_with(".toml") {
        return Ok(Suite::find(name)?);
    }
    let text = std::fs::read_to_string(name).with_context(|| format!("suite {name}"))?;
    Ok(Suite::parse(name, &text)?)
}

/// Fails if a task failed, if data sets are missing without `--partial`, or if nothing was measured.
fn verdict(report: &SuiteReport, partial: bool) -> anyhow::Result<()> {
    let (failed, missing) = (report.failed.len(), report.missing.len());
    let first = report.failed.first().map_or_else(String::new, |it| format!(", first {}: {}", it.task, it.error));
    let tasks = |count: usize, one: &str, more: &str| match count {
        1 => format!("1 task {one}"),
        _ => format!("{count} tasks {more}"),
    };
    anyhow::ensure!(failed == 0, "{}{first}", tasks(failed, "failed", "failed"));
    anyhow::ensure!(
        missing == 0 || partial,
        "{}, first {}; see the end of the report, or allow it with --partial",
        tasks(missing, "has no data", "have no data"),
        report.missing.first().map_or("", |it| it.data.as_str())
    );
    anyhow::ensure!(!report.measured.is_empty(), "nothing was measured: none of the data sets is present");
    Ok(())
}

/// Finds data sets as subfolders of a folder.
struct FolderFinder<'a>(&'a Path);

/// The content of `source.toml`: the source of a data set that is not built in or has another layout.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SourceToml {
    kind: String,
    /// Relative to the folder of the data set.
    path: Option<PathBuf>,
    split: Option<String>,
    /// Further folders that photos may be read from, relative to the folder of the data set.
    #[serde(default)]
    roots: Vec<PathBuf>,
    #[serde(default)]
    options: BTreeMap<String, serde_json::Value>,
    /// File of `parent child` edges, relative to the folder of the data set.
    tree: Option<PathBuf>,
}

/// An example of `source.toml` for error messages.
const EXAMPLE: &str = "    kind = \"image_folder\"\n    path = \"photos\"\n    options = {}";
const SOURCE_TOML: &str = "source.toml";

impl DataSetFinder for FolderFinder<'_> {
    fn data_set(&self, name: &str) -> Result<DataSetLookup> {
        let folder = self.0.join(name);
        let description = folder.join(SOURCE_TOML);
        if !description.is_file() {
            return self.built_in(name, &folder, &description);
        }
        let refuse = |found: String| Error::Invalid {
            name: description.display().to_string(),
            found,
            expected: "kind, path, split, roots, options, tree".into(),
        };
        let text = std::fs::read_to_string(&description).map_err(|error| refuse(error.to_string()))?;
        let described: SourceToml = toml::from_str(&text).map_err(|error| refuse(error.to_string()))?;
        let source = open(&SourceSpec {
            kind: described.kind,
            path: described.path.map(|path| folder.join(path)),
            split: described.split,
            roots: described.roots.iter().map(|root| folder.join(root)).collect(),
            options: described.options,
        })?;
        let tree = described.tree.map(|path| TreeFile::read(&folder.join(path))).transpose()?;
        Ok(DataSetLookup::Present { source, tree })
    }

    fn prompts(&self, family: &str, data_set: &str) -> Result<Vec<String>> {
        let families = prompts::PromptFamily::ALL;
        let templates = match families.iter().find(|it| it.name() == family) {
            Some(&family) => prompts::for_data_set(family, data_set),
            None => prompts::SETS.iter().find(|(name, _)| *name == family).map(|it| it.1),
        };
        let known = || families.iter().map(|it| it.name()).chain(prompts::SETS.iter().map(|it| it.0));
        let templates = templates.ok_or_else(|| Error::Invalid {
            name: format!("prompts of data set {data_set}"),
            found: format!("`{family}`"),
            expected: format!(
                "{} (the first {} exist only for some data sets)",
                known().collect::<Vec<_>>().join(", "),
                families.len()
            ),
        })?;
        Ok(templates.iter().map(|&template| template.to_owned()).collect())
    }
}

impl FolderFinder<'_> {
    /// A built-in data set in its standard layout.
    fn built_in(&self, name: &str, folder: &Path, description: &Path) -> Result<DataSetLookup> {
        let Ok(set) = sets::find(name) else {
            return Ok(DataSetLookup::Absent {
                layout: format!("no data set of this name is built in, so it needs {}", description.display()),
                get: format!(
                    "the file describes how to read the data set (kinds: conifer data list), for example\n{EXAMPLE}"
                ),
            });
        };
        if !set.is_below(self.0) {
            return Ok(DataSetLookup::Absent {
                layout: match set.beside {
                    [] => format!("{}/ with {}", folder.display(), set.layout),
                    _ => format!("{}/ with {}", self.0.display(), set.layout),
                },
                get: set.get.to_owned(),
            });
        }
        let tree = set.tree.map(|file| folder.join(file)).filter(|path| path.is_file());
        let tree = tree.map(|path| TreeFile::read(&path)).transpose()?;
        Ok(DataSetLookup::Present { source: set.open(folder)?, tree })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn data_sets_are_read_from_source_toml() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("letters");
        std::fs::create_dir(&folder).unwrap();
        let finder = FolderFinder(root.path());
        let DataSetLookup::Absent { layout, get } = finder.data_set("letters").unwrap() else {
            panic!("nothing is there")
        };
        assert!(layout.contains("letters/source.toml"), "{layout}");
        let example: String = get.lines().filter(|line| line.contains('=')).map(|line| format!("{line}\n")).collect();
        assert_eq!(toml::from_str::<SourceToml>(&example).unwrap().kind, "image_folder");

        std::fs::write(folder.join("d.jsonl"), "{\"id\": \"a\", \"captions\": [\"a dog\"]}\n").unwrap();
        std::fs::write(folder.join("edges.txt"), "root a\nroot b\n").unwrap();
        let describe = |text: &str| std::fs::write(folder.join("source.toml"), text).unwrap();
        describe("kind = \"jsonl\"\npath = \"d.jsonl\"\ntree = \"edges.txt\"\n");
        let DataSetLookup::Present { source, tree } = finder.data_set("letters").unwrap() else {
            panic!("it is there")
        };
        assert_eq!((source.len(), tree.unwrap().graph.len()), (1, 3));

        describe("kind = \"jsonl\"\npaht = \"d.jsonl\"\n");
        let error = finder.data_set("letters").err().unwrap().to_string();
        assert!(error.contains("source.toml") && error.contains("paht"), "{error}");
    }
}
