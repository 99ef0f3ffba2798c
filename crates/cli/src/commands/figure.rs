//! `conifer figure`: figures of the papers as SVG, PNG and CSV.

mod crops;
mod data;
mod paths;
mod results;
mod runs;
mod sets;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use burn::tensor::Device;
use conifer_viz::figures::{FIGURES, FigureEntry, FigureFont, FigureTable, figure};
use serde_json::json;

use crate::arguments::FigureArgs;
use crate::output::{print, print_json};

/// Reads the inputs of a figure into its table.
enum FigureReader {
    /// Reads files only.
    Files(fn(&FigureEntry, &FigureArgs) -> anyhow::Result<FigureTable>),
    /// Embeds with a checkpoint on a device.
    Model(fn(&FigureEntry, &FigureArgs, &Device) -> anyhow::Result<FigureTable>),
}

/// The reader of each figure in [`FIGURES`].
const READERS: &[(&str, FigureReader)] = &[
    ("depths", FigureReader::Files(sets::depths)),
    ("factor-depths", FigureReader::Files(sets::factor_depths)),
    ("factor-norms", FigureReader::Files(only_csv)),
    ("crop-depths", FigureReader::Model(crops::crop_depths)),
    ("box-areas", FigureReader::Files(data::box_areas)),
    ("class-frequencies", FigureReader::Files(data::class_frequencies)),
    ("pr-curves", FigureReader::Files(only_csv)),
    ("checklist", FigureReader::Files(results::checklist)),
    ("attribution", FigureReader::Files(results::attribution)),
    ("training", FigureReader::Files(runs::training)),
    ("ablation", FigureReader::Files(results::ablation)),
    ("chain", FigureReader::Files(paths::chain)),
    ("interpolation", FigureReader::Files(paths::interpolation)),
];

pub(crate) fn run(args: &FigureArgs, as_json: bool, device: &Device) -> anyhow::Result<()> {
    let (Some(name), Some(out)) = (&args.name, &args.out) else { return list(as_json) };
    let entry = figure(name).with_context(|| {
        let known: Vec<&str> = FIGURES.iter().map(|it| it.name).collect();
        format!("figure `{name}` is unknown; expected one of {}", known.join(", "))
    })?;
    let file = |extension: &str| out.join(format!("{name}.{extension}"));
    for path in [file("svg"), file("png"), file("csv")] {
        let is_free = args.overwrite || !path.exists();
        ensure!(is_free, "--out: {} exists; name another folder, or replace it with --overwrite", path.display());
    }
    let font_bytes = args.font.as_ref().map(|path| std::fs::read(path).with_context(|| place("--font", path)));
    let font_bytes = font_bytes.transpose()?;
    let font = match (&args.font, &font_bytes) {
        (Some(path), Some(bytes)) => FigureFont::of_file(&path.display().to_string(), bytes)?,
        _ => FigureFont::default(),
    };
    let reader = READERS.iter().find(|(known, _)| known == name).map(|(_, reader)| reader);
    let table = match own_tables(entry, args)? {
        Some(table) => table,
        None => match reader {
            Some(FigureReader::Files(read)) => read(entry, args),
            Some(FigureReader::Model(read)) => read(entry, args, device),
            None => only_csv(entry, args),
        }
        .with_context(|| format!("figure {name}"))?,
    };
    let drawing = (entry.draw)(&table, &font).with_context(|| format!("figure {name}"))?;
    let png = drawing.png(&font).with_context(|| format!("figure {name}"))?;

    std::fs::create_dir_all(out).with_context(|| place("--out", out))?;
    let picture = |number: usize| format!("{name}-{number}.png");
    let mut files = Vec::new();
    let mut keep = |path: PathBuf, bytes: &[u8]| {
        conifer_files::write_whole(&path, bytes)?;
        files.push(path);
        anyhow::Ok(())
    };
    keep(file("svg"), drawing.svg().as_bytes())?;
    keep(file("png"), &png)?;
    for (number, png) in table.pictures().enumerate() {
        keep(out.join(picture(number)), png)?;
    }
    keep(file("csv"), table.csv(picture).as_bytes())?;
    if as_json {
        return print_json(&json!({ "figure": name, "rows": table.len(), "files": files }));
    }
    let shown: Vec<String> = files.iter().map(|it| it.display().to_string()).collect();
    print(&format!("{name}: {} rows of data\n{}\n", table.len(), shown.join("\n")))
}

