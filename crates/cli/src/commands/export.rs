//! `conifer export`: writes embeddings for other search engines.

mod parquet;
mod qdrant;

use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use conifer_geometry::spaces::lorentz::time_excess;
use conifer_index::Snapshot;
use conifer_index::export::Augmented;
use serde_json::json;

use crate::arguments::{EngineArg, ExportArgs};
use crate::output::{print, print_json};
use crate::progress;
use crate::request::open_rows;

/// The rows to export, and their vectors for a Euclidean engine.
struct ExportRows<'a> {
    rows: &'a Snapshot,
    vectors: &'a Augmented,
}

/// The size of a finished export.
pub(crate) struct ExportSummary {
    /// Number of rows.
    pub(crate) rows: usize,
    /// Length of each vector.
    dim: usize,
}

pub(crate) fn run(args: ExportArgs, as_json: bool) -> anyhow::Result<()> {
    let ExportSummary { rows, dim } = write_folder(&args)?;
    let out = &args.out;
    let files: Vec<String> = fs::read_dir(out)?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<std::io::Result<_>>()?;
    if as_json {
        return print_json(&json!({ "rows": rows, "dim": dim, "out": out, "files": files }));
    }
    print(&format!("{rows} rows of {dim} numbers: {}\n", out.display()))
}

/// Writes the folder of an export.
pub(crate) fn write_folder(args: &ExportArgs) -> anyhow::Result<ExportSummary> {
    let out = &args.out;
    ensure!(!out.exists(), "{} exists; expected a new folder", out.display());
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    ensure!(
        !args.name.is_empty() && args.name.chars().all(plain),
        "--name is `{}`; expected letters, digits, - and _",
        args.name
    );
    let rows = open_rows(&args.set)?;
    ensure!(!rows.is_empty(), "{}: the set has no rows, so there is nothing to export", args.set.display());
    rows.check()?;
    let vectors = match args.radius {
        Some(radius) => Augmented::within(&rows.spec, radius).context("--radius")?,
        None => Augmented::around(&rows.spec, (0..rows.len()).map(|i| rows.row(i)))?,
    };
    let is_free = |_: &Path| bail!("the folder exists; expected a new one");
    conifer_files::create_folder(out, is_free, |fresh| {
        write(args, &ExportRows { rows: &rows, vectors: &vectors }, fresh)
    })
    .with_context(|| out.display().to_string())?;
    Ok(ExportSummary { rows: rows.len(), dim: vectors.dim() })
}

fn write(args: &ExportArgs, rows: &ExportRows<'_>, dir: &Path) -> anyhow::Result<()> {
    let bar = progress::bar("rows", rows.rows.len());
    let mut progress = |done: usize| bar.set_position(done as u64);
    match args.to {
        EngineArg::Qdrant => qdrant::write(rows, &args.name, dir, &mut progress)?,
        EngineArg::Lancedb | EngineArg::Parquet => parquet::write(rows, &dir.join("rows.parquet"), &mut progress)?,
    }
    bar.finish_and_clear();
    if args.to == EngineArg::Lancedb {
        fs::write(dir.join("import.py"), lancedb(&args.name, rows.vectors.dim()))?;
    }
    let mut description = rows.vectors.describe();
    description["format"] = json!("conifer export");
    description["rows"] = json!(rows.rows.len());
    description["version"] = json!(rows.rows.version());
    description["root"] = json!(rows.rows.root);
    description["source"] = json!(rows.rows.source);
    description["columns"] = json!(rows.rows.columns.keys().collect::<Vec<_>>());
    fs::write(dir.join("space.json"), serde_json::to_vec_pretty(&description)?)?;
    Ok(())
}

impl ExportRows<'_> {
    fn vector(&self, row: usize) -> anyhow::Result<Vec<f32>> {
        let found = self.vectors.row(&self.rows.row(row));
        found.with_context(|| format!("row {row} (`{}`): farther from the origin than --radius", self.rows.ids[row]))
    }

    /// `sqrt(c) t(x)`, which a client needs to compute exterior angles. `None` unless the space is a single
    /// hyperboloid.
    fn time(&self, row: usize) -> Option<f64> {
        let [c] = self.rows.spec.curv[..] else { return None };
        let square: f64 = self.rows.row(row).iter().map(|v| f64::from(*v).powi(2)).sum();
        Some(1.0 + time_excess(square, c))
    }
}

/// Script that imports the Parquet file into LanceDB. It casts the vectors to fixed-size lists, a type that Parquet
/// lacks.
fn lancedb(name: &str, dim: usize) -> String {
    format!(
        "# Imports rows.parquet as the table `{name}` into ./lancedb; run it in this folder. Needs: pip install lancedb pyarrow\n\
         import lancedb, pyarrow as pa, pyarrow.parquet as pq\n\
         rows = pq.read_table(\"rows.parquet\")\n\
         rows = rows.rename_columns([name.replace(\".\", \"_\") for name in rows.column_names])\n\
         at = rows.schema.get_field_index(\"vector\")\n\
         rows = rows.set_column(at, \"vector\", rows[\"vector\"].cast(pa.list_(pa.float32(), {dim})))\n\
         lancedb.connect(\"lancedb\").create_table(\"{name}\", rows)  # then: .search(query).distance_type(\"l2\")\n"
    )
}