fn list(as_json: bool) -> anyhow::Result<()> {
    if as_json {
        let columns = |entry: &FigureEntry| entry.columns.iter().map(|it| json!({ "name": it.name, "help": it.help }));
        let entry = |it: &&FigureEntry| json!({ "name": it.name, "summary": it.summary, "inputs": it.inputs, "columns": columns(it).collect::<Vec<_>>() });
        return print_json(&FIGURES.iter().map(entry).collect::<Vec<_>>());
    }
    let mut text = String::from("conifer figure NAME INPUT... --out DIR\n");
    for it in FIGURES {
        let columns: Vec<&str> = it.columns.iter().map(|it| it.name).collect();
        text += &format!(
            "\n  {}  {}\n      inputs: {}\n      data: {}\n",
            it.name,
            it.summary,
            it.inputs,
            columns.join(",")
        );
    }
    print(&text)
}

/// The rows of the inputs, if all of them are CSV files with the columns of the figure.
fn own_tables(entry: &FigureEntry, args: &FigureArgs) -> anyhow::Result<Option<FigureTable>> {
    let mut found: Option<FigureTable> = None;
    for input in &args.inputs {
        let path = Path::new(input);
        if path.extension().is_none_or(|it| it != "csv") || !path.is_file() {
            return Ok(None);
        }
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let header: Vec<&str> = text.lines().next().unwrap_or_default().split(',').collect();
        if !entry.columns.iter().all(|it| header.contains(&it.name)) {
            return Ok(None);
        }
        let picture = |name: &str| picture_beside(path, name);
        let table = FigureTable::read_csv(entry.columns, &text, picture).with_context(|| path.display().to_string())?;
        match &mut found {
            None => found = Some(table),
            Some(all) => all.append(table),
        }
    }
    Ok(found)
}

/// A picture in the folder of a CSV file.
fn picture_beside(csv: &Path, name: &str) -> conifer_viz::Result<Vec<u8>> {
    let is_plain = Path::new(name).components().count() == 1 && Path::new(name).file_name().is_some();
    let refused = |found: String| conifer_viz::Error::Invalid {
        name: format!("picture `{name}`"),
        found,
        expected: "the name of a PNG file in the folder of the CSV file".to_owned(),
    };
    if !is_plain {
        return Err(refused("a path".to_owned()));
    }
    std::fs::read(csv.with_file_name(name)).map_err(|cause| refused(cause.to_string()))
}

/// Returns the error for figures that accept only CSV. It is called when [`own_tables`] found an input that is not a
/// CSV file with the columns of the figure.
fn only_csv(entry: &FigureEntry, args: &FigureArgs) -> anyhow::Result<FigureTable> {
    let columns: Vec<&str> = entry.columns.iter().map(|it| it.name).collect();
    let (inputs, columns) = (args.inputs.join(", "), columns.join(","));
    anyhow::bail!("{inputs}: no CSV file of this figure; expected {} with the columns {columns}", entry.inputs)
}

fn place(option: &str, path: &Path) -> String {
    format!("{option} {}", path.display())
}

/// The title of an input among several; empty if it is the only one.
fn title_of(args: &FigureArgs, input: &str) -> String {
    if args.inputs.len() > 1 { name_of(input) } else { String::new() }
}

/// The last part of a path, without the extension of a file.
fn name_of(input: &str) -> String {
    let path = Path::new(input);
    let name = if path.is_dir() { path.file_name() } else { path.file_stem() };
    name.map_or_else(|| input.to_owned(), |it| it.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_has_a_reader() {
        let readers: Vec<&str> = READERS.iter().map(|(name, _)| *name).collect();
        assert_eq!(readers, FIGURES.iter().map(|it| it.name).collect::<Vec<_>>());
    }
}
